//! The outside end of the agent's channel.

use crate::orders::{Answer, Ask, Said};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection to the agent.
#[derive(Debug)]
pub(crate) struct Channel {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

/// The machine has ended, or its kernel has.
pub(crate) const GONE: &str = "the machine is gone";

impl Channel {
    pub(crate) fn over(writer: UnixStream) -> Result<Self, String> {
        let reader = BufReader::new(writer.try_clone().map_err(|error| error.to_string())?);
        Ok(Self { writer, reader })
    }

    /// Waits until the agent is there.
    pub(crate) fn ready(&mut self, limit: Duration) -> Answer {
        self.receive(limit)
    }

    /// Gives an order and waits for what becomes of it.
    pub(crate) fn ask(&mut self, ask: &Ask, limit: Duration) -> Answer {
        let mut line = serde_json::to_string(ask).map_err(|error| error.to_string())?;
        line.push('\n');
        self.writer.write_all(line.as_bytes()).map_err(|error| format!("the agent: {error}"))?;
        self.receive(limit)
    }

    fn receive(&mut self, limit: Duration) -> Answer {
        let end = Instant::now() + limit;
        let mut line = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("the agent said nothing for {} s", limit.as_secs()));
            }
            let short = left.min(Duration::from_millis(200));
            self.reader.get_ref().set_read_timeout(Some(short)).map_err(|e| e.to_string())?;
            match self.reader.read_until(b'\n', &mut line) {
                Ok(0) => return Err(GONE.to_owned()),
                Ok(_) if line.ends_with(b"\n") => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("the agent: {error}")),
            }
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        serde_json::from_str::<Result<Said, String>>(&text).map_err(|e| format!("{e}: {text}"))?
    }
}
