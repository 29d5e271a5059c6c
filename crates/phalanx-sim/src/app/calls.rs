//! The operations one application has asked for and not yet had an answer to, and the locks it counts as its own.

use std::collections::BTreeMap;

use phalanx_core::{Delivery, GroupId, GroupView, Incarnation};
use phalanx_trace::{Action, Event, Outcome};

use super::App;
use crate::objects::{Command, KEYS, LOCKS};

/// The group whose objects are used.
pub(crate) const OBJECTS_GROUP: &str = "a";

/// More operations than these do not wait for their answers at once: a cell that stands still would else give the
/// checker's search an endless choice.
const WAITING_MAX: usize = 4;

/// What one life of an application knows of its operations.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// This life runs: it was announced, and has not been told that it is over.
    open: bool,
    me: u64,
    /// Operations so far.
    asked: u64,
    /// Those without an answer, and what they ask.
    waiting: BTreeMap<u64, (GroupId, Action)>,
    /// What each register held when this process last heard of it.
    pub(crate) seen: [u64; KEYS],
    /// The token of each lock this process counts itself as the holder of; 0: not.
    pub(crate) held: [u64; LOCKS],
    /// The last grant of each lock that is void since its holder left the view; 0: none.
    gone: [u64; LOCKS],
}

impl Calls {
    /// What a new life begins with.
    pub(super) fn begin(me: Incarnation) -> Self {
        Self { open: true, me: me.0, ..Self::default() }
    }

    /// Nothing is asked any more, and no lock is held.
    pub(super) fn close(&mut self) {
        *self = Self { me: self.me, ..Self::default() };
    }

    /// It left the group of the objects: what was asked there stays without an answer.
    pub(super) fn left(&mut self, group: GroupId) {
        self.waiting.retain(|_, (asked, _)| *asked != group);
        self.held = [0; LOCKS];
        self.gone = [0; LOCKS];
    }

    fn waits_for_lock(&self, lock: u32) -> bool {
        self.waiting.values().any(|(_, action)| *action == Action::Acquire { lock })
    }
}

impl App {
    /// The group whose objects this process may use now.
    pub(crate) fn objects_group(&self) -> Option<GroupId> {
        let (id, _) = self.member_of(OBJECTS_GROUP)?;
        let ready = self.calls.open && self.calls.waiting.len() < WAITING_MAX;
        ready.then_some(id)
    }

    /// Whether it makes sense to ask for this lock now.
    pub(crate) fn may_acquire(&self, lock: u32) -> bool {
        self.calls.held.get(lock as usize) == Some(&0) && !self.calls.waits_for_lock(lock)
    }

    /// Notes that an operation is asked for; gives the command to multicast.
    pub(crate) fn invoke(&mut self, group: GroupId, action: Action) -> Command {
        self.calls.asked += 1;
        let op = self.calls.asked;
        self.calls.waiting.insert(op, (group, action));
        let gone = match action {
            Action::Acquire { lock } => self.void_grant(group, lock as usize).unwrap_or(0),
            Action::Release { lock, .. } => {
                // From here on this process does nothing under the lock.
                self.calls.held[lock as usize] = 0;
                0
            }
            _ => 0,
        };
        self.record(Event::Invoke { group: group.0, op, action });
        Command { op, action, gone }
    }

    /// The operation was refused: nobody will hear of it.
    pub(crate) fn not_sent(&mut self, op: u64) {
        if let Some((_, action)) = self.calls.waiting.remove(&op) {
            if let Action::Release { lock, token } = action {
                self.calls.held[lock as usize] = token;
            }
            self.record(Event::Return { op, outcome: Outcome::NotSent });
        }
    }

    /// An operation was applied here; if it is this process's own, it is answered.
    pub(super) fn answered(&mut self, delivery: &Delivery<'_>, op: u64, outcome: Outcome) {
        if delivery.replayed || delivery.sender.0 != self.calls.me {
            return;
        }
        let Some((_, action)) = self.calls.waiting.remove(&op) else { return };
        match (action, outcome) {
            (Action::Read { key }, Outcome::Value(value)) => self.calls.seen[key as usize] = value,
            (Action::Write { key, value }, _) => self.calls.seen[key as usize] = value,
            (Action::Cas { key, expected, value }, Outcome::Value(before)) => {
                self.calls.seen[key as usize] = if before == expected { value } else { before };
            }
            (Action::Acquire { lock }, Outcome::Granted { token }) => self.calls.held[lock as usize] = token,
            _ => {}
        }
        self.record(Event::Return { op, outcome });
    }

    /// The grant of a lock that this process knows to be void: its holder has left a view, or is this process itself
    /// and does not count itself as the holder.
    fn void_grant(&self, group: GroupId, lock: usize) -> Option<u64> {
        let group = self.groups.get(&group)?;
        let (holder, token) = group.state.objects.locks.holder(lock)?;
        let here = group.members.contains(&Incarnation(holder));
        let mine_once = holder == self.calls.me && self.calls.held[lock] != token;
        (!here || mine_once || self.calls.gone[lock] == token).then_some(token)
    }

    /// A view was installed: whoever is not in it, or was not in the one before, holds no lock of earlier views.
    pub(super) fn void_grants(&mut self, view: &GroupView) {
        let Some(group) = self.groups.get(&view.group).filter(|group| group.name == OBJECTS_GROUP) else { return };
        for (lock, gone) in self.calls.gone.iter_mut().enumerate() {
            if let Some((holder, token)) = group.state.objects.locks.holder(lock) {
                let holder = Incarnation(holder);
                if !view.members.contains(&holder) || view.joined.contains(&holder) {
                    *gone = token;
                }
            }
        }
    }

    /// Writes down what the accounts of a group hold together.
    pub(super) fn record_balance(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get(&id) {
            let sum = group.state.objects.bank.sum();
            self.record(Event::Balance { group: id.0, sum });
        }
    }
}
