//! The queue of future events, in order of time; events of one time are in the order in which they were added.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events by (time, order of adding), and the next iteration of each process. Nothing else decides the order, so a run
/// repeats.
///
/// Most packets bring a process's next iteration forward. So iterations are stored separately: each process has at most
/// one, which moves.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    turns: Turns,
    asked: u64,
    /// Time of the latest event.
    now_ns: u64,
    /// Times of iterations that were replaced by earlier ones. Those before `now_ns` are only counted.
    overtaken: Vec<u64>,
    overtaken_past: u64,
    /// Size at which past entries are removed and counted.
    overtaken_max: usize,
}

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due<E> {
    /// An iteration of this process.
    Turn(usize),
    /// An event.
    Event(E),
}

/// Time and order of adding in one number, which compares quickly.
type Key = u128;

const NEVER: Key = Key::MAX;

fn key(at_ns: u64, asked: u64) -> Key {
    Key::from(at_ns) << 64 | Key::from(asked)
}

fn at_ns(key: Key) -> u64 {
    (key >> 64) as u64
}

#[derive(Debug)]
struct Entry<E> {
    key: Key,
    event: E,
}

impl<E> Queue<E> {
    /// An empty queue for `processes` processes.
    pub(crate) fn new(processes: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(1024),
            turns: Turns::new(processes),
            asked: 0,
            now_ns: 0,
            overtaken: Vec::new(),
            overtaken_past: 0,
            overtaken_max: OVERTAKEN_MIN,
        }
    }

    /// Adds `event` for virtual time `at_ns`.
    pub(crate) fn push(&mut self, at_ns: u64, event: E) {
        // A heap does not keep the order of equal keys. The order of adding makes all keys different, so that a run
        // repeats.
        self.asked += 1;
        self.heap.push(Entry { key: key(at_ns, self.asked), event });
    }

    /// Time of the next iteration of `process`.
    pub(crate) fn turn_ns(&self, process: usize) -> Option<u64> {
        let key = self.turns.of(process);
        (key != NEVER).then(|| at_ns(key))
    }

    /// Moves the next iteration of `process` to `at_ns`.
    pub(crate) fn set_turn(&mut self, process: usize, at_ns: u64) {
        self.note_overtaken(process);
        self.asked += 1;
        self.turns.set(process, key(at_ns, self.asked));
    }

    /// Removes the next iteration of `process`.
    pub(crate) fn forget_turn(&mut self, process: usize) {
        self.note_overtaken(process);
        self.turns.set(process, NEVER);
    }

    fn note_overtaken(&mut self, process: usize) {
        if let Some(at_ns) = self.turn_ns(process) {
            if self.overtaken.len() >= self.overtaken_max {
                let before = self.overtaken.len();
                let now_ns = self.now_ns;
                self.overtaken.retain(|at_ns| *at_ns > now_ns);
                self.overtaken_past += (before - self.overtaken.len()) as u64;
                self.overtaken_max = OVERTAKEN_MIN.max(2 * self.overtaken.len());
            }
            self.overtaken.push(at_ns);
        }
    }

    /// Number of iterations up to `now_ns` that were replaced by earlier ones.
    pub(crate) fn overtaken(&self, now_ns: u64) -> u64 {
        self.overtaken_past + self.overtaken.iter().filter(|at_ns| **at_ns <= now_ns).count() as u64
    }

    /// Removes and returns the next item, if it is due at `until_ns` or before.
    pub(crate) fn pop_until(&mut self, until_ns: u64) -> Option<(u64, Due<E>)> {
        let (turn, event) = (self.turns.first(), self.heap.peek().map_or(NEVER, |entry| entry.key));
        let due_ns = at_ns(turn.min(event));
        if turn.min(event) == NEVER || due_ns > until_ns {
            return None;
        }
        self.now_ns = due_ns;
        if turn < event {
            let process = self.turns.first_process();
            self.turns.set(process, NEVER);
            return Some((due_ns, Due::Turn(process)));
        }
        self.heap.pop().map(|entry| (due_ns, Due::Event(entry.event)))
    }
}

/// Least number of entries that are searched.
const OVERTAKEN_MIN: usize = 1024;

/// The next iteration of each process, as a tournament tree: every inner node holds the earlier of its two children.
#[derive(Debug)]
struct Turns {
    /// Node 1 is the root, the children of `i` are `2i` and `2i + 1`, the second half are the processes.
    nodes: Vec<Key>,
}

impl Turns {
    fn new(processes: usize) -> Self {
        Self { nodes: vec![NEVER; 2 * processes.next_power_of_two()] }
    }

    fn leaf(&self, process: usize) -> usize {
        self.nodes.len() / 2 + process
    }

    fn of(&self, process: usize) -> Key {
        self.nodes[self.leaf(process)]
    }

    fn first(&self) -> Key {
        self.nodes[1]
    }

    fn first_process(&self) -> usize {
        let mut node = 1;
        while node < self.nodes.len() / 2 {
            node *= 2;
            node += usize::from(self.nodes[node] != self.nodes[1]);
        }
        node - self.nodes.len() / 2
    }

    fn set(&mut self, process: usize, key: Key) {
        let mut node = self.leaf(process);
        self.nodes[node] = key;
        while node > 1 {
            let earlier = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            // If the earlier child is unchanged, so are all nodes above.
            if self.nodes[node] == earlier {
                return;
            }
            self.nodes[node] = earlier;
        }
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed, because the heap returns its greatest element first and the earliest is needed.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Queue};

    #[test]
    fn earliest_first_and_ties_in_order_of_asking() {
        let mut queue = Queue::new(3);
        for (at_ns, name) in [(5, "c"), (1, "a"), (5, "d"), (3, "b")] {
            queue.push(at_ns, name);
        }
        let mut order = Vec::new();
        while let Some((_, Due::Event(name))) = queue.pop_until(4) {
            order.push(name);
        }
        assert_eq!(order, ["a", "b"]);
        while let Some((_, Due::Event(name))) = queue.pop_until(u64::MAX) {
            order.push(name);
        }
        assert_eq!(order, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_process_has_one_next_turn_among_the_events() {
        let mut queue = Queue::new(3);
        queue.push(5, "a");
        queue.set_turn(2, 5);
        queue.push(5, "b");
        queue.set_turn(0, 9);
        queue.set_turn(1, 7);
        queue.set_turn(0, 6);
        queue.forget_turn(1);
        assert_eq!((queue.turn_ns(0), queue.turn_ns(1), queue.turn_ns(2)), (Some(6), None, Some(5)));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_until(u64::MAX)).collect();
        assert_eq!(order, [(5, Due::Event("a")), (5, Due::Turn(2)), (5, Due::Event("b")), (6, Due::Turn(0))]);
        assert_eq!((queue.overtaken(6), queue.overtaken(7), queue.overtaken(9)), (0, 1, 2));
    }

    #[test]
    fn overtaken_turns_are_counted_once() {
        let mut queue: Queue<()> = Queue::new(1);
        for at_ns in 0..5_000 {
            queue.set_turn(0, at_ns + 10);
            if at_ns % 100 == 0 {
                queue.set_turn(0, at_ns);
                assert_eq!(queue.pop_until(at_ns), Some((at_ns, Due::Turn(0))));
            }
        }
        queue.forget_turn(0);
        assert_eq!(queue.overtaken(u64::MAX), 5_000);
        assert_eq!(queue.overtaken(4_999), 4_990);
    }
}
