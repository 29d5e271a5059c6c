//! Paths that break in part after the heal and stay so: one link, one direction, one socket, packets of one kind, or
//! long ones. Everything else passes, so no process is plainly dead or cut off. Processes on no broken path are owed a
//! cell that goes on (V14).

use std::collections::BTreeSet;

use phalanx_core::TrafficClass;
use phalanx_core::rng::Rng;
use phalanx_core::wire::{Header, Kind, PacketNumber, Space};
use phalanx_trace::Event as TraceEvent;

use crate::fault::{Aim, Busy, Role};
use crate::links::all_links;
use crate::plan::{MS, Plan, SECOND};
use crate::result::add_to;
use crate::swarm::index;
use crate::world::World;

/// The breaks after the heal, and the event after that which changes the view.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// One break, sometimes two.
    pub breaks: Vec<Break>,
    /// The activity inside which the paths break, if it occurs; otherwise they break at once.
    pub inside: Option<(Busy, u64)>,
    /// The event that changes the view.
    pub provoke: Provoke,
    /// Time of the event after the break; or before it, if the break is aimed at an activity.
    pub provoke_after_ns: u64,
}

/// A partly broken path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// Its links.
    pub at: Place,
    /// The packets that do not pass.
    pub what: What,
}

/// The links of a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Both ways between two processes.
    Link(Role, Role),
    /// From the first process to the second.
    OneWay(Role, Role),
    /// Everything to one process.
    To(Role),
    /// Everything from one process.
    From(Role),
    /// Everything to and from one process.
    Around(Role),
}

/// The packets that do not pass a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All packets.
    All,
    /// Packets between sockets of this class.
    Socket(TrafficClass),
    /// Packets of one kind.
    Kind(Kind),
    /// Packets of more bytes than this.
    Longer(usize),
}

/// The event that changes the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provoke {
    /// A process crashes, and is restarted after this time; `None`: it stays dead.
    Crash(Option<u64>),
    /// A process leaves, and comes back after this time; `None`: it stays away.
    Leave(Option<u64>),
    /// A process leaves a group and joins it again.
    Regroup,
    /// No event but the break itself.
    Nothing,
}

/// Time from the break to the end of the run's last phase: the checker's bound, time in which messages are evaluated
/// against it, and the bound once more for their delivery.
pub(crate) const PARTIAL_NS: u64 = 36 * SECOND;
/// Interval within which applications multicast in each group.
const SENDS_EVERY_NS: u64 = 3 * SECOND;
/// Time for which an aimed break waits for its moment.
const PATIENCE_NS: u64 = 3 * SECOND;

impl What {
    fn stops(self, class: TrafficClass, kind: Option<Kind>, len_bytes: usize) -> bool {
        match self {
            Self::All => true,
            Self::Socket(of) => of == class,
            Self::Kind(of) => kind == Some(of),
            Self::Longer(than) => len_bytes > than,
        }
    }
}

impl Break {
    /// Its kind, for tables.
    #[must_use]
    pub fn name(&self) -> String {
        let what = match self.what {
            What::All => "everything".to_owned(),
            What::Socket(TrafficClass::Data) => "data socket".to_owned(),
            What::Socket(TrafficClass::Control) => "control socket".to_owned(),
            What::Kind(Kind::BestEffortMulticast) => "best-effort multicast packets".to_owned(),
            What::Kind(kind) => format!("{kind:?} packets"),
            What::Longer(_) => "long packets".to_owned(),
        };
        let place = match self.at {
            Place::Link(..) => "one link",
            Place::OneWay(..) => "one link, one way",
            Place::To(_) => "to one member",
            Place::From(_) => "from one member",
            Place::Around(_) => "to and from one member",
        };
        format!("{what}, {place}")
    }
}

/// A break in force.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    links: Vec<(usize, usize)>,
    what: What,
    /// The fault that removes it again; `None`: it stays.
    pub(crate) fault: Option<usize>,
    /// The only packets it stops, by space and number, and those it learns; `None`: all.
    only: Option<BTreeSet<(Space, PacketNumber)>>,
    learning: bool,
    since: Since,
}

/// Condition under which a gate begins to stop packets.
#[derive(Clone, Copy, Debug)]
enum Since {
    /// At once.
    Begin,
    /// After the first packet, which also fixes the space; earlier packets of that space pass.
    First,
    /// After this packet of this space.
    Packet(Space, PacketNumber),
    /// When the token of the view with this space has passed more often than this.
    Pass(Space, u32),
}

impl Gate {
    pub(crate) fn new(links: Vec<(usize, usize)>, what: What) -> Self {
        Self { links, what, fault: None, only: None, learning: false, since: Since::Begin }
    }

    /// A gate for the time of a fault.
    pub(crate) fn of(self, fault: usize) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// Stops all packets for now, and later only retransmissions of those.
    pub(crate) fn learning(self) -> Self {
        Self { only: Some(BTreeSet::new()), learning: true, ..self }
    }

    /// From now on stops only the packets that it has stopped before.
    pub(crate) fn end_learning(&mut self) {
        self.learning = false;
    }

    /// Lets the next packet pass, and no later one.
    pub(crate) fn after_the_first(self) -> Self {
        Self { since: Since::First, ..self }
    }

    /// Lets everything pass until the token of the view with this packet space has passed more often than `tenure`
    /// times.
    pub(crate) fn after_pass(self, (space, tenure): (Space, u32)) -> Self {
        Self { since: Since::Pass(space, tenure), ..self }
    }

    /// Whether it stands open until a token passes.
    pub(crate) fn awaits_pass(&self) -> bool {
        matches!(self.since, Since::Pass(..))
    }

    /// Notes that the next packet of a process is the first to announce this number of token passes.
    pub(crate) fn note_tenure(&mut self, slot: usize, space: Space, tenure: u32) {
        let told = matches!(self.since, Since::Pass(of, known) if of == space && tenure > known);
        if told && self.links.iter().any(|(from, _)| *from == slot) {
            self.since = Since::Begin;
        }
    }

    /// Whether the gate lets this packet pass because its condition does not hold yet.
    fn spares(&mut self, header: Option<Header>) -> bool {
        match (self.since, header) {
            (Since::First, Some(header)) => {
                self.since = Since::Packet(header.space, header.number);
                true
            }
            (Since::Packet(space, number), Some(header)) => header.space == space && header.number <= number,
            (Since::Pass(..), _) => true,
            _ => false,
        }
    }

    pub(crate) fn stops(
        &mut self,
        (from, to): (usize, usize),
        class: TrafficClass,
        header: Option<Header>,
        len: usize,
    ) -> bool {
        if !self.links.contains(&(from, to)) || !self.what.stops(class, header.map(|header| header.kind), len) {
            return false;
        }
        if self.spares(header) {
            return false;
        }
        match (&mut self.only, header) {
            (Some(only), Some(header)) if self.learning => {
                only.insert((header.space, header.number));
                true
            }
            (Some(only), Some(header)) => only.contains(&(header.space, header.number)),
            _ => true,
        }
    }
}

impl Plan {
    /// A plan whose faulty phase is short, or has no fault, and after which paths break in part.
    #[must_use]
    pub fn draw_partial(seed: u64, members: usize) -> Self {
        let mut rng = Rng::new(seed).fork("partial");
        // Cells below the level at which members probe each other promise nothing here.
        let mut plan = Self { minima: None, builds: None, ..Self::draw_single_inbox(seed, members) };
        (plan.mild, plan.lethal, plan.ruin) = (false, false, false);
        plan.heal_ns = (4 + rng.below(4)) * SECOND;
        let disturbed = rng.chance_ppm(500_000);
        plan.faults.retain(|fault| {
            let (Aim::At(at_ns) | Aim::Inside { from_ns: at_ns, .. }) = fault.aim;
            disturbed && at_ns < plan.heal_ns
        });
        let mut breaks = vec![draw_break(&mut rng, &plan)];
        if plan.members >= 5 && rng.chance_ppm(200_000) {
            breaks.push(draw_break(&mut rng, &plan));
        }
        let back_ns = rng.chance_ppm(700_000).then(|| 10 * MS + rng.below(600 * MS));
        let provoke = match rng.below(10) {
            0..=3 => Provoke::Crash(back_ns),
            4..=6 => Provoke::Leave(back_ns),
            7 | 8 => Provoke::Regroup,
            _ => Provoke::Nothing,
        };
        let busy = match provoke {
            Provoke::Crash(_) | Provoke::Leave(None) => [Busy::Flush, Busy::Proposal][index(&mut rng, 2)],
            Provoke::Leave(Some(_)) => [Busy::Flush, Busy::Proposal, Busy::Join][index(&mut rng, 3)],
            Provoke::Regroup | Provoke::Nothing => [Busy::Flush, Busy::Transfer][index(&mut rng, 2)],
        };
        let after_ns = [0, rng.below(8 * plan.weather.base_ns)][index(&mut rng, 2)];
        let inside = (provoke != Provoke::Nothing && rng.chance_ppm(500_000)).then_some((busy, after_ns));
        let provoke_after_ns = [0, rng.below(50 * MS), rng.below(3 * SECOND)][index(&mut rng, 3)];
        plan.partial = Some(Partial { breaks, inside, provoke, provoke_after_ns });
        plan
    }
}

fn draw_break(rng: &mut Rng, plan: &Plan) -> Break {
    let what = match rng.below(10) {
        0 | 1 => What::All,
        2 | 3 => What::Socket(TrafficClass::Data),
        4 | 5 => What::Socket(TrafficClass::Control),
        6 | 7 => {
            let kinds =
                [Kind::Handshake, Kind::Direct, Kind::BestEffortMulticast, Kind::Control, Kind::Data, Kind::Multicast];
            What::Kind(kinds[index(rng, kinds.len())])
        }
        _ if plan.packet_bytes > 4_000 => What::Longer([600, 1_500, 4_000][index(rng, 3)]),
        _ => What::Longer([600, 1_000, 1_300][index(rng, 3)]),
    };
    let role = match rng.below(6) {
        0 | 1 => Role::Coordinator,
        2 => Role::Joiner,
        _ => Role::Slot(index(rng, 64)),
    };
    let other = Role::Slot(index(rng, 64));
    // Three members are no quorum without the two ends of a link. A process that no other hears, or that hears none, is
    // not partly broken.
    let link = plan.members >= 5 && (what == What::All || rng.chance_ppm(400_000));
    let at = match (link, rng.below(3)) {
        (true, 0) => Place::Link(role, other),
        (true, 1) => Place::OneWay(role, other),
        (true, _) => Place::OneWay(other, role),
        (false, 0) => Place::To(role),
        (false, 1) => Place::From(role),
        (false, _) => Place::Around(role),
    };
    let what = if !link && what == What::All {
        What::Socket([TrafficClass::Data, TrafficClass::Control][index(rng, 2)])
    } else {
        what
    };
    Break { at, what }
}

impl World {
    /// Breaks the paths, if the processes on none of them are a quorum without those at the broken ends.
    pub(crate) fn impair(&mut self, partial: &Partial) {
        let n = self.slots.len();
        for broken in &partial.breaks {
            let (ends, what) = (self.ends(broken.at), broken.what);
            let all: Vec<usize> = self.impaired.iter().chain(&ends).copied().collect();
            let Some((last, others)) = all.split_last().filter(|(last, others)| self.can_do_without(others, **last))
            else {
                self.counters.faults_withheld += 1;
                continue;
            };
            debug_assert!(*last < n && others.iter().all(|slot| *slot < n), "ends are slots");
            let links = all_links(n).into_iter().filter(|(from, to)| match broken.at {
                Place::Link(..) => ends.contains(from) && ends.contains(to),
                Place::OneWay(..) => [*from, *to] == ends[..],
                Place::To(_) => ends.contains(to),
                Place::From(_) => ends.contains(from),
                Place::Around(_) => ends.contains(from) || ends.contains(to),
            });
            let gate = Gate::new(links.collect(), what);
            self.net.put_up(gate);
            // A broken path is broken in memory, too.
            if let Some(memory) = &mut self.settings.memory {
                memory.bridges = false;
            }
            self.impaired = all;
            let name = broken.name();
            add_to(&mut self.counters.partial, &name, 1);
            let names: Vec<String> = ends.iter().map(|slot| self.slots[*slot].name.clone()).collect();
            let text = format!("{what:?} does not pass any more, {:?}: {}", broken.at, names.join(" "));
            self.note(None, text);
            let event = TraceEvent::Impaired { ends: names, what: name, sends_every_ns: SENDS_EVERY_NS };
            self.harness.push(self.now_ns, event);
        }
    }

    /// The slots at the ends of a break. With a one-way link its sender comes first.
    fn ends(&mut self, at: Place) -> Vec<usize> {
        match at {
            Place::Link(a, b) | Place::OneWay(a, b) => {
                let (Some(a), Some(b)) = (self.resolve(a), self.resolve(b)) else { return Vec::new() };
                // One process may play both roles; then the next slot is the other end.
                let b = if a == b { (b + 1) % self.slots.len() } else { b };
                vec![a, b]
            }
            Place::To(role) | Place::From(role) | Place::Around(role) => self.resolve(role).into_iter().collect(),
        }
    }

    /// Changes the view. A process goes that those on no broken path can do without, otherwise one at a broken end.
    pub(crate) fn provoke(&mut self, provoke: Provoke) {
        let n = self.slots.len();
        let first = usize::try_from(self.rng.below(n as u64)).unwrap_or(0);
        let at_end = |slot: &usize| self.impaired.contains(slot);
        let runs = |slot: &usize| self.slots[*slot].runs() && !self.slots[*slot].leaving;
        let order: Vec<usize> = (0..n).map(|step| (first + step) % n).filter(runs).collect();
        let spare = order.iter().copied().find(|slot| !at_end(slot) && self.can_do_without(&self.impaired, *slot));
        let Some(slot) = spare.or_else(|| order.iter().copied().find(at_end)) else { return };
        match provoke {
            Provoke::Crash(back_ns) => {
                self.crash(slot);
                back_ns.into_iter().for_each(|back_ns| self.start_later(slot, back_ns, false));
            }
            Provoke::Leave(back_ns) => {
                self.leave(slot);
                back_ns.into_iter().for_each(|back_ns| self.start_later(slot, back_ns, false));
            }
            Provoke::Regroup => self.regroup(order[0]),
            Provoke::Nothing => {}
        }
    }

    /// Names of the processes on no broken path.
    pub(crate) fn unimpaired(&self) -> Vec<String> {
        let whole = self.slots.iter().enumerate().filter(|(slot, _)| !self.impaired.contains(slot));
        whole.map(|(_, slot)| slot.name.clone()).collect()
    }
}

/// Breaks the paths of a plan, and changes the view. `go` runs the world until a time, and stops at once when it finds
/// a process busy with the given activity.
pub(crate) fn begin(partial: &Partial, world: &mut World, go: &mut impl FnMut(&mut World, u64, Option<Busy>)) {
    match partial.inside {
        None => {
            world.impair(partial);
            go(world, world.now_ns + partial.provoke_after_ns, None);
            world.provoke(partial.provoke);
        }
        Some((busy, after_ns)) => {
            world.provoke(partial.provoke);
            go(world, world.now_ns + PATIENCE_NS, Some(busy));
            go(world, world.now_ns + after_ns, None);
            world.impair(partial);
        }
    }
    // Processes that are to be restarted are started.
    go(world, world.now_ns + SECOND, None);
}

#[cfg(test)]
mod tests {
    use phalanx_core::Incarnation;

    use super::*;

    #[test]
    fn every_kind_of_break_is_drawn_and_three_members_lose_no_link() {
        let names = |members| -> BTreeSet<String> {
            let plans = (0..3000).filter_map(|seed| Plan::draw_partial(seed, members).partial);
            plans.flat_map(|partial| partial.breaks).map(|broken| broken.name()).collect()
        };
        // Everything on two kinds of link; two sockets, six kinds and a length on all five places.
        assert_eq!(names(5).len(), 2 + 9 * 5);
        assert_eq!(names(3).len(), 9 * 3);
    }

    #[test]
    fn a_gate_stops_what_it_says_on_its_links() {
        let gate = |what| Gate::new(vec![(0, 1)], what);
        let header = |number| Header {
            kind: Kind::Multicast,
            sender: Incarnation(7),
            space: Space(3),
            number: PacketNumber(number),
            cell_tag: 0,
        };
        let stops = |what, from, to| gate(what).stops((from, to), TrafficClass::Data, Some(header(1)), 1000);
        assert!(stops(What::All, 0, 1) && !stops(What::All, 1, 0));
        assert!(stops(What::Socket(TrafficClass::Data), 0, 1) && !stops(What::Socket(TrafficClass::Control), 0, 1));
        assert!(stops(What::Kind(Kind::Multicast), 0, 1) && !stops(What::Kind(Kind::Data), 0, 1));
        assert!(stops(What::Longer(999), 0, 1) && !stops(What::Longer(1000), 0, 1));
        // A retransmission of a stopped packet is stopped, and a new packet is not.
        let mut learning = gate(What::All).learning();
        let stops =
            |learning: &mut Gate, number| learning.stops((0, 1), TrafficClass::Data, Some(header(number)), 1000);
        assert!(stops(&mut learning, 1) && stops(&mut learning, 2));
        learning.end_learning();
        assert!(stops(&mut learning, 2) && !stops(&mut learning, 3));
    }

    #[test]
    fn a_gate_stops_what_comes_after_the_first_packet_or_after_a_pass() {
        let header = |space, number| Header {
            kind: Kind::Multicast,
            sender: Incarnation(7),
            space,
            number: PacketNumber(number),
            cell_tag: 0,
        };
        let stops =
            |gate: &mut Gate, space, number| gate.stops((0, 1), TrafficClass::Data, Some(header(space, number)), 1000);
        let gate = || Gate::new(vec![(0, 1)], What::All);
        let mut first = gate().after_the_first();
        assert!(!stops(&mut first, Space(3), 8) && stops(&mut first, Space(3), 9));
        assert!(
            !stops(&mut first, Space(3), 7) && !stops(&mut first, Space(3), 8) && stops(&mut first, Space(4), 1),
            "sent again, or of others"
        );
        let mut pass = gate().after_pass((Space(3), 5));
        for (slot, space, tenure) in [(0, 3, 5), (0, 4, 6), (1, 3, 6)] {
            pass.note_tenure(slot, Space(space), tenure);
            assert!(pass.awaits_pass() && !stops(&mut pass, Space(3), 1));
        }
        pass.note_tenure(0, Space(3), 6);
        assert!(!pass.awaits_pass() && stops(&mut pass, Space(3), 2));
    }
}
