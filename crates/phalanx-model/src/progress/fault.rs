//! One fault: of a member, of a path, or of the whole cell.

use super::MEMBERS;

/// What can fail by itself between two members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Heartbeats, on the control socket. They carry who is suspected, and the answers.
    Beat,
    /// Questions of a coordinator and their answers, on the control socket.
    Ask,
    /// The same in a long packet.
    LongAsk,
    /// On the data socket.
    Data,
    /// The same in a long packet.
    LongData,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Beat, Self::Ask, Self::LongAsk, Self::Data, Self::LongData];
}

/// Which kinds fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The data socket.
    Data,
    /// The control socket.
    Control,
    /// Long packets on both.
    Long,
    /// Everything.
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

/// Seen from the first end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// What comes in is lost.
    In,
    /// What goes out is lost.
    Out,
    /// Both.
    Both,
}

impl Way {
    const ALL: [Self; 3] = [Self::In, Self::Out, Self::Both];
}

/// What is broken, for the whole run unless it heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    None,
    /// Packets from or to one member are lost.
    Member(u8, What, Way),
    /// It answers no questions of a coordinator, and all else.
    Mute(u8),
    /// It sends heartbeats and begins ballots, and takes in nothing on the control socket but heartbeats: it answers nothing and
    /// suspects nobody.
    Hung(u8),
    /// Its data socket is dead, and what others say with their heartbeats does not reach it.
    Untold(u8),
    /// It is stopped or dead.
    Stopped(u8),
    /// Two are.
    BothStopped(u8, u8),
    /// Packets between two members are lost, seen from the first.
    Path(u8, u8, What, Way),
    /// The whole cell is late: each of these between each two.
    Overload(What),
}

impl Fault {
    /// All faults of one member, or of one path, in a cell of so many.
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

    /// The whole cell is late, in each kind.
    #[must_use]
    pub fn overloads() -> Vec<Self> {
        What::ALL.map(Self::Overload).to_vec()
    }

    /// Whether a packet is lost.
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

    /// Whether what a member sends another comes to nothing: it is lost, or the answer is, which goes the same way back.
    #[must_use]
    pub fn fails(self, from: u8, to: u8, kind: Kind) -> bool {
        let answer = !matches!(self, Self::Mute(f) if f == from) && self.loses(to, from, kind);
        from != to && (self.loses(from, to, kind) || answer)
    }

    /// Whether the member does what a member does besides sending heartbeats.
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

    /// Whether a member gets what another says with its heartbeats. Those that are late come in the end.
    #[must_use]
    pub fn tells(self, from: u8, to: u8) -> bool {
        match self {
            Self::Overload(_) => true,
            Self::Untold(f) | Self::Hung(f) if f == to => false,
            _ => !self.loses(from, to, Kind::Beat),
        }
    }

    /// Who has to go, as a set: the faulty member, or the younger end of the path.
    #[must_use]
    pub fn due(self) -> u8 {
        match self {
            Self::None | Self::Overload(_) => 0,
            Self::Member(f, ..) | Self::Mute(f) | Self::Hung(f) | Self::Untold(f) | Self::Stopped(f) => 1 << f,
            Self::BothStopped(a, b) => 1 << a | 1 << b,
            Self::Path(a, b, ..) => 1 << a.max(b),
        }
    }

    /// Who may be held for faulty while a fault comes and goes: the ends of what was broken.
    #[must_use]
    pub fn ends(self, members: usize) -> u8 {
        let all = 0..members as u8;
        let broken = |a: u8, b: u8| Kind::ALL.iter().any(|kind| self.fails(a, b, *kind));
        let ends = all.clone().filter(|a| all.clone().any(|b| broken(*a, b) || broken(b, *a)));
        ends.fold(0, |set, m| set | 1 << m)
    }
}

const _: () = assert!(MEMBERS <= 8, "sets of members are bytes");
