//! A queue that all processes of the driver on one machine share: so many at once, first come first
//! served.
//!
//! A place in it is a file with a number, locked by the process that waits or works. The kernel frees
//! the lock when the process dies, so a killed process holds up no other.

use crate::host::clock::{Deadline, since_boot};
use crate::host::files::{self, LockedFile};
use crate::model::cloud::asking::places::Capacity;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A queue.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    folder: PathBuf,
    room: Capacity,
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

impl Queue {
    pub(super) fn in_folder(folder: PathBuf, room: Capacity) -> Self {
        Self { folder, room }
    }

    /// Waits for its turn; nothing if the deadline passes first.
    pub(super) fn enter(&self, deadline: Deadline) -> Option<Ticket> {
        let Some((number, path, mut file)) = self.draw() else {
            return Some(Ticket { held: None });
        };
        let _ = file.write_all(b"waits");
        let ticket = Ticket { held: Some((path.clone(), file)) };
        loop {
            let mut before = numbers_in(&self.folder);
            before.retain(|other| *other < number);
            if self.has_room(&before) {
                // Read by those who count how long this work has taken.
                let _ = fs::write(&path, since_boot().as_millis().to_string());
                return Some(ticket);
            }
            if !deadline.pause(self.room.nap(before.len())) {
                return None;
            }
        }
    }

    /// A ticket with a number higher than every other's. The folder's own lock keeps two processes
    /// from the same number.
    fn draw(&self) -> Option<(u64, PathBuf, LockedFile)> {
        for _ in 0..16 {
            // A process that leaves may remove the empty folder at any moment: then it is made again.
            files::make_private_folder(&self.folder).ok()?;
            let Ok(folder) = File::open(&self.folder) else { continue };
            folder.lock().ok()?;
            let _folder = LockedFile::of(folder);
            let number = numbers_in(&self.folder).last().map_or(1, |last| last + 1);
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

    /// Whether fewer of those before wait or work than may be at once.
    fn has_room(&self, before: &[u64]) -> bool {
        let counting = before.iter().filter(|one| self.counts(&self.folder.join(one.to_string())));
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

fn numbers_in(folder: &Path) -> Vec<u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u64> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(at_once: usize) -> Capacity {
        Capacity { at_once, counts_for: None }
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
        let queue = Queue::in_folder(folder.path().join("q"), room(2));
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
        let queue = Queue::in_folder(folder.path().join("q"), room(1));
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
                while numbers_in(&folder.path().join("q")).len() < number + 2 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn work_that_takes_too_long_no_longer_counts() {
        let folder = tempfile::tempdir().unwrap();
        let room = Capacity { counts_for: Some(Duration::from_millis(30)), ..room(1) };
        let queue = Queue::in_folder(folder.path().join("q"), room);
        let _hangs = queue.enter(soon()).unwrap();
        assert!(queue.enter(long()).is_some());
    }

    #[test]
    fn the_ticket_of_a_killed_process_holds_up_no_one() {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::in_folder(folder.path().join("q"), room(1));
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
        let queue = Queue::in_folder(file.join("q"), room(1));
        let _one = queue.enter(soon()).unwrap();
        assert!(queue.enter(soon()).is_some());
    }
}
