//! Founding by named processes: the first of them by name lists one incarnation of each, and view 1 installs when all
//! listed accepted that list. Who comes back with the mark of a founding proves that it was decided: the leader sets its
//! mark before it tells anybody, and may die before it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::join::JOINER_LIFE;
use super::{Process, Stage};
use crate::api::{Effects, Founding};
use crate::id::{Incarnation, MemberInfo};
use crate::member::{Control, Directory, Proposal, are_members};
use crate::time::Instant;

/// A founder's view of the founding.
#[derive(Default)]
pub(super) struct Foundation {
    /// Founders that answered a fresh challenge, by name.
    pub(super) contacts: BTreeMap<String, (MemberInfo, Instant)>,
    /// The leader's try: round, instance, members, who accepted.
    mine: Option<(u32, u64, Vec<MemberInfo>, Vec<Incarnation>)>,
    round: u32,
    /// The list accepted last, and the instance it would found.
    accepted: Option<(u64, Vec<MemberInfo>)>,
}

impl Process {
    pub(super) fn founders(&self) -> Option<&Vec<String>> {
        match &self.set.founding {
            Founding::Named(names) => Some(names),
            Founding::Alone | Founding::Join | Founding::Marked(_) => None,
        }
    }

    /// The first founder by name leads: it lists one incarnation of each and asks all to accept.
    pub(super) fn lead_founding(&mut self, now: Instant, fx: &mut impl Effects) {
        let Some(names) = self.founders().cloned() else { return };
        let me = self.set.me.clone();
        if names.iter().min() != Some(&me.name) {
            return;
        }
        let patience = JOINER_LIFE;
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
        let same = |(_, _, list, _): &(u32, u64, Vec<MemberInfo>, Vec<Incarnation>)| *list == members;
        if !search.founding.mine.as_ref().is_some_and(same) {
            search.founding.round += 1;
            let instance = self.rng.next_u64() | 1;
            search.founding.mine = Some((search.founding.round, instance, members.clone(), vec![me.incarnation]));
        }
        let Some((round, instance, members, _)) = search.founding.mine.clone() else { return };
        for member in members.iter().filter(|m| m.incarnation != me.incarnation) {
            self.know(now, member);
            let list = Control::FoundList { round, instance, members: members.clone() };
            self.send_control(member.incarnation, &list);
        }
        if members.len() == 1 {
            self.founding_accepted(me.incarnation, round);
            self.finish_founding(now, fx);
        }
    }

    pub(super) fn handle_founding(&mut self, now: Instant, from: Incarnation, message: Control, fx: &mut impl Effects) {
        let me = self.me();
        let Stage::Searching(search) = &mut self.stage else { return }; // whoever is in a view accepts no list
        match message {
            Control::FoundList { round, instance, members } => {
                let leads = members.iter().min_by(|a, b| a.name.cmp(&b.name)).is_some_and(|m| m.incarnation == from);
                if !leads || members.iter().all(|m| m.incarnation != me) || !are_members(&members) {
                    return;
                }
                // Accepting this list renounces earlier ones.
                search.founding.accepted = Some((instance, members));
                self.send_control(from, &Control::FoundAccept { round });
            }
            Control::FoundAccept { round } => {
                self.founding_accepted(from, round);
                self.finish_founding(now, fx);
            }
            Control::FoundDecide { instance, members } => {
                // The leader syncs its mark before it decides, and with a mark it only joins: no other list can
                // have been decided.
                let listed = members.iter().any(|m| m.incarnation == me);
                if listed && are_members(&members) && fx.mark_founded(instance) {
                    self.install_first(now, instance, members, fx);
                }
            }
            _ => {}
        }
    }

    /// Somebody proves that this instance was founded: if its list was the last accepted here, it was decided.
    pub(super) fn founding_proved(&mut self, now: Instant, founded: u64, fx: &mut impl Effects) {
        let Stage::Searching(search) = &mut self.stage else { return };
        let decided = search.founding.accepted.take_if(|(instance, _)| *instance == founded);
        if let Some((instance, members)) = decided
            && fx.mark_founded(instance)
        {
            self.install_first(now, instance, members, fx);
        }
    }

    fn founding_accepted(&mut self, by: Incarnation, round: u32) {
        let Stage::Searching(search) = &mut self.stage else { return };
        if let Some((mine, _, members, accepted)) = &mut search.founding.mine
            && *mine == round
            && members.iter().any(|m| m.incarnation == by)
            && !accepted.contains(&by)
        {
            accepted.push(by);
        }
    }

    /// All accepted: view 1.
    fn finish_founding(&mut self, now: Instant, fx: &mut impl Effects) {
        let Stage::Searching(search) = &self.stage else { return };
        let Some((_, instance, members, accepted)) = search.founding.mine.clone() else { return };
        if members.iter().any(|m| !accepted.contains(&m.incarnation)) || !fx.mark_founded(instance) {
            return;
        }
        for member in &members {
            self.send_control(member.incarnation, &Control::FoundDecide { instance, members: members.clone() });
        }
        self.install_first(now, instance, members, fx);
    }

    /// Installs view 1.
    pub(super) fn install_first(
        &mut self,
        now: Instant,
        instance: u64,
        members: Vec<MemberInfo>,
        fx: &mut impl Effects,
    ) {
        self.instance = instance;
        let proposal = Proposal {
            decree: 1,
            view: 1,
            joined: members.clone(),
            left: Vec::new(),
            groups: Vec::new(),
            next_group: 1,
            next_space: 1,
        };
        self.enter(now, Directory::found(members), Arc::new(proposal), fx);
    }
}
