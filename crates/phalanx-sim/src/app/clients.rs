//! The table of the clients who submit to a group's state, in the state of a simulated application.

use std::sync::Arc;

use phalanx_core::{Delivery, GroupView, Incarnation};
use phalanx_life::{Clients, Decided, Execution, OpenRefused, Taken, Verdict};
use phalanx_trace::payload_hash;

use super::App;
use crate::program::place_of_clients;
use crate::state::CLIENTS_BOUNDS;

impl App {
    /// A view of a group came, also within a state transfer. Call it when its list is known.
    pub(super) fn clients_view(&mut self, view: &Arc<GroupView>) {
        let observes = view.observers.contains(&Incarnation(self.calls.me));
        // A user's machine has a table of its own.
        if self.maker.is_some() {
            return;
        }
        // As in `keeps_state`: who has asked to leave has it until then.
        let has_state = self.wanted.get(&*view.name) != Some(&false) && !observes && view.has_state != Some(false);
        let Some(group) = self.groups.get_mut(&view.group) else { return };
        let is_listed = group.list.as_ref().is_some_and(|list| place_of_clients(list).is_some());
        if !is_listed || !has_state || group.is_refused {
            group.clients = None;
            return;
        }
        // It begins anew in the view that lists it first.
        let clients = group.clients.get_or_insert_with(|| Clients::with_bounds(CLIENTS_BOUNDS));
        clients.view(view.view.0, |who| view.members.contains(&who));
    }

    /// A command of a client was delivered.
    pub(super) fn command_of_client(&mut self, delivery: &Delivery<'_>) {
        let Some(group) = self.groups.get_mut(&delivery.group) else { return };
        let Some(clients) = &mut group.clients else { return };
        let (before, _) = clients.size();
        let taken = clients.take(delivery.sender, delivery.payload);
        let (told, executed) = match taken {
            Taken::Nothing => (None, None),
            Taken::Told(told) => (Some(told), None),
            Taken::Execute(execution) => {
                let Execution { number, payload, .. } = &execution;
                // Also if its client goes by another name meanwhile.
                if !group.executed.insert(payload_hash(payload)) {
                    let text = format!("submit {number} of group {} was executed before", delivery.group.0);
                    self.faults.push(("executed_twice", text));
                }
                let result = group.state.execute(payload);
                let position = delivery.position.unwrap_or(0);
                let record = execution.record(delivery.group, delivery.view, position, &result);
                (Some(clients.executed(execution, result)), Some(record))
            }
        };
        let (after, _) = clients.size();
        let is = |verdict| told.as_ref().is_some_and(|told| told.what == verdict);
        if !is(Verdict::Closed) && after < before + usize::from(is(Verdict::Opened(Ok(())))) {
            self.program.note("clients dropped while away, at a member");
        }
        let is_executed = executed.is_some();
        if let Some(record) = executed {
            self.record(record);
            self.program.note("submits executed at a member");
        }
        let Some(told) = told else { return };
        let moment = match &told.what {
            Verdict::Opened(Err(OpenRefused::Full)) => Some("clients refused by a full table, at a member"),
            Verdict::Submitted { outcome: Decided::Full, .. } => Some("submits refused by a full table, at a member"),
            Verdict::Submitted { outcome: Decided::NotOpen, .. } => {
                Some("submits of clients that are not open, at a member")
            }
            Verdict::Submitted { outcome: Decided::Old, .. } => Some("submits that came after their acknowledgement"),
            Verdict::Submitted { outcome: Decided::Executed(_) | Decided::TooLong, .. } if !is_executed => {
                Some("answers found in a table, at a member")
            }
            _ => None,
        };
        moment.into_iter().for_each(|moment| self.program.note(moment));
        // What is replayed is of an earlier life.
        if !delivery.replayed {
            self.told.applied(delivery.group, &told);
        }
    }
}
