//! One fault: of a member, of a path, or of the whole cell.

use super::MEMBERS;

/// The kinds of packets that can fail separately between two members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Heartbeats, on the control socket. They carry suspicions and the answers to them.
    Beat,
    /// A coordinator's requests and their answers, on the control socket.
    Ask,
    /// The same, in a long packet.
    LongAsk,
    /// Packets on the data socket.
    Data,
    /// The same, in a long packet.
    LongData,
}

impl Kind {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Beat, Self::Ask, Self::LongAsk, Self::Data, Self::LongData];
}

/// The kinds that fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The data socket.
    Data,
    /// The control socket.
    Control,
    /// Long packets on both.
    Long,
    /// All kinds.
    All,
}

impl What {
    const ALL: [Self; 4] = [Self::Data, Self::Control, Self::Long, Self::All];

    fn holds(self, kind: Kind) -> bool {
        match self {
            Self::Data => matches!(kind, Kind::Data | Kind::LongData),
            Self::Control => matches!(kind, Kind::Beat | Kind::Ask | Kind::LongAsk),
            Self::Long => matches!(kind, Kind::LongAsk | Kind::LongData),
            Self::All => true,
        }
    }
}

/// The direction that fails, seen from the first end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Incoming packets are lost.
    In,
    /// Outgoing packets are lost.
    Out,
    /// Packets in both directions are lost.
    Both,
}

impl Way {
    const ALL: [Self; 3] = [Self::In, Self::Out, Self::Both];
}

/// The fault of a run, for the whole of it unless it heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No fault.
    None,
    /// Packets from or to one member are lost.
    Member(u8, What, Way),
    /// A member answers no coordinator's request, and does everything else.
    Mute(u8),
    /// A member sends heartbeats and begins ballots, and receives nothing on the control socket but heartbeats. So it
    /// answers nothing and suspects no member.
    Hung(u8),
    /// A member's data socket is dead, and the suspicions and answers in others' heartbeats do not reach it.
    Untold(u8),
    /// A member is stopped or dead.
    Stopped(u8),
    /// Two members are stopped or dead.
    BothStopped(u8, u8),
    /// Packets between two members are lost; the direction is seen from the first.
    Path(u8, u8, What, Way),
    /// The whole cell is late: packets of these kinds fail between each two members.
    Overload(What),
}

impl Fault {
    /// All faults of one member or of one path, in a cell of `members`.
    #[must_use]
    pub fn single(members: usize) -> Vec<Self> {
        let mut all = Vec::new();
        for f in 0..members as u8 {
            for what in [What::Data, What::Control, What::Long] {
                all.extend(Way::ALL.map(|way| Self::Member(f, what, way)));
            }
            all.extend([Self::Mute(f), Self::Hung(f), Self::Untold(f), Self::Stopped(f)]);
            for other in f + 1..members as u8 {
                for what in What::ALL {
                    all.extend(Way::ALL.map(|way| Self::Path(f, other, what, way)));
                }
            }
        }
        all
    }

    /// An overload of the whole cell, for each set of kinds.
    #[must_use]
    pub fn overloads() -> Vec<Self> {
        What::ALL.map(Self::Overload).to_vec()
    }

    /// Whether a packet of this kind is lost.
    #[must_use]
    pub fn loses(self, from: u8, to: u8, kind: Kind) -> bool {
        let way = |first: u8, way: Way| match way {
            Way::In => to == first,
            Way::Out => from == first,
            Way::Both => true,
        };
        match self {
            Self::None => false,
            Self::Member(f, what, w) => (from == f || to == f) && what.holds(kind) && way(f, w),
            Self::Mute(f) | Self::Hung(f) => to == f && matches!(kind, Kind::Ask | Kind::LongAsk),
            Self::Untold(f) => (from == f || to == f) && What::Data.holds(kind),
            Self::Stopped(f) => from == f || to == f,
            Self::BothStopped(a, b) => [from, to].iter().any(|m| [a, b].contains(m)),
            Self::Path(a, b, what, w) => [from, to].iter().all(|m| [a, b].contains(m)) && what.holds(kind) && way(a, w),
            Self::Overload(what) => what.holds(kind),
        }
    }

    /// Whether an exchange fails: the packet is lost, or its answer, which takes the reverse path.
    #[must_use]
    pub fn fails(self, from: u8, to: u8, kind: Kind) -> bool {
        let answer = !matches!(self, Self::Mute(f) if f == from) && self.loses(to, from, kind);
        from != to && (self.loses(from, to, kind) || answer)
    }

    /// Whether the member does more than send heartbeats.
    #[must_use]
    pub fn acts(self, member: u8) -> bool {
        !self.is_stopped(member) && !matches!(self, Self::Hung(f) if f == member)
    }

    /// Whether the member does nothing at all.
    #[must_use]
    pub fn is_stopped(self, member: u8) -> bool {
        match self {
            Self::Stopped(f) => f == member,
            Self::BothStopped(a, b) => [a, b].contains(&member),
            _ => false,
        }
    }

    /// Whether a member receives the suspicions and answers in another's heartbeats. In an overload they arrive in the
    /// end.
    #[must_use]
    pub fn tells(self, from: u8, to: u8) -> bool {
        match self {
            Self::Overload(_) => true,
            Self::Untold(f) | Self::Hung(f) if f == to => false,
            _ => !self.loses(from, to, Kind::Beat),
        }
    }

    /// The set of members that must go: the faulty member, or the younger end of the path.
    #[must_use]
    pub fn due(self) -> u8 {
        match self {
            Self::None | Self::Overload(_) => 0,
            Self::Member(f, ..) | Self::Mute(f) | Self::Hung(f) | Self::Untold(f) | Self::Stopped(f) => 1 << f,
            Self::BothStopped(a, b) => 1 << a | 1 << b,
            Self::Path(a, b, ..) => 1 << a.max(b),
        }
    }

    /// The members that may be taken for faulty while a fault comes and goes: the ends of the broken paths.
    #[must_use]
    pub fn ends(self, members: usize) -> u8 {
        let all = 0..members as u8;
        let broken = |a: u8, b: u8| Kind::ALL.iter().any(|kind| self.fails(a, b, *kind));
        let ends = all.clone().filter(|a| all.clone().any(|b| broken(*a, b) || broken(b, *a)));
        ends.fold(0, |set, m| set | 1 << m)
    }
}

const _: () = assert!(MEMBERS <= 8, "sets of members are bytes");
