//! X10, one list of domains: let a group keep a list of the domains of its state.
//!
//! - All processes that install a view of the group, are replayed it, or take a state that was frozen in it, have the same list
//!   of it.
//! - The list of a view begins with that of the view before: it grows at its end alone, and each name is in it once.
//! - A member with the state that installs a view has each domain that the view lists, in that version. All that it cannot do
//!   without is in the list.
//!
//! So what one member applies to a domain, each applies to it, from the same view on.
//!
//! Instances: views with a list at a process; *under failure*: those whose list grew. Source: agreement on the parts of a
//! replicated state, by the decree that makes the view (Birman and Joseph 1987, section 4: groups with an agreed structure).

use std::collections::BTreeMap;

use super::Run;
use crate::findings::{Findings, Place};
use crate::model::domains::{Domain, Listed, Own};
use crate::model::{EpochIx, Model, Moment};

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut lists: BTreeMap<(usize, u64), (&[Domain], Place)> = BTreeMap::new();
    for Listed { proc, group, view, list, moment } in &model.domains.lists {
        let (first, at) = *lists.entry((*group, *view)).or_insert((list, moment.place));
        if first != list {
            out.violation(&[at, moment.place], || {
                format!(
                    "in view {view} of {} {} has {list:?}, and another process {first:?}",
                    name(model, *group),
                    model.who(*proc)
                )
            });
        }
        let is_twice = |(at, (name, _)): (usize, &Domain)| list[..at].iter().any(|(other, _)| other == name);
        if list.iter().enumerate().any(is_twice) {
            out.violation(&[moment.place], || format!("view {view} of {} lists {list:?}", name(model, *group)));
        }
    }
    for (&(group, view), &(list, at)) in &lists {
        let before = lists.range((group, 0)..(group, view)).next_back();
        if let Some((_, (former, place))) = before.filter(|(_, (former, _))| !list.starts_with(former)) {
            out.violation(&[*place, at], || {
                format!("view {view} of {} lists {list:?}, and an earlier one {former:?}", name(model, group))
            });
        }
        let grew = before.is_some_and(|(_, (former, _))| former.len() < list.len());
        let Some(&of_model) = model.groups[group].views.get(&view) else { continue };
        for &epoch in &model.views[of_model].epochs {
            let stay = &model.epochs[epoch];
            if stay.observers.contains(&stay.proc) || !stay.wants_state {
                continue;
            }
            out.instance_when(grew);
            suits(model, epoch, list, at, out);
        }
    }
}

/// Whether a member has all that the group lists, and the group all that it needs.
fn suits(model: &Model, epoch: EpochIx, list: &[Domain], at: Place, out: &mut Findings) {
    let stay = &model.epochs[epoch];
    let group = &model.groups[model.views[stay.view].group].name;
    let is_before = |moment: &Moment| moment.place.index < stay.install.place.index;
    let mut asked = model.procs[stay.proc].group_joins.iter().filter(|join| join.name == *group);
    let asked = asked.rfind(|join| is_before(&join.asked)).map_or(0, |join| join.asked.place.index);
    let is_said = |own: &&Own| {
        own.proc == stay.proc && own.group == *group && is_before(&own.moment) && own.moment.place.index > asked
    };
    let plain = vec![(String::new(), 1, false)];
    let own = model.domains.own.iter().rfind(is_said).map_or(&plain, |own| &own.domains);
    let has = |domain: &&Domain| own.iter().any(|(name, version, _)| (name, version) == (&domain.0, &domain.1));
    if let Some(lacks) = list.iter().find(|domain| !has(domain)) {
        out.violation(&[stay.install.place, at], || {
            format!("{} is in a view of {group:?} that lists {lacks:?}, which it lacks", model.who(stay.proc))
        });
    }
    let is_in = |name: &str, version: u32| list.iter().any(|domain| (domain.0.as_str(), domain.1) == (name, version));
    if let Some(needs) = own.iter().find(|(name, version, is_optional)| !is_optional && !is_in(name, *version)) {
        out.violation(&[stay.install.place, at], || {
            format!("{} needs {needs:?}, and is in a view of {group:?} without it", model.who(stay.proc))
        });
    }
}

fn name(model: &Model, group: usize) -> &str {
    &model.groups[group].name
}
