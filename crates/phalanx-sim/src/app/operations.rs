//! What an application does with operations: it invokes them, takes their answers, and holds locks.

use phalanx_core::{Delivery, GroupId, GroupView, Incarnation};
use phalanx_trace::{Action, Event, Outcome};

use super::App;
use super::calls::OBJECTS_GROUP;
use crate::objects::{Command, LockHolder};

/// Bound on the operations without an answer. If the cell stalled, more of them would give the checker's search too
/// many orders to try.
const WAITING_MAX: usize = 4;

impl App {
    /// The group whose objects this process may use now.
    pub(crate) fn objects_group(&self) -> Option<GroupId> {
        let (id, group) = self.member_of(OBJECTS_GROUP)?;
        // Also while it leaves the group.
        let has_state = self.wanted.get(OBJECTS_GROUP) != Some(&false) && !group.is_observed;
        let ready = has_state && self.calls.open && self.calls.waiting.len() < WAITING_MAX;
        ready.then_some(id)
    }

    /// Whether it makes sense to request this lock now.
    pub(crate) fn may_acquire(&self, lock: u32) -> bool {
        self.calls.held.get(lock as usize) == Some(&0) && !self.calls.waits_for_lock(lock)
    }

    /// Records an invocation; returns the command to multicast.
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

    /// Handles a refused multicast: no member will apply the operation.
    pub(crate) fn not_sent(&mut self, op: u64) {
        if let Some((_, action)) = self.calls.waiting.remove(&op) {
            if let Action::Release { lock, token } = action {
                self.calls.held[lock as usize] = token;
            }
            self.record(Event::Return { op, outcome: Outcome::NotSent });
        }
    }

    /// Handles an operation that was applied here. If it is this process's own, it is answered.
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

    /// The grant of a lock that this process knows to be void. Either its holder has left a view, or the holder is this
    /// process and does not consider itself the holder.
    fn void_grant(&self, group: GroupId, lock: usize) -> Option<u64> {
        let group = self.groups.get(&group)?;
        let LockHolder { holder, token } = group.state.objects.locks.holder(lock)?;
        let here = group.members.contains(&Incarnation(holder));
        let mine_once = holder == self.calls.me && self.calls.held[lock] != token;
        (!here || mine_once || self.calls.gone[lock] == token).then_some(token)
    }

    /// Handles a view: a process that is not in it, or was not in the one before, holds no lock of earlier views.
    pub(super) fn void_grants(&mut self, view: &GroupView) {
        let Some(group) = self.groups.get(&view.group).filter(|group| group.name == OBJECTS_GROUP) else { return };
        for (lock, gone) in self.calls.gone.iter_mut().enumerate() {
            if let Some(LockHolder { holder, token }) = group.state.objects.locks.holder(lock) {
                let holder = Incarnation(holder);
                if !view.members.contains(&holder) || view.joined.contains(&holder) {
                    *gone = token;
                }
            }
        }
    }

    /// Records the sum of the accounts of a group.
    pub(super) fn record_balance(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get(&id) {
            let sum = group.state.objects.bank.sum();
            self.record(Event::Balance { group: id.0, sum });
        }
    }
}
