//! Properties of leaving: invariants, and states that must be reached.

use stateright::Property;

use super::rule::may_decide;
use super::state::{State, View};
use super::{Leaving, PROCESSES};

/// See the property.
pub const ONE_DECISION: &str = "one decree decides one view";
/// See the property.
pub const NOBODY: &str = "a view of nobody is decided only if all that live in the one before asked to leave";
/// A decision is not lost with its leavers.
pub const FINDABLE: &str = "whoever stays can find what was decided, while a quorum of those that stay did not crash";
/// See the property.
pub const CAN_GO_ON: &str = "a quorum of which nobody leaves can go on";
/// See the property.
pub const OVER: &str = "no cell is founded anew while a process lives in the old one";
/// See the property.
pub const CAN_REFOUND: &str =
    "when all have left in order and started again, the cell can be founded without a command";

/// All properties of a model. States that its bounds cannot reach are not required.
pub(super) fn all(model: &Leaving) -> Vec<Property<Leaving>> {
    let mut all = vec![
        Property::always(ONE_DECISION, |_, s: &State| !s.split),
        Property::always(NOBODY, |_, s: &State| !s.dropped),
        Property::always(FINDABLE, findable),
        Property::always(CAN_GO_ON, can_go_on),
        Property::always(OVER, |_, s: &State| {
            !s.processes.iter().any(|p| p.anew) || !(0..PROCESSES).any(|at| s.lives_in_it(at))
        }),
        Property::always(CAN_REFOUND, can_refound),
        Property::sometimes("all leave in one decree", |_, s: &State| {
            s.views[1..]
                .iter()
                .zip(&s.views)
                .any(|(v, before)| v.decided && v.set() == 0 && before.set().count_ones() > 1)
        }),
        Property::sometimes("the first leaves, and goes", |_, s: &State| {
            s.processes[0].gone && s.views[1].decided && s.views[1].set() != 0
        }),
    ];
    if usize::from(model.starts) >= model.founders {
        all.push(Property::sometimes("a cell is founded again", |_, s: &State| s.processes[0].anew));
        if model.crashes > 0 {
            all.push(Property::sometimes("a cell is founded again after a member crashed", |_, s: &State| {
                s.processes[0].anew && s.crashes > 0
            }));
        }
    }
    if model.starts > 0 && model.decrees > 1 {
        all.push(Property::sometimes("who left comes back", |_, s: &State| {
            s.processes.iter().any(|p| p.life > 1 && p.view > 1)
        }));
    }
    all
}

/// The slots of processes that live in the view of that number.
fn present(s: &State, number: usize) -> u8 {
    let there = |at: &usize| {
        let p = &s.processes[*at];
        s.lives_in_it(*at) && usize::from(p.view) == number && s.views[number - 1].members[*at] == p.life
    };
    (0..PROCESSES).filter(there).fold(0, |set, at| set | 1 << at)
}

/// A member of the last view that did not install it can learn of it from a running process that knows it, or finds it
/// with a quorum of its own view. Required while a quorum of each of the two views did not crash; leaving in order is
/// no crash.
fn findable(_: &Leaving, s: &State) -> bool {
    let last = s.last();
    let running = |view: &View| {
        let runs = |at: &usize| s.processes[*at].lives && s.processes[*at].life == view.members[*at];
        (0..PROCESSES).filter(runs).fold(0, |set, at| set | 1 << at)
    };
    let stand = |view: &View| view.is_quorum(view.set(), view.gone | running(view));
    let late = |at: &usize| s.lives_in_it(*at) && s.views[last].members[*at] == s.processes[*at].life;
    (0..PROCESSES).filter(late).all(|at| {
        let number = usize::from(s.processes[at].view);
        let before = &s.views[number - 1];
        let knows = |other: usize| {
            let p = &s.processes[other];
            p.lives && (usize::from(p.view) > number || (p.out && usize::from(p.view) >= number))
        };
        let installed = number > last;
        let finds = (0..PROCESSES).any(knows) || before.is_quorum(before.set(), running(before));
        installed || finds || !stand(before) || !stand(&s.views[last])
    })
}

fn can_go_on(model: &Leaving, s: &State) -> bool {
    let last = s.last();
    let (view, there) = (&s.views[last], present(s, last + 1));
    let calm = (0..PROCESSES).filter(|at| there & 1 << at != 0).all(|at| !s.processes[at].wants);
    !calm || there == 0 || !view.is_quorum(view.set(), there) || may_decide(model, view, there, 0)
}

/// If no process crashed, all left and all run again, one of them holds the record that the instance ended.
fn can_refound(model: &Leaving, s: &State) -> bool {
    let calm = s.crashes == 0 && (0..model.processes).all(|at| s.searches(at));
    let joins = s.views[s.last()].set() != 0;
    !calm || joins || s.processes.iter().any(|p| p.record.ended)
}
