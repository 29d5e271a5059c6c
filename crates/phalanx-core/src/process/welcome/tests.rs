use std::net::SocketAddr;

use super::parts::PATIENCE_DIVISOR;
use super::*;
use crate::api::{DeathProof, Delivery, Event, Founding, Limits, Settings, Timing};
use crate::id::{DecreeNumber, GroupId, InboxId, Origin, Rank, TrafficClass, ViewNumber};
use crate::member::GroupEntry;
use crate::packet::Packet;
use crate::process::Security;
use crate::process::join::Joiner;
use crate::process::tests::by_hand::{NOW, Out, decision, in_cell, named};
use crate::rng::Rng;
use crate::wire::{Space, Tags};

const A: Incarnation = Incarnation(1);
const B: Incarnation = Incarnation(2);
const JOINER: Incarnation = Incarnation(3);
const SUSPECT_AFTER: Duration = Duration::from_secs(3);

/// The packets that a process sends.
#[derive(Default)]
struct Sent(Vec<(TrafficClass, SocketAddr, Vec<u8>)>);

impl Effects for Sent {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.0.extend(to.iter().map(|to| (class, *to, packet.to_vec())));
    }
    fn ready(&mut self, _inbox: InboxId) -> bool {
        true
    }
    fn deliver(&mut self, _delivery: &Delivery<'_>) {}
    fn event(&mut self, _event: Event) {}
}

/// Two members and a third process that their second decree takes in, each with the packets on their way to it.
struct World {
    now: Instant,
    rng: Rng,
    loss_ppm: u32,
    alive: [bool; 3],
    sent: [Sent; 3],
    processes: [Process; 3],
}

impl World {
    /// The directory has `groups` groups with a record of `entry_bytes` bytes each.
    fn new(groups: u32, entry_bytes: usize, loss_ppm: u32) -> Self {
        let seeds = vec![named(1).control, named(2).control];
        let settings = Settings {
            cell: "test".into(),
            me: named(JOINER.0),
            founding: Founding::Join,
            record: crate::member::FounderRecord::default(),
            seeds,
            timing: Timing::default(),
            limits: Limits { channel_window_bytes: 4 << 20, ..Limits::default() },
        };
        let joiner = Process::new(NOW, settings, &Security::None, 3);
        let member = |who| {
            let (mut process, _) = in_cell(who, 2);
            let mut tail = Tags::default();
            tail.put(99, &vec![7; entry_bytes]);
            for id in 1..=groups {
                let entry = GroupEntry {
                    name: format!("g{id}"),
                    view: ViewNumber(1),
                    space: Space(id),
                    members: vec![A, B],
                    tail: tail.clone(),
                };
                process.directory.groups.insert(GroupId(id), entry);
            }
            (process.directory.next_group, process.directory.next_space) = (groups + 1, Space(groups + 1));
            process.set.limits.channel_window_bytes = 4 << 20;
            process
        };
        let mut world = Self {
            now: NOW,
            rng: Rng::new(11),
            loss_ppm,
            alive: [true; 3],
            sent: Default::default(),
            processes: [member(A), member(B), joiner],
        };
        let mut proposal = decision(DecreeNumber(2), Vec::new());
        (proposal.view, proposal.joined) = (ViewNumber(2), vec![named(JOINER.0)]);
        (proposal.next_group, proposal.next_space) = (groups + 1, Space(groups + 1));
        for process in &mut world.processes[..2] {
            let decide = Control::Decide(Arc::new(proposal.clone()));
            process.handle_control(NOW, B, decide, &mut Sent::default());
        }
        world
    }

    /// Delivers each packet 100 us after it was sent, or loses it.
    fn step(&mut self) {
        for i in (0..3).filter(|i| self.alive[*i]) {
            self.processes[i].poll(self.now, &mut self.sent[i]);
            self.processes[i].check_invariants();
        }
        self.now += Duration::from_micros(100);
        let sent = self.sent.each_mut().map(|sent| std::mem::take(&mut sent.0));
        for (from, packets) in sent.into_iter().enumerate() {
            let origin = Origin::Network(self.processes[from].set.me.control);
            for (class, to, mut packet) in packets {
                let to = usize::from(to.port() - 1001);
                if self.alive[to] && !self.rng.chance_ppm(self.loss_ppm) {
                    let packet = Packet::Lent(&mut packet);
                    self.processes[to].handle_packet(self.now, class, origin, packet, &mut self.sent[to]);
                }
            }
        }
    }

    fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.now < end, "not within {limit:?}");
            self.step();
        }
    }

    fn is_in(&self) -> bool {
        let [a, b, joiner] = &self.processes;
        matches!(joiner.stage, Stage::Member) && (joiner.directory == a.directory || joiner.directory == b.directory)
    }

    fn taken_bytes(&self) -> usize {
        self.processes[2].welcomes.taking.as_ref().map_or(0, |taking| taking.bytes.len())
    }
}

#[test]
fn a_joiner_is_welcomed_in_parts_though_a_tenth_is_lost() {
    let mut world = World::new(5, 100_000, 100_000);
    world.run(SUSPECT_AFTER, World::is_in);
    let [a, _, joiner] = &world.processes;
    assert_eq!(
        (a.counters.welcomes_in_parts, joiner.directory.groups.len(), joiner.directory.view),
        (1, 5, ViewNumber(2))
    );
    world.run(SUSPECT_AFTER, |world| world.processes[0].welcomes.telling.is_empty());
}

/// A welcome that fits one part goes as one message. In a cell of a lower level every welcome does.
#[test]
fn a_short_welcome_is_one_message_and_so_is_any_before_level_5() {
    let mut world = World::new(1, 1000, 0);
    world.run(SUSPECT_AFTER, World::is_in);
    assert_eq!(world.processes[0].counters.welcomes_in_parts, 0);
    let (mut process, _) = in_cell(A, 2);
    process.directory.tail.put(99, &vec![7; 2 * PART_BYTES]);
    for (level, in_parts) in [(PARTS_LEVEL - 1, 0), (PARTS_LEVEL, 1)] {
        process.directory.level = level;
        process.welcome(B, Arc::new(decision(DecreeNumber::FIRST, Vec::new())));
        assert_eq!(process.counters.welcomes_in_parts, in_parts);
    }
}

/// A directory of more than 64 MiB, which no single message can hold.
#[test]
fn a_directory_of_more_than_64_mib_is_told() {
    let mut world = World::new(70, 1_000_000, 0);
    assert!(world.processes[0].welcomes.telling[&JOINER].whole.len() > 64 << 20);
    world.run(SUSPECT_AFTER, World::is_in);
    assert_eq!(world.processes[2].directory.groups.len(), 70);
}

/// The sender of a welcome dies. Another member begins anew when it is asked, and is not asked before.
#[test]
fn a_joiner_whose_teller_dies_is_told_by_another() {
    let mut world = World::new(20, 100_000, 0);
    world.run(SUSPECT_AFTER, |world| world.taken_bytes() > 500_000);
    world.alive[0] = false;
    let died = world.now;
    world.run(SUSPECT_AFTER, World::is_in);
    let took = world.now.since(died);
    assert!(took >= SUSPECT_AFTER / PATIENCE_DIVISOR && took < SUSPECT_AFTER / 2, "{took:?}");
    assert_eq!(world.processes[1].counters.welcomes_in_parts, 1);
    // If the system reports the death, the joiner waits for nothing.
    let mut world = World::new(20, 100_000, 0);
    world.run(SUSPECT_AFTER, |world| world.taken_bytes() > 500_000);
    world.alive[0] = false;
    let died = world.now;
    world.processes[2].handle_death(died, A, DeathProof::Ended);
    world.run(SUSPECT_AFTER, World::is_in);
    assert!(world.now.since(died) < SUSPECT_AFTER / 10);
}

/// Only the sender of its welcome hears a joiner before it has all of it. The others tolerate its silence for as long
/// as that may take.
#[test]
fn who_is_told_a_long_welcome_is_borne_for_longer() {
    let second = Duration::from_secs(1);
    let hears =
        |groups, after| World::new(groups, 1_000_000, 0).processes[1].failure_detector.hears(NOW + after, Rank(2));
    assert!(hears(0, SUSPECT_AFTER - second) && !hears(0, SUSPECT_AFTER));
    // 20 MB, at 8 MiB a second.
    assert!(hears(20, SUSPECT_AFTER + second * 2) && !hears(20, SUSPECT_AFTER + second * 3));
}

/// A member's first heartbeat comes a round trip after it is welcomed. The member that it asked knows that round trip.
#[test]
fn who_asked_from_afar_is_borne_a_round_trip_longer() {
    let ms = Duration::from_millis;
    let hears = |round_trip, after| {
        let (mut process, mut fx) = in_cell(A, 2);
        let (info, groups, terms) = (named(JOINER.0), Vec::new(), Vec::new());
        process.joiners.insert(JOINER, Joiner { info, groups, terms, first: NOW, last: NOW, round_trip });
        let mut proposal = decision(DecreeNumber(2), Vec::new());
        (proposal.view, proposal.joined) = (ViewNumber(2), vec![named(JOINER.0)]);
        (proposal.next_group, proposal.next_space) = (process.directory.next_group, process.directory.next_space);
        process.handle_control(NOW, B, Control::Decide(Arc::new(proposal)), &mut fx);
        assert!(process.joiners.is_empty(), "it is in");
        process.failure_detector.hears(NOW + after, Rank(2))
    };
    // No more than a second, because a request may have been held up.
    for (round_trip_ms, more_ms) in [(0, 0), (1, 1), (600, 600), (1_000, 1_000), (4_000, 1_000)] {
        let (round_trip, silent) = (ms(round_trip_ms), SUSPECT_AFTER + ms(more_ms));
        assert!(hears(round_trip, silent - ms(1)) && !hears(round_trip, silent), "{round_trip_ms} ms");
    }
}

/// Others decided more before its welcome was complete. It goes on from that welcome, like a member that missed a
/// decision.
#[test]
fn a_joiner_is_told_on_though_a_later_decree_is_installed() {
    let mut world = World::new(20, 100_000, 0);
    world.run(SUSPECT_AFTER, |world| world.taken_bytes() > 500_000);
    let mut next = decision(DecreeNumber(3), Vec::new());
    (next.view, next.next_group, next.next_space) = (ViewNumber(2), 21, Space(21));
    for process in &mut world.processes[..2] {
        process.handle_control(world.now, B, Control::Decide(Arc::new(next.clone())), &mut Out::default());
    }
    world.run(SUSPECT_AFTER, World::is_in);
    assert_eq!(world.processes[2].directory.decree, DecreeNumber(3));
}

fn part(decree: DecreeNumber, len_bytes: u64, offset: u64, bytes: usize) -> WelcomePart {
    WelcomePart { decree, len_bytes, offset, bytes: vec![1; bytes] }
}

#[test]
fn a_welcome_has_as_many_bytes_as_it_may_and_no_more() {
    let take = |part: WelcomePart| Welcomes::default().take(NOW, A, &part, SUSPECT_AFTER);
    assert_eq!(take(part(DecreeNumber(2), WELCOME_BYTES_MAX, 0, 10)), Ok(Taken::Kept));
    for wrong in [
        part(DecreeNumber(2), WELCOME_BYTES_MAX + 1, 0, 10),
        part(DecreeNumber(2), 9, 0, 10),
        part(DecreeNumber(2), 10, 0, 0),
        part(DecreeNumber(2), 10, u64::MAX, 10),
    ] {
        assert_eq!(take(wrong.clone()), Err(DropReason::Malformed), "{wrong:?}");
    }
    assert_eq!(take(part(DecreeNumber(2), 10, 0, 10)), Ok(Taken::Whole(vec![1; 10])));
}

#[test]
fn parts_of_one_sender_and_decree_are_taken_at_a_time() {
    let mut welcomes = Welcomes::default();
    let mut take = |at, from, part: WelcomePart| welcomes.take(at, from, &part, SUSPECT_AFTER).expect("sound");
    assert_eq!(take(NOW, A, part(DecreeNumber(2), 30, 10, 10)), Taken::Dropped, "the first part did not come");
    assert_eq!(take(NOW, A, part(DecreeNumber(2), 30, 0, 10)), Taken::Kept);
    // None of these changes what was taken: another sender, another length, a gap, a repetition, an earlier decree.
    for (from, other) in [
        (B, part(DecreeNumber(2), 30, 0, 10)),
        (B, part(DecreeNumber(2), 30, 10, 10)),
        (A, part(DecreeNumber(2), 31, 10, 10)),
        (A, part(DecreeNumber(2), 30, 20, 10)),
        (A, part(DecreeNumber::FIRST, 30, 0, 10)),
    ] {
        assert_eq!(take(NOW, from, other.clone()), Taken::Dropped, "{other:?}");
    }
    assert_eq!(take(NOW, A, part(DecreeNumber(2), 30, 10, 10)), Taken::Kept);
    // A later decree takes its place. So does any sender once the first was silent for too long.
    assert_eq!(take(NOW, B, part(DecreeNumber(3), 30, 0, 10)), Taken::Kept);
    assert_eq!(take(NOW, A, part(DecreeNumber(2), 30, 20, 10)), Taken::Dropped);
    let late = NOW + SUSPECT_AFTER / PATIENCE_DIVISOR;
    assert_eq!(take(late, A, part(DecreeNumber(2), 20, 0, 10)), Taken::Kept);
    assert_eq!(take(late, A, part(DecreeNumber(2), 20, 10, 10)), Taken::Whole([[1; 10]; 2].concat()));
}

#[test]
fn a_part_that_is_no_part_and_a_whole_that_is_no_welcome_are_counted() {
    let settings_of = World::new(0, 0, 0);
    let [_, _, mut joiner] = settings_of.processes;
    let mut fx = Out::default();
    let mut handle = |part| {
        joiner.handle_control(NOW, A, Control::WelcomePart(part), &mut fx);
        (joiner.counters.drops[DropReason::Malformed.index()], joiner.counters.welcome_parts_dropped)
    };
    assert_eq!(handle(part(DecreeNumber(2), 9, 0, 10)), (1, 0));
    assert_eq!(handle(part(DecreeNumber(2), 10, 0, 10)), (2, 0), "ten bytes are no welcome");
    assert_eq!(handle(part(DecreeNumber(2), 10, 5, 5)), (2, 1));
    let other = Control::Leave { waits: false }.encode().expect("it can be written");
    let (len_bytes, bytes) = (other.len() as u64, other);
    assert_eq!(
        handle(WelcomePart { decree: DecreeNumber(2), len_bytes, offset: 0, bytes }),
        (3, 1),
        "another message is none either"
    );
    assert!(matches!(joiner.stage, Stage::Searching(_)));
}
