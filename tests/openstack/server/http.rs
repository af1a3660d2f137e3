//! HTTP/1.1 as far as a client of these services needs it: one request after another on a
//! connection, bodies with a length.
//!
//! By hand and not by hyper: hyper drops the work of a client that hangs up, which a service finishes
//! all the same, and ends no answer in its middle.

use percent_encoding::percent_decode_str;
use reqwest::StatusCode;
use serde_json::Value;
use std::io::{self, BufRead, Read, Write};

/// Longest head and body that are read; no client of ours comes near.
const HEAD_LIMIT: u64 = 64 * 1024;
const BODY_LIMIT: usize = 4 * 1024 * 1024;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// The path's segments, percent-decoded, empty ones left out.
    pub path: Vec<String>,
    /// The query, percent-decoded; a name without a value has an empty one.
    pub query: Vec<(String, String)>,
    /// The target as it was written.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of a name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The first value of a name in the query.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Reads the next request; none when the client has closed the connection.
    pub fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        let mut limited = stream.take(HEAD_LIMIT);
        loop {
            let before = head.len();
            if limited.read_until(b'\n', &mut head)? == 0 {
                return if before == 0 { Ok(None) } else { Err(bad("the head is not complete")) };
            }
            if matches!(&head[before..], b"\r\n" | b"\n") {
                break;
            }
        }
        let head = String::from_utf8(head).map_err(|_| bad("the head is not UTF-8"))?;
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(bad("no request line"));
        };
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect();
        let length = header(&headers, "content-length").unwrap_or("0");
        let length: usize = length.parse().map_err(|_| bad("no number in Content-Length"))?;
        if length > BODY_LIMIT || header(&headers, "transfer-encoding").is_some() {
            return Err(bad("a body without a length, or a too long one"));
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Some(Self::new(method, target, headers, body)))
    }

    fn new(method: &str, target: &str, headers: Vec<(String, String)>, body: Vec<u8>) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode = |segment: &str| percent_decode_str(segment).decode_utf8_lossy().into_owned();
        Self {
            method: method.to_owned(),
            path: path.split('/').filter(|s| !s.is_empty()).map(decode).collect(),
            query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            target: target.to_owned(),
            headers,
            body,
        }
    }
}

/// The first header of a name, in any case.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let response = Self { status, headers: Vec::new(), body: body.into() };
        response.with("Content-Type", content_type)
    }

    /// The response with one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The head, with the body's length.
    pub fn head(&self) -> Vec<u8> {
        let mut head = self.head_without_length();
        head.truncate(head.len() - 2);
        // RFC 9110: an answer with 204 has no body and no length.
        if self.status != 204 {
            let length = self.body.len();
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The same for a body in chunks.
    pub fn head_without_length(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Writes all of it at once.
    pub fn write(&self, stream: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let mut all = self.head();
        all.extend_from_slice(&self.body);
        stream.write_all(&all)?;
        stream.flush()
    }
}

/// The words after a status.
pub fn reason(status: u16) -> &'static str {
    match StatusCode::from_u16(status) {
        // The services use the older words of RFC 2616.
        Ok(StatusCode::PAYLOAD_TOO_LARGE) => "Request Entity Too Large",
        Ok(status) => status.canonical_reason().unwrap_or("Status"),
        Err(_) => "Status",
    }
}
