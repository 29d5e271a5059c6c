//! One bout: a cell is formed, suffers one fault after the other, is healed, and is checked.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phalanx_runtime::clock::now;
use phalanx_runtime::core::member::HELD_BACK;
use phalanx_runtime::core::rng::Rng;
use phalanx_trace::Phase;

use super::crew::{Crew, Heard, Plan, host_of, name};
use super::fault::{FILLS_RATE, Fabric, Fault, Role, SLACK};
use super::harm::Harm;
use super::judge::{DELIVERY_BOUND_NS, MEMBERSHIP_BOUND_NS};
use super::limits::is_stopped;
use super::network::Network;
use super::outcome::Outcome;
use super::progress::Progress;
use super::recovery::Recovery;
use super::report::{Order, Report};
use super::waits::Waits;
use crate::about;
use crate::exit::{Exit, Failure};

/// Time limit of a step that should take a second or two. It is long because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for which messages flow after the last fault. It exceeds the liveness bounds, so that these are checked.
pub(super) const QUIET: Duration = Duration::from_nanos(MEMBERSHIP_BOUND_NS + DELIVERY_BOUND_NS + 1_500_000_000);

/// Interval between two polls.
const TICK: Duration = Duration::from_millis(20);

/// The latest time after its start at which a joiner meets a fault. It is in its first view by then.
const JOIN_MS: u64 = 200;

/// Parameters of a bout's cell.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) number: usize,
    pub(super) members: usize,
    pub(super) fabric: Fabric,
    pub(super) prefix: String,
    pub(super) seed: u64,
    pub(super) rate: u64,
    pub(super) directory: PathBuf,
    pub(super) faketime: Option<PathBuf>,
    /// Whether state directories can be filled.
    pub(super) disks: bool,
}

/// A cell under torture. Its processes are killed on drop.
pub(super) struct Bout<'a> {
    // Fields drop in order: the processes must end before their network does.
    crew: Crew,
    network: Network,
    number: usize,
    prefix: String,
    rng: Rng,
    interrupted: Arc<AtomicBool>,
    progress: &'a mut Progress,
    watch: Watch,
    /// Members at faulty paths so far. The removal budget counts them.
    stuck: BTreeSet<usize>,
}

/// Exclusions since the last fault began, and whether the machine may be to blame for them.
#[derive(Debug, Default)]
struct Watch {
    /// The member that suffers the fault, and since when.
    sufferer: Option<(usize, Instant)>,
    /// Time from the fault to the first other member's report of a view without the sufferer.
    excluded: Option<Duration>,
    /// Members that the fault affects: they may be excluded.
    touched: Vec<usize>,
    /// Other members that were notified of their exclusion.
    untouched: Vec<usize>,
    /// The longest delay of this process. It estimates how long the machine may have delayed members.
    stall: Duration,
    waits: Waits,
}

impl Watch {
    fn note(&mut self, (host, report): &Heard, life: u64) {
        if let Report::Pulse(pulse) = report {
            self.waits.note(*host, &pulse.uniform, life, Instant::now());
        }
        if *report == Report::Excluded && !self.touched.contains(host) {
            self.untouched.push(*host);
        }
        if let (Some((sufferer, began)), Report::Cell { members, .. }) = (self.sufferer, report)
            && *host != sufferer
            && !members.contains(&name(sufferer))
        {
            self.excluded.get_or_insert(began.elapsed());
        }
    }
}

/// The delay of this process from which on an exclusion may be the machine's fault: a member may have been delayed as
/// long.
const STALL_MAX: Duration = Duration::from_millis(250);

/// The expected recovery did not happen; the rest of the bout is useless.
struct Stuck(String);

impl<'a> Bout<'a> {
    /// Makes the network and the cell. An inner `Err` says why the cell did not form.
    pub(super) fn begin(
        setting: &Setting,
        interrupted: Arc<AtomicBool>,
        progress: &'a mut Progress,
    ) -> Result<Result<Self, String>, Failure> {
        std::fs::create_dir_all(&setting.directory).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot make {}: {error}", setting.directory.display()))
        })?;
        let network = Network::make(&setting.prefix, setting.members, setting.fabric, setting.seed)?;
        let plan = Plan {
            directory: setting.directory.clone(),
            seed: setting.seed,
            rate: setting.rate,
            faketime: setting.faketime.clone(),
            disks: setting.disks,
        };
        let crew = Crew::start(plan, &network)?;
        let rng = Rng::new(setting.seed).fork("bout");
        let (number, prefix) = (setting.number, setting.prefix.clone());
        let mut bout = Self {
            crew,
            network,
            number,
            prefix,
            rng,
            interrupted,
            progress,
            watch: Watch::default(),
            stuck: BTreeSet::new(),
        };
        bout.progress.doing("forming the cell");
        match bout.all_well()? {
            Ok(()) => Ok(Ok(bout)),
            Err(Stuck(why)) if bout.crew.wrongs.is_empty() => Ok(Err(why)),
            Err(_) => Ok(Err(bout.crew.wrongs.join("; "))),
        }
    }

    /// Injects one fault into the member that plays that role, heals it and waits for the recovery. False in the second
    /// place: the cell is stuck.
    pub(super) fn suffer(&mut self, fault: Fault, role: Role) -> Result<(Outcome, bool), Failure> {
        let mut outcome = Outcome {
            bout: self.number,
            fault,
            role,
            member: "nobody".to_owned(),
            began_ns: now().nanos(),
            excluded_ms: None,
            recovered_ms: None,
            waited_ms: 0,
            promised_ms: fault.costs_at_most().map(millis),
            violations: Vec::new(),
        };
        let stuck = self.suffer_into(fault, role, &mut outcome)?.err();
        let watch = std::mem::take(&mut self.watch);
        // For a kill, `suffer_into` waits for the view without the victim and sets the time. A joiner may not have been
        // in a view yet.
        if fault != Fault::Kill {
            outcome.excluded_ms = watch.excluded.map(millis);
        }
        if watch.stall < STALL_MAX {
            let told = |host: &usize| format!("false exclusion: {}, for no reason", name(*host));
            outcome.violations.extend(watch.untouched.iter().map(told));
            let (waited_ms, slack_ms) = (outcome.waited_ms, millis(SLACK));
            if let Some(promised_ms) = outcome.promised_ms.filter(|promised_ms| waited_ms > promised_ms + slack_ms) {
                let what = format!(
                    "cost: a member it does not affect waited for {waited_ms} ms; the promise is {promised_ms} ms"
                );
                outcome.violations.push(what);
            }
        }
        outcome.violations.append(&mut self.crew.wrongs);
        outcome.violations.append(&mut self.crew.new_panics());
        // A member that ended by itself was already reported; the stuck cell follows from it.
        if let (Some(Stuck(why)), false) = (&stuck, self.crew.lost) {
            outcome.violations.push(format!("liveness: {why}"));
        }
        Ok((outcome, stuck.is_none()))
    }

    fn suffer_into(&mut self, fault: Fault, role: Role, outcome: &mut Outcome) -> Result<Result<(), Stuck>, Failure> {
        self.progress.doing(&format!("{} at the {}", fault.name(), role.name()));
        let host = match self.cast(role)? {
            Ok(host) => host,
            Err(stuck) => return Ok(Err(stuck)),
        };
        outcome.member = name(host);
        self.progress.doing(&format!("{} at the {}, {}", fault.name(), role.name(), name(host)));
        let began = Instant::now();
        outcome.began_ns = now().nanos();
        let mut harm = match self.strike(fault, role, host)? {
            Ok(harm) => harm,
            Err(stuck) => return Ok(Err(stuck)),
        };
        self.watch.touched = harm.touched(role);
        self.watch.sufferer = Some((host, began));
        let all = self.crew.members.iter().map(|member| (member.host, member.incarnation));
        let whole: Vec<(usize, u64)> = all.filter(|(host, _)| !harm.ends().contains(host)).collect();
        self.watch.waits = Waits::begin(&whole, Instant::now());
        while began.elapsed() < fault.hold() {
            self.listen()?;
            harm.tick(began.elapsed(), &self.network, &mut self.crew)?;
        }
        if fault == Fault::Kill {
            if let Err(stuck) = self.without(host)? {
                return Ok(Err(stuck));
            }
            outcome.excluded_ms = (role != Role::Joiner).then(|| millis(began.elapsed()));
        }
        outcome.waited_ms = millis(self.watch.waits.end(Instant::now()));
        let felt = harm.felt(&self.network, &self.crew)?;
        let ends = harm.ends();
        harm.heal(&self.network, &mut self.crew)?;
        // A fault without effect would pass as one that was survived.
        if !felt {
            self.crew.wrongs.push("the fault had no effect".to_owned());
        }
        // A joiner that was never a member cannot be excluded. With a pair, either end may be.
        if fault.draws_on_the_budget() {
            self.stuck.extend(ends);
        }
        // Within ten minutes no more than a minority of members that others hear is removed. Beyond the budget, the
        // fault's effect lasts as long as the fault.
        let is_spared = fault.draws_on_the_budget() && self.stuck.len() > (self.network.count - 1) / 2;
        if is_spared {
            outcome.promised_ms = None;
        }
        let fills = fault != Fault::HangingApplication || self.crew.plan().rate >= FILLS_RATE;
        let may_stay = role == Role::Joiner || is_spared || !fills;
        if fault.must_exclude() && !may_stay && self.watch.excluded.is_none() {
            self.crew.wrongs.push(format!("{} was not left out, though it made no progress", name(host)));
        }
        let healed = Instant::now();
        let well = self.all_well()?;
        if well.is_ok() {
            outcome.recovered_ms = Some(millis(healed.elapsed()));
            // Properties exercised by a loss, in addition to those of every bout. A joiner was killed first. Its exclusion
            // on its way in ends no membership of a group.
            if fault == Fault::Kill || (role == Role::Joiner && self.watch.excluded.is_some()) {
                self.crew.write(&about::record(about::TORTURE_KILL))?;
            } else if self.watch.excluded.is_some() {
                self.crew.write(&about::record(about::TORTURE_EXCLUSION))?;
            }
        }
        Ok(well)
    }

    /// Adds an outcome to the progress display.
    pub(super) fn count(&mut self, outcome: &Outcome) {
        self.progress.faults += 1;
        self.progress.violations += outcome.violations.len();
    }

    /// Heals what is left, and lets messages flow undisturbed. With `whole`, long enough to check liveness.
    pub(super) fn end(mut self, whole: bool) -> Result<Vec<String>, Failure> {
        if whole {
            self.progress.doing("undisturbed for a while");
            self.crew.phase(Phase::Heal)?;
            self.crew.phase(Phase::Quiet)?;
            let ends = Instant::now() + QUIET;
            while Instant::now() < ends {
                self.listen()?;
            }
        }
        self.crew.end()?;
        let mut wrongs = std::mem::take(&mut self.crew.wrongs);
        wrongs.append(&mut self.crew.new_panics());
        Ok(wrongs)
    }

    /// Describes the state of every member, to find the reason for a stuck cell.
    pub(super) fn standing(&self) -> String {
        let one = |m: &super::crew::Member| {
            let view = |view: &Option<(u64, Vec<String>)>| {
                view.as_ref()
                    .map_or_else(|| "none".to_owned(), |(number, names)| format!("{number} [{}]", names.join(" ")))
            };
            let running = if m.alive { "runs" } else { "is dead" };
            let primary = if m.primary { "" } else { ", not primary" };
            format!(
                "{} ({:016x}) {running}{primary}; cell view {}; group view {}; orders {}; sent {}; heard {:x?}",
                m.name(),
                m.incarnation,
                view(&m.cell),
                view(&m.work),
                m.pulse.orders.as_deref().unwrap_or("?"),
                m.pulse.sent,
                m.pulse.heard
            )
        };
        self.crew.members.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    /// Finds a member that plays the role now, or arranges that one does.
    fn cast(&mut self, role: Role) -> Result<Result<usize, Stuck>, Failure> {
        // A fault is to meet one role, so the coordinator and the token holder must be different members.
        if let Err(stuck) = self.part_roles()? {
            return Ok(Err(stuck));
        }
        let (coordinator, holder) = (self.coordinator(), self.holder());
        match (role, coordinator, holder) {
            (Role::Coordinator, Some(host), _) | (Role::TokenHolder, _, Some(host)) => Ok(Ok(host)),
            (Role::Bystander, _, _) => Ok(Ok(self.bystander())),
            (Role::Joiner, _, _) => {
                let host = self.bystander();
                // Every host has a member already, so a joiner is one that was killed and is started again.
                self.crew.kill(host)?;
                Ok(self.without(host)?.map(|()| host))
            }
            _ => Ok(Err(Stuck("nobody plays that role".to_owned()))),
        }
    }

    /// Injects the fault. A joiner starts now, and meets the fault at its start or on its way in.
    fn strike(&mut self, fault: Fault, role: Role, host: usize) -> Result<Result<Harm, Stuck>, Failure> {
        let group = format!("{}quota", self.prefix);
        if role != Role::Joiner {
            return Harm::apply(fault, host, &self.network, &mut self.crew, &group).map(Ok);
        }
        if fault == Fault::HangingJoiner {
            self.crew.spawn_to_hang(&self.network, host)?;
            if !self.until(PATIENCE, |bout| is_stopped(bout.crew.member(host).pid()))? {
                return Ok(Err(Stuck(format!("no state transfer to {} begins", name(host)))));
            }
            return Harm::apply(fault, host, &self.network, &mut self.crew, &group).map(Ok);
        }
        // A fault of the network can also be there before the process starts.
        if !fault.needs_process() && self.rng.below(2) == 0 {
            let harm = Harm::apply(fault, host, &self.network, &mut self.crew, &group)?;
            self.crew.spawn(&self.network, host)?;
            return Ok(Ok(harm));
        }
        self.crew.spawn(&self.network, host)?;
        if !self.until(PATIENCE, |bout| bout.crew.member(host).incarnation != 0)? {
            return Ok(Err(Stuck(format!("{} does not begin", name(host)))));
        }
        // Somewhere on its way in, at a random moment.
        let ends = Instant::now() + Duration::from_millis(self.rng.below(JOIN_MS));
        while Instant::now() < ends {
            self.listen()?;
        }
        Harm::apply(fault, host, &self.network, &mut self.crew, &group).map(Ok)
    }

    /// Ensures that the coordinator does not also hold the token.
    fn part_roles(&mut self) -> Result<Result<(), Stuck>, Failure> {
        let Some(host) = self.coordinator().filter(|host| Some(*host) == self.holder()) else { return Ok(Ok(())) };
        self.crew.order(host, Order::Regroup)?;
        let all: Vec<usize> = (1..=self.network.count).collect();
        let parted = self.until(PATIENCE, |bout| {
            let moved =
                |h: &usize| bout.crew.member(*h).pulse.orders.clone().is_some_and(|who| host_of(&who) != Some(host));
            all.iter().all(moved) && bout.agree()
        })?;
        let why = || Stuck(format!("{} did not come back to its group", name(host)));
        Ok(if parted { Ok(()) } else { Err(why()) })
    }

    fn coordinator(&mut self) -> Option<usize> {
        let (_, members) = self.crew.member(1).cell.as_ref()?;
        host_of(members.first()?)
    }

    fn holder(&mut self) -> Option<usize> {
        host_of(self.crew.member(1).pulse.orders.as_deref()?)
    }

    fn bystander(&mut self) -> usize {
        let busy = [self.coordinator(), self.holder()];
        let free: Vec<usize> = (1..=self.network.count).filter(|host| !busy.contains(&Some(*host))).collect();
        free[usize::try_from(self.rng.below(free.len() as u64)).unwrap_or(0)]
    }

    /// Waits until all others are in a view without that member.
    fn without(&mut self, host: usize) -> Result<Result<(), Stuck>, Failure> {
        let others: Vec<usize> = self.network.others(host).collect();
        let gone = self.until(PATIENCE, |bout| {
            let lacks = |other: &usize| {
                bout.crew.member(*other).cell.as_ref().is_some_and(|(_, members)| !members.contains(&name(host)))
            };
            others.iter().all(lacks)
        })?;
        let why = || format!("the others did not exclude {} within {} s", name(host), PATIENCE.as_secs());
        Ok(if gone { Ok(()) } else { Err(Stuck(why())) })
    }

    /// Waits until all are in one view, and messages and calls get from everybody to everybody.
    fn all_well(&mut self) -> Result<Result<(), Stuck>, Failure> {
        let mut recovery = Recovery::default();
        let patience = PATIENCE + HELD_BACK; // a member that was excluded repeatedly is held back
        let well = self.until(patience, |bout| {
            let agreed = bout.agree();
            recovery.look(&bout.crew.seen(), agreed)
        })?;
        let why = || Stuck(format!("{} within {} s", recovery.lacks(), patience.as_secs()));
        Ok(if well { Ok(()) } else { Err(why()) })
    }

    /// Whether all members are in one view of the cell and of their group.
    fn agree(&mut self) -> bool {
        let members = &self.crew.members;
        let Some(first) = members.first() else { return false };
        let same = |m: &super::crew::Member| {
            m.alive && m.primary && m.cell.is_some() && m.cell == first.cell && m.work.is_some() && m.work == first.work
        };
        let whole = |view: &Option<(u64, Vec<String>)>| {
            view.as_ref().is_some_and(|(_, names)| {
                names.len() == members.len() && members.iter().all(|m| names.contains(&m.name()))
            })
        };
        members.iter().all(same) && whole(&first.cell) && whole(&first.work)
    }

    fn until(&mut self, patience: Duration, mut done: impl FnMut(&mut Self) -> bool) -> Result<bool, Failure> {
        let ends = Instant::now() + patience;
        while !done(self) {
            // A member that ended by itself will not come back, so waiting is useless.
            if Instant::now() > ends || self.crew.lost {
                return Ok(false);
            }
            self.listen()?;
        }
        Ok(true)
    }

    /// Processes incoming reports for one tick.
    fn listen(&mut self) -> Result<(), Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::Interrupted, "interrupted; all members were ended"));
        }
        let (mut patience, began) = (TICK, Instant::now());
        // Only the first report is waited for; then those that are already there are taken.
        while let Some(heard) = self.crew.hear(patience)? {
            let life = self.crew.member(heard.0).incarnation;
            self.watch.note(&heard, life);
            patience = Duration::ZERO;
        }
        // A delay beyond the tick shows that the machine held up this process, and perhaps members.
        self.watch.stall = self.watch.stall.max(began.elapsed().saturating_sub(TICK));
        self.progress.show();
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
