//! Checks simulated runs of the shipped code by the rules of the model.
//!
//! After each poll of each process its acceptor, its ballot and its gates are compared with those after the previous
//! poll. Each difference must be a step, or a short sequence of steps, that the rules allow, given everything that the
//! other processes have done so far. The trace checker evaluates what applications see; this validator evaluates how it
//! came about.

mod draft;
mod record;
mod steps;
mod waits;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use phalanx_core::member::{Ballot, Coordinator, Phase, Proposal};
use phalanx_core::process::{DecreeState, Process, WedgeState};
use phalanx_core::wire::Space;
use phalanx_core::{CellInstance, DecreeNumber, Incarnation, LeaveReason, Rank};
use phalanx_sim::{Options, watch_seed};

use crate::rules::Rules;
use record::{Cell, Decree, Fixed, Try, is_filled, is_judged};
pub use steps::Steps;

/// Checks one run.
#[derive(Default)]
pub struct Validator {
    rules: Rules,
    cells: BTreeMap<CellInstance, Cell>,
    seen: BTreeMap<Incarnation, Seen>,
    /// The prefixes that each process had parsed of a packet space's streams, when last observed.
    taken: BTreeMap<(Incarnation, Space), Vec<u64>>,
    /// Processes that left a view as dead, by any decision.
    dead: BTreeSet<Incarnation>,
    /// Counts of the explained steps.
    pub steps: Steps,
    /// Steps that no rule explains: slot, time in nanoseconds, text.
    pub faults: Vec<(usize, u64, String)>,
}

/// A process after its previous poll.
#[derive(Clone, Default)]
struct Seen {
    instance: CellInstance,
    decree: DecreeNumber,
    promised: Option<Ballot>,
    accepted: Option<Ballot>,
    current: Option<(Ballot, Step)>,
    gates: Vec<WedgeState>,
}

/// The progress of its ballot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Gathering,
    Filling,
    Proposing,
}

fn step_of(c: &Coordinator) -> Step {
    match c.phase {
        Phase::Gathering => Step::Gathering,
        Phase::Recovering { .. } => Step::Filling,
        Phase::Proposing { .. } => Step::Proposing,
    }
}

/// A process that is not wedged is observed in one poll of this many.
const LOOK_EVERY: u64 = 8;

/// Most faults recorded of one run.
const FAULTS_MAX: usize = 20;

impl Validator {
    /// Observes a process after a poll.
    pub fn observe(&mut self, slot: usize, now_ns: u64, process: &Process) {
        self.steps.turns += 1;
        let state = process.decree_state();
        if state.instance == CellInstance::NONE || state.directory.decree == DecreeNumber::NONE {
            return;
        }
        let me = process.me();
        let before = self.seen.get(&me).cloned().unwrap_or_default();
        let is_wedged = state.acceptor.promised().is_some();
        let looks = is_wedged || waits::groups_wait(state.directory) && self.steps.turns.is_multiple_of(LOOK_EVERY);
        let gates = if looks { process.wedge_states() } else { Vec::new() };
        for gate in &gates {
            self.taken.insert((me, gate.space), gate.parsed.clone());
        }
        let now = Seen {
            instance: state.instance,
            decree: state.directory.decree,
            promised: state.acceptor.promised(),
            accepted: state.acceptor.accepted().map(|(b, _)| *b),
            current: state.coordinator.map(|c| (c.ballot, step_of(c))),
            gates: if is_wedged { gates } else { Vec::new() },
        };
        let mut problems = Vec::new();
        if self.dead.remove(&me) {
            problems.push("it left a view because it is dead, and lives".into());
        }
        self.explain(me, &before, &now, &state, &mut problems);
        self.seen.insert(me, now);
        let room = FAULTS_MAX.saturating_sub(self.faults.len());
        self.faults.extend(problems.into_iter().take(room).map(|text| (slot, now_ns, text)));
    }

    fn explain(&mut self, me: Incarnation, before: &Seen, now: &Seen, state: &DecreeState<'_>, out: &mut Vec<String>) {
        let nothing = Seen::default();
        let mut before = before;
        if (before.instance, before.decree) != (now.instance, now.decree) {
            self.explain_install(me, before, now, state, out);
            before = &nothing;
        }
        let cell = self.cells.entry(now.instance).or_default();
        let decree = cell.decrees.entry(now.decree.next()).or_default();
        if decree.acceptors.is_empty() {
            decree.acceptors = state.directory.members.iter().map(|m| m.incarnation).collect();
            decree.directory = Some(state.directory.clone());
        }
        if let Some(c) = state.coordinator {
            if before.current.is_none_or(|(ballot, _)| ballot != c.ballot) {
                explain_start(self.rules, &mut self.steps, decree, me, before, c, out);
            }
            out.extend(decree.check_incomplete(c).err());
            explain_phase(self.rules, &mut self.steps, decree, before, c, out);
        }
        if now.promised != before.promised {
            self.steps.promised += 1;
            if !self.rules.promises(before.promised, now.promised) {
                out.push(format!("promised {:?} after {:?}", now.promised, before.promised));
            }
            let ballot = now.promised.and_then(|b| decree.ballots.get(&b));
            let rank = decree.rank(me);
            if ballot.is_none_or(|b| rank.is_none_or(|r| !b.asked.contains(&r))) {
                out.push(format!("promised {:?}, in which nobody asked it", now.promised));
            }
        }
        if let Some((ballot, proposal)) = state.acceptor.accepted().filter(|(b, _)| Some(*b) != before.accepted) {
            explain_accept(self.rules, &mut self.steps, decree, me, before, (*ballot, proposal), out);
        }
        if let Some(proposal) = state.decided {
            self.explain_decision(me, before, now.instance, proposal, out);
        }
        self.explain_gates(before, now, out);
    }

    /// Checks that a wedged member parses and acknowledges nothing in the view it is about to leave, and that a member
    /// that promised is wedged.
    fn explain_gates(&mut self, before: &Seen, now: &Seen, out: &mut Vec<String>) {
        for gate in &now.gates {
            let earlier = before.gates.iter().find(|g| g.space == gate.space && g.wedged);
            let Some(earlier) = earlier else { continue };
            self.steps.gates += 1;
            if !gate.wedged {
                out.push(format!("space {} goes on before the decision", gate.space));
            } else if !self.rules.gate_is_open(true, true) && earlier.parsed != gate.parsed {
                out.push(format!("space {} took {:?} after {:?}, wedged", gate.space, gate.parsed, earlier.parsed));
            }
        }
        let decree = self.cells.get(&now.instance).and_then(|cell| cell.decrees.get(&now.decree.next()));
        let ballot = now.promised.and_then(|b| decree?.ballots.get(&b));
        for gate in ballot.into_iter().flat_map(|b| now.gates.iter().filter(|g| b.groups.contains(&g.group))) {
            if self.rules.wedges() && !gate.wedged {
                out.push(format!("promised to stop in {:?}, and goes on", gate.group));
            }
        }
    }

    fn explain_install(
        &mut self,
        me: Incarnation,
        before: &Seen,
        now: &Seen,
        state: &DecreeState<'_>,
        out: &mut Vec<String>,
    ) {
        self.steps.installed += 1;
        let Some(proposal) = state.last_decision.filter(|p| p.decree == now.decree) else {
            out.push(format!("decree {} is in force and nothing decided it", now.decree));
            return;
        };
        if before.instance == now.instance && before.decree > now.decree {
            out.push(format!("decree {} after {}", now.decree, before.decree));
        }
        self.explain_decision(me, before, now.instance, proposal, out);
        let decree = self.cells.get(&now.instance).and_then(|cell| cell.decrees.get(&now.decree));
        if let Some(earlier) = decree.and_then(|decree| decree.directory.as_ref()) {
            let (must, told) = (waits::after(self.rules, earlier, proposal), waits::told(state.directory));
            if must != told {
                out.push(format!("after decree {} groups wait for {told:?}, and not for {must:?}", now.decree));
            }
            let lost =
                state.directory.groups.iter().find(|(id, entry)| entry.members.is_empty() && !told.contains_key(id));
            if let Some((group, _)) = lost {
                out.push(format!("{group:?} has no member, and waits for nobody"));
            }
        }
    }

    /// Checks whether a proposal may count as decided.
    fn explain_decision(
        &mut self,
        me: Incarnation,
        before: &Seen,
        instance: CellInstance,
        proposal: &Arc<Proposal>,
        out: &mut Vec<String>,
    ) {
        let cell = self.cells.entry(instance).or_default();
        let number = proposal.decree;
        let later = cell.decisions.last_key_value().is_some_and(|(last, _)| *last > number);
        if let Some(decided) = cell.decisions.get(&number) {
            if **decided != **proposal {
                out.push(format!("decree {number} is decided in two ways"));
            }
            return;
        }
        if number > DecreeNumber::FIRST {
            let decree = cell.decrees.entry(number).or_default();
            let skipped = before.instance == instance && before.decree.next() < number;
            let by_quorum = decree.accepted_by_quorum(self.rules, proposal);
            // A coordinator that is a quorum by itself decides in the poll in which it proposes.
            let mine = decree.rank(me).filter(|_| before.instance == instance && before.decree.next() == number);
            let alone = mine.filter(|&mine| decree.is_quorum(self.rules, |r| r == mine));
            match (by_quorum, alone) {
                (Some(_), _) => {}
                (None, Some(rank)) => match explain_alone(self.rules, decree, me, rank, before, proposal) {
                    Ok(fixed) => self.steps.fix(fixed),
                    Err(problem) => out.push(format!("decided decree {number} alone: {problem}")),
                },
                // The decree passed within one poll: no process was observed in the view before it, a later decree is
                // known already, or this process came to it from further back than the view before.
                (None, None) if decree.acceptors.is_empty() || later || skipped => self.steps.unseen += 1,
                (None, None) => {
                    out.push(format!("takes decree {number} for decided, and no quorum has accepted it"));
                    return; // one report, not one for each that follows
                }
            }
        }
        self.steps.decided += 1;
        self.dead.extend(proposal.left.iter().filter(|(_, why)| *why == LeaveReason::Died).map(|(who, _)| *who));
        let directory = cell.decrees.get(&number).and_then(|decree| decree.directory.as_ref());
        if let Some(directory) = directory {
            let (waited, waits) = (waits::told(directory), waits::after(self.rules, directory, proposal));
            self.steps.orphaned += waits.keys().filter(|group| !waited.contains_key(group)).count() as u64;
            self.steps.struck += proposal.groups.iter().filter(|change| !change.struck().is_empty()).count() as u64;
        }
        for (change, revived) in proposal.groups.iter().filter_map(|change| Some((change, change.revived()?))) {
            self.steps.revived += 1;
            let space = directory.and_then(|directory| Some(directory.groups.get(&change.group)?.space));
            let taken = space.and_then(|space| self.taken.get(&(revived.was, space)));
            let cut = change.cut.as_ref().map(|cut| &cut.prefixes);
            let holds =
                |taken: &Vec<u64>| cut.is_some_and(|cut| taken.iter().zip(cut).all(|(taken, end)| taken <= end));
            if !taken.is_none_or(holds) {
                out.push(format!("{:?} is back from {cut:?}, and its donor had taken {taken:?}", change.group));
            }
        }
        cell.decisions.insert(number, proposal.clone());
    }
}

/// Explains a decision in the poll of its proposal: in the current ballot, or in a new one that asked no other member.
fn explain_alone(
    rules: Rules,
    decree: &mut Decree,
    me: Incarnation,
    rank: Rank,
    before: &Seen,
    proposal: &Arc<Proposal>,
) -> Result<Fixed, String> {
    let under_way = before.current.map(|(ballot, _)| ballot);
    let seen = under_way.max(before.promised).map_or(0, |b| b.round);
    let fresh = Ballot { round: rules.next_round(0, seen), rank };
    let asked = BTreeSet::from([rank]);
    let this = Try {
        asked,
        groups: BTreeSet::new(),
        proposal: None,
        adopted: false,
        reports: BTreeMap::new(),
        requests: None,
    };
    decree.ballots.entry(fresh).or_insert(this);
    let mut problems = Vec::new();
    for ballot in under_way.into_iter().chain([fresh]) {
        match decree.may_propose(rules, ballot, proposal, None) {
            Ok(fixed) => {
                if let Some(this) = decree.ballots.get_mut(&ballot) {
                    this.proposal = Some(proposal.clone());
                }
                decree.accepted.entry(me).or_default().push((ballot, proposal.clone()));
                return Ok(fixed);
            }
            Err(problem) => problems.push(format!("{ballot:?}: {problem}")),
        }
    }
    Err(problems.join("; "))
}

fn explain_start(
    rules: Rules,
    steps: &mut Steps,
    decree: &mut Decree,
    me: Incarnation,
    before: &Seen,
    c: &Coordinator,
    out: &mut Vec<String>,
) {
    steps.started += 1;
    if decree.rank(me) != Some(c.ballot.rank) {
        out.push(format!("began {:?}, which is another's", c.ballot));
    }
    if !decree.is_quorum(rules, |r| c.asked.contains(&r)) {
        out.push(format!("began {:?} with {:?}, no quorum", c.ballot, c.asked));
    }
    let least = rules.next_round(0, before.promised.map_or(0, |b| b.round));
    if c.ballot.round < least {
        out.push(format!("began {:?}, and has seen round {}", c.ballot, least - 1));
    }
    let others = decree.ballots.keys().any(|b| b.rank != c.ballot.rank);
    steps.take_overs += u64::from(others);
    if decree.ballots.insert(c.ballot, Try::new(c)).is_some() {
        out.push(format!("began {:?} twice", c.ballot));
    }
}

fn explain_phase(
    rules: Rules,
    steps: &mut Steps,
    decree: &mut Decree,
    before: &Seen,
    c: &Coordinator,
    out: &mut Vec<String>,
) {
    let step = step_of(c);
    let earlier = before.current.filter(|(ballot, _)| *ballot == c.ballot).map_or(Step::Gathering, |(_, step)| step);
    let proposal = match &c.phase {
        Phase::Gathering => {
            if let Some(this) = decree.ballots.get_mut(&c.ballot) {
                let new = c.reports.iter().filter(|(rank, _)| !this.reports.contains_key(*rank));
                let new: Vec<_> = new.map(|(rank, report)| (*rank, report.clone())).collect();
                this.reports.extend(new);
            }
            return;
        }
        Phase::Recovering { proposal } | Phase::Proposing { proposal, .. } => proposal,
    };
    if step == earlier {
        return;
    }
    steps.filling += u64::from(step == Step::Filling);
    steps.proposed += u64::from(step == Step::Proposing);
    let fixed = decree.ballots.get(&c.ballot).and_then(|this| this.proposal.clone());
    if let Some(fixed) = fixed {
        if *fixed != **proposal {
            // Which packets make no sense to whom, and so the outcome for their groups, is known only when all have
            // recovered the cuts.
            let judged = |directory| is_judged(rules, directory, c, &fixed, proposal);
            if step != Step::Proposing || !decree.directory.as_ref().is_some_and(judged) {
                out.push(format!("{:?} proposes something else than what it had filled", c.ballot));
            } else if let Some(this) = decree.ballots.get_mut(&c.ballot) {
                steps.judged += 1;
                this.proposal = Some(proposal.clone());
            }
        }
    } else {
        match decree.may_propose(rules, c.ballot, proposal, Some(c)) {
            Ok(fixed) => {
                steps.fix(fixed);
                if let Some(this) = decree.ballots.get_mut(&c.ballot) {
                    this.proposal = Some(proposal.clone());
                    this.adopted = fixed.adopted;
                }
            }
            Err(problem) => out.push(format!("{:?} fixes a proposal: {problem}", c.ballot)),
        }
    }
    let adopted = decree.ballots.get(&c.ballot).is_some_and(|this| this.adopted);
    if step == Step::Proposing && !adopted && !is_filled(rules, c, &decree.acceptors, proposal) {
        out.push(format!("{:?} proposes a cut that is not held by all who reported", c.ballot));
    }
}

fn explain_accept(
    rules: Rules,
    steps: &mut Steps,
    decree: &mut Decree,
    me: Incarnation,
    before: &Seen,
    (ballot, proposal): (Ballot, &Arc<Proposal>),
    out: &mut Vec<String>,
) {
    steps.accepted += 1;
    if !rules.accepts(before.promised, Some(ballot)) {
        out.push(format!("accepted in {ballot:?}, and had promised {:?}", before.promised));
    }
    let is_mine = decree.rank(me) == Some(ballot.rank);
    let known = decree.ballots.get(&ballot).and_then(|this| this.proposal.clone());
    match known {
        Some(known) if *known == **proposal => {}
        Some(_) => out.push(format!("accepted in {ballot:?} what was not proposed there")),
        // Its coordinator proposed, and yielded to a later ballot in the same poll.
        None if is_mine => match decree.may_propose(rules, ballot, proposal, None) {
            Ok(fixed) => {
                steps.proposed += 1;
                steps.fix(fixed);
                if let Some(this) = decree.ballots.get_mut(&ballot) {
                    this.proposal = Some(proposal.clone());
                }
            }
            Err(problem) => out.push(format!("accepted its own proposal in {ballot:?}: {problem}")),
        },
        None => out.push(format!("accepted in {ballot:?}, where nothing was proposed")),
    }
    decree.accepted.entry(me).or_default().push((ballot, proposal.clone()));
}

/// The result of one seed.
pub struct Judged {
    /// The seed.
    pub seed: u64,
    /// Counts of the explained steps.
    pub steps: Steps,
    /// Steps that no rule explains: slot, time in nanoseconds, text.
    pub faults: Vec<(usize, u64, String)>,
}

/// Runs a seed of the simulator and checks each poll of each process.
#[must_use]
pub fn validate_seed(seed: u64, options: &Options) -> Judged {
    let validator = Rc::new(RefCell::new(Validator::default()));
    let watching = Rc::clone(&validator);
    let watcher = Box::new(move |slot, now_ns, process: &Process| watching.borrow_mut().observe(slot, now_ns, process));
    let _judged_elsewhere = watch_seed(seed, options, watcher);
    let validator = validator.take();
    Judged { seed, steps: validator.steps, faults: validator.faults }
}
