//! Submitting to the state that the program of an inline process keeps: the table of the clients beside that state, and the
//! client that is this process. Rules: `docs/submit.md`.

use std::sync::Arc;

use bytes::Bytes;
use phalanx_core::{self as core, Delivery, DomainIndex, GroupId, Order, OwnDomain, Stability};
use phalanx_life as life;
use phalanx_life::{Clients, Payloads, Queued, Refusal, SubmitLog, Submitter, Taken, clients_domain};
use phalanx_trace as trace;

use super::app::{App, InlineGroup};
use crate::domain_name::shown;
use crate::error::{DecodeError, SendError, SubmitError};
use crate::layout::Outgoing;
use crate::replica::State;
use crate::shared::submits::random;
use crate::snapshot::Snapshot;
use crate::submit::{ClientTable, SUBMIT_BYTES};
use crate::view::View;

/// What is to be recorded of submits, if the process writes a trace.
pub(super) type Records = Option<Vec<trace::Event>>;

/// What an inline process keeps of a group whose state takes submits. The table changes in place as the program's state
/// does: what comes of another member's state takes the place of what was there.
#[derive(Debug)]
pub(super) struct Submits {
    /// The name of the table among the domains of the state.
    name: Arc<str>,
    table: Clients,
    /// Where the group lists it.
    place: Option<DomainIndex>,
    /// It takes part: the group lists it, or keeps no list.
    is_in: bool,
    /// The group keeps a list of its domains.
    has_list: bool,
    coming: Coming,
    /// This process, through all lives of the membership.
    client: Submitter<u64>,
    log: SubmitLog,
    /// What that is of, in the present life.
    group: Option<GroupId>,
    /// The number of the present life.
    life: u64,
}

/// What came of the table.
#[derive(Debug)]
enum Coming {
    /// No state is on its way.
    Nothing,
    /// It need not come: the group does not list it.
    Optional,
    /// It has to come.
    Awaited,
    Partly(Vec<u8>),
    All,
}

impl Submits {
    pub(super) fn new() -> Self {
        Self {
            name: clients_domain("").into(),
            table: Clients::default(),
            place: None,
            is_in: true,
            has_list: false,
            coming: Coming::Nothing,
            client: Submitter::random(),
            log: SubmitLog::default(),
            group: None,
            life: 0,
        }
    }

    /// The domains of a process whose program keeps the state, with the table.
    pub(super) fn domains() -> Vec<OwnDomain> {
        let domain = core::Domain { name: clients_domain(""), version: ClientTable::VERSION };
        vec![OwnDomain::unnamed(), OwnDomain { domain, is_optional: true }]
    }

    // The table.

    /// Where the group lists the table.
    pub(super) fn place(&self) -> Option<DomainIndex> {
        self.place.filter(|_| self.is_in)
    }

    /// The program's state begins empty, and so does the table.
    pub(super) fn begin_anew(&mut self) {
        (self.table, self.coming) = (Clients::default(), Coming::Nothing);
    }

    /// Another member's state begins. `list`: the domains that the group lists in the view in which it was frozen.
    pub(super) fn begin_state(&mut self, list: Option<&Arc<[core::Domain]>>) {
        self.begin_anew();
        self.place = list.and_then(|list| DomainIndex::of(list, &self.name));
        (self.has_list, self.is_in) = (list.is_some(), list.is_none() || self.place.is_some());
        self.coming = if self.place.is_some() { Coming::Awaited } else { Coming::Optional };
    }

    /// The table of the state on its way begins, if the domain of that name is the table.
    pub(super) fn begin_domain(&mut self, name: &str) -> Result<bool, DecodeError> {
        if name != &*self.name {
            return Ok(false);
        }
        match std::mem::replace(&mut self.coming, Coming::Partly(Vec::new())) {
            Coming::Nothing | Coming::Optional | Coming::Awaited => Ok(true),
            Coming::Partly(_) | Coming::All => Err(DecodeError::new(format!("it has {} twice", shown(name)))),
        }
    }

    /// Bytes of it.
    pub(super) fn bytes(&mut self, part: &[u8]) {
        if let Coming::Partly(bytes) = &mut self.coming {
            bytes.extend_from_slice(part);
        }
    }

    /// All of it is here.
    pub(super) fn end_domain(&mut self) -> Result<(), DecodeError> {
        if let Coming::Partly(bytes) = std::mem::replace(&mut self.coming, Coming::All) {
            self.table = ClientTable::decode(&bytes)?;
        }
        Ok(())
    }

    /// All of the state is here, and what belongs to it.
    pub(super) fn complete(&mut self) -> Result<(), DecodeError> {
        match std::mem::replace(&mut self.coming, Coming::Nothing) {
            Coming::Nothing | Coming::Optional | Coming::All => Ok(()),
            Coming::Awaited | Coming::Partly(_) => Err(DecodeError::new(format!("it lacks {}", shown(&self.name)))),
        }
    }

    /// A view is in force, or belongs to the state on its way. A table that comes to the list begins here as it does at all
    /// members. With a list that is the first one here, or of a group that is new, it goes on.
    pub(super) fn view(&mut self, view: &View) {
        if !view.is_replayed() {
            self.drop_coming();
        }
        match view.list() {
            None => (self.place, self.has_list, self.is_in) = (None, false, true),
            Some(list) => {
                let is_first = !std::mem::replace(&mut self.has_list, true) || view.number() == 1;
                self.place = DomainIndex::of(list, &self.name);
                let was_in = std::mem::replace(&mut self.is_in, self.place.is_some());
                if self.is_in && !was_in && !is_first {
                    self.table = Clients::default();
                }
            }
        }
        if self.is_in {
            self.table.view(view.number(), |who| view.ids().any(|id| id.incarnation() == who));
        }
    }

    /// A command of a client came to its place. `execute`: has the program's state execute a message, and put its result into
    /// the bytes. True: it was of this process.
    pub(super) fn deliver(
        &mut self,
        delivery: &Delivery<'_>,
        execute: impl FnOnce(&[u8], &mut Vec<u8>),
        records: &mut Records,
    ) -> bool {
        let told = match self.table.take(delivery.sender, delivery.payload) {
            Taken::Nothing => return false,
            Taken::Told(told) => told,
            Taken::Execute(execution) => {
                let mut result = Vec::new();
                execute(execution.payload, &mut result);
                if let Some(records) = records {
                    let position = delivery.position.unwrap_or(0);
                    records.push(execution.record(delivery.group, delivery.view, position, &result));
                }
                self.table.executed(execution, result)
            }
        };
        let is_own = !delivery.replayed && self.client.id() == Some(&told.client);
        if is_own {
            self.client.applied(&told);
        }
        is_own
    }

    /// A state that is on its way comes no more. The program has nothing whole, and knows no client.
    fn drop_coming(&mut self) {
        if !matches!(self.coming, Coming::Nothing) {
            self.begin_anew();
        }
    }

    /// Adds the table to a state for another member.
    pub(super) fn add_to(&self, outgoing: &mut Outgoing) {
        if self.is_in {
            outgoing.add(&self.name, true, Snapshot::new(self.table.encode()));
        }
    }

    // The client.

    /// Submits a message, and returns its number.
    pub(super) fn submit(&mut self, payload: &[u8]) -> Result<u64, SendError> {
        if payload.len() > SUBMIT_BYTES {
            return Err(SendError::TooLong(payload.len()));
        }
        let number = self.client.next_number();
        if !self.client.has_room(number) {
            return Err(SendError::Full);
        }
        let is_new = self.client.submit(number, Bytes::copy_from_slice(payload), number);
        debug_assert!(is_new, "a number is used once");
        Ok(number)
    }

    /// This process is in a view of the group.
    pub(super) fn begin_life(&mut self, group: GroupId) {
        self.group = Some(group);
        self.client.begin_life();
    }

    /// The commands that the client sends now. `receipt` makes the receipt of a command from the number of the submit in it.
    pub(super) fn due<R>(
        &mut self,
        receipt: fn(Option<u64>) -> R,
        records: &mut Records,
    ) -> impl Iterator<Item = Queued<R>> {
        std::iter::from_fn(move || {
            let life::Outgoing { payload, number } = self.client.due(&mut random)?;
            if let (Some(records), Some(group)) = (&mut *records, self.group)
                && let (Some(id), Some(number)) = (self.client.id(), number)
            {
                records.push(self.log.sent(group, id, number, &payload));
            }
            Some(Queued::Send(life::Message {
                life: self.life,
                order: Order::Total,
                stability: Stability::Uniform,
                in_view: None,
                domain: Some(Arc::clone(&self.name)),
                body: Payloads::One(payload),
                receipt: Some(receipt(number)),
            }))
        })
    }

    /// What was due is bound, as this process's message `message` of this life, or refused.
    pub(super) fn answer(&mut self, number: Option<u64>, outcome: Result<u64, Refusal>) {
        match outcome {
            Ok(message) => number.into_iter().for_each(|number| self.client.bound(number, message)),
            Err(why) => self.client.refused(number, why),
        }
    }

    /// What was delivered by now may be told.
    pub(super) fn reached(&mut self) {
        // What is decided was delivered, and nothing else waits for this word: so no message needs to be counted.
        self.client.reached(u64::MAX);
        self.client.reached(0);
    }

    /// Tells the program what is known of its submits, and may be told.
    pub(super) fn tell(&mut self, group: InlineGroup, app: &mut impl App, records: &mut Records) {
        while let Some((number, result)) = self.client.take_told() {
            if let Some(records) = records {
                records.extend(self.log.told(number, &result));
            }
            app.submitted(group, number, result.as_deref().map_err(|why| SubmitError::of(*why)));
        }
    }

    /// A life is over. `next`: the number of the next one.
    pub(super) fn end_life(&mut self, next: u64) {
        self.life = next;
        self.client.end_life();
        self.drop_coming();
    }

    /// The membership is over.
    pub(super) fn end_membership(&mut self) {
        self.client.end_membership();
    }
}

#[cfg(test)]
mod tests;
