//! The called side, and when a member begins to call.

use std::collections::BTreeMap;

use phalanx::MemberId;

use super::broadcast::Broadcast;
use super::message::{Answer, Held, Id, Message, Payload, Request, Step};
use super::take_over::TakeOver;

/// What one member knows of the messages of all.
#[derive(Debug)]
pub(crate) struct Member {
    me: MemberId,
    /// The last view, by rank.
    members: Vec<MemberId>,
    /// The members that left since this one came, with a mark for each, as long as this one lives.
    gone: BTreeMap<MemberId, Rest>,
    /// The latest message of each sender that is not settled.
    kept: BTreeMap<MemberId, Kept>,
    /// The number of its own next message.
    next: u64,
}

/// What is left to be done for a member that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Unknown,
    Nothing,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    stage: Stage,
}

/// How far a message has come at this member.
#[derive(Debug)]
enum Stage {
    Pending { to: Vec<MemberId>, payload: Payload },
    Delivered { to: Vec<MemberId> },
    Forgotten,
}

impl Member {
    pub(super) fn new(me: MemberId) -> Self {
        Self { me, members: Vec::new(), gone: BTreeMap::new(), kept: BTreeMap::new(), next: 0 }
    }

    /// The number of members in the last view.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    /// Begins a message to all members of the last view, this one included. Its last one is over.
    pub(super) fn begin(&mut self, payload: Payload) -> Broadcast {
        let id = Id { sender: self.me, number: self.next };
        self.next += 1;
        Broadcast::new(self.me, Message { id, to: self.members.clone(), payload })
    }

    /// Takes a view, by rank. If this member has to end what others began that left, it says so.
    pub(super) fn handle_view(&mut self, members: Vec<MemberId>) -> Option<TakeOver> {
        let before = std::mem::replace(&mut self.members, members);
        for member in before.iter().filter(|member| !self.members.contains(member)) {
            self.gone.entry(*member).or_insert(Rest::Unknown);
        }
        let unknown = self.gone.iter().filter(|(_, rest)| **rest == Rest::Unknown);
        let unknown: Vec<MemberId> = unknown.map(|(member, _)| *member).collect();
        let takes_over = self.members.first() == Some(&self.me) && !unknown.is_empty();
        takes_over.then(|| TakeOver::new(self.me, unknown, self.members.clone()))
    }

    /// Does what another member calls for. `deliver` gives a message to the application, and returns its answer.
    pub(super) fn handle_request(
        &mut self,
        request: &Request,
        deliver: impl FnOnce(MemberId, Payload) -> Payload,
    ) -> Answer {
        if self.gone.contains_key(&request.from) {
            return Answer::Refused;
        }
        match &request.step {
            Step::Offer(message) => self.keep(message),
            Step::Deliver(id) => Answer::Delivered(self.deliver(*id, deliver)),
            Step::Forget(id) => {
                if let Some(kept) = self.kept.get_mut(&id.sender).filter(|kept| kept.number == id.number) {
                    kept.stage = Stage::Forgotten;
                }
                Answer::Done
            }
            Step::Report { gone } => {
                for member in gone {
                    self.gone.entry(*member).or_insert(Rest::Unknown);
                }
                Answer::Reported(self.held().filter(|held| gone.contains(&held.id.sender)).collect())
            }
            Step::Settle { gone } => {
                for member in gone {
                    self.gone.insert(*member, Rest::Nothing);
                    self.kept.remove(member);
                }
                Answer::Done
            }
        }
    }

    fn keep(&mut self, message: &Message) -> Answer {
        let Id { sender, number } = message.id;
        if self.gone.get(&sender) == Some(&Rest::Nothing) {
            return Answer::Done;
        }
        match self.kept.get(&sender) {
            Some(kept) if kept.number >= number => return Answer::Done,
            Some(Kept { stage: Stage::Pending { .. } | Stage::Delivered { .. }, .. }) => return Answer::Refused,
            Some(Kept { stage: Stage::Forgotten, .. }) | None => {}
        }
        let stage = Stage::Pending { to: message.to.clone(), payload: message.payload.clone() };
        self.kept.insert(sender, Kept { number, stage });
        Answer::Done
    }

    /// The application's answer. `None`: it was delivered before.
    fn deliver(&mut self, id: Id, deliver: impl FnOnce(MemberId, Payload) -> Payload) -> Option<Payload> {
        let kept = self.kept.get_mut(&id.sender).filter(|kept| kept.number == id.number)?;
        match std::mem::replace(&mut kept.stage, Stage::Forgotten) {
            Stage::Pending { to, payload } => {
                kept.stage = Stage::Delivered { to };
                Some(deliver(id.sender, payload))
            }
            stage => {
                kept.stage = stage;
                None
            }
        }
    }

    /// The messages that this member was not told to forget.
    pub(super) fn held(&self) -> impl Iterator<Item = Held> {
        self.kept.iter().filter_map(|(sender, Kept { number, stage })| {
            let id = Id { sender: *sender, number: *number };
            match stage {
                Stage::Pending { to, payload } => Some(Held { id, to: to.clone(), pending: Some(payload.clone()) }),
                Stage::Delivered { to } => Some(Held { id, to: to.clone(), pending: None }),
                Stage::Forgotten => None,
            }
        })
    }
}
