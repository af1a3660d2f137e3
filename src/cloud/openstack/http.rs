//! HTTP to the cloud's services: one request at a time, within the machine's limits and the
//! call's deadline.
//!
//! What only reads is repeated when the network or the service fails. What changes something is
//! sent once: after an error that leaves open whether it took effect, the driver looks.

use super::client::{self, innermost};
use super::known_secrets::KnownSecrets;
use super::limiter::{Lane, Limiter};
use crate::host::worker;
use crate::model::cloud::access::Access;
use crate::model::cloud::asking::again::{Next, Tried, Tries};
use crate::model::cloud::asking::gate::Heard;
use crate::model::error::{Error, Kind, Result};
use crate::model::secret::Secret;
use crate::ports::clock::{Deadline, jittered};
use reqwest::blocking::{Client, Response};
use reqwest::header::{DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use std::cell::{Cell, OnceCell};
use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

pub(super) use reqwest::Method;
use reqwest::Url;

pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) url: String,
    /// The service's name, for messages.
    pub(super) service: &'static str,
    /// What it is about: two changes of one thing may wait for each other, others never do.
    pub(super) about: &'a str,
    /// Whether it may be sent again after an error that leaves open whether it took effect.
    pub(super) is_repeatable: bool,
    pub(super) token: Option<&'a Secret>,
    /// `compute 2.60` and its like.
    pub(super) version: Option<String>,
    pub(super) body: Option<Value>,
}

/// A service's answer, whatever its status.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    /// Without the secrets that this process knows.
    pub(super) body: Value,
    pub(super) subject_token: Option<Secret>,
    /// What it says in words, without anything that may be a secret.
    pub(super) words: String,
}

/// The client, built when the first request is made: it reads every certificate of the machine.
pub(super) struct Http {
    access: Access,
    limiter: Limiter,
    secrets: KnownSecrets,
    client: OnceCell<Client>,
    ahead: Cell<Option<i64>>,
}

/// A request that had less time than this says nothing of its service.
const SHORTEST: Duration = Duration::from_secs(1);

enum Sent {
    Answer(Response),
    /// It did not reach the service.
    Failed(Error),
    /// It may have.
    Unknown(Error),
}

impl Http {
    pub(super) fn new(access: Access, limiter: Limiter) -> Self {
        let secrets = KnownSecrets::of(&access);
        Self { access, limiter, secrets, client: OnceCell::new(), ahead: Cell::new(None) }
    }

    /// What no message of this process may quote.
    pub(super) fn secrets(&self) -> &KnownSecrets {
        &self.secrets
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Whether the cloud sent nothing away lately, and no service is left alone.
    pub(super) fn cloud_is_well(&self) -> bool {
        self.limiter.cloud_is_well()
    }

    /// By how many seconds the services' clock was ahead of ours with their last answer.
    pub(super) fn ahead(&self) -> Option<i64> {
        self.ahead.get()
    }

    /// Sends a request; an answer of any status is an answer.
    pub(super) fn send(&self, request: &Request<'_>, deadline: Deadline) -> Result<HttpAnswer> {
        request.token.into_iter().for_each(|token| self.secrets.add(token));
        let lane =
            if request.method == Method::GET { Lane::Read } else { Lane::Change(request.about) };
        let asked = format!("{} at {}", request.service, host_of(&request.url));
        let _waiting = worker::waits_for(&format_args!("{asked}"), deadline.remaining());
        worker::service_is_asked();
        let mut last: Option<Error> = None;
        // What the service itself said is worth more than that it says nothing any more.
        let mut said: Option<Error> = None;
        let mut tries = Tries::of(request.is_repeatable);
        loop {
            let leave = match self.limiter.enter(&asked, lane, deadline) {
                Ok(leave) => leave,
                Err(busy) => return Err(reason(said, last).unwrap_or(busy)),
            };
            let had_time = deadline.remaining() >= SHORTEST;
            let (sent, outcome) = (leave.sent(), self.once(request, deadline)?);
            drop(leave);
            let report = |heard| self.limiter.report(&asked, heard, sent);
            // A service is not silent because the call had no time left for it.
            let is_its_own = |error: &Error| had_time || error.kind != Kind::Timeout;
            let (became, outcome) = match outcome {
                Sent::Answer(response) => {
                    worker::service_answered();
                    self.ahead.set(ahead_in(response.headers(), SystemTime::now()));
                    let status = response.status().as_u16();
                    let asked_for = retry_after(response.headers());
                    let until = deadline.at_most(self.patience(request));
                    let answer = read(request, response, &self.secrets, until)?;
                    match status {
                        429 => report(Heard::Full),
                        500.. => report(Heard::Failure(&failed(request.service, &answer).cause)),
                        _ => report(Heard::Answer),
                    }
                    (Tried::Answered { status, asked_for }, Ok(answer))
                }
                Sent::Failed(error) => {
                    if is_its_own(&error) {
                        report(Heard::Failure(&error.cause));
                    }
                    (Tried::NotReached, Err(error))
                }
                Sent::Unknown(error) => {
                    if is_its_own(&error) {
                        report(Heard::Failure(&error.cause));
                    }
                    (Tried::Unknown, Err(error))
                }
            };
            let pause = match tries.after(became, deadline.remaining()) {
                Next::Nothing => return outcome,
                Next::Again(pause) => jittered(pause),
                Next::AgainTogether(pause) => self.limiter.refused(pause, sent),
            };
            match outcome {
                Ok(answer) => {
                    said = Some(failed(request.service, &answer));
                    last = None;
                }
                Err(error) => last = Some(error),
            }
            tracing::debug!(
                service = request.service,
                ?pause,
                reason = last.as_ref().or(said.as_ref()).map(|e| e.cause.as_str()),
                "asking again"
            );
            if !deadline.pause(pause) {
                break;
            }
        }
        Err(reason(said, last)
            .unwrap_or_else(|| Error::new(Kind::Timeout, format!("{asked} was not asked in time"))))
    }

    fn once(&self, request: &Request<'_>, deadline: Deadline) -> Result<Sent> {
        let limit = self.patience(request);
        let mut builder = self
            .client()?
            .request(request.method.clone(), &request.url)
            .timeout(limit.min(deadline.remaining()).max(Duration::from_millis(1)))
            .headers(headers(request)?);
        if let Some(body) = &request.body {
            builder = builder.json(body);
        }
        Ok(match builder.send() {
            Ok(response) => Sent::Answer(response),
            Err(error) if is_distrust(&error) => return Err(distrusted(request, &error)),
            Err(error) => {
                let trouble = unreachable(request, &error);
                if error.is_connect() || error.is_builder() {
                    Sent::Failed(trouble)
                } else {
                    Sent::Unknown(trouble)
                }
            }
        })
    }

    /// How long one request may take, and then once more its answer's body.
    fn patience(&self, request: &Request<'_>) -> Duration {
        let timeouts = &self.access.timeouts;
        if request.method == Method::GET { timeouts.of_a_read() } else { timeouts.of_a_change() }
    }

    fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client =
            client::build(&self.access).map_err(|error| self.secrets.error_without(&error))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// Why a request was given up: what the service said first, then what became of the last try.
fn reason(said: Option<Error>, last: Option<Error>) -> Option<Error> {
    match (said, last) {
        (Some(said), Some(last)) => {
            let cause = format!("{}; then {}", said.cause, last.cause);
            Some(Error { cause, ..last })
        }
        (said, last) => said.or(last),
    }
}

fn headers(request: &Request<'_>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let unsendable = |_| Error::new(Kind::Bug, "a header cannot be sent");
    if let Some(token) = request.token {
        let mut value = HeaderValue::from_str(token.reveal()).map_err(unsendable)?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static("x-auth-token"), value);
    }
    if let Some(version) = &request.version {
        let value = HeaderValue::from_str(version).map_err(unsendable)?;
        headers.insert(HeaderName::from_static("openstack-api-version"), value);
    }
    Ok(headers)
}

/// Longer answers are refused: a list's page of a thousand volumes has some 2 MiB.
const LONGEST_BODY: usize = 8 << 20;

fn read(
    request: &Request<'_>,
    response: Response,
    secrets: &KnownSecrets,
    until: Deadline,
) -> Result<HttpAnswer> {
    let status = response.status().as_u16();
    let subject_token = response
        .headers()
        .get("x-subject-token")
        .and_then(|value| value.to_str().ok())
        .map(Secret::from);
    if let Some(token) = &subject_token {
        secrets.add(token);
    }
    let id = response.headers().get("x-openstack-request-id").and_then(|v| v.to_str().ok());
    let (url, id) = (secrets.text_without(&request.url), id.map(|id| secrets.text_without(id)));
    tracing::debug!(service = request.service, method = %request.method, url, status, id, "answered");
    let bytes =
        client::body_of(response, LONGEST_BODY, until).map_err(|error| torn(request, &error))?;
    // A proxy may answer in HTML: the text is kept for the message.
    let mut body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    let words = words(&body, secrets);
    secrets.strip(&mut body);
    Ok(HttpAnswer { status, body, subject_token, words })
}

/// An answer that has no end, or broke off.
fn torn(request: &Request<'_>, error: &std::io::Error) -> Error {
    let (service, host) = (request.service, host_of(&request.url));
    let (kind, what, hint) = match error.kind() {
        ErrorKind::FileTooLarge => (
            Kind::Unreachable,
            format!("does not end its answer: more than {} MiB came", LONGEST_BODY >> 20),
            "is it the cloud's service that answers at this address?",
        ),
        ErrorKind::TimedOut => (
            Kind::Timeout,
            "did not end its answer in time".to_owned(),
            "the service sends too slowly: see whether it works",
        ),
        _ => {
            let inside = error.get_ref().and_then(|inside| inside.downcast_ref());
            return match inside {
                Some(inside) => unreachable(request, inside),
                None => Error::new(
                    Kind::Unreachable,
                    format!("{service} at {host} broke its answer off: {error}"),
                ),
            };
        }
    };
    Error::new(kind, format!("{service} at {host} {what}")).hint(hint)
}

/// An answer as an error: the service, its status and its own words.
pub(super) fn failed(service: &str, answer: &HttpAnswer) -> Error {
    let kind = match answer.status {
        401 | 403 => Kind::Config,
        404 => Kind::Missing,
        409 => Kind::Busy,
        400..=499 => Kind::Refused,
        _ => Kind::Unreachable,
    };
    Error::new(kind, format!("{service} answered {}: {}", answer.status, answer.words))
}

/// Where a text is cut so that no more than this is left.
fn cut_at(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first text that an error's body holds, in whichever of its shapes. A service may quote what it was
/// sent: secrets are taken out before the text is cut, or a part of one would be left.
pub(super) fn words(body: &Value, secrets: &KnownSecrets) -> String {
    const LONGEST: usize = 300;
    /// What is looked at; a page can have megabytes.
    const READ: usize = 16 << 10;
    fn first(value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => Some(text),
            Value::Object(map) => map.get("message").and_then(Value::as_str).or_else(|| {
                map.values().find_map(|inner| if inner.is_object() { first(inner) } else { None })
            }),
            _ => None,
        }
    }
    let text = first(body).unwrap_or("no reason given");
    let text = &secrets.text_without(&text[..cut_at(text, READ)]);
    // Of a proxy's page only the words.
    let mut plain = String::new();
    let mut in_tag = false;
    for c in text.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => plain.push(if c.is_control() { ' ' } else { c }),
            _ => {}
        }
    }
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    // Without tags and line breaks the parts of a secret may have come together.
    let mut plain = secrets.text_without(&plain);
    plain.truncate(cut_at(&plain, LONGEST));
    plain
}

/// Seconds, or a date: by the service's own clock, and by ours only where it does not tell it.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let theirs =
        headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let now = theirs.unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default())
}

/// By how many whole seconds an answer's own date is ahead of ours.
pub(super) fn ahead_in(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Some(match date.duration_since(now) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    })
}

fn unreachable(request: &Request<'_>, error: &reqwest::Error) -> Error {
    let kind = if error.is_timeout() { Kind::Timeout } else { Kind::Unreachable };
    let (service, host, why) = (request.service, host_of(&request.url), innermost(error));
    Error::new(kind, format!("{service} at {host} does not answer: {why}"))
        .hint("is the cloud's address right and reachable from this machine?")
}

/// Host and port of an address, without what may stand before them.
pub(super) fn host_of(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return "an address that cannot be read".to_owned() };
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// Whether the service's certificate is not trusted: asking again would not change that.
fn is_distrust(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(found) = error.downcast_ref::<rustls::Error>() {
        return matches!(found, rustls::Error::InvalidCertificate(_));
    }
    // What an I/O error was made of it does not show as its source.
    let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inside.is_some_and(|inside| is_distrust(inside)) || error.source().is_some_and(is_distrust)
}

fn distrusted(request: &Request<'_>, error: &reqwest::Error) -> Error {
    let (service, host, why) = (request.service, host_of(&request.url), innermost(error));
    Error::new(
        Kind::Config,
        format!("{service} at {host} shows a certificate that is not trusted: {why}"),
    )
    .hint("name the cloud's authority in openstack.ca_file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_is_named_by_host_and_port() {
        for (url, name) in [
            ("http://127.0.0.1:4711/identity/v3/auth/tokens", "127.0.0.1:4711"),
            ("https://cloud.example/v3?name=a:b", "cloud.example"),
            ("http://[::1]:80/compute", "[::1]"),
            ("http://user:secret@cloud.example:8774/", "cloud.example:8774"),
            ("cloud.example/v3", "an address that cannot be read"),
        ] {
            assert_eq!(host_of(url), name);
        }
    }

    #[test]
    fn a_pause_is_read_in_both_forms() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
            retry_after(&headers)
        };
        assert_eq!(of(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let soon = SystemTime::now() + Duration::from_secs(30);
        let pause = of(&httpdate::fmt_http_date(soon)).unwrap();
        assert!((28..=30).contains(&pause.as_secs()), "{pause:?}");
        assert_eq!(of("soon"), None);
        // By the clock of the one who says it, however wrong ours is.
        let theirs = SystemTime::now() + Duration::from_secs(10 * 365 * 86_400);
        let mut headers = HeaderMap::new();
        let date = |at| HeaderValue::from_str(&httpdate::fmt_http_date(at)).unwrap();
        headers.insert(DATE, date(theirs));
        headers.insert(RETRY_AFTER, date(theirs + Duration::from_secs(20)));
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(20)));
    }

    #[test]
    fn an_answers_date_is_compared_with_our_clock() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (date, expected) in
            [(now, 0), (now + Duration::from_secs(90), 90), (now - Duration::from_secs(90), -90)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(DATE, HeaderValue::from_str(&httpdate::fmt_http_date(date)).unwrap());
            assert_eq!(ahead_in(&headers, now), Some(expected));
        }
        assert_eq!(ahead_in(&HeaderMap::new(), now), None);
    }

    #[test]
    fn the_words_of_an_error_are_found_in_every_shape() {
        for (body, expected) in [
            (
                json!({"badRequest": {"code": 400, "message": "Invalid volume: x"}}),
                "Invalid volume: x",
            ),
            (json!({"error": {"code": 401, "message": "no", "title": "Unauthorized"}}), "no"),
            (json!({"message": "m", "code": "404 Not Found", "title": "t"}), "m"),
            (json!("<html><h1>502 Bad\nGateway</h1></html>"), "502 Bad Gateway"),
            (json!({}), "no reason given"),
            (json!([1]), "no reason given"),
        ] {
            assert_eq!(words(&body, &KnownSecrets::default()), expected);
        }
        assert!(words(&json!("x".repeat(9999)), &KnownSecrets::default()).len() <= 300);
    }

    #[test]
    fn no_part_of_a_quoted_secret_is_left_where_the_words_are_cut() {
        let secrets = KnownSecrets::default();
        secrets.add(&"hunter2-canary-of-a-login".into());
        for before in 250..310 {
            let body = json!(format!("{} hunter2-canary-of-a-login is wrong", "x".repeat(before)));
            assert!(!words(&body, &secrets).contains("hunt"), "{before}");
        }
        for (quoted, left) in [
            ("<b>hunter2-</b>canary-of-a-login", "(redacted)"),
            ("hunter2-canary-of-a-login", "(redacted)"),
            // The signs that fill up base 64 tell nothing.
            ("aHVudGVyMi1jYW5hcnktb2YtYS1sb2dpbg==", "(redacted)=="),
        ] {
            let told = words(&json!({"error": {"message": format!("for {quoted}: no")}}), &secrets);
            assert_eq!(told, format!("for {left}: no"));
        }
        let at_the_end = json!("x ".repeat((16 << 10) / 2 - 5) + "hunter2-canary-of-a-login");
        assert!(!words(&at_the_end, &secrets).contains("hunter2"));
    }
}
