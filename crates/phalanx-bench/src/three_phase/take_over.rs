//! What the member of the lowest rank does with messages of members that left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use phalanx::MemberId;

use super::broadcast::Broadcast;
use super::message::{Answer, Held, Id, Message, Payload, Request, Step};
use super::phases::{Calls, Outcomes, Phases, Refused, answered};

/// The end of what members began that left: all that is left of it is delivered by every survivor that it is for.
#[derive(Debug)]
pub(crate) struct TakeOver {
    me: MemberId,
    /// Those that left, and whose messages may be unfinished.
    gone: Vec<MemberId>,
    /// The survivors.
    members: Vec<MemberId>,
    state: State,
}

#[derive(Debug)]
enum State {
    Begun,
    /// Reports are under way.
    Asked,
    /// The first message is on its way to all.
    Ends(VecDeque<Broadcast>),
    Over,
}

/// What the reports say of one message.
#[derive(Default)]
struct Found {
    to: Vec<MemberId>,
    payload: Option<Payload>,
    have: BTreeSet<MemberId>,
    is_delivered: bool,
}

impl TakeOver {
    pub(super) fn new(me: MemberId, gone: Vec<MemberId>, members: Vec<MemberId>) -> Self {
        Self { me, gone, members, state: State::Begun }
    }

    fn calls(&self, step: &Step) -> Calls {
        self.members.iter().map(|to| (*to, Request { from: self.me, step: step.clone() })).collect()
    }

    /// What has to be ended, by the reports of all survivors.
    fn found(&self, reports: Vec<(MemberId, Answer)>) -> VecDeque<Broadcast> {
        let mut found: BTreeMap<Id, Found> = BTreeMap::new();
        for (who, report) in reports {
            let Answer::Reported(report) = report else { continue };
            for Held { id, to, pending } in report {
                let found = found.entry(id).or_default();
                found.have.insert(who);
                found.to = to;
                found.is_delivered |= pending.is_none();
                found.payload = found.payload.take().or(pending);
            }
        }
        let ended = |(id, found)| {
            let Found { to, payload, have, is_delivered } = found;
            let left = to.iter().copied().filter(|to| self.members.contains(to)).collect();
            match payload {
                Some(payload) if !is_delivered => Broadcast::of_gone(self.me, left, Message { id, to, payload }, have),
                _ => Broadcast::of_gone_delivered(self.me, left, id),
            }
        };
        found.into_iter().map(ended).collect()
    }
}

impl Phases for TakeOver {
    fn next(&mut self, outcomes: Outcomes) -> Result<Calls, Refused> {
        let mut outcomes = match std::mem::replace(&mut self.state, State::Over) {
            State::Begun => {
                self.state = State::Asked;
                return Ok(self.calls(&Step::Report { gone: self.gone.clone() }));
            }
            State::Asked => {
                let reports = answered(outcomes, &mut self.members)?;
                self.state = State::Ends(self.found(reports));
                Vec::new()
            }
            State::Ends(messages) => {
                self.state = State::Ends(messages);
                outcomes
            }
            State::Over => return Ok(Vec::new()),
        };
        let State::Ends(messages) = &mut self.state else { unreachable!("all else has returned") };
        while let Some(message) = messages.front_mut() {
            let calls = message.next(std::mem::take(&mut outcomes))?;
            if !calls.is_empty() {
                return Ok(calls);
            }
            messages.pop_front();
        }
        self.state = State::Over;
        Ok(self.calls(&Step::Settle { gone: self.gone.clone() }))
    }
}
