//! Values, and the words that they stand behind.

use std::net::IpAddr;

use phalanx_core::id::Incarnation;
use phalanx_core::wire::Kind;

use crate::cursor::{Cursor, parsed_number};
use crate::error::{FilterError, FilterFault};
use crate::layout::{Flags, FrameKind};
use crate::lexer::Token;
use crate::summary::Summary;
use crate::syntax::{Condition, End, Expr, Protocol};

/// A word that values stand behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Type,
    Group,
    Rank,
    From,
    To,
    Member,
    Sender,
    Class,
    Frame,
    Order,
    AckOf,
    Host(End, Option<Protocol>),
    Net(End, Option<Protocol>),
    Port(End),
    PortRange(End),
}

/// `wire.md` and the code have two words for some.
const KINDS: [(&str, Kind); 13] = [
    ("greeting", Kind::Handshake),
    ("handshake", Kind::Handshake),
    ("direct", Kind::Direct),
    ("spread", Kind::BestEffortMulticast),
    ("best-effort", Kind::BestEffortMulticast),
    ("control", Kind::Control),
    ("data", Kind::Data),
    ("multicast", Kind::Multicast),
    ("open", Kind::Open),
    ("session", Kind::Session),
    ("plain", Kind::Unreliable),
    ("unreliable", Kind::Unreliable),
    ("to-one", Kind::ToOne),
];

impl Word {
    /// The word of this name, if it is one of Phalanx's own.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "type" => Self::Type,
            "group" => Self::Group,
            "rank" => Self::Rank,
            "from" => Self::From,
            "to" => Self::To,
            "member" => Self::Member,
            "sender" => Self::Sender,
            "class" => Self::Class,
            "frame" => Self::Frame,
            "order" => Self::Order,
            _ => return None,
        })
    }
}

impl Cursor<'_> {
    /// One value behind `word`.
    pub(crate) fn value(&mut self, word: Word) -> Result<Expr, FilterError> {
        let place = self.place();
        let condition = match word {
            Word::Type => {
                let kind = self.one_of("a type such as 'multicast'", |name| {
                    KINDS.iter().find(|(word, _)| *word == name).map(|(_, kind)| *kind)
                })?;
                Condition::Kind(vec![kind])
            }
            Word::Group => Condition::Group(self.name()?),
            Word::AckOf => Condition::AckOf(self.name()?),
            Word::From => Condition::From(self.name()?),
            Word::To => Condition::To(self.name()?),
            Word::Member => {
                let name = self.name()?;
                let from = Expr::Test(place, Condition::From(name.clone()));
                return Ok(from.or(Expr::Test(place, Condition::To(name))));
            }
            Word::Rank => {
                let rank = self.number_of_16_bits()?;
                Condition::Rank(rank, if self.took_word("of") { Some(self.name()?) } else { None })
            }
            Word::Sender => Condition::Sender(self.one_of("an incarnation of 16 digits", |name| {
                let is_whole = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_whole.then(|| u64::from_str_radix(name, 16).ok().map(Incarnation)).flatten()
            })?),
            Word::Class => self.one_of("'data' or 'control'", |name| match name {
                "data" => Some(Condition::Flag(Flags::CONTROL, false)),
                "control" => Some(Condition::Flag(Flags::CONTROL, true)),
                _ => None,
            })?,
            Word::Frame => Condition::Frame(self.one_of("a kind of frame such as 'heartbeat'", |name| {
                FrameKind::ALL.into_iter().find(|kind| kind.word() == name)
            })?),
            Word::Order => {
                let bit = self.one_of("'fifo', 'causal' or 'total'", |name| match name {
                    "fifo" => Some(Summary::FIFO),
                    "causal" => Some(Summary::CAUSAL),
                    "total" => Some(Summary::TOTAL),
                    _ => None,
                })?;
                Condition::Order(bit, "order")
            }
            Word::Host(end, protocol) => {
                let address = self.address(protocol)?;
                let prefix = if address.is_ipv4() { 32 } else { 128 };
                Condition::Address { end, address, prefix, word: "host" }
            }
            Word::Net(end, protocol) => {
                let address = self.address(protocol)?;
                let prefix = self.prefix(place, address)?;
                Condition::Address { end, address, prefix, word: "net" }
            }
            Word::Port(end) => {
                let port = self.number_of_16_bits()?;
                Condition::Ports { end, first: port, last: port, word: "port" }
            }
            Word::PortRange(end) => {
                let (first, last) = self.range()?;
                Condition::Ports { end, first, last, word: "portrange" }
            }
        };
        Ok(Expr::Test(place, condition))
    }

    /// A word that `of` knows.
    fn one_of<T>(&mut self, expected: &'static str, of: impl FnOnce(&str) -> Option<T>) -> Result<T, FilterError> {
        let Token::Word(name) = self.peek() else { return Err(self.unexpected(expected)) };
        let found = of(name).ok_or_else(|| self.unexpected(expected))?;
        self.take();
        Ok(found)
    }

    fn name(&mut self) -> Result<String, FilterError> {
        let (Token::Word(name) | Token::Quoted(name)) = self.peek() else { return Err(self.unexpected("a name")) };
        self.take();
        Ok(name.to_owned())
    }

    fn address(&mut self, protocol: Option<Protocol>) -> Result<IpAddr, FilterError> {
        let Token::Word(text) = self.peek() else { return Err(self.unexpected("an address")) };
        let parsed: Result<IpAddr, _> = text.parse();
        let Ok(address) = parsed else { return Err(self.fault(FilterFault::Address(text.to_owned()))) };
        match (protocol, address) {
            (Some(Protocol::Ip), IpAddr::V6(_)) => return Err(self.fault(FilterFault::Apart("an IPv6 address", "ip"))),
            (Some(Protocol::Ip6), IpAddr::V4(_)) => {
                return Err(self.fault(FilterFault::Apart("an IPv4 address", "ip6")));
            }
            _ => {}
        }
        self.take();
        Ok(address)
    }

    /// The prefix of a network, whose address began at `place`. Without one it is a single address.
    fn prefix(&mut self, place: usize, address: IpAddr) -> Result<u8, FilterError> {
        let (bits, whole) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32_u8),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        if !self.took_sign("/") {
            return Ok(whole);
        }
        let prefix = self.number(whole.into())?;
        let host_bits = u32::try_from(prefix).ok().and_then(|prefix| u128::MAX.checked_shr(prefix)).unwrap_or(0);
        if bits & host_bits != 0 {
            return Err(FilterError { place, fault: FilterFault::Prefix });
        }
        Ok(u8::try_from(prefix).unwrap_or(whole))
    }

    /// `7000-7009`, or a single port. The smaller one comes first.
    fn range(&mut self) -> Result<(u16, u16), FilterError> {
        let Token::Word(text) = self.peek() else { return Err(self.unexpected("a range such as '7000-7009'")) };
        let Some((first, last)) = text.split_once('-') else {
            let port = self.number_of_16_bits()?;
            return Ok((port, port));
        };
        let port = |text: &str| parsed_number(text).and_then(|number| u16::try_from(number).ok());
        let (Some(first), Some(last)) = (port(first), port(last)) else {
            return Err(self.unexpected("a range such as '7000-7009'"));
        };
        self.take();
        Ok((first.min(last), first.max(last)))
    }
}
