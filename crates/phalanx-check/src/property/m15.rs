//! M15, a membership ends for a reason: an application is told that it is out of a group for good only after it asked to
//! leave the group or the cell, after its incarnation was excluded or gave its cell up, when the group stopped or the others
//! could not make sense of what it sent (M12), when the join was refused, after a state that made no sense here, or with
//! its process. It is told which.
//!
//! Instances: ends of memberships; *under failure*: those that were not asked for. Source: the public interface; an
//! application that is told that it left, and had not asked to, cannot know what to do.

use phalanx_trace::{LeaveReason, MembershipEnd};

use super::Run;
use crate::findings::Findings;
use crate::model::{Model, Moment, Over, Proc};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (p, proc) in model.procs.iter().enumerate() {
        for (name, why, told) in &proc.told.ended {
            let asked = was_asked(model, proc, name, *told);
            out.instance_when(!asked);
            let is_so = match why {
                MembershipEnd::Refused | MembershipEnd::Differs => true,
                MembershipEnd::Over => proc.crashed.is_some() || proc.ended.is_some() || proc.over.is_some(),
                // Whether it had cause to leave the cell by itself is M12.
                MembershipEnd::Left(LeaveReason::Left) => asked || matches!(proc.over, Some((Over::Left, _))),
                MembershipEnd::Left(reason @ (LeaveReason::Nonsense | LeaveReason::Stopped)) => {
                    let mut stays = proc.epochs.iter().map(|&e| &model.epochs[e]);
                    stays.any(|stay| {
                        let of = &model.groups[model.views[stay.view].group].name;
                        of == name && stay.lost.is_some_and(|(lost, _)| lost == *reason)
                    })
                }
                MembershipEnd::Left(_) => matches!(proc.over, Some((Over::Excluded(_) | Over::Renounced, _))),
            };
            if !is_so {
                out.violation(&[told.place], || {
                    format!("{} told that it is out of group {name:?} ({why:?}), and it is not so", model.who(p))
                });
            }
        }
    }
}

/// Whether it had asked to leave the group or the cell, or had refused the group's state.
fn was_asked(model: &Model, proc: &Proc, name: &str, told: Moment) -> bool {
    let before = |moment: &Moment| moment.place.index < told.place.index;
    let mut groups = proc.group_leaves.iter().filter(|(_, asked)| before(asked));
    let of = |id: u32| model.groups.iter().any(|group| group.id == id && group.name == name);
    let mut senseless = proc.told.senseless.iter().filter(|(_, told)| before(told));
    proc.leave_asked.is_some_and(|asked| before(&asked))
        || groups.any(|(id, _)| of(*id))
        || senseless.any(|(other, _)| other == name)
}
