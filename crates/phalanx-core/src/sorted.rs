//! A small map in a sorted vector. A process goes over its peers and its views' streams in every iteration and changes
//! them rarely; a sorted vector is several times faster at that than a tree, and gives the same order.

use std::cmp::Ordering;

/// A map in the order of its keys. Values are boxed, so that an insertion moves two words for each later entry.
#[derive(Debug)]
pub(crate) struct SortedMap<K, V> {
    entries: Vec<(K, Box<V>)>,
}

impl<K: Ord + Copy, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Copy, V> SortedMap<K, V> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new() }
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        if self.entries.len() > SCANNED_MAX {
            return self.entries.binary_search_by(|(other, _)| other.cmp(key));
        }
        for (index, (other, _)) in self.entries.iter().enumerate() {
            match other.cmp(key) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(index),
                Ordering::Greater => return Err(index),
            }
        }
        Err(self.entries.len())
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let index = self.find(key).ok()?;
        self.entries.get(index).map(|(_, value)| &**value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let index = self.find(key).ok()?;
        self.entries.get_mut(index).map(|(_, value)| &mut **value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Inserts a value and returns the value that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(index) => Some(std::mem::replace(&mut *self.entries[index].1, value)),
            Err(index) => {
                self.entries.insert(index, (key, Box::new(value)));
                None
            }
        }
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let index = match self.find(&key) {
            Ok(index) => index,
            Err(index) => {
                self.entries.insert(index, (key, Box::new(make())));
                index
            }
        };
        &mut self.entries[index].1
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let index = self.find(key).ok()?;
        Some(*self.entries.remove(index).1)
    }

    /// Removes all values and returns them in the order of their keys.
    pub(crate) fn take_values(&mut self) -> Vec<V> {
        std::mem::take(&mut self.entries).into_iter().map(|(_, value)| *value).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, &**value))
    }

    /// The entries behind a key, which need not be there.
    pub(crate) fn after(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        let index = self.find(&key).map_or_else(|index| index, |index| index + 1);
        self.entries[index..].iter().map(|(key, value)| (key, &**value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, &mut **value))
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.iter().map(|(_, value)| &**value)
    }

    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| &mut **value)
    }
}

/// Up to this many entries are searched from the start, which is faster than a binary search.
const SCANNED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::SortedMap;

    proptest! {
        #[test]
        fn agrees_with_a_tree(steps in proptest::collection::vec((0..40u64, 0..5u8), 0..200)) {
            let (mut map, mut tree) = (SortedMap::new(), BTreeMap::new());
            for (at, (key, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => prop_assert_eq!(map.remove(&key), tree.remove(&key)),
                    2 => prop_assert_eq!(*map.get_or_insert_with(key, || at), *tree.entry(key).or_insert(at)),
                    1 => prop_assert_eq!(map.get_mut(&key).map(|v| { *v += 1; *v }), tree.get_mut(&key).map(|v| { *v += 1; *v })),
                    _ => prop_assert_eq!(map.insert(key, at), tree.insert(key, at)),
                }
                prop_assert_eq!((map.len(), map.get(&key), map.contains_key(&key)), (tree.len(), tree.get(&key), tree.contains_key(&key)));
            }
            prop_assert!(map.iter().eq(&tree));
            prop_assert!((0..41).all(|key| map.after(key).eq(tree.range(key + 1..))));
            prop_assert!(map.values().eq(tree.values()));
            prop_assert!(map.values_mut().map(|v| *v).eq(tree.values().copied()));
            map.clear();
            prop_assert_eq!(map.len(), 0);
        }
    }
}
