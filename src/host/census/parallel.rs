//! Long lists, worked through by as many threads as there are processors.

use std::thread;

/// More do not help: the kernel's own locks are in the way.
const MOST: usize = 4;

/// The work on each part of a list, in the order of the list. No part is smaller than `least`:
/// below that a thread costs more than it saves.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    least: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(MOST);
    let size = items.len().div_ceil(workers).max(least);
    let work = &work;
    thread::scope(|scope| {
        let mut parts = items.chunks(size);
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, || work(part))))
            .collect();
        let mut done = vec![work(first)];
        for (part, worker) in others {
            // A machine without threads to spare has this one.
            let found = worker.ok().and_then(|worker| worker.join().ok());
            done.push(found.unwrap_or_else(|| work(part)));
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_and_in_order() {
        for count in [0, 1, 7, 100] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(each(&items, 3, <[usize]>::to_vec).concat(), items);
        }
    }
}
