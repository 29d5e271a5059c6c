//! S11, an application is told *stable* only what enough members have: let the application of `p` be told that its
//! multicasts in the group view `v` are stable up to number `k`.
//!
//! - `p` was notified before that they are stable (S10), and what it is told of `v` grows.
//! - By the last notices of its cell view and of its group view there are as many members as agreed.
//! - At least as many members as agreed can have each: those of `v` that were not out of reach from the send until it was
//!   told, and those of later views that somebody installed before, if they were not out of reach since.
//!
//! Instances: notices; *under failure*: those in groups or cells with a minimum above 1. Source: stability (Chockler,
//! Keidar, Vitenberg 2001), and the least size of a primary partition: what somebody was told must not be undone by the
//! failure of one process.

use std::collections::{BTreeMap, BTreeSet};

use super::u3::out_of_reach;
use super::u7::GROUP_MINIMA_LEVEL;
use super::{Run, s10};
use crate::findings::{Findings, Place};
use crate::model::{Adequacy, Model, Moment, ProcIx, ToldStable, ViewIx};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let sends = s10::sends(model);
    for (p, proc) in model.procs.iter().enumerate() {
        let before = |moment: &Moment, told: &ToldStable| moment.place.index < told.moment.place.index;
        let mut receipts = proc.receipts.iter().peekable();
        let mut notices = proc.adequacy.iter().peekable();
        // What it was notified of so far, by view, and the last notice of the cell and of each group.
        let mut known: BTreeMap<ViewIx, u64> = BTreeMap::new();
        let mut adequacy: BTreeMap<Option<u32>, &Adequacy> = BTreeMap::new();
        let mut last: BTreeMap<ViewIx, &ToldStable> = BTreeMap::new();
        for told in &proc.told.stable {
            while let Some(receipt) = receipts.next_if(|receipt| before(&receipt.moment, told)) {
                known.insert(receipt.view, receipt.seq);
            }
            while let Some(notice) = notices.next_if(|notice| before(&notice.moment, told)) {
                adequacy.insert(notice.group, notice);
            }
            let least = least(model, p, told);
            out.instance_when(least > 1);
            let what =
                || format!("{} told that its message {} in {}", model.who(p), told.seq, model.view_name(told.view));
            if known.get(&told.view).is_none_or(|seq| *seq < told.seq) {
                out.violation(&[told.moment.place], || format!("{} is stable, and was not notified so", what()));
            }
            if let Some(earlier) = last.insert(told.view, told).filter(|earlier| earlier.seq >= told.seq) {
                out.violation(&[earlier.moment.place, told.moment.place], || format!("{} is stable again", what()));
            }
            let group = model.groups[model.views[told.view].group].id;
            for few in [None, Some(group)].iter().filter_map(|of| adequacy.get(of)).filter(|notice| !notice.adequate) {
                out.violation(&[few.moment.place, told.moment.place], || {
                    format!("{} is stable, with too few members", what())
                });
            }
            let of = sends.get(&(p, told.view)).filter(|_| least > 1 && model.one_clock().is_some());
            let sent = of.and_then(|sends| sends.get(usize::try_from(told.seq.checked_sub(1)?).ok()?));
            if let Some((_, sent)) = sent.filter(|(_, sent)| has_minima(model, p, *sent)) {
                enough(run, p, told, *sent, least, out);
            }
        }
    }
}

/// The least members with the group's state, by its terms in that view, or in the last one that it installed. A message may be
/// sent in a view that its application never sees.
fn least(model: &Model, p: ProcIx, told: &ToldStable) -> u64 {
    let group = model.views[told.view].group;
    let stays = model.procs[p].epochs.iter().map(|&e| &model.epochs[e]);
    let mut stays = stays.filter(|stay| {
        model.views[stay.view].group == group && model.views[stay.view].number <= model.views[told.view].number
    });
    stays.next_back().and_then(|stay| stay.terms).map_or(1, |terms| terms.members_min)
}

/// Whether minima of groups were in force when it was sent.
fn has_minima(model: &Model, p: ProcIx, sent: Moment) -> bool {
    let mut installs = model.procs[p].installs.iter().map(|&i| &model.installs[i]);
    let last = installs.rfind(|install| install.moment.place.index < sent.place.index);
    last.and_then(|install| install.level).is_some_and(|(level, _)| level >= GROUP_MINIMA_LEVEL)
}

/// Whether that many can have the message.
fn enough(run: &Run<'_>, p: ProcIx, told: &ToldStable, sent: Moment, least: u64, out: &mut Findings) {
    let (model, slack) = (run.model, run.options.clock_slack_ns);
    let view = &model.views[told.view];
    let mut away: Vec<Place> = Vec::new();
    let mut have: BTreeSet<ProcIx> = BTreeSet::from([p]);
    let mut reach = |members: &[ProcIx], since_ns: u64, of: ViewIx| {
        for &q in members.iter().filter(|&&q| q != p) {
            let mut spans = out_of_reach(model, of, q, &run.absences[q]).into_iter();
            let missed = spans.find(|away| {
                let begins = away.from.0.saturating_add(slack) < since_ns;
                begins && away.to_ns > told.moment.at_ns.saturating_add(slack)
            });
            match missed {
                Some(span) => away.push(span.from.1),
                None => _ = have.insert(q),
            }
        }
    };
    match view.members.is_empty() {
        true => reach(&may_be_in(model, told, sent), sent.at_ns, told.view),
        false => reach(&view.members, sent.at_ns, told.view),
    }
    // Who came later has the message with the state. A process may have that, and a view, before its application reads.
    for (_, &later) in model.groups[view.group].views.range(view.number + 1..) {
        let installs = model.views[later].epochs.iter().map(|&e| model.epochs[e].install.at_ns);
        if let Some(since_ns) = installs.min().filter(|first_ns| *first_ns <= told.moment.at_ns) {
            reach(&model.views[later].members, since_ns, later);
        }
    }
    if (have.len() as u64) < least {
        let evidence: Vec<Place> = away.into_iter().chain([sent.place, told.moment.place]).collect();
        out.violation(&evidence, || {
            let (who, view, seq) = (model.who(p), model.view_name(told.view), told.seq);
            format!("{who} told that its message {seq} in {view} is stable, and {} of {least} can have it", have.len())
        });
    }
}

/// Who may be in a view that nobody installed: the members of the last one that somebody did, and those that asked to join,
/// but for those that were out of the group before the message was sent and did not ask since. Who installed a later view and
/// not this one was not in it.
fn may_be_in(model: &Model, told: &ToldStable, sent: Moment) -> Vec<ProcIx> {
    let view = &model.views[told.view];
    let group = &model.groups[view.group];
    let mut known = group.views.range(..view.number).rev().map(|(_, &of)| &model.views[of]);
    let last = known.find(|of| !of.members.is_empty()).map_or(&[][..], |of| &of.members);
    let may_be = |q: &ProcIx| {
        let proc = &model.procs[*q];
        let stays = proc.epochs.iter().map(|&e| &model.epochs[e]);
        let mut stays = stays.filter(|stay| model.views[stay.view].group == view.group);
        if stays.clone().any(|stay| model.views[stay.view].number > view.number) {
            return false;
        }
        let stay = stays.rfind(|stay| stay.install.at_ns <= sent.at_ns);
        let left = stay.and_then(|stay| stay.left_at).filter(|left| left.at_ns < sent.at_ns);
        let since_ns = left.map_or(0, |left| left.at_ns);
        let asked = |at_ns: u64| (since_ns..=told.moment.at_ns).contains(&at_ns);
        let asks = proc.group_joins.iter().any(|join| join.name == group.name && asked(join.asked.at_ns));
        match stay {
            Some(_) if left.is_none() => last.contains(q),
            _ => asks,
        }
    };
    (0..model.procs.len()).filter(may_be).collect()
}
