//! The thread that answers the kernel for a failing disk.

use super::protocol::{self, Request, Wish};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many requests came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    /// Discards, and writes of zeros.
    pub discards: u64,
    pub flushes: u64,
}

/// How the disk shall behave from now on.
#[derive(Debug, Default)]
pub struct Orders {
    pub bad_reads: Vec<Range<u64>>,
    pub bad_writes: Vec<Range<u64>>,
    pub hangs_until: Option<Instant>,
    pub delay: Duration,
    /// The server shall go.
    pub ends: bool,
    pub counts: Counts,
}

#[derive(Debug)]
pub struct Server {
    channel: File,
    woken: PipeReader,
    file: File,
    orders: Arc<Mutex<Orders>>,
    /// What came and is not answered yet, with its time of arrival.
    held: Vec<(Instant, Request)>,
}

impl Server {
    pub fn new(channel: File, woken: PipeReader, file: File, orders: Arc<Mutex<Orders>>) -> Self {
        Self { channel, woken, file, orders, held: Vec::new() }
    }

    /// Serves until the end is ordered or the mount is gone.
    pub fn run(mut self) {
        let mut buffer = vec![0; protocol::BUFFER];
        while !self.ends() {
            self.answer_what_is_due();
            if self.wait() {
                let _ = self.woken.read(&mut [0; 64]);
            }
            match self.channel.read(&mut buffer) {
                Ok(length) => self.take(Request::parse(&buffer[..length])),
                // Gone again before it was read, or there was none.
                Err(error) if is(&error, &[Errno::EAGAIN, Errno::EINTR, Errno::ENOENT]) => {}
                Err(_) => return,
            }
        }
    }

    /// Until there is something to do; says whether an order came.
    fn wait(&self) -> bool {
        let mut both = [
            PollFd::new(self.woken.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.channel.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut both, self.patience());
        both[0].any().unwrap_or(false)
    }

    /// How long until the first of the held requests is due.
    fn patience(&self) -> PollTimeout {
        let orders = self.orders();
        let first = self.held.iter().map(|(since, _)| *since + orders.delay).min();
        if let Some(until) = orders.hangs_until.filter(|until| Instant::now() < *until) {
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            return PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        }
        let Some(first) = first else { return PollTimeout::NONE };
        // A millisecond more, for the rest of one is lost here.
        let left = first.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    fn take(&mut self, request: Request) {
        let mut orders = self.orders();
        let counts = &mut orders.counts;
        let count = match request.wish {
            Wish::Read { .. } => &mut counts.reads,
            Wish::Write { .. } => &mut counts.writes,
            Wish::Allocate { .. } => &mut counts.discards,
            Wish::Flush => &mut counts.flushes,
            // The file can be looked at while its contents cannot be had.
            _ => {
                drop(orders);
                return self.answer(request);
            }
        };
        *count += 1;
        drop(orders);
        self.held.push((Instant::now(), request));
    }

    fn answer_what_is_due(&mut self) {
        let orders = self.orders();
        if orders.hangs_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let delay = orders.delay;
        drop(orders);
        let (due, held) = self.held.drain(..).partition(|(since, _)| since.elapsed() >= delay);
        self.held = held;
        for (_, request) in due {
            self.answer(request);
        }
    }

    fn answer(&self, request: Request) {
        if let Wish::Nothing = request.wish {
            return;
        }
        let content = self.carry_out(request.wish);
        // The asker may have died meanwhile.
        let _ = (&self.channel).write_all(&protocol::answer(request.number, content));
    }

    fn carry_out(&self, wish: Wish) -> Result<Vec<u8>, Errno> {
        match wish {
            Wish::Begin => Ok(protocol::welcome()),
            Wish::Attributes => self.attributes(),
            Wish::Change { size } => {
                if let Some(size) = size {
                    self.file.set_len(size).map_err(|error| errno(&error))?;
                }
                self.attributes()
            }
            Wish::Open => Ok(protocol::opened()),
            Wish::Read { offset, length } => {
                self.must_be_good(offset, length.into(), |orders| &orders.bad_reads)?;
                let mut bytes = vec![0; length as usize];
                let got = self.file.read_at(&mut bytes, offset).map_err(|error| errno(&error))?;
                bytes.truncate(got);
                Ok(bytes)
            }
            Wish::Write { offset, bytes } => {
                let length = u32::try_from(bytes.len()).map_err(|_| Errno::EINVAL)?;
                self.must_be_good(offset, length.into(), |orders| &orders.bad_writes)?;
                self.file.write_all_at(&bytes, offset).map_err(|error| errno(&error))?;
                Ok(protocol::written(length))
            }
            Wish::Allocate { offset, length, mode } => {
                self.must_be_good(offset, length, |orders| &orders.bad_writes)?;
                let [from, count] = [offset, length].map(i64::try_from);
                let (Ok(from), Ok(count)) = (from, count) else { return Err(Errno::EINVAL) };
                let mode = FallocateFlags::from_bits_retain(mode);
                fallocate(&self.file, mode, from, count).map(|()| Vec::new())
            }
            Wish::Flush => {
                self.file.sync_data().map(|()| Vec::new()).map_err(|error| errno(&error))
            }
            Wish::Space => Ok(protocol::space()),
            Wish::Acknowledgement | Wish::Nothing => Ok(Vec::new()),
            Wish::Other => Err(Errno::ENOSYS),
        }
    }

    fn attributes(&self) -> Result<Vec<u8>, Errno> {
        let size = self.file.metadata().map_err(|error| errno(&error))?.len();
        Ok(protocol::attributes(size))
    }

    fn must_be_good(
        &self,
        offset: u64,
        length: u64,
        bad: impl Fn(&Orders) -> &Vec<Range<u64>>,
    ) -> Result<(), Errno> {
        let touches = |range: &Range<u64>| offset < range.end && range.start < offset + length;
        if bad(&self.orders()).iter().any(touches) { Err(Errno::EIO) } else { Ok(()) }
    }

    fn ends(&self) -> bool {
        self.orders().ends
    }

    fn orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn is(error: &std::io::Error, errnos: &[Errno]) -> bool {
    errnos.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}
