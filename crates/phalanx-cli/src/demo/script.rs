//! The script of the demonstration: its steps in order, and their measurements.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phalanx_trace::{Event, Phase};

use super::Demo;
use super::picture::Picture;
use super::report::{Order, Report, now_ns};
use super::stage::Stage;
use super::verdict::{Audit, Claim, LOSSES, Loss, Measured, rounded};
use crate::exit::{Exit, Failure, While};

const NAMES: [&str; super::verdict::MEMBERS] = ["anna", "boris", "clara", "dario"];

/// Time limit of a step that should take a second or two. It is long because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time limit of the whole demonstration.
const WHOLE: Duration = Duration::from_secs(180);

/// The minimum time for which a member is stopped. It exceeds the checker's bound within which the others must go on
/// without it (4 s), so that the bound is tested.
const STOPPED: Duration = Duration::from_millis(4_300);

/// The time for which half of the members are stopped. It exceeds the checker's bound within which the others must
/// report that they are no quorum (5 s).
const HALF_STOPPED: Duration = Duration::from_millis(5_300);

/// The longest that two members which were stopped may take to decide that the others are gone.
const HALF_LOOKS: Duration = Duration::from_millis(1_500);

/// The time for which updates flow after the last failure was healed. It exceeds the checker's bound until all are in
/// one view, 10 s.
const QUIET: Duration = Duration::from_secs(12);

/// The time without updates after that. It exceeds the checker's bound until the last update is delivered, 5 s, so that
/// each is checked.
const REST: Duration = Duration::from_millis(5_300);

/// Interval at which the picture and the signals are polled.
const TICK: Duration = Duration::from_millis(50);

/// Result of the demonstration.
pub(super) struct Outcome {
    pub(super) measured: Measured,
    rate: u64,
}

impl Outcome {
    /// Number of updates in the final ledgers.
    pub(super) fn updates(&self) -> u64 {
        self.measured.audits.iter().map(|audit| audit.applied).max().unwrap_or(0)
    }

    pub(super) fn to_json(&self, claims: &[Claim], held: bool) -> serde_json::Value {
        let measured = &self.measured;
        serde_json::json!({
            "held": held,
            "claims": claims,
            "updates": self.updates(),
            "rate_asked_per_member": self.rate,
            "latency_p50_ns": measured.latency.quantile(0.5),
            "latency_p99_ns": measured.latency.quantile(0.99),
            "measured": measured,
        })
    }
}

/// Runs the whole script.
pub(super) fn play(demo: &Demo, directory: &Path) -> Result<Outcome, Failure> {
    let mut show = Show::begin(demo, directory)?;
    let result = show.play(demo);
    show.picture.end(&show.stage);
    result
}

/// Measures one failure.
struct Watch {
    victim: String,
    began_ns: u64,
    detected_ns: Option<u64>,
    /// Survivors that have not installed the view without the victim.
    open: Vec<String>,
    installed_ns: u64,
    pause_ns: u64,
}

struct Show {
    stage: Stage,
    picture: Picture,
    interrupted: Arc<AtomicBool>,
    ends: Instant,
    watch: Option<Watch>,
    /// The newest view that was shown.
    told_view: u64,
    /// Time since which nothing is disturbed any more.
    quiet: Option<Instant>,
    /// The members are leaving; their last views are not shown.
    leaving: bool,
    rate: u64,
}

impl Show {
    fn begin(demo: &Demo, directory: &Path) -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted)).when("cannot watch for signals")?;
        }
        Ok(Self {
            stage: Stage::new(directory)?,
            picture: Picture::new(demo.json),
            interrupted,
            ends: Instant::now() + WHOLE,
            watch: None,
            told_view: 0,
            quiet: None,
            leaving: false,
            rate: demo.rate,
        })
    }

    fn play(&mut self, demo: &Demo) -> Result<Outcome, Failure> {
        let mut measured = Measured::default();
        self.stage.write(&crate::about::record(crate::about::DEMO))?;
        self.stage.write(&Event::Phase { phase: Phase::Faulty, connected: Vec::new() })?;
        for name in NAMES {
            self.stage.start(name)?;
        }
        self.all_together("the four processes found no common view")?;
        self.picture.event("all four are in one view and begin to send updates");
        let fed_ns = now_ns();
        self.feed(self.rate)?;

        self.run_for(demo.calm)?;
        let holder = self.by_rank(0);
        measured.losses.push(self.kill_and_restart(&holder, "it orders the updates")?);

        self.run_for(demo.calm)?;
        let youngest = self.by_rank(NAMES.len() - 1);
        measured.losses.push(self.kill_and_restart(&youngest, "the youngest")?);

        self.run_for(demo.calm)?;
        self.stop_half()?;
        measured.half_told = true;

        self.run_for(demo.calm)?;
        let middle = self.by_rank(1);
        measured.losses.push(self.stop_and_continue(&middle)?);
        measured.exclusion_told = self.stage.member(&middle).excluded;

        debug_assert_eq!(measured.losses.len(), LOSSES);
        let ends = self.quiet.map_or_else(Instant::now, |since| since + QUIET);
        self.run_for(ends.saturating_duration_since(Instant::now()))?;
        self.feed(0)?;
        let ends = Instant::now() + REST;
        measured.fed_ns = now_ns() - fed_ns;
        self.settle()?;
        self.run_for(ends.saturating_duration_since(Instant::now()))?;
        measured.audits = self.audit()?;
        measured.acknowledged = self.stage.returned();
        measured.agreed = self.stage.agreed;
        measured.latency = self.stage.latency();
        self.stage.write(&Event::End)?;
        self.leave()?;
        Ok(Outcome { measured, rate: demo.rate })
    }

    fn kill_and_restart(&mut self, name: &str, role: &str) -> Result<Loss, Failure> {
        let began_ns = self.stage.kill(name)?;
        self.picture.event(&format!("{name} ({role}) killed with SIGKILL"));
        let watch = self.follow(name, began_ns)?;
        self.stage.start(name)?;
        self.picture.event(&format!("{name} starts again and asks for the state"));
        self.stage_feed_when_back(name)?;
        Ok(self.conclude(watch, name, format!("{name} ({role}) killed")))
    }

    /// Stops two of the four, the oldest among them. The others are no quorum and must report that. All go on when the
    /// two run again.
    fn stop_half(&mut self) -> Result<(), Failure> {
        // The half with the oldest member is a quorum, so the oldest must be among the stopped.
        let [oldest, next, ..] = &self.stage.members[0].cell[..] else {
            return Err(Failure::new(Exit::Failure, "the cell has not four members"));
        };
        let stopped = [oldest.clone(), next.clone()];
        let rest: Vec<String> = self.stage.names().into_iter().filter(|name| !stopped.contains(name)).collect();
        // Only reports from now on count.
        rest.iter().for_each(|name| self.stage.member(name).cut_off = false);
        for name in &stopped {
            self.stage.hold(name, true)?;
        }
        let ends = Instant::now() + HALF_STOPPED;
        let names = |two: &[String]| two.join(" and ");
        self.picture.event(&format!("{} stopped at once: the other two are no quorum", names(&stopped)));
        let told = rest.clone();
        self.until("two of four did not notice that they are no quorum", PATIENCE, |show| {
            told.iter().all(|name| show.stage.member(name).cut_off)
        })?;
        self.picture.event(&format!("{} say that they are no quorum, and order nothing", names(&rest)));
        self.run_for(ends.saturating_duration_since(Instant::now()))?;
        for name in &stopped {
            self.stage.hold(name, false)?;
        }
        self.picture.event(&format!("{} run again", names(&stopped)));
        // The members that were stopped may find the others silent, and install a view without them until they come
        // back.
        self.run_for(HALF_LOOKS)?;
        self.all_together("the four did not go on together")?;
        self.picture.event("all four go on together");
        self.feed(self.rate)
    }

    fn stop_and_continue(&mut self, name: &str) -> Result<Loss, Failure> {
        let ends = Instant::now() + STOPPED;
        let began_ns = self.stage.hold(name, true)?;
        self.picture.event(&format!("{name} stopped with SIGSTOP: it is alive, but silent"));
        let watch = self.follow(name, began_ns)?;
        self.run_for(ends.saturating_duration_since(Instant::now()))?;
        // Only the next incarnation's transfer and exclusion notice count.
        self.stage.member(name).transfer = None;
        self.stage.member(name).excluded = false;
        self.stage.hold(name, false)?;
        // From here on nothing is disturbed: recovery must happen without help.
        self.stage.write(&Event::Phase { phase: Phase::Heal, connected: Vec::new() })?;
        self.stage.write(&Event::Phase { phase: Phase::Quiet, connected: Vec::new() })?;
        self.quiet = Some(Instant::now());
        self.picture.event(&format!("{name} runs again (SIGCONT) and knows nothing of what happened"));
        let who = name.to_owned();
        self.until("the stopped member did not learn of its exclusion", PATIENCE, |show| {
            show.stage.member(&who).excluded
        })?;
        self.stage_feed_when_back(name)?;
        Ok(self.conclude(watch, name, format!("{name} stopped")))
    }

    /// Waits until all survivors have installed the view without the victim.
    fn follow(&mut self, victim: &str, began_ns: u64) -> Result<Watch, Failure> {
        let open = self.stage.names().into_iter().filter(|name| name != victim).collect();
        let victim = victim.to_owned();
        self.watch = Some(Watch { victim, began_ns, detected_ns: None, open, installed_ns: began_ns, pause_ns: 0 });
        self.until("the survivors installed no view without the lost member", PATIENCE, |show| {
            show.watch.as_ref().is_none_or(|watch| watch.open.is_empty())
        })?;
        // The pause arrives with the next report of progress.
        self.run_for(Duration::from_millis(300))?;
        Ok(self.watch.take().expect("it was put there above"))
    }

    fn stage_feed_when_back(&mut self, name: &str) -> Result<(), Failure> {
        self.all_together("the lost member did not come back with its state")?;
        self.stage.tell(name, Order::Feed { rate: self.rate })
    }

    fn conclude(&mut self, watch: Watch, name: &str, what: String) -> Loss {
        let transfer = self.stage.member(name).transfer;
        let took = transfer.and_then(|t| Some(t.ended_ns?.saturating_sub(t.began_ns)));
        let detected_ns = watch.detected_ns.map(|at_ns| at_ns.saturating_sub(watch.began_ns));
        let loss = Loss {
            what,
            detected_ns,
            view_change_ns: watch.detected_ns.map(|at_ns| watch.installed_ns.saturating_sub(at_ns)),
            pause_ns: watch.pause_ns,
            state_bytes: transfer.map_or(0, |t| t.bytes),
            transfer_ns: took.unwrap_or(0),
            whole: transfer.is_some_and(|t| t.whole),
        };
        let (mib, time) = (loss.state_bytes >> 20, rounded(loss.transfer_ns));
        self.picture.event(&format!("{name} is back: {mib} MiB of state in {time}"));
        loss
    }

    fn all_together(&mut self, else_what: &str) -> Result<(), Failure> {
        self.until(else_what, PATIENCE, |show| show.stage.agree(&NAMES.map(str::to_owned)))
    }

    fn by_rank(&self, rank: usize) -> String {
        let named = self.stage.members.iter().find(|member| member.rank() == Some(rank));
        named.map_or_else(|| NAMES[0].to_owned(), |member| member.name.clone())
    }

    fn feed(&mut self, rate: u64) -> Result<(), Failure> {
        NAMES.iter().try_for_each(|name| self.stage.tell(name, Order::Feed { rate }))
    }

    /// Waits until every update that was sent is applied everywhere.
    fn settle(&mut self) -> Result<(), Failure> {
        let mut last = Vec::new();
        let mut since = Instant::now();
        self.until("the replicas did not come to rest", PATIENCE, |show| {
            let applied: Vec<u64> = show.stage.members.iter().map(|member| member.applied).collect();
            let equal = applied.iter().all(|count| Some(count) == applied.first());
            if applied != last || !equal {
                last = applied;
                since = Instant::now();
            }
            // Counts may be equal while updates are under way, so they must stay so for a while.
            since.elapsed() > Duration::from_millis(500)
        })
    }

    fn audit(&mut self) -> Result<Vec<Audit>, Failure> {
        for name in NAMES {
            self.stage.tell(name, Order::Audit)?;
        }
        self.until("a member did not answer", PATIENCE, |show| show.stage.members.iter().all(|m| m.audit.is_some()))?;
        let one = |member: &super::stage::Member| {
            let (applied, digest, sum) = member.audit?;
            Some(Audit { member: member.name.clone(), applied, digest, sum })
        };
        Ok(self.stage.members.iter().filter_map(one).collect())
    }

    fn leave(&mut self) -> Result<(), Failure> {
        self.leaving = true;
        for name in NAMES {
            self.stage.tell(name, Order::Leave)?;
        }
        self.until("a member did not leave", PATIENCE, |show| show.stage.members.iter().all(|m| m.left))?;
        self.stage.part()
    }

    fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        let ends = Instant::now() + time;
        while Instant::now() < ends {
            self.listen()?;
        }
        Ok(())
    }

    fn until(
        &mut self,
        else_what: &str,
        patience: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), Failure> {
        let ends = Instant::now() + patience;
        while !done(self) {
            if Instant::now() > ends {
                return Err(Failure::new(Exit::TimedOut, format!("{else_what} within {} s", patience.as_secs())));
            }
            self.listen()?;
        }
        Ok(())
    }

    /// Processes incoming reports for one tick, and shows them.
    fn listen(&mut self) -> Result<(), Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::new(Exit::Interrupted, "interrupted; all members were ended"));
        }
        if self.picture.is_closed() {
            return Err(Failure::new(Exit::Interrupted, "standard output is closed; all members were ended"));
        }
        if Instant::now() > self.ends {
            let what = format!("the demonstration took longer than {} s", WHOLE.as_secs());
            return Err(Failure::new(Exit::TimedOut, what));
        }
        let mut patience = TICK;
        while let Some((name, report)) = self.stage.hear(patience)? {
            self.note(&name, &report);
            patience = Duration::ZERO;
        }
        self.picture.tick(&self.stage);
        Ok(())
    }

    fn note(&mut self, name: &str, report: &Report) {
        if let Some(watch) = &mut self.watch {
            watch.note(name, report);
        }
        match report {
            Report::View { view, members, .. } if *view > self.told_view && !self.leaving => {
                self.told_view = *view;
                self.picture.event(&format!("view {view}: {}", members.join(", ")));
            }
            Report::Excluded { view, .. } => {
                self.picture.event(&format!(
                    "{name} learns that cell view {view} excludes it and comes back as a new incarnation"
                ));
            }
            Report::StateBegin { bytes, .. } => {
                self.picture.event(&format!("{name} takes {} MiB of state from another member", bytes >> 20));
            }
            _ => {}
        }
    }
}

impl Watch {
    fn note(&mut self, name: &str, report: &Report) {
        if name == self.victim {
            return;
        }
        match report {
            Report::Flush { at_ns } if *at_ns >= self.began_ns => {
                self.detected_ns = Some(self.detected_ns.map_or(*at_ns, |first| first.min(*at_ns)));
            }
            Report::View { at_ns, members, .. } if !members.contains(&self.victim) => {
                self.open.retain(|open| open != name);
                self.installed_ns = self.installed_ns.max(*at_ns);
            }
            Report::Progress { at_ns, pause_ns_max, .. } if *at_ns >= self.began_ns => {
                self.pause_ns = self.pause_ns.max(*pause_ns_max);
            }
            _ => {}
        }
    }
}
