//! V5, quiescence: let some time (the bound) have passed in the quiet phase since any application last sent or
//! requested something, or was notified of a view. Then no process sends more packets a second than heartbeats need.
//!
//! Evaluated only if V1 holds and no process outside of the view runs (one that is kept out of the cell keeps asking),
//! over the longest stretch of counts, if that is at least a second. The harness's record says how many packets
//! heartbeats need.
//!
//! Instances: processes. Source: failure detection by heartbeats is not quiescent (Aguilera, Chen, Toueg 1997); what
//! remains beside them must stop.

use super::{Run, v8};
use crate::findings::Findings;
use crate::model::Proc;

/// Members probe their paths once a second or so, and send three times as much then.
const STRETCH_NS_MIN: u64 = 1_000_000_000;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let (model, Some((calm_ns, quiet))) = (run.model, v8::calm(run)) else { return };
    let outside = |proc: &Proc| proc.is_kept_out(quiet.end_ns) && proc.over.is_none() && proc.crashed.is_none();
    if model.procs.iter().any(outside) {
        return;
    }
    for &p in &quiet.running {
        let counts = model.harness.traffic.get(&p).into_iter().flatten();
        let mut calm = counts.filter(|t| t.moment.at_ns >= calm_ns && t.moment.at_ns <= quiet.end_ns);
        let (Some(first), Some(last)) = (calm.next(), calm.next_back()) else { continue };
        let took_ns = last.moment.at_ns.saturating_sub(first.moment.at_ns);
        if took_ns < STRETCH_NS_MIN {
            continue;
        }
        out.instance();
        let packets = last.packets.saturating_sub(first.packets);
        let most = u128::from(first.idle.max(last.idle)) * u128::from(took_ns) / 1_000_000_000;
        if u128::from(packets) > most {
            let text = || {
                let who = model.who(p);
                format!(
                    "{who} sent {packets} packets in {} ms with nothing to say, {most} would do",
                    took_ns / 1_000_000
                )
            };
            out.violation(&[first.moment.place, last.moment.place], text);
        }
    }
}
