//! A queue that all processes of the driver on one machine share: so many at once, the oldest call
//! first. A call that has begun so comes to its end before another begins.
//!
//! A place in it is a file with a number, `12` of one that waits and `12.in` of one that is in, locked by its
//! process. The kernel frees the lock when the process dies, so a killed process holds up no other.

use crate::host::files::{self, LockedFile};
use crate::model::cloud::asking::places::Capacity;
use crate::ports::clock::{Deadline, since_boot};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the name of a place ends that is in.
const INSIDE: &str = "in";

#[derive(Debug, Clone)]
pub(super) struct Queue {
    folder: PathBuf,
    room: Capacity,
    /// The call that waits: lower numbers are older calls.
    call: u64,
}

/// A place in a queue, given back when it is dropped. Without a file where no queue can be kept.
#[derive(Debug)]
pub(super) struct Ticket {
    held: Option<(PathBuf, LockedFile)>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.held {
            let _ = fs::remove_file(path);
            // Succeeds for the last place only.
            let _ = path.parent().map(fs::remove_dir);
        }
    }
}

impl Ticket {
    /// The work begins: until then it counts, however long it waits for something else.
    pub(super) fn works(&self) {
        if let Some((path, _)) = &self.held {
            // Read by those who count how long this work has taken.
            let _ = fs::write(path, since_boot().as_millis().to_string());
        }
    }
}

/// The number of a call that begins now: younger calls have higher ones.
pub(super) fn number_of_call() -> u64 {
    let millis = u64::try_from(since_boot().as_millis()).unwrap_or_default();
    // No process of Linux has a number of more than 22 bits.
    (millis << 22) | u64::from(std::process::id() & 0x3f_ffff)
}

impl Queue {
    pub(super) fn in_folder(folder: PathBuf, room: Capacity, call: u64) -> Self {
        Self { folder, room, call }
    }

    /// Waits for its turn; nothing if the deadline passes first.
    pub(super) fn enter(&self, deadline: Deadline) -> Option<Ticket> {
        let Some((number, path, file)) = self.draw() else {
            return Some(Ticket { held: None });
        };
        let mut ticket = Ticket { held: Some((path, file)) };
        loop {
            let places = Places::in_folder(&self.folder);
            if self.has_room(&places, number) && self.go_in(&mut ticket, number) {
                return Some(ticket);
            }
            let before = places.inside.len() + places.before(number).len();
            if !deadline.pause(self.room.nap(before)) {
                return None;
            }
        }
    }

    /// Goes in if there still is room: the folder's lock keeps two from one place.
    fn go_in(&self, ticket: &mut Ticket, number: u64) -> bool {
        let folder = File::open(&self.folder).and_then(|folder| folder.lock().map(|()| folder));
        let Ok(folder) = folder else { return true };
        let _folder = LockedFile::of(folder);
        if !self.has_room(&Places::in_folder(&self.folder), number) {
            return false;
        }
        if let Some((path, _)) = &mut ticket.held {
            let inside = path.with_extension(INSIDE);
            if fs::rename(&*path, &inside).is_ok() {
                *path = inside;
            }
        }
        true
    }

    /// A ticket with the call's number, or the next free one. The folder's own lock keeps two processes
    /// from the same number.
    fn draw(&self) -> Option<(u64, PathBuf, LockedFile)> {
        for _ in 0..16 {
            // A process that leaves may remove the empty folder at any moment: then it is made again.
            files::make_private_folder(&self.folder).ok()?;
            let Ok(folder) = File::open(&self.folder) else { continue };
            folder.lock().ok()?;
            let _folder = LockedFile::of(folder);
            let taken = Places::in_folder(&self.folder);
            let number = (self.call..u64::MAX).find(|number| !taken.has(*number))?;
            let path = self.folder.join(number.to_string());
            // Locked before it has its number: a ticket without a lock is a killed process's.
            let beside = self.folder.join(format!(".{}", std::process::id()));
            let Ok(file) = files::open_shared(&beside) else { continue };
            file.try_lock().ok()?;
            if fs::rename(&beside, &path).is_ok() {
                return Some((number, path, LockedFile::of(file)));
            }
        }
        None
    }

    /// Whether fewer are in, or wait with a lower number, than may be at once.
    fn has_room(&self, places: &Places, number: u64) -> bool {
        let inside = places.inside.iter().map(|one| self.folder.join(format!("{one}.{INSIDE}")));
        let waiting = places.before(number).iter().map(|one| self.folder.join(one.to_string()));
        let counting = inside.chain(waiting).filter(|place| self.counts(place));
        self.room.is_free(counting.map(|_| ()))
    }

    fn counts(&self, path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        if file.try_lock_shared().is_ok() {
            // Its process was killed.
            let _ = fs::remove_file(path);
            return false;
        }
        if self.room.counts_for.is_none() {
            return true;
        }
        let began = fs::read_to_string(path).ok().and_then(|text| text.parse().ok());
        let age = began.map(|began: u64| since_boot().saturating_sub(Duration::from_millis(began)));
        self.room.counts(age)
    }
}

/// The places of a queue by their numbers, in order.
struct Places {
    waiting: Vec<u64>,
    inside: Vec<u64>,
}

impl Places {
    fn in_folder(folder: &Path) -> Self {
        let mut places = Self { waiting: Vec::new(), inside: Vec::new() };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let (number, all) = match name.split_once('.') {
                Some((number, INSIDE)) => (number, &mut places.inside),
                _ => (name, &mut places.waiting),
            };
            all.extend(number.parse::<u64>());
        }
        places.waiting.sort_unstable();
        places.inside.sort_unstable();
        places
    }

    /// Those that wait and have a lower number.
    fn before(&self, number: u64) -> &[u64] {
        &self.waiting[..self.waiting.partition_point(|one| *one < number)]
    }

    fn has(&self, number: u64) -> bool {
        [&self.waiting, &self.inside].iter().any(|all| all.binary_search(&number).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(at_once: usize) -> Capacity {
        Capacity { at_once, counts_for: None }
    }

    /// How many wait in the queue of this folder.
    fn waiting(folder: &Path) -> usize {
        Places::in_folder(&folder.join("q")).waiting.len()
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_millis(40))
    }

    fn long() -> Deadline {
        Deadline::after(Duration::from_secs(20))
    }

    #[test]
    fn no_more_than_so_many_are_in() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::in_folder(folder.path().join("q"), room(2), 7);
        let (one, two) = (queue.enter(soon()), queue.enter(soon()));
        assert!(one.is_some() && two.is_some() && queue.enter(soon()).is_none());
        drop(one);
        let three = queue.enter(long());
        assert!(three.is_some() && queue.enter(soon()).is_none());
        drop((two, three));
        assert!(!folder.path().join("q").exists(), "an empty queue leaves nothing");
    }

    #[test]
    fn who_came_first_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::in_folder(folder.path().join("q"), room(1), 7);
        let first = queue.enter(long()).unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (queue, order) = (&queue, &order);
                scope.spawn(move || {
                    let place = queue.enter(long()).unwrap();
                    order.lock().unwrap().push(number);
                    drop(place);
                });
                while waiting(folder.path()) < number + 1 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn an_older_call_goes_before_those_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let of = |call| Queue::in_folder(folder.path().join("q"), room(1), call);
        let first = of(5).enter(long()).unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (before, call) in [9, 8, 3].into_iter().enumerate() {
                let (queue, order) = (of(call), &order);
                scope.spawn(move || {
                    let place = queue.enter(long()).unwrap();
                    order.lock().unwrap().push(call);
                    drop(place);
                });
                while waiting(folder.path()) < before + 1 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), [3, 8, 9]);
    }

    #[test]
    fn work_that_takes_too_long_no_longer_counts() {
        let folder = tempfile::tempdir().unwrap();
        let room = Capacity { counts_for: Some(Duration::from_millis(30)), ..room(1) };
        let queue = Queue::in_folder(folder.path().join("q"), room, 7);
        let hangs = queue.enter(soon()).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        assert!(queue.enter(soon()).is_none(), "it has not begun");
        hangs.works();
        assert!(queue.enter(long()).is_some());
    }

    #[test]
    fn the_ticket_of_a_killed_process_holds_up_no_one() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::in_folder(folder.path().join("q"), room(1), 7);
        fs::create_dir_all(folder.path().join("q")).unwrap();
        fs::write(folder.path().join("q/1"), "waits").unwrap();
        assert!(queue.enter(soon()).is_some());
        assert!(!folder.path().join("q/1").exists());
    }

    #[test]
    fn without_a_folder_there_is_no_queue() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let queue = Queue::in_folder(file.join("q"), room(1), 7);
        let _one = queue.enter(soon()).unwrap();
        assert!(queue.enter(soon()).is_some());
    }
}
