//! What goes wrong on the wire: answers of proxies, lost answers, cut and slow connections.

use super::http::{Request, Response};
use super::route::Route;
use serde_json::{Value, json};
use std::time::Duration;

/// A fault: which requests it meets, and what becomes of them.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a trouble of its own")]
pub struct Fault {
    /// `POST`, or `*` for any.
    pub method: String,
    /// The path behind version and project, such as `/servers/*/os-volume_attachments`; `*` is one
    /// segment, `**` at the end is all that follows. An id in place of a `*` meets only that one.
    pub path: String,
    /// Only this service: `identity`, `compute`, `volume` or `metadata`.
    pub service: Option<String>,
    /// Only this region, as the path names it: the first one has an empty name.
    pub region: Option<String>,
    /// Only requests whose body has this text, such as a volume's id.
    pub containing: Option<String>,
    /// So many requests pass first.
    pub skip: u64,
    /// Then so many are met; 0: all.
    pub times: u64,
    /// Milliseconds to wait first, in real time.
    pub delay: u64,
    /// Answer this in place of the service.
    pub reply: Option<Scripted>,
    /// The service acts all the same before `reply` is given.
    pub take_effect: bool,
    /// Close the connection instead of answering.
    pub cut: Option<Cut>,
    /// Instead of closing it, say nothing until the client gives up.
    pub hold: bool,
    /// Milliseconds between the pieces of a body that trickles.
    pub trickle: u64,
    /// A body that has no end, in chunks, with `trickle` between them.
    pub endless: bool,
}

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before the request takes effect.
    Before,
    /// After it took effect; the answer is lost.
    After,
    /// After it took effect, in the middle of the answer's body.
    Middle,
}

/// An answer that no service gave.
#[derive(Debug, Clone)]
pub struct Scripted {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// JSON, or a text as it is.
    pub body: Value,
}

impl Fault {
    /// Meets the first request of a method and path; more is said with the methods below.
    pub fn on(method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { method, path, times: 1, ..Self::default() }
    }

    /// Meets the `n`th request first, counted from one.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// Meets so many requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Meets all requests from then on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(0)
    }

    /// Meets only requests of this service.
    #[must_use]
    pub fn service(mut self, word: &str) -> Self {
        self.service = Some(word.to_owned());
        self
    }

    /// Meets only requests in the region that paths name so; the first one has an empty name.
    #[must_use]
    pub fn region(mut self, name: &str) -> Self {
        self.region = Some(name.to_owned());
        self
    }

    /// Meets only requests whose body has a text.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.containing = Some(text.to_owned());
        self
    }

    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self
    }

    #[must_use]
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = Some(cut);
        self
    }

    /// Says nothing from that moment on, until the client gives up or is killed; see
    /// [`Server::wait_held`](super::Server::wait_held).
    #[must_use]
    pub fn hold(mut self, cut: Cut) -> Self {
        self.hold = true;
        self.cut(cut)
    }

    /// Answers a status with a body; a text is sent as HTML, as proxies do.
    #[must_use]
    pub fn reply(mut self, status: u16, body: Value) -> Self {
        self.reply = Some(Scripted { status, headers: Vec::new(), body });
        self
    }

    /// Answers as a proxy in front of the service.
    #[must_use]
    pub fn proxy(self, status: u16) -> Self {
        self.reply(status, Value::String(page(status)))
    }

    /// Answers as if the token were worthless, whatever it is.
    #[must_use]
    pub fn unauthorized(self) -> Self {
        let message = "The request you have made requires authentication.";
        let error = json!({"code": 401, "title": "Unauthorized", "message": message});
        self.reply(401, json!({"error": error}))
    }

    /// Adds a header to the answer given by [`Fault::reply`] or [`Fault::proxy`].
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(reply) = &mut self.reply {
            reply.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The service acts before the scripted answer is given.
    #[must_use]
    pub fn after_effect(mut self) -> Self {
        self.take_effect = true;
        self
    }

    /// The body comes piece by piece, with a pause between.
    #[must_use]
    pub fn trickle(mut self, pause: Duration) -> Self {
        self.trickle = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// The body has no end.
    #[must_use]
    pub fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    fn meets(&self, request: &Request, route: &Route) -> bool {
        let service = self.service.as_deref().is_none_or(|word| word == route.service.word());
        let region = self.region.as_deref();
        let in_region =
            region.is_none_or(|name| name == route.region.as_deref().unwrap_or_default());
        let method = self.method == "*" || self.method == request.method;
        let contains =
            |text: &String| String::from_utf8_lossy(&request.body).contains(text.as_str());
        service
            && in_region
            && method
            && fits(&self.path, &route.rest)
            && self.containing.as_ref().is_none_or(contains)
    }

    /// Takes the fault that meets a request; each that does not yet counts the request.
    pub fn take(faults: &mut Vec<Self>, request: &Request, route: &Route) -> Option<Self> {
        for at in 0..faults.len() {
            let fault = &mut faults[at];
            if !fault.meets(request, route) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            let taken = fault.clone();
            match fault.times {
                0 => {}
                1 => drop(faults.remove(at)),
                _ => fault.times -= 1,
            }
            return Some(taken);
        }
        None
    }
}

impl Scripted {
    /// The answer as HTTP.
    pub fn response(&self) -> Response {
        let (kind, body) = match &self.body {
            Value::Null => ("text/plain", String::new()),
            Value::String(text) => ("text/html", text.clone()),
            other => ("application/json", other.to_string()),
        };
        let mut response = Response::new(self.status, kind, body);
        for (name, value) in &self.headers {
            response.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            response = response.with(name, value.as_str());
        }
        response
    }
}

/// The page of a proxy.
pub fn page(status: u16) -> String {
    let reason = super::http::reason(status);
    format!("<html><body><h1>{status} {reason}</h1>\nThe proxy could not do it.\n</body></html>\n")
}

/// Whether a path fits a pattern.
fn fits(pattern: &str, path: &[String]) -> bool {
    let mut rest = path.iter();
    for segment in pattern.split('/').filter(|segment| !segment.is_empty()) {
        if segment == "**" {
            return true;
        }
        let Some(word) = rest.next() else { return false };
        if segment != "*" && segment != word {
            return false;
        }
    }
    rest.next().is_none()
}
