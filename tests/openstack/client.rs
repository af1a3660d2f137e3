//! A client of few lines, so that the server is tested without the driver's own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        crate::server::http::header(&self.headers, name)
    }
}

/// A connection that is kept between requests.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to an address such as `http://127.0.0.1:4711`.
    pub(crate) fn open(url: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(url.trim_start_matches("http://"))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a request without waiting for its answer.
    pub(crate) fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<()> {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: cloud\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.stream.get_mut().write_all(text.as_bytes())
    }

    /// Reads an answer; an error if the connection ends before it is whole.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = lines.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers: Vec<(String, String)> = lines
            .iter()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let length = crate::server::http::header(&headers, "Content-Length");
        let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
        self.stream.read_exact(&mut body)?;
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Answer { status, headers, body })
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        self.send(method, target, headers, body)?;
        self.receive()
    }
}

/// Asks on a connection of its own.
pub(crate) fn ask(
    url: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    Connection::open(url)?.ask(method, target, headers, body)
}
