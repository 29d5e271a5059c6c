//! `phalanx torture`: real processes on hosts of their own, one fault after the other, and the checker's verdict.
//!
//! The harness ([`run`]) makes hosts out of network namespaces ([`network`]) and starts this program again for each
//! member ([`member`]). In each bout it injects faults ([`harm`]) into members by role ([`bout`]). At the end of a bout
//! the traces of all members are checked ([`judge`]).

mod app;
mod asks;
mod bout;
mod calls;
mod crew;
mod fault;
mod harm;
mod judge;
mod lease;
mod limits;
mod matrix;
mod member;
mod mistreat;
mod network;
#[allow(unsafe_code)]
mod network_device;
mod outcome;
mod payload;
mod progress;
mod recovery;
mod report;
mod submits;
mod switch;
mod tally;
mod told;
mod tools;
mod waits;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use phalanx_check::{Property, Report};
use serde_json::json;

pub(crate) use member::{Busy, Member, run as run_member, run_busy};

use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};
use bout::{Bout, QUIET, Setting};
use crew::{SECOND_TRACES, TRACES};
use fault::{Fault, Role};
use lease::Lease;
use matrix::Matrix;
use outcome::Outcome;
use progress::Progress;

/// Does single faults to real processes in network namespaces, and has their traces checked
///
/// Every fault meets every role: the coordinator, who orders the abcasts, a process that joins, a bystander. After
/// each, all must be in one view again with messages flowing. Members multicast, ask their groups, send to one member,
/// call each other and submit to a state all the time. Needs root and the programs ip and nft. Exit code 0 only
/// without a violation. See docs/real-processes.md.
#[derive(Args, Debug)]
pub(crate) struct Torture {
    /// Duration; no fault begins after it
    #[arg(long, value_name = "M", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Processes of the cell
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(4..=32))]
    members: u16,
    /// Decides the order of the faults, and the switch's random effects on packets; default: from the clock
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only these faults; with commas between them
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    only: Vec<Fault>,
    /// Only these roles; with commas between them
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    roles: Vec<Role>,
    /// Multicasts of each member in a second
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// Keep traces and logs in this directory, which must not exist. They are kept anyway when something did not hold
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print one JSON object a line: the faults, the verdicts on the traces, the end
    #[arg(long)]
    json: bool,
}

/// Maximum duration of a bout, so that its traces stay small.
const BOUT: Duration = Duration::from_secs(150);

/// A bout begins only with this much time left: enough to form a cell, for a fault and for the quiet phase.
const BOUT_LEAST: Duration = Duration::from_secs(25);

pub(crate) fn run(torture: &Torture) -> Result<Exit, Failure> {
    tools::require()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).when("cannot watch for signals")?;
    }
    let seed = torture.seed.unwrap_or_else(|| phalanx_runtime::clock::now().nanos() % 1_000_000_000);
    let mut lease = Lease::take(torture.keep.as_deref())?;
    say(format_args!("torture of {} members for {} min, --seed {seed}", torture.members, torture.minutes));
    let mut rack = Rack::new(torture, seed, interrupted);
    let played = rack.play(&lease);
    rack.progress.clear();
    let violations: usize = rack.outcomes.iter().map(|outcome| outcome.violations.len()).sum();
    let broke = played.as_ref().is_err_and(|failure| failure.exit != Exit::Interrupted);
    if violations > 0 || broke || torture.keep.is_some() {
        lease.keep();
        say(format_args!("traces and logs are kept in {}", lease.work().display()));
    }
    rack.tell(seed, violations);
    played?;
    if rack.outcomes.is_empty() {
        return Err(Failure::new(Exit::Failure, "no fault could be injected at all"));
    }
    Ok(if violations == 0 { Exit::Good } else { Exit::Failure })
}

/// The context of one run.
struct Rack<'a> {
    torture: &'a Torture,
    seed: u64,
    matrix: Matrix,
    interrupted: Arc<AtomicBool>,
    progress: Progress,
    ends: Instant,
    outcomes: Vec<Outcome>,
    deliveries: u64,
}

impl<'a> Rack<'a> {
    fn new(torture: &'a Torture, seed: u64, interrupted: Arc<AtomicBool>) -> Self {
        let ends = Instant::now() + Duration::from_secs(torture.minutes * 60);
        let matrix = Matrix::new(&torture.only, &torture.roles, seed);
        let progress = Progress::new(ends);
        Self { torture, seed, matrix, interrupted, progress, ends, outcomes: Vec::new(), deliveries: 0 }
    }

    fn play(&mut self, lease: &Lease) -> Result<(), Failure> {
        let mut number = 0;
        while number == 0 || Instant::now() + BOUT_LEAST < self.ends {
            let Some(fabric) = self.matrix.next_fabric() else { return Ok(()) };
            number += 1;
            let setting = Setting {
                number,
                members: usize::from(self.torture.members),
                fabric,
                prefix: lease.prefix().to_owned(),
                seed: self.seed.wrapping_add(number as u64),
                rate: self.torture.rate,
                directory: lease.work().join(format!("bout-{number}")),
                faketime: matrix::faketime().filter(|_| self.matrix.has(Fault::WallClock)),
                disks: self.matrix.has(Fault::FullDisk),
            };
            let mut outcomes = Vec::new();
            let played = self.bout(&setting, &mut outcomes);
            lease.sweep();
            let judged = played.and_then(|()| self.judge(&setting, &mut outcomes));
            self.outcomes.append(&mut outcomes);
            judged?;
        }
        Ok(())
    }

    fn bout(&mut self, setting: &Setting, outcomes: &mut Vec<Outcome>) -> Result<(), Failure> {
        let until = (Instant::now() + BOUT).min(self.ends.checked_sub(QUIET).unwrap_or(self.ends));
        let mut bout = match Bout::begin(setting, Arc::clone(&self.interrupted), &mut self.progress)? {
            Ok(bout) => bout,
            Err(why) => {
                let what = format!("liveness: the cell of bout {} did not form: {why}", setting.number);
                return Err(Failure::new(Exit::Failure, what));
            }
        };
        let mut whole = true;
        while whole && (outcomes.is_empty() || Instant::now() < until) {
            let Some((fault, role)) = self.matrix.take(setting.fabric) else { break };
            let (outcome, well) = bout.suffer(fault, role)?;
            whole = well;
            bout.count(&outcome);
            if !well {
                let path = setting.directory.join("standstill.txt");
                std::fs::write(&path, bout.standing()).when(format_args!("cannot write {}", path.display()))?;
            }
            outcomes.push(outcome);
        }
        let wrongs = bout.end(whole)?;
        if let Some(last) = outcomes.last_mut() {
            last.violations.extend(wrongs);
        }
        Ok(())
    }

    fn judge(&mut self, setting: &Setting, outcomes: &mut [Outcome]) -> Result<(), Failure> {
        self.progress.doing("checking the traces");
        self.progress.show();
        let judged = |traces: &str, verdict: &str, outcomes: &mut [Outcome]| {
            let report = judge::judge(&setting.directory.join(traces), outcomes)?;
            let verdict = setting.directory.join(verdict);
            std::fs::write(&verdict, report.to_string()).when(format_args!("cannot write {}", verdict.display()))?;
            Ok::<_, Failure>(report)
        };
        let report = judged(TRACES, "check.txt", outcomes)?;
        let second = judged(SECOND_TRACES, "check-2.txt", outcomes)?;
        let deliveries = report.stats.deliveries + second.stats.deliveries;
        self.deliveries += deliveries;
        self.progress.violations = self.outcomes.iter().chain(&*outcomes).map(|o| o.violations.len()).sum();
        self.progress.clear();
        let first = |report: &Report| report.to_string().lines().next().unwrap_or_default().to_owned();
        if self.torture.json {
            for outcome in &*outcomes {
                data(outcome.to_json());
            }
            data(json!({
                "kind": "verdict", "bout": setting.number, "passed": report.passed && second.passed,
                "quiet": report.stats.quiet, "deliveries": deliveries, "cell_views": report.stats.cell_views,
                "exclusions": report.stats.exclusions, "crashes": report.stats.crashes,
                "results_of_submits": second.instances(Property::X13),
            }));
        } else {
            say(format_args!(
                "bout {}: {} faults, {deliveries} deliveries, {} results of submits: {}; the second cell: {}",
                setting.number,
                outcomes.len(),
                second.instances(Property::X13),
                first(&report),
                first(&second)
            ));
        }
        if self.torture.keep.is_none() && outcomes.iter().all(|outcome| outcome.violations.is_empty()) {
            let _ = std::fs::remove_dir_all(&setting.directory);
        }
        Ok(())
    }

    fn tell(&self, seed: u64, violations: usize) {
        let faults = self.outcomes.len();
        if self.torture.json {
            for (fault, why) in &self.matrix.skipped {
                data(json!({"kind": "skipped", "fault": fault.name(), "why": why}));
            }
            data(json!({
                "kind": "end", "seed": seed, "faults": faults, "deliveries": self.deliveries, "violations": violations,
            }));
            return;
        }
        data(outcome::table(&self.outcomes, &self.matrix.skipped));
        for outcome in &self.outcomes {
            for violation in &outcome.violations {
                let (fault, role) = (outcome.fault.name(), outcome.role.name());
                data(format_args!(
                    "VIOLATION bout {}, {fault} at the {role} {}: {violation}",
                    outcome.bout, outcome.member
                ));
            }
        }
        data(format_args!(
            "{faults} faults, {} deliveries checked, {violations} violations (--seed {seed})",
            self.deliveries
        ));
    }
}
