//! What an application is told, as records of a trace.

use phalanx_core::{GroupId, LeaveReason, Sequence, ViewNumber};
use phalanx_trace::{self as trace, Event, MembershipEnd};

use crate::front::End;

/// How records name a reason to leave.
pub type Reason = fn(LeaveReason) -> trace::LeaveReason;

/// Records that are not written yet.
#[derive(Debug)]
pub(crate) struct Records {
    events: Vec<Event>,
    reason: Reason,
}

impl Records {
    pub(crate) fn new(reason: Reason) -> Self {
        Self { events: Vec::new(), reason }
    }

    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn reached(&mut self, group: GroupId, latest: &[(ViewNumber, Sequence)]) {
        let told = latest.iter().map(|(view, seq)| Event::ToldStable { group: group.0, view: view.0, seq: seq.0 });
        self.events.extend(told);
    }

    pub(crate) fn over(&mut self, group: GroupId, not_sent: u64, in_doubt: u64) {
        self.events.push(Event::ToldLost { group: group.0, not_sent, in_doubt });
    }

    pub(crate) fn senseless(&mut self, name: &str) {
        self.events.push(Event::ToldSenseless { name: name.to_owned() });
    }

    pub(crate) fn ended(&mut self, name: &str, end: End) {
        let why = match end {
            End::Left(why) => MembershipEnd::Left((self.reason)(why)),
            End::Over => MembershipEnd::Over,
            End::Refused => MembershipEnd::Refused,
            End::Differs { .. } => MembershipEnd::Differs,
        };
        self.events.push(Event::MembershipEnded { name: name.to_owned(), why });
    }
}
