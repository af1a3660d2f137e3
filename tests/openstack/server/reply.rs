//! Answers of a handler, and how each service dresses them.
//!
//! The services differ in small ways that a client may stumble over: the wrapper of an error, the
//! content type of an error, which headers come. Each difference names the transcript's case.

use super::http::{Response, reason};
use super::route::Service;
use serde_json::{Value, json};

/// A handler's answer: a reply, or why not.
pub type Answer = Result<Reply, Refusal>;

/// What a handler answers when it does what it was asked.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub body: Option<Value>,
    pub headers: Vec<(String, String)>,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, body: Some(body), headers: Vec::new() }
    }

    /// 200 with a body.
    pub fn ok(body: Value) -> Self {
        Self::json(200, body)
    }

    /// A status without a body.
    pub fn empty(status: u16) -> Self {
        Self { status, body: None, headers: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// Why a handler does not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
    /// Which of the forms the error takes.
    pub form: Form,
}

/// The forms of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The service's own.
    Service,
    /// The token check in front of Nova and Cinder (A25, A27).
    Token,
}

impl Refusal {
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), form: Form::Service }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(404, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "The request you have made requires authentication.")
    }

    pub fn policy(rule: &str) -> Self {
        Self::new(403, format!("Policy doesn't allow {rule} to be performed."))
    }

    #[must_use]
    pub fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }
}

/// What is needed to dress an answer.
#[derive(Debug, Clone)]
pub struct Dress {
    pub service: Service,
    /// The version that the answer names, such as `2.1`.
    pub version: Option<String>,
    /// The id of the request.
    pub request: String,
    /// Where Keystone is, for `WWW-Authenticate`.
    pub keystone: String,
}

impl Dress {
    /// A handler's answer as HTTP.
    pub fn response(&self, answer: Answer) -> Response {
        let response = match answer {
            Ok(reply) => Self::reply(reply),
            Err(refusal) => self.refusal(&refusal),
        };
        self.headers(response)
    }

    fn reply(reply: Reply) -> Response {
        let body = reply.body.map(|body| body.to_string()).unwrap_or_default();
        let mut response =
            Response { status: reply.status, headers: Vec::new(), body: body.into_bytes() };
        let typed = reply.headers.iter().any(|(name, _)| name == "Content-Type");
        if !typed && reply.status != 204 {
            response = response.with("Content-Type", "application/json");
        }
        response.headers.extend(reply.headers);
        response
    }

    fn refusal(&self, refusal: &Refusal) -> Response {
        let Refusal { code, message, .. } = refusal;
        let body = match (self.service, refusal.form) {
            (Service::Compute | Service::Storage, Form::Service) => {
                let mut inner = json!({"code": code, "message": message});
                if *code == 413 {
                    inner["retryAfter"] = json!("0");
                }
                json!({fault_name(*code): inner})
            }
            _ => {
                json!({"error": {"code": code, "message": message, "title": reason(*code)}})
            }
        };
        // Nova's own errors name a character set, all others do not (B9 against G3).
        let nova = self.service == Service::Compute && refusal.form == Form::Service;
        let kind = if nova { "application/json; charset=UTF-8" } else { "application/json" };
        let mut response = Response::new(*code, kind, body.to_string());
        if *code == 401 {
            let keystone = format!("Keystone uri=\"{}\"", self.keystone);
            response = response.with("WWW-Authenticate", keystone);
        }
        if *code == 413 && self.service == Service::Storage {
            response = response.with("Retry-After", "0");
        }
        response
    }

    /// The headers that every answer of a service has.
    fn headers(&self, mut response: Response) -> Response {
        response = response.with("X-Openstack-Request-Id", self.request.as_str());
        let word = match self.service {
            Service::Identity => return response.with("Vary", "X-Auth-Token"),
            Service::Compute => "compute",
            Service::Storage => "volume",
            Service::Metadata => return response,
        };
        response = response.with("X-Compute-Request-Id", self.request.as_str());
        if let Some(version) = &self.version {
            response = response.with("OpenStack-API-Version", format!("{word} {version}"));
            response = response.with("Vary", "OpenStack-API-Version");
            if self.service == Service::Compute {
                response = response.with("X-OpenStack-Nova-API-Version", version.as_str());
            }
        }
        response
    }
}

/// The name around an error of Nova or Cinder.
fn fault_name(code: u16) -> &'static str {
    match code {
        400 => "badRequest",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "itemNotFound",
        405 => "badMethod",
        409 => "conflictingRequest",
        413 => "overLimit",
        503 => "serviceUnavailable",
        _ => "computeFault",
    }
}
