//! Parsing a member's packets. The meaning of a packet depends on those before it in its stream, and on the token
//! holder.
//!
//! A packet is read whole or not at all ([`Context::undo`]): one that cannot be parsed, or must wait, changes nothing.
//! See `docs/fail-stop.md`.

use super::frame::{FragmentKind, Pairs, PlainMessage, StreamFrame, read_frame, read_plain};
use crate::api::Order;
use crate::id::Rank;
use crate::wire::codec::Reader;
use crate::wire::{Malformed, PacketNumber};

/// Why a packet is not read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// No member that keeps to the rules sends it.
    Nonsense,
    /// It gives orders of a tenure that has not begun here: the pass that begins it is in another stream.
    Early,
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Nonsense
    }
}

/// Who may give orders: the tenure in force, and who holds the token in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    pub(super) number: u32,
    pub(super) holder: Rank,
}

/// What is done with orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orders {
    /// They are this member's own, and known.
    Own,
    /// They count if their sender holds the token. If its tenure has not begun, they wait.
    Judged,
    /// At the end of a view nothing comes any more that could be waited for: what does not count is passed over, by all
    /// members alike.
    Final,
}

/// What a message's sender asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageKind {
    pub(super) order: Order,
    pub(super) sequenced: bool,
    pub(super) uniform: bool,
}

/// Where a packet stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketPosition {
    /// The rank of its sender.
    pub(super) by: Rank,
    /// Its number in the stream.
    pub(super) number: PacketNumber,
}

/// Who takes what is read.
pub(super) trait Taker {
    /// The next message that is complete depends on so many messages of a rank.
    fn depend(&mut self, dep: (Rank, u64));
    /// A message lies whole in the packet.
    fn whole(&mut self, kind: MessageKind, start: u32, len: u32);
    /// A piece of a longer message, its first or a later one.
    fn piece(&mut self, body: &[u8]);
    /// The pieces so far are a message.
    fn last(&mut self, kind: MessageKind);
    /// The next `count` abcasts of a rank come next.
    fn order(&mut self, rank: Rank, count: u64);
    /// The token goes to that rank.
    fn pass(&mut self, to: Rank);
    /// Every member has the stream up to there.
    fn stable(&mut self, prefix: u64);
}

/// A message of which some pieces were read.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    kind: MessageKind,
    total: usize,
    len: usize,
}

/// What the packets of a stream that were read say about the next one.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// The members of the view.
    members: usize,
    /// The sender's vector time as of its last message, by rank, as far as any entry is above 0.
    vector: Vec<u64>,
    /// Dependencies told ahead of the next message that may have any, as absolute counts.
    past: Vec<(Rank, u64)>,
    /// The tenure its sender last spoke for.
    tenure: u32,
    pieces: Option<Pieces>,
    before: Before,
}

/// The same before the packet that is being read.
#[derive(Clone, Debug, Default)]
struct Before {
    /// Entries of the vector time that changed, in the order of their changes.
    vector: Vec<(Rank, u64)>,
    /// If it changed.
    past: Option<Vec<(Rank, u64)>>,
    tenure: u32,
    pieces: Option<Pieces>,
}

impl Context {
    pub(super) fn new(members: usize) -> Self {
        let (vector, past, before) = (Vec::new(), Vec::new(), Before::default());
        Self { members, vector, past, tenure: 0, pieces: None, before }
    }

    /// Reads the next packet of the stream. True: somebody waits for its stability, it is acknowledged at once. If it is not
    /// read, what `out` took is not to count, and this is as [`Self::undo`] leaves it.
    #[inline]
    pub(super) fn read(
        &mut self,
        position: PacketPosition,
        frames: &[u8],
        tenure: Tenure,
        orders: Orders,
        out: &mut impl Taker,
    ) -> Result<bool, Stop> {
        debug_assert!(position.by.index() < self.members, "a stream belongs to a member");
        debug_assert!(position.number > PacketNumber(0), "packets are numbered from 1");
        self.before.vector.clear();
        self.before.past = None;
        (self.before.tenure, self.before.pieces) = (self.tenure, self.pieces);
        let read = self.read_frames(position, frames, tenure, orders, out);
        if read.is_err() {
            self.undo();
        }
        read
    }

    #[inline]
    fn read_frames(
        &mut self,
        position: PacketPosition,
        frames: &[u8],
        mut tenure: Tenure,
        orders: Orders,
        out: &mut impl Taker,
    ) -> Result<bool, Stop> {
        let mut r = Reader::new(frames);
        let mut is_prompt = false;
        while !r.is_empty() {
            if self.past.is_empty()
                && let Some(PlainMessage { order, sequenced, uniform, body }) = read_plain(&mut r)
            {
                let start = frames.len() - r.remaining() - body.len();
                out.whole(MessageKind { order, sequenced, uniform }, offset(start)?, offset(body.len())?);
                is_prompt |= uniform;
                if sequenced && counts(self.tenure, position.by, tenure, orders)? {
                    out.order(position.by, 1);
                }
                continue;
            }
            match read_frame(&mut r)? {
                None => {}
                Some(StreamFrame::Message { order, sequenced, uniform, fragment, deps, body }) => {
                    let ends = matches!(fragment, FragmentKind::Whole | FragmentKind::Last);
                    if ends && order != Order::Fifo && !self.past.is_empty() {
                        self.keep_past();
                        self.past.drain(..).for_each(|dep| out.depend(dep));
                    }
                    if !deps.is_empty() {
                        self.depend(deps, ends, out)?;
                    }
                    let start = frames.len() - r.remaining() - body.len();
                    let kind = MessageKind { order, sequenced, uniform };
                    is_prompt |= self.read_fragment(kind, fragment, start, body, out)? && uniform;
                    if sequenced && counts(self.tenure, position.by, tenure, orders)? {
                        out.order(position.by, 1);
                    }
                }
                Some(StreamFrame::Announce { tenure: of, prompt, runs }) => {
                    is_prompt |= prompt;
                    let counts = counts(of, position.by, tenure, orders)?;
                    self.tenure = of;
                    for (rank, count) in runs.iter() {
                        if rank.index() >= self.members {
                            return Err(Stop::Nonsense);
                        }
                        if counts && count > 0 {
                            out.order(rank, count);
                        }
                    }
                }
                Some(StreamFrame::Pass { tenure: of, to }) => {
                    let next = of.checked_add(1).ok_or(Stop::Nonsense)?;
                    if to.index() >= self.members || to == position.by {
                        return Err(Stop::Nonsense);
                    }
                    // Its own pass is not known before it is read, as its own orders are.
                    let orders = if orders == Orders::Own { Orders::Judged } else { orders };
                    if counts(of, position.by, tenure, orders)? {
                        out.pass(to);
                        tenure = Tenure { number: next, holder: to };
                    }
                }
                Some(StreamFrame::Stable { prefix }) => {
                    // All members have it, so this one has: it stands in a later packet.
                    if prefix >= position.number.0 {
                        return Err(Stop::Nonsense);
                    }
                    out.stable(prefix);
                }
                Some(StreamFrame::Past { deps }) => {
                    self.keep_past();
                    for dep in deps.iter() {
                        let dep = self.absolute(dep)?;
                        self.past.push(dep);
                    }
                    self.forget_overtaken();
                }
            }
        }
        Ok(is_prompt)
    }

    /// As it was before the packet read last.
    pub(super) fn undo(&mut self) {
        for &(rank, old) in self.before.vector.iter().rev() {
            *entry_of(&mut self.vector, rank) = old;
        }
        self.before.vector.clear();
        if let Some(past) = self.before.past.take() {
            self.past = past;
        }
        (self.tenure, self.pieces) = (self.before.tenure, self.before.pieces);
    }

    /// Bytes of a message in pieces that were read.
    pub(super) fn pieces_len(&self) -> usize {
        self.pieces.map_or(0, |pieces| pieces.len)
    }

    /// What is about to change can be undone.
    fn keep_past(&mut self) {
        if self.before.past.is_none() {
            self.before.past = Some(self.past.clone());
        }
    }

    /// Of the dependencies told ahead, only the last of each rank says anything.
    fn forget_overtaken(&mut self) {
        if self.past.len() > 2 * self.members {
            self.past.reverse();
            self.past.sort_by_key(|(rank, _)| *rank); // stable: the latest of each rank stays first
            self.past.dedup_by_key(|(rank, _)| *rank);
        }
    }

    /// A growth as an absolute count.
    fn absolute(&mut self, (rank, growth): (Rank, u64)) -> Result<(Rank, u64), Stop> {
        if rank.index() >= self.members {
            return Err(Stop::Nonsense);
        }
        let entry = entry_of(&mut self.vector, rank);
        self.before.vector.push((rank, *entry));
        *entry = entry.checked_add(growth).ok_or(Stop::Nonsense)?;
        Ok((rank, *entry))
    }

    /// The message that `ends` here depends on these.
    fn depend(&mut self, deps: Pairs<'_>, ends: bool, out: &mut impl Taker) -> Result<(), Stop> {
        if !ends {
            return Err(Stop::Nonsense);
        }
        for dep in deps.iter() {
            out.depend(self.absolute(dep)?);
        }
        Ok(())
    }

    /// True when a message became complete.
    #[inline]
    fn read_fragment(
        &mut self,
        kind: MessageKind,
        fragment: FragmentKind,
        start: usize,
        body: &[u8],
        out: &mut impl Taker,
    ) -> Result<bool, Stop> {
        let pieces = match (fragment, self.pieces) {
            (FragmentKind::Whole, _) => {
                out.whole(kind, offset(start)?, offset(body.len())?);
                return Ok(true);
            }
            (FragmentKind::First(total), None) => Pieces { kind, total, len: body.len() },
            (FragmentKind::Middle | FragmentKind::Last, Some(pieces)) if pieces.kind == kind => {
                Pieces { len: pieces.len + body.len(), ..pieces }
            }
            _ => return Err(Stop::Nonsense),
        };
        if kind.sequenced {
            return Err(Stop::Nonsense); // a message in pieces ends somewhere else than it begins
        }
        let is_last = fragment == FragmentKind::Last;
        if pieces.len > pieces.total || is_last && pieces.len < pieces.total {
            return Err(Stop::Nonsense);
        }
        out.piece(body);
        self.pieces = (!is_last).then_some(pieces);
        if is_last {
            out.last(kind);
        }
        Ok(is_last)
    }
}

/// Whether what a member orders in a tenure counts.
#[inline]
fn counts(of: u32, by: Rank, tenure: Tenure, orders: Orders) -> Result<bool, Stop> {
    if orders == Orders::Own {
        return Ok(false);
    }
    if of == tenure.number && by == tenure.holder {
        return Ok(true);
    }
    match orders {
        Orders::Judged if of > tenure.number => Err(Stop::Early),
        Orders::Judged => Err(Stop::Nonsense),
        Orders::Own | Orders::Final => Ok(false),
    }
}

/// Within a packet, which is far shorter than four gigabytes.
#[inline]
fn offset(bytes: usize) -> Result<u32, Stop> {
    u32::try_from(bytes).map_err(|_too_long| Stop::Nonsense)
}

/// The entry of `rank`, made if the vector does not reach that far.
pub(super) fn entry_of(vector: &mut Vec<u64>, rank: Rank) -> &mut u64 {
    let index = rank.index();
    if vector.len() <= index {
        vector.resize(index + 1, 0);
    }
    &mut vector[index]
}
