//! The domains of a group's state: named parts, each a replica of its own. They apply the same messages, but for those that
//! name one of them, and move together. The group's list says which of them take part (`docs/domains.md`).

mod commands;
mod place;

use std::sync::Arc;

use phalanx_core::{self as core, DomainIndex};
use phalanx_life::clients_domain;

use commands::apply_with_clients;
use place::{Changing, Place};

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
    /// Told when readers hold this thread up.
    notice: Notice,
    /// The part whose bytes come now; `None`: of a domain that is passed over.
    current: Option<usize>,
    /// The group keeps a list, by the state on its way.
    is_listed: bool,
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
        let parts = domains.into_iter().map(part).collect();
        let parts = Parts { parts, notice: Box::new(|_| {}), current: None, is_listed: false };
        Self { parts, has_list: false, incoming: None, taken_bytes: 0, bytes: 0, outcome: Taken::Well }
    }

    /// `notice` is told when readers hold the protocol thread up.
    pub(crate) fn with_notice(mut self, notice: Notice) -> Self {
        self.parts.notice = notice;
        self
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
            Taken::Well if self.parts.parts.iter().any(|part| part.serves.is_some()) => {
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

    fn apply_asked(&mut self, asked: &Message) -> Option<Vec<u8>> {
        self.apply(std::slice::from_ref(asked));
        let is_sound = self.is_sound();
        self.parts.parts.iter().filter(|part| is_sound && part.place.is_in).find_map(|part| part.domain.answer(asked))
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
        if let [Part { name, domain, place, .. }] = &mut self.parts[..] {
            let held_up = || (self.notice)(held_up(name));
            return domain.with_lock(&held_up, &mut |domain| act(*place, domain));
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
            for (tried, Part { name, place, serves, domain, .. }) in order.into_iter().enumerate() {
                let (at, place, serves) = ((first + tried) % count, *place, *serves);
                let held_up = || (self.notice)(held_up(name));
                match domain.lock((tried == 0).then_some(&held_up as &dyn Fn())) {
                    Some(state) => locked.push(Changing { at, place, serves, state }),
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
            let place = Place { is_in: true, ..*place };
            aside.extend(state.map(|state| Changing { at, place, serves: *serves, state }));
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

/// What the operator is told when readers of a domain hold the protocol thread up.
fn held_up(domain: &str) -> String {
    format!(
        "a reader has held {} for a second while messages wait to be applied, and does so still: meanwhile this process answers \
         no other process, and they may exclude it; a thread that holds a guard of `Replica::read` must not wait: have it copy \
         what it needs, and drop the guard",
        shown(domain)
    )
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
mod tests;
