//! QEMU's control socket: commands, and the events that come in between.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// A connection; commands are sent one at a time.
#[derive(Debug)]
pub(crate) struct Qmp {
    writer: Mutex<UnixStream>,
    came: Arc<Came>,
}

#[derive(Debug, Default)]
struct Came {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Inbox {
    answers: Vec<Value>,
    events: Vec<Value>,
    is_over: bool,
}

impl Qmp {
    /// All that is said goes to a log as well.
    pub(crate) fn over(stream: UnixStream, log: File) -> Result<Self, String> {
        let reader = stream.try_clone().map_err(|error| error.to_string())?;
        let came = Arc::new(Came::default());
        let into = Arc::clone(&came);
        thread::spawn(move || listen(reader, &into, log));
        let qmp = Self { writer: Mutex::new(stream), came };
        qmp.run("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Runs a command; answers what it returned.
    pub(crate) fn run(&self, command: &str, arguments: &Value) -> Result<Value, String> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let line = json!({"execute": command, "arguments": arguments}).to_string() + "\n";
        writer.write_all(line.as_bytes()).map_err(|error| format!("{command}: {error}"))?;
        let answer = self.wait(LIMIT, |inbox| inbox.answers.pop());
        let answer = answer.ok_or_else(|| format!("{command}: QEMU does not answer"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{command}: {}", error["desc"].as_str().unwrap_or("?"))),
            None => Ok(answer["return"].clone()),
        }
    }

    /// Waits for the event that a device has gone; it is taken out.
    pub(crate) fn wait_deleted(&self, device: &str, limit: Duration) -> bool {
        let is_it =
            |event: &Value| event["event"] == "DEVICE_DELETED" && event["data"]["device"] == device;
        let found = self.wait(limit, |inbox| {
            let at = inbox.events.iter().position(is_it)?;
            Some(inbox.events.remove(at))
        });
        found.is_some()
    }

    fn wait<T>(&self, limit: Duration, mut take: impl FnMut(&mut Inbox) -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit;
        let mut inbox = lock(&self.came.inbox);
        loop {
            if let Some(found) = take(&mut inbox) {
                return Some(found);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || inbox.is_over {
                return None;
            }
            let waited = self.came.news.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn listen(stream: UnixStream, came: &Came, mut log: File) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let _ = writeln!(log, "{line}");
        let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
        let mut inbox = lock(&came.inbox);
        if value.get("event").is_some() {
            inbox.events.push(value);
        } else if value.get("QMP").is_none() {
            inbox.answers.push(value);
        }
        came.news.notify_all();
    }
    lock(&came.inbox).is_over = true;
    came.news.notify_all();
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}
