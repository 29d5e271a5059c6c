//! The clients of a group's state, in the state: which were opened, and the answers that they did not acknowledge.
//!
//! Commands and views change it at one place of the group's order, at all members alike. Table: `docs/submit.md`, *Clients*.

use std::collections::BTreeMap;

use bytes::Bytes;
use phalanx_core::Incarnation;
use phalanx_core::wire::Malformed;
use phalanx_core::wire::codec::{Reader, put_prefixed, put_u64, put_varint};

use super::command::{ClientId, Command, What};

/// The clients of one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    clients: BTreeMap<ClientId, Client>,
    /// The memory that their answers take.
    bytes: usize,
    bounds: TableBounds,
}

/// How much a table holds. All members have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableBounds {
    /// Clients.
    pub clients: usize,
    /// Bytes of answers from which on no message is executed any more.
    pub bytes: usize,
    /// Bytes of an answer that is kept.
    pub answer_bytes: usize,
    /// Answers of a client that it did not acknowledge.
    pub answers: usize,
}

impl Default for TableBounds {
    fn default() -> Self {
        Self { clients: 1_024, bytes: 16 << 20, answer_bytes: 256 << 10, answers: 256 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    session: u64,
    /// Who spoke last for it.
    owner: Incarnation,
    /// The view that has its owner no more.
    away_since: Option<u64>,
    /// It wants no answer up to this number.
    acked: u64,
    /// The last number that was executed.
    highest: u64,
    answers: BTreeMap<u64, Kept>,
}

/// What is kept of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Result(Bytes),
    TooLong,
}

/// What a command comes to, at all members.
#[derive(Debug)]
pub enum Taken<'a> {
    /// Bytes that make no sense.
    Nothing,
    /// Its client is told.
    Told(Told),
    /// The state is to execute it; [`Clients::executed`] follows.
    Execute(Execution<'a>),
}

/// A submitted message that is executed.
#[derive(Debug)]
pub struct Execution<'a> {
    /// Its client.
    pub client: ClientId,
    session: u64,
    /// Its number among those of the client.
    pub number: u64,
    /// The message.
    pub payload: &'a [u8],
}

/// What a client is told at the place of its command, if it is of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The client.
    pub client: ClientId,
    /// Its session.
    pub session: u64,
    /// What of it.
    pub what: Verdict,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It asked to be opened.
    Opened(Result<(), OpenRefused>),
    /// It submitted.
    Submitted {
        /// The number.
        number: u64,
        /// What became of it.
        outcome: Decided,
    },
    /// It asked to be closed.
    Closed,
}

/// Why a client is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRefused {
    /// The table is full, and no client is away.
    Full,
    /// The table does not know the name.
    NotKnown,
    /// The name has used this number already.
    Behind(u64),
}

/// What became of a submitted message at its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It was executed, here or at an earlier place, with this result.
    Executed(Bytes),
    /// It was executed, and its result is too long to be kept.
    TooLong,
    /// Its client is not open.
    NotOpen,
    /// Another session of the client goes on.
    TakenOver,
    /// Its client acknowledged it before.
    Old,
    /// Its client, or the table, holds as many answers as it may.
    Full,
}

impl Clients {
    /// A table with other bounds, for tests and simulations.
    #[must_use]
    pub fn with_bounds(bounds: TableBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// How many clients it has, and the bytes of their answers.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.clients.len(), self.bytes)
    }

    /// Takes a command at its place.
    pub fn take<'a>(&mut self, sender: Incarnation, bytes: &'a [u8]) -> Taken<'a> {
        let Ok(Command { client, session, what }) = Command::read(bytes) else { return Taken::Nothing };
        let what = match what {
            What::Open { last } => Verdict::Opened(self.open(sender, &client, session, last)),
            What::Close => {
                if self.clients.get(&client).is_some_and(|known| known.session == session) {
                    self.forget(&client);
                }
                Verdict::Closed
            }
            What::Submit { number, acked, payload } => match self.submit(sender, &client, session, number, acked) {
                Some(outcome) => Verdict::Submitted { number, outcome },
                None => return Taken::Execute(Execution { client, session, number, payload }),
            },
        };
        Taken::Told(Told { client, session, what })
    }

    fn open(&mut self, sender: Incarnation, client: &ClientId, session: u64, last: u64) -> Result<(), OpenRefused> {
        if let Some(known) = self.clients.get_mut(client) {
            if last < known.highest {
                return Err(OpenRefused::Behind(known.highest));
            }
            (known.session, known.owner, known.away_since) = (session, sender, None);
            return Ok(());
        }
        if last > 0 {
            return Err(OpenRefused::NotKnown);
        }
        let most = self.bounds.clients;
        if !self.make_room(|table| table.clients.len() < most) {
            return Err(OpenRefused::Full);
        }
        let opened =
            Client { session, owner: sender, away_since: None, acked: 0, highest: 0, answers: BTreeMap::new() };
        self.bytes += bytes_of_client(client);
        self.clients.insert(client.clone(), opened);
        Ok(())
    }

    /// What a submit comes to; `None`: it is executed.
    fn submit(
        &mut self,
        sender: Incarnation,
        client: &ClientId,
        session: u64,
        number: u64,
        acked: u64,
    ) -> Option<Decided> {
        let Some(known) = self.clients.get_mut(client) else { return Some(Decided::NotOpen) };
        if known.session != session {
            return Some(Decided::TakenOver);
        }
        (known.owner, known.away_since) = (sender, None);
        if number <= known.acked {
            return Some(Decided::Old);
        }
        known.acked = known.acked.max(acked);
        while let Some(first) = known.answers.first_entry().filter(|first| *first.key() <= known.acked) {
            self.bytes -= first.remove().bytes();
        }
        if let Some(kept) = known.answers.get(&number) {
            return Some(kept.told());
        }
        if known.answers.len() >= self.bounds.answers {
            return Some(Decided::Full);
        }
        let most = self.bounds.bytes;
        (!self.make_room(|table| table.bytes < most)).then_some(Decided::Full)
    }

    /// The state executed a message, and this is its result.
    pub fn executed(&mut self, execution: Execution<'_>, result: Vec<u8>) -> Told {
        let Execution { client, session, number, payload: _ } = execution;
        let kept = if result.len() <= self.bounds.answer_bytes { Kept::Result(result.into()) } else { Kept::TooLong };
        let outcome = kept.told();
        if let Some(known) = self.clients.get_mut(&client) {
            self.bytes += kept.bytes();
            known.highest = known.highest.max(number);
            known.answers.insert(number, kept);
        }
        Told { client, session, what: Verdict::Submitted { number, outcome } }
    }

    /// A view with that number has these members.
    pub fn view(&mut self, number: u64, has: impl Fn(Incarnation) -> bool) {
        for client in self.clients.values_mut() {
            client.away_since = if has(client.owner) { None } else { client.away_since.or(Some(number)) };
        }
    }

    /// Drops those that are away longest, until there is room. False: nobody is away.
    fn make_room(&mut self, has_room: impl Fn(&Self) -> bool) -> bool {
        while !has_room(self) {
            let away = self.clients.iter().filter_map(|(id, client)| Some((client.away_since?, id)));
            let Some((_, longest)) = away.min() else { return false };
            let longest = longest.clone();
            self.forget(&longest);
        }
        true
    }

    fn forget(&mut self, client: &ClientId) {
        if let Some(known) = self.clients.remove(client) {
            self.bytes -= known.answers.values().map(Kept::bytes).sum::<usize>() + bytes_of_client(client);
        }
    }

    /// The table as bytes, for a member that joins.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.clients.len() as u64);
        for (id, client) in &self.clients {
            let Client { session, owner, away_since, acked, highest, answers } = client;
            id.put(&mut out);
            put_u64(&mut out, *session);
            put_u64(&mut out, owner.0);
            put_varint(&mut out, away_since.map_or(0, |view| view + 1));
            put_varint(&mut out, *acked);
            put_varint(&mut out, *highest);
            put_varint(&mut out, answers.len() as u64);
            for (number, kept) in answers {
                put_varint(&mut out, *number);
                match kept {
                    Kept::TooLong => out.push(0),
                    Kept::Result(bytes) => {
                        out.push(1);
                        put_prefixed(&mut out, bytes);
                    }
                }
            }
        }
        out
    }

    /// The table that [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no table.
    pub fn decode(bytes: &[u8], bounds: TableBounds) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed);
        }
        let mut table = Self::with_bounds(bounds);
        for _ in 0..r.varint()? {
            let id = ClientId::read(&mut r)?;
            let (session, owner) = (r.u64()?, Incarnation(r.u64()?));
            let away_since = r.varint()?.checked_sub(1);
            let (acked, highest) = (r.varint()?, r.varint()?);
            let mut answers = BTreeMap::new();
            for _ in 0..r.varint()? {
                let number = r.varint()?;
                let kept = match r.u8()? {
                    0 => Kept::TooLong,
                    1 => Kept::Result(Bytes::copy_from_slice(r.prefixed()?)),
                    _ => return Err(Malformed),
                };
                table.bytes += kept.bytes();
                if number <= acked || number > highest || answers.insert(number, kept).is_some() {
                    return Err(Malformed);
                }
            }
            table.bytes += bytes_of_client(&id);
            let client = Client { session, owner, away_since, acked, highest, answers };
            if table.clients.insert(id, client).is_some() {
                return Err(Malformed);
            }
        }
        if r.is_empty() { Ok(table) } else { Err(Malformed) }
    }
}

impl Kept {
    fn told(&self) -> Decided {
        match self {
            Self::Result(bytes) => Decided::Executed(bytes.clone()),
            Self::TooLong => Decided::TooLong,
        }
    }

    /// The memory that it takes, roughly.
    fn bytes(&self) -> usize {
        ANSWER_BYTES
            + match self {
                Self::Result(bytes) => bytes.len(),
                Self::TooLong => 0,
            }
    }
}

/// The memory that a client takes, roughly, beside its answers.
fn bytes_of_client(client: &ClientId) -> usize {
    CLIENT_BYTES + client.bytes()
}

const CLIENT_BYTES: usize = 128;
/// What an answer takes beside its bytes.
const ANSWER_BYTES: usize = 64;
/// The version of a table's bytes.
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Incarnation = Incarnation(1);
    const SESSION: u64 = 7;

    fn small() -> TableBounds {
        TableBounds { clients: 2, bytes: 1_000, answer_bytes: 100, answers: 3 }
    }

    fn named(name: &str) -> ClientId {
        ClientId::Named(name.to_owned())
    }

    /// Gives a command to the table, whose state answers with `result`.
    fn give(
        table: &mut Clients,
        sender: Incarnation,
        client: &str,
        session: u64,
        what: What<'_>,
        result: &[u8],
    ) -> Option<Verdict> {
        let mut bytes = Vec::new();
        Command { client: named(client), session, what }.put(&mut bytes);
        let told = match table.take(sender, &bytes) {
            Taken::Nothing => return None,
            Taken::Told(told) => told,
            Taken::Execute(execution) => {
                assert_eq!(execution.payload, b"m");
                table.executed(execution, result.to_vec())
            }
        };
        let size = table
            .clients
            .iter()
            .map(|(id, client)| bytes_of_client(id) + client.answers.values().map(Kept::bytes).sum::<usize>());
        assert_eq!(table.bytes, size.sum::<usize>());
        assert_eq!(Clients::decode(&table.encode(), table.bounds).as_ref(), Ok(&*table));
        assert_eq!((told.client, told.session), (named(client), session));
        Some(told.what)
    }

    fn open(
        table: &mut Clients,
        sender: Incarnation,
        client: &str,
        session: u64,
        last: u64,
    ) -> Result<(), OpenRefused> {
        match give(table, sender, client, session, What::Open { last }, b"") {
            Some(Verdict::Opened(outcome)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn submit(table: &mut Clients, client: &str, number: u64, acked: u64, result: &[u8]) -> Decided {
        submit_as(table, ME, client, SESSION, (number, acked), result)
    }

    fn submit_as(
        table: &mut Clients,
        sender: Incarnation,
        client: &str,
        session: u64,
        (number, acked): (u64, u64),
        result: &[u8],
    ) -> Decided {
        match give(table, sender, client, session, What::Submit { number, acked, payload: b"m" }, result) {
            Some(Verdict::Submitted { number: of, outcome }) if of == number => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn result(bytes: &'static [u8]) -> Decided {
        Decided::Executed(Bytes::from_static(bytes))
    }

    #[test]
    fn a_number_is_executed_once_and_its_answer_is_kept_until_it_is_acknowledged() {
        let mut table = Clients::with_bounds(small());
        assert_eq!(submit(&mut table, "a", 1, 0, b"no"), Decided::NotOpen);
        assert_eq!(open(&mut table, ME, "a", SESSION, 0), Ok(()));
        assert_eq!(submit(&mut table, "a", 1, 0, b"one"), result(b"one"));
        assert_eq!(submit(&mut table, "a", 1, 0, b"again"), result(b"one"));
        // One that was left out may come later, and has its answer by itself.
        assert_eq!(submit(&mut table, "a", 3, 0, b"three"), result(b"three"));
        assert_eq!(submit(&mut table, "a", 2, 0, b"two"), result(b"two"));
        assert_eq!(submit(&mut table, "a", 4, 0, b"four"), Decided::Full, "it acknowledged none");
        assert_eq!(submit(&mut table, "a", 4, 1, b"four"), result(b"four"));
        assert_eq!(submit(&mut table, "a", 1, 0, b"again"), Decided::Old);
        assert_eq!(submit(&mut table, "a", 2, 0, b"again"), result(b"two"), "what is acknowledged stays so");
        assert_eq!(submit(&mut table, "a", 9, 8, &[7; 101]), Decided::TooLong);
        assert_eq!(submit(&mut table, "a", 9, 8, b"again"), Decided::TooLong);
        assert_eq!(table.size(), (1, CLIENT_BYTES + 1 + ANSWER_BYTES));
        assert_eq!(give(&mut table, ME, "a", 8, What::Close, b""), Some(Verdict::Closed), "of another session");
        assert_eq!(table.size().0, 1);
        assert_eq!(give(&mut table, ME, "a", SESSION, What::Close, b""), Some(Verdict::Closed));
        assert_eq!(table.size(), (0, 0));
        assert!(matches!(table.take(ME, b"\x09"), Taken::Nothing), "no command");
    }

    #[test]
    fn a_name_is_taken_over_by_who_knows_its_last_number() {
        let mut table = Clients::with_bounds(small());
        assert_eq!(open(&mut table, ME, "a", SESSION, 3), Err(OpenRefused::NotKnown));
        assert_eq!(open(&mut table, ME, "a", SESSION, 0), Ok(()));
        assert_eq!(submit(&mut table, "a", 1, 0, b"one"), result(b"one"));
        assert_eq!(submit(&mut table, "a", 2, 1, b"two"), result(b"two"));
        let next = Incarnation(2);
        assert_eq!(open(&mut table, next, "a", 8, 1), Err(OpenRefused::Behind(2)));
        assert_eq!(open(&mut table, next, "a", 8, 2), Ok(()));
        assert_eq!(submit(&mut table, "a", 3, 2, b"late"), Decided::TakenOver);
        assert_eq!(submit_as(&mut table, next, "a", 8, (2, 1), b"again"), result(b"two"));
        assert_eq!(submit_as(&mut table, next, "a", 8, (3, 2), b"three"), result(b"three"));
    }

    #[test]
    fn who_is_away_longest_makes_room_and_nobody_who_is_here() {
        let mut table = Clients::with_bounds(small());
        let [one, two, three] = [1, 2, 3].map(Incarnation);
        assert_eq!(open(&mut table, one, "b", SESSION, 0), Ok(()));
        assert_eq!(open(&mut table, two, "a", SESSION, 0), Ok(()));
        assert_eq!(open(&mut table, three, "c", SESSION, 0), Err(OpenRefused::Full), "nobody is away");
        table.view(5, |who| who != one);
        table.view(6, |who| who == three);
        assert_eq!(open(&mut table, three, "c", SESSION, 0), Ok(()));
        assert_eq!(table.clients.keys().collect::<Vec<_>>(), [&named("a"), &named("c")], "b was away longer");
        // Who comes back is away no more.
        assert_eq!(submit_as(&mut table, three, "a", SESSION, (1, 0), b"one"), result(b"one"));
        assert_eq!(open(&mut table, three, "d", SESSION, 0), Err(OpenRefused::Full));
        table.view(7, |_| false);
        assert_eq!(open(&mut table, Incarnation(4), "d", SESSION, 0), Ok(()));
        assert_eq!(table.clients.keys().collect::<Vec<_>>(), [&named("c"), &named("d")], "by name, if equally long");
    }

    #[test]
    fn answers_take_bounded_room() {
        let mut table = Clients::with_bounds(TableBounds { bytes: 400, answers: 100, ..small() });
        assert_eq!(open(&mut table, ME, "a", SESSION, 0), Ok(()));
        assert_eq!(submit(&mut table, "a", 1, 0, &[0; 100]), Decided::Executed(vec![0; 100].into()));
        assert_eq!(submit(&mut table, "a", 2, 0, &[0; 100]), Decided::Executed(vec![0; 100].into()));
        assert_eq!(submit(&mut table, "a", 3, 0, b""), Decided::Full);
        assert_eq!(submit(&mut table, "a", 1, 0, b""), Decided::Executed(vec![0; 100].into()), "it is here");
        assert_eq!(submit(&mut table, "a", 3, 2, b"x"), result(b"x"));
        table.view(2, |_| false);
        let (next, mut fits) = (Incarnation(9), 0);
        assert_eq!(open(&mut table, next, "b", SESSION, 0), Ok(()));
        while submit_as(&mut table, next, "b", SESSION, (fits + 1, 0), &[0; 100]) != Decided::Full {
            fits += 1;
            assert!(fits < 10, "it has no bound");
        }
        assert_eq!(table.clients.keys().collect::<Vec<_>>(), [&named("b")], "who is away made room");
    }

    #[test]
    fn bytes_that_are_no_table_are_refused() {
        let mut table = Clients::with_bounds(small());
        assert_eq!(open(&mut table, ME, "a", SESSION, 0), Ok(()));
        assert_eq!(submit(&mut table, "a", 1, 0, b"one"), result(b"one"));
        let bytes = table.encode();
        for end in 0..bytes.len() {
            assert_eq!(Clients::decode(&bytes[..end], small()), Err(Malformed), "{end} bytes");
        }
        assert_eq!(Clients::decode(&[&bytes[..], &[0]].concat(), small()), Err(Malformed));
        assert_eq!(Clients::decode(&[&[2], &bytes[1..]].concat(), small()), Err(Malformed));
    }

    /// From the network, or from another member's snapshot.
    #[test]
    fn bytes_of_any_kind_harm_no_table() {
        let mut rng = phalanx_core::rng::Rng::new(7);
        let mut table = Clients::with_bounds(small());
        assert_eq!(open(&mut table, ME, "a", SESSION, 0), Ok(()));
        assert_eq!(submit(&mut table, "a", 1, 0, b"one"), result(b"one"));
        let mut command = Vec::new();
        let what = What::Submit { number: 2, acked: 1, payload: b"m" };
        Command { client: named("a"), session: SESSION, what }.put(&mut command);
        let (mut taken, mut decoded) = (0, 0);
        for round in 0..40_000_u32 {
            let mut bytes = if round % 2 == 0 { command.clone() } else { table.encode() };
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).expect("small");
                bytes[at] = rng.next_u64().to_le_bytes()[0];
            }
            if round % 2 == 0 {
                taken += u32::from(!matches!(table.clone().take(ME, &bytes), Taken::Nothing));
            } else {
                decoded += u32::from(Clients::decode(&bytes, small()).is_ok());
            }
        }
        assert!(taken > 1_000 && decoded > 1_000, "{taken} and {decoded} made sense");
    }
}
