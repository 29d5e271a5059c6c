//! Operations of users on the objects of a group, and the resources that the locks guard.

use phalanx_core::rng::Rng;
use phalanx_core::{Order, Uniformity};
use phalanx_trace::{Action, Event};

use crate::app::App;
use crate::objects::{ACCOUNTS, KEYS, LOCKS};
use crate::plan::Workload;
use crate::resources::Use;
use crate::world::World;

impl World {
    /// Uses the resources whose locks this process believes to hold. Then, in some cases, invokes an operation instead
    /// of a multicast. Returns whether it did.
    pub(crate) fn operate(&mut self, index: usize, workload: &Workload) -> bool {
        if workload.operations_ppm == 0 {
            return false;
        }
        self.use_locked(index);
        let slot = &mut self.slots[index];
        if !slot.rng.chance_ppm(workload.operations_ppm) {
            return false;
        }
        let Some(group) = slot.app.objects_group() else { return false };
        self.guarded.values += 1;
        let Some(action) = draw_action(&mut slot.rng, &slot.app, self.guarded.values) else { return false };
        slot.app.now_ns = self.now_ns;
        let command = slot.app.invoke(group, action);
        let asked = self.multicast(index, group, Order::Total, Uniformity::Uniform, &command.payload());
        if asked.is_err() {
            self.slots[index].app.not_sent(command.op);
        }
        true
    }

    fn use_locked(&mut self, index: usize) {
        let app = &mut self.slots[index].app;
        app.now_ns = self.now_ns;
        for (lock, resource) in self.guarded.resources.iter_mut().enumerate() {
            let token = app.calls.held[lock];
            if token > 0 {
                let Use { serial, accepted } = resource.use_with(token);
                let resource = u32::try_from(lock).unwrap_or(0);
                app.record(Event::Guard { resource, serial, token, accepted });
            }
        }
    }
}

/// Draws an operation: half are on registers, a quarter each on locks and accounts.
fn draw_action(rng: &mut Rng, app: &App, value: u64) -> Option<Action> {
    let mut below = |bound: usize| u32::try_from(rng.below(bound as u64)).unwrap_or(0);
    match below(8) {
        0 | 1 => Some(Action::Read { key: below(KEYS) }),
        2 => Some(Action::Write { key: below(KEYS), value }),
        3 => {
            let key = below(KEYS);
            Some(Action::Cas { key, expected: app.calls.seen[key as usize], value })
        }
        4 | 5 => {
            let lock = below(LOCKS);
            match app.calls.held[lock as usize] {
                0 => app.may_acquire(lock).then_some(Action::Acquire { lock }),
                token => Some(Action::Release { lock, token }),
            }
        }
        _ => Some(Action::Transfer { from: below(ACCOUNTS), to: below(ACCOUNTS), amount: u64::from(below(50)) }),
    }
}
