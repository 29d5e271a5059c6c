//! The faults the simulator knows, at whom they are aimed, and when they strike.

use phalanx_core::wire;

use crate::network::{Toll, Weather};

/// What a process is in the middle of when an aimed fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// A view change: somebody has promised or coordinates a ballot.
    Flush,
    /// The first half of one: a coordinator gathers reports.
    Gathering,
    /// The second half of one: a coordinator proposes.
    Proposal,
    /// Somebody looks for, or is coming into, the cell.
    Join,
    /// Somebody takes or gives a group's state.
    Transfer,
}

/// Whom a fault meets. Roles are resolved at the moment the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Who coordinates a view change now; else rank 0.
    Coordinator,
    /// Who is joining or receiving state now; else the youngest.
    Joiner,
    /// A running process that is neither of the two.
    Bystander,
    /// Who gives a state now; else nobody.
    Donor,
    /// This process slot.
    Slot(usize),
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// At this time, in nanoseconds from the start.
    At(u64),
    /// From `from_ns` on, `after_ns` after the first moment somebody is seen `busy`.
    Inside {
        /// What must be going on.
        busy: Busy,
        /// Armed from here on.
        from_ns: u64,
        /// How long after the moment it is seen.
        after_ns: u64,
    },
}

/// Which directed links a cut takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// From the first to the second only.
    OneWay(Role, Role),
    /// Both ways between two: with a third process, "hears" is no longer transitive.
    Pair(Role, Role),
    /// Everything to and from one process.
    Isolate(Role),
    /// Everything to one process: it hears nobody, all hear it.
    Deaf(Role),
    /// Everything from one process: nobody hears it.
    Mute(Role),
    /// Between the slots whose bit is set and the others.
    Halves(u64),
    /// Between processes whose slots are not neighbours on a ring: majorities overlap, none is connected.
    Ring,
    /// Every link: a switch restarts.
    Blackout,
}

/// Which links a change of weather reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All links.
    Everywhere,
    /// All links to and from one process.
    Around(Role),
    /// All links to one process.
    Towards(Role),
}

/// What only a few hold who then crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Uniform messages.
    Own,
    /// Plain messages that another one's uniform messages depend on; these reach all.
    Past,
    /// Plain messages before the sender's own uniform ones; these reach all.
    OwnPast,
    /// The order of uniform abcasts that all have.
    Orders,
    /// The same, where another of the few sends a burst of abcasts, which would bring it the token; its orders reach all.
    EarlierOrders,
    /// One plain message that another one's uniform messages depend on, the first packet that is lost after many that were not.
    FirstOfPast,
    /// A token pass, alone: all that was ordered before it reaches all, and so do the orders of the next holder.
    Pass,
}

impl Holding {
    /// Its name in the counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Past => "past",
            Self::OwnPast => "own past",
            Self::Orders => "orders",
            Self::EarlierOrders => "earlier orders",
            Self::FirstOfPast => "first of the past",
            Self::Pass => "pass",
        }
    }
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The weather of some links becomes `weather`.
    Storm {
        /// Its name in the counters: what was made worse.
        what: &'static str,
        /// Which links.
        reach: Reach,
        /// Their new weather.
        weather: Weather,
    },
    /// Links are cut.
    Cut(Shape),
    /// Links are cut and mended again and again, every `period_ns`.
    Flap {
        /// Which links.
        shape: Shape,
        /// Half a cycle.
        period_ns: u64,
    },
    /// Two coordinators propose different things, and nobody learns what came of either. Whoever gathers reports is heard
    /// by nobody from then on, so that it alone accepts its proposal; when another proposes, that one hears the first
    /// alone, so that others accept and it does not know, and the first is heard again.
    Rivals,
    /// Packets longer than `bytes` vanish at one process.
    Mtu {
        /// Whose path.
        role: Role,
        /// The longest packet that passes.
        bytes: usize,
    },
    /// A process's socket buffers shrink.
    Buffer {
        /// Whose.
        role: Role,
        /// Bytes each of its sockets holds.
        bytes: usize,
    },
    /// A process ends without a word.
    Crash {
        /// Which.
        role: Role,
        /// Started again, as a new incarnation, after this long; never: it stays dead (until the heal phase decides).
        back_ns: Option<u64>,
        /// Comes back at a new address.
        moved: bool,
    },
    /// A process ends in the middle of what it sends: so many more packets go out, to one receiver after the other.
    CrashSending {
        /// Which.
        role: Role,
        /// Packets it still sends.
        packets: u32,
        /// Started again after this long; never: it stays dead.
        back_ns: Option<u64>,
    },
    /// A process is stopped; its input queues up to the socket buffer, and its clock runs on.
    Pause(Role),
    /// Every turn of a process takes this long.
    Slow {
        /// Which.
        role: Role,
        /// One turn, in nanoseconds.
        turn_ns: u64,
    },
    /// A process's application takes no delivery.
    SlowReader(Role),
    /// A process leaves the cell gracefully, and comes back after a while or not at all.
    Leave {
        /// Which.
        role: Role,
        /// Comes back after this long.
        back_ns: Option<u64>,
    },
    /// A process's clock jumps ahead.
    ClockJump {
        /// Whose.
        role: Role,
        /// By how much.
        by_ns: u64,
    },
    /// A process's clock runs fast or slow, by this many parts in a million.
    Drift {
        /// Whose.
        role: Role,
        /// Parts in a million; negative: slow.
        ppm: i32,
    },
    /// Somebody on the way holds back, or takes, the packets of one kind.
    ByKind {
        /// On which links.
        reach: Reach,
        /// Which packets: what a packet is for stands in its clear header.
        kind: wire::Kind,
        /// What happens to them.
        toll: Toll,
    },
    /// A process is overtaken in the memory it reads: at so many records in a million it loses all it has not read.
    Lapped {
        /// Which.
        role: Role,
        /// Per million records.
        ppm: u32,
    },
    /// What a process writes to memory is seen late: what it sends elsewhere overtakes it.
    LateMemory {
        /// Whose.
        role: Role,
        /// By up to so much.
        lag_ns: u64,
    },
    /// The multicasts of one process reach a few others alone, for as long as the fault lasts; then exactly these few crash, and
    /// it with them.
    Holders {
        /// Whose; where it is about the order: the oldest of its group, or the holder of its token.
        role: Role,
        /// How many others have them, at most.
        others: usize,
        /// What it is that they hold.
        what: Holding,
        /// Started again after this long; never: they stay dead.
        back_ns: Option<u64>,
    },
    /// A process is cut off until a view leaves it out; who knows that view first is heard by nobody else from then on, and
    /// crashes when the fault ends.
    LostView {
        /// Who is left out.
        role: Role,
        /// Who knew the view is started again after this long; never: it stays dead.
        back_ns: Option<u64>,
    },
    /// The stream of a process makes no sense to some of its readers from one of its next packets on.
    Nonsense {
        /// Whose.
        role: Role,
        /// To how many of its group.
        readers: Readers,
        /// Which of its next packets, from 1.
        ahead: u64,
    },
    /// A process detaches from the memory of all others, and attaches again.
    Detach(Role),
    /// A process leaves one of its groups and joins it again.
    Regroup(Role),
    /// All members of the group of a minority are cut off from the others, or stopped.
    Strand {
        /// Stopped.
        stops: bool,
    },
    /// A process that is not in the group of a minority joins it.
    FoundAgain,
    /// The state directory of a founder is emptied.
    Empty(Role),
    /// All processes crash at once, and are started again after this long.
    Perish {
        /// In nanoseconds.
        back_ns: u64,
    },
    /// A quorum of the members crash at once. They are started again once a survivor has reformed the cell.
    Behead,
    /// All processes leave, one after the other or at once. They are started again when all are gone.
    Disband,
    /// An attacker sends old sealed packets again, this many a second.
    Replay(u64),
    /// An attacker sends noise to the sockets, this many packets a second.
    Noise(u64),
    /// An attacker sends packets with true headers, or headers of its own making, and bodies it cannot seal, this
    /// many a second.
    Forge(u64),
}

impl Kind {
    /// Its name in the counters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Storm { what, .. } => what,
            Self::Cut(shape) => match shape {
                Shape::OneWay(..) => "cut_one_way",
                Shape::Pair(..) => "cut_pair",
                Shape::Isolate(_) => "isolate",
                Shape::Deaf(_) => "deaf",
                Shape::Mute(_) => "mute",
                Shape::Halves(_) => "partition",
                Shape::Ring => "ring",
                Shape::Blackout => "blackout",
            },
            Self::Flap { .. } => "flap",
            Self::Rivals => "rivals",
            Self::Mtu { .. } => "mtu_hole",
            Self::Buffer { .. } => "small_buffer",
            Self::Crash { .. } => "crash",
            Self::CrashSending { .. } => "crash_sending",
            Self::Pause(_) => "pause",
            Self::Slow { .. } => "slow",
            Self::SlowReader(_) => "slow_reader",
            Self::Leave { .. } => "leave",
            Self::ClockJump { .. } => "clock_jump",
            Self::Drift { .. } => "drift",
            Self::ByKind { .. } => "by_kind",
            Self::Lapped { .. } => "lapped",
            Self::LateMemory { .. } => "late_memory",
            Self::Holders { .. } => "holders",
            Self::LostView { .. } => "lost_view",
            Self::Nonsense { .. } => "nonsense",
            Self::Detach(_) => "detach",
            Self::Regroup(_) => "regroup",
            Self::Strand { stops: false } => "strand",
            Self::Strand { stops: true } => "strand_stopped",
            Self::FoundAgain => "found_again",
            Self::Empty(_) => "emptied",
            Self::Perish { .. } => "perish",
            Self::Behead => "behead",
            Self::Disband => "disband",
            Self::Replay(_) => "replay",
            Self::Noise(_) => "noise",
            Self::Forge(_) => "forge",
        }
    }
}

/// How many members of a group cannot read what one of them sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// One, of three and more.
    One,
    /// Nearly half.
    Fewer,
    /// Half.
    Half,
    /// More than half.
    More,
}

/// A fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub aim: Aim,
    /// What.
    pub kind: Kind,
    /// For how long, in nanoseconds; faults that have no length ignore it.
    pub lasts_ns: u64,
}
