//! Connections: a thread for each, one request after another, and what faults make of them.

use super::clock::{Style, stamp};
use super::fault::{Cut, Fault, page};
use super::handle;
use super::http::{Request, Response};
use super::route::Route;
use super::shared::{Shared, lock};
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

    /// The host's name in the addresses of the services; none: the number that is listened on.
    fn host(&self) -> Option<&str> {
        None
    }

    /// The certificate of the authority that clients must trust, as PEM.
    fn authority(&self) -> Option<&str> {
        None
    }

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
    let place = shared.traffic().arrive(request, &route);
    // Counted as answered before the client can see it, or its next request could come first.
    let leave = |status| shared.traffic().leave(place, status);
    let Some((response, fault)) = answer(shared, request, &route, stream) else {
        leave(None);
        return Ok(Next::Close);
    };
    // As each web server writes it; clients tell by it how far their clocks are apart.
    let date = {
        let world = shared.world();
        world.settings.dates.then(|| stamp(world.clock.unix(), Style::Http))
    };
    let response = match date {
        Some(date) => response.with("Date", date),
        None => response,
    };
    deliver(&response, &fault, stream, || leave(Some(response.status)))
}

/// The answer and what a fault still does to it; none if the connection ends without one.
fn answer(
    shared: &Shared,
    request: &Request,
    route: &Route,
    stream: &mut dyn Stream,
) -> Option<(Response, Fault)> {
    if let Some(response) = over_the_limit(shared) {
        return Some((response, Fault::default()));
    }
    let fault = Fault::take(&mut shared.world().faults, request, route).unwrap_or_default();
    thread::sleep(Duration::from_millis(fault.delay));
    if fault.cut == Some(Cut::Before) {
        hold(shared, &fault, stream);
        return None;
    }
    let response = match &fault.reply {
        Some(reply) => {
            if fault.take_effect {
                handle::answer(shared, request, route);
            }
            reply.response()
        }
        None => handle::answer(shared, request, route),
    };
    if fault.cut == Some(Cut::After) {
        hold(shared, &fault, stream);
        return None;
    }
    Some((response, fault))
}

/// Keeps a connection in silence until the client closes it, if the fault wants that.
fn hold(shared: &Shared, fault: &Fault, stream: &mut dyn Stream) {
    if fault.hold {
        shared.traffic().hold(true);
        let _ = stream.read(&mut [0]);
        shared.traffic().hold(false);
    }
}

/// Writes an answer, as well as the fault lets it; `leave` is called before its last piece.
fn deliver(
    response: &Response,
    fault: &Fault,
    stream: &mut dyn Stream,
    leave: impl FnOnce(),
) -> io::Result<Next> {
    if fault.endless {
        leave();
        return pour(response, fault, stream);
    }
    let mut piece = response.head();
    let cut = fault.cut == Some(Cut::Middle);
    let body = &response.body[..if cut { response.body.len() / 2 } else { response.body.len() }];
    if fault.trickle == 0 {
        piece.extend_from_slice(body);
    } else {
        for part in body.chunks(64) {
            stream.write_all(&piece)?;
            stream.flush()?;
            thread::sleep(Duration::from_millis(fault.trickle));
            part.clone_into(&mut piece);
        }
    }
    leave();
    stream.write_all(&piece)?;
    stream.flush()?;
    Ok(if cut { Next::Close } else { Next::Request })
}

/// A body without an end: JSON that only begins, for as long as the client takes it.
fn pour(response: &Response, fault: &Fault, stream: &mut dyn Stream) -> io::Result<Next> {
    const MOST: usize = 400 << 20;
    let chunk = vec![b'['; if fault.trickle == 0 { 64 << 10 } else { 16 }];
    let head = response.clone().with("Transfer-Encoding", "chunked").head_without_length();
    stream.write_all(&head)?;
    for _ in 0..MOST / chunk.len() {
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
        stream.write_all(&chunk)?;
        stream.write_all(b"\r\n")?;
        stream.flush()?;
        thread::sleep(Duration::from_millis(fault.trickle));
    }
    Ok(Next::Close)
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
