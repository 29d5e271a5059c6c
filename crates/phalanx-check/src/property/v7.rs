//! V7, a minority knows. Let a process run, read its events, and stay in one cell view for the whole bound, and let no
//! quorum of that view (itself included) reach it in that time. Then at the end of that time it considers itself cut
//! off, by its own record (*not primary*), or it is over. While nothing changes it may revoke that only if a quorum did
//! reach it within the bound before, because silence is noticed late; and then it says so again within the bound.
//!
//! A member reaches it when the harness neither killed nor stopped the member and did not cut the link from it. Links
//! that lose much count as whole. Packets that were under way at the cut may still arrive: if the network is in trouble
//! then, the time counts from that trouble's end.
//!
//! Time under attack does not count: an attacker that replays old packets carries them around a cut.
//!
//! Instances: such times, one for each loss of the quorum. Source: primary partition (Ricciardi and Birman 1991): the
//! others block, and say so.

use phalanx_trace::Trouble;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::{CellInstall, Model, Moment, ProcIx, Span};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let Some(harness) = model.one_clock() else { return };
    let absences = model.absences();
    let end_ns = model.harness.ended.map_or(model.traces[harness.trace].last_at_ns, |m| m.at_ns);
    for (p, proc) in model.procs.iter().enumerate().filter(|(_, p)| p.trace.is_some()) {
        for (i, &install) in proc.installs.iter().enumerate() {
            let view = &model.installs[install];
            let next = proc.installs.get(i + 1).map(|&next| model.installs[next].moment);
            let ends = [next, proc.over.map(|(_, m)| m), proc.crashed, proc.ended];
            let until_ns = ends.into_iter().flatten().map(|m| m.at_ns).fold(end_ns, u64::min);
            if until_ns.saturating_sub(view.moment.at_ns) < run.options.cut_off_bound_ns {
                continue;
            }
            let reading = model.harness.troubles.get(&(Trouble::NotReading, Some(p))).map_or(&[][..], Vec::as_slice);
            // An attacker that replays old packets carries them around a cut.
            let attacks = &model.harness.attacks;
            let own: Vec<Span> = absences[p].iter().chain(reading).chain(attacks).copied().collect();
            let out_of = out_of_reach(model, view, &absences, until_ns);
            for (from, to_ns) in without_quorum(run, view, &out_of, &own, until_ns) {
                let bound_ns = run.options.cut_off_bound_ns;
                let deadline = from.at_ns.saturating_add(bound_ns);
                if deadline > to_ns {
                    continue;
                }
                out.instance();
                let here = |m: &Moment| m.place.index > view.moment.place.index && m.at_ns < to_ns;
                let told = || proc.primacy.iter().filter(|(_, m)| here(m));
                let first = told().rfind(|(_, m)| m.at_ns <= deadline);
                // Revoked: with reason, and for no longer than the bound? Events that an application reads when it
                // begins to read again happened before.
                let read_late = |m: &Moment| reading.iter().any(|r| r.to.is_some_and(|to| to.at_ns == m.at_ns));
                let mut taken_back =
                    told().filter(|(primary, m)| *primary && m.at_ns >= from.at_ns && !read_late(m)).map(|&(_, m)| m);
                let again = taken_back.find(|m| {
                    let ends_ns = m.at_ns.saturating_add(bound_ns);
                    let said = told().any(|(primary, n)| !primary && n.at_ns > m.at_ns && n.at_ns <= ends_ns);
                    !heard_lately(run, &out_of, m.at_ns) || (ends_ns < to_ns && !said)
                });
                let holds = |(primary, m): &(bool, Moment)| !primary || (m.at_ns >= from.at_ns && !read_late(m));
                if first.is_some_and(holds) && again.is_none() {
                    continue;
                }
                let text = || {
                    format!(
                        "{} is reached by no quorum of cell view {} and does not hold itself cut off",
                        model.who(p),
                        view.view
                    )
                };
                let evidence: Vec<Place> =
                    [view.moment.place, from.place].into_iter().chain(again.map(|m| m.place)).collect();
                out.violation(&evidence, text);
            }
        }
    }
}

/// Times in which each member of `view`, by its rank, could not reach the installer.
fn out_of_reach(model: &Model, view: &CellInstall, absences: &[Vec<Span>], until_ns: u64) -> Vec<Vec<Span>> {
    let rough = model.harness.troubles.get(&(Trouble::Network, None)).map_or(&[][..], Vec::as_slice);
    // Packets that were delayed in the network arrive by the time its trouble ends.
    let last_heard = |s: &Span| match rough.iter().find(|r| r.covers(s.from.at_ns, s.from.at_ns)) {
        None => Some(*s),
        Some(r) => r.to.filter(|to| s.to.is_none_or(|end| end.at_ns > to.at_ns)).map(|from| Span { from, to: s.to }),
    };
    let spans =
        |q: ProcIx| absences[q].iter().chain(model.cut(q, view.proc)).filter_map(last_heard).collect::<Vec<_>>();
    let met = |q| met(&spans(q), view, until_ns);
    view.members.iter().map(|&q| if q == view.proc { Vec::new() } else { met(q) }).collect()
}

/// The parts of `spans` that fall into the stay in `view`.
fn met(spans: &[Span], view: &CellInstall, until_ns: u64) -> Vec<Span> {
    spans.iter().filter(|s| s.meets(view.moment.at_ns, until_ns)).copied().collect()
}

/// Whether a quorum of `view` reached its installer within the bound before `at_ns`, if not all at once.
fn heard_lately(run: &Run<'_>, out_of: &[Vec<Span>], at_ns: u64) -> bool {
    let since_ns = at_ns.saturating_sub(run.options.cut_off_bound_ns);
    let lately = |rank: usize| !out_of[rank].iter().any(|s| s.covers(since_ns, at_ns));
    let count = (0..out_of.len()).filter(|&rank| lately(rank)).count();
    run.options.quorum.holds(out_of.len(), count, lately(0))
}

/// The longest times within the stay in `view` in which no quorum reaches its installer, and no span of `own`
/// interferes.
fn without_quorum(
    run: &Run<'_>,
    view: &CellInstall,
    out_of: &[Vec<Span>],
    own: &[Span],
    until_ns: u64,
) -> Vec<(Moment, u64)> {
    let begun = view.moment;
    if out_of.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let own = met(own, view, until_ns);
    let mut changes: Vec<Moment> =
        out_of.iter().chain([&own]).flatten().flat_map(|s| [Some(s.from), s.to]).flatten().collect();
    changes.retain(|m| m.at_ns > begun.at_ns && m.at_ns < until_ns);
    changes.push(begun);
    changes.sort_by_key(|m| m.at_ns);
    changes.dedup_by_key(|m| m.at_ns);
    let mut times: Vec<(Moment, u64)> = Vec::new();
    let mut open = None;
    for &at in &changes {
        let inside = |s: &Span| s.from.at_ns <= at.at_ns && s.to.is_none_or(|to| to.at_ns > at.at_ns);
        let reaches = |rank: usize| !out_of[rank].iter().any(inside);
        let count = (0..view.members.len()).filter(|&rank| reaches(rank)).count();
        let lost = !run.options.quorum.holds(view.members.len(), count, reaches(0)) && !own.iter().any(inside);
        match (lost, open) {
            (true, None) => open = Some(at),
            (false, Some(from)) => {
                times.push((from, at.at_ns));
                open = None;
            }
            _ => {}
        }
    }
    times.extend(open.map(|from| (from, until_ns)));
    times
}
