//! The worker's line to the process that waits for it: one message each, and files go along.

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, UnixAddr, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// More than this goes in several messages.
const LONGEST: usize = 16 * 1024;

/// What is said.
#[derive(Debug)]
pub(super) enum Word {
    /// Bytes for stdout.
    Output(Vec<u8>),
    /// Bytes for stderr.
    Complaint(Vec<u8>),
    /// How many milliseconds the work may take in all.
    Time(u64),
    /// A lock was taken: its file, its path, and whether it is a volume's.
    Lock(OwnedFd, Vec<u8>, bool),
    /// All is done, with this exit status.
    End(i32),
    /// The other end is closed.
    Closed,
}

static LINE: OnceLock<OwnedFd> = OnceLock::new();

/// From here on this process is a worker.
pub(super) fn open(line: OwnedFd) {
    let _ = LINE.set(line);
}

/// Whether this process is a worker.
pub(super) fn is_open() -> bool {
    LINE.get().is_some()
}

pub(super) fn send(kind: u8, bytes: &[u8], file: Option<RawFd>) -> nix::Result<()> {
    let Some(line) = LINE.get() else { return Ok(()) };
    let mut rest = bytes;
    loop {
        let (part, more) = rest.split_at(rest.len().min(LONGEST));
        let kind = [kind];
        let parts = [IoSlice::new(&kind), IoSlice::new(part)];
        let files: Vec<RawFd> = file.into_iter().collect();
        let along = [ControlMessage::ScmRights(&files)];
        let along = if files.is_empty() { &[][..] } else { &along[..] };
        let flags = MsgFlags::MSG_NOSIGNAL;
        match sendmsg::<UnixAddr>(line.as_raw_fd(), &parts, along, flags, None) {
            Err(Errno::EINTR) => continue,
            sent => sent.map(drop)?,
        }
        if more.is_empty() {
            return Ok(());
        }
        rest = more;
    }
}

/// Takes one message, without waiting for it.
#[allow(unsafe_code)]
pub(super) fn receive(line: &OwnedFd) -> nix::Result<Option<Word>> {
    let mut bytes = vec![0; LONGEST + 1];
    let mut room = nix::cmsg_space!([RawFd; 1]);
    let (length, file) = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let taken: nix::Result<RecvMsg<'_, '_, UnixAddr>> =
            recvmsg(line.as_raw_fd(), &mut parts, Some(&mut room), flags);
        let taken = match taken {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            taken => taken?,
        };
        let mut file = None;
        for one in taken.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = one {
                // SAFETY: the kernel just gave us these files, and no other code owns them.
                file = numbers.first().map(|number| unsafe { OwnedFd::from_raw_fd(*number) });
            }
        }
        (taken.bytes, file)
    };
    let Some((kind, rest)) = bytes[..length].split_first() else { return Ok(Some(Word::Closed)) };
    let rest = rest.to_vec();
    Ok(Some(match (kind, file) {
        (b'o', _) => Word::Output(rest),
        (b'e', _) => Word::Complaint(rest),
        (b't', _) => Word::Time(u64::from_le_bytes(rest.try_into().unwrap_or([0xff; 8]))),
        (b'l' | b'm', Some(file)) => Word::Lock(file, rest, *kind == b'l'),
        _ => Word::End(i32::from_le_bytes(rest.try_into().unwrap_or([1; 4]))),
    }))
}
