//! The domains of a group's state: named parts, each a replica of its own. They apply the same messages, but for those that
//! name one of them, and move together. The group's list says which of them take part (`docs/domains.md`).

use std::sync::Arc;

use phalanx_core::{self as core, DomainIndex};
use phalanx_life::clients_domain;

use crate::domain_name::shown;
use crate::error::DecodeError;
use crate::layout::{Flags, Incoming, Notice, Outgoing, Taker};
use crate::message::Message;
use crate::names::{RESERVED, TOOL};
use crate::replica::{Domain, Locked, Replicating};
use crate::view::View;

/// All domains of a group that this process has.
pub(crate) struct Domains {
    parts: Parts,
    /// Whether the group keeps a list of its domains, by its latest view. Without one all take part.
    has_list: bool,
    /// The state of another member that is on its way.
    incoming: Option<Incoming>,
    taken_bytes: u64,
    bytes: u64,
    outcome: Taken,
}

/// What became of the latest state of another member.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    /// There was none, or it is shown.
    Well,
    /// It is on its way.
    Partly,
    /// All of it is aside.
    Aside,
    /// It makes no sense.
    Senseless(DecodeError),
}

struct Parts {
    parts: Vec<Part>,
    /// The part whose bytes come now; `None`: of a domain that is passed over.
    current: Option<usize>,
    /// The group keeps a list, by the state on its way.
    is_listed: bool,
    /// Some part is a table of clients.
    has_clients: bool,
}

/// A part whose state is changed now.
struct Changing<'a> {
    /// Which part it is.
    at: usize,
    place: Place,
    is_in: bool,
    serves: Option<usize>,
    state: Box<dyn Locked + 'a>,
}

struct Part {
    name: String,
    domain: Box<dyn Domain>,
    place: Place,
    /// Of a table of clients: the part to which they submit.
    serves: Option<usize>,
    /// It is part of the state on its way.
    has_come: bool,
}

/// Where a part stands in its group.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// It is a tool's, or the library's: only messages that name it are for it.
    is_tool: bool,
    /// It takes part: the group lists it, or keeps no list.
    is_in: bool,
    /// Its place in the group's list.
    index: Option<DomainIndex>,
}

impl Place {
    /// Whether the message is for it, if it takes part.
    fn takes(&self, message: &Message) -> bool {
        match message.domain {
            None => !self.is_tool,
            named => self.index == named,
        }
    }

    /// The messages that are for it, in runs.
    fn runs(self, messages: &[Message]) -> impl Iterator<Item = &[Message]> {
        let runs = messages.chunk_by(move |one, other| self.takes(one) == self.takes(other));
        runs.filter(move |run| self.takes(&run[0]))
    }

    fn count(self, messages: &[Message]) -> u64 {
        messages.iter().filter(|message| self.takes(message)).count() as u64
    }
}

impl Domains {
    /// The domain without a name is the state itself.
    pub(crate) fn new(domains: Vec<(String, Box<dyn Domain>)>) -> Self {
        let names: Vec<String> = domains.iter().map(|(name, _)| name.clone()).collect();
        let part = |(name, domain): (String, Box<dyn Domain>)| {
            let is_tool = name.starts_with(TOOL) || name.starts_with(RESERVED);
            let place = Place { is_tool, is_in: true, index: None };
            let serves = if domain.is_table() { names.iter().position(|of| clients_domain(of) == name) } else { None };
            Part { name, domain, place, serves, has_come: false }
        };
        let parts: Vec<Part> = domains.into_iter().map(part).collect();
        let has_clients = parts.iter().any(|part| part.serves.is_some());
        let parts = Parts { parts, current: None, is_listed: false, has_clients };
        Self { parts, has_list: false, incoming: None, taken_bytes: 0, bytes: 0, outcome: Taken::Well }
    }

    fn each(&self) -> impl Iterator<Item = &dyn Domain> {
        self.parts.parts.iter().map(|part| &*part.domain)
    }

    /// What came makes no sense. Nothing of it is kept.
    fn fail(&mut self, error: DecodeError) {
        self.outcome = Taken::Senseless(error);
        self.forget_incoming();
    }

    fn set_progress(&self, taken: u64, bytes: u64) {
        self.each().for_each(|domain| domain.set_progress(taken, bytes));
    }

    /// Nothing is on its way any more.
    fn forget_incoming(&mut self) {
        self.incoming = None;
        self.parts.parts.iter_mut().for_each(|part| part.domain.clear());
        self.set_progress(0, 0);
    }

    /// Takes the list of a view over. A domain that came to the list begins here as it does at all members. With a list that is
    /// the first one here, or of a group that is new, each begins with what it has.
    fn adopt(&mut self, view: &View) {
        let Some(list) = view.list() else {
            self.has_list = false;
            return self.parts.parts.iter_mut().for_each(|part| part.place.is_in = true);
        };
        let is_first = !std::mem::replace(&mut self.has_list, true) || view.number() == 1;
        self.parts.find_places(list);
        let mut grows = false;
        for Part { place, domain, .. } in &mut self.parts.parts {
            let was_in = std::mem::replace(&mut place.is_in, place.index.is_some());
            if place.is_in && !was_in && !is_first {
                domain.begin_anew();
                grows = true;
            }
        }
        if grows {
            self.parts.together(&mut |_, domain| domain.swap());
            self.parts.parts.iter_mut().for_each(|part| part.domain.clear());
        }
    }
}

impl Replicating for Domains {
    fn apply(&mut self, messages: &[Message]) {
        // The parts that executed a submitted message, each once for one.
        let mut executed = Vec::new();
        match self.outcome {
            Taken::Well if self.parts.has_clients => {
                self.parts.all_together(&mut |parts| apply_with_clients(parts, messages, &mut executed));
            }
            Taken::Well => self.parts.together(&mut |place, domain| {
                if place.is_in {
                    place.runs(messages).for_each(|run| domain.apply(run));
                }
            }),
            Taken::Aside => apply_with_clients(&mut self.parts.aside(), messages, &mut executed),
            Taken::Partly => return self.fail(DecodeError::new("messages came before all of it did")),
            Taken::Senseless(_) => return,
        }
        let is_aside = self.outcome == Taken::Aside;
        for Part { place, domain, has_come, .. } in &self.parts.parts {
            if if is_aside { *has_come } else { place.is_in } {
                domain.count(place.count(messages));
            }
        }
        executed.into_iter().for_each(|at| self.parts.parts[at].domain.count(1));
    }

    fn view(&mut self, view: &View) {
        if matches!(self.outcome, Taken::Partly | Taken::Aside) {
            // Nobody was left to give the rest: the group begins with what is here.
            self.keep();
        }
        if self.is_sound() {
            self.adopt(view);
            self.parts.show(view);
        }
    }

    fn view_replayed(&mut self, view: &View) {
        match self.outcome {
            Taken::Well => {
                self.adopt(view);
                self.parts.show(view);
            }
            Taken::Aside => {
                if let Err(error) = self.parts.adopt_aside(view) {
                    return self.fail(error);
                }
                self.parts.aside().iter_mut().for_each(|part| part.state.view(view));
            }
            Taken::Partly => self.fail(DecodeError::new("a view came before all of it did")),
            Taken::Senseless(_) => {}
        }
    }

    fn snapshot(&mut self, notice: Notice) -> Box<dyn phalanx_core::Snapshot> {
        if !self.is_sound() {
            return Box::new(Outgoing::failed(notice));
        }
        let mut outgoing = Outgoing::new(notice);
        for Part { name, domain, .. } in self.parts.parts.iter().filter(|part| part.place.is_in) {
            outgoing.add(name, domain.is_optional(), domain.snapshot());
        }
        Box::new(outgoing)
    }

    fn begin(&mut self, bytes: u64, listed: Option<&Arc<[core::Domain]>>) {
        self.forget_incoming();
        self.parts.parts.iter_mut().for_each(|part| part.has_come = false);
        self.parts.current = None;
        self.parts.is_listed = listed.is_some();
        if let Some(list) = listed {
            self.parts.find_places(list);
        }
        self.incoming = Some(Incoming::default());
        (self.taken_bytes, self.bytes, self.outcome) = (0, bytes, Taken::Partly);
        self.each().for_each(|domain| domain.set_current(false));
        self.set_progress(0, bytes);
    }

    fn restore(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let Some(incoming) = &mut self.incoming else { return Ok(()) };
        if !matches!(self.outcome, Taken::Partly | Taken::Aside) {
            return Ok(());
        }
        let was_complete = incoming.is_complete();
        let mut taken = incoming.take(chunk, &mut self.parts);
        if incoming.is_complete() && !was_complete && taken.is_ok() {
            taken = self.parts.settle();
            self.outcome = Taken::Aside;
        }
        self.taken_bytes += chunk.len() as u64;
        if incoming.is_unframed() && self.taken_bytes == self.bytes && taken.is_ok() {
            taken = self.parts.end_unframed();
            self.outcome = Taken::Aside;
        }
        self.set_progress(self.taken_bytes, self.bytes);
        if let Err(error) = &taken {
            self.fail(error.clone());
        }
        taken
    }

    fn complete(&mut self) -> Result<(), DecodeError> {
        match &self.outcome {
            Taken::Aside => {
                self.parts.together(&mut |_, domain| domain.swap());
                self.parts.parts.iter_mut().for_each(|part| part.place.is_in = part.has_come);
                self.has_list = self.parts.is_listed;
                self.outcome = Taken::Well;
            }
            Taken::Partly => self.fail(DecodeError::new("a part of it is missing")),
            Taken::Well | Taken::Senseless(_) => {}
        }
        self.forget_incoming();
        match &self.outcome {
            Taken::Senseless(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn keep(&mut self) {
        self.forget_incoming();
        // What is shown was not touched.
        self.outcome = Taken::Well;
    }

    fn is_sound(&self) -> bool {
        self.outcome == Taken::Well
    }

    fn set_current(&mut self, is_current: bool) {
        if !is_current && matches!(self.outcome, Taken::Partly | Taken::Aside) {
            // The membership for which it was taken is over.
            self.keep();
        }
        let is_current = is_current && self.is_sound();
        self.parts.parts.iter().for_each(|part| part.domain.set_current(is_current && part.place.is_in));
    }
}

impl Parts {
    /// Does something to all domains while no reader sees any of them: who reads several sees it done to all or to none.
    fn together(&mut self, act: &mut dyn FnMut(Place, &mut dyn Locked)) {
        if let [only] = &mut self.parts[..] {
            let place = only.place;
            return only.domain.with_lock(&mut |domain| act(place, domain));
        }
        self.all_together(&mut |parts| parts.iter_mut().for_each(|part| act(part.place, &mut *part.state)));
    }

    /// Does something to all domains at once while no reader sees any of them.
    fn all_together(&mut self, act: &mut dyn FnMut(&mut [Changing<'_>])) {
        // A reader may hold one guard and ask for another. So nothing is held while this waits: it waits for one lock, tries
        // the others, and begins again with the one that was taken.
        let mut first = 0;
        loop {
            let mut order: Vec<&mut Part> = self.parts.iter_mut().collect();
            let count = order.len();
            order.rotate_left(first);
            let mut locked = Vec::with_capacity(count);
            for (tried, Part { place, serves, domain, .. }) in order.into_iter().enumerate() {
                let (at, place, is_in, serves) = ((first + tried) % count, *place, place.is_in, *serves);
                match domain.lock(tried == 0) {
                    Some(state) => locked.push(Changing { at, place, is_in, serves, state }),
                    None => break,
                }
            }
            if locked.len() == count {
                return act(&mut locked);
            }
            first = (first + locked.len()) % count;
        }
    }

    /// The states that came and are not shown yet.
    fn aside(&mut self) -> Vec<Changing<'_>> {
        let mut aside = Vec::new();
        for (at, Part { place, serves, domain, has_come, .. }) in self.parts.iter_mut().enumerate() {
            let state = if *has_come { domain.aside() } else { None };
            aside.extend(state.map(|state| Changing { at, place: *place, is_in: true, serves: *serves, state }));
        }
        aside
    }

    /// Shows a view to those that take part.
    fn show(&mut self, view: &View) {
        self.together(&mut |place, domain| {
            if place.is_in {
                domain.view(view);
            }
        });
    }

    /// Notes where each is in the group's list.
    fn find_places(&mut self, list: &[core::Domain]) {
        self.parts.iter_mut().for_each(|part| part.place.index = DomainIndex::of(list, &part.name));
    }

    /// Takes the list of a replayed view over: what came to it begins anew in the state on its way.
    fn adopt_aside(&mut self, view: &View) -> Result<(), DecodeError> {
        let Some(list) = view.list() else { return Ok(()) };
        self.find_places(list);
        if !std::mem::replace(&mut self.is_listed, true) {
            // All that came without a list takes part in it, or the list would not suit this process.
            self.parts.iter_mut().for_each(|part| part.has_come &= part.place.index.is_some());
            return Ok(());
        }
        for part in self.parts.iter_mut().filter(|part| part.place.index.is_some() && !part.has_come) {
            part.begin_anew()?;
        }
        Ok(())
    }

    /// All of a state without a frame came.
    fn end_unframed(&mut self) -> Result<(), DecodeError> {
        self.parts.iter_mut().try_for_each(|part| part.domain.end_unframed())
    }

    /// All of a state came: what of the domains? Those that the group does not list take no part in it.
    fn settle(&mut self) -> Result<(), DecodeError> {
        let is_listed = self.is_listed;
        for part in self.parts.iter_mut().filter(|part| !part.has_come) {
            if !is_listed {
                part.begin_anew()?;
            } else if part.place.index.is_some() {
                return Err(part.lacks());
            }
        }
        Ok(())
    }
}

/// Applies messages to the states that they are for. What clients submit is executed at its place among the others, by the
/// part that is added to `executed`.
fn apply_with_clients(parts: &mut [Changing<'_>], messages: &[Message], executed: &mut Vec<usize>) {
    let tables: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].is_in && parts[*at].serves.is_some()).collect();
    let indexes: Vec<_> = tables.iter().filter_map(|at| parts[*at].place.index).collect();
    let is_submit = |message: &Message| message.domain.is_some_and(|domain| indexes.contains(&domain));
    for run in messages.chunk_by(|one, other| !is_submit(one) && !is_submit(other)) {
        match run {
            [message] if is_submit(message) => executed.extend(take_command(parts, message)),
            _ => {
                for Changing { place, state, .. } in parts.iter_mut().filter(|part| part.is_in) {
                    place.runs(run).for_each(|run| state.apply(run));
                }
            }
        }
    }
}

/// A table takes the command of a client. A message that was not executed before is executed by the state that it serves,
/// which is returned.
fn take_command(parts: &mut [Changing<'_>], message: &Message) -> Option<usize> {
    let is_meant = |part: &Changing<'_>| part.is_in && part.serves.is_some() && part.place.index == message.domain;
    let table = parts.iter().position(is_meant)?;
    let execution = parts[table].state.take(message)?;
    let submitted = Message { payload: message.payload.slice_ref(execution.payload), ..message.clone() };
    let served = parts[table].serves;
    let state = parts.iter_mut().find(|part| part.is_in && Some(part.at) == served);
    // A group lists the table beside the state that it serves, and all members have both.
    let result = state.and_then(|part| part.state.execute(&submitted)).unwrap_or_default();
    parts[table].state.executed(execution, result);
    served
}

impl Part {
    /// It begins aside as where nobody has it yet.
    fn begin_anew(&mut self) -> Result<(), DecodeError> {
        self.has_come = self.domain.begin_anew();
        if self.has_come { Ok(()) } else { Err(self.lacks()) }
    }

    fn lacks(&self) -> DecodeError {
        DecodeError::new(format!("it lacks {}", shown(&self.name)))
    }
}

impl Taker for Parts {
    fn begin(&mut self, name: &str, flags: Flags) -> Result<(), DecodeError> {
        self.current = self.parts.iter().position(|part| part.name == name);
        match self.current.map(|at| &mut self.parts[at]) {
            Some(part) if part.has_come => Err(DecodeError::new(format!("it has {} twice", shown(name)))),
            Some(part) => {
                part.has_come = true;
                part.domain.begin(flags.is_whole);
                Ok(())
            }
            None if flags.is_optional => Ok(()),
            None => Err(DecodeError::new(format!("it has {}, which this process does not know", shown(name)))),
        }
    }

    fn bytes(&mut self, bytes: &[u8], is_end: bool) -> Result<(), DecodeError> {
        self.current.map_or(Ok(()), |at| self.parts[at].domain.bytes(bytes, is_end))
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        self.current.map_or(Ok(()), |at| self.parts[at].domain.end())
    }

    fn begin_unframed(&mut self) -> Result<(), DecodeError> {
        let [only] = &mut self.parts[..] else {
            return Err(DecodeError::new("a state without a frame has no domains, and this process has some"));
        };
        only.domain.begin(true);
        only.has_come = true;
        self.current = Some(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;

    use super::*;
    use crate::id::{MemberId, Order};
    use crate::replica::{Replica, State, Transfer};
    use crate::snapshot::{Piece, Snapshot};

    /// All numbers so far. It is taken in pieces if `IN_PIECES`.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Log<const IN_PIECES: bool>(Vec<u32>);

    impl<const IN_PIECES: bool> State for Log<IN_PIECES> {
        fn apply(&mut self, message: &Message) {
            self.0.extend(message.decode::<u32>());
        }

        fn snapshot(&self) -> Snapshot {
            if IN_PIECES { Snapshot::encode_each(self.0.clone()) } else { Snapshot::encode(&self.0) }
        }

        fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
            assert!(!IN_PIECES, "pieces are taken one by one");
            snapshot.decode().map(Self)
        }

        fn restore_begin() -> Option<Self> {
            Some(Self(Vec::new()))
        }

        fn restore_piece(&mut self, piece: Piece<'_>) -> Result<(), DecodeError> {
            self.0.push(piece.decode()?);
            Ok(())
        }
    }

    type Whole = Log<false>;
    type InPieces = Log<true>;

    fn message(number: u32) -> Message {
        Message {
            view: 1,
            sender: MemberId::of(phalanx_core::Incarnation(7)),
            seq: u64::from(number),
            order: Order::Total,
            uniform: true,
            position: None,
            replayed: false,
            payload: Bytes::from(postcard::to_allocvec(&number).expect("a number")),
            domain: None,
        }
    }

    fn domains(named: [(&str, Box<dyn Domain>); 2]) -> Domains {
        Domains::new(named.map(|(name, domain)| (name.to_owned(), domain)).into())
    }

    fn quiet() -> Notice {
        Box::new(|why| panic!("{why}"))
    }

    /// The state as it is sent.
    fn sent(donor: &mut dyn Replicating) -> Vec<u8> {
        let mut snapshot = donor.snapshot(quiet());
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < snapshot.len_bytes() {
            snapshot.read(bytes.len() as u64, 5, &mut bytes);
        }
        bytes
    }

    fn give(bytes: &[u8], joiner: &mut dyn Replicating) -> Result<(), DecodeError> {
        joiner.begin(bytes.len() as u64, None);
        let given = bytes.chunks(3).try_for_each(|chunk| joiner.restore(chunk));
        let complete = joiner.complete();
        assert!(given.is_ok() || given == complete, "the end says what a piece said");
        complete
    }

    fn why(given: Result<(), DecodeError>) -> String {
        given.expect_err("it is refused").to_string()
    }

    /// The state of a program of another layer, which takes its own bytes.
    #[derive(Debug, PartialEq, Eq)]
    struct Plain(Vec<u8>);

    impl State for Plain {
        fn apply(&mut self, message: &Message) {
            self.0.extend_from_slice(&message.payload);
        }

        fn snapshot(&self) -> Snapshot {
            Snapshot::new(self.0.clone())
        }

        fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
            Ok(Self(snapshot.into_bytes().to_vec()))
        }

        fn restore_unframed(bytes: &[u8]) -> Result<Self, DecodeError> {
            let state = bytes.strip_prefix(b"PLAIN").ok_or_else(|| DecodeError::new("no state of ours"))?;
            Ok(Self(state.to_vec()))
        }
    }

    #[test]
    fn a_state_without_a_frame_is_taken_by_who_knows_it() -> Result<(), DecodeError> {
        let replica = Replica::new(Plain(vec![9]));
        let mut joiner = Domains::new(vec![(String::new(), replica.for_group(None))]);
        joiner.begin(7, None);
        joiner.restore(b"PLAI")?;
        joiner.restore(b"Nab")?;
        joiner.apply(&[message(3)]);
        assert_eq!(replica.read().0, [9], "readers see the old one until it is complete");
        assert_eq!(joiner.complete(), Ok(()));
        assert_eq!(replica.read().0, *b"ab\x03");

        assert_eq!(why(give(b"OTHER", &mut joiner)), "no state of ours");
        assert_eq!(replica.read().0, *b"ab\x03", "what is shown is not touched");
        joiner.begin(8, None);
        joiner.restore(b"PLAINab")?;
        assert_eq!(why(joiner.complete()), "a part of it is missing");
        assert_eq!(give(&sent(&mut Domains::new(vec![(String::new(), replica.for_group(None))])), &mut joiner), Ok(()));
        assert_eq!(replica.read().0, *b"ab\x03", "a state with a frame is taken as ever");

        let log = Replica::new(Whole::default());
        let mut other = Domains::new(vec![(String::new(), log.for_group(None))]);
        assert_eq!(why(give(b"PLAINab", &mut other)), "it has the format of another version of this library");
        Ok(())
    }

    #[test]
    fn domains_go_over_together_with_the_messages_after_them() -> Result<(), DecodeError> {
        let (first, second) = (Replica::new(Whole::default()), Replica::new(InPieces::default()));
        let mut donor = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
        donor.apply(&[message(1), message(2)]);
        let bytes = sent(&mut donor);

        let (third, fourth) = (Replica::new(Log::<false>(vec![9])), Replica::new(Log::<true>(vec![9])));
        let mut joiner = domains([("more", fourth.for_group(None)), ("", third.for_group(None))]);
        joiner.begin(bytes.len() as u64, None);
        joiner.restore(&bytes[..10])?;
        assert_eq!(third.progress(), Some(Transfer { taken: 10, bytes: bytes.len() as u64 }));
        joiner.restore(&bytes[10..])?;
        joiner.apply(&[message(3)]);
        assert_eq!((&third.read().0[..], &fourth.read().0[..]), (&[9][..], &[9][..]), "nothing is shown yet");
        joiner.complete()?;
        assert_eq!((third.progress(), fourth.progress(), third.applied()), (None, None, 1));
        assert_eq!((&*third.read(), &*fourth.read()), (&Log(vec![1, 2, 3]), &Log(vec![1, 2, 3])));
        assert!(joiner.is_sound());
        Ok(())
    }

    /// Counts its views, and notes how many of them held this process.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Views(Vec<(u64, bool)>);

    impl State for Views {
        fn apply(&mut self, _message: &Message) {
            self.0.push((0, false));
        }

        fn view(&mut self, view: &View) {
            self.0.push((view.number(), view.rank_of(view.me()).is_some()));
        }

        fn snapshot(&self) -> Snapshot {
            Snapshot::encode(&self.0)
        }

        fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
            snapshot.decode().map(Self)
        }
    }

    fn view(number: u64, members: &[u64]) -> Arc<phalanx_core::GroupView> {
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let who = |&member: &u64| phalanx_core::Incarnation(member);
        let info = |&member: &u64| {
            phalanx_core::MemberInfo::new(phalanx_core::Incarnation(member), format!("m{member}"), nowhere, nowhere)
        };
        Arc::new(phalanx_core::GroupView {
            members: members.iter().map(who).collect(),
            infos: members.iter().map(info).collect(),
            has_state: Some(true),
            domains: None,
            ..phalanx_core::GroupView::new(phalanx_core::GroupId(1), "g", phalanx_core::ViewNumber(number))
        })
    }

    #[test]
    fn views_within_a_state_are_applied_to_it_in_their_place() -> Result<(), DecodeError> {
        let me = phalanx_core::Incarnation(9);
        let given = Replica::new(Views(vec![(1, true)]));
        let bytes = sent(&mut Domains::new(vec![(String::new(), given.for_group(None))]));
        let taken = Replica::new(Views::default());
        let mut joiner = Domains::new(vec![(String::new(), taken.for_group(None))]);
        joiner.begin(bytes.len() as u64, None);
        joiner.restore(&bytes)?;
        joiner.apply(&[message(1)]);
        let replayed = View::replayed(view(2, &[7]), me);
        assert_eq!((replayed.is_replayed(), replayed.my_rank(), replayed.me()), (true, usize::MAX, MemberId::of(me)));
        assert_eq!(replayed.members().map(|member| member.name).collect::<Vec<_>>(), ["m7"]);
        joiner.view_replayed(&replayed);
        joiner.apply(&[message(2)]);
        assert_eq!(*taken.read(), Views::default(), "nothing is shown yet");
        joiner.complete()?;
        let own = View::new(view(3, &[7, 9]), me);
        assert_eq!((own.is_replayed(), own.my_rank()), (false, 1));
        joiner.view(&own);
        assert_eq!(*taken.read(), Views(vec![(1, true), (0, false), (2, false), (0, false), (3, true)]));
        // A view before the end of a snapshot, like a message, makes no sense.
        joiner.begin(bytes.len() as u64, None);
        joiner.view_replayed(&replayed);
        joiner.restore(&bytes)?;
        joiner.complete().expect_err("a part came too late");
        Ok(())
    }

    #[test]
    fn a_state_that_lacks_a_domain_or_has_an_unknown_one_is_refused() {
        let replica = || Replica::new(Whole::default());
        let (first, second) = (replica(), replica());
        let mut one = Domains::new(vec![(String::new(), first.for_group(None))]);
        let mut two = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
        let (one_sent, two_sent) = (sent(&mut one), sent(&mut two));
        assert_eq!(why(give(&one_sent, &mut two)), "it lacks domain more of the state");
        assert_eq!(why(give(&two_sent, &mut one)), "it has domain more of the state, which this process does not know");
        assert!(!one.is_sound() && !two.is_sound());
        let twice = [("", first.for_group(None)), ("", second.for_group(None))];
        assert_eq!(why(give(&sent(&mut domains(twice)), &mut one)), "it has the state twice");
    }

    #[test]
    fn an_optional_domain_begins_anew_or_is_passed_over() -> Result<(), DecodeError> {
        let old = || {
            let replica = Replica::new(Log::<false>(vec![1]));
            (Domains::new(vec![(String::new(), replica.for_group(None))]), replica)
        };
        let new = || {
            let (replica, added) = (Replica::new(Log::<false>(vec![1])), Replica::new(Log::<true>(vec![5])));
            let added_domain = added.for_group(Some(InPieces::default));
            (domains([("", replica.for_group(None)), ("added", added_domain)]), added)
        };
        let ((mut donor, _), (mut joiner, added)) = (old(), new());
        give(&sent(&mut donor), &mut joiner)?;
        assert_eq!(*added.read(), Log(vec![]), "not what it had before");
        let ((mut donor, given), (mut joiner, taken)) = (new(), new());
        give(&sent(&mut donor), &mut joiner)?;
        assert_eq!(*taken.read(), *given.read());
        let ((mut donor, _), (mut joiner, kept)) = (new(), old());
        donor.apply(&[message(4)]);
        give(&sent(&mut donor), &mut joiner)?;
        assert_eq!(*kept.read(), Log(vec![1, 4]));
        Ok(())
    }

    /// A view that lists domains.
    fn listing(number: u64, names: &[&str]) -> View {
        let list = names.iter().map(|name| core::Domain { name: (*name).into(), version: 1 }).collect();
        let view = core::GroupView { domains: Some(list), ..core::GroupView::clone(&view(number, &[9])) };
        View::new(Arc::new(view), core::Incarnation(9))
    }

    fn to(domain: u8, number: u32) -> Message {
        Message { domain: Some(DomainIndex(domain)), ..message(number) }
    }

    /// A member with the state, an optional domain that begins with 5, and a tool's.
    fn member() -> (Domains, [Replica<Whole>; 3]) {
        let replicas = [vec![], vec![5], vec![]].map(|numbers| Replica::new(Log::<false>(numbers)));
        let [state, more, tool] = &replicas;
        let all = vec![
            (String::new(), state.for_group(None)),
            ("more".to_owned(), more.for_group(Some(Whole::default))),
            ("tool.a".to_owned(), tool.for_group(None)),
        ];
        (Domains::new(all), replicas)
    }

    fn numbers(replicas: &[Replica<Whole>; 3]) -> [Vec<u32>; 3] {
        replicas.each_ref().map(|replica| replica.read().0.clone())
    }

    #[test]
    fn a_message_is_applied_by_the_domain_that_it_names_or_by_all_of_the_program() {
        let (mut domains, replicas) = member();
        domains.view(&listing(1, &["tool.a", "", "more"]));
        domains.apply(&[message(1), to(1, 2), to(1, 3), message(4), to(0, 6), to(2, 7), to(3, 8)]);
        assert_eq!(numbers(&replicas), [vec![1, 2, 3, 4], vec![5, 1, 4, 7], vec![6]]);
        assert_eq!(replicas.each_ref().map(Replica::applied), [4, 3, 1]);
    }

    #[test]
    fn a_domain_takes_part_from_the_view_that_lists_it() {
        let (mut domains, replicas) = member();
        domains.view(&listing(1, &["", "tool.a"]));
        domains.set_current(true);
        domains.apply(&[message(1), to(2, 2)]);
        assert_eq!(numbers(&replicas), [vec![1], vec![5], vec![]], "it is not listed");
        assert!(!replicas[1].is_current() && replicas[0].is_current());
        domains.view(&listing(2, &["", "tool.a", "more"]));
        domains.set_current(true);
        domains.apply(&[message(3), to(2, 4)]);
        assert_eq!(numbers(&replicas), [vec![1, 3], vec![3, 4], vec![]], "it begins as the default");
        assert!(replicas[1].is_current());
        domains.view(&listing(3, &["", "tool.a", "more"]));
        assert_eq!(numbers(&replicas)[1], [3, 4], "once");
        // The group is over, and this process makes the next one: each begins with what it has.
        domains.view(&listing(1, &["", "tool.a", "more"]));
        assert_eq!(numbers(&replicas)[1], [3, 4]);
    }

    #[test]
    fn what_a_group_lists_goes_over_and_what_comes_to_the_list_meanwhile_begins_anew() -> Result<(), DecodeError> {
        let (mut donor, _) = member();
        donor.view(&listing(1, &["", "tool.a"]));
        donor.apply(&[message(1), to(1, 2)]);
        let bytes = sent(&mut donor);
        let short = listing(1, &["", "tool.a"]);
        let list = short.list().expect("it lists some");
        let (mut joiner, replicas) = member();
        joiner.begin(bytes.len() as u64, Some(list));
        joiner.restore(&bytes)?;
        joiner.apply(&[message(3), to(0, 4)]);
        joiner.view_replayed(&listing(2, &["", "tool.a", "more"]));
        joiner.apply(&[message(6), to(2, 7), to(1, 8)]);
        assert_eq!(numbers(&replicas), [vec![], vec![5], vec![]], "nothing is shown yet");
        joiner.complete()?;
        joiner.view(&listing(3, &["", "tool.a", "more"]));
        assert_eq!(numbers(&replicas), [vec![1, 3, 4, 6], vec![6, 7], vec![2, 8]]);
        // With its own first view.
        let (mut joiner, replicas) = member();
        joiner.begin(bytes.len() as u64, Some(list));
        joiner.restore(&bytes)?;
        joiner.complete()?;
        joiner.apply(&[message(3)]);
        joiner.view(&listing(2, &["", "tool.a", "more"]));
        assert_eq!(numbers(&replicas), [vec![1, 3], vec![], vec![2]]);
        // A donor that leaves one out is at fault.
        let longer = listing(2, &["", "tool.a", "more"]);
        let (mut joiner, replicas) = member();
        joiner.begin(bytes.len() as u64, longer.list());
        assert_eq!(why(joiner.restore(&bytes)), "it lacks domain more of the state");
        assert_eq!(numbers(&replicas)[1], [5]);
        Ok(())
    }

    /// A group that was made below level 10 has no list: all take part, and go on so when it gets one.
    #[test]
    fn without_a_list_all_take_part_and_go_on_when_there_is_one() -> Result<(), DecodeError> {
        let (mut domains, replicas) = member();
        let none = |number| View::new(view(number, &[9]), core::Incarnation(9));
        domains.view(&none(1));
        domains.apply(&[message(1)]);
        let bytes = sent(&mut domains);
        domains.view(&listing(2, &["", "more", "tool.a"]));
        domains.apply(&[to(1, 2)]);
        assert_eq!(numbers(&replicas), [vec![1], vec![5, 1, 2], vec![]]);
        let (mut joiner, replicas) = member();
        joiner.begin(bytes.len() as u64, None);
        joiner.restore(&bytes)?;
        joiner.view_replayed(&listing(2, &["", "more", "tool.a"]));
        joiner.apply(&[to(1, 2)]);
        joiner.complete()?;
        assert_eq!(numbers(&replicas), [vec![1], vec![5, 1, 2], vec![]]);
        Ok(())
    }

    #[test]
    fn what_makes_no_sense_changes_nothing_and_is_not_given_away() -> Result<(), DecodeError> {
        let whole = Replica::new(Log::<false>(vec![1, 2]));
        let mut donor = Domains::new(vec![(String::new(), whole.for_group(None))]);
        let bytes = sent(&mut donor);
        let replica = Replica::new(Log::<false>(vec![8]));
        let mut joiner = Domains::new(vec![(String::new(), replica.for_group(None))]);
        for length in 0..bytes.len() {
            give(&bytes[..length], &mut joiner).expect_err("a part is missing");
            joiner.apply(&[message(3)]);
            joiner.set_current(true);
            assert_eq!((&*replica.read(), replica.is_current()), (&Log(vec![8]), false));
            let mut none = Vec::new();
            joiner.snapshot(quiet()).read(0, 100, &mut none);
            assert!(none.is_empty(), "who asks for it is sent elsewhere");
        }
        joiner.begin(bytes.len() as u64, None);
        joiner.restore(&bytes[..8])?;
        joiner.apply(&[message(3)]);
        joiner.restore(&bytes[8..])?;
        assert_eq!(why(joiner.complete()), "messages came before all of it did");
        give(&bytes, &mut joiner)?;
        joiner.set_current(true);
        assert_eq!((&*replica.read(), replica.is_current()), (&Log(vec![1, 2]), true), "the next one is taken");
        joiner.begin(bytes.len() as u64, None);
        joiner.restore(&bytes[..8])?;
        joiner.keep();
        joiner.apply(&[message(3)]);
        assert_eq!((&*replica.read(), replica.progress()), (&Log(vec![1, 2, 3]), None), "the present one goes on");
        joiner.begin(bytes.len() as u64, None);
        joiner.restore(&bytes)?;
        joiner.set_current(false);
        assert_eq!(replica.progress(), None, "it was excluded meanwhile");
        joiner.set_current(true);
        joiner.apply(&[message(4)]);
        assert_eq!(
            (&*replica.read(), replica.is_current()),
            (&Log(vec![1, 2, 3, 4]), true),
            "it begins with what it has"
        );
        Ok(())
    }

    /// The first donor dies when its state is half here, or all of it and a message after it.
    #[test]
    fn a_state_that_begins_anew_keeps_nothing_of_the_first_donor() -> Result<(), DecodeError> {
        let donor = |numbers: &[u32]| {
            let (whole, pieces) = (Log::<false>(numbers.to_vec()), Log::<true>(numbers.to_vec()));
            let (whole, pieces) = (Replica::new(whole), Replica::new(pieces));
            sent(&mut domains([("", whole.for_group(None)), ("more", pieces.for_group(None))]))
        };
        let (first, second) = (donor(&[1, 2, 3]), donor(&[1, 2, 3, 4]));
        for came in [first.len() / 2, first.len() - 10, first.len()] {
            let (whole, pieces) = (Replica::new(Log::<false>(vec![9])), Replica::new(Log::<true>(vec![9])));
            let mut joiner = domains([("", whole.for_group(None)), ("more", pieces.for_group(None))]);
            joiner.begin(first.len() as u64, None);
            joiner.restore(&first[..came])?;
            if came == first.len() {
                joiner.apply(&[message(4)]);
            }
            give(&second, &mut joiner)?;
            let both = (&*whole.read(), &*pieces.read());
            assert_eq!(both, (&Log(vec![1, 2, 3, 4]), &Log(vec![1, 2, 3, 4])), "after {came} bytes");
        }
        Ok(())
    }

    #[test]
    fn items_of_another_type_are_refused() {
        struct Words;
        impl State for Words {
            fn apply(&mut self, _message: &Message) {}

            fn snapshot(&self) -> Snapshot {
                Snapshot::encode_each([u64::MAX])
            }

            fn restore(_snapshot: Snapshot) -> Result<Self, DecodeError> {
                Ok(Self)
            }
        }
        let mut donor = Domains::new(vec![(String::new(), Replica::new(Words).for_group(None))]);
        let replica = Replica::new(Log::<true>(vec![8]));
        let mut joiner = Domains::new(vec![(String::new(), replica.for_group(None))]);
        give(&sent(&mut donor), &mut joiner).expect_err("they do not fit");
        assert_eq!(*replica.read(), Log(vec![8]));
    }

    /// Whoever holds the guard of one domain while something is done to both sees the other one as it was. `act` changes the
    /// number of messages in both.
    fn expect_together(domains: &mut Domains, replicas: [&Replica<Whole>; 2], act: impl Fn(&mut Domains) + Sync) {
        for [held, other] in [replicas, [replicas[1], replicas[0]]] {
            let before = held.read().0.len();
            std::thread::scope(|scope| {
                let guard = held.read();
                let acts = scope.spawn(|| act(domains));
                for _ in 0..2_000 {
                    assert_eq!(other.read().0.len(), guard.0.len());
                    std::thread::yield_now();
                }
                assert!(!acts.is_finished(), "nobody waits for the reader");
                drop(guard);
            });
            assert_eq!(held.read().0, other.read().0);
            assert_ne!(held.read().0.len(), before, "nothing was done");
        }
    }

    #[test]
    fn who_holds_a_guard_sees_the_other_domains_at_the_same_point() {
        let (first, second) = (Replica::new(Whole::default()), Replica::new(Whole::default()));
        let mut domains = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
        expect_together(&mut domains, [&first, &second], |domains| domains.apply(&[message(1)]));
        assert_eq!(first.read().0, [1, 1]);
        let short = sent(&mut domains);
        domains.apply(&[message(2)]);
        let long = sent(&mut domains);
        let is_long = AtomicBool::new(false);
        expect_together(&mut domains, [&first, &second], |domains| {
            let bytes = if is_long.fetch_xor(true, Ordering::Relaxed) { &long } else { &short };
            give(bytes, domains).expect("it makes sense");
        });
        assert_eq!(first.read().0, [1, 1, 2]);
    }

    /// A lock that is given back before the last domain is changed lets a reader see half of it.
    #[test]
    fn no_domain_is_shown_before_all_are_changed() {
        let replicas = [(); 3].map(|()| Replica::new(Whole::default()));
        let parts = replicas.iter().enumerate().map(|(at, replica)| (at.to_string(), replica.for_group(None)));
        let mut domains = Domains::new(parts.collect());
        let mut changed = 0;
        domains.parts.together(&mut |_, _| {
            changed += 1;
            assert!(replicas.iter().all(Replica::is_locked), "before change {changed}");
        });
        assert_eq!((changed, replicas.iter().any(Replica::is_locked)), (3, false));
    }

    #[test]
    fn who_holds_several_guards_sees_one_point_between_the_messages() {
        let (first, second) = (Replica::new(Whole::default()), Replica::new(Whole::default()));
        let mut domains = domains([("", first.for_group(None)), ("more", second.for_group(None))]);
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // In both orders.
            for (one, other) in [(&first, &second), (&second, &first)] {
                let stopped = &stopped;
                scope.spawn(move || {
                    while !stopped.load(Ordering::Relaxed) {
                        let (one, other) = (one.read(), other.read());
                        assert_eq!(one.0.len(), other.0.len());
                    }
                });
            }
            for number in 0..2_000 {
                domains.apply(&[message(number)]);
            }
            stopped.store(true, Ordering::Relaxed);
        });
        assert_eq!(second.read().0.len(), 2_000);
    }
}
