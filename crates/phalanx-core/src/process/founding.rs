//! Founding by named processes: the first of them by name lists one incarnation of each, and view 1 installs when all
//! listed accepted that list. Who comes back with the mark of a founding proves that it was decided: the leader sets its
//! mark before it tells anybody, and may die before it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::join::JOINER_LIFE;
use super::{Process, Stage};
use crate::api::{Effects, Founding};
use crate::id::{Incarnation, MemberInfo};
use crate::member::{Agreed, Control, Directory, FirstView, Proposal};
use crate::time::Instant;
use crate::wire::Tags;

/// A founder's view of the founding.
#[derive(Default)]
pub(super) struct Foundation {
    /// Founders that answered a fresh challenge, by name.
    pub(super) contacts: BTreeMap<String, (MemberInfo, Instant)>,
    mine: Option<Try>,
    round: u32,
    /// What was accepted last.
    accepted: Option<FirstView>,
}

/// The leader's try.
#[derive(Clone)]
struct Try {
    round: u32,
    first: FirstView,
    accepted: Vec<Incarnation>,
}

impl FirstView {
    /// With the settings of its leader, at the highest level that all can follow.
    pub(super) fn new(instance: u64, members: Vec<MemberInfo>, leader: &Agreed) -> Self {
        let level = members.iter().map(|member| member.level).min().unwrap_or_default();
        Self { instance, members, level, settings: leader.tags(level) }
    }

    fn directory(&self) -> Directory {
        Directory::found(self.members.clone(), self.level, self.settings.clone())
    }

    fn lists(&self, who: Incarnation) -> bool {
        self.members.iter().any(|member| member.incarnation == who)
    }
}

impl Process {
    pub(super) fn founders(&self) -> Option<&Vec<String>> {
        match &self.set.founding {
            Founding::Named(names) => Some(names),
            Founding::Alone | Founding::Join | Founding::Marked(_) => None,
        }
    }

    pub(super) fn leads_founding(&self) -> bool {
        self.founders().is_some_and(|names| names.iter().min() == Some(&self.set.me.name))
    }

    /// The first founder by name leads: it lists one incarnation of each and asks all to accept.
    pub(super) fn lead_founding(&mut self, now: Instant, fx: &mut impl Effects) {
        let Some(names) = self.founders().cloned().filter(|_| self.leads_founding()) else { return };
        let me = self.set.me.clone();
        let (own, patience) = (self.agreed(), JOINER_LIFE);
        let Stage::Searching(search) = &mut self.stage else { return };
        let contacts = &mut search.founding.contacts;
        contacts.retain(|_, (_, at)| now.since(*at) < patience);
        let mut members = vec![me.clone()];
        for name in names.iter().filter(|n| **n != me.name) {
            let Some((info, _)) = contacts.get(name) else { return };
            members.push(info.clone());
        }
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members.dedup_by(|a, b| a.name == b.name);
        if search.founding.mine.as_ref().is_none_or(|mine| mine.first.members != members) {
            search.founding.round += 1;
            let instance = self.rng.next_u64() | 1;
            let first = FirstView::new(instance, members, &own);
            search.founding.mine = Some(Try { round: search.founding.round, first, accepted: vec![me.incarnation] });
        }
        let Some(Try { round, first, .. }) = search.founding.mine.clone() else { return };
        for member in first.members.iter().filter(|m| m.incarnation != me.incarnation) {
            self.know(now, member);
            self.send_control(member.incarnation, &Control::FoundList { round, first: first.clone() });
        }
        if first.members.len() == 1 {
            self.founding_accepted(me.incarnation, round);
            self.finish_founding(now, fx);
        }
    }

    pub(super) fn handle_founding(&mut self, now: Instant, from: Incarnation, message: Control, fx: &mut impl Effects) {
        let me = self.me();
        let Stage::Searching(search) = &mut self.stage else { return }; // whoever is in a view accepts no list
        match message {
            Control::FoundList { round, first } => {
                let leader = first.members.iter().min_by(|a, b| a.name.cmp(&b.name));
                let leads = leader.is_some_and(|m| m.incarnation == from);
                if !leads || !first.lists(me) || !first.directory().is_sound() {
                    return;
                }
                // Accepting this list renounces earlier ones.
                search.founding.accepted = Some(first);
                self.send_control(from, &Control::FoundAccept { round });
            }
            Control::FoundAccept { round } => {
                self.founding_accepted(from, round);
                self.finish_founding(now, fx);
            }
            // The leader syncs its mark before it decides, and with a mark it only joins: no other list can have been decided.
            Control::FoundDecide(first)
                if first.lists(me) && first.directory().is_sound() && fx.mark_founded(first.instance) =>
            {
                self.install_first(now, first, fx);
            }
            _ => {}
        }
    }

    /// Somebody proves that this instance was founded: if its list was the last accepted here, it was decided.
    pub(super) fn founding_proved(&mut self, now: Instant, founded: u64, fx: &mut impl Effects) {
        let Stage::Searching(search) = &mut self.stage else { return };
        let decided = search.founding.accepted.take_if(|first| first.instance == founded);
        if let Some(first) = decided
            && fx.mark_founded(first.instance)
        {
            self.install_first(now, first, fx);
        }
    }

    fn founding_accepted(&mut self, by: Incarnation, round: u32) {
        let Stage::Searching(search) = &mut self.stage else { return };
        if let Some(mine) = &mut search.founding.mine
            && mine.round == round
            && mine.first.lists(by)
            && !mine.accepted.contains(&by)
        {
            mine.accepted.push(by);
        }
    }

    /// All accepted: view 1.
    fn finish_founding(&mut self, now: Instant, fx: &mut impl Effects) {
        let Stage::Searching(search) = &self.stage else { return };
        let Some(Try { first, accepted, .. }) = search.founding.mine.clone() else { return };
        let all_accepted = first.members.iter().all(|member| accepted.contains(&member.incarnation));
        if !all_accepted || !fx.mark_founded(first.instance) {
            return;
        }
        for member in &first.members {
            self.send_control(member.incarnation, &Control::FoundDecide(first.clone()));
        }
        self.install_first(now, first, fx);
    }

    /// Founds a cell with this process as its only member.
    pub(super) fn found_alone(&mut self, now: Instant, fx: &mut impl Effects) {
        let instance = self.rng.next_u64() | 1;
        if fx.mark_founded(instance) {
            let own = self.agreed();
            self.install_first(now, FirstView::new(instance, vec![self.set.me.clone()], &own), fx);
        }
    }

    /// Installs view 1.
    pub(super) fn install_first(&mut self, now: Instant, first: FirstView, fx: &mut impl Effects) {
        self.instance = first.instance;
        let directory = first.directory();
        let proposal = Proposal {
            decree: 1,
            view: 1,
            joined: first.members,
            left: Vec::new(),
            groups: Vec::new(),
            next_group: 1,
            next_space: 1,
            level: first.level,
            settings: first.settings,
            tail: Tags::default(),
        };
        self.enter(now, directory, Arc::new(proposal), fx);
    }
}
