//! What a simulated application submits to the states of its groups, and what it is told: one outcome of each submit that it did
//! not abandon.

use std::collections::BTreeMap;

use bytes::Bytes;
use phalanx_core::GroupId;
use phalanx_core::rng::Rng;
use phalanx_life::{NotSubmitted, Refusal, SubmitLog, Submitter, Told};
use phalanx_trace::Event;

/// Receipts of commands of clients have this bit.
pub(super) const SUBMIT: u64 = 1 << 62;
/// Where the number of the client stands in them.
const CLIENT_SHIFT: u32 = 40;
/// Clients of a membership.
const CLIENTS_MAX: usize = 12;

/// The clients of one membership; the last is the one that submits.
#[derive(Debug, Default)]
pub(super) struct Submits {
    clients: Vec<Own>,
    in_life: bool,
}

/// A client.
#[derive(Debug)]
struct Own {
    submitter: Submitter<u64>,
    /// It has a name, and its group.
    of_group: Option<String>,
    /// The submit of an earlier membership whose outcome it asks for.
    earlier: u64,
    /// Submits whose outcome is due, and in which life each was sent first.
    open: BTreeMap<u64, Option<u64>>,
    log: SubmitLog,
}

/// What all memberships of a process write.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) rng: Rng,
    pub(super) records: Vec<Event>,
    pub(super) moments: BTreeMap<&'static str, u64>,
    pub(super) faults: Vec<String>,
    /// By group: its client with a name, in files that outlive the process. `None`: it has none there.
    names: BTreeMap<String, Option<Recorded>>,
}

/// What is recorded of a client with a name, before it submits.
#[derive(Clone, Debug)]
struct Recorded {
    name: String,
    last: u64,
    payload: Bytes,
}

/// A command that is to be queued.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) payload: Bytes,
    pub(super) receipt: u64,
}

impl Book {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, records: Vec::new(), moments: BTreeMap::new(), faults: Vec::new(), names: BTreeMap::new() }
    }

    /// The same of the process that starts in its place: what was recorded is there.
    pub(super) fn start_anew(&mut self) -> Self {
        let (rng, names) = (std::mem::replace(&mut self.rng, Rng::new(0)), std::mem::take(&mut self.names));
        Self { names, moments: std::mem::take(&mut self.moments), ..Self::new(rng) }
    }

    /// What it has of a client with a name in that group.
    fn named(&mut self, group: &str) -> Option<Recorded> {
        if !self.names.contains_key(group) {
            let (is_named, random) = (self.rng.chance_ppm(500_000), self.rng.next_u64());
            let new = Recorded { name: format!("{random:016x}"), last: 0, payload: Bytes::new() };
            self.names.insert(group.to_owned(), is_named.then_some(new));
        }
        self.names.get(group).cloned().flatten()
    }

    fn count(&mut self, moment: &'static str) {
        *self.moments.entry(moment).or_default() += 1;
    }
}

impl Submits {
    /// Submits a message, if there is room for another one.
    pub(super) fn submit(&mut self, group: &str, payload: Bytes, book: &mut Book) {
        if self.clients.is_empty() {
            let recorded = book.named(group);
            self.begin_client(recorded.map(|recorded| (group, recorded)), book);
        } else if self.clients.last().is_some_and(|own| own.is_lost(book)) {
            self.begin_client(None, book);
        }
        let Some(own) = self.clients.last_mut() else { return };
        let number = own.submitter.next_number();
        if !own.submitter.has_room(number) {
            return;
        }
        if let Some(Some(recorded)) = own.of_group.as_ref().and_then(|group| book.names.get_mut(group)) {
            (recorded.last, recorded.payload) = (number, payload.clone());
            book.count("submits under a name");
        }
        own.open.insert(number, None);
        let is_begun = own.submitter.submit(number, payload, number);
        debug_assert!(is_begun, "numbers count up");
        book.count("submits");
    }

    /// Waits for one of its submits no more.
    pub(super) fn abandon(&mut self, draw: u64, book: &mut Book) {
        let Some(own) = self.clients.last_mut() else { return };
        let spot = usize::try_from(draw % own.open.len().max(1) as u64).unwrap_or(0);
        let Some(number) = own.open.keys().nth(spot).copied() else { return };
        own.open.remove(&number);
        own.submitter.abandon(number);
        own.log.abandoned(number);
        book.count("submits abandoned");
    }

    /// Closes its client, and begins another one. One with a name stays open.
    pub(super) fn close(&mut self, book: &mut Book) {
        if self.clients.len() < CLIENTS_MAX
            && let Some(own) = self.clients.last_mut()
        {
            if own.of_group.is_none() {
                own.submitter.close();
            }
            self.begin_client(None, book);
        }
    }

    /// Begins a client: with that name in that group, or without one. A name asks first what became of its last submit.
    fn begin_client(&mut self, named: Option<(&str, Recorded)>, book: &mut Book) {
        let (open, log) = Default::default();
        let mut own = Own { submitter: Submitter::random(), of_group: None, earlier: 0, open, log };
        if let Some((group, Recorded { name, last, payload })) = named {
            (own.submitter, own.of_group) = (Submitter::named(name, last, book.rng.next_u64()), Some(group.to_owned()));
            if last > 0 {
                own.earlier = last;
                own.open.insert(last, None);
                let is_begun = own.submitter.submit(last, payload, last);
                debug_assert!(is_begun, "it was used before this client began");
                book.count("submits of an earlier membership, under a name");
            }
        }
        if self.in_life {
            own.submitter.begin_life();
        }
        self.clients.push(own);
    }

    /// The next command that is to be queued, in a life of that number.
    pub(super) fn due(&mut self, group: GroupId, life: u64, book: &mut Book) -> Option<Due> {
        for (at, own) in self.clients.iter_mut().enumerate() {
            let (rng, before) = (&mut book.rng, own.submitter.id().cloned());
            let Some(due) = own.submitter.due(&mut || rng.next_u64()) else { continue };
            let number = due.number.unwrap_or(0);
            if number > 0 {
                let client = own.submitter.id();
                book.records.extend(client.map(|client| own.log.sent(group, client, number, &due.payload)));
                if let Some(first) = own.open.get_mut(&number) {
                    first.get_or_insert(life);
                }
            } else {
                // Each opening is of another name.
                let is_opening = own.submitter.id() != before.as_ref();
                book.count(if is_opening { "clients opened" } else { "clients closed" });
            }
            return Some(Due { payload: due.payload, receipt: SUBMIT | (at as u64) << CLIENT_SHIFT | number });
        }
        None
    }

    /// A command that was queued is bound as that message of the life, or refused.
    pub(super) fn answer(&mut self, receipt: u64, outcome: Result<u64, Refusal>, life: u64, book: &mut Book) {
        let receipt = receipt & !SUBMIT;
        let (at, number) = (receipt >> CLIENT_SHIFT, receipt & ((1 << CLIENT_SHIFT) - 1));
        let Some(own) = usize::try_from(at).ok().and_then(|at| self.clients.get_mut(at)) else { return };
        let number = (number > 0).then_some(number);
        match (outcome, number) {
            (Ok(message), Some(number)) => own.submitter.bound(number, message),
            (Ok(_), None) => {}
            (Err(why), number) => own.submitter.refused(number, why),
        }
        own.settle(life, book);
    }

    /// A command came to its place.
    pub(super) fn applied(&mut self, told: &Told, life: u64, book: &mut Book) {
        self.each(life, book, |submitter| submitter.applied(told));
    }

    /// This process's first `delivered` messages of the life may be told.
    pub(super) fn reached(&mut self, delivered: u64, life: u64, book: &mut Book) {
        self.each(life, book, |submitter| submitter.reached(delivered));
    }

    pub(super) fn begin_life(&mut self, life: u64, book: &mut Book) {
        self.in_life = true;
        self.each(life, book, Submitter::begin_life);
    }

    pub(super) fn end_life(&mut self, life: u64, book: &mut Book) {
        self.in_life = false;
        self.each(life, book, Submitter::end_life);
    }

    /// The membership is over: each submit has an outcome.
    pub(super) fn end(&mut self, life: u64, book: &mut Book) {
        self.each(life, book, Submitter::end_membership);
        let open = self.clients.iter().flat_map(|own| own.open.keys());
        book.faults.extend(open.map(|number| format!("submit {number} has no outcome, and its membership is over")));
    }

    /// How many submits have no outcome yet. `None`: there never was one.
    pub(super) fn open(&self) -> Option<usize> {
        (!self.clients.is_empty()).then(|| self.clients.iter().map(|own| own.open.len()).sum())
    }

    fn each(&mut self, life: u64, book: &mut Book, act: impl Fn(&mut Submitter<u64>)) {
        for own in &mut self.clients {
            act(&mut own.submitter);
            own.settle(life, book);
        }
    }
}

impl Own {
    /// Whether its name is not known any more.
    fn is_lost(&self, book: &Book) -> bool {
        let recorded = self.of_group.as_ref().map(|group| book.names.get(group));
        recorded.is_some_and(|recorded| recorded.is_none_or(Option::is_none))
    }

    /// Takes what the application is told.
    fn settle(&mut self, life: u64, book: &mut Book) {
        while let Some((number, outcome)) = self.submitter.take_told() {
            let Some(first) = self.open.remove(&number) else {
                book.faults.push(format!("submit {number} has an outcome that is not due: {outcome:?}"));
                continue;
            };
            let is_later = first.is_some_and(|first| first != life);
            if number == self.earlier && outcome.is_ok() {
                book.count("results of an earlier membership, under a name");
            }
            let is_lost = [NotSubmitted::NotKnown, NotSubmitted::TakenOver].map(Err).contains(&outcome);
            if let Some(group) = self.of_group.as_ref().filter(|_| is_lost) {
                book.names.insert(group.clone(), None);
            }
            book.count(match &outcome {
                Ok(_) if is_later => "results of submits told in a later life",
                Ok(_) => "results of submits",
                Err(NotSubmitted::TooLong) => "submits whose result is too long",
                Err(NotSubmitted::Unknown) => "submits executed once or never",
                Err(why) => not_executed(*why),
            });
            let is_earlier = number == self.earlier && outcome == Err(NotSubmitted::Unknown);
            let is_known = matches!(outcome, Ok(_) | Err(NotSubmitted::TooLong | NotSubmitted::Unknown));
            if first.is_none() && is_known && !is_earlier {
                book.faults.push(format!("submit {number} was not sent, and is told: {outcome:?}"));
            }
            book.records.extend(self.log.told(number, &outcome));
        }
    }
}

/// How a submit that is not executed is counted.
fn not_executed(why: NotSubmitted) -> &'static str {
    match why {
        NotSubmitted::ClientsFull => "submits not executed: the table is full of clients",
        NotSubmitted::AnswersFull => "submits not executed: the table is full of answers",
        NotSubmitted::Refused(_) => "submits not executed: refused",
        NotSubmitted::NotKnown => "submits not executed: the name is not known any more",
        NotSubmitted::Behind(_) => "submits not executed: the name has used a later number",
        NotSubmitted::TakenOver => "submits not executed: another session of the name goes on",
        _ => "submits not executed: the membership is over",
    }
}
