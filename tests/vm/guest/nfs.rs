//! An NFS server (version 3, with its MOUNT protocol) that exports one file and dies with the first write to it: from
//! then on it answers nothing, and its connections stay open.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const NO_ENTRY: u32 = 2;
/// File handles, which are inode numbers too.
const ROOT: u32 = 1;
const FILE: u32 = 2;
const NAME: &[u8] = b"file";

/// Serves both protocols on this port until it is killed.
pub(crate) fn serve(port: &str) -> ExitCode {
    let listener = port.parse::<u16>().map(|port| TcpListener::bind(("127.0.0.1", port)));
    let listener = listener.expect("a port").expect("the port is free");
    let is_dead = Arc::new(AtomicBool::new(false));
    for stream in listener.incoming().flatten() {
        let is_dead = Arc::clone(&is_dead);
        thread::spawn(move || answer_calls(stream, &is_dead));
    }
    ExitCode::SUCCESS
}

fn answer_calls(mut stream: TcpStream, is_dead: &AtomicBool) -> io::Result<()> {
    loop {
        let call = record(&mut stream)?;
        let Some(reply) = reply_to(&mut Words(&call)) else {
            is_dead.store(true, Ordering::SeqCst);
            continue;
        };
        if !is_dead.load(Ordering::SeqCst) {
            let length = u32::try_from(reply.0.len()).expect("a short reply");
            stream.write_all(&[&(length | 1 << 31).to_be_bytes()[..], &reply.0].concat())?;
        }
    }
}

/// Reads one record: its fragments say how long they are, and the last one that it is the last.
fn record(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        stream.take(u64::from(mark & !(1 << 31))).read_to_end(&mut record)?;
        if mark >> 31 == 1 {
            return Ok(record);
        }
    }
}

/// None for what it does not answer: a write, a commit, and what it does not know.
fn reply_to(call: &mut Words<'_>) -> Option<Xdr> {
    let id = call.word()?;
    let [_call, _rpc_version, program, _version, procedure] =
        [call.word()?, call.word()?, call.word()?, call.word()?, call.word()?];
    for _credential_and_verifier in 0..2 {
        call.word()?;
        call.opaque()?;
    }
    // Accepted, without a verifier, with success.
    let reply = Xdr::default().words(&[id, 1, 0, 0, 0, 0]);
    Some(match (program, procedure) {
        // NULL; and MOUNT's UMNT.
        (_, 0) | (MOUNT, 3) => reply,
        // MNT: the handle of the root, and AUTH_SYS.
        (MOUNT, 1) => reply.words(&[0]).handle(ROOT).words(&[1, 1]),
        (NFS, 1) => reply.words(&[0]).attributes(call.handle()?),
        // SETATTR, as if done.
        (NFS, 2) => reply.words(&[0, 0]).attributes_of(call.handle()?),
        // LOOKUP.
        (NFS, 3) => match (call.handle()?, call.opaque()?) {
            (folder, NAME) => {
                reply.words(&[0]).handle(FILE).attributes_of(FILE).attributes_of(folder)
            }
            (folder, _) => reply.words(&[NO_ENTRY]).attributes_of(folder),
        },
        // ACCESS: all that is asked for.
        (NFS, 4) => {
            let (file, asked) = (call.handle()?, call.word()?);
            reply.words(&[0]).attributes_of(file).words(&[asked])
        }
        // FSSTAT: six sizes of 64 bits, and for how long they hold.
        (NFS, 18) => reply.words(&[0]).attributes_of(call.handle()?).words(&[1; 13]),
        // FSINFO: sizes of reads, writes and lists, the largest file, the clock's grain, what it can do.
        (NFS, 19) => {
            const SIZE: u32 = 65536;
            let sizes = [SIZE, SIZE, 4096, SIZE, SIZE, 4096, SIZE];
            reply.words(&[0]).attributes_of(call.handle()?).words(&sizes).words(&[1, 0, 0, 1, 0])
        }
        // PATHCONF: links, length of a name, and how names are treated.
        (NFS, 20) => reply.words(&[0]).attributes_of(call.handle()?).words(&[1, 255, 1, 1, 0, 1]),
        _ => return None,
    })
}

/// What a call says.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn opaque(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.word()?).ok()?;
        let (bytes, _) = self.0.split_at_checked(length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..)?;
        Some(bytes)
    }

    fn handle(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.opaque()?.try_into().ok()?))
    }
}

/// A reply.
#[derive(Default)]
struct Xdr(Vec<u8>);

impl Xdr {
    fn words(mut self, words: &[u32]) -> Self {
        self.0.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        self
    }

    fn handle(self, handle: u32) -> Self {
        self.words(&[4, handle])
    }

    /// Where attributes may be left out.
    fn attributes_of(self, handle: u32) -> Self {
        self.words(&[1]).attributes(handle)
    }

    fn attributes(self, handle: u32) -> Self {
        let (kind, mode) = if handle == ROOT { (2, 0o755) } else { (1, 0o644) };
        // One link, the user and group root; size, used space, device, file system, inode, three times.
        self.words(&[kind, mode, 1, 0, 0])
            .words(&[0, 0, 0, 0, 0, 0, 0, 1, 0, handle])
            .words(&[1; 6])
    }
}
