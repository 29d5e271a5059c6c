//! Measurements of a run, taken from the traces of its processes.

use std::collections::BTreeMap;

use phalanx_trace::{Event, LeaveReason};
use serde::Serialize;

use super::lab::Lab;
use crate::clock::SECOND;

/// Changes in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Number of cell views.
    pub views: u64,
    /// Members excluded against their will.
    pub exclusions: u64,
    /// State transfers completed.
    pub transfers: u64,
}

/// The longest wait for a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wait {
    pub(super) for_ns: u64,
    pub(super) since_ns: u64,
    /// The slot that waited.
    pub(super) slot: usize,
}

/// The longest time since the fault began for which a member on no faulty path was without a message of another such
/// one. If there is only one, its own messages count.
pub(super) fn longest_wait(lab: &Lab) -> Wait {
    let whole = lab.whole();
    let senders: BTreeMap<u64, usize> =
        whole.iter().flat_map(|slot| lives(lab, *slot).map(|life| (life, *slot))).collect();
    let is_alone = whole.len() == 1;
    let mut longest = Wait { slot: whole.first().copied().unwrap_or(0), ..Wait::default() };
    for &slot in &whole {
        let mut since_ns = lab.begun_ns;
        let records = lab.world.slots[slot].app.traces.iter().flat_map(|trace| &trace.records);
        let came = records.filter(|record| match record.event {
            Event::Deliver { sender, replayed, .. } => {
                !replayed && senders.get(&sender).is_some_and(|from| *from != slot || is_alone)
            }
            _ => false,
        });
        let times = came.map(|record| record.at_ns).filter(|at_ns| *at_ns >= lab.begun_ns);
        for at_ns in times.chain([lab.world.now_ns]) {
            if at_ns - since_ns > longest.for_ns {
                longest = Wait { for_ns: at_ns - since_ns, since_ns, slot };
            }
            since_ns = at_ns;
        }
    }
    longest
}

/// Members that views excluded without a reason in the fault, one name for each time.
pub(super) fn left_out(lab: &Lab) -> Vec<String> {
    let stay = (0..lab.members).filter(|slot| Some(*slot) != lab.hit.may_go);
    let lives: BTreeMap<u64, usize> = stay.flat_map(|slot| lives(lab, slot).map(move |life| (life, slot))).collect();
    let out = exclusions(lab).into_keys().filter_map(|(_, who)| lives.get(&who).copied());
    out.map(|slot| lab.world.slots[slot].name.clone()).collect()
}

/// Changes in each whole minute since the fault began.
pub(super) fn changes(lab: &Lab) -> Vec<Changes> {
    let minutes = lab.world.now_ns.saturating_sub(lab.begun_ns) / MINUTE_NS;
    let mut changes = vec![Changes::default(); usize::try_from(minutes).unwrap_or(0)];
    let mut count = |at_ns: u64, add: fn(&mut Changes)| {
        let minute = at_ns.checked_sub(lab.begun_ns).and_then(|after_ns| usize::try_from(after_ns / MINUTE_NS).ok());
        minute.and_then(|minute| changes.get_mut(minute)).into_iter().for_each(add);
    };
    let mut views: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (at_ns, event) in events(lab) {
        match event {
            Event::CellView { instance, view, .. } => first(&mut views, (*instance, *view), at_ns),
            Event::StateEnd { .. } => count(at_ns, |minute| minute.transfers += 1),
            _ => {}
        }
    }
    views.into_values().for_each(|at_ns| count(at_ns, |minute| minute.views += 1));
    exclusions(lab).into_values().for_each(|(at_ns, _)| count(at_ns, |minute| minute.exclusions += 1));
    changes
}

/// Exclusions since the load began: name, reason, and the seconds after that.
pub(super) fn excluded(lab: &Lab) -> Vec<String> {
    let names: BTreeMap<u64, usize> =
        (0..lab.members).flat_map(|slot| lives(lab, slot).map(move |life| (life, slot))).collect();
    let mut out: Vec<_> = exclusions(lab).into_iter().collect();
    out.sort_by_key(|(_, (at_ns, _))| *at_ns);
    let described = out.into_iter().filter_map(|((_, who), (at_ns, why))| {
        let name = &lab.world.slots[*names.get(&who)?].name;
        let after_s = at_ns.saturating_sub(lab.begun_ns) as f64 / SECOND as f64;
        Some(format!("{name} ({why:?}, after {after_s:.1} s)"))
    });
    described.collect()
}

/// By view and incarnation: the first installation of a view that excluded a process, since the fault began, and the
/// reason.
fn exclusions(lab: &Lab) -> BTreeMap<(u64, u64), (u64, LeaveReason)> {
    let mut out = BTreeMap::new();
    for (at_ns, event) in events(lab).filter(|(at_ns, _)| *at_ns >= lab.begun_ns) {
        let Event::CellView { view, left, .. } = event else { continue };
        for (who, why) in left.iter().filter(|(_, why)| *why != LeaveReason::Left) {
            first(&mut out, (*view, *who), (at_ns, *why));
        }
    }
    out
}

/// Keeps the earliest entry for each key.
fn first<T: Copy + Ord>(earliest: &mut BTreeMap<(u64, u64), T>, key: (u64, u64), of: T) {
    let kept = earliest.entry(key).or_insert(of);
    *kept = of.min(*kept);
}

fn events(lab: &Lab) -> impl Iterator<Item = (u64, &Event)> {
    let traces = lab.world.slots.iter().flat_map(|slot| &slot.app.traces);
    traces.flat_map(|trace| &trace.records).map(|record| (record.at_ns, &record.event))
}

/// The incarnations of a slot.
fn lives(lab: &Lab, slot: usize) -> impl Iterator<Item = u64> {
    lab.world.slots[slot].app.traces.iter().map(|trace| trace.header.incarnation)
}

const MINUTE_NS: u64 = 60 * SECOND;
