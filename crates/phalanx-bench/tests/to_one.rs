//! Messages to one member cost no allocation each on `phalanx::Inline`, at the sender and at the receiver.

use std::time::{Duration, Instant};

use phalanx::{App, Cell, Inline, InlineGroup, MemberId, MessageRef, MessageToOneRef, SendError, Undelivered, View};
use phalanx_bench::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Counts {
    members: usize,
    came: u64,
    settled: u64,
}

impl App for Counts {
    fn message(&mut self, _: &MessageRef<'_>) {}

    fn to_one(&mut self, _message: &MessageToOneRef<'_>) {
        self.came += 1;
    }

    fn settled(&mut self, _: InlineGroup, _: MemberId, outcome: Result<(), Undelivered>, messages: u64) {
        assert_eq!(outcome, Ok(()));
        self.settled += messages;
    }

    fn view(&mut self, _: InlineGroup, view: &View) {
        self.members = view.len();
    }
}

struct Two {
    ends: [(Inline, InlineGroup, Counts); 2],
    /// Allocations of either member's calls.
    taken: [u64; 2],
}

impl Two {
    fn poll(&mut self, end: usize) {
        let before = allocations();
        let (member, _, counts) = &mut self.ends[end];
        member.poll(counts);
        self.taken[end] += allocations() - before;
    }

    /// Sends `messages` of them from the first member to the second, in bursts, until all have an outcome.
    fn push(&mut self, messages: u64, burst: u64, payload: &[u8]) {
        let end = self.ends[0].2.settled + messages;
        let (to, mut left) = (self.ends[1].0.me().id, messages);
        while self.ends[0].2.settled < end {
            let before = allocations();
            let (member, group, counts) = &mut self.ends[0];
            for _ in 0..burst.min(left) {
                match member.send_to(*group, to, payload, counts) {
                    Ok(_) => left -= 1,
                    Err(SendError::Full) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.taken[0] += allocations() - before;
            self.poll(0);
            self.poll(1);
        }
    }
}

fn two(directory: &std::path::Path) -> Two {
    let ends = ["ann", "bob"].map(|name| {
        let builder = Cell::builder("allocations").name(name).directories(directory, directory.join("state"));
        let mut counts = Counts::default();
        let mut member = builder.set("timing.turn_gap_max", "1s").inline().expect("it starts");
        let group = member.group("g").join(&mut counts).expect("it joins");
        (member, group, counts)
    });
    let mut two = Two { ends, taken: [0; 2] };
    let begin = Instant::now();
    while two.ends.iter().any(|(.., counts)| counts.members < 2) {
        assert!(begin.elapsed() < Duration::from_secs(60), "both are in the group in time");
        two.poll(0);
        two.poll(1);
    }
    two
}

/// Packets, acks, reports and timers may allocate. One packet carries hundreds of these messages.
#[test]
fn a_packed_message_to_one_costs_no_allocation() {
    const MESSAGES: u64 = 50_000;
    let directory = private_directory();
    let mut two = two(directory.path());
    two.push(MESSAGES, 256, &[7; 20]);
    two.taken = [0; 2];
    two.push(MESSAGES, 256, &[7; 20]);
    assert_eq!(two.ends[1].2.came, 2 * MESSAGES);
    for (end, taken) in ["sender", "receiver"].into_iter().zip(two.taken) {
        assert!(taken > 0, "what there is is counted: packets cost some");
        assert!(taken < MESSAGES / 20, "{taken} allocations at the {end} for {MESSAGES} messages");
    }
}

/// A directory that is closed to other users, as members demand.
fn private_directory() -> tempfile::TempDir {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().expect("a directory")
}
