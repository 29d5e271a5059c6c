//! R3, quorum honesty: an ask of `p` ends for the reason that its end gives. Let the places be those that its asker recorded
//! when it delivered the ask in view `v`, each with the member of `v` of that rank.
//!
//! A place is filled by the answer of the member that is to fill it: first its own, after a *forward* the one that is named. Or
//! its member has *left*: the application of `p` was told of a view of the group without it.
//!
//! - *Met*: as many places are filled as the ask wants. *All*: all of them, and none by a member that left. *Majority*: more than half of all
//!   places, with values. *k*: at least k, with values.
//! - *Complete*: all places are filled, or too few are left for what it wants.
//! - *Aborted*: an abort was heard.
//! - None of these three while the last notice of `p` is that it hears no quorum.
//! - Each ask has one end, and hears no answer after it. All have one when the incarnation of `p` ends by a leave, an exclusion or
//!   a renunciation.
//! - In the quiet phase, at a running, connected process that stays in the group, an ask that is met or complete is told so
//!   within the bound of V3 and V4. Evaluated only if V1 holds, and where the view has as many members as agreed.
//!
//! Instances: ends; *under failure*: those with a place of a member that left. Source: *quorum honesty* of group calls (Birman and
//! Joseph 1987, section 4.1: the caller waits for replies, and learns of failures by views).

use std::collections::BTreeMap;

use phalanx_trace::{AskEnd, AskReply, AskStep, AskWant, MembershipStep};

use super::{Run, stays_in, v4};
use crate::findings::Findings;
use crate::model::{AskName, AskRecord, Model, Moment, ProcIx};

/// An ask as its asker recorded it.
pub(super) struct Walk {
    pub(super) want: AskWant,
    places: BTreeMap<u16, Place>,
    /// Values, and places without an answer.
    values: usize,
    waiting: usize,
    pub(super) left: usize,
    is_aborted: bool,
    /// The last step that changed it.
    changed: Moment,
    end: Option<Moment>,
}

struct Place {
    of: ProcIx,
    by: ProcIx,
    is_filled: bool,
    hops: usize,
}

impl Walk {
    fn new(want: AskWant, places: &[u16], members: &[ProcIx], opened: Moment) -> Option<Self> {
        let place = |rank: &u16| {
            let of = *members.get(usize::from(*rank))?;
            Some((*rank, Place { of, by: of, is_filled: false, hops: 0 }))
        };
        let places: BTreeMap<u16, Place> = places.iter().map(place).collect::<Option<_>>()?;
        let (waiting, values, left) = (places.len(), 0, 0);
        Some(Self { want, places, values, waiting, left, is_aborted: false, changed: opened, end: None })
    }

    /// An answer. False: it counts for nothing.
    fn hear(&mut self, rank: u16, from: ProcIx, reply: AskReply, members: &[ProcIx], at: Moment) -> bool {
        let count = self.places.len();
        let target = match reply {
            AskReply::Forward(to) => self.places.get(&to).map(|place| place.of),
            AskReply::Value | AskReply::Null | AskReply::Abort => None,
        };
        let Some(place) = self.places.get_mut(&rank).filter(|place| place.by == from && !place.is_filled) else {
            return false;
        };
        self.changed = at;
        if let (AskReply::Forward(_), Some(to)) = (reply, target)
            && place.hops < count
        {
            (place.by, place.hops) = (to, place.hops + 1);
            if members.contains(&to) {
                return true;
            }
            self.left += 1;
        }
        place.is_filled = true;
        self.waiting -= 1;
        self.values += usize::from(reply == AskReply::Value);
        self.is_aborted |= reply == AskReply::Abort;
        true
    }

    /// The application is told of a view.
    fn view(&mut self, members: &[ProcIx], at: Moment) {
        for place in self.places.values_mut().filter(|place| !place.is_filled && !members.contains(&place.by)) {
            place.is_filled = true;
            (self.waiting, self.left, self.changed) = (self.waiting - 1, self.left + 1, at);
        }
    }

    fn needed(&self) -> usize {
        match self.want {
            AskWant::Majority => self.places.len() / 2 + 1,
            AskWant::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            AskWant::All | AskWant::Until => 0,
        }
    }

    /// Whether it may be told as met.
    fn may_be_met(&self) -> bool {
        match self.want {
            AskWant::All => self.waiting == 0 && self.left == 0 && !self.places.is_empty(),
            AskWant::Majority | AskWant::Count(_) => self.values >= self.needed(),
            // Its test is the asker's own.
            AskWant::Until => self.waiting < self.places.len(),
        }
    }

    fn is_complete(&self) -> bool {
        self.waiting == 0 || self.values + self.waiting < self.needed()
    }

    /// Whether it has ended, and only the word of it is missing.
    fn is_due(&self) -> bool {
        self.is_aborted || self.is_complete() || self.want != AskWant::Until && self.may_be_met()
    }

    fn fits(&self, end: AskEnd) -> bool {
        match end {
            AskEnd::Met => self.may_be_met(),
            AskEnd::Complete => self.is_complete(),
            AskEnd::Aborted => self.is_aborted,
            AskEnd::Deadline | AskEnd::Cancelled | AskEnd::Full | AskEnd::Over => true,
        }
    }
}

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    for p in 0..run.model.procs.len() {
        if !run.model.procs[p].asks.is_empty() {
            of_asker(run, p, out);
        }
    }
}

fn of_asker(run: &Run<'_>, p: ProcIx, out: &mut Findings) {
    let model = run.model;
    let proc = &model.procs[p];
    let mut walks: BTreeMap<AskName, Walk> = BTreeMap::new();
    // Steps that were told of the group, in order.
    let mut told = proc.told.steps.iter().peekable();
    // The members in the view that was told last, by the group's number.
    let mut members: BTreeMap<u32, Vec<ProcIx>> = BTreeMap::new();
    for AskRecord { ask, what, moment } in proc.asks.iter().filter(|record| record.ask.1 == p) {
        while let Some((name, step, at)) = told.next_if(|(.., at)| at.place.index < moment.place.index) {
            advance(model, p, (name, *step, *at), &mut members, &mut walks);
        }
        let who = || format!("{} asked group {} (message {} of view {})", model.who(p), ask.0, ask.3, ask.2);
        match what {
            AskStep::Opened { places, want } => {
                let of_view = stays_in(model, p, ask.0, ask.2).next_back().map(|stay| &model.epochs[stay].members);
                let walk = of_view.and_then(|members| Walk::new(*want, places, members, *moment));
                if walk.is_none() {
                    out.violation(&[moment.place], || format!("{}, and expects nobody's rank", who()));
                }
                if walk.and_then(|walk| walks.insert(*ask, walk)).is_some() {
                    out.violation(&[moment.place], || format!("{}, and it is open twice", who()));
                }
            }
            AskStep::Heard { place, from, reply, .. } => {
                let from = model.procs.iter().position(|proc| proc.incarnation == *from);
                let now = members.get(&ask.0).map_or(&[][..], Vec::as_slice);
                let counts = match (walks.get_mut(ask), from) {
                    (Some(walk), Some(from)) => walk.end.is_none() && walk.hear(*place, from, *reply, now, *moment),
                    _ => false,
                };
                if !counts {
                    out.violation(&[moment.place], || {
                        format!("{}, and an answer counts that fills no place of it", who())
                    });
                }
            }
            AskStep::Ended(end) => {
                let outside = is_outside(model, p, *moment);
                let Some(walk) = walks.get_mut(ask) else {
                    // It was given up, or its life ended, before it was delivered here.
                    if matches!(end, AskEnd::Met | AskEnd::Complete | AskEnd::Aborted) {
                        out.violation(&[moment.place], || format!("{}, and it ended before it was open", who()));
                    }
                    continue;
                };
                out.instance_when(walk.left > 0);
                if let Some(before) = walk.end.replace(*moment) {
                    out.violation(&[before.place, moment.place], || format!("{}, and it ended twice", who()));
                } else if !walk.fits(*end) {
                    out.violation(&[walk.changed.place, moment.place], || {
                        let (want, all) = (walk.want, walk.places.len());
                        let Walk { values, waiting, left, .. } = walk;
                        format!(
                            "{}, wanted {want:?} and was told {end:?} with {values} values, {left} left and {waiting} of {all} waiting",
                            who()
                        )
                    });
                } else if outside && matches!(end, AskEnd::Met | AskEnd::Complete | AskEnd::Aborted) {
                    out.violation(&[moment.place], || {
                        format!("{}, and was told {end:?} while it heard no quorum", who())
                    });
                }
            }
            AskStep::Shown { .. } | AskStep::Replied { .. } => {}
        }
    }
    for (name, step, at) in told {
        advance(model, p, (name, *step, *at), &mut members, &mut walks);
    }
    for (ask, walk) in walks.iter().filter(|(_, walk)| walk.end.is_none()) {
        let who = || format!("{} asked group {} (message {} of view {})", model.who(p), ask.0, ask.3, ask.2);
        if proc.over.is_some() && proc.tail_complete {
            out.violation(&[walk.changed.place], || format!("{}, and its life ended without a word about it", who()));
        } else if walk.is_due() && is_late(run, p, ask.0, walk.changed) {
            out.violation(&[walk.changed.place], || {
                format!("{}, and was not told within the bound how it ended", who())
            });
        }
    }
}

fn advance(
    model: &Model,
    p: ProcIx,
    (name, step, at): (&str, MembershipStep, Moment),
    members: &mut BTreeMap<u32, Vec<ProcIx>>,
    walks: &mut BTreeMap<AskName, Walk>,
) {
    let MembershipStep::View(number) = step else { return };
    let stays = model.procs[p].epochs.iter().map(|&stay| &model.epochs[stay]);
    let is_it = |stay: &&crate::model::Epoch| {
        let view = &model.views[stay.view];
        view.number == number && model.groups[view.group].name == name
    };
    // The last one that was installed by then: a group may have been made anew.
    let Some(stay) = stays.filter(is_it).rfind(|stay| stay.install.at_ns <= at.at_ns) else { return };
    let group = model.groups[model.views[stay.view].group].id;
    for walk in walks.iter_mut().filter(|(ask, walk)| ask.0 == group && walk.end.is_none()).map(|(_, walk)| walk) {
        walk.view(&stay.members, at);
    }
    members.insert(group, stay.members.clone());
}

/// Whether its last notice is that it hears no quorum.
fn is_outside(model: &Model, p: ProcIx, at: Moment) -> bool {
    let proc = &model.procs[p];
    let is_before = |moment: &Moment| moment.place.index < at.place.index;
    let last = proc.primacy.iter().rfind(|(_, moment)| is_before(moment));
    let mut installs = proc.installs.iter().map(|&install| model.installs[install].moment);
    let view = installs.rfind(is_before);
    last.is_some_and(|(primary, moment)| !primary && view.is_none_or(|view| view.place.index < moment.place.index))
}

/// Whether in the quiet phase the word of it is late.
fn is_late(run: &Run<'_>, p: ProcIx, group: u32, since: Moment) -> bool {
    !has_few_members(run, p, group) && v4::is_overdue(run, group, (p, p), since).is_some()
}

/// Whether the cell's view or the group's has fewer members than agreed, by the last notice of each. Uniform multicasts wait
/// there, and answers behind them.
pub(super) fn has_few_members(run: &Run<'_>, p: ProcIx, group: u32) -> bool {
    let adequacy = &run.model.procs[p].adequacy;
    let has_few =
        |of: Option<u32>| adequacy.iter().rfind(|notice| notice.group == of).is_some_and(|notice| !notice.adequate);
    has_few(None) || has_few(Some(group))
}
