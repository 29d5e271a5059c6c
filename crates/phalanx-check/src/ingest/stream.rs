//! Evaluates the part of E1 that one trace alone shows: which record may follow which.

use std::collections::HashSet;

use phalanx_trace::{Event, LeaveReason, Order, Record};

use crate::model::intern::FastMap;

/// State of the rules for one trace.
#[derive(Debug, Default)]
pub(super) struct StreamRules {
    records: u64,
    last_ns: u64,
    in_cell: bool,
    nonprimary: bool,
    blocked: bool,
    /// By group: the view in force and the number of deliveries in it.
    groups: FastMap<u32, Counts>,
    /// By group: the newest view with a send, and the last sequence number.
    sends: FastMap<u32, (u64, u64)>,
    p2p_sent: FastMap<u64, u64>,
    /// Receivers with messages in doubt.
    doubted: HashSet<u64>,
    p2p_delivered: FastMap<u64, u64>,
    /// Number of operations so far, and those without an answer.
    asked: u64,
    unanswered: HashSet<u64>,
    /// Numbers of calls made and of runs begun so far.
    calls: u64,
    runs: u64,
}

#[derive(Debug)]
struct Counts {
    view: u64,
    deliveries: u64,
}

impl StreamRules {
    /// Checks the next record. Returns what is wrong with it, if anything.
    pub(super) fn handle(&mut self, record: &Record, harness: bool) -> Option<&'static str> {
        let backwards = record.at_ns < self.last_ns;
        self.last_ns = record.at_ns;
        self.records += 1;
        let wrong = if harness { Self::harness_rule(&record.event) } else { self.process_rule(&record.event) };
        if backwards { Some("time goes backwards") } else { wrong }
    }

    fn harness_rule(event: &Event) -> Option<&'static str> {
        let allowed = matches!(
            event,
            Event::Start
                | Event::Stop { .. }
                | Event::Cont { .. }
                | Event::Crash { .. }
                | Event::Phase { .. }
                | Event::Cut { .. }
                | Event::Mend { .. }
                | Event::Attack { .. }
                | Event::Trouble { .. }
                | Event::Gauge { .. }
                | Event::Traffic { .. }
                | Event::Impaired { .. }
                | Event::About { .. }
                | Event::Unread { .. }
                | Event::End
        );
        (!allowed).then_some("a process's record in the harness's trace")
    }

    fn process_rule(&mut self, event: &Event) -> Option<&'static str> {
        match event {
            Event::Start => (self.records != 1).then_some("started in the middle"),
            _ if self.records == 1 => Some("the first record is not the start"),
            Event::CellView { .. } => {
                self.in_cell = true;
                None
            }
            Event::GroupView { group, view, .. } => {
                self.groups.insert(*group, Counts { view: *view, deliveries: 0 });
                (!self.in_cell).then_some("a group view before the first cell view")
            }
            Event::GroupLost { group, why } => {
                let asked = !matches!(why, LeaveReason::Nonsense | LeaveReason::Anew | LeaveReason::Stopped);
                (asked || !self.groups.contains_key(group)).then_some("lost a group for no reason, or one it is not in")
            }
            Event::GroupLeft { group } => {
                self.groups.remove(group);
                None
            }
            Event::Unsent { group, .. } => {
                (!self.groups.contains_key(group)).then_some("notified of multicasts to a group it is not in")
            }
            Event::Send { group, view, seq, .. } => self.send_rule(*group, *view, *seq),
            Event::Deliver { group, view, order, position, replayed, .. } => {
                if let Some(counts) = self.groups.get_mut(group).filter(|c| c.view == *view && !replayed) {
                    counts.deliveries += 1;
                }
                (position.is_some() && *order != Order::Total).then_some("a position in the total order without one")
            }
            Event::ToOneSend { group, view, .. } => {
                let early = self.groups.get(group).is_none_or(|counts| *view < counts.view);
                early.then_some("sent to one member in a view that is over, or of a group it is not in")
            }
            Event::ToOneDeliver { group, .. } => {
                (!self.groups.contains_key(group)).then_some("a message to one in a group it is not in")
            }
            Event::SnapshotOut { group, view, .. } => self.in_force(*group, *view, "a snapshot of another view"),
            Event::Digest { group, view, delivered, .. } => match self.groups.get(group) {
                Some(counts) if counts.view == *view => {
                    (counts.deliveries != *delivered).then_some("a digest that counts deliveries wrongly")
                }
                _ => Some("a digest of another view than the one in force"),
            },
            Event::NonPrimary => {
                self.nonprimary = true;
                None
            }
            Event::Primary => {
                (!std::mem::take(&mut self.nonprimary)).then_some("primary again without having been anything else")
            }
            Event::Block => std::mem::replace(&mut self.blocked, true).then_some("blocked twice"),
            Event::Unblock => {
                (!std::mem::take(&mut self.blocked)).then_some("may send again without having been blocked")
            }
            Event::P2pSend { to, k, .. } => next_number(&mut self.p2p_sent, *to, *k),
            Event::InDoubt { to, messages } => {
                let sent = self.p2p_sent.get(to).copied().unwrap_or(0);
                let fits = *messages > 0 && *messages <= sent && self.doubted.insert(*to);
                (!fits).then_some("notified of messages in doubt that it did not send, or a second time")
            }
            Event::P2pDeliver { from, k, .. } => next_number(&mut self.p2p_delivered, *from, *k),
            Event::Stop { .. }
            | Event::Cont { .. }
            | Event::Crash { .. }
            | Event::Phase { .. }
            | Event::Cut { .. }
            | Event::Mend { .. }
            | Event::Attack { .. }
            | Event::Trouble { .. }
            | Event::Gauge { .. }
            | Event::Traffic { .. }
            | Event::Impaired { .. }
            | Event::About { .. }
            | Event::Unread { .. } => Some("a harness's record in a process's trace"),
            Event::Invoke { op, .. } => {
                self.asked += 1;
                self.unanswered.insert(*op);
                (*op != self.asked).then_some("operations are not numbered in sequence")
            }
            Event::Return { op, .. } => (!self.unanswered.remove(op)).then_some("an answer without an invocation"),
            Event::Endpoint { .. } => (self.records != 2).then_some("an endpoint that was something else before"),
            Event::CallMade { call, .. } => {
                self.calls += 1;
                (*call != self.calls).then_some("calls are not numbered in sequence")
            }
            Event::CallRan { run, .. } => {
                self.runs += 1;
                (*run != self.runs).then_some("runs of calls are not numbered in sequence")
            }
            Event::CallDeadline { call, .. } => {
                (*call == 0 || *call != self.calls).then_some("the deadline of a call that was not just made")
            }
            // A second outcome is reported by R5.
            Event::CallEnded { call, .. } => {
                (*call == 0 || *call > self.calls).then_some("the end of a call that was not made")
            }
            Event::CallAnswered { run, .. } => {
                (*run == 0 || *run > self.runs).then_some("the answer of a handler that was not begun")
            }
            Event::StateKept { group, .. } => {
                self.groups.contains_key(group).then_some("goes on with a kept state of a group that it is in")
            }
            Event::Guard { .. }
            | Event::Forgotten { .. }
            | Event::GivenUp { .. }
            | Event::FoundAnew
            | Event::ReformAsked
            | Event::Ancestors { .. }
            | Event::Renounced { .. }
            | Event::Accept { .. }
            | Event::Stable { .. }
            | Event::ToOneSettled { .. }
            | Event::Ask { .. }
            | Event::Submit { .. }
            | Event::ToldStable { .. }
            | Event::ToldLost { .. }
            | Event::ToldSenseless { .. }
            | Event::MembershipEnded { .. }
            | Event::ToldStep { .. }
            | Event::Balance { .. }
            | Event::JoinAsked { .. }
            | Event::LeaveAsked
            | Event::GroupJoinAsked { .. }
            | Event::GroupLeaveAsked { .. }
            | Event::SnapshotIn { .. }
            | Event::SnapshotView { .. }
            | Event::GroupViewReplayed { .. }
            | Event::StateEnd { .. }
            | Event::Excluded { .. }
            | Event::Left
            | Event::EndInDoubt { .. }
            | Event::Level { .. }
            | Event::RiseAsked { .. }
            | Event::Differs { .. }
            | Event::CellMinimum { .. }
            | Event::GroupTerms { .. }
            | Event::GroupIncomplete { .. }
            | Event::GroupObservers { .. }
            | Event::OwnDomains { .. }
            | Event::GroupDomains { .. }
            | Event::DeliveredTo { .. }
            | Event::Observes { .. }
            | Event::GroupAdequacy { .. }
            | Event::Inbox { .. }
            | Event::End => None,
        }
    }

    /// Checks that sends are numbered from 1 in each view. Sends in no view, or in one that is over, are reported by S6
    /// and S2.
    fn send_rule(&mut self, group: u32, view: u64, seq: u64) -> Option<&'static str> {
        self.groups.get(&group).filter(|counts| view >= counts.view)?;
        let (newest, last) = self.sends.entry(group).or_insert((view, 0));
        if *newest != view {
            (*newest, *last) = (view, 0);
        }
        let expected = last.saturating_add(1);
        *last = seq;
        (seq != expected).then_some("sends are not numbered in sequence")
    }

    fn in_force(&self, group: u32, view: u64, wrong: &'static str) -> Option<&'static str> {
        self.groups.get(&group).is_none_or(|c| c.view != view).then_some(wrong)
    }
}

fn next_number(last: &mut FastMap<u64, u64>, peer: u64, k: u64) -> Option<&'static str> {
    let last = last.entry(peer).or_insert(0);
    let expected = last.saturating_add(1);
    *last = k;
    (k != expected).then_some("point-to-point messages are not numbered in sequence")
}
