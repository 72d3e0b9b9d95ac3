//! Sorting and collecting with code that is compiled once. The standard library compiles its sort for each type and
//! closure, and again for each iterator that is collected into a map: a megabyte in this program.

use std::cmp::Ordering;

/// Sorts by a comparison, like `slice::sort_by` (stable).
pub fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(items.len(), &|a, b| compare(&items[a], &items[b]));
    place(order, &mut |a, b| items.swap(a, b));
}

/// Sorts by a key, like `slice::sort_by_key` (stable). Each key is determined once.
pub fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    let order = order(items.len(), &|a, b| keys[a].cmp(&keys[b]));
    place(order, &mut |a, b| items.swap(a, b));
}

/// Sorts indices by a comparison of what they stand for (stable).
pub fn indices(order: &mut [u32], compare: &dyn Fn(u32, u32) -> Ordering) {
    order.sort_by(|a, b| compare(*a, *b));
}

/// Collects into a map or a set, one item after the other.
pub fn collected<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(items);
    all
}

/// The different items, in ascending order.
pub fn distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = items.into_iter().collect();
    by(&mut all, T::cmp);
    all.dedup();
    all
}

/// The sorted order of items: the item of each place.
fn order(items: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Puts each item in its place, one cycle of places after the other.
fn place(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..order.len() {
        let mut place = first;
        loop {
            let item = std::mem::replace(&mut order[place], place);
            if item == first {
                break;
            }
            swap(place, item);
            place = item;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Numbers in no order, with repetitions.
    fn numbers(count: u64) -> Vec<(u64, u64)> {
        (0..count).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58, i)).collect()
    }

    #[test]
    fn items_are_sorted_as_by_the_standard_library() {
        for count in [0, 1, 2, 3, 7, 100, 1000] {
            let (mut ours, mut theirs) = (numbers(count), numbers(count));
            by(&mut ours, |a, b| b.0.cmp(&a.0));
            theirs.sort_by_key(|item| std::cmp::Reverse(item.0));
            assert_eq!(ours, theirs);
            by_key(&mut ours, |item| item.0 % 5);
            theirs.sort_by_key(|item| item.0 % 5);
            assert_eq!(ours, theirs);
            let mut order: Vec<u32> = (0..count as u32).collect();
            indices(&mut order, &|a, b| ours[a as usize].cmp(&ours[b as usize]));
            theirs.sort_unstable();
            assert_eq!(order.iter().map(|i| ours[*i as usize]).collect::<Vec<_>>(), theirs);
        }
    }

    #[test]
    fn each_different_item_is_kept_once() {
        let items = || numbers(1000).into_iter().map(|item| item.0);
        let set: BTreeSet<u64> = items().collect();
        assert_eq!(distinct(items()), Vec::from_iter(set));
        assert_eq!(distinct(Vec::<u64>::new()).len(), 0);
    }

    #[test]
    fn a_later_item_replaces_one_with_the_same_key() {
        let map: BTreeMap<u64, u64> = collected(numbers(1000));
        assert_eq!(map, numbers(1000).into_iter().collect::<BTreeMap<_, _>>());
    }
}
