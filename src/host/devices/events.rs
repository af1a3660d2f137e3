//! Wait for an event about disks from the kernel or udevd.
//!
//! The kernel's event comes first, when the serial is already readable. udevd's comes after its rules. Without udevd
//! the directory of links is watched too, because other network namespaces may get no kernel events. Events can be lost
//! (ENOBUFS), so every wait is short and the caller searches again.

use super::udevd;
use crate::ports::host::{Events, Udev, UdevMonitor};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The multicast group of the kernel's events.
const KERNEL_GROUP: u32 = 1;

/// More than the longest event; the kernel's buffer has 2048 bytes.
const LONGEST_EVENT: usize = 8192;

/// All sources of events about disks.
pub(super) struct DiskEvents {
    kernel: Option<OwnedFd>,
    links: Option<Inotify>,
    udev: Option<Box<dyn UdevMonitor>>,
}

impl DiskEvents {
    /// Subscribes to every available source; searching again makes up for the others.
    pub(super) fn subscribe(by_id: &Path, udev: Option<&dyn Udev>) -> Self {
        let udevd_runs = udevd::runs();
        Self {
            kernel: kernel_socket().ok(),
            links: if udevd_runs { None } else { watch_folder(by_id).ok() },
            udev: udev.filter(|_| udevd_runs).and_then(|udev| udev.monitor().ok()),
        }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all: Vec<BorrowedFd<'_>> = Vec::new();
        all.extend(self.kernel.as_ref().map(AsFd::as_fd));
        all.extend(self.links.as_ref().map(AsFd::as_fd));
        all.extend(self.udev.as_ref().map(AsFd::as_fd));
        all
    }

    /// Discards queued events; returns whether one was about a disk.
    fn drain(&mut self) -> bool {
        let mut about_disks = false;
        if let Some(kernel) = &self.kernel {
            let mut buffer = [0; LONGEST_EVENT];
            loop {
                match recv(kernel.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                    Ok(0) | Err(nix::errno::Errno::EAGAIN) => break,
                    Ok(length) => about_disks |= is_about_disks(&buffer[..length]),
                    // ENOBUFS: some were lost, perhaps one about the disk.
                    Err(_) => {
                        about_disks = true;
                        break;
                    }
                }
            }
        }
        if let Some(links) = &self.links {
            while links.read_events().is_ok_and(|events| !events.is_empty()) {
                about_disks = true;
            }
        }
        if let Some(udev) = &self.udev {
            about_disks |= udev.drain();
        }
        about_disks
    }
}

impl DiskEvents {
    /// Waits; returns whether an event was about a disk.
    fn wait_for(&mut self, at_most: Duration, other: Option<BorrowedFd<'_>>) -> bool {
        let end = Instant::now() + at_most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // poll counts whole milliseconds; round up to avoid spinning through the last one.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1));
            let mut waited: Vec<_> = other
                .into_iter()
                .chain(self.descriptors())
                .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
                .collect();
            let done = poll(&mut waited, timeout.unwrap_or(PollTimeout::MAX));
            let is_others = other.is_some() && waited[0].any() == Some(true);
            match done {
                Ok(0) => return false,
                Ok(_) if self.drain() => return true,
                Ok(_) if is_others => return false,
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(100))),
            }
        }
    }
}

impl Events for DiskEvents {
    fn wait(&mut self, at_most: Duration) {
        self.wait_for(at_most, None);
    }

    fn wait_beside(&mut self, at_most: Duration, other: BorrowedFd<'_>) -> bool {
        self.wait_for(at_most, Some(other))
    }
}

fn kernel_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let protocol = SockProtocol::NetlinkKObjectUEvent;
    let socket = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, KERNEL_GROUP))?;
    Ok(socket)
}

/// Watches the directory of links or its nearest existing ancestor, since it disappears with its last link.
fn watch_folder(folder: &Path) -> nix::Result<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    let mut last = nix::errno::Errno::ENOENT;
    for ancestor in folder.ancestors() {
        match inotify.add_watch(ancestor, what) {
            Ok(_) => return Ok(inotify),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

/// An event is `ACTION@PATH` followed by `KEY=VALUE` pairs, each terminated by a zero byte.
pub(super) fn is_about_disks(event: &[u8]) -> bool {
    event.split(|byte| *byte == 0).any(|part| part == b"SUBSYSTEM=block")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_events_of_disks_count() {
        assert!(is_about_disks(b"add@/devices/vdb\0ACTION=add\0SUBSYSTEM=block\0SEQNUM=1\0"));
        assert!(!is_about_disks(b"add@/devices/x\0SUBSYSTEM=net\0NAME=SUBSYSTEM=block\0"));
        assert!(!is_about_disks(b""));
    }

    #[test]
    fn a_new_link_ends_the_wait_and_silence_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let by_id = folder.path().join("by-id");
        let inotify = watch_folder(&by_id).unwrap();
        let mut events = DiskEvents { kernel: None, links: Some(inotify), udev: None };
        assert!(!events.drain());
        std::fs::create_dir(&by_id).unwrap();
        let begin = Instant::now();
        events.wait(Duration::from_secs(600));
        assert!(begin.elapsed() < Duration::from_secs(300), "it was not noticed");
        assert!(!events.drain(), "the wait took the event");
        let (mut beside, other) = UnixStream::pair().unwrap();
        assert!(!events.wait_beside(Duration::from_millis(1), other.as_fd()), "silence");
        std::fs::create_dir(by_id.with_file_name("by-path")).unwrap();
        assert!(events.wait_beside(Duration::from_secs(600), other.as_fd()), "a disk");
        beside.write_all(b"x").unwrap();
        assert!(!events.wait_beside(Duration::from_secs(600), other.as_fd()), "not of a disk");
        std::fs::create_dir(by_id.with_file_name("by-uuid")).unwrap();
        assert!(events.wait_beside(Duration::from_secs(600), other.as_fd()), "both");
    }
}
