//! A disk that fails on command: a file whose reads, writes and flushes can be made to fail, to
//! wait, or to hang. A loop device on it is a real block device with bad sectors.
//!
//! It is a FUSE file system of one file, spoken to the kernel directly, and it is mounted over
//! the very file that it serves: so the local cloud finds a volume's image where it always is.
//! Nothing of the file is cached by the kernel, so that no read is answered from memory. (The
//! loop device on it does have a cache: what was read through it once is not read again.)

mod protocol;
mod server;

pub use server::Counts;

use super::{detach_loops_below, private_mounts, skip};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use server::{Orders, Server};
use std::fs::{File, OpenOptions};
use std::io::{PipeWriter, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The same as `private_mounts` for a test with a failing disk.
pub fn private_mounts_and_fuse(test: &str) -> bool {
    if !private_mounts(test) {
        return false;
    }
    let is_possible = FailingDisk::is_possible();
    if !is_possible {
        skip(test, "needs /dev/fuse");
    }
    is_possible
}

/// The disk. Dropped, it is pulled: what still waits for it gets an error, its loop devices and
/// its mount go.
#[derive(Debug)]
pub struct FailingDisk {
    path: PathBuf,
    /// The file below the mount.
    file: File,
    orders: Arc<Mutex<Orders>>,
    wake: PipeWriter,
    server: Option<JoinHandle<()>>,
}

impl FailingDisk {
    /// Whether this machine can have one: a container may be without `/dev/fuse`.
    pub fn is_possible() -> bool {
        File::options().read(true).write(true).open("/dev/fuse").is_ok()
    }

    /// Puts a disk without a fault over this file, in this thread's mount namespace. No loop
    /// device may be on the file yet: it would go on using what is below.
    #[track_caller]
    pub fn over(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).expect("the disk's file");
        let channel = OpenOptions::new()
            .read(true)
            .write(true)
            // poll(2) may promise a request that is gone a moment later.
            .custom_flags(nix::libc::O_NONBLOCK)
            .open("/dev/fuse")
            .expect("/dev/fuse");
        let options = format!(
            "fd={},rootmode=100600,user_id=0,group_id=0,max_read={}",
            channel.as_raw_fd(),
            protocol::LARGEST
        );
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("failing-disk"), path, Some("fuse"), flags, Some(options.as_str()))
            .unwrap_or_else(|error| panic!("mount a disk over {}: {error}", path.display()));
        let (woken, wake) = std::io::pipe().expect("a pipe");
        let orders = Arc::new(Mutex::new(Orders::default()));
        let backing = file.try_clone().expect("the disk's file");
        let server = Server::new(channel, woken, backing, Arc::clone(&orders));
        let server = Some(std::thread::spawn(move || server.run()));
        Self { path: path.to_path_buf(), file, orders, wake, server }
    }

    /// Reads that touch these bytes answer EIO.
    pub fn fail_reads(&self, range: Range<u64>) {
        self.order(|orders| orders.bad_reads.push(range));
    }

    /// Writes and discards that touch these bytes answer EIO, and change nothing.
    pub fn fail_writes(&self, range: Range<u64>) {
        self.order(|orders| orders.bad_writes.push(range));
    }

    /// No fault is left; what hangs or waits still does.
    pub fn heal(&self) {
        self.order(|orders| {
            orders.bad_reads.clear();
            orders.bad_writes.clear();
        });
    }

    /// No read, write, discard or flush is carried out or answered until `release`; or for so long
    /// that a test has failed which has not called it, for other tests wait for the disk too.
    pub fn hang(&self) {
        const LONGEST: Duration = Duration::from_secs(60);
        self.order(|orders| orders.hangs_until = Some(Instant::now() + LONGEST));
    }

    /// Each read, write, discard and flush waits as long before it is carried out.
    pub fn delay(&self, by: Duration) {
        self.order(|orders| orders.delay = by);
    }

    /// Ends `hang` and `delay`: what was held is carried out now.
    pub fn release(&self) {
        self.order(|orders| {
            orders.hangs_until = None;
            orders.delay = Duration::ZERO;
        });
    }

    /// How many requests came until now, those that failed or wait included.
    pub fn counts(&self) -> Counts {
        self.orders().counts
    }

    /// A path to the file below, which no fault touches; for as long as the disk is there.
    pub fn below(&self) -> PathBuf {
        let number = self.file.as_raw_fd().to_string();
        Path::new("/proc").join(std::process::id().to_string()).join("fd").join(number)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders());
        // Fails only when the server is gone already.
        let _ = (&self.wake).write_all(&[0]);
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        self.order(|orders| orders.ends = true);
        if let Some(server) = self.server.take() {
            // With the server its descriptor is gone, and with that every request that waits.
            let _ = server.join();
        }
        detach_loops_below(&self.path);
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}
