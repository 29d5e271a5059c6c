//! The local agent: looks after a process's liveness lock, its counters, and the deaths of its neighbours.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use phalanx_core::member::{GroupEntry, awaited};
use phalanx_core::{CellView, Founding, Incarnation, Instant, Process, StreamStatus, ViewNumber};
use phalanx_driver::{Driver, Wait};

use super::requests::Requests;
use super::restore::Files;
use super::stall::Stalls;
use super::startup_gate::{Pass, StartupGate};
use crate::config::TapMode;
use crate::counters::{
    CountersWriter, DEPARTED_SHOWN, DepartedStatus, GroupStatus, ORPHANS_SHOWN, OrphanStatus, RANKS_SHOWN, Status,
};
use crate::deaths::Deaths;
use crate::handler::Handler;
use crate::local::{Kept, LivenessLock, LocalCell, LocalError, Settled, Standing};
use crate::neighbours::Neighbours;
use crate::node::Node;
use crate::start::Plan;
use crate::tap::{PointKind, Seat};

pub(super) struct LocalAgent {
    pub(super) startup_gate: StartupGate,
    pub(super) deaths: Deaths,
    pub(super) notices: Vec<String>,
    neighbours: Neighbours,
    /// The cell view last handled.
    view: Option<Arc<CellView>>,
    /// Dropped when the process is over, so that no process joins at it.
    liveness_lock: Option<LivenessLock>,
    local: LocalCell,
    files: Files,
    plan: Plan,
    counters: Option<CountersWriter>,
    values: Vec<u64>,
    /// The incarnation that the liveness lock stands for.
    entered: Incarnation,
    stalls: Stalls,
    requests: Requests,
    /// Waiting groups, as listed in the counters file, and the number of others.
    orphans: (Vec<OrphanStatus>, u64),
    /// The latest members that left, as listed in the counters file.
    departed: VecDeque<DepartedStatus>,
    deaths_due: bool,
    tap: Option<Seat>,
    last_poll: Instant,
    next_round: Instant,
    rounds: u32,
}

impl LocalAgent {
    pub(super) fn new<D: Wait>(
        node: &mut Node<D>,
        liveness_lock: LivenessLock,
        local: LocalCell,
        kept: Kept,
        mut plan: Plan,
        mode: TapMode,
        mut notices: Vec<String>,
    ) -> Self {
        let mut names = Vec::new();
        each_counter(node, &mut |name, _| names.push(name));
        let counters = match CountersWriter::create(liveness_lock.counters_path(), &names) {
            Ok(counters) => Some(counters),
            Err(error) => {
                notices.push(format!("no counters file, `stat` will not show this process: {error}"));
                None
            }
        };
        let taken = Seat::take(mode, liveness_lock.scope(), PointKind::Member, &node.settings().me);
        let tap = taken.unwrap_or_else(|error| {
            notices.push(format!("no socket for `phalanx tap`: {error}"));
            None
        });
        let mut neighbours = Neighbours::new(liveness_lock.scope());
        neighbours.begin_incarnation(node.incarnation(), node.driver_mut().neighbours());
        // A settled process founded the cell or entered as configured. Its first view counts without a question.
        let pass = if liveness_lock.is_settled() { Pass::Open } else { Pass::UntilView };
        Self {
            startup_gate: StartupGate::new(pass, plan.take_founder()),
            deaths: Deaths::new(liveness_lock.scope()),
            notices,
            neighbours,
            view: None,
            liveness_lock: Some(liveness_lock),
            local,
            files: Files::new(kept),
            plan,
            tap,
            counters,
            values: vec![0; names.len()],
            entered: node.incarnation(),
            stalls: Stalls::default(),
            requests: Requests::default(),
            orphans: (Vec::new(), 0),
            departed: VecDeque::new(),
            deaths_due: false,
            last_poll: Instant::ZERO,
            next_round: Instant::ZERO,
            rounds: 0,
        }
    }

    /// When [`Self::tend`] is due if nothing happens before.
    pub(super) fn deadline(&self) -> Instant {
        if self.startup_gate.pass == Pass::Asking { self.last_poll + ASK_AGAIN } else { self.next_round }
    }

    /// Schedules a check for deaths, because a watched process may have ended.
    pub(super) fn check_deaths(&mut self) {
        self.deaths_due = true;
    }

    /// Runs after each poll of the node. True: poll again at once.
    pub(super) fn tend<D: Wait>(&mut self, now: Instant, node: &mut Node<D>, handler: &mut impl Handler) -> bool {
        self.last_poll = now;
        let mut again = false;
        if !self.neighbours.is_of(node.incarnation()) {
            // Before anything is received again: packets written for an earlier incarnation are not for this one.
            self.neighbours.begin_incarnation(node.incarnation(), node.driver_mut().neighbours());
        }
        if self.startup_gate.excluded {
            self.startup_gate.excluded = false;
            // The node comes back within the poll that reports the exclusion, so it may have its next incarnation
            // already.
            if node.incarnation() != self.entered {
                self.new_incarnation(now);
            }
        }
        if node.is_over() {
            self.liveness_lock = None;
        }
        if let Some(seat) = self.tap.as_mut().filter(|seat| seat.is_due(now))
            && let (Some(tap), known) = node.tap()
        {
            seat.serve(now, tap, &known);
        }
        if self.startup_gate.pass == Pass::Asking {
            again |= self.ask(now, node, handler);
        }
        // The view in force, and not the last one delivered: a slow application must not delay the watch on its
        // neighbours or their attachment.
        let in_force = node.process().cell_view();
        if let Some(view) = in_force.filter(|view| self.view.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, view))) {
            let view = Arc::clone(view);
            self.deaths.watch(&view, &awaited(node.process().decree_state().directory), node.incarnation());
            let notice = self.neighbours.watch(&view, node.driver_mut().neighbours());
            self.notices.extend(notice);
            self.deaths_due = true;
            self.departed.extend(DepartedStatus::all_of(&view));
            let beyond = self.departed.len().saturating_sub(DEPARTED_SHOWN);
            self.departed.drain(..beyond);
            self.view = Some(view);
        }
        if self.deaths_due {
            again |= self.report_deaths(now, node);
        }
        if now >= self.next_round {
            self.next_round = now + ROUND;
            self.rounds = self.rounds.wrapping_add(1);
            again |= self.round(now, node, handler);
        } else if self.startup_gate.unwritten {
            self.count(now, node); // a client that was notified may read the file at once
        }
        self.notices.append(&mut self.startup_gate.notices);
        again
    }

    /// The node began an incarnation; the liveness lock follows once the decision lock is free.
    pub(super) fn new_incarnation(&mut self, now: Instant) {
        self.startup_gate.reset(if self.plan_is_lock() { Pass::UntilView } else { Pass::Open });
        self.next_round = now;
    }

    fn plan_is_lock(&self) -> bool {
        matches!(self.plan, Plan::ByLock { .. })
    }

    /// Settles whether the first view counts.
    fn ask<D: Wait>(&mut self, now: Instant, node: &mut Node<D>, handler: &mut impl Handler) -> bool {
        if self.entered != node.incarnation() {
            self.follow(node);
            if self.entered != node.incarnation() {
                return false;
            }
        }
        match self.liveness_lock.as_mut().map_or(Ok(Some(Settled::Yes)), LivenessLock::settle) {
            Ok(None) => false,
            Ok(Some(Settled::Overtaken(seeds))) => {
                node.begin_anew(now, Founding::Join, &seeds);
                self.new_incarnation(now);
                true
            }
            outcome => {
                self.report(outcome);
                // An error opens the gate too: an unusable directory must not keep a process out of its cell.
                self.startup_gate.pass = Pass::Open;
                while let Some(event) = self.startup_gate.held.pop_front() {
                    handler.event(event);
                }
                true
            }
        }
    }

    fn report_deaths<D: Wait>(&mut self, now: Instant, node: &mut Node<D>) -> bool {
        self.deaths_due = false;
        let dead = self.deaths.check();
        for (incarnation, proof) in &dead {
            node.handle_death(now, *incarnation, *proof);
            self.neighbours.forget(*incarnation, node.driver_mut().neighbours());
        }
        !dead.is_empty()
    }

    /// The periodic work, ten times a second or less often.
    fn round<D: Wait>(&mut self, now: Instant, node: &mut Node<D>, handler: &mut impl Handler) -> bool {
        let mut again = false;
        let refused = self.startup_gate.reform_refused.take();
        let looked = self.requests.look(now, node, &self.local, refused, handler);
        self.report(looked);
        if self.entered != node.incarnation() {
            self.follow(node);
        } else if self.rounds.is_multiple_of(SEEK_ROUNDS) {
            if node.process().cell_view().is_none() {
                again |= self.seek(now, node);
            } else if !node.process().is_primary() {
                // The cell may have continued with processes that this one never heard of.
                self.find_local_seeds(node);
            }
        }
        if self.rounds.is_multiple_of(FILE_ROUNDS) {
            self.restore_files(now, node);
        }
        if self.rounds.is_multiple_of(DEATH_ROUNDS) {
            again |= self.report_deaths(now, node);
        }
        let notice = self.neighbours.retry(node.driver_mut().neighbours());
        self.notices.extend(notice);
        let stalled = self.stalls.look(now, &node.process().streams());
        self.notices.extend(stalled);
        if self.rounds.is_multiple_of(ORPHAN_ROUNDS) {
            self.check_orphans(node);
        }
        self.count(now, node);
        again
    }

    /// Renames the liveness lock for the node's new incarnation.
    fn follow<D: Wait>(&mut self, node: &Node<D>) {
        let Some(liveness_lock) = &mut self.liveness_lock else { return };
        // Only a founding settles an incarnation from the start. Every other one has to settle in its first view,
        // because the cell may have been founded anew meanwhile.
        let founds = matches!(node.settings().founding, Founding::Alone | Founding::Reform(_));
        let settled = liveness_lock.is_settled() && founds;
        match liveness_lock.begin_anew(node.incarnation(), settled) {
            Ok(false) => {}
            outcome => {
                self.entered = node.incarnation();
                self.report(outcome);
            }
        }
    }

    /// After a search without success: looks for living processes, and decides whether this one has to found the cell.
    fn seek<D: Wait>(&mut self, now: Instant, node: &mut Node<D>) -> bool {
        if !self.plan_is_lock() {
            self.find_local_seeds(node);
            return false;
        }
        let reconsidered = self.liveness_lock.as_mut().map_or(Ok(None), LivenessLock::reconsider);
        match self.report(reconsidered).flatten() {
            Some(Standing::Found) => {
                node.begin_anew(now, Founding::Alone, &[]);
                self.startup_gate.reset(Pass::Open);
                true
            }
            Some(Standing::Join(seeds)) => {
                node.add_seeds(&seeds);
                false
            }
            None => false,
        }
    }

    /// Adds the living processes of this host to the seed addresses.
    fn find_local_seeds<D: Wait>(&mut self, node: &mut Node<D>) {
        if !self.plan_is_lock() && !self.plan.looks_here() {
            return;
        }
        let living = self.local.living().map(|living| {
            let others = living.into_iter().filter(|live| live.incarnation != self.entered);
            others.filter_map(|live| live.advert.map(|advert| advert.control)).collect::<Vec<_>>()
        });
        if let Some(seeds) = self.report(living) {
            node.add_seeds(&seeds);
        }
    }

    /// Lists the groups that wait, up to the bound, and counts the others.
    fn check_orphans<D: Wait>(&mut self, node: &Node<D>) {
        let mut orphans = node.process().orphans();
        let listed = orphans.by_ref().take(ORPHANS_SHOWN).map(|(name, waits_for)| OrphanStatus::new(name, waits_for));
        let listed = listed.collect();
        self.orphans = (listed, orphans.count() as u64);
    }

    /// Restores files of this process that are missing on this host.
    fn restore_files<D: Wait>(&mut self, now: Instant, node: &Node<D>) {
        let Self { liveness_lock, counters, startup_gate, .. } = self;
        let founder = startup_gate.founder.as_deref_mut().map(|founder| (founder, node.process().record()));
        let notices = self.files.restore(now, liveness_lock.as_mut(), counters.as_mut(), founder);
        let room = NOTICES_MAX.saturating_sub(self.notices.len());
        self.notices.extend(notices.into_iter().take(room));
    }

    fn count<D: Wait>(&mut self, now: Instant, node: &Node<D>) {
        self.startup_gate.unwritten = false;
        let Some(counters) = &mut self.counters else { return };
        let mut index = 0;
        each_counter(node, &mut |_, value| {
            if let Some(slot) = self.values.get_mut(index) {
                *slot = value;
            }
            index += 1;
        });
        let process = node.process();
        let view = process.cell_view();
        let status = Status {
            cell: node.settings().cell.clone(),
            name: node.settings().me.name.clone(),
            state: self.startup_gate.state.to_owned(),
            why: self.startup_gate.why.clone(),
            view: view.map_or(ViewNumber::NONE, |view| view.view),
            level: view.map_or(0, |view| u64::from(view.level)),
            level_known: u64::from(process.highest_level()),
            levels: view.map_or(Vec::new(), |view| view.members.iter().map(|m| u64::from(m.level)).collect()),
            members: view.map_or(Vec::new(), |view| view.members.iter().map(|m| m.name.clone()).collect()),
            incarnations: view
                .map_or(Vec::new(), |view| view.members.iter().map(|m| m.incarnation.to_string()).collect()),
            hosts: view.map_or(Vec::new(), |view| view.members.iter().map(|m| host_text(m.host)).collect()),
            departed: self.departed.iter().cloned().collect(),
            groups: group_statuses(process),
            orphans: self.orphans.0.clone(),
            orphans_left_out: self.orphans.1,
        };
        counters.update(now, node.incarnation(), &self.values, &status);
    }

    /// Records an error of the runtime directory as a notice, once. Such errors stop nothing.
    fn report<T>(&mut self, outcome: Result<T, LocalError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let notice = error.to_string();
                if self.startup_gate.notices.len() < NOTICES_MAX && !self.startup_gate.notices.contains(&notice) {
                    self.startup_gate.notices.push(notice);
                }
                None
            }
        }
    }
}

fn host_text(host: u64) -> String {
    if host == 0 { String::new() } else { format!("{host:016x}") }
}

fn group_statuses(process: &Process) -> Vec<GroupStatus> {
    let (directory, streams) = (process.decree_state().directory, process.streams());
    if streams.len() > RANKS_SHOWN {
        return streams.iter().map(GroupStatus::from).collect();
    }
    let ranks: BTreeMap<Incarnation, u64> =
        directory.members.iter().zip(0..).map(|(member, rank)| (member.incarnation, rank)).collect();
    let status = |stream: &StreamStatus| {
        let entry = directory.groups.get(&stream.group);
        let members = entry.map_or(&[][..], |entry| &entry.members);
        let listed = entry.and_then(GroupEntry::domains).unwrap_or_default();
        let domains = listed.into_iter().map(|domain| domain.name).collect();
        let shown = if members.len() <= RANKS_SHOWN { members } else { &[] };
        let ranks = shown.iter().filter_map(|who| ranks.get(who).copied()).collect();
        GroupStatus { ranks, domains, ..GroupStatus::from(stream) }
    };
    streams.iter().map(status).collect()
}

fn each_counter<D: Driver>(node: &Node<D>, each: &mut dyn FnMut(&'static str, u64)) {
    node.process().counters(each);
    node.driver().counters(each);
}

/// The interval of the local agent's rounds.
const ROUND: Duration = Duration::from_millis(100);

/// Rounds between two looks at the directory while the process searches.
const SEEK_ROUNDS: u32 = 3;

/// Rounds between two tests of neighbours' locks. Process descriptors report at once.
const DEATH_ROUNDS: u32 = 5;

/// Rounds between two checks of the files kept on this host.
const FILE_ROUNDS: u32 = 10;

/// Rounds between two searches for waiting groups, each of which reads the whole directory.
const ORPHAN_ROUNDS: u32 = 3;

/// Interval of attempts while another process decides.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// Most notices kept for the application.
const NOTICES_MAX: usize = 16;
