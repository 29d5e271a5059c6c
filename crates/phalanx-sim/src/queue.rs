//! What is to happen, in order of time; at one time in the order it was asked for.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events by (time, order of asking). Nothing else decides the order, so a run repeats.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    asked: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at_ns: u64,
    asked: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::with_capacity(1024), asked: 0 }
    }

    /// Adds `event` for virtual time `at_ns`.
    pub(crate) fn push(&mut self, at_ns: u64, event: E) {
        self.asked += 1;
        self.heap.push(Entry { at_ns, asked: self.asked, event });
    }

    /// Takes the next event if it is due at `until_ns` or before.
    pub(crate) fn pop_until(&mut self, until_ns: u64) -> Option<(u64, E)> {
        if self.heap.peek()?.at_ns > until_ns {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at_ns, entry.event))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap gives its greatest first, and we want the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.asked).cmp(&(self.at_ns, self.asked))
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    #[test]
    fn earliest_first_and_ties_in_order_of_asking() {
        let mut queue = Queue::new();
        for (at_ns, name) in [(5, "c"), (1, "a"), (5, "d"), (3, "b")] {
            queue.push(at_ns, name);
        }
        let mut order = Vec::new();
        while let Some((_, name)) = queue.pop_until(4) {
            order.push(name);
        }
        assert_eq!(order, ["a", "b"]);
        while let Some((_, name)) = queue.pop_until(u64::MAX) {
            order.push(name);
        }
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
