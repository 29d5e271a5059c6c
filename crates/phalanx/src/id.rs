//! Who is who: members, views, and the orders and guarantees of messages.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;

use phalanx_core as core;
use serde::{Deserialize, Serialize};

/// One incarnation of a process in its cell: random 64 bits, new at every start and at every return after an exclusion.
/// Messages and states may hold it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId(core::Incarnation);

impl MemberId {
    pub(crate) const fn of(incarnation: core::Incarnation) -> Self {
        Self(incarnation)
    }

    pub(crate) const fn incarnation(self) -> core::Incarnation {
        self.0
    }

    /// The bits, for a log or another language.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0.0
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One founding of a cell. A cell that is founded again, or reformed, is another instance; of two, the later is the larger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance(core::CellInstance);

impl Instance {
    pub(crate) const fn of(instance: core::CellInstance) -> Self {
        Self(instance)
    }

    /// The bits, for a log or another language.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0.0
    }

    /// How often the cell was founded, from 1.
    #[must_use]
    pub fn generation(self) -> u16 {
        self.0.generation()
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A host: one boot of an operating system, and in it one set of processes that can see each other. Members of two containers
/// that do not share process numbers and network are on two hosts, and after a reboot a machine is another host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(NonZeroU64);

impl Host {
    /// The bits, for a log or another language.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// In 16 hexadecimal digits.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A member of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its incarnation.
    pub id: MemberId,
    /// The process's name, unique in a view. It survives restarts.
    pub name: String,
    /// Its control address, which others can use as a seed.
    pub address: SocketAddr,
    /// The highest level that its build knows (`docs/levels.md`).
    pub level: u16,
    /// The host that it runs on. `None`: it cannot tell, because its `/proc` is closed to it.
    pub host: Option<Host>,
}

impl Member {
    pub(crate) fn of(info: &core::MemberInfo) -> Self {
        let (name, address) = (info.name.clone(), info.control);
        let host = NonZeroU64::new(info.host).map(Host);
        Self { id: MemberId::of(info.incarnation), name, address, level: info.level, host }
    }

    /// One of which nothing is known but that.
    pub(crate) fn unknown(id: MemberId, name: String) -> Self {
        Self { id, name, address: ([0, 0, 0, 0], 0).into(), level: 0, host: None }
    }
}

/// The order that a multicast requests. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Order {
    /// In the order of its sender.
    Fifo = 1,
    /// After all messages that it may depend on.
    Causal = 2,
    /// In the same order at all members, which extends the causal one.
    #[default]
    Total = 3,
}

/// Whether a multicast is uniform. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Guarantee {
    /// As the group was founded; see [`GroupBuilder::plain_by_default`](crate::GroupBuilder::plain_by_default).
    #[default]
    GroupDefault = 0,
    /// Delivered as soon as its order allows. A member that delivers it may die, and then no other may ever see it.
    Plain = 1,
    /// Delivered only when every member has it: if any member delivers it, every survivor does.
    Uniform = 2,
}

/// Why a member is no longer in a view. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum LeaveReason {
    /// It asked to leave.
    Left = 1,
    /// Its operating system proved it dead.
    Died = 2,
    /// It was silent, or did not answer.
    Unreachable = 3,
    /// It held others back for too long.
    TooSlow = 4,
    /// Most members could not make sense of what it sent.
    Nonsense = 5,
    /// It could not make sense of what a member sent. It comes back and takes the state of the others.
    Anew = 6,
    /// As many members could make sense of a packet as could not: the group is over.
    Stopped = 7,
    /// It was heard, and a path to it failed.
    NoProgress = 8,
    /// This process is over, and the group was not left: its protocol thread ended after an error or a panic, or it was
    /// excluded while it left the cell. A notice says which. The others learn another reason.
    Over = 9,
}

impl Order {
    pub(crate) const fn to_core(self) -> core::Order {
        match self {
            Self::Fifo => core::Order::Fifo,
            Self::Causal => core::Order::Causal,
            Self::Total => core::Order::Total,
        }
    }

    pub(crate) const fn of(order: core::Order) -> Self {
        match order {
            core::Order::Fifo => Self::Fifo,
            core::Order::Causal => Self::Causal,
            core::Order::Total => Self::Total,
        }
    }
}

impl Guarantee {
    pub(crate) const fn to_core(self) -> core::Stability {
        match self {
            Self::GroupDefault => core::Stability::GroupDefault,
            Self::Plain => core::Stability::Plain,
            Self::Uniform => core::Stability::Uniform,
        }
    }
}

impl LeaveReason {
    pub(crate) const fn of(reason: core::LeaveReason) -> Self {
        match reason {
            core::LeaveReason::Left => Self::Left,
            core::LeaveReason::Died => Self::Died,
            core::LeaveReason::Unreachable => Self::Unreachable,
            core::LeaveReason::TooSlow => Self::TooSlow,
            core::LeaveReason::Nonsense => Self::Nonsense,
            core::LeaveReason::Anew => Self::Anew,
            core::LeaveReason::Stopped => Self::Stopped,
            core::LeaveReason::NoProgress => Self::NoProgress,
        }
    }
}

impl fmt::Display for LeaveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Died => "died",
            Self::Unreachable => "unreachable",
            Self::TooSlow => "too slow",
            Self::Nonsense => "sent nonsense",
            Self::Anew => "takes the state anew",
            Self::Stopped => "the group stopped",
            Self::NoProgress => "no progress",
            Self::Over => "the process is over",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs in other languages, and files, keep these numbers.
    #[test]
    fn numbers_never_change() {
        assert_eq!([Order::Fifo, Order::Causal, Order::Total].map(|order| order as u8), [1, 2, 3]);
        assert_eq!([Guarantee::GroupDefault, Guarantee::Plain, Guarantee::Uniform].map(|level| level as u8), [0, 1, 2]);
        let reasons = [
            core::LeaveReason::Left,
            core::LeaveReason::Died,
            core::LeaveReason::Unreachable,
            core::LeaveReason::TooSlow,
            core::LeaveReason::Nonsense,
            core::LeaveReason::Anew,
            core::LeaveReason::Stopped,
            core::LeaveReason::NoProgress,
        ];
        assert_eq!(reasons.map(|reason| LeaveReason::of(reason) as u8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(LeaveReason::Over as u8, 9);
        for order in [Order::Fifo, Order::Causal, Order::Total] {
            assert_eq!(Order::of(order.to_core()), order);
        }
    }

    /// A replicated state that says who holds what must name members.
    #[test]
    fn a_state_may_hold_a_member() -> Result<(), crate::DecodeError> {
        let member = MemberId::of(core::Incarnation(0x0123_4567_89ab_cdef));
        let (decoded, item) = crate::Snapshot::encode(&(member, "item")).decode::<(MemberId, String)>()?;
        assert_eq!((decoded, item.as_str()), (member, "item"));
        Ok(())
    }
}
