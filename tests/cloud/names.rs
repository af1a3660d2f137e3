//! A network with loopback alone, and a name server in it that knows one name.

use crate::support::{output_of, skip};
use nix::sched::{CloneFlags, unshare};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Does something in a thread whose network is its own, so that port 53 is free; what it starts is
/// there too.
pub fn in_a_network_of_its_own(test: &str, work: impl FnOnce() + Send) {
    let outcome = thread::scope(|scope| {
        let alone = scope.spawn(|| {
            if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
                return skip(test, &format!("needs a network namespace of its own: {errno}"));
            }
            let up = output_of(Command::new("sh").args(["-c", "ip link set lo up"]));
            if !up.status.success() {
                return skip(test, "needs ip(8) for the loopback of its network");
            }
            work();
        });
        alone.join()
    });
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// A name server on the usual port.
pub struct NameServer {
    asked: Arc<AtomicBool>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Says that this host, and no other, is this machine.
    pub fn of(host: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:53").expect("the port of name servers");
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (asked, stopping) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (noted, ending) = (Arc::clone(&asked), Arc::clone(&stopping));
        let thread = thread::spawn(move || {
            let mut question = [0; 512];
            while !ending.load(Ordering::SeqCst) {
                let Ok((length, client)) = socket.recv_from(&mut question) else { continue };
                if let Some(answer) = answer(&question[..length], host) {
                    noted.store(true, Ordering::SeqCst);
                    let _ = socket.send_to(&answer, client);
                }
            }
        });
        Self { asked, stopping, thread: Some(thread) }
    }

    pub fn was_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The answer to a question of one name (RFC 1035, 4.1).
fn answer(question: &[u8], host: &str) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const ADDRESS: [u8; 2] = [0, 1];
    /// The name of the question; Internet address; a minute; four bytes: this machine.
    const HERE: &[u8] = &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1];
    let labels = question.get(HEADER..)?;
    let end = labels.iter().position(|byte| *byte == 0)? + 1;
    let (name, kind) = (&labels[..end], labels.get(end..end + 2)?);
    let whole = labels.get(..end + 4)?;
    let wanted: Vec<u8> = host
        .split('.')
        .flat_map(|label| std::iter::once(label.len().to_le_bytes()[0]).chain(label.bytes()))
        .chain([0])
        .collect();
    let is_known = name.eq_ignore_ascii_case(&wanted);
    let has_address = is_known && kind == ADDRESS;
    let code = if is_known { 0x80 } else { 0x83 };
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, code, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0]);
    answer.extend(whole);
    answer.extend(if has_address { HERE } else { &[] });
    Some(answer)
}
