//! Runs one seed, from the founding to the verdict.

use std::cell::Cell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use phalanx_check::Report;
use phalanx_core::member::FaultKind;
use phalanx_core::rng::Rng;
use phalanx_core::wire::DropReason;
use phalanx_core::{LEVEL, Limits, Timing};
use phalanx_trace::{Event as TraceEvent, Phase, Trace};

use crate::bounds::Bounds;
use crate::bursts::BURSTS_FROM_NS;
use crate::chaos::Chaos;
use crate::classes;
use crate::classes::churn::waits_for_calm;
use crate::clock::{MS, SECOND};
use crate::fault::Busy;
use crate::history;
use crate::machine::INVARIANT;
use crate::options::Options;
use crate::oracle::{fold, hash_bytes};
use crate::panics;
use crate::partial::{self, PARTIAL_NS, Partial};
use crate::plan::{Plan, SETTLE_NS, Workload};
use crate::result::{Counters, SeedResult, Violation, add_to};
use crate::slot::{Slot, packets_idle};
use crate::storm::{STORM, Storm};
use crate::tap::TapFile;
use crate::timeline;
use crate::world::SUSPECT_AFTER;
use crate::world::{Step, Watcher, World, WorldSettings};

/// Time until everything that was dead has been restarted.
const RESTARTS_NS: u64 = 600 * MS;
/// Time until a process that was excluded again and again is admitted again: it is held back for 60 s, and needs some
/// time to join.
pub(crate) const HELD_BACK_NS: u64 = 75 * SECOND;
/// Time from a send in the quiet phase to its deliveries.
pub(crate) const DELIVER_NS: u64 = 4 * SECOND;
/// Bound on the tables in one story.
const TABLES_MAX: usize = 4;
/// Time for which the packets of the calm are counted.
const COUNT_NS: u64 = 2 * SECOND;

/// Runs one seed, evaluates it, and adds the story if it failed.
#[must_use]
pub fn run_seed(seed: u64, options: &Options) -> SeedResult {
    run(seed, options, None)
}

/// The same, with a watcher that is called for each process after each of its iterations.
#[must_use]
pub fn watch_seed(seed: u64, options: &Options, watcher: Watcher) -> SeedResult {
    run(seed, options, Some(watcher))
}

fn run(seed: u64, options: &Options, watcher: Option<Watcher>) -> SeedResult {
    let (world, plan) = run_world(seed, options, watcher);
    let header = format!("{}\n\n{}", options.replay_command(seed), describe(&plan, options));
    let mut result = conclude(world, seed, &header, options);
    classes::count(&plan, &mut result.counters);
    if let Some(class) = plan.class {
        add_to(&mut result.counters.classes, class.name(), 1);
    }
    if !result.violations.is_empty() {
        result.counters.partial_failed = result.counters.partial.clone();
        result.counters.classes_failed = result.counters.classes.clone();
    }
    SeedResult { class: plan.class, full: is_full(&plan, &result.counters), ..result }
}

/// Runs one seed up to its evaluation.
pub(crate) fn run_world(seed: u64, options: &Options, watcher: Option<Watcher>) -> (World, Plan) {
    let plan = options.plan(seed);
    let machines = options.machines_of(seed, &plan);
    let mut world = World::new(world_settings(&plan, options, machines.is_some()), seed);
    world.watcher = watcher;
    world.slots.iter_mut().for_each(|slot| slot.app.holds.pace.pieces = plan.pieces);
    if let Some(machines) = &machines {
        world.equip(machines);
    }
    // A panic ends the seed, not the campaign. Afterwards the world is only read.
    let outcome = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| live(&mut world, &plan, seed))));
    if let Err(panic) = outcome {
        world.panicked(&panics::describe(panic.as_ref()));
    }
    (world, plan)
}

fn is_full(plan: &Plan, counters: &Counters) -> bool {
    let inside = counters.faults_in_flush + counters.faults_in_join + counters.faults_in_transfer;
    counters.simulated_ms >= 30_000
        && plan.workload.gap_ns <= 100 * MS
        && counters.faults_total() >= 3
        && inside >= 1
        && counters.without_quorum == 0
}

fn world_settings(plan: &Plan, options: &Options, has_machines: bool) -> WorldSettings {
    WorldSettings {
        hosts: plan.hosts.clone(),
        twins: plan.twin.into_iter().collect(),
        copies: Vec::new(),
        unequal: plan.unequal.clone(),
        builds: plan.builds,
        minima: plan.minima,
        inboxes: plan.inboxes.clone(),
        late: plan.late.clone(),
        turn_gaps: plan.turn_gaps.clone(),
        far: plan.far.clone(),
        exchange_ns: classes::exchange_ns(plan),
        stateless: plan.stateless.clone(),
        crowd: plan.crowd.clone(),
        churn: plan.churn.clone(),
        askers: Vec::new(),
        death_delay_ns: plan.death_delay_ns,
        patience: None,
        minority: plan.minority.clone(),
        founders: plan.founders,
        death_notice: plan.death_notice,
        memory: plan.memory,
        sealed: plan.sealed,
        buffer_bytes: plan.buffer_bytes,
        tells_buffers: plan.tells_buffers,
        egress: plan.egress,
        tap: options.tap.as_ref().and_then(TapFile::take),
        turn_ns: plan.turn_ns,
        packet_bytes: plan.packet_bytes,
        window_bytes: plan.window_bytes,
        // The objects are the simulator's own; a machine could make no sense of their operations.
        workload: Some(match has_machines {
            false => plan.workload,
            true => Workload { operations_ppm: 0, ..plan.workload },
        }),
        bursts: plan.bursts,
        token_tally: plan.token_tally,
        watchers: options.watchers.unwrap_or(plan.watchers),
        expel_after: plan.expel_after,
        suspect_after: SUSPECT_AFTER,
        // A check looks at every group.
        check_every: options.check_every * if plan.crowd.is_some() { 50 } else { 1 },
    }
}

/// Runs the faulty phase, the heal and the quiet phase.
fn live(world: &mut World, plan: &Plan, seed: u64) {
    let mut rng = Rng::new(seed).fork("run");
    let Bounds { settle_ns, deliver_ns, calm_ns, .. } =
        Bounds::of(classes::exchange_ns(plan), plan.workload.state_bytes);
    count_shape(world, plan);
    for slot in 0..plan.members {
        let event = crate::world::Event::Start { slot, moved: false };
        let spread_ns = if plan.herd { 1 } else { 500 * MS };
        world.queue.push(rng.below(spread_ns), event);
    }
    for slot in &mut world.slots {
        slot.app.must_stay = plan.mild;
    }
    world.queue.push(BURSTS_FROM_NS, crate::world::Event::Burst { epoch: 0 });
    world.enter(Phase::Faulty, Vec::new());
    let mut chaos = Chaos::begin(plan, rng.fork("chaos"), world);
    // Where there are many groups, nothing but their own members' faults strikes.
    let storm = Cell::new(Storm::new(plan.crowd.is_some()));
    let go = |world: &mut World, chaos: &mut Chaos, until_ns: u64| {
        loop {
            let mut seen = storm.get();
            seen.look(world);
            storm.set(seen);
            if seen.rages {
                return;
            }
            match world.step(until_ns) {
                Step::Done => return,
                Step::Turned(slot) => {
                    chaos.count_passes(slot, world);
                    chaos.look(world);
                }
                Step::Timer(id) => chaos.on_timer(id, world),
                Step::Other => {}
            }
        }
    };
    go(world, &mut chaos, plan.heal_ns);
    world.enter(Phase::Heal, Vec::new());
    if let Some(twin) = plan.twin {
        world.end_the_stranger(twin);
    }
    // A group that some process always leaves or joins has no view on which all agree.
    world.regrouping = false;
    chaos.heal(world);
    go(world, &mut chaos, world.now_ns + RESTARTS_NS);
    storm.set(storm.get().calmed());
    let whole = chaos.ruins.whole(world);
    let healed_ns = world.now_ns;
    if world.settings.churn.is_some() {
        await_calm(world, &mut chaos, settle_ns, go);
    }
    let mut quiet_ns = world.now_ns;
    // Before paths break in part, the cell settles in one view; only then is it left alone.
    let deliver_ns = if plan.partial.is_some() { 0 } else { deliver_ns };
    let begin_quiet = |world: &mut World| {
        if plan.partial.is_none() {
            world.enter(Phase::Quiet, whole.clone());
        }
    };
    begin_quiet(world);
    let (mut settled_ns, mut waited) = (None, None);
    while world.now_ns < quiet_ns + settle_ns + deliver_ns {
        // In small steps: the operator acts between them, and the time of the common view is measured.
        let next_ns = world.now_ns + 50 * MS;
        go(world, &mut chaos, next_ns);
        if storm.get().rages {
            return finish(world);
        }
        world.tend_orphans();
        let may_go = settled_ns.is_none() || world.now_ns < quiet_ns + settle_ns;
        // A process that was excluded again and again is held back. The bounds of the quiet phase apply to processes that
        // may join. A member may also go after all were in one view, because packets that it sent before the heal are up
        // to 3 s late. And where all were told to leave, the last member of a view with too few waits 10 s for its
        // messages, and nobody is started before it is gone. Who refuses a state leaves the group and comes again.
        let held_back = world.somebody_is_told_to_wait();
        let waits = held_back || world.operator.doomed.awaits_a_leave() || somebody_refused(world);
        if may_go && waits && world.now_ns < healed_ns + HELD_BACK_NS + settle_ns - SETTLE_NS {
            (quiet_ns, settled_ns, waited) = (world.now_ns, None, Some(held_back));
            continue;
        }
        if let Some(held_back) = waited.take() {
            let moment = "heals after which who was left out lately waits";
            add_to(&mut world.counters.moments, moment, u64::from(held_back));
            begin_quiet(world);
        }
        if settled_ns.is_none() && world.unsettled().is_none() {
            settled_ns = Some(world.now_ns);
        }
        // Nobody is to be left out for late packets of the faulty phase after paths broke in part. While they were under
        // way, their sender was not heard.
        let may_break = plan.partial.is_some() && !world.net.is_late(world.now_ns.saturating_sub(2 * SECOND));
        if settled_ns.is_none() && world.now_ns >= quiet_ns + settle_ns || settled_ns.is_some() && may_break {
            break;
        }
    }
    match settled_ns {
        Some(at_ns) => {
            world.counters.settle_ms_max = (at_ns - quiet_ns) / MS;
            if let Some(partial) = &plan.partial {
                live_impaired(world, &mut chaos, partial);
                finish(world);
                return;
            }
            world.counters.ruined = u64::from(!world.ruined.is_empty());
            world.leave_inboxes_unread(&mut rng.fork("inboxes"), |world, until_ns| go(world, &mut chaos, until_ns));
            // V5 and V8 need a calm in which nothing is left to be sent.
            world.sending = false;
            go(world, &mut chaos, world.now_ns + calm_ns);
            count_calm(world, &mut chaos, go);
            crate::submits::judge_outcomes(world);
        }
        // The faults may have taken the last quorum for good; nothing is due then.
        None if !world.has_future(None) => world.counters.without_quorum = 1,
        None => {
            let why = world.unsettled().unwrap_or_default();
            world.note_states();
            world.violation("liveness", format!("{} s after the heal: {why}", settle_ns / SECOND));
        }
    }
    finish(world);
}

/// Lets a group go on changing until what waits is back, for as long as that may take.
fn await_calm(world: &mut World, chaos: &mut Chaos, settle_ns: u64, go: impl Fn(&mut World, &mut Chaos, u64)) {
    let healed_ns = world.now_ns;
    // The faults may have taken the last quorum for good, as where the view that a dying coordinator proposed is decided.
    while world.has_future(None)
        && let Some(why) = waits_for_calm(world)
    {
        if world.now_ns >= chaos.churning.waits_until(healed_ns, settle_ns) {
            let seconds = (world.now_ns - healed_ns) / SECOND;
            world.violation("liveness", format!("{seconds} s after the heal, while a group changes: {why}"));
            break;
        }
        let next_ns = world.now_ns + 50 * MS;
        go(world, chaos, next_ns);
        // In a storm no time passes any more; the caller ends the run.
        if world.now_ns < next_ns {
            return;
        }
        world.tend_orphans();
    }
    world.settings.churn = None;
}

/// Ends the experiment: records the last digests, and the ends of all traces.
pub(crate) fn finish(world: &mut World) {
    let differing = world.settings.builds.is_some() || world.settings.unequal.iter().any(|own| own.agreed.is_some());
    // Only a difference in builds or agreed settings justifies that a process is kept out.
    if let Some(slot) = world.slots.iter().find(|slot| slot.app.kept_out && !differing) {
        let why = format!("{} is kept out of the cell, and has the build and the settings of all", slot.name);
        world.violation("refusal", why);
    }
    for slot in &mut world.slots {
        slot.app.now_ns = world.now_ns;
        if slot.node.is_some() {
            slot.app.record_digests();
        }
    }
    world.end();
}

/// Breaks paths in part, and lets the others go on.
fn live_impaired(world: &mut World, chaos: &mut Chaos, partial: &Partial) {
    let mut go = |world: &mut World, until_ns: u64, busy: Option<Busy>| {
        while busy.is_none_or(|busy| !world.somebody_is(busy)) {
            match world.step(until_ns) {
                Step::Done => return,
                Step::Timer(id) => chaos.on_timer(id, world),
                Step::Turned(_) | Step::Other => {}
            }
        }
    };
    partial::begin(partial, world, &mut go);
    let whole = if world.impaired.is_empty() { Vec::new() } else { world.unimpaired() };
    world.enter(Phase::Quiet, whole);
    let until_ns = world.now_ns + PARTIAL_NS;
    while world.now_ns < until_ns {
        // The crash that began a view change may have taken the only one with a group's state.
        world.tend_orphans();
        let next_ns = until_ns.min(world.now_ns + SECOND);
        go(world, next_ns, None);
    }
}

/// Counts the properties of a plan that hold for the whole run.
fn count_shape(world: &mut World, plan: &Plan) {
    if let Some(kind) = plan.state {
        add_to(&mut world.counters.moments, kind.name(), 1);
    }
    if let Some(rare) = plan.rare {
        add_to(&mut world.counters.moments, rare.name(), 1);
    }
    let mut count = |name: &str, count: usize| {
        if count > 0 {
            add_to(&mut world.counters.moments, name, count as u64);
        }
    };
    count("members with settings of their own", plan.unequal.len());
    count("seeds between two builds", usize::from(plan.builds.is_some()));
    let last = plan.builds.is_some_and(|builds| builds.later == LEVEL);
    count("seeds between the last two builds", usize::from(last));
    count("seeds with minima of members", usize::from(plan.minima.is_some()));
    count("members with agreed settings of their own", plan.unequal.iter().filter(|own| own.agreed.is_some()).count());
    count("seeds with inboxes of groups", usize::from(plan.inboxes.is_some()));
    count("founders with a twin", usize::from(plan.twin.is_some()));
}

/// Counts packets in the calm. With nothing to send, processes send little: heartbeats and their acks.
fn count_calm(world: &mut World, chaos: &mut Chaos, go: impl Fn(&mut World, &mut Chaos, u64)) {
    let sent = |world: &World| world.counters.packets + world.counters.shared;
    let before = sent(world);
    let until_ns = world.now_ns + COUNT_NS;
    go(world, chaos, until_ns);
    let packets = sent(world) - before;
    let n = world.running();
    let most = n as u64 * packets_idle(n.saturating_sub(1), world.ruined.len()) * COUNT_NS / SECOND + 10;
    if packets > most {
        let text = format!("{packets} packets in {} s with nothing to send; {most} would be plenty", COUNT_NS / SECOND);
        world.violation("V5", text);
    }
}

impl World {
    /// Reports a panic, of the core or of the user's code.
    fn panicked(&mut self, what: &str) {
        let in_machine = |slot: &Slot| Some((slot.name.clone(), slot.app.maker.as_ref()?.running()?));
        match self.slots.iter().find_map(in_machine) {
            Some((name, doing)) => {
                let code = if doing == INVARIANT { "invariant" } else { "panic" };
                self.violation(code, format!("{name}: the state machine panicked {doing}: {what}"));
            }
            None => self.violation("panic", what.to_owned()),
        }
    }

    /// Begins a phase. A quiet one names the processes whose liveness is due, unless it is all.
    pub(crate) fn enter(&mut self, phase: Phase, connected: Vec<String>) {
        self.harness.push(self.now_ns, TraceEvent::Phase { phase, connected });
    }
}

impl World {
    /// Evaluates W1, sense. In a sealed cell only members make packets. Packets of members make sense, and none is
    /// dropped for lack of room before it is sent.
    fn judge_sense(&mut self, counters: &Counters) {
        if !self.settings.sealed {
            return;
        }
        // A message that was made unreadable counts as malformed, and so does all that follows it.
        let malformed = (!self.unread_channels).then_some(DropReason::Malformed.name());
        for name in malformed.into_iter().chain(["control_refused"]) {
            let count = counters.core.get(name).copied().unwrap_or(0);
            if count > 0 {
                self.violation("W1", format!("{count} times {name}, in a sealed cell"));
            }
        }
    }
}

/// Evaluates a world that has run.
pub(crate) fn conclude(mut world: World, seed: u64, header: &str, options: &Options) -> SeedResult {
    let mut traces: Vec<Trace> =
        vec![std::mem::replace(&mut world.harness, Trace::new(phalanx_trace::Header::harness("", "")))];
    for slot in &mut world.slots {
        traces.append(&mut slot.app.traces);
    }
    let history = if options.histories { history::operations(traces.iter()) } else { Vec::new() };
    let mut counters = world.count();
    let report = phalanx_check::check(&traces, &check_options(&world));
    world.judge_sense(&counters);
    let mut violations = std::mem::take(&mut world.violations);
    violations.extend(crate::judge::violations(&report));
    crate::judge::count(&report, &mut counters);
    // The traces go back where the table looks for them.
    let mut rest = traces.into_iter();
    world.harness = rest.next().unwrap_or_else(|| Trace::new(phalanx_trace::Header::harness("", "")));
    let trace_hash = hash_traces(&world.harness, rest.as_slice());
    for trace in rest {
        if let Some(slot) = world.slots.iter_mut().find(|slot| slot.name == trace.header.node) {
            slot.app.traces.push(trace);
        }
    }
    let story = (!violations.is_empty()).then(|| tell(&world, header, &violations, &report, options.story_rows));
    SeedResult {
        seed,
        members: world.slots.len(),
        class: None,
        trace_hash,
        full: false,
        violations,
        counters,
        story,
        history,
    }
}

pub(crate) fn check_options(world: &World) -> phalanx_check::Options {
    let state_bytes = world.settings.workload.map_or(0, |workload| workload.state_bytes);
    let bounds = Bounds::of(world.settings.exchange_ns, state_bytes);
    phalanx_check::Options {
        // A single seed need not exercise every property. The campaign checks coverage over all its seeds.
        // All simulated applications record what they are told is stable, so that none must be told of nothing.
        require: phalanx_check::Require::These(vec![phalanx_check::Property::V17]),
        one_instance: true,
        complete: true,
        // Processes that the world knows to be gone need not come to a view.
        hopeless: world.counters.without_quorum > 0 || world.violations.iter().any(|violation| violation.code == STORM),
        // All traces share the virtual clock.
        clock_slack_ns: 0,
        membership_bound_ns: bounds.settle_ns,
        delivery_bound_ns: bounds.deliver_ns,
        flush_bound_ns: bounds.flush_ns,
        cut_off_bound_ns: bounds.cut_off_ns,
        calm_bound_ns: bounds.calm_ns,
        hostage_bound_ns: hostage_bound_ns(world.settings.suspect_after) + bounds.hostage_more_ns,
        impaired_delivery_bound_ns: impaired_delivery_ns(world),
        // A cell that does not settle is detected before the checker's own bound. Churn allows, besides the views that
        // settle the cell, for a leave and a return that were under way at the heal.
        churn_max: 5,
        join_bound_ns: bounds.join_ns,
        ..phalanx_check::Options::default()
    }
}

/// The bound on the cost of a stopped member to the others; no less than the checker's default where processes are
/// suspected soon.
fn hostage_bound_ns(suspect_after: Duration) -> u64 {
    let timing = Timing { suspect_after, ..Timing::default() };
    let costs = FaultKind::Stopped.costs_at_most(&timing, &Limits::default()).unwrap_or_default();
    phalanx_check::Options::default().hostage_bound_ns.max(u64::try_from(costs.as_nanos()).unwrap_or(u64::MAX))
}

/// What the broken paths and the death or leave that comes with them may cost the others (`docs/costs.md`), with the
/// longest settings of any member; no more than V14 allows anyway.
fn impaired_delivery_ns(world: &World) -> u64 {
    let mut timing = Timing { suspect_after: world.settings.suspect_after, ..Timing::default() };
    for own in &world.settings.unequal {
        timing.heartbeat = timing.heartbeat.max(Duration::from_millis(own.heartbeat_ms));
        timing.suspect_after = timing.suspect_after.max(Duration::from_millis(own.suspect_after_ms));
        timing.ballot_step = timing.ballot_step.max(Duration::from_millis(own.ballot_step_ms));
    }
    let costs = |kind: FaultKind| kind.costs_at_most(&timing, &Limits::default()).unwrap_or_default();
    let most_ns = phalanx_check::Options::default().impaired_delivery_bound_ns;
    let breaks = match world.counters.partial.values().sum::<u64>() {
        0 => return most_ns, // a fault of another kind, which has a judge of its own
        breaks => u32::try_from(breaks).unwrap_or(u32::MAX),
    };
    let all = costs(FaultKind::LongPackets).saturating_mul(breaks).saturating_add(costs(FaultKind::Dead));
    u64::try_from(all.as_nanos()).unwrap_or(u64::MAX).min(most_ns)
}

fn tell(world: &World, header: &str, violations: &[Violation], report: &Report, rows: usize) -> String {
    let mut story = format!("{header}\n");
    for violation in violations {
        let at = violation.at_ns as f64 / 1e9;
        let _ = writeln!(story, "{} at {at:.6} s: {}", violation.code, violation.text);
    }
    // One table for the first violation of each code, so that an early one does not hide a late one.
    let mut told: Vec<&str> = Vec::new();
    for violation in violations {
        if told.len() < TABLES_MAX && !told.contains(&violation.code.as_str()) {
            told.push(&violation.code);
            let _ = writeln!(story, "\nbefore {}:", violation.code);
            let proofs = crate::judge::proofs(report, &violation.code);
            story.push_str(&timeline::render(world, violation.at_ns, rows, &proofs));
        }
    }
    story
}

fn describe(plan: &Plan, options: &Options) -> String {
    let mut text = format!(
        "{} members on machines {:?}, {} named founders, death notices {}, memory {:?}, sealed {}, mild {}, lethal {}, ruin {}, herd {}, watchers {}, expels after {:?}, token tally {}, heal at {} s\n{:?}\n{:?}\n",
        plan.members,
        plan.hosts,
        plan.founders,
        plan.death_notice,
        plan.memory,
        plan.sealed,
        plan.mild,
        plan.lethal,
        plan.ruin,
        plan.herd,
        plan.watchers,
        plan.expel_after,
        plan.token_tally,
        plan.heal_ns / SECOND,
        plan.weather,
        plan.workload,
    );
    let _ = writeln!(
        text,
        "packets of {} bytes, windows of {}, sockets of {} ({}), turns of {} us",
        plan.packet_bytes,
        plan.window_bytes,
        plan.buffer_bytes,
        if plan.tells_buffers { "told to others" } else { "not told" },
        plan.turn_ns / 1_000,
    );
    if let Some(egress) = plan.egress {
        let _ = writeln!(text, "interfaces of {egress} bytes a millisecond");
    }
    if let Some(partial) = &plan.partial {
        let _ = writeln!(text, "{partial:?}");
    }
    if let Some(rare) = plan.rare {
        let _ = writeln!(text, "condition {rare:?}");
    }
    if let Some(class) = plan.class {
        let _ = writeln!(text, "class {class}");
    }
    if let Some(far) = &plan.far {
        let _ = writeln!(text, "{far:?}");
    }
    if !plan.stateless.is_empty() {
        let _ = writeln!(text, "without the state, by process and group: {:?}", plan.stateless);
    }
    if let Some(crowd) = &plan.crowd {
        let _ = writeln!(text, "{crowd:?}");
    }
    if let Some(churn) = &plan.churn {
        let _ = writeln!(text, "{churn:?}");
    }
    if let Some(minima) = plan.minima {
        let _ = writeln!(text, "{minima:?}");
    }
    if let Some(inboxes) = &plan.inboxes {
        let _ = writeln!(text, "{inboxes:?}");
    }
    for (slot, own) in plan.unequal.iter().enumerate() {
        let _ = writeln!(text, "p{slot}: {own:?}");
    }
    for (slot, turn_ns) in &plan.late {
        let gap = plan.turn_gaps.iter().find(|(who, _)| who == slot).map(|(_, gap)| gap);
        let _ = writeln!(text, "p{slot} is always late: a turn takes {} ms, declared {gap:?}", turn_ns / MS);
    }
    if let Some((who, whose)) = plan.twin {
        let _ = writeln!(text, "p{who} is started under the name of p{whose}");
    }
    if !plan.minority.is_empty() {
        let _ = writeln!(text, "group \"m\": {:?}", plan.minority);
    }
    if let Some(kind) = plan.state {
        let _ = writeln!(text, "user's state: {kind:?}");
    }
    if let Some(pieces) = plan.pieces {
        let _ = writeln!(text, "{pieces:?}");
    }
    if let Some(bursts) = plan.bursts {
        let _ = writeln!(text, "{bursts:?}");
    }
    for (index, fault) in plan.faults.iter().enumerate() {
        let number = options.faults.as_ref().map_or(index, |kept| kept[index]);
        let _ = writeln!(text, "fault {number}: {:?} {:?} for {} ms", fault.aim, fault.kind, fault.lasts_ns / MS);
    }
    text
}

/// Hash of all records, trace by trace, in their order.
fn hash_traces(harness: &Trace, traces: &[Trace]) -> u64 {
    let mut hash = 0;
    let mut scratch = vec![0; phalanx_trace::RECORD_BYTES_MAX];
    for record in std::iter::once(harness).chain(traces).flat_map(|trace| &trace.records) {
        let bytes = postcard::to_slice(record, &mut scratch).expect("a record is no longer than a trace may hold");
        hash = fold(hash ^ hash_bytes(bytes));
    }
    hash
}

/// Whether a process refused a state a moment ago: it is not in the group yet, though all is healed.
fn somebody_refused(world: &World) -> bool {
    let lately = |at_ns: u64| world.now_ns < at_ns + AGAIN_NS;
    world.slots.iter().filter_map(|slot| slot.app.told.refused_ns()).any(lately)
}

/// Time in which a process that refused a state is in the group again, or has refused the next one.
const AGAIN_NS: u64 = 2 * SECOND;
