//! The caller's side of a message: its three phases, from the first for the sender, and from where it stands for a member
//! that takes over.

use std::collections::BTreeSet;

use phalanx::MemberId;

use super::message::{Answer, Id, Message, Payload, Request, Step};
use super::phases::{Calls, Outcomes, Phases, Refused, answered};

/// One message on its way to all that it is for.
#[derive(Debug)]
pub(crate) struct Broadcast {
    me: MemberId,
    id: Id,
    /// Whom it is for, without those that left.
    to: Vec<MemberId>,
    phase: Phase,
    answers: Vec<(MemberId, Payload)>,
}

/// The phase that comes next.
#[derive(Debug)]
enum Phase {
    /// To those that lack it.
    Offer(Message, BTreeSet<MemberId>),
    Deliver,
    Forget,
    Over,
}

impl Broadcast {
    /// A new message.
    pub(super) fn new(me: MemberId, message: Message) -> Self {
        let to = message.to.clone();
        Self { me, id: message.id, to, phase: Phase::Offer(message, BTreeSet::new()), answers: Vec::new() }
    }

    /// The message of another sender, which left. `to`: who is left of those that it is for. Some of them have it.
    pub(super) fn of_gone(me: MemberId, to: Vec<MemberId>, message: Message, have: BTreeSet<MemberId>) -> Self {
        Self { me, id: message.id, to, phase: Phase::Offer(message, have), answers: Vec::new() }
    }

    /// Likewise, when one has delivered it, so that all have it.
    pub(super) fn of_gone_delivered(me: MemberId, to: Vec<MemberId>, id: Id) -> Self {
        Self { me, id, to, phase: Phase::Deliver, answers: Vec::new() }
    }

    /// What the members answered that delivered it for this caller.
    pub(crate) fn into_answers(self) -> Vec<(MemberId, Payload)> {
        self.answers
    }

    fn calls(&self, step: &Step) -> Calls {
        self.to.iter().map(|to| (*to, Request { from: self.me, step: step.clone() })).collect()
    }
}

impl Phases for Broadcast {
    fn next(&mut self, outcomes: Outcomes) -> Result<Calls, Refused> {
        for (who, answer) in answered(outcomes, &mut self.to)? {
            if let Answer::Delivered(Some(answer)) = answer {
                self.answers.push((who, answer));
            }
        }
        loop {
            let calls = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Offer(message, have) => {
                    self.phase = Phase::Deliver;
                    let mut calls = self.calls(&Step::Offer(message));
                    calls.retain(|(to, _)| !have.contains(to));
                    calls
                }
                Phase::Deliver => {
                    self.phase = Phase::Forget;
                    self.calls(&Step::Deliver(self.id))
                }
                Phase::Forget => self.calls(&Step::Forget(self.id)),
                Phase::Over => return Ok(Vec::new()),
            };
            // All may have it already, or have left.
            if !calls.is_empty() {
                return Ok(calls);
            }
        }
    }
}
