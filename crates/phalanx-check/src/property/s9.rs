//! S9, a message to one process is received, or in doubt: let the incarnation of `p` end by a leave or an exclusion,
//! and let `q` be in the last cell view of `p`, and live on in the cell. Then `q` delivers each point-to-point message
//! that `p` accepted for it. The exception is the last ones, of which `p` is notified before its end that they are in
//! doubt. Evaluated for traces whose format has this record.
//!
//! `q` lives on if it neither crashes nor is excluded or leaves, and the harness does not keep it stopped to the end.
//!
//! Messages to a member of that view are in doubt, too, if it cannot have acknowledged them: it did not run, or the link
//! between the two carried nothing in one direction, from before the send to the end of `p` (with no attack meanwhile).
//! Of these and those after them `p` is notified, whatever becomes of `q`.
//!
//! Instances: pairs of such processes of which the first sent to the second; *under failure*: those with messages in
//! doubt, or that must be. Source: the stubborn and perfect links of Cachin, Guerraoui, Rodrigues 2011 promise nothing of a sender that
//! stops; this is what is left of reliable delivery for one that stops in order.

use phalanx_trace::FORMAT_IN_DOUBT;

use super::Run;
use crate::findings::Findings;
use crate::model::{Model, Moment, ProcIx, Span};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    if !run.options.complete {
        return;
    }
    for (p, proc) in model.procs.iter().enumerate() {
        let has_word = proc.trace.is_some_and(|trace| model.traces[trace].format >= FORMAT_IN_DOUBT);
        let Some(last) =
            proc.installs.last().map(|&install| &model.installs[install]).filter(|_| has_word && proc.over.is_some())
        else {
            continue;
        };
        for (&q, sent) in proc.p2p.sent.iter().filter(|(q, _)| last.members.contains(q)) {
            unacknowledged(run, (p, q), last.moment, out);
            if !lives_on(model, q) {
                continue;
            }
            let doubted = proc.p2p.in_doubt.get(&q);
            out.instance_when(doubted.is_some());
            let doubt = doubted.map_or(0, |(messages, _)| usize::try_from(*messages).unwrap_or(usize::MAX));
            let delivered = model.procs[q].p2p.delivered.get(&p).map_or(0, Vec::len);
            if delivered.saturating_add(doubt) >= sent.len() {
                continue;
            }
            let told_of = doubted.map(|(_, place)| *place);
            let evidence: Vec<_> = sent.get(delivered).map(|(_, place)| *place).into_iter().chain(told_of).collect();
            out.violation(&evidence, || {
                let (p, q, of) = (model.who(p), model.who(q), sent.len());
                format!(
                    "{q} delivered {delivered} of {of} messages of {p}, which was notified that {doubt} are in doubt"
                )
            });
        }
    }
}

/// Messages that the receiver cannot have acknowledged are in doubt: nothing passed from it to the sender, or the other
/// way, or it did not run, from the send to the end of the sender. `view`: the last cell view of both.
fn unacknowledged(run: &Run<'_>, (p, q): (ProcIx, ProcIx), view: Moment, out: &mut Findings) {
    let (model, proc) = (run.model, &run.model.procs[p]);
    let (Some((_, over)), Some(times)) = (proc.over, proc.p2p.sent_ns.get(&q)) else { return };
    if model.one_clock().is_none() {
        return;
    }
    // An attacker that replays old packets carries them around a cut. What was under way at the begin may arrive.
    let attacks = |span: &Span| model.harness.attacks.iter().any(|attack| attack.overlaps(span));
    let cuts = model.cut(q, p).iter().chain(model.cut(p, q)).filter(|span| !attacks(span)).copied();
    let away: Vec<Span> = cuts.chain(run.absences[q].iter().copied()).collect();
    let slack = run.options.clock_slack_ns;
    let lost = |sent_ns: u64| {
        let sent_ns = sent_ns.max(view.at_ns).saturating_sub(slack);
        // What is sent in the instant of a cut may have gone out before it.
        let is_before = |span: &&Span| span.from.at_ns < sent_ns;
        away.iter().filter(is_before).find(|span| span.covers(sent_ns, over.at_ns.saturating_add(slack)))
    };
    let first = times.iter().position(|&at| at >= view.at_ns && lost(at).is_some());
    let Some((first, span)) = first.and_then(|first| Some((first, lost(times[first])?))) else { return };
    out.instance_when(true);
    let doubt = proc.p2p.in_doubt.get(&q).map_or(0, |(messages, _)| usize::try_from(*messages).unwrap_or(usize::MAX));
    if doubt < times.len() - first {
        let sent = proc.p2p.sent.get(&q).and_then(|sent| sent.get(first)).map(|(_, place)| *place);
        let evidence: Vec<_> = [Some(span.from.place), sent, Some(over.place)].into_iter().flatten().collect();
        out.violation(&evidence, || {
            let (p, q, of) = (model.who(p), model.who(q), times.len() - first);
            format!("{q} cannot have acknowledged the last {of} messages of {p}, which was notified that {doubt} are in doubt")
        });
    }
}

/// Whether it was in the cell to the end of the run, and its application took its events.
pub(super) fn lives_on(model: &Model, q: ProcIx) -> bool {
    let proc = &model.procs[q];
    proc.over.is_none() && !proc.nonprimary && proc.tail_complete && model.reads_to_the_end(q)
}
