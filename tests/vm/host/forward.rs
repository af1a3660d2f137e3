//! `forward PORT`: one TCP connection on this program's standard streams. QEMU's network starts it
//! for each connection that the guest makes to the cloud; no other way leads out of the guest.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;
use std::thread;

pub(crate) fn run(port: &str) -> ExitCode {
    match port.parse().map_err(io::Error::other).and_then(forward) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forward: {error}");
            ExitCode::FAILURE
        }
    }
}

fn forward(port: u16) -> io::Result<()> {
    let mut there = TcpStream::connect(("127.0.0.1", port))?;
    there.set_nodelay(true)?;
    let mut asks = there.try_clone()?;
    thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut asks);
        let _ = asks.shutdown(Shutdown::Write);
    });
    copy(&mut there, &mut io::stdout().lock())
}

/// Without holding anything back.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16384];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..length])?;
        to.flush()?;
    }
}
