//! R8, answers: each place of an ask is filled once, by the member that it names. Let `q` be asked by `p`.
//!
//! - `q` is shown an ask for its own place only if it delivered it in that view, and that is expected of its rank; for another
//!   place only after that place was forwarded to it.
//! - `q` answers each place that it was shown once at most, and no other.
//! - An answer that counts at `p` is one that `q` gave: the same place, kind and value.
//! - In the quiet phase, between running, connected processes that are in one view of the group to its end, an answer that was
//!   given counts within the bound of V3 and V4, unless the ask ended. Evaluated only if V1 holds, and where `q` has as many
//!   members as agreed: uniform multicasts wait without them, and answers behind these.
//!
//! Instances: answers that were given; *under failure*: those for a place that was forwarded. Source: I1 and I2 for answers.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_trace::{AskReply, AskStep};

use super::{Run, r3, stays_in, v4};
use crate::findings::Findings;
use crate::model::{AskName, AskRecord, Moment, ProcIx};

/// What one member gave for a place.
type Given = (ProcIx, AskName, u16, AskReply, u64);

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut given: BTreeSet<Given> = BTreeSet::new();
    let mut asked: BTreeMap<AskName, &[u16]> = BTreeMap::new();
    let mut heard: BTreeSet<(AskName, u16, ProcIx)> = BTreeSet::new();
    let mut ended: BTreeSet<AskName> = BTreeSet::new();
    // To whom a place was forwarded.
    let mut forwarded: BTreeSet<(AskName, u16, u16)> = BTreeSet::new();
    let by_number: BTreeMap<u64, ProcIx> =
        model.procs.iter().enumerate().map(|(at, proc)| (proc.incarnation, at)).collect();
    for (q, AskRecord { ask, what, .. }) in records(run) {
        match what {
            AskStep::Opened { places, .. } => _ = asked.insert(*ask, places),
            AskStep::Replied { place, reply, hash } => _ = given.insert((q, *ask, *place, *reply, *hash)),
            AskStep::Heard { place, from, reply, .. } => {
                heard.extend(by_number.get(from).map(|from| (*ask, *place, *from)));
                if let AskReply::Forward(to) = reply {
                    forwarded.insert((*ask, *place, *to));
                }
            }
            AskStep::Ended(_) => _ = ended.insert(*ask),
            AskStep::Shown { .. } => {}
        }
    }
    let mut due: BTreeMap<(ProcIx, AskName, u16), Moment> = BTreeMap::new();
    for (q, AskRecord { ask, what, moment }) in records(run) {
        let asker_is_known = model.procs[ask.1].trace.is_some();
        let who = || format!("{} and the ask {}.{} of {}", model.who(q), ask.2, ask.3, model.who(ask.1));
        match what {
            AskStep::Shown { place, forwarded: is_forwarded, .. } => {
                let rank = rank_of(run, q, ask);
                let is_right = if *is_forwarded {
                    rank.is_some_and(|rank| forwarded.contains(&(*ask, *place, rank)))
                } else {
                    // The asker may have died before it delivered its own ask.
                    rank == Some(*place) && asked.get(ask).is_none_or(|places| places.contains(place))
                };
                if asker_is_known && !is_right {
                    out.violation(&[moment.place], || {
                        format!("{}: it is shown for a place that it is not to fill", who())
                    });
                }
                due.insert((q, *ask, *place), *moment);
            }
            AskStep::Replied { place, reply, .. } => {
                out.instance_when(rank_of(run, q, ask) != Some(*place));
                if due.remove(&(q, *ask, *place)).is_none() {
                    out.violation(&[moment.place], || {
                        format!("{}: the place of rank {place} is answered twice, or was not shown", who())
                    });
                }
                let is_gone = ended.contains(ask) || heard.contains(&(*ask, *place, q));
                let is_gone = is_gone || r3::has_few_members(run, q, ask.0);
                if asker_is_known && !is_gone && v4::is_overdue(run, ask.0, (q, ask.1), *moment).is_some() {
                    out.violation(&[moment.place], || {
                        format!("{}: the answer {reply} did not come within the bound", who())
                    });
                }
            }
            AskStep::Heard { place, from, reply, hash } => {
                let from = by_number.get(from).copied();
                let is_given = from.is_some_and(|from| given.contains(&(from, *ask, *place, *reply, *hash)));
                let is_known = from.is_some_and(|from| {
                    run.options.complete || model.procs[from].trace.is_some() && model.procs[from].tail_complete
                });
                if !is_given && (is_known || from.is_none()) {
                    out.violation(&[moment.place], || format!("{}: an answer counts that nobody gave", who()));
                }
            }
            AskStep::Opened { .. } | AskStep::Ended(_) => {}
        }
    }
}

fn records<'a>(run: &'a Run<'_>) -> impl Iterator<Item = (ProcIx, &'a AskRecord)> {
    run.model.procs.iter().enumerate().flat_map(|(at, proc)| proc.asks.iter().map(move |record| (at, record)))
}

/// The rank of a process in the view of an ask.
fn rank_of(run: &Run<'_>, q: ProcIx, (group, _, view, _): &AskName) -> Option<u16> {
    let model = run.model;
    let stay = stays_in(model, q, *group, *view).next_back()?;
    let rank = model.epochs[stay].members.iter().position(|who| *who == q)?;
    u16::try_from(rank).ok()
}
