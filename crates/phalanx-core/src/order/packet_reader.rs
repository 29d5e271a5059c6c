//! Parsing a member's packets. The meaning of a packet depends on those before it in its stream, and on the token
//! holder.
//!
//! A packet is read whole or not at all ([`Context::undo`]): one that cannot be parsed, or must wait, changes nothing.
//! See `docs/fail-stop.md`.

use super::frame::{FragmentKind, MessageKind, Pairs, PlainMessage, StreamFrame, read_frame, read_head, read_plain};
use crate::api::Order;
use crate::id::Rank;
use crate::wire::codec::Reader;
use crate::wire::{Malformed, PacketNumber};

/// Why a packet cannot be read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// No correct member sends such a packet.
    Nonsense,
    /// The packet announces orders of a tenure that has not begun here. The pass that begins it is in another stream.
    Early,
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Nonsense
    }
}

/// Which member may announce orders: the tenure in force and its token holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    pub(super) number: u32,
    pub(super) holder: Rank,
}

/// How a reader treats announced orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orders {
    /// The stream is this member's own: it applied the orders before it sent them.
    Own,
    /// Orders count if their sender holds the token. If its tenure has not begun, the packet waits.
    Evaluated,
    /// The view ends: no pass will come that a packet could wait for. Orders that do not count are ignored, by all
    /// members alike, because all read up to the same cut.
    Final,
}

/// The position of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketPosition {
    /// The rank of its sender.
    pub(super) by: Rank,
    /// Its number in the stream.
    pub(super) number: PacketNumber,
}

/// Receiver of what [`Context::read`] decodes. The calls count only if the whole packet is read.
pub(super) trait Taker {
    /// Adds a dependency of the next complete message: messages of a rank, as an absolute count.
    fn depend(&mut self, dep: (Rank, u64));
    /// Takes a whole message; its bytes are `len` from `start` in the packet.
    fn whole(&mut self, kind: MessageKind, start: u32, len: u32);
    /// Takes a fragment of a longer message.
    fn piece(&mut self, body: &[u8]);
    /// Ends the message whose fragments were taken.
    fn last(&mut self, kind: MessageKind);
    /// Appends the next `count` abcasts of `rank` to the total order.
    fn order(&mut self, rank: Rank, count: u64);
    /// Passes the token to `to`.
    fn pass(&mut self, to: Rank);
    /// Notes that every member has the stream up to `prefix`.
    fn stable(&mut self, prefix: u64);
}

/// An incomplete message, as far as its fragments were read.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    kind: MessageKind,
    total: usize,
    len: usize,
}

/// What the packets read so far determine about the next one of the stream.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// Number of members of the view.
    members: usize,
    /// The sender's vector time as of its last message, by rank. Entries beyond the end are 0.
    vector: Vec<u64>,
    /// Dependencies sent ahead of the next causal or total message, as absolute counts.
    past: Vec<(Rank, u64)>,
    /// The tenure of the sender's last announcement.
    tenure: u32,
    pieces: Option<Pieces>,
    before: Before,
}

/// The state before the packet that is being read, for [`Context::undo`].
#[derive(Clone, Debug, Default)]
struct Before {
    /// Changed entries of the vector time with their old values, in the order of the changes. A copy of the whole
    /// vector would cost time for each packet.
    vector: Vec<(Rank, u64)>,
    /// `Some` if the list changed.
    past: Option<Vec<(Rank, u64)>>,
    tenure: u32,
    pieces: Option<Pieces>,
}

impl Context {
    pub(super) fn new(members: usize) -> Self {
        let (vector, past, before) = (Vec::new(), Vec::new(), Before::default());
        Self { members, vector, past, tenure: 0, pieces: None, before }
    }

    /// Reads the next packet of the stream. True if a member waits for its stability, so that it is acknowledged at
    /// once.
    ///
    /// # Errors
    /// [`Stop`] when the packet cannot be read now. The context is then unchanged; the caller discards what `out` took.
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
            // The common case, apart from the full match below: a whole message without dependencies costs one branch.
            if self.past.is_empty()
                && let Some(PlainMessage { kind, body }) = read_plain(&mut r)
            {
                let start = frames.len() - r.remaining() - body.len();
                out.whole(kind, offset(start)?, offset(body.len())?);
                is_prompt |= kind.uniformity.is_uniform();
                if kind.sequenced && counts(self.tenure, position.by, tenure, orders)? {
                    out.order(position.by, 1);
                }
                continue;
            }
            match read_frame(&mut r)? {
                None => {}
                Some(StreamFrame::Message { kind, fragment, deps, body }) => {
                    let ends = matches!(fragment, FragmentKind::Whole | FragmentKind::Last);
                    if ends && kind.order != Order::Fifo && !self.past.is_empty() {
                        self.keep_past();
                        self.past.drain(..).for_each(|dep| out.depend(dep));
                    }
                    if !deps.is_empty() {
                        self.depend(deps, ends, out)?;
                    }
                    let start = frames.len() - r.remaining() - body.len();
                    is_prompt |= self.read_fragment(kind, fragment, start, body, out)? && kind.uniformity.is_uniform();
                    if kind.sequenced && counts(self.tenure, position.by, tenure, orders)? {
                        out.order(position.by, 1);
                    }
                }
                Some(StreamFrame::Announce { tenure: of, prompt, runs }) => {
                    is_prompt |= prompt;
                    let counts = counts(of, position.by, tenure, orders)?;
                    // Abcasts that follow in this stream and are ordered by position belong to this tenure.
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
                    // A peer may send any tenure; there must be a next one.
                    let next = of.checked_add(1).ok_or(Stop::Nonsense)?;
                    if to.index() >= self.members || to == position.by {
                        return Err(Stop::Nonsense);
                    }
                    // This member's own pass takes effect when it is read here, unlike its orders, which took effect
                    // when they were sent.
                    let orders = if orders == Orders::Own { Orders::Evaluated } else { orders };
                    if counts(of, position.by, tenure, orders)? {
                        out.pass(to);
                        tenure = Tenure { number: next, holder: to };
                    }
                }
                Some(StreamFrame::Stable { prefix }) => {
                    // All members have the packets up to `prefix`. The sender cannot know that of the packet that says
                    // so.
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

    /// Restores the state before the packet that was read last.
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

    /// Bytes read of the incomplete message.
    pub(super) fn pieces_len(&self) -> usize {
        self.pieces.map_or(0, |pieces| pieces.len)
    }

    /// Saves `past` for [`Self::undo`], once for each packet.
    fn keep_past(&mut self) {
        if self.before.past.is_none() {
            self.before.past = Some(self.past.clone());
        }
    }

    /// Keeps only the latest dependency of each rank. Bounds the list against a peer that sends `Past` frames and no
    /// message.
    fn forget_overtaken(&mut self) {
        if self.past.len() > 2 * self.members {
            self.past.reverse();
            self.past.sort_by_key(|(rank, _)| *rank); // stable: the latest of each rank stays first
            self.past.dedup_by_key(|(rank, _)| *rank);
        }
    }

    /// Converts a growth into an absolute count.
    fn absolute(&mut self, (rank, growth): (Rank, u64)) -> Result<(Rank, u64), Stop> {
        if rank.index() >= self.members {
            return Err(Stop::Nonsense);
        }
        let entry = entry_of(&mut self.vector, rank);
        self.before.vector.push((rank, *entry));
        *entry = entry.checked_add(growth).ok_or(Stop::Nonsense)?;
        Ok((rank, *entry))
    }

    /// Adds `deps` to the message that ends here. Fragments before the last must have none.
    fn depend(&mut self, deps: Pairs<'_>, ends: bool, out: &mut impl Taker) -> Result<(), Stop> {
        if !ends {
            return Err(Stop::Nonsense);
        }
        for dep in deps.iter() {
            out.depend(self.absolute(dep)?);
        }
        Ok(())
    }

    /// Reads a message or a fragment. True if a message became complete.
    #[inline]
    fn read_fragment(
        &mut self,
        kind: MessageKind,
        fragment: FragmentKind,
        start: usize,
        body: &[u8],
        out: &mut impl Taker,
    ) -> Result<bool, Stop> {
        if kind.has_head && matches!(fragment, FragmentKind::Whole | FragmentKind::First(_)) {
            read_head(body, self.members)?;
        }
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

/// Whether orders that `by` announces in tenure `of` count.
#[inline]
fn counts(of: u32, by: Rank, tenure: Tenure, orders: Orders) -> Result<bool, Stop> {
    if orders == Orders::Own {
        return Ok(false);
    }
    if of == tenure.number && by == tenure.holder {
        return Ok(true);
    }
    // A later tenure may be valid, once its pass is read here. An earlier one, or another sender in the tenure in
    // force, never becomes valid.
    match orders {
        Orders::Evaluated if of > tenure.number => Err(Stop::Early),
        Orders::Evaluated => Err(Stop::Nonsense),
        Orders::Own | Orders::Final => Ok(false),
    }
}

/// An offset in a packet. Packets are far shorter than 4 GiB.
#[inline]
fn offset(bytes: usize) -> Result<u32, Stop> {
    u32::try_from(bytes).map_err(|_too_long| Stop::Nonsense)
}

/// The entry of `rank`. Extends the vector if it is shorter.
pub(crate) fn entry_of(vector: &mut Vec<u64>, rank: Rank) -> &mut u64 {
    let index = rank.index();
    if vector.len() <= index {
        vector.resize(index + 1, 0);
    }
    &mut vector[index]
}
