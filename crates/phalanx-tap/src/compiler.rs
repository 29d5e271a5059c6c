//! From what a filter says to a program, for one layout and with what names stand for now.

use std::net::{IpAddr, SocketAddr};

use phalanx_core::id::Incarnation;
use phalanx_core::wire::{Header, Kind, Space};

use crate::bounds::PROGRAM_MAX;
use crate::emitter::{Emitter, Label};
use crate::error::{FilterError, FilterFault};
use crate::fields::Wide;
use crate::instruction::Instruction;
use crate::layout::{
    CLEAR_ACKED, CLEAR_ACKED_SPACE, CLEAR_FRAMES, CLEAR_ORDERS, CLEAR_TO, FLAGS_AT, FrameKind, HEADER_NUMBER,
    HEADER_SENDER, HEADER_SPACE, IPV4_BYTES, IPV6_BYTES, Layout,
};
use crate::names::{BoundMember, BoundView, Names};
use crate::step::Test;
use crate::syntax::{Arith, Base, Condition, End, Expr, Field, Protocol, Relation};

/// A name that nobody knows.
pub(crate) struct Missing {
    pub(crate) place: usize,
    pub(crate) is_group: bool,
    pub(crate) name: String,
}

/// Compiles `expr`. The verdict of what it takes is `snap`.
pub(crate) fn compiled(
    expr: &Expr,
    layout: Layout,
    names: &dyn Names,
    snap: u32,
) -> Result<(Vec<Instruction>, Vec<Missing>), FilterError> {
    let mut compiler = Compiler { layout, names, emitter: Emitter::new(snap), missing: Vec::new() };
    let entry = compiler.expr(expr, Emitter::ACCEPT, Emitter::REJECT)?;
    // Written from the end on, so the last name comes first.
    compiler.missing.reverse();
    Ok((compiler.emitter.finish(entry), compiler.missing))
}

struct Compiler<'n> {
    layout: Layout,
    names: &'n dyn Names,
    emitter: Emitter,
    missing: Vec<Missing>,
}

impl Compiler<'_> {
    /// Writes code that goes on at `yes` if `expr` holds, and at `no` if not. Returns where the code begins.
    fn expr(&mut self, expr: &Expr, yes: Label, no: Label) -> Result<Label, FilterError> {
        match expr {
            Expr::And(all) => all.iter().rev().try_fold(yes, |yes, expr| self.expr(expr, yes, no)),
            Expr::Or(any) => any.iter().rev().try_fold(no, |no, expr| self.expr(expr, yes, no)),
            Expr::Not(expr) => self.expr(expr, no, yes),
            Expr::Test(place, condition) => {
                let entry = self.condition(*place, condition, yes, no);
                let entry = entry.map_err(|fault| FilterError { place: *place, fault })?;
                if self.emitter.len() > PROGRAM_MAX {
                    return Err(FilterError { place: *place, fault: FilterFault::TooManyInstructions });
                }
                Ok(entry)
            }
        }
    }

    fn condition(&mut self, place: usize, condition: &Condition, yes: Label, no: Label) -> Result<Label, FilterFault> {
        self.check_layout(condition)?;
        Ok(match condition {
            Condition::Kind(kinds) => self.kind_in(kinds, yes, no),
            Condition::Group(name) => {
                let spaces: Vec<Space> = self.views(place, name).iter().map(|view| view.space).collect();
                let in_space = self.space_in(&spaces, yes, no);
                self.if_multicast(in_space, no)
            }
            Condition::Rank(rank, name) => {
                let name = name.as_deref().unwrap_or_default();
                let views = self.views(place, name);
                let in_view = views.iter().rev().fold(no, |no, view| match view.members.get(usize::from(*rank)) {
                    Some(member) => {
                        let sent = self.sender_in(&[*member], yes, no);
                        self.space_in(&[view.space], sent, no)
                    }
                    None => no,
                });
                self.if_multicast(in_view, no)
            }
            Condition::From(name) => {
                let member = self.member(place, name);
                self.sender_in(&member.incarnations, yes, no)
            }
            Condition::To(name) => {
                let member = self.member(place, name);
                self.goes_to(&member, yes, no)
            }
            Condition::Sender(incarnation) => self.sender_in(&[*incarnation], yes, no),
            Condition::Flag(bit, true) => self.emitter.word_has(FLAGS_AT, *bit, yes, no),
            Condition::Flag(bit, false) => self.emitter.word_has(FLAGS_AT, *bit, no, yes),
            Condition::Frame(kind) => self.emitter.word_has(CLEAR_FRAMES, kind.bit(), yes, no),
            // The orders are the highest byte of their word.
            Condition::Order(bit, _) => self.emitter.word_has(CLEAR_ORDERS, u32::from(*bit) << 24, yes, no),
            Condition::AckOf(name) => {
                let spaces: Vec<u32> = self.views(place, name).iter().map(|view| view.space.0).collect();
                let of_group = self.emitter.word_in(CLEAR_ACKED_SPACE, &spaces, yes, no);
                self.if_acked(of_group, no)
            }
            Condition::Field(field, relation, value) => self.field(*field, *relation, *value, yes, no),
            Condition::Address { end, address, prefix, .. } => self.address(*end, *address, *prefix, yes, no),
            Condition::Ports { end, first, last, .. } => self.ports(*end, (*first, *last), yes, no),
            Condition::Protocol(protocol) => match (protocol, self.layout) {
                (Protocol::Udp, _) | (Protocol::Ip, Layout::Ipv4) | (Protocol::Ip6, Layout::Ipv6) => yes,
                (Protocol::Ip | Protocol::Ip6, _) => no,
            },
            Condition::Compare(left, relation, right) => self.compare(left, *relation, right, yes, no)?,
        })
    }

    /// What this tap cannot know is refused by name.
    fn check_layout(&self, condition: &Condition) -> Result<(), FilterFault> {
        let sealed = match condition {
            Condition::Frame(FrameKind::Ack) => Some("ack"),
            Condition::Frame(_) => Some("frame"),
            Condition::Order(_, word) => Some(*word),
            Condition::AckOf(_) => Some("ack of"),
            Condition::Field(Field::Acked, ..) => Some("acked"),
            _ => None,
        };
        let datagram = match condition {
            Condition::Address { word, .. } | Condition::Ports { word, .. } => Some(*word),
            Condition::Protocol(protocol) => Some(protocol.word()),
            Condition::Compare(left, _, right) => of_protocols(left).or(of_protocols(right)),
            _ => None,
        };
        match (sealed, datagram) {
            (Some(word), _) if !self.layout.is_clear() => Err(FilterFault::Sealed(word)),
            (_, Some(word)) if self.layout.is_clear() => Err(FilterFault::Datagram(word)),
            _ => Ok(()),
        }
    }

    fn views(&mut self, place: usize, name: &str) -> Vec<BoundView> {
        let views = self.names.views(name);
        if views.is_empty() {
            self.missing.push(Missing { place, is_group: true, name: name.to_owned() });
        }
        views
    }

    fn member(&mut self, place: usize, name: &str) -> BoundMember {
        self.names.member(name).unwrap_or_else(|| {
            self.missing.push(Missing { place, is_group: false, name: name.to_owned() });
            BoundMember::default()
        })
    }

    fn kind_in(&mut self, kinds: &[Kind], yes: Label, no: Label) -> Label {
        let bytes: Vec<u8> = kinds.iter().map(|kind| Header::VERSION << 4 | *kind as u8).collect();
        self.emitter.byte_in(self.layout.preamble_bytes(), &bytes, yes, no)
    }

    fn if_multicast(&mut self, yes: Label, no: Label) -> Label {
        if yes == no { no } else { self.kind_in(&[Kind::Multicast], yes, no) }
    }

    fn space_in(&mut self, spaces: &[Space], yes: Label, no: Label) -> Label {
        let values: Vec<u64> = spaces.iter().map(|space| space.0.into()).collect();
        self.emitter.wide_in(self.header_field(HEADER_SPACE, false), &values, yes, no)
    }

    fn sender_in(&mut self, senders: &[Incarnation], yes: Label, no: Label) -> Label {
        let values: Vec<u64> = senders.iter().map(|sender| sender.0).collect();
        self.emitter.wide_in(self.header_field(HEADER_SENDER, true), &values, yes, no)
    }

    fn header_field(&self, at: u32, is_long: bool) -> Wide {
        Wide { at: self.layout.preamble_bytes() + at, is_long, is_little: true }
    }

    /// A clear packet names the incarnation it goes to, a sealed one an address.
    fn goes_to(&mut self, member: &BoundMember, yes: Label, no: Label) -> Label {
        if self.layout.is_clear() {
            let values: Vec<u64> = member.incarnations.iter().map(|incarnation| incarnation.0).collect();
            let field = Wide { at: CLEAR_TO, is_long: true, is_little: false };
            return self.emitter.wide_in(field, &values, yes, no);
        }
        member.addresses.iter().rev().fold(no, |no, address: &SocketAddr| {
            let port = self.ports(End::Destination, (address.port(), address.port()), yes, no);
            let ip = address.ip().to_canonical();
            self.address(End::Destination, ip, if ip.is_ipv4() { 32 } else { 128 }, port, no)
        })
    }

    fn if_acked(&mut self, yes: Label, no: Label) -> Label {
        if yes == no { no } else { self.emitter.word_has(CLEAR_FRAMES, FrameKind::Ack.bit(), yes, no) }
    }

    fn field(&mut self, field: Field, relation: Relation, value: u64, yes: Label, no: Label) -> Label {
        let wide = match field {
            Field::Number => self.header_field(HEADER_NUMBER, true),
            Field::Space => self.header_field(HEADER_SPACE, false),
            Field::Acked => Wide { at: CLEAR_ACKED, is_long: true, is_little: false },
        };
        let compared = self.emitter.wide_compares(wide, relation, value, (yes, no));
        if field == Field::Acked { self.if_acked(compared, no) } else { compared }
    }

    fn address(&mut self, end: End, address: IpAddr, prefix: u8, yes: Label, no: Label) -> Label {
        let (words, source, destination) = match (address, self.layout) {
            (IpAddr::V4(address), Layout::Ipv4) => (vec![address.to_bits()], 12, 16),
            (IpAddr::V6(address), Layout::Ipv6) => {
                let octets = address.octets();
                let (words, _) = octets.as_chunks();
                (words.iter().map(|word| u32::from_be_bytes(*word)).collect(), 8, 24)
            }
            _ => return no,
        };
        self.at_ends(end, (source, destination), yes, no, |emitter, at, yes, no| {
            emitter.prefix_is(at, &words, prefix, yes, no)
        })
    }

    fn ports(&mut self, end: End, ports: (u16, u16), yes: Label, no: Label) -> Label {
        let udp = if self.layout == Layout::Ipv6 { IPV6_BYTES } else { IPV4_BYTES };
        self.at_ends(end, (udp, udp + 2), yes, no, |emitter, at, yes, no| emitter.half_within(at, ports, yes, no))
    }

    /// A test of the source, the destination, or both.
    fn at_ends(
        &mut self,
        end: End,
        (source, destination): (u32, u32),
        yes: Label,
        no: Label,
        mut test: impl FnMut(&mut Emitter, u32, Label, Label) -> Label,
    ) -> Label {
        match end {
            End::Source => test(&mut self.emitter, source, yes, no),
            End::Destination => test(&mut self.emitter, destination, yes, no),
            End::Either => {
                let no = test(&mut self.emitter, destination, yes, no);
                test(&mut self.emitter, source, yes, no)
            }
            End::Both => {
                let yes = test(&mut self.emitter, destination, yes, no);
                test(&mut self.emitter, source, yes, no)
            }
        }
    }

    fn compare(
        &mut self,
        left: &Arith,
        relation: Relation,
        right: &Arith,
        yes: Label,
        no: Label,
    ) -> Result<Label, FilterFault> {
        // Bytes of another protocol: the comparison does not hold, and nothing is loaded.
        if !(self.has_bytes(left) && self.has_bytes(right)) {
            return Ok(no);
        }
        let (test, holds): (Test, bool) = relation.test();
        let (yes, no) = if holds { (yes, no) } else { (no, yes) };
        let too_complex = |_| FilterFault::TooComplex;
        if let Arith::Number(number) = right {
            self.emitter.jump(test, *number, yes, no);
            self.emitter.compute(left, self.layout, 0).map_err(too_complex)?;
        } else {
            self.emitter.jump_x(test, yes, no);
            self.emitter.compute_both(left, right, self.layout, 0).map_err(too_complex)?;
        }
        Ok(self.emitter.last())
    }

    /// Whether packets of this layout have the bytes that a number is computed from.
    fn has_bytes(&self, number: &Arith) -> bool {
        match number {
            Arith::Number(_) | Arith::Len | Arith::Size => true,
            Arith::Negative(inner) => self.has_bytes(inner),
            Arith::Binary(_, left, right) => self.has_bytes(left) && self.has_bytes(right),
            Arith::Bytes { base, index, .. } => {
                let is_here = match base {
                    Base::Packet => true,
                    Base::Protocol(Protocol::Ip | Protocol::Udp) => self.layout == Layout::Ipv4,
                    Base::Protocol(Protocol::Ip6) => self.layout == Layout::Ipv6,
                };
                is_here && self.has_bytes(index)
            }
        }
    }
}

/// The word of a protocol whose bytes a number is computed from.
fn of_protocols(number: &Arith) -> Option<&'static str> {
    match number {
        Arith::Number(_) | Arith::Len | Arith::Size => None,
        Arith::Negative(inner) => of_protocols(inner),
        Arith::Binary(_, left, right) => of_protocols(left).or_else(|| of_protocols(right)),
        Arith::Bytes { base: Base::Protocol(protocol), .. } => Some(protocol.word()),
        Arith::Bytes { base: Base::Packet, index, .. } => of_protocols(index),
    }
}
