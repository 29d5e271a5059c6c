//! Paths that break in part after the heal and stay so: one link, one direction, one socket, packets of one kind, or
//! long ones. Everything else passes, so no process is plainly dead or cut off. Processes on no broken path are owed a
//! cell that goes on (V14).

mod run;

use std::collections::BTreeSet;

use phalanx_core::TrafficClass;
use phalanx_core::wire::{Header, Kind, PacketNumber, Space};

use crate::fault::{Busy, Role};

pub(crate) use run::{PARTIAL_NS, begin};

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

#[cfg(test)]
mod tests {
    use phalanx_core::Incarnation;

    use super::*;

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
