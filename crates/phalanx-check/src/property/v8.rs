//! V8, memory: no bounded buffer ever holds more than its limit; and in the quiet phase, the bound after the last thing that
//! any application sent, asked for or was told of who is there, each holds no more than it does when idle.
//!
//! Limits, idle sizes and the moments of looking are the harness's. The second half is judged only if V1 holds and
//! nobody outside runs.
//!
//! Instances: looks at a buffer that held something, and looks in the calm. Source: the project's own bounds; retransmission
//! that goes on long after a partition has healed is a defect known from the field.

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

/// From when on nothing is left to be said, and the quiet phase it is in.
pub(super) fn calm<'a>(run: &'a Run<'_>) -> Option<(u64, &'a Quiet)> {
    let quiet = v4::due(run).filter(|q| !q.broken_outside)?;
    let active = run.model.traces.iter().map(|t| t.last_active_ns).max()?;
    Some((active.max(quiet.from_ns).saturating_add(run.options.calm_bound_ns), quiet))
}
