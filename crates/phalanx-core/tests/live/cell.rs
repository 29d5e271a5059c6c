//! Three processes, the packets between them, time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use phalanx_core::{
    CellInstance, DeathProof, GroupId, GroupTerms, Incarnation, Instant, Order, Origin, Packet, Sequence, Stability,
    TrafficClass, Uniformity, ViewNumber,
};

use super::forge::Forger;
use super::member::{GROUPS, Line, Member, address, slot};
use super::steps::Step;

/// Number of processes in the cell.
pub(super) const SLOTS: usize = 3;
/// Time from one process to the next, if undisturbed.
const LATENCY: Duration = Duration::from_micros(200);
/// Packets under way. More are lost, as in a network.
const FLIGHT_MAX: usize = 2048;
/// Packets that one process may send at one moment.
const BURST_MAX: usize = 4096;
/// Consecutive polls that a process may request at one moment.
const TURNS_AT_ONCE: usize = 32;
/// Polls per millisecond that a process may request while nothing arrives.
const TURNS_PER_MS: usize = 20;

/// Cell instance, group and view number.
type View = (CellInstance, GroupId, ViewNumber);

/// A packet under way.
pub(super) struct Flying {
    pub(super) due: Instant,
    pub(super) class: TrafficClass,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: Vec<u8>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Deliveries at all processes.
    pub(crate) delivered: usize,
    /// Bytes of accepted point-to-point messages.
    pub(crate) sent_bytes: usize,
    /// Bytes of those that arrived.
    pub(crate) received_bytes: usize,
    /// Packets that were damaged or not sealed with the cell key. All must be refused.
    pub(crate) refused: usize,
    /// Packets with frames of a traitor.
    pub(crate) forged: usize,
    /// Incarnations that started after the first three.
    pub(crate) restarts: u64,
    /// Group views installed by the first members of each slot at the end.
    pub(crate) members: usize,
}

/// A cell under attack.
pub(crate) struct LiveCell {
    now: Instant,
    sealed: bool,
    pub(super) members: Vec<Member>,
    incarnations: u64,
    flight: VecDeque<Flying>,
    forger: Forger,
    /// The message at each position of each order, as the first process delivered it.
    places: BTreeMap<(View, u64), (Incarnation, Sequence)>,
    /// The bytes of each message, likewise.
    payloads: BTreeMap<(View, Incarnation, Sequence), (usize, u64)>,
    account: Account,
}

impl LiveCell {
    /// Forms three processes in one group with state, with traffic under way.
    ///
    /// # Panics
    /// When they do not find each other.
    pub(crate) fn found(sealed: bool) -> Self {
        let now = Instant(1_000_000);
        let start = |i: usize| Member::start(now, i, SLOTS, Incarnation(i as u64 + 1), i == 0, sealed);
        let mut cell = Self {
            now,
            sealed,
            members: (0..SLOTS).map(start).collect(),
            incarnations: SLOTS as u64,
            flight: VecDeque::new(),
            forger: Forger::new(sealed),
            places: BTreeMap::new(),
            payloads: BTreeMap::new(),
            account: Account::default(),
        };
        let whole = |m: &Member| m.out.groups.iter().any(|g| g.2 == SLOTS);
        for _ in 0..500 {
            cell.wait(Duration::from_millis(10));
            if cell.members.iter().all(whole) {
                break;
            }
        }
        assert!(cell.members.iter().all(whole), "three processes did not find each other");
        for who in 0..SLOTS {
            cell.multicast(who, who as u8, 100);
        }
        cell
    }

    /// The result so far.
    pub(crate) fn account(&self) -> Account {
        let received_bytes = self.members.iter().map(|m| m.out.messages).sum();
        Account { restarts: self.incarnations - SLOTS as u64, received_bytes, ..self.account }
    }

    /// Takes one step.
    pub(crate) fn take(&mut self, step: &Step) {
        match *step {
            Step::Wait { n } => self.wait(Duration::from_millis(u64::from(n) * u64::from(n) / 32)),
            Step::Deliver { which } => {
                if let Some(packet) = self.pick(which).and_then(|i| self.flight.remove(i)) {
                    self.arrive(packet);
                }
            }
            Step::Lose { which } => drop(self.pick(which).and_then(|i| self.flight.remove(i))),
            Step::Duplicate { which } => {
                if let Some(i) = self.pick(which) {
                    let Flying { due, class, from, to, ref bytes } = self.flight[i];
                    self.arrive(Flying { due, class, from, to, bytes: bytes.clone() });
                }
            }
            Step::Delay { which, ms } => {
                if let Some(mut packet) = self.pick(which).and_then(|i| self.flight.remove(i)) {
                    packet.due += Duration::from_millis(u64::from(ms));
                    self.fly(packet);
                }
            }
            Step::Damage { which, at, mask } => self.damage(which, at, mask),
            Step::Multicast { who, how, len } => self.multicast(usize::from(who) % SLOTS, how, usize::from(len)),
            Step::Message { who, to, len } => {
                let (now, to) = (self.now, self.members[usize::from(to) % SLOTS].process.me());
                let payload = vec![len as u8; usize::from(len)];
                // A command may be refused, but must do no harm.
                if self.members[usize::from(who) % SLOTS].process.send(now, to, &payload).is_ok() {
                    self.account.sent_bytes += payload.len();
                }
            }
            Step::Crash { who, told } => self.crash(usize::from(who) % SLOTS, told),
            Step::Restart { who } => self.restart(usize::from(who) % SLOTS),
            Step::Busy { who } => self.members[usize::from(who) % SLOTS].out.busy ^= true,
            Step::Group { who, which } => self.change_group(usize::from(who) % SLOTS, usize::from(which)),
            Step::Leave { who } => self.members[usize::from(who) % SLOTS].process.leave(self.now),
            Step::Twist { which, ref edits } => {
                if let Some(i) = self.pick(which) {
                    let packet = &mut self.flight[i];
                    let dest = self.members[packet.to].process.me();
                    self.account.forged += usize::from(self.forger.twist(packet, dest, edits));
                }
            }
            Step::Forge { from, to, kind, space, number, times, ref frames } => {
                let to = usize::from(to) % SLOTS;
                let dest = self.members[to].process.me();
                let sender = self.speaker(from);
                let packets = self.forger.forge(sender, (to, dest), kind, (space, number), times, frames);
                self.send_forged(packets);
            }
            Step::Speak { from, to, data, ref message } => {
                let to = usize::from(to) % SLOTS;
                let dest = self.members[to].process.me();
                let sender = self.speaker(from);
                let packets = self.forger.speak(sender, (to, dest), data, message);
                self.send_forged(packets);
            }
            Step::Intrude { to, kind, seals, ref frames } => {
                let stranger = Incarnation(1_000_000 + self.account.refused as u64);
                let to = usize::from(to) % SLOTS;
                let packet = Forger::intrude(stranger, self.members[to].process.me(), kind, seals, frames);
                if self.sealed {
                    self.refuse(to, TrafficClass::Control, SLOTS, packet);
                }
            }
        }
        for i in 0..SLOTS {
            self.poll(i);
        }
        self.check();
    }

    /// Lets everything under way arrive, and time pass.
    pub(crate) fn settle(&mut self) {
        for member in &mut self.members {
            member.out.busy = false;
        }
        self.wait(Duration::from_millis(100));
        self.check();
        self.account.members = self.members.iter().filter(|m| m.runs()).map(|m| m.out.groups.len()).sum();
    }

    fn pick(&self, which: u8) -> Option<usize> {
        usize::from(which).checked_rem(self.flight.len())
    }

    /// The process that a traitor speaks as: that of a slot, or a stranger with the key.
    fn speaker(&self, from: u8) -> (usize, Incarnation) {
        match self.members.get(usize::from(from) % (SLOTS + 1)) {
            Some(member) => (usize::from(from) % (SLOTS + 1), member.process.me()),
            None => (SLOTS, Incarnation(1000 + u64::from(from))),
        }
    }

    fn send_forged(&mut self, packets: Vec<Flying>) {
        self.account.forged += packets.len();
        for packet in packets {
            self.arrive(packet);
        }
    }

    /// Lets `time` pass: packets arrive, processes are polled.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        let mut idle_turns = 0;
        loop {
            let arrival = self.flight.iter().map(|p| p.due).min();
            let turn = self.members.iter().filter(|m| m.alive).filter_map(|m| m.process.deadline()).min();
            let Some(next) = [arrival, turn].into_iter().flatten().min() else { break };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            // In the order sent, one packet after the other at each moment.
            let mut arrived = false;
            while let Some(i) = self.flight.iter().position(|p| p.due <= self.now) {
                let packet = self.flight.remove(i).expect("just found");
                self.arrive(packet);
                arrived = true;
            }
            idle_turns = if arrived { 0 } else { idle_turns + 1 };
            let allowed = TURNS_PER_MS * SLOTS * (1 + usize::try_from(time.as_millis()).expect("seconds"));
            assert!(idle_turns < allowed, "polls are requested without effect: {time:?}");
            for i in 0..SLOTS {
                if self.members[i].process.deadline().is_some_and(|d| d <= self.now) {
                    self.poll(i);
                }
            }
        }
        self.now = self.now.max(end);
        for i in 0..SLOTS {
            self.poll(i);
        }
    }

    fn arrive(&mut self, mut packet: Flying) {
        let member = &mut self.members[packet.to];
        if member.alive {
            let from = address(packet.from, packet.class);
            member.process.handle_packet(
                self.now,
                packet.class,
                Origin::Network(from),
                Packet::Lent(&mut packet.bytes),
                &mut member.out,
            );
            member.process.check_invariants();
            self.collect(packet.to);
        }
    }

    /// Polls until nothing more is due at this moment.
    fn poll(&mut self, i: usize) {
        let member = &mut self.members[i];
        if !member.alive {
            return;
        }
        let mut turns = 0;
        loop {
            member.process.poll(self.now, &mut member.out);
            member.process.check_invariants();
            turns += 1;
            if member.process.deadline().is_none_or(|d| d > self.now) {
                break;
            }
            assert!(turns < TURNS_AT_ONCE, "a process requests polls without end");
        }
        self.collect(i);
    }

    /// Collects what process `i` sent.
    fn collect(&mut self, i: usize) {
        let packets = std::mem::take(&mut self.members[i].out.packets);
        assert!(packets.len() < BURST_MAX, "{} packets at one moment", packets.len());
        for (class, to, bytes) in packets {
            let Some(to) = slot(to).filter(|&s| s < SLOTS) else { continue };
            self.forger.saw(i, to, &bytes);
            self.fly(Flying { due: self.now + LATENCY, class, from: i, to, bytes });
        }
        for line in std::mem::take(&mut self.members[i].out.delivered) {
            self.account.delivered += 1;
            self.note(i, line);
        }
    }

    fn fly(&mut self, packet: Flying) {
        if self.flight.len() < FLIGHT_MAX {
            self.flight.push_back(packet);
        }
    }

    /// Compares a delivery with those of other processes, for as long as all are honest.
    fn note(&mut self, i: usize, line: Line) {
        if self.account.forged > 0 {
            return;
        }
        let Line { group, view, sender, seq, position, .. } = line;
        let view = (self.members[i].out.instance, group, view);
        let payload = *self.payloads.entry((view, sender, seq)).or_insert(line.payload);
        assert_eq!(payload, line.payload, "m{i} delivers {line:?}, another process delivered other bytes");
        if let Some(position) = position {
            let first = *self.places.entry((view, position)).or_insert((sender, seq));
            assert_eq!(first, (sender, seq), "m{i} delivers {line:?} where another process delivered {first:?}");
        }
    }

    fn multicast(&mut self, who: usize, how: u8, len: usize) {
        let order = [Order::Fifo, Order::Causal, Order::Total][usize::from(how) % 3];
        let stability = match how & 0x60 {
            0x20 => Stability::GroupDefault,
            other => Uniformity::from_flag(other & 0x40 != 0).into(),
        };
        let payload = vec![how; len];
        let member = &mut self.members[who];
        let name = GROUPS[usize::from(how >> 7)];
        if let Some(group) = member.group(name).filter(|_| member.alive) {
            let (now, out) = (self.now, &mut member.out);
            // A command may be refused, but must do no harm.
            let _refused = member.process.multicast(now, group, order, stability, &[&payload], out);
        }
        self.poll(who);
    }

    fn change_group(&mut self, who: usize, which: usize) {
        let now = self.now;
        let member = &mut self.members[who];
        let name = GROUPS[which % GROUPS.len()];
        let _refused = match member.group(name) {
            Some(group) => member.process.leave_group(now, group),
            None => member.process.join_group(now, name, which & 2 == 0, GroupTerms::default()),
        };
    }

    fn crash(&mut self, who: usize, told: bool) {
        let (now, dead) = (self.now, self.members[who].process.me());
        self.members[who].alive = false;
        for member in self.members.iter_mut().filter(|m| m.alive && told) {
            member.process.handle_death(now, dead, DeathProof::Ended);
        }
    }

    fn restart(&mut self, who: usize) {
        if self.members[who].runs() {
            return;
        }
        self.incarnations += 1;
        let founds = !self.members.iter().any(Member::runs);
        let me = Incarnation(self.incarnations);
        self.members[who] = Member::start(self.now, who, SLOTS, me, founds, self.sealed);
    }

    /// Delivers a damaged copy of a packet.
    fn damage(&mut self, which: u8, at: u16, mask: u8) {
        let Some(packet) = self.pick(which).map(|i| &self.flight[i]) else { return };
        let mut bytes = packet.bytes.clone();
        let (class, from, to, at) = (packet.class, packet.from, packet.to, usize::from(at) % bytes.len());
        // A checksum over a packet's kind does not cover its receiver, which is part of the kind.
        let provable = self.sealed || (at > 0 && mask != 0);
        match mask {
            0 => bytes.truncate(at),
            mask => bytes[at] ^= mask,
        }
        if provable {
            self.refuse(to, class, from, bytes);
        }
    }

    /// Hands in a packet that must be refused and counted, and must change nothing else.
    fn refuse(&mut self, to: usize, class: TrafficClass, from: usize, mut bytes: Vec<u8>) {
        let member = &mut self.members[to];
        if !member.runs() {
            return;
        }
        let (refused, due) = (member.refused(), member.process.undelivered());
        member.process.handle_packet(
            self.now,
            class,
            Origin::Network(address(from, class)),
            Packet::Lent(&mut bytes),
            &mut member.out,
        );
        assert_eq!(member.refused(), refused + 1, "a packet nobody sealed was not refused");
        assert!(member.out.packets.is_empty(), "a packet nobody sealed was answered");
        assert!(member.out.delivered.is_empty() && member.process.undelivered() == due, "such a packet was read");
        self.account.refused += 1;
    }

    fn check(&self) {
        for member in self.members.iter().filter(|m| m.alive) {
            member.process.check_invariants();
            // An operator's status queries must work in any state.
            drop(member.process.streams());
            let _told = (member.process.activity(), member.process.is_primary());
        }
    }
}
