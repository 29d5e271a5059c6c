//! States of users that their application refuses.

use std::sync::Arc;
use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::{Delivery, GroupView, Incarnation, Order, Snapshot};
use phalanx_sim::{Cell, Machine, Machines, ToSend, WorldSettings, equip};

const SECOND: Duration = Duration::from_secs(1);
/// Of the moments at which something is asked for.
const STEP: Duration = Duration::from_micros(200);

/// A state of some bytes, the same at all. One process refuses each that it is given.
struct Fixed {
    refuses: bool,
}

/// Its snapshot.
struct Zeros;

const STATE_BYTES: u64 = 20_000;

impl Snapshot for Zeros {
    fn len_bytes(&self) -> u64 {
        STATE_BYTES
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let rest = usize::try_from(STATE_BYTES - offset).expect("a small state");
        out.resize(out.len() + rest.min(max_bytes), 0);
    }
}

impl Machine for Fixed {
    fn apply(&mut self, _delivery: &Delivery<'_>) {}

    fn view(&mut self, _view: &Arc<GroupView>, _me: Incarnation) {}

    fn view_replayed(&mut self, _view: &Arc<GroupView>, _me: Incarnation) {}

    fn snapshot(&mut self) -> Box<dyn Snapshot> {
        Box::new(Zeros)
    }

    fn begin(&mut self, _bytes: u64, _listed: Option<&Arc<[phalanx_core::Domain]>>) {}

    fn restore(&mut self, _chunk: &[u8]) {}

    fn complete(&mut self) -> Result<(), String> {
        if self.refuses { Err("it is odd".to_owned()) } else { Ok(()) }
    }

    fn keep(&mut self) {}

    fn digest(&mut self) -> u64 {
        7
    }

    fn act(&mut self, _rng: &mut Rng, _order: Order) -> Vec<ToSend> {
        Vec::new()
    }

    fn check(&mut self) {}
}

/// A slow application has yet to read the state that its process was given, when the only other member with it leaves. A
/// third process asks the slow one for the state, and then its application refuses it. The leave of that one would wait
/// for the joiner to which it gives the state, and it has none.
#[test]
fn a_group_does_not_go_on_through_who_refused_its_state() {
    for step in 0..12 {
        let mut cell = Cell::new(WorldSettings::quiet(3), 60).titled(format!("step {step}"));
        equip(&mut cell, &Machines::new(|slot| Box::new(Fixed { refuses: slot == 1 })).may_refuse());
        for slot in 0..3 {
            cell.start(slot);
        }
        cell.settle();
        cell.join(0, "g");
        assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(0, "g").is_some()));
        cell.set_takes(1, false);
        cell.join(1, "g");
        assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(0, "g").is_some_and(|(_, members)| members == 2)));
        cell.run_for(100 * STEP);
        cell.leave_group(0, "g").expect("it is a member");
        assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(0, "g").is_none()));
        cell.join(2, "g");
        cell.run_for(step * STEP);
        cell.set_takes(1, true);
        let comes = cell.run_until(20 * SECOND, |cell| cell.group_view(2, "g").is_some());
        assert!(comes, "step {step}: the group is stuck");
        assert_eq!(cell.group_view(1, "g"), None, "step {step}: the group goes on through who refused its state");
        cell.settle();
        cell.finish_clean();
    }
}
