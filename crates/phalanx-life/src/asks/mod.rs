//! Asks of a group: those of this process with what came for them, and those that it is to answer. See `docs/asks.md`.
//!
//! A table decides how an ask ends, and nothing else does: a front keeps no count of answers. What members say of asks goes
//! to one member each, as answers, and waits here while the core takes none.

mod frame;
mod open;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use phalanx_core::{Delivery, Expected, GroupView, Incarnation, Instant, Rank, SendOptions};

pub use frame::{AskNumber, Reply};
pub(crate) use frame::{Frame, What};
pub(crate) use open::{Heard, Open};

/// How many answers end an ask. Those expected are counted as the ask names them, whoever is gone by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// Of all members that are to answer.
    All,
    /// Of more than half of them.
    Majority,
    /// Of this number of members: values alone count.
    Count(u32),
    /// As many as [`Front::answered`](crate::Front::answered) takes until it says so.
    Until,
}

/// An ask of this process.
#[derive(Debug)]
pub struct Ask<R> {
    /// The asker's own name for it, of which there is one in a group.
    pub number: u64,
    /// The life in which it was asked for. In a later one it is not sent.
    pub life: u64,
    /// How it is sent.
    pub options: SendOptions,
    /// What is asked.
    pub payload: Bytes,
    /// How many answers end it.
    pub want: Want,
    /// Whether this process is to answer, too.
    pub with_self: bool,
    /// When it ends in any case.
    pub deadline: Option<Instant>,
    /// What waits for its answers.
    pub receipt: R,
}

impl<R> Ask<R> {
    /// The memory that it occupies while it waits, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + ASK_BYTES
    }
}

/// The fixed cost of an ask that waits, beside its payload.
const ASK_BYTES: usize = 128;

/// An ask that is to be answered, and the place that the answer fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AskId {
    /// Who asks.
    pub asker: Incarnation,
    /// Its number among that member's asks.
    pub number: AskNumber,
    /// The rank, in the view of the ask, whose place it is: another one than this process's if it was forwarded.
    pub place: Rank,
}

/// An ask that this process is to answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The ask, and the place to be filled.
    pub id: AskId,
    /// All that are to answer, by rank in the view of the ask.
    pub expected: Expected<'a>,
    /// What is asked.
    pub payload: &'a [u8],
    /// The message, if this is its delivery. `None`: another member forwarded it.
    pub delivery: Option<&'a Delivery<'a>>,
}

/// What came for a place of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled<'a> {
    /// A value.
    Value(&'a [u8]),
    /// The word that there is none.
    Null,
    /// The reason why the ask is to end.
    Abort(&'a [u8]),
    /// Nothing: who was to answer has left.
    Left,
}

/// An answer as its asker gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The ask.
    pub ask: AskNumber,
    /// The rank whose place is filled, in the view of the ask.
    pub place: Rank,
    /// The member of that rank.
    pub of: Incarnation,
    /// The member that answered, or has left.
    pub by: Incarnation,
    /// What came.
    pub filled: Filled<'a>,
}

/// How an ask ended that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskEnd {
    /// As many answered as it wanted.
    Met,
    /// All have answered or left, or as many as it wanted cannot answer any more.
    Complete,
    /// This member aborted it.
    Aborted(Incarnation),
    /// Its deadline passed. Others may handle it yet.
    Deadline,
    /// It was given up. Others may handle it yet.
    Cancelled,
    /// The inbox of this process stayed full, behind which its answers wait. Others may handle it yet.
    Full,
    /// This life is over: what became of it is not known.
    Over,
}

/// Something to be said to one member about an ask.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) to: Incarnation,
    pub(crate) payload: Bytes,
}

/// An ask that was accepted and is not delivered here yet.
#[derive(Debug)]
enum Sent<R> {
    Awaited(Box<Ask<R>>),
    /// Its end was told.
    GivenUp(AskEnd),
}

impl<R> Sent<R> {
    fn ask(&self) -> Option<&Ask<R>> {
        match self {
            Self::Awaited(ask) => Some(ask),
            Self::GivenUp(_) => None,
        }
    }

    /// Takes the ask out, if it is meant: its end is told.
    fn give_up(&mut self, end: AskEnd, is_meant: impl Fn(&Ask<R>) -> bool) -> Option<Box<Ask<R>>> {
        match std::mem::replace(self, Self::GivenUp(end)) {
            Self::Awaited(ask) if is_meant(&ask) => Some(ask),
            other => {
                *self = other;
                None
            }
        }
    }

    fn into_ask(self) -> Option<Box<Ask<R>>> {
        match self {
            Self::Awaited(ask) => Some(ask),
            Self::GivenUp(_) => None,
        }
    }
}

/// Buffers that are used again, so that a short answer costs no allocation.
#[derive(Debug, Default)]
struct Room {
    /// The value of an answer that is given at once.
    value: Vec<u8>,
    frame: Vec<u8>,
    /// Encoded frames, from the earliest that still waits. When none does, it begins anew.
    frames: BytesMut,
}

impl Room {
    /// An encoded frame.
    fn bytes(&mut self, frame: &Frame<'_>) -> Bytes {
        let Self { frame: encoded, frames, .. } = self;
        encoded.clear();
        frame.put(encoded);
        if encoded.len() > SHORT_BYTES {
            return std::mem::take(encoded).into();
        }
        if frames.capacity() < encoded.len() {
            // The same memory again, if nothing in it waits.
            frames.reserve(ROOM_BYTES);
        }
        frames.extend_from_slice(encoded);
        frames.split().freeze()
    }
}

/// What is longer gets memory of its own.
const SHORT_BYTES: usize = 2_048 + 64;
/// Memory of each buffer that is kept, in bytes.
const ROOM_BYTES: usize = 16 * 1024;

/// The asks of a membership in a life.
#[derive(Debug)]
pub(crate) struct Asks<R> {
    /// Accepted by the core, with their numbers among all messages, and bound to no view.
    accepted: VecDeque<(u64, Sent<R>)>,
    /// Bound to a view, and not delivered here.
    bound: VecDeque<(AskNumber, Sent<R>)>,
    /// Delivered here.
    open: Vec<Open<R>>,
    /// Asks that the application was shown and has not answered.
    due: Vec<AskId>,
    out: VecDeque<Out>,
    /// Room for what is to be said, used again.
    room: Room,
    /// Since when the inbox has been full, as far as was looked.
    pub(crate) full_since: Option<Instant>,
    /// Messages about asks that came too late, or make no sense.
    pub(crate) late: u64,
}

/// What is left of asks at the end of a life.
pub(crate) struct EndedAsks<R> {
    /// Those that were bound to no view.
    pub(crate) unsent: Vec<Box<Ask<R>>>,
    /// The others.
    pub(crate) sent: Vec<(AskNumber, Box<Ask<R>>)>,
}

/// Asks of a group that may wait for answers at a time.
pub(crate) const OPEN_ASKS: usize = 4_096;

impl<R> Asks<R> {
    pub(crate) fn new() -> Self {
        Self {
            accepted: VecDeque::new(),
            bound: VecDeque::new(),
            open: Vec::new(),
            due: Vec::new(),
            out: VecDeque::new(),
            room: Room::default(),
            full_since: None,
            late: 0,
        }
    }

    /// Whether another ask may wait for answers.
    pub(crate) fn has_room(&self) -> bool {
        self.accepted.len() + self.bound.len() + self.open.len() < OPEN_ASKS
    }

    /// Whether some ask waits for answers.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.accepted.is_empty() || !self.bound.is_empty() || !self.open.is_empty()
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let sent = self.accepted.iter().map(|(_, sent)| sent).chain(self.bound.iter().map(|(_, sent)| sent));
        let asks = sent.filter_map(Sent::ask).chain(self.open.iter().map(|open| &*open.ask));
        asks.filter_map(|ask| ask.deadline).min()
    }

    /// The core accepted it, as that message of this life.
    pub(crate) fn accepted(&mut self, number: u64, ask: Box<Ask<R>>) {
        self.accepted.push_back((number, Sent::Awaited(ask)));
    }

    /// The message of that number was bound to a view.
    #[inline]
    pub(crate) fn bind(&mut self, number: u64, at: AskNumber) {
        if self.accepted.front().is_some_and(|(of, _)| *of == number)
            && let Some((_, sent)) = self.accepted.pop_front()
        {
            self.bound.push_back((at, sent));
        }
    }

    /// An ask of this process was delivered here: from now on answers count. If its end was told before, returns that.
    pub(crate) fn delivered(
        &mut self,
        at: AskNumber,
        expected: Expected<'_>,
        view: &GroupView,
        me: Incarnation,
    ) -> Option<AskEnd> {
        let found = self.bound.iter().position(|(number, _)| *number == at)?;
        match self.bound.remove(found)?.1 {
            Sent::Awaited(ask) => {
                self.open.push(Open::new(at, ask, expected, view, me));
                None
            }
            // Nobody could be told before.
            Sent::GivenUp(end) => {
                let members =
                    expected.ranks().filter_map(|rank| Some((Rank::from_index(rank), *view.members.get(rank)?)));
                members
                    .filter(|(_, to)| *to != me)
                    .for_each(|(place, to)| self.say(to, &Frame { ask: at, place, what: What::GivenUp }));
                Some(end)
            }
        }
    }

    /// The open ask of that number.
    pub(crate) fn open(&mut self, at: AskNumber) -> Option<&mut Open<R>> {
        self.open.iter_mut().find(|open| open.number == at)
    }

    pub(crate) fn all_open(&mut self) -> &mut [Open<R>] {
        &mut self.open
    }

    /// Takes an ask that has ended, with how.
    pub(crate) fn take_ended(&mut self) -> Option<(Open<R>, AskEnd)> {
        let (at, end) = self.open.iter().enumerate().find_map(|(at, open)| Some((at, open.end()?)))?;
        Some((self.open.remove(at), end))
    }

    /// Takes an ask out whose answers are awaited no more, with its number if it is open. Those that are to answer it are told,
    /// now or when it is delivered here.
    pub(crate) fn give_up(
        &mut self,
        end: AskEnd,
        is_meant: impl Fn(&Ask<R>) -> bool,
    ) -> Option<(Option<AskNumber>, Box<Ask<R>>)> {
        if let Some(at) = self.open.iter().position(|open| is_meant(&open.ask)) {
            let open = self.open.remove(at);
            for (place, to) in open.awaited() {
                self.say(to, &Frame { ask: open.number, place, what: What::GivenUp });
            }
            return Some((Some(open.number), open.ask));
        }
        // The core has it, and sends it. Its place is kept for its delivery.
        let bound = self.bound.iter_mut().map(|(_, sent)| sent);
        let mut sent = bound.chain(self.accepted.iter_mut().map(|(_, sent)| sent));
        sent.find_map(|sent| sent.give_up(end, &is_meant)).map(|ask| (None, ask))
    }

    /// Says something to one member.
    pub(crate) fn say(&mut self, to: Incarnation, frame: &Frame<'_>) {
        let payload = self.room.bytes(frame);
        self.out.push_back(Out { to, payload });
    }

    /// What is to be said next.
    pub(crate) fn out(&self) -> Option<&Out> {
        self.out.front()
    }

    pub(crate) fn take_out(&mut self) -> Option<Out> {
        self.out.pop_front()
    }

    // Asks of others.

    /// The application is shown an ask.
    pub(crate) fn show(&mut self, id: AskId) {
        self.due.push(id);
    }

    /// Room for the value of an answer, empty.
    pub(crate) fn take_value(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.room.value)
    }

    /// That room is used again, unless it grew beyond what is kept.
    pub(crate) fn keep_value(&mut self, mut value: Vec<u8>) {
        if value.capacity() <= ROOM_BYTES {
            value.clear();
            self.room.value = value;
        }
    }

    /// The application answers. False: it answered before, or nobody waits for it any more.
    pub(crate) fn answer(&mut self, id: AskId, reply: Reply, value: &[u8]) -> bool {
        let Some(at) = self.due.iter().position(|due| *due == id) else { return false };
        self.due.swap_remove(at);
        let frame = Frame { ask: id.number, place: id.place, what: What::Reply(reply, value) };
        self.say(id.asker, &frame);
        true
    }

    /// The asker gave an ask up: takes a place of it that was not filled.
    pub(crate) fn take_given_up(&mut self, asker: Incarnation, number: AskNumber) -> Option<AskId> {
        let at = self.due.iter().position(|due| due.asker == asker && due.number == number)?;
        Some(self.due.swap_remove(at))
    }

    /// Nobody waits for the answers of asks of those that are gone.
    pub(crate) fn keep_askers(&mut self, members: &[Incarnation]) {
        self.due.retain(|due| members.contains(&due.asker));
    }

    /// The life is over. Returns the asks that were bound to no view, and the others with their numbers.
    pub(crate) fn end(&mut self) -> EndedAsks<R> {
        let Self { accepted, bound, open, late, .. } = std::mem::replace(self, Self::new());
        self.late = late;
        let unsent = accepted.into_iter().filter_map(|(_, sent)| sent.into_ask()).collect();
        let bound = bound.into_iter().filter_map(|(number, sent)| Some((number, sent.into_ask()?)));
        EndedAsks { unsent, sent: bound.chain(open.into_iter().map(|open| (open.number, open.ask))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::{Sequence, ViewNumber};

    use super::*;

    fn reply(value: &[u8]) -> Frame<'_> {
        Frame { ask: (ViewNumber(3), Sequence(1)), place: Rank(1), what: What::Reply(Reply::Value, value) }
    }

    #[test]
    fn what_waits_keeps_its_bytes_and_memory_is_used_again() {
        let mut room = Room::default();
        let waits: Vec<(Vec<u8>, Bytes)> = (0..100_u8)
            .map(|at| vec![at; 17 * usize::from(at) + usize::from(at == 99) * SHORT_BYTES])
            .map(|value| (value.clone(), room.bytes(&reply(&value))))
            .collect();
        for (value, encoded) in &waits {
            assert_eq!(Frame::read(encoded), Ok(reply(value)));
        }
        drop(waits);
        let places: Vec<usize> = (0..ROOM_BYTES).map(|_| room.bytes(&reply(b"two")).as_ptr().addr()).collect();
        let (least, greatest) = (places.iter().min().copied(), places.iter().max().copied());
        assert!(greatest.zip(least).is_some_and(|(greatest, least)| greatest - least < ROOM_BYTES), "it comes round");
        assert!(room.frames.capacity() <= ROOM_BYTES, "no more is kept");
    }
}
