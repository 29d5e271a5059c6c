//! Reform: an operator makes a survivor found the next instance of the cell. A process that meets a later instance
//! yields to it, unless it is in the primary partition of its own (`docs/founding.md`).

use std::net::SocketAddr;
use std::time::Duration;

use super::search::ReformWait;
use super::{Process, Stage};
use crate::api::{CommandError, Effects, Event, Founding, ReformWhen};
use crate::id::{CellInstance, Rank};
use crate::member::{BootstrapMarker, Directory, Inheritance};
use crate::time::Instant;

/// Upper bound on the other instances that are remembered and reported. Further ones are not reported.
const KNOWN_INSTANCES_MAX: usize = 16;

impl Process {
    /// Renounces the instance of this process's cell, and founds the next one with this process as the first member.
    /// Its groups and what it has of their state are carried over; others join.
    ///
    /// First it looks for others. [`Event::ReformRefused`] reports that it heard a quorum, a later instance, a member
    /// of lower rank that reforms at the same time, or in the end a member that hears a quorum. Otherwise this
    /// incarnation ends with [`Event::Renounced`], and its next one founds the instance. If that one starts late, it
    /// looks again first.
    ///
    /// # Errors
    /// [`CommandError::InPrimary`] when a quorum is heard, so that there is nothing to reform;
    /// [`CommandError::NotProvedDead`], [`CommandError::NoView`], [`CommandError::Over`]. Nothing was started.
    pub fn reform(&mut self, now: Instant, when: ReformWhen) -> Result<(), CommandError> {
        match self.stage {
            Stage::Over | Stage::Leaving { .. } => return Err(CommandError::Over),
            Stage::Searching(_) => return Err(CommandError::NoView),
            Stage::Member if self.leaving.is_some() => return Err(CommandError::Over),
            Stage::Member if self.primary => return Err(CommandError::InPrimary),
            Stage::Member => {}
        }
        let others = self.failure_detector.not_proved_dead();
        let names: Vec<&str> = others.map(|rank| self.directory.members[rank.index()].name.as_str()).collect();
        if when == ReformWhen::AllProvedDead && !names.is_empty() {
            return Err(CommandError::NotProvedDead { names: names.join(", ") });
        }
        let look = ReformWait::new(now, self.reform_wait());
        self.reforming.get_or_insert(look);
        self.attention = true;
        Ok(())
    }

    /// Length of the search: longer than it takes to miss a member that reforms, and to hear from its next incarnation.
    fn reform_wait(&self) -> Duration {
        self.suspect_after() * 2 + self.set.timing.probe * 5
    }

    /// Takes the inheritance from which the next incarnation of this process founds the next instance, if this one
    /// renounced its cell for that.
    pub fn take_inheritance(&mut self) -> Option<Inheritance> {
        self.inheritance.take()
    }

    /// Advances a reform. Called with each heartbeat.
    pub(super) fn go_on_reforming(&mut self, now: Instant, fx: &mut dyn Effects) {
        let length = self.reform_wait();
        let Some(look) = self.reforming.as_mut().filter(|_| self.leaving.is_none()) else { return };
        let has_looked = look.is_over(now, length);
        if self.primary {
            return self.refuse_reform("a quorum of the cell is heard again: it goes on by itself".to_owned());
        }
        if !has_looked {
            let others = self.directory.members.iter().filter(|member| member.incarnation != self.me());
            let targets: Vec<SocketAddr> = others.map(|member| member.control).collect();
            self.probe(targets, Some((self.instance, self.directory.view)), fx);
            return;
        }
        if let Some(name) = self.in_primary(now) {
            return self.refuse_reform(format!(
                "member {name} is heard, and hears a quorum of the cell: the cell may go on without this process"
            ));
        }
        self.reforming = None;
        let is_dead = |rank: Rank| self.failure_detector.is_dead(rank);
        let ranked = Rank::enumerate(&self.directory.members);
        let dead = ranked.filter(|(rank, _)| is_dead(*rank)).map(|(_, member)| member.incarnation).collect();
        let (instance, directory) = (self.instance, self.directory.clone());
        self.inheritance = Some(Inheritance { instance, directory, dead, at: now });
        self.end(Event::Renounced { generation: self.instance.next_generation() });
    }

    /// The name of a member that is heard and that reports a quorum. Either it does not know yet that the quorum is
    /// gone, or this process hears too little. In both cases a reform could leave two living instances.
    fn in_primary(&self, now: Instant) -> Option<String> {
        let mut others = Rank::all(self.directory.members.len()).filter(|rank| *rank != self.my_rank());
        let rank = others.find(|rank| self.hears_quorum(now, *rank))?;
        Some(self.directory.members[rank.index()].name.clone())
    }

    fn refuse_reform(&mut self, why: String) {
        self.reforming = None;
        if matches!(self.stage, Stage::Searching(_)) {
            // It joins the instance, or the member, that keeps it from founding one.
            self.set.founding = Founding::Join;
        }
        self.app.event(Event::ReformRefused { why });
    }

    /// The instance whose successor this process is about to found, with its directory.
    pub(super) fn reformed(&self) -> Option<(CellInstance, &Directory)> {
        match (&self.stage, &self.set.founding) {
            (Stage::Member, _) => self.reforming.as_ref().map(|_| (self.instance, &self.directory)),
            (Stage::Searching(_), Founding::Reform(before)) => Some((before.instance, &before.directory)),
            _ => None,
        }
    }

    /// Handles the announcement that a process of this name reforms an instance. If two do so at once, the one with the
    /// lower rank goes on.
    pub(super) fn hear_reformer(&mut self, name: &str, instance: CellInstance) {
        let Some((_, directory)) = self.reformed().filter(|(own, _)| *own == instance) else { return };
        let rank = |name: &str| directory.members.iter().position(|member| member.name == name);
        if rank(name).zip(rank(&self.set.me.name)).is_some_and(|(other, own)| other < own) {
            self.refuse_reform(format!("member {name} reforms the cell just now: this process joins it"));
        }
    }

    /// Handles a living process of another instance of the cell. `by_challenge`: it answered a fresh challenge, so it
    /// is no replay.
    pub(super) fn meet_instance(&mut self, instance: CellInstance, at: SocketAddr, by_challenge: bool) {
        if let Some((before, _)) = self.reformed()
            && by_challenge
            && !self.primary
            && instance.generation() > before.generation()
        {
            self.refuse_reform(format!(
                "the cell was founded again already, a member is at {at}: this process joins it"
            ));
        }
        if !matches!(self.stage, Stage::Member) || instance == CellInstance::NONE || instance == self.instance {
            return;
        }
        let is_later = instance.generation() > self.instance.generation();
        self.counters.instances_not_yielded_to += u64::from(!is_later && by_challenge && !self.primary);
        // A member of a primary never yields. Of two primaries one is wrong, and only an operator can know which.
        if is_later && by_challenge && !self.primary {
            self.counters.instances_renounced += 1;
            let generation = instance.generation();
            return match &self.leaving {
                Some(_) => self.end(Event::Left),
                None => self.end(Event::Renounced { generation }),
            };
        }
        if self.known_instances.len() < KNOWN_INSTANCES_MAX && self.known_instances.insert(instance) {
            self.counters.instances_met += 1;
            self.app.event(Event::OtherInstance { instance, own: self.instance, at });
        }
    }

    /// Founds the instance after the one that an earlier incarnation renounced.
    ///
    /// If that was a while ago it first looks for others again, and returns the addresses of its former members to ask.
    pub(super) fn found_next(&mut self, now: Instant, fx: &mut dyn Effects) -> Vec<SocketAddr> {
        let length = self.reform_wait();
        let (Founding::Reform(inheritance), own) = (&self.set.founding, self.set.me.control) else { return Vec::new() };
        let look = self.reforming.get_or_insert(ReformWait { until: inheritance.at, last: inheritance.at });
        if !look.is_over(now, length) {
            let members = inheritance.directory.members.iter();
            return members.map(|member| member.control).filter(|control| *control != own).collect();
        }
        self.reforming = None;
        debug_assert!(matches!(self.stage, Stage::Searching(_)), "a member founds no view");
        let next = inheritance.instance.next_generation();
        let directory = inheritance.passed_on_to(self.set.me.clone());
        let instance = CellInstance::fresh(next, self.rng.next_u64());
        // The record names the next instance, synced, before anything is founded: a restart in between must not found
        // another.
        if self.set_bootstrap_marker(BootstrapMarker::taken_in(instance, &directory), fx) {
            self.enter_first(now, instance, directory, fx);
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Incarnation;
    use crate::process::tests::by_hand::in_cell;

    #[test]
    fn a_process_tells_of_as_many_instances_as_it_remembers() {
        let (mut process, _) = in_cell(Incarnation(1), 1);
        let at = SocketAddr::from(([127, 0, 0, 2], 1000));
        let told = |process: &Process| process.app.len();
        let before = told(&process);
        let all = KNOWN_INSTANCES_MAX as u64 + 2;
        for instance in (100..100 + all).chain(100..100 + all) {
            process.meet_instance(CellInstance(instance), at, true);
        }
        assert_eq!(told(&process) - before, KNOWN_INSTANCES_MAX, "each once, and no more");
        process.meet_instance(process.instance, at, true);
        assert_eq!(told(&process) - before, KNOWN_INSTANCES_MAX, "its own is none");
    }
}
