//! Connections: a thread for each, one request after another, and what faults make of them.

use super::fault::{Cut, Fault, page};
use super::http::{Request, Response};
use super::route::{Route, Service};
use super::shared::{Shared, lock};
use super::{control, handle};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A connection as bytes.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// What is between the network and HTTP: nothing, or TLS.
pub trait Wrap: Send + Sync {
    /// `http` or `https`.
    fn scheme(&self) -> &'static str;

    /// Wraps a connection; an error ends it.
    fn wrap(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>>;
}

/// Nothing in between.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Wrap for Plain {
    fn scheme(&self) -> &'static str {
        "http"
    }

    fn wrap(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(stream))
    }
}

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Request,
    Close,
}

/// Takes connections until the server stops.
pub fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if shared.is_stopping() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let _ = stream.set_nodelay(true);
        if let Ok(known) = stream.try_clone() {
            lock(&shared.connections).insert(number, known);
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A client that is gone is no news: what it asked for was done (L).
            let _ = serve(&shared, stream);
            if let Some(known) = lock(&shared.connections).remove(&number) {
                let _ = known.shutdown(Shutdown::Both);
            }
        });
    }
}

fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(shared.wrap.wrap(stream)?);
    while let Some(request) = Request::read(&mut stream)? {
        let closing = request.header("Connection").is_some_and(|v| v.eq_ignore_ascii_case("close"));
        let next = exchange(shared, &request, stream.get_mut().as_mut())?;
        if closing || next == Next::Close {
            return Ok(());
        }
    }
    Ok(())
}

/// One request and its answer.
fn exchange(shared: &Shared, request: &Request, stream: &mut dyn Stream) -> io::Result<Next> {
    let Some(route) = Route::of(request) else {
        Response::new(404, "text/html", page(404)).write(stream)?;
        return Ok(Next::Request);
    };
    if route.service == Service::Control {
        control::answer(shared, request, &route).write(stream)?;
        return Ok(Next::Request);
    }
    let place = shared.traffic().arrive(request, &route);
    let result = answer(shared, request, &route, stream);
    let status = result.as_ref().ok().and_then(|(status, _)| *status);
    shared.traffic().leave(place, status);
    result.map(|(_, next)| next)
}

/// Answers, or lets a fault have its way; gives the status that the client could see.
fn answer(
    shared: &Shared,
    request: &Request,
    route: &Route,
    stream: &mut dyn Stream,
) -> io::Result<(Option<u16>, Next)> {
    if let Some(response) = over_the_limit(shared) {
        response.write(stream)?;
        return Ok((Some(response.status), Next::Request));
    }
    let fault = Fault::take(&mut shared.world().faults, request, route).unwrap_or_default();
    thread::sleep(Duration::from_millis(fault.delay));
    let down = route.service == Service::Storage && shared.world().settings.storage_down;
    if down || fault.cut == Some(Cut::Before) {
        return Ok(end_without_answer(shared, &fault, stream));
    }
    let response = match &fault.reply {
        Some(reply) => {
            if fault.take_effect {
                handle::answer(shared, request, route);
            }
            reply.response(&shared.world().clock)
        }
        None => handle::answer(shared, request, route),
    };
    if fault.cut == Some(Cut::After) {
        return Ok(end_without_answer(shared, &fault, stream));
    }
    deliver(&response, &fault, stream)
}

/// Closes the connection, or keeps it in silence until the client closes it.
fn end_without_answer(
    shared: &Shared,
    fault: &Fault,
    stream: &mut dyn Stream,
) -> (Option<u16>, Next) {
    if fault.hold {
        shared.traffic().hold(true);
        let _ = stream.read(&mut [0]);
        shared.traffic().hold(false);
    }
    (None, Next::Close)
}

/// Writes an answer, as well as the fault lets it.
fn deliver(
    response: &Response,
    fault: &Fault,
    stream: &mut dyn Stream,
) -> io::Result<(Option<u16>, Next)> {
    let length = i64::try_from(response.body.len()).unwrap_or(0) + fault.length;
    stream.write_all(&response.head(usize::try_from(length).unwrap_or(0)))?;
    if fault.cut == Some(Cut::Middle) {
        stream.write_all(&response.body[..response.body.len() / 2])?;
        stream.flush()?;
        return Ok((Some(response.status), Next::Close));
    }
    let piece = if fault.trickle == 0 { response.body.len().max(1) } else { 64 };
    for piece in response.body.chunks(piece) {
        thread::sleep(Duration::from_millis(fault.trickle));
        stream.write_all(piece)?;
        stream.flush()?;
    }
    stream.flush()?;
    let close = fault.close || fault.length != 0;
    Ok((Some(response.status), if close { Next::Close } else { Next::Request }))
}

/// A proxy's 429, if more came in within a second than it lets through.
fn over_the_limit(shared: &Shared) -> Option<Response> {
    let limit = shared.world().settings.limit.clone()?;
    if shared.traffic().last_second() <= limit.per_second {
        return None;
    }
    let response = Response::new(429, "text/html", page(429));
    Some(match limit.retry_after {
        Some(value) => response.with("Retry-After", value),
        None => response,
    })
}
