//! The state that a simulated application keeps for a group: digests of its deliveries and the users' objects, padded
//! so that a transfer takes more than one packet.

use phalanx_core::{Delivery, DomainIndex, GroupView, Order, Snapshot};
use phalanx_life::{Clients, TableBounds};

use crate::objects::{self, Objects};
use crate::oracle::{fold, hash_bytes};
use crate::program::DOMAINS;

/// Summary of the deliveries of a group.
///
/// At the end of a view every survivor delivered the same set, and its totally ordered part in the same order. So the
/// summary is equal at all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Digest of the totally ordered messages, in their order.
    ordered: u64,
    /// Sum over all messages, independent of their order, and over what the founder brought.
    all: u64,
    /// Number of messages.
    count: u64,
    /// Digest of the views, in their order, each with the messages before it.
    views: u64,
    /// Sum over the messages of each of [`DOMAINS`], from the view on that lists it.
    domains: [u64; DOMAINS.len()],
    /// Digest of the submits that were executed, in their order.
    submits: u64,
    /// Registers, locks, bank.
    pub(crate) objects: Objects,
}

impl State {
    /// The state that an incarnation brings to a group that it founds. No other brings the same.
    pub(crate) fn brought_by(me: u64) -> Self {
        Self { all: fold(me), ..Self::default() }
    }

    pub(crate) fn apply(&mut self, order: Order, sender: u64, payload_hash: u64) {
        let message = fold(sender ^ payload_hash.rotate_left(17));
        if order == Order::Total {
            self.ordered = fold(self.ordered.rotate_left(7) ^ message);
        }
        self.all = self.all.wrapping_add(message);
        self.count += 1;
    }

    /// Applies a message to those domains of the group's list that it is for. `listed`: the places of [`DOMAINS`] in the list.
    pub(crate) fn apply_to_domains(
        &mut self,
        listed: &[Option<DomainIndex>],
        delivery: &Delivery<'_>,
        payload_hash: u64,
    ) {
        let message = fold(delivery.sender.0 ^ payload_hash.rotate_left(13));
        for (digest, place) in self.domains.iter_mut().zip(listed) {
            match place {
                Some(_) if delivery.domain.is_none() => *digest = digest.wrapping_add(message),
                Some(_) if delivery.domain == *place => *digest = digest.wrapping_add(fold(message)),
                _ => {}
            }
        }
    }

    /// Executes a submit: the result follows from all that were executed before. Some are longer than a table of clients keeps.
    pub(crate) fn execute(&mut self, payload: &[u8]) -> Vec<u8> {
        self.submits = fold(self.submits.rotate_left(7) ^ hash_bytes(payload));
        let words = if self.submits.is_multiple_of(16) { LONG_RESULT_WORDS } else { self.submits % 9 };
        (0..words).flat_map(|word| fold(self.submits ^ word).to_le_bytes()).collect()
    }

    /// A domain came to the group's list: it begins anew.
    pub(crate) fn begin_domain(&mut self, at: usize) {
        self.domains[at] = 0;
    }

    /// Takes in a view. All members have the same messages before it.
    pub(crate) fn view(&mut self, view: &GroupView) {
        let members = view.members.iter().map(|who| who.0);
        let joined = view.joined.iter().map(|who| who.0.rotate_left(1));
        let left = view.left.iter().map(|(who, why)| who.0.rotate_left(2) ^ fold(*why as u64));
        let rest = [view.view.0, self.ordered, self.all, self.count];
        let words = members.chain(joined).chain(left).chain(rest);
        self.views = words.fold(self.views, |digest, word| fold(digest.rotate_left(7) ^ word));
    }

    pub(crate) fn digest(&self) -> u64 {
        hash_bytes(&self.head(0))
    }

    /// `rest`: bytes that follow it before the padding.
    fn head(&self, rest: u64) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        let words = [self.ordered, self.all, self.count, self.views]
            .into_iter()
            .chain(self.domains)
            .chain([self.submits, rest])
            .chain(self.objects.words());
        for (place, word) in head.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        head
    }
}

/// Words of the state itself, before those of the objects.
const OWN_WORDS: usize = 6 + DOMAINS.len();
/// Where the digest of submits stands among them.
const SUBMITS_WORD: usize = OWN_WORDS - 2;
const HEAD_BYTES: usize = 8 * (OWN_WORDS + objects::WORDS);
/// More than a table of clients keeps of an answer.
const LONG_RESULT_WORDS: u64 = 26;

/// What a table of clients holds: little, so that tables are full and clients are dropped.
pub(crate) const CLIENTS_BOUNDS: TableBounds = TableBounds { clients: 4, bytes: 4_000, answer_bytes: 200, answers: 12 };

/// A state frozen for a joiner: the head, the table of clients if there is one, then padding derived from the head.
#[derive(Debug)]
pub(crate) struct Frozen {
    head: Vec<u8>,
    padding_seed: u64,
    len_bytes: u64,
}

impl Frozen {
    pub(crate) fn new(state: &State, clients: Option<&Clients>, padding_bytes: u64) -> Self {
        let clients = clients.map_or_else(Vec::new, Clients::encode);
        let head = [&state.head(clients.len() as u64)[..], &clients].concat();
        Self { padding_seed: state.digest(), len_bytes: head.len() as u64 + padding_bytes, head }
    }

    /// The length of a state with so much padding and no clients.
    pub(crate) const fn bytes(padding_bytes: u64) -> u64 {
        HEAD_BYTES as u64 + padding_bytes
    }
}

impl Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let end = self.len_bytes.min(offset.saturating_add(max_bytes as u64));
        let head = usize::try_from(offset).ok().and_then(|at| self.head.get(at..)).unwrap_or_default();
        out.extend(head.iter().take(max_bytes));
        pad(self.padding_seed, offset.max(self.head.len() as u64), end, out);
    }
}

/// Appends the padding at `from..to`: a new word for every eight bytes.
fn pad(seed: u64, from: u64, to: u64, out: &mut Vec<u8>) {
    let mut at = from;
    while at < to {
        let word = fold(seed ^ (at / 8)).to_le_bytes();
        let begin = (at % 8) as usize;
        let end = word.len().min(begin + (to - at).min(8) as usize);
        out.extend_from_slice(&word[begin..end]);
        at += (end - begin) as u64;
    }
}

/// A snapshot being received.
#[derive(Debug)]
pub(crate) struct Incoming {
    expected_bytes: u64,
    bytes: Vec<u8>,
}

impl Incoming {
    pub(crate) fn new(expected_bytes: u64) -> Self {
        Self { expected_bytes, bytes: Vec::new() }
    }

    /// Takes a chunk; returns what is more than was expected.
    pub(crate) fn take<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let room = self.expected_bytes.saturating_sub(self.bytes.len() as u64);
        let (own, rest) = chunk.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(chunk.len()));
        self.bytes.extend_from_slice(own);
        rest
    }

    /// Decodes the state and the table of clients, or describes what is wrong with the bytes.
    pub(crate) fn finish(&self) -> Result<(State, Option<Clients>), String> {
        if self.bytes.len() as u64 != self.expected_bytes {
            return Err(format!(
                "a snapshot of {} bytes was announced, {} came",
                self.expected_bytes,
                self.bytes.len()
            ));
        }
        let Some((head, rest)) = self.bytes.split_at_checked(HEAD_BYTES) else {
            return if self.bytes.is_empty() {
                Ok((State::default(), None))
            } else {
                Err("a snapshot shorter than its head came".into())
            };
        };
        let word = |at: usize| head[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let objects = Objects::of_words(&std::array::from_fn(|index| word(8 * (OWN_WORDS + index))));
        let domains = std::array::from_fn(|at| word(32 + 8 * at));
        let submits = word(8 * SUBMITS_WORD);
        let state =
            State { ordered: word(0), all: word(8), count: word(16), views: word(24), domains, submits, objects };
        let clients_bytes = usize::try_from(word(8 * (SUBMITS_WORD + 1))).unwrap_or(usize::MAX);
        let Some((clients, rest)) = rest.split_at_checked(clients_bytes) else {
            return Err("a snapshot shorter than its table of clients came".into());
        };
        let clients = match clients {
            [] => None,
            bytes => {
                let table = Clients::decode(bytes, CLIENTS_BOUNDS);
                Some(table.map_err(|_malformed| "the table of clients in a snapshot is none".to_owned())?)
            }
        };
        let begin = HEAD_BYTES + clients_bytes;
        let mut padding = Vec::with_capacity(rest.len());
        pad(state.digest(), begin as u64, self.expected_bytes, &mut padding);
        match rest.iter().zip(&padding).position(|(came, due)| came != due) {
            None => Ok((state, clients)),
            Some(at) => Err(format!("byte {} of a snapshot is not the donor's", begin + at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::{GroupId, Incarnation, ViewNumber};

    use super::*;

    fn state(messages: &[(Order, u64)]) -> State {
        let mut state = State::default();
        for (order, hash) in messages {
            state.apply(*order, 1, *hash);
        }
        state
    }

    #[test]
    fn the_order_counts_for_total_only() {
        let one = state(&[(Order::Fifo, 1), (Order::Causal, 2), (Order::Total, 3), (Order::Total, 4)]);
        let same = state(&[(Order::Causal, 2), (Order::Total, 3), (Order::Fifo, 1), (Order::Total, 4)]);
        let other = state(&[(Order::Fifo, 1), (Order::Causal, 2), (Order::Total, 4), (Order::Total, 3)]);
        assert_eq!(one.digest(), same.digest());
        assert_ne!(one.digest(), other.digest());
        assert_ne!(one.digest(), state(&[(Order::Fifo, 1)]).digest());
    }

    #[test]
    fn the_order_of_submits_counts() {
        let after = |payloads: &[&[u8]]| {
            let mut state = State::default();
            let results: Vec<Vec<u8>> = payloads.iter().map(|payload| state.execute(payload)).collect();
            (state.digest(), results)
        };
        assert_eq!(after(&[b"a", b"b"]), after(&[b"a", b"b"]));
        assert_ne!(after(&[b"a", b"b"]).0, after(&[b"b", b"a"]).0);
        let mut state = State::default();
        let lengths: Vec<usize> = (0..200_u64).map(|number| state.execute(&number.to_le_bytes()).len()).collect();
        assert!(lengths.contains(&0) && lengths.iter().any(|len| *len > CLIENTS_BOUNDS.answer_bytes));
    }

    #[test]
    fn the_place_of_a_view_between_the_messages_counts() {
        let view = |number, members: &[u64]| GroupView {
            members: members.iter().copied().map(Incarnation).collect(),
            ..GroupView::new(GroupId(1), "g", ViewNumber(number))
        };
        let after = |views: &[(u64, &[u64])]| {
            let mut state = state(&[(Order::Fifo, 1)]);
            views.iter().for_each(|(number, members)| state.view(&view(*number, members)));
            state.apply(Order::Fifo, 1, 2);
            state.digest()
        };
        let whole = after(&[(2, &[1, 3]), (3, &[1])]);
        assert_eq!(whole, after(&[(2, &[1, 3]), (3, &[1])]));
        for other in [&[(3, &[1][..])][..], &[(2, &[1]), (3, &[1])], &[(2, &[1, 3]), (2, &[1, 3]), (3, &[1])]] {
            assert_ne!(whole, after(other));
        }
        let mut later = state(&[(Order::Fifo, 1), (Order::Fifo, 2)]);
        [(2, &[1, 3][..]), (3, &[1])].into_iter().for_each(|(number, members)| later.view(&view(number, members)));
        assert_ne!(whole, later.digest(), "after the wrong message");
    }

    #[test]
    fn a_snapshot_comes_through_in_pieces_and_damage_is_seen() {
        let before = state(&[(Order::Total, 3), (Order::Fifo, 9)]);
        let mut clients = Clients::with_bounds(CLIENTS_BOUNDS);
        clients.view(1, |_| true);
        let mut frozen = Frozen::new(&before, Some(&clients), 10_000);
        let mut incoming = Incoming::new(frozen.len_bytes());
        let mut offset = 0;
        while offset < frozen.len_bytes() {
            let mut chunk = Vec::new();
            frozen.read(offset, 777, &mut chunk);
            offset += chunk.len() as u64;
            assert_eq!(incoming.take(&chunk), [0_u8; 0]);
        }
        assert_eq!(incoming.finish(), Ok((before, Some(clients))));
        incoming.bytes[5000] ^= 1;
        assert!(incoming.finish().is_err());
        incoming.bytes.pop();
        assert!(incoming.finish().is_err());
        assert_eq!(Incoming::new(0).finish(), Ok((State::default(), None)));
    }
}
