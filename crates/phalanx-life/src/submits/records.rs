//! Submits as records of a trace. Rules: `docs/checker.md`, *The trace format*.

use std::collections::BTreeMap;

use bytes::Bytes;
use phalanx_core::{GroupId, ViewNumber};
use phalanx_trace::{Event, SubmitStep, payload_hash};

use super::client::NotSubmitted;
use super::command::ClientId;
use super::table::Execution;

/// What a process records of the submits of one of its clients.
#[derive(Debug, Default)]
pub struct SubmitLog {
    /// Where a submit was sent last, and by which client, until its outcome is told.
    sent: BTreeMap<u64, (GroupId, u64)>,
}

impl SubmitLog {
    /// A submit is handed over to be sent to a group, by the present name of its client ([`Submitter::due`](super::Submitter::due)).
    pub fn sent(&mut self, group: GroupId, client: &ClientId, number: u64, command: &[u8]) -> Event {
        let client = client.digest();
        self.sent.insert(number, (group, client));
        Event::Submit { group: group.0, client, number, what: SubmitStep::Sent { hash: payload_hash(command) } }
    }

    /// The application is told the outcome of a submit. `None`: it was never sent, so no member can know of it.
    pub fn told(&mut self, number: u64, outcome: &Result<Bytes, NotSubmitted>) -> Option<Event> {
        let (group, client) = self.sent.remove(&number)?;
        let what = match outcome {
            Ok(result) => SubmitStep::Told { hash: payload_hash(result) },
            Err(NotSubmitted::TooLong) => SubmitStep::TooLong,
            Err(NotSubmitted::Unknown) => SubmitStep::Unknown,
            Err(_) => SubmitStep::NotExecuted,
        };
        Some(Event::Submit { group: group.0, client, number, what })
    }

    /// Nobody waits for the submit any more: no outcome of it is told.
    pub fn abandoned(&mut self, number: u64) {
        self.sent.remove(&number);
    }
}

impl Execution<'_> {
    /// The record of it, with its place in the order of the group. Stands behind the delivery.
    #[must_use]
    pub fn record(&self, group: GroupId, view: ViewNumber, position: u64, result: &[u8]) -> Event {
        let what = SubmitStep::Executed { view: view.0, position, hash: payload_hash(result) };
        Event::Submit { group: group.0, client: self.client.digest(), number: self.number, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(event: Option<Event>) -> Option<(u64, SubmitStep)> {
        match event? {
            Event::Submit { group: 4, number, what, .. } => Some((number, what)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_outcome_is_recorded_of_what_was_sent_and_once() {
        let (mut log, client) = (SubmitLog::default(), ClientId::Random(1, 2));
        assert_eq!(log.told(1, &Ok(Bytes::new())), None, "it was never sent");
        let outcomes = [
            (Ok(Bytes::from_static(b"r")), SubmitStep::Told { hash: payload_hash(b"r") }),
            (Err(NotSubmitted::TooLong), SubmitStep::TooLong),
            (Err(NotSubmitted::Unknown), SubmitStep::Unknown),
            (Err(NotSubmitted::Over), SubmitStep::NotExecuted),
            (Err(NotSubmitted::AnswersFull), SubmitStep::NotExecuted),
        ];
        for (number, (outcome, what)) in (1..).zip(outcomes) {
            let sent = log.sent(GroupId(4), &client, number, b"command");
            assert_eq!(of(Some(sent)), Some((number, SubmitStep::Sent { hash: payload_hash(b"command") })));
            assert_eq!(of(log.told(number, &outcome)), Some((number, what)));
            assert_eq!(of(log.told(number, &outcome)), None);
        }
        log.sent(GroupId(4), &client, 9, b"command");
        log.abandoned(9);
        assert_eq!(log.told(9, &Ok(Bytes::new())), None);
        assert!(log.sent.is_empty());
    }

    /// It may be told in a later incarnation, and goes by the name and the group under which it was sent last.
    #[test]
    fn an_outcome_names_the_client_that_sent_it_last() {
        let (mut log, first, second) = (SubmitLog::default(), ClientId::Random(1, 2), ClientId::Random(3, 4));
        log.sent(GroupId(3), &first, 1, b"command");
        log.sent(GroupId(4), &second, 1, b"command");
        let Some(Event::Submit { group, client, .. }) = log.told(1, &Ok(Bytes::new())) else { panic!("it was sent") };
        assert_eq!((group, client), (4, second.digest()));
    }
}
