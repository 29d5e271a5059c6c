//! The machine of a user in the groups of one application.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::{GroupId, GroupView, Incarnation, Order};

use super::{App, Group};
use crate::machine::{Held, ToSend};
use crate::oracle::{fold, hash_bytes};

impl Group {
    /// A digest of all that the member holds. Members at the same point of a view have the same one.
    pub(super) fn digest(&mut self) -> u64 {
        let own = match &self.clients {
            Some(clients) => fold(self.state.digest() ^ hash_bytes(&clients.encode()).rotate_left(16)),
            None => self.state.digest(),
        };
        self.machine.as_mut().map_or(own, |machine| fold(own ^ machine.digest().rotate_left(32)))
    }
}

impl App {
    /// The machine with which a stay in a group begins: that of an earlier incarnation, which this process still holds,
    /// or a new one.
    pub(super) fn machine_of(&mut self, id: GroupId, name: &str) -> Option<Held> {
        let maker = self.maker.as_ref()?;
        Some(take_kept(&mut self.kept, id, name).unwrap_or_else(|| maker.make()))
    }

    /// Tells a machine of a view. Before the view is recorded, as the state that it holds then is.
    pub(super) fn machine_view(&mut self, view: &Arc<GroupView>) {
        let machine = match self.groups.get(&view.group) {
            Some(Group { machine: Some(_), .. }) => None,
            _ => self.machine_of(view.group, &view.name),
        };
        let group = self.groups.entry(view.group).or_default();
        if machine.is_some() {
            group.machine = machine;
        }
        if let Some(machine) = &mut group.machine {
            machine.view(view, Incarnation(self.calls.me));
        }
    }

    /// The messages of the user's workload to a group.
    pub(crate) fn act(&mut self, id: GroupId, order: Order) -> Vec<ToSend> {
        let machine = self.groups.get_mut(&id).and_then(|group| group.machine.as_mut());
        match (machine, &mut self.maker) {
            (Some(machine), Some(maker)) => machine.act(&mut maker.rng, order),
            _ => Vec::new(),
        }
    }
}

fn take_kept(kept: &mut BTreeMap<GroupId, Group>, id: GroupId, name: &str) -> Option<Held> {
    let same = kept.get_mut(&id).and_then(|group| group.machine.take());
    same.or_else(|| kept.values_mut().rev().find(|group| group.name == name)?.machine.take())
}
