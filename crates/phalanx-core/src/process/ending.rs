//! The end of the cell instance as one process sees it, and its steps when it finds an instance that ended
//! (`docs/founding.md`).

mod stop;

use std::time::Duration;

use super::{Process, Stage};
use crate::api::{Effects, Event, Founding, LeaveReason};
use crate::id::{CellInstance, Incarnation, MemberInfo, ViewNumber};
use crate::member::{Control, End, Ended, FounderRecord, Lost, ORPHANS_LEVEL, Waiting};
use crate::wire::Tags;

pub(super) use stop::Stop;

/// Tag in a probe: the sender's instance ended.
const ENDED: u64 = 4;
/// Tag in the same: the groups that waited then.
const ENDED_WAITING: u64 = 6;
/// A longer record does not travel in a probe.
const ENDED_BYTES_MAX: usize = 800;
/// Maximum time for which the last members wait until each knows that the others are out.
const END_PATIENCE: Duration = Duration::from_secs(1);
const _: () = assert!(ENDED_BYTES_MAX < 1200, "a probe with it fits in any packet");

impl Process {
    /// Whether it records how its instance ended: a cell with founders is founded again only when they know that.
    fn records_ends(&self) -> bool {
        matches!(self.set.founding, Founding::Named(_) | Founding::Join)
    }

    /// Announces to all members and leavers that a decree let this process go, before it goes.
    pub(super) fn announce_out(&mut self) {
        if self.directory.level < ORPHANS_LEVEL {
            return; // builds of lower levels do not know the message
        }
        let stay = self.directory.members.iter().map(|member| member.incarnation);
        let to: Vec<Incarnation> = stay.chain(self.going()).filter(|who| *who != self.me()).collect();
        to.into_iter().for_each(|who| self.send_control(who, &Control::Out));
    }

    /// The members that the decree in force let go.
    fn going(&self) -> impl Iterator<Item = Incarnation> {
        let left = self.last_decision.iter().flat_map(|decision| &decision.left);
        left.filter(|(_, why)| *why == LeaveReason::Left).map(|(who, _)| *who)
    }

    /// Notes that a process learned that it is out, or is proved dead.
    pub(super) fn note_out(&mut self, who: Incarnation) {
        if self.directory.may_hold(&self.directory.lost(), who) {
            self.out.insert(who);
        }
    }

    /// Forgets announcements of processes that the installed view does not concern.
    pub(super) fn forget_out(&mut self) {
        if !self.out.is_empty() {
            let (directory, lost) = (&self.directory, self.directory.lost());
            self.out.retain(|who| directory.may_hold(&lost, *who));
        }
    }

    /// Whether a process that was let go with all others may end: each of them announced that it knows.
    pub(super) fn is_end_known(&self, waited: Duration) -> bool {
        waited > END_PATIENCE || self.going().all(|who| who == self.me() || self.out.contains(&who))
    }

    /// Records that this process left while others stayed.
    pub(super) fn keep_left(&mut self, fx: &mut dyn Effects) {
        let end = End::Left { instance: self.instance };
        self.keep_end(end, fx);
    }

    /// Records that this process leaves as the last one, or with the last ones: nobody can join the instance any more.
    pub(super) fn keep_ended(&mut self, fx: &mut dyn Effects) {
        let waiting = Waiting::of(self.instance, &self.directory);
        let Some((lost, waiting)) = self.directory.lost().zip(waiting) else { return self.keep_left(fx) };
        let me = self.me();
        debug_assert!(self.instance != CellInstance::NONE, "an instance ends that this process was in");
        let but_for: Vec<Lost> =
            lost.into_iter().filter(|lost| lost.who != me && !self.out.contains(&lost.who)).collect();
        // A process that leaves alone decides no empty view. The next number stands for it.
        let last = self.directory.view;
        let view = if self.directory.members.is_empty() { last } else { last.next() };
        let ended = Ended { instance: self.instance, view, but_for, waiting };
        self.counters.instances_ended += 1;
        let together = self.directory.members.is_empty() && self.going().nth(1).is_some();
        self.counters.instances_ended_together += u64::from(together);
        self.keep_end(End::Ended(ended), fx);
    }

    /// Ends this incarnation by its own leave, and first tells the application what may be lost if all members left.
    pub(super) fn end_in_order(&mut self) {
        let left_behind = self.leaving.as_ref().and_then(|stop| stop.left_behind(&self.directory));
        if let Some((groups, members)) = left_behind {
            self.counters.ends_in_doubt += 1;
            self.app.event(Event::EndInDoubt { groups, members });
        }
        self.end(Event::Left);
    }

    fn keep_end(&mut self, end: End, fx: &mut dyn Effects) {
        if self.records_ends() && self.directory.level >= ORPHANS_LEVEL {
            let record = FounderRecord { end: Some(end), ..self.set.record.clone() };
            self.keep_record(record, fx);
        }
    }

    /// The end of an instance, as this process recorded it.
    fn own_end(&self) -> Option<&Ended> {
        self.set.record.end.as_ref()?.ended()
    }

    /// Adds this process's record of an end to the tail of a probe.
    pub(super) fn announce_end(&self, tail: &mut Tags) {
        if let Some(ended) = self.own_end().filter(|_| matches!(self.stage, Stage::Searching(_))) {
            let mut told = Tags::default();
            told.put_value(ENDED, ended);
            if !ended.waiting.is_empty() {
                told.put_value(ENDED_WAITING, &ended.waiting);
            }
            if told.as_bytes().len() <= ENDED_BYTES_MAX {
                *tail = tail.under(&told);
            }
        }
    }

    /// Handles the news that an instance ended, from a process that looks for its cell. A founder that was in it
    /// records that, and passes it on.
    pub(super) fn hear_end(&mut self, tail: &Tags, fx: &mut dyn Effects) {
        let told: Option<Ended> = tail.value(ENDED).ok().flatten();
        let Ok(waiting) = tail.value::<Waiting>(ENDED_WAITING) else { return };
        let told = told.map(|told| Ended { waiting: waiting.unwrap_or_default(), ..told });
        let Some(mut told) = told.filter(Ended::is_sound) else { return };
        let record = &self.set.record;
        // The end of another instance says nothing about the one that this founder was in.
        let of_it = record.instance() == told.instance || record.heard.is_some_and(|h| h.instance == told.instance);
        if self.founders().is_none() || !of_it || !matches!(self.stage, Stage::Searching(_)) {
            return;
        }
        if let Some(own) = self.own_end().filter(|own| own.instance == told.instance) {
            told.complete_with(own);
            if told == *own {
                return;
            }
        }
        let record = FounderRecord { end: Some(End::Ended(told)), ..record.clone() };
        self.keep_record(record, fx);
    }

    /// Whether a process that looks for the cell is to announce itself: the instance ended except for a member that may
    /// have run where it does.
    pub(super) fn is_missed(&self, info: &MemberInfo) -> bool {
        self.own_end().is_some_and(|ended| ended.but_for.iter().any(|lost| lost.is_succeeded_by(info)))
    }

    /// Excuses a missing member: a process in its place answered a fresh challenge and is in no view, so the
    /// incarnation before it has ended.
    pub(super) fn excuse(&mut self, info: &MemberInfo, fx: &mut dyn Effects) {
        if !self.is_missed(info) {
            return;
        }
        let mut record = self.set.record.clone();
        if let Some(End::Ended(ended)) = &mut record.end {
            ended.but_for.retain(|lost| !lost.is_succeeded_by(info));
        }
        self.counters.ends_excused += 1;
        self.keep_record(record, fx);
    }

    /// The number of the empty view with which an instance ended, if this process knows it. A member of an earlier view
    /// is out.
    pub(super) fn view_of_nobody(&self, instance: CellInstance) -> Option<ViewNumber> {
        self.own_end().filter(|ended| ended.instance == instance).map(|ended| ended.view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Limits, Settings, Timing};
    use crate::member::BootstrapMarker;
    use crate::process::tests::by_hand::{NOW, Out};
    use crate::process::tests::member;
    use crate::seal::Security;

    /// A founder that knows of the end of instance 7, except for `lost` members with names of `bytes` bytes.
    fn searching(lost: u64, bytes: usize) -> Process {
        let lost = (0..lost).map(|n| Lost { who: Incarnation(100 + n), seat: n + 1, name: "n".repeat(bytes) });
        let (instance, view) = (CellInstance(7), ViewNumber(9));
        let ended = Ended { instance, view, but_for: lost.collect(), waiting: Waiting::default() };
        let mark = Some(BootstrapMarker::bare(CellInstance(7)));
        let settings = Settings {
            cell: "test".into(),
            me: member(),
            founding: Founding::Named(vec![member().name, "other".into()]),
            record: FounderRecord { mark, end: Some(End::Ended(ended)), ..FounderRecord::default() },
            seeds: Vec::new(),
            timing: Timing::default(),
            limits: Limits::default(),
        };
        Process::new(NOW, settings, &Security::None, 1)
    }

    fn told_by(process: &Process) -> Tags {
        let mut tail = Tags::default();
        process.announce_end(&mut tail);
        tail
    }

    fn lost(process: &Process) -> Vec<u64> {
        process.own_end().expect("it knows of an end").but_for.iter().map(|lost| lost.seat).collect()
    }

    #[test]
    fn a_long_record_of_an_end_is_in_no_probe() {
        assert!(told_by(&searching(4, 150)).get(ENDED).is_some());
        assert!(told_by(&searching(6, 150)).get(ENDED).is_none());
    }

    /// What a probe reports of an end is kept, and a member that was heard is not counted as lost again.
    #[test]
    fn a_founder_keeps_the_end_of_its_own_instance_that_a_probe_tells() {
        let mut fx = Out::default();
        let mut process = searching(0, 1);
        process.set.record.end = None;
        process.hear_end(&told_by(&searching(2, 1)), &mut fx);
        assert_eq!(lost(&process), [1, 2]);
        let heard = |seat: u64, life: u64| {
            let mut info = MemberInfo { incarnation: Incarnation(life), ..member() };
            info.sit(seat);
            info
        };
        process.excuse(&heard(2, 101), &mut fx);
        assert_eq!(lost(&process), [1, 2], "it is the incarnation that was a member");
        process.excuse(&heard(2, 55), &mut fx);
        process.hear_end(&told_by(&searching(2, 1)), &mut fx);
        assert_eq!(lost(&process), [1]);
        let mut elsewhere = searching(0, 1);
        elsewhere.set.record =
            FounderRecord { mark: Some(BootstrapMarker::bare(CellInstance(8))), ..FounderRecord::default() };
        elsewhere.hear_end(&told_by(&searching(2, 1)), &mut fx);
        assert_eq!(elsewhere.own_end(), None, "it was in another instance");
    }
}
