//! Sorting through a single copy of std's stable sort: `slice::sort_by_key` adds 4 KB to the executable for each type.

use std::cmp::Ordering;

/// Stable, like `slice::sort_by_key`; for wherever speed does not matter.
pub fn sort_by_key<T, K: Ord>(all: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(all, |one, other| key(one).cmp(&key(other)));
}

/// Stable, like `slice::sort_by`.
pub fn sort_by<T>(all: &mut [T], order: impl Fn(&T, &T) -> Ordering) {
    for (one, other) in swaps(all.len(), &|one, other| order(&all[one], &all[other])) {
        all.swap(one, other);
    }
}

/// Returns the swaps that put `count` elements in order, one after the other.
fn swaps(count: usize, order: &dyn Fn(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|one, other| order(*one, *other));
    let mut swaps = Vec::new();
    for first in 0..count {
        let mut at = first;
        while places[at] != first {
            let from = std::mem::replace(&mut places[at], at);
            swaps.push((at, from));
            at = from;
        }
        places[at] = at;
    }
    swaps
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_order_is_the_one_of_std(keys in proptest::collection::vec(0u8..20, 0..100)) {
            let mut all: Vec<_> = keys.iter().map(u8::to_string).enumerate().collect();
            let mut expected = all.clone();
            expected.sort_by_key(|(_, key)| std::cmp::Reverse(key.len()));
            sort_by_key(&mut all, |(_, key)| std::cmp::Reverse(key.len()));
            proptest::prop_assert_eq!(&all, &expected);
            expected.sort_by(|(_, one), (_, other)| one.cmp(other));
            sort_by(&mut all, |(_, one), (_, other)| one.cmp(other));
            proptest::prop_assert_eq!(all, expected);
        }
    }
}
