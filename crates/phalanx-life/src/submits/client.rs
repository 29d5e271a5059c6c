//! The submitter's side of a client: numbers, what is under way, and what it is told. Table: `docs/submit.md`, *At the submitter*.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::command::{ClientId, Command, What};
use super::table::{Decided, OpenRefused, Told, Verdict};
use crate::front::Refusal;

/// A client of one replica in one membership. `R` waits for the result of a submit.
#[derive(Debug)]
pub struct Submitter<R> {
    /// `None`: random bits, which are drawn when it is opened.
    id: Option<ClientId>,
    is_named: bool,
    session: u64,
    standing: Standing,
    in_life: bool,
    /// The last number that may have been used before this client began.
    before: u64,
    /// The last number that was used.
    last: u64,
    /// What is not finished, by number.
    open: BTreeMap<u64, Pending<R>>,
    /// The bytes of that.
    bytes: usize,
    /// This process's messages of this life whose delivery may be told.
    delivered: u64,
    told: VecDeque<(R, Result<Bytes, NotSubmitted>)>,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unopened,
    Opening,
    Open,
    Closing,
    /// For good: why nothing is submitted any more.
    Failed(NotSubmitted),
}

#[derive(Debug)]
struct Pending<R> {
    payload: Bytes,
    receipt: R,
    /// It was sent in an earlier life, or by the program before, and may have been executed.
    was_sent: bool,
    now: Now,
}

#[derive(Debug, PartialEq, Eq)]
enum Now {
    Waiting,
    /// `bound`: its number among this process's messages of the life.
    Sent {
        bound: Option<u64>,
        decided: Option<Decided>,
    },
}

/// A message to the domain of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What is sent, uniform and in total order.
    pub payload: Bytes,
    /// The submit in it, by number. `None`: it opens or closes the client.
    pub number: Option<u64>,
}

/// Why a submit has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSubmitted {
    /// It was executed once, or never.
    Unknown,
    /// It was executed, and its result is too long to be kept.
    TooLong,
    /// Not executed: the message is refused.
    Refused(Refusal),
    /// Not executed: the membership is over.
    Over,
    /// Not executed: the table holds as many answers as it may.
    AnswersFull,
    /// Not executed: the table has as many clients as it may, and none of them is away.
    ClientsFull,
    /// Not executed: the group does not know the name.
    NotKnown,
    /// Not executed: the name has used this number already.
    Behind(u64),
    /// Not executed: another session of the name goes on.
    TakenOver,
}

impl<R> Submitter<R> {
    /// A client without a name.
    #[must_use]
    pub fn random() -> Self {
        Self {
            id: None,
            is_named: false,
            session: 0,
            standing: Standing::Unopened,
            in_life: false,
            before: 0,
            last: 0,
            open: BTreeMap::new(),
            bytes: 0,
            delivered: 0,
            told: VecDeque::new(),
            is_closed: false,
        }
    }

    /// A client with a name ([`ClientId::is_name`]). `last`: the last number that it may have used. `session`: random.
    #[must_use]
    pub fn named(name: String, last: u64, session: u64) -> Self {
        Self { id: Some(ClientId::Named(name)), is_named: true, session, before: last, last, ..Self::random() }
    }

    /// Its present name in the table.
    #[must_use]
    pub fn id(&self) -> Option<&ClientId> {
        self.id.as_ref()
    }

    /// The number of the next submit.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.last + 1
    }

    /// Whether a submit of that number may begin.
    #[must_use]
    pub fn has_room(&self, number: u64) -> bool {
        let first = self.open.first_key_value().map_or(number, |(first, _)| *first);
        number.abs_diff(first) < UNDER_WAY && self.bytes < UNDER_WAY_BYTES
    }

    /// Submits a message, for which there is room ([`Self::has_room`]): under the next number, a later one, or, to learn what became
    /// of it, one that was used before this client began. False, and nothing is submitted: that number is under way, or was used.
    pub fn submit(&mut self, number: u64, payload: Bytes, receipt: R) -> bool {
        let is_free = number > self.last || (1..=self.before).contains(&number);
        if !is_free || self.open.contains_key(&number) {
            return false;
        }
        self.last = self.last.max(number);
        match self.standing {
            Standing::Failed(why) => self.told.push_back((receipt, Err(why))),
            Standing::Closing => self.told.push_back((receipt, Err(NotSubmitted::Over))),
            _ => {
                self.bytes += payload.len();
                let was_sent = number <= self.before;
                self.open.insert(number, Pending { payload, receipt, was_sent, now: Now::Waiting });
            }
        }
        true
    }

    /// Nobody waits for a submit any more. It may be executed all the same.
    pub fn abandon(&mut self, number: u64) {
        self.take(number);
    }

    fn take(&mut self, number: u64) -> Option<Pending<R>> {
        let pending = self.open.remove(&number)?;
        self.bytes -= pending.payload.len();
        Some(pending)
    }

    /// Whether nothing of it is to be sent or told.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_in_table = matches!(self.standing, Standing::Opening | Standing::Open | Standing::Closing);
        self.open.is_empty() && self.told.is_empty() && !(self.is_closed && is_in_table)
    }

    /// No submit follows. The client is closed once all that it submitted is told.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Results since the last call.
    pub fn take_told(&mut self) -> Option<(R, Result<Bytes, NotSubmitted>)> {
        self.told.pop_front()
    }

    /// The next message that is to be sent. `random`: 64 random bits.
    pub fn due(&mut self, random: &mut dyn FnMut() -> u64) -> Option<Outgoing> {
        if !self.in_life {
            return None;
        }
        // It wants no answer of what comes before all that is under way.
        let acked = self.open.first_key_value().map_or(self.last, |(first, _)| first - 1);
        let is_over = self.is_closed && self.open.is_empty();
        let next = self.open.iter_mut().find(|(_, pending)| pending.now == Now::Waiting);
        match (self.standing, next) {
            (Standing::Unopened, Some(_)) => {
                if !self.is_named {
                    self.id = Some(ClientId::Random(random(), random()));
                    self.session = random();
                }
                self.standing = Standing::Opening;
                self.command(None, What::Open { last: self.before })
            }
            (Standing::Open, Some((number, pending))) => {
                let number = *number;
                pending.now = Now::Sent { bound: None, decided: None };
                let payload = pending.payload.clone();
                self.command(Some(number), What::Submit { number, acked, payload: &payload })
            }
            (Standing::Open, None) if is_over => {
                self.standing = Standing::Closing;
                self.command(None, What::Close)
            }
            _ => None,
        }
    }

    fn command(&self, number: Option<u64>, what: What<'_>) -> Option<Outgoing> {
        let command = Command { client: self.id.clone()?, session: self.session, what };
        let mut payload = Vec::new();
        command.put(&mut payload);
        Some(Outgoing { payload: payload.into(), number })
    }

    /// A message that was due is refused: nobody has it, and nobody will.
    pub fn refused(&mut self, number: Option<u64>, why: Refusal) {
        // It was of a life that ends: it waits for the next one.
        let is_late = why == Refusal::NotSent;
        match number {
            Some(number) if is_late => {
                if let Some(pending) = self.open.get_mut(&number) {
                    pending.now = Now::Waiting;
                }
            }
            Some(number) => self.end(number, NotSubmitted::Refused(why)),
            None if self.standing == Standing::Opening => {
                self.standing = Standing::Unopened;
                if !is_late {
                    self.end_all(NotSubmitted::Refused(why));
                }
            }
            None => {}
        }
    }

    /// A submit that was due is bound, as this process's message `message` of this life.
    pub fn bound(&mut self, number: u64, message: u64) {
        if let Some(Pending { now: Now::Sent { bound, .. }, .. }) = self.open.get_mut(&number) {
            *bound = Some(message);
        }
        self.tell();
    }

    /// A command came to its place in the order, in a life of this process.
    pub fn applied(&mut self, told: &Told) {
        if self.id.as_ref() != Some(&told.client) || self.session != told.session {
            return;
        }
        match &told.what {
            Verdict::Opened(outcome) => self.opened(*outcome),
            Verdict::Submitted { number, outcome } => self.decided(*number, outcome),
            Verdict::Closed => self.standing = Standing::Failed(NotSubmitted::Over),
        }
    }

    fn opened(&mut self, outcome: Result<(), OpenRefused>) {
        if self.standing != Standing::Opening {
            return;
        }
        match outcome {
            Ok(()) => self.standing = Standing::Open,
            Err(OpenRefused::Full) => {
                self.standing = Standing::Unopened;
                self.end_all(NotSubmitted::ClientsFull);
            }
            Err(OpenRefused::NotKnown) => self.fail(NotSubmitted::NotKnown),
            Err(OpenRefused::Behind(highest)) => self.fail(NotSubmitted::Behind(highest)),
        }
    }

    fn decided(&mut self, number: u64, outcome: &Decided) {
        let Some(Pending { now: Now::Sent { decided, .. }, .. }) = self.open.get_mut(&number) else { return };
        match outcome {
            Decided::NotOpen if self.is_named => self.fail(NotSubmitted::NotKnown),
            Decided::NotOpen => self.open_another(),
            Decided::TakenOver => self.fail(NotSubmitted::TakenOver),
            Decided::Executed(_) | Decided::TooLong | Decided::Old | Decided::Full => {
                *decided = Some(outcome.clone());
                self.tell();
            }
        }
    }

    /// The table has the client no more. What was sent in this life alone was not executed, and is sent by another client.
    fn open_another(&mut self) {
        self.standing = Standing::Unopened;
        for pending in self.open.values_mut().filter(|pending| !pending.was_sent) {
            if matches!(pending.now, Now::Sent { decided: None, .. }) {
                pending.now = Now::Waiting;
            }
        }
        self.end_where(|pending| pending.was_sent && pending.is_undecided(), NotSubmitted::Unknown);
    }

    /// Nothing is submitted any more.
    fn fail(&mut self, why: NotSubmitted) {
        self.standing = Standing::Failed(why);
        self.end_where(Pending::is_undecided, why);
    }

    /// Ends what was not sent, and will not be.
    fn end_all(&mut self, why: NotSubmitted) {
        self.end_where(|pending| pending.now == Now::Waiting, why);
    }

    fn end_where(&mut self, is_meant: impl Fn(&Pending<R>) -> bool, why: NotSubmitted) {
        let meant = self.open.iter().filter(|(_, pending)| is_meant(pending));
        let numbers: Vec<u64> = meant.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.end(number, why));
    }

    /// Ends a submit that is not executed at this time, nor will be.
    fn end(&mut self, number: u64, why: NotSubmitted) {
        if let Some(Pending { receipt, was_sent, .. }) = self.take(number) {
            let why = if was_sent { NotSubmitted::Unknown } else { why };
            self.told.push_back((receipt, Err(why)));
        }
    }

    /// The delivery of the first `delivered` messages of this life may be told.
    pub fn reached(&mut self, delivered: u64) {
        self.delivered = delivered;
        self.tell();
    }

    /// Tells what is decided and may be told.
    fn tell(&mut self) {
        let delivered = self.delivered;
        let is_due = |(number, pending): (&u64, &Pending<R>)| match pending.now {
            Now::Sent { bound: Some(bound), decided: Some(_) } if bound <= delivered => Some(*number),
            _ => None,
        };
        while let Some(number) = self.open.iter().find_map(is_due) {
            let Some(Pending { receipt, now: Now::Sent { decided: Some(decided), .. }, .. }) = self.take(number) else {
                return;
            };
            let result = match decided {
                Decided::Executed(bytes) => Ok(bytes),
                Decided::TooLong => Err(NotSubmitted::TooLong),
                // The table would have had the answer: it was never executed.
                Decided::Full => Err(NotSubmitted::AnswersFull),
                Decided::Old | Decided::NotOpen | Decided::TakenOver => Err(NotSubmitted::Unknown),
            };
            self.told.push_back((receipt, result));
        }
    }

    /// This process is in a view of the group, with its state.
    pub fn begin_life(&mut self) {
        self.in_life = true;
    }

    /// This life is over, and another one may follow.
    pub fn end_life(&mut self) {
        (self.in_life, self.delivered) = (false, 0);
        match self.standing {
            // Whether it was opened is not known. Nothing was sent by it.
            Standing::Opening => self.standing = Standing::Unopened,
            // Nor whether it was closed.
            Standing::Closing => self.standing = Standing::Open,
            Standing::Unopened | Standing::Open | Standing::Failed(_) => {}
        }
        for pending in self.open.values_mut() {
            if std::mem::replace(&mut pending.now, Now::Waiting) != Now::Waiting {
                pending.was_sent = true;
            }
        }
    }

    /// The membership is over. Another one begins with another client, or with the same name.
    pub fn end_membership(&mut self) {
        self.end_life();
        self.end_all(NotSubmitted::Over);
        if !matches!(self.standing, Standing::Failed(_)) {
            self.standing = Standing::Unopened;
            self.before = if self.is_named { self.last } else { 0 };
        }
    }
}

impl<R> Pending<R> {
    fn is_undecided(&self) -> bool {
        !matches!(self.now, Now::Sent { decided: Some(_), .. })
    }
}

/// The numbers of a client of which the first and the last are under way at once.
const UNDER_WAY: u64 = 256;

/// No submit begins while more bytes of the client are under way.
const UNDER_WAY_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests;
