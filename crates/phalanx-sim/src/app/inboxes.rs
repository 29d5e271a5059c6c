//! The inboxes of one application: which of them it reads, and what it is given meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_core::{Event, GroupId, InboxId};
use phalanx_trace as trace;

use super::App;
use super::reading::Reading;

impl App {
    /// Begins an incarnation, whose groups have the inboxes of the one before.
    pub(super) fn begin_reading(&mut self) {
        let Reading { numbers, were_in, forced, .. } = &mut self.reading;
        (*numbers, *were_in, *forced) = (BTreeMap::new(), BTreeSet::new(), false);
        for (name, inbox) in self.reading.inboxes.clone() {
            self.record(trace::Event::Inbox { name, inbox: inbox.0 });
        }
    }

    /// Notes another inbox of a group.
    pub(crate) fn assign(&mut self, name: &str, inbox: InboxId) {
        if inbox == InboxId::MAIN {
            self.reading.inboxes.remove(name);
        } else {
            self.reading.inboxes.insert(name.to_owned(), inbox);
        }
        self.record(trace::Event::Inbox { name: name.to_owned(), inbox: inbox.0 });
    }

    /// Whether it was in a group of that name and was notified that it left it.
    pub(crate) fn was_in(&self, name: &str) -> bool {
        self.reading.were_in.contains(name) && self.groups.values().all(|group| group.name != name)
    }

    /// Whether it reads this inbox, or would.
    pub(super) fn reads(&self, inbox: InboxId) -> bool {
        !self.reading.unread.contains(&inbox)
    }

    /// A bit for each inbox that it does not read.
    pub(crate) fn unread(&self) -> u32 {
        self.reading.unread.iter().fold(0, |bits, inbox| bits | 1 << inbox.0)
    }

    pub(crate) fn set_reads(&mut self, inbox: InboxId, reads: bool) {
        if reads {
            self.reading.unread.remove(&inbox);
        } else if self.reading.unread.insert(inbox) {
            self.reading.counted = [false; 2];
        }
    }

    pub(crate) fn read_all(&mut self) {
        self.reading.unread.clear();
        self.reading.holds = false;
    }

    fn inbox_of(&self, group: GroupId) -> InboxId {
        self.reading.numbers.get(&group).copied().unwrap_or_default()
    }

    /// Notes something of a group that it is given.
    pub(super) fn took(&mut self, group: GroupId) {
        self.took_from(self.inbox_of(group));
    }

    pub(super) fn took_from(&mut self, inbox: InboxId) {
        let Reading { unread, holds, counted, forced, .. } = &mut self.reading;
        if unread.contains(&inbox) {
            *forced = true;
        } else if *holds && !std::mem::replace(&mut counted[1], true) {
            self.counts.inboxes_beside += 1;
        }
    }

    pub(super) fn took_event(&mut self, event: &Event) {
        let (group, name) = match event {
            Event::GroupView(view) => {
                self.reading.were_in.insert(view.name.to_string());
                (view.group, Some(&view.name))
            }
            Event::GroupViewReplayed(view) => (view.group, Some(&view.name)),
            Event::StateBegin { group, name, .. }
            | Event::StateAnew { group, name }
            | Event::StateKept { group, name, .. }
            | Event::GroupForgotten { group, name, .. }
            | Event::GroupOrphaned { group, name, .. } => (*group, Some(name)),
            Event::GroupAdequacy { group, .. }
            | Event::Unsent { group, .. }
            | Event::GroupLeft { group, .. }
            | Event::StateEnd { group } => (*group, None),
            Event::Excluded { .. } | Event::Renounced { .. } | Event::Left => {
                self.counts.inboxes_at_end += u64::from(std::mem::take(&mut self.reading.forced));
                return;
            }
            _ => return self.took_from(InboxId::MAIN),
        };
        // The inbox of a stay is that at its begin.
        if let Some(name) = name
            && !self.groups.contains_key(&group)
        {
            let inbox = self.reading.inboxes.get(&**name).copied().unwrap_or_default();
            self.reading.numbers.insert(group, inbox);
        }
        self.took(group);
    }

    pub(super) fn told_stable(&mut self, group: GroupId) {
        let waits = self.reading.holds && !self.reads(self.inbox_of(group));
        self.counts.stable_beside += u64::from(waits);
    }

    /// Ends an iteration, after which so many items wait.
    pub(crate) fn end_turn(&mut self, waiting: usize) {
        let reading = &mut self.reading;
        reading.holds = self.takes && waiting > 0 && !reading.unread.is_empty();
        if reading.holds && !std::mem::replace(&mut reading.counted[0], true) {
            self.counts.inboxes_held += 1;
        }
        if std::mem::take(&mut reading.forced) {
            let text = "was given something from an inbox that it does not read, and its incarnation goes on";
            self.faults.push(("inbox", text.to_owned()));
        }
    }
}
