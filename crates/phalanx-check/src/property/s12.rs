//! S12, each accepted multicast has one outcome: when a life ends (an incarnation of a membership), its application was
//! told of each multicast that it had accepted in it that it is stable, in doubt, or not sent, whether or not anybody
//! awaits it. Exactly those are told as not sent that were not sent.
//!
//! Instances: lives; *under failure*: those that ended with multicasts in doubt or not sent. Source: S8 and S10 as the
//! application sees them.

use super::Run;
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    for (p, proc) in model.procs.iter().enumerate() {
        for life in &proc.told.lives {
            out.instance_when(life.not_sent > 0 || life.in_doubt > 0);
            let told = life.stable.saturating_add(life.not_sent).saturating_add(life.in_doubt);
            if told == life.accepted && life.sent.saturating_add(life.not_sent) == life.accepted {
                continue;
            }
            out.violation(&[life.moment.place], || {
                format!(
                    "{} accepted {} multicasts in group {} and sent {}; it told that {} are stable, {} in doubt and {} not sent",
                    model.who(p),
                    life.accepted,
                    life.group,
                    life.sent,
                    life.stable,
                    life.in_doubt,
                    life.not_sent
                )
            });
        }
    }
}
