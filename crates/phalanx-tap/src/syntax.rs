//! A parsed filter.

use std::net::IpAddr;

use phalanx_core::id::Incarnation;
use phalanx_core::wire::Kind;

use crate::layout::FrameKind;
use crate::step::{Operation, Test};

/// What a filter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    /// All of them hold. Later ones are not looked at if one does not.
    And(Vec<Self>),
    /// One of them holds. Later ones are not looked at.
    Or(Vec<Self>),
    Not(Box<Self>),
    /// The test, and the byte of the text where it begins.
    Test(usize, Condition),
}

impl Expr {
    /// Both hold.
    pub(crate) fn and(self, other: Self) -> Self {
        match self {
            Self::And(mut all) => {
                all.push(other);
                Self::And(all)
            }
            first => Self::And(vec![first, other]),
        }
    }

    /// One of both holds.
    pub(crate) fn or(self, other: Self) -> Self {
        let mut any = match self {
            Self::Or(any) => any,
            first => vec![first],
        };
        match (any.last_mut(), other) {
            // One load serves all kinds of a list.
            (Some(Self::Test(_, Condition::Kind(kinds))), Self::Test(_, Condition::Kind(more))) => kinds.extend(more),
            (_, other) => any.push(other),
        }
        Self::Or(any)
    }

    /// Calls `each` for each test.
    pub(crate) fn for_each_test(&mut self, each: &mut impl FnMut(usize, &mut Condition)) {
        match self {
            Self::And(list) | Self::Or(list) => list.iter_mut().for_each(|expr| expr.for_each_test(each)),
            Self::Not(expr) => expr.for_each_test(each),
            Self::Test(place, condition) => each(*place, condition),
        }
    }
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// One of these kinds of packets.
    Kind(Vec<Kind>),
    Group(String),
    /// A rank in a view of a group. `None`: of the one that the filter names; the parser fills it in.
    Rank(u16, Option<String>),
    From(String),
    To(String),
    Sender(Incarnation),
    /// A bit of the flags is set, or not.
    Flag(u32, bool),
    Frame(FrameKind),
    /// Bits of the orders, and the word for them.
    Order(u8, &'static str),
    AckOf(String),
    /// A field of 32 or 64 bits, compared with a number.
    Field(Field, Relation, u64),
    /// An address with all bits of a prefix.
    Address {
        end: End,
        address: IpAddr,
        prefix: u8,
        word: &'static str,
    },
    Ports {
        end: End,
        first: u16,
        last: u16,
        word: &'static str,
    },
    Protocol(Protocol),
    Compare(Arith, Relation, Arith),
}

/// A field that is compared as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Number,
    Space,
    Acked,
}

/// Which of source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
    Either,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Ip,
    Ip6,
    Udp,
}

impl Protocol {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Udp => "udp",
        }
    }
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// The test of a jump, and whether it holds where the relation does.
    pub(crate) const fn test(self) -> (Test, bool) {
        match self {
            Self::Equal => (Test::Equal, true),
            Self::NotEqual => (Test::Equal, false),
            Self::Less => (Test::AtLeast, false),
            Self::LessOrEqual => (Test::Greater, false),
            Self::Greater => (Test::Greater, true),
            Self::GreaterOrEqual => (Test::AtLeast, true),
        }
    }
}

/// A number that is computed from the packet, of 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arith {
    Number(u32),
    /// The length of all that is shown.
    Len,
    /// The length of the packet alone.
    Size,
    /// One, two or four bytes.
    Bytes {
        base: Base,
        index: Box<Self>,
        count: u8,
    },
    Binary(Operation, Box<Self>, Box<Self>),
    Negative(Box<Self>),
}

/// Where bytes are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Protocol(Protocol),
    /// The packet's own header.
    Packet,
}
