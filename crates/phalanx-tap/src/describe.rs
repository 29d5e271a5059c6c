//! Packets told to people: one line each.

mod calls;
mod channels;
mod frames;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::id::{Incarnation, TrafficClass};
use phalanx_core::wire::{DropReason, Header, Kind, PacketNumber, Space};

use crate::capture::Seen;
use crate::layout::Layout;
use crate::name_table::NameTable;
use frames::FrameTexts;
use text::{bytes, plain};

/// How a tap shows a packet.
///
/// ```
/// assert_ne!(phalanx_tap::Form::Sealed, phalanx_tap::Form::Clear);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As a datagram: the header in clear, the frames sealed. Of what goes through memory the header alone.
    Sealed,
    /// Header and frames in clear.
    Clear,
}

impl Form {
    /// The layouts that packets of this form have. A filter for them is compiled for each.
    ///
    /// ```
    /// use phalanx_tap::{Form, Layout};
    ///
    /// assert_eq!(Form::Clear.layouts(), [Layout::Clear]);
    /// ```
    #[must_use]
    pub const fn layouts(self) -> &'static [Layout] {
        match self {
            Self::Sealed => &[Layout::Ipv4, Layout::Ipv6],
            Self::Clear => &[Layout::Clear],
        }
    }
}

/// What a packet is, for people. [`Description::of`] decodes it, and its [`Display`](fmt::Display) is one line of at most
/// 1,500 bytes, without control characters.
///
/// ```
/// use std::time::Duration;
/// use phalanx_core::id::Incarnation;
/// use phalanx_core::wire::{Header, Kind, PacketNumber, Space};
/// use phalanx_tap::capture::Seen;
/// use phalanx_tap::{Description, Form, NameTable};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut names = NameTable::default();
/// names.learn("phalanx-names 1\nmember 0000000000000007 10.0.0.1:7000 m1\nmember 0000000000000008 10.0.0.2:7000 m2\n\
///              view 0000000c 3 0 0000000000000007,0000000000000008 ledger");
/// let (kind, cell_tag, sender) = (Kind::Multicast, 0, Incarnation(7));
/// let header = Header { kind, cell_tag, sender, space: Space(12), number: PacketNumber(42) }.to_bytes();
/// // A stability frame, and a fifo message of two bytes.
/// let frames = [3, 40, 0x80, 2, b'h', b'i'];
/// let (local, peer) = ("10.0.0.2:7000".parse()?, "10.0.0.1:7000".parse()?);
/// let seen = Seen::new(Duration::from_micros(50_584_123_456), local, peer, [&header, &frames, &[]]);
/// assert_eq!(
///     Description::of(&seen, Form::Clear, &names).to_string(),
///     "14:03:04.123456 in  m1 > m2 multicast ledger/3 #42 (30 B): stable to 40; fifo 2 B"
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Description<'n> {
    /// Since the Unix epoch, or since the beginning of a simulation.
    pub time: Duration,
    /// Sent, or else received.
    pub is_sent: bool,
    /// The socket.
    pub class: TrafficClass,
    /// Through shared memory.
    pub is_memory: bool,
    /// Who sent it.
    pub from: Party<'n>,
    /// Where it goes. Of a multicast, the one receiver that this copy is for.
    pub to: Party<'n>,
    /// Its header. Else why it cannot be read.
    pub header: Result<Header, DropReason>,
    /// The name of the group, and the number of the view. `None`: it is no multicast, or its space is not known.
    pub group: Option<(&'n str, u64)>,
    /// Of packets in clear, a text for each frame, or for several alike.
    pub frames: Vec<String>,
    /// Frames beyond these that are not told.
    pub more_frames: usize,
    /// The length of the packet, in bytes.
    pub packet_bytes: usize,
    /// Not all of it is here.
    pub is_cut: bool,
    /// Packets that the tap lost since the one before.
    pub missed: u64,
}

/// One end of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party<'n> {
    /// The member's name, if it is known.
    pub name: Option<&'n str>,
    /// Its incarnation, if it is known.
    pub incarnation: Option<Incarnation>,
    /// Its address, if it is known.
    pub address: Option<SocketAddr>,
}

impl<'n> Description<'n> {
    /// Describes a packet. The parts hold its header, and in clear its frames, without the incarnation that it goes to.
    #[must_use]
    pub fn of(seen: &Seen<'_>, form: Form, names: &'n NameTable) -> Self {
        let [first, rest @ ..] = seen.parts;
        let header = Header::parse(first);
        let (source, target) = if seen.is_sent { (seen.local, seen.peer) } else { (seen.peer, seen.local) };
        let view = match &header {
            Ok(Header { kind: Kind::Multicast, space, .. }) => names.view(*space),
            _ => None,
        };
        let packet_bytes = seen.whole_bytes();
        let is_cut = form == Form::Clear && seen.held_bytes() < packet_bytes;
        let mut texts = FrameTexts::new(names, view);
        if let (Ok(header), Form::Clear) = (&header, form) {
            let behind = first.get(Header::LEN..).unwrap_or_default();
            let missing = packet_bytes - seen.held_bytes();
            texts.all(header.kind, &joined([behind, rest[0], rest[1]]), missing);
        }
        let (frames, more_frames) = texts.finish();
        Self {
            time: seen.time,
            is_sent: seen.is_sent,
            class: seen.class,
            is_memory: seen.is_memory,
            from: Party::of(header.ok().map(|header| header.sender), source, names),
            to: Party::of(Some(seen.to).filter(|to| is_member(header.ok(), *to)), target, names),
            header,
            group: view.map(|view| (view.group.as_str(), view.view.0)),
            frames,
            more_frames,
            packet_bytes,
            is_cut,
            missed: seen.missed,
        }
    }

    /// The kind of the packet, in the words of filters.
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        self.header.ok().map(|header| kind_word(header.kind))
    }

    /// Its space and number.
    #[must_use]
    pub fn number(&self) -> Option<(Space, PacketNumber)> {
        self.header.ok().map(|header| (header.space, header.number))
    }
}

/// Whether `to` names a member. A session's packet is sealed for a secret, which is nobody's name and is not to be shown.
fn is_member(header: Option<Header>, to: Incarnation) -> bool {
    to != Incarnation::NONE && header.is_some_and(|header| header.kind.is_addressed() && header.kind != Kind::Session)
}

/// Most packets have their frames in one part.
fn joined(parts: [&[u8]; 3]) -> Cow<'_, [u8]> {
    match parts {
        [one, [], []] | [[], one, []] | [[], [], one] => Cow::Borrowed(one),
        parts => Cow::Owned(parts.concat()),
    }
}

/// A kind's word in filters and in `docs/wire.md`.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Handshake => "greeting",
        Kind::Direct => "direct",
        Kind::BestEffortMulticast => "spread",
        Kind::Control => "control",
        Kind::Data => "data",
        Kind::Multicast => "multicast",
        Kind::Open => "open",
        Kind::Session => "session",
        Kind::Unreliable => "plain",
        Kind::ToOne => "to-one",
    }
}

impl<'n> Party<'n> {
    fn of(incarnation: Option<Incarnation>, address: SocketAddr, names: &'n NameTable) -> Self {
        let address = Some(address).filter(|address| !address.ip().is_unspecified());
        let name = match incarnation {
            Some(incarnation) => names.member(incarnation),
            None => address.and_then(|address| names.member_at(address)),
        };
        Self { name, incarnation, address }
    }
}

/// The name, or else the incarnation, or else the address.
impl fmt::Display for Party<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.incarnation, self.address) {
            (Some(name), ..) => f.write_str(&plain(name)),
            (None, Some(incarnation), _) => write!(f, "{incarnation}"),
            (None, None, Some(address)) => write!(f, "{address}"),
            (None, None, None) => f.write_str("?"),
        }
    }
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs() % 86_400;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let way = if self.is_sent { "out" } else { "in " };
        let micros = self.time.subsec_micros();
        write!(f, "{hours:02}:{minutes:02}:{:02}.{micros:06} {way} {} > {} ", seconds % 60, self.from, self.to)?;
        match self.header {
            Ok(Header { kind, space, number, .. }) => {
                f.write_str(kind_word(kind))?;
                match self.group {
                    Some((group, view)) => write!(f, " {}/{view}", plain(group))?,
                    None if kind == Kind::Multicast => write!(f, " space {}", space.0)?,
                    None => {}
                }
                // The upper half names the session among all that the sender had.
                let shown = if kind == Kind::Session { number.0 & u64::from(u32::MAX) } else { number.0 };
                write!(f, " #{shown}")?;
            }
            Err(why) => write!(f, "not readable ({})", why.name())?,
        }
        write!(f, " ({}", bytes(self.packet_bytes))?;
        let marks =
            [(self.class == TrafficClass::Control, ", control"), (self.is_memory, ", memory"), (self.is_cut, ", cut")];
        for (_, mark) in marks.into_iter().filter(|(is_set, _)| *is_set) {
            f.write_str(mark)?;
        }
        if self.missed > 0 {
            write!(f, ", {} lost before", self.missed)?;
        }
        f.write_str(")")?;
        for (index, frame) in self.frames.iter().enumerate() {
            write!(f, "{} {frame}", if index == 0 { ":" } else { ";" })?;
        }
        if self.more_frames > 0 {
            write!(f, "; and {} more", self.more_frames)?;
        }
        Ok(())
    }
}
