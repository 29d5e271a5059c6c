//! What an application is told, as records of a trace.

use phalanx_core::{GroupId, Incarnation, LeaveReason, Sequence, ViewNumber};
use phalanx_trace::{self as trace, AskStep, Event, MembershipEnd, MembershipStep};

use crate::asks::{AskEnd, AskNumber, Reply, Want};
use crate::front::{End, ShownView, Step};

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

    /// A step of an ask.
    pub(crate) fn ask(&mut self, group: GroupId, asker: Incarnation, (view, seq): AskNumber, what: AskStep) {
        self.events.push(Event::Ask { group: group.0, asker: asker.0, view: view.0, seq: seq.0, what });
    }

    /// A step of a membership that goes on.
    pub(crate) fn step(&mut self, name: &str, step: &Step<'_>) {
        let what = match *step {
            Step::Forgotten => MembershipStep::Forgotten,
            Step::Kept => MembershipStep::Kept,
            Step::Taking { bytes, .. } => MembershipStep::Taking(bytes),
            Step::Current => MembershipStep::Current,
            Step::OwnState => MembershipStep::OwnState,
            Step::View(ShownView { view, .. }) => MembershipStep::View(view.view.0),
            Step::Anew(_) => MembershipStep::Anew,
            Step::Senseless => return self.events.push(Event::ToldSenseless { name: name.to_owned() }),
            // Their records are those of the core, or of the end that follows.
            Step::ViewReplayed(_)
            | Step::Adequate(_)
            | Step::Reached { .. }
            | Step::Ending { .. }
            | Step::Over { .. }
            | Step::Unsent { .. }
            | Step::Excluded { .. }
            | Step::Waiting(_) => return,
        };
        self.events.push(Event::ToldStep { name: name.to_owned(), what });
    }

    pub(crate) fn ended(&mut self, name: &str, end: &End) {
        let why = match end {
            End::Left(why) => MembershipEnd::Left((self.reason)(*why)),
            End::Over => MembershipEnd::Over,
            End::Refused => MembershipEnd::Refused,
            End::Differs { .. } | End::Domains(_) => MembershipEnd::Differs,
        };
        self.events.push(Event::MembershipEnded { name: name.to_owned(), why });
    }
}

pub(crate) fn ask_want(want: Want) -> trace::AskWant {
    match want {
        Want::All => trace::AskWant::All,
        Want::Majority => trace::AskWant::Majority,
        Want::Count(count) => trace::AskWant::Count(count),
        Want::Until => trace::AskWant::Until,
    }
}

pub(crate) fn ask_reply(reply: Reply) -> trace::AskReply {
    match reply {
        Reply::Value => trace::AskReply::Value,
        Reply::Null => trace::AskReply::Null,
        Reply::Abort => trace::AskReply::Abort,
        Reply::Forward(to) => trace::AskReply::Forward(to.0),
    }
}

pub(crate) fn ask_end(end: AskEnd) -> trace::AskEnd {
    match end {
        AskEnd::Met => trace::AskEnd::Met,
        AskEnd::Complete => trace::AskEnd::Complete,
        AskEnd::Aborted(_) => trace::AskEnd::Aborted,
        AskEnd::Deadline => trace::AskEnd::Deadline,
        AskEnd::Cancelled => trace::AskEnd::Cancelled,
        AskEnd::Full => trace::AskEnd::Full,
        AskEnd::Over => trace::AskEnd::Over,
    }
}
