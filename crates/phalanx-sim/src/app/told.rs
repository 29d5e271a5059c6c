//! What the application is told of its memberships and messages. The machine that decides it is the one of real
//! processes.

use std::convert::Infallible;
use std::sync::Arc;

use phalanx_core::{Delivery, Event, GroupId, Incarnation, LeaveReason, Sequence, Snapshot, ViewNumber};
use phalanx_life::{Bound, End, Front, Key, Lives, Refusal, Step};
use phalanx_runtime::traced;
use phalanx_trace as trace;

/// The memberships of one process, through its incarnations, and what is counted of them.
#[derive(Debug)]
pub(crate) struct Told {
    lives: Lives<(), Infallible>,
    writer: Writer,
    /// Requests for groups whose earlier membership has not ended, oldest first: the core takes such a request.
    again: Vec<(String, bool, bool)>,
}

impl Default for Told {
    fn default() -> Self {
        let mut lives = Lives::new(true);
        lives.record(traced::reason);
        Self { lives, writer: Writer::default(), again: Vec::new() }
    }
}

/// Counts.
#[derive(Debug, Default)]
struct Writer {
    counts: ToldCounts,
    /// A state was refused, and all that members give make sense.
    is_mistaken: bool,
}

/// What applications were told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToldCounts {
    /// Multicasts that were not sent, and in doubt.
    pub(crate) not_sent: u64,
    pub(crate) in_doubt: u64,
    /// Times in which an outcome was withheld for another iteration.
    pub(crate) withheld: u64,
    /// Ends of memberships: by a leave, because the group stopped, and with the process.
    pub(crate) left: u64,
    pub(crate) stopped: u64,
    pub(crate) over: u64,
    /// States whose donors were gone before they were complete.
    pub(crate) own_states: u64,
}

impl Front for Writer {
    type Group = ();
    type Receipt = Infallible;

    const COUNTS_DELIVERED: bool = true;

    fn deliver(&mut self, _key: Key, (): &mut (), _delivery: &Delivery<'_>) {}

    fn step(&mut self, _key: Key, (): &mut (), step: Step<'_>) {
        match step {
            Step::Over { not_sent, in_doubt, .. } => {
                self.counts.not_sent += not_sent;
                self.counts.in_doubt += in_doubt;
            }
            Step::Senseless => self.is_mistaken = true,
            Step::OwnState => self.counts.own_states += 1,
            _ => {}
        }
    }

    fn answer(&mut self, (): &mut (), receipt: Infallible, _outcome: Result<Bound, Refusal>) {
        match receipt {}
    }

    fn ended(&mut self, _key: Key, (): (), end: End) {
        match end {
            End::Left(LeaveReason::Stopped) => self.counts.stopped += 1,
            End::Over => self.counts.over += 1,
            _ => self.counts.left += 1,
        }
    }

    // The states are the application's.
    fn snapshot(&mut self, _: Key, (): &mut (), _: &Arc<str>, _is_sound: bool) -> Option<Box<dyn Snapshot>> {
        None
    }

    fn restore(&mut self, _key: Key, (): &mut (), _chunk: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn complete(&mut self, _key: Key, (): &mut ()) -> Result<(), String> {
        Ok(())
    }

    fn notice(&mut self, _text: String) {}
}

impl Told {
    /// Another process starts in its place.
    pub(crate) fn start_anew(&mut self) {
        let Self { writer, .. } = std::mem::take(self);
        self.writer.counts = writer.counts;
    }

    pub(crate) fn counts(&self) -> ToldCounts {
        self.writer.counts
    }

    /// It asks to join a group.
    pub(crate) fn joins(&mut self, name: &str, with_state: bool, observes: bool) {
        if self.lives.has_name(name) {
            self.again.push((name.to_owned(), with_state, observes));
        } else {
            self.lives.add(name.into(), with_state, observes, ());
        }
    }

    /// It asked to leave a group.
    pub(crate) fn leaves(&mut self, group: GroupId) {
        if let Some(key) = self.lives.key_of(group) {
            let wanted = self.lives.want_leave(key);
            debug_assert!(wanted.is_ok(), "the membership goes on");
            self.lives.leave_asked(key);
        }
    }

    pub(super) fn begin(&mut self, me: Incarnation) {
        self.lives.begin(me, &mut self.writer);
        self.join_again();
        // One request for each group goes into the next incarnation.
        self.again.clear();
    }

    pub(super) fn event(&mut self, event: Event) {
        self.lives.event(event, &mut self.writer);
        self.join_again();
    }

    /// Joins groups again whose earlier membership has ended.
    fn join_again(&mut self) {
        for (name, with_state, observes) in std::mem::take(&mut self.again) {
            // Once more, if that name is in use.
            self.joins(&name, with_state, observes);
        }
    }

    /// The core accepted a multicast. [`Self::sent`] follows, at once or later.
    pub(super) fn accepted(&mut self, group: GroupId) {
        if let Some(key) = self.lives.key_of(group) {
            self.lives.accepted_at_once(key, None, &mut self.writer);
        }
    }

    pub(super) fn sent(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.lives.sent(group, view, seq, &mut self.writer);
    }

    pub(super) fn stable(&mut self, group: GroupId, view: ViewNumber, seq: Sequence) {
        self.lives.stable(group, view, seq);
    }

    pub(super) fn deliver(&mut self, delivery: &Delivery<'_>) {
        self.lives.deliver(delivery, &mut self.writer);
    }

    /// Its iteration is over: outcomes are told that may be. `is_adequate`: whether enough members hold a group's state.
    pub(crate) fn tell(&mut self, is_adequate: impl Fn(GroupId) -> Option<bool>) {
        if self.lives.has_news() {
            self.lives.tell(is_adequate, &mut self.writer);
            self.writer.counts.withheld += u64::from(self.lives.has_news());
        }
    }

    /// Its thread ends, and the process goes on for a moment: nobody asks the core any more.
    pub(crate) fn end(&mut self) {
        self.lives.end(&mut self.writer);
    }

    /// What is to be recorded since the last call, and whether a state was refused.
    pub(super) fn settle(&mut self) -> (Vec<trace::Event>, bool) {
        (self.lives.take_records(), std::mem::take(&mut self.writer.is_mistaken))
    }
}
