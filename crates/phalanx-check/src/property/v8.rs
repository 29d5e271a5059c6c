//! V8, memory: no bounded buffer ever holds more than its limit. In the quiet phase, once the bound has passed since
//! any application last sent or requested something, or was notified of a view, each holds no more than when idle.
//!
//! The harness records limits, idle sizes and samples. The second half is evaluated only if V1 holds and no process
//! outside of the view runs.
//!
//! Instances: samples of a buffer that held something, and samples in the calm. Source: the project's own bounds;
//! retransmission that goes on long after a partition has healed is a defect known from the field.

use super::{Run, v4};
use crate::findings::Findings;
use crate::model::quiet::Quiet;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let calm = calm(run);
    for gauge in &model.harness.gauges {
        let at_ns = gauge.moment.at_ns;
        let in_calm = calm.as_ref().is_some_and(|(from_ns, quiet)| {
            at_ns >= *from_ns && at_ns <= quiet.end_ns && quiet.running.contains(&gauge.proc)
        });
        let most = if in_calm { gauge.limit.min(gauge.idle) } else { gauge.limit };
        out.instances += u64::from(in_calm || gauge.value > 0);
        if gauge.value > most {
            let text = || {
                let (who, name, value) = (model.who(gauge.proc), &gauge.name, gauge.value);
                let when = if gauge.value > gauge.limit { "" } else { " in the calm" };
                format!("{name} of {who} holds {value}{when}, {most} is the most")
            };
            out.violation(&[gauge.moment.place], text);
        }
    }
}

/// Begin of the calm, in which nothing is left to be sent, and its quiet phase.
pub(super) fn calm<'a>(run: &'a Run<'_>) -> Option<(u64, &'a Quiet)> {
    let quiet = v4::due(run).filter(|q| !q.broken_outside)?;
    let active = run.model.traces.iter().map(|t| t.last_active_ns).max()?;
    Some((active.max(quiet.from_ns).saturating_add(run.options.calm_bound_ns), quiet))
}
