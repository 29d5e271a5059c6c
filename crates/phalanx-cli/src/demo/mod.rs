//! `phalanx demo`: four processes keep a replicated ledger while they are killed, stopped and brought back.
//!
//! The parent ([`script`]) starts this program again for each member ([`member`]), injects the faults, and evaluates
//! the result ([`verdict`]). Another process of this program checks all traces.

mod histogram;
mod ledger;
mod member;
mod picture;
mod replica;
mod report;
mod script;
mod stage;
mod verdict;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use phalanx_runtime::config::parse_duration;

pub(crate) use member::{Member, run as run_member};

use crate::about;
use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};
use script::Outcome;
use verdict::{judge, rounded};

/// Four processes keep a replicated ledger of 64 MiB while they are killed, stopped and brought back
///
/// The member that orders the updates is killed in mid-stream, then the youngest; two are stopped at once, so that the
/// others are no quorum; one is stopped until the others exclude it. Each that was lost comes back with the whole state
/// from another member. In the end the ledgers are compared, and a separate process checks the traces of all. Exit code
/// 0 only when everything held.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Updates each member sends in a second
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// How long the updates flow undisturbed before each failure
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    calm: Duration,
    /// Keep traces and everything else in this directory, which must not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print one JSON document with the verdict instead of the picture
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(demo: &Demo) -> Result<Exit, Failure> {
    let directory = Directory::make(demo.keep.clone())?;
    let played = script::play(demo, &directory.path).and_then(|outcome| {
        let checked = check(outcome, &directory.path)?;
        Ok((judge(&checked.measured), checked))
    });
    let held = played.as_ref().is_ok_and(|(claims, _)| claims.iter().all(|claim| claim.held));
    let interrupted = played.as_ref().is_err_and(|failure| failure.exit == Exit::Interrupted);
    if demo.keep.is_some() || !held && !interrupted {
        say(format_args!("traces and logs are kept in {}", directory.path.display()));
        directory.keep();
    }
    let (claims, outcome) = played?;
    if demo.json {
        data(outcome.to_json(&claims, held));
    } else {
        tell(&outcome, &claims, held);
    }
    Ok(if held { Exit::Good } else { Exit::Failure })
}

/// Runs the checker on the traces, in a process of its own.
fn check(mut outcome: Outcome, directory: &Path) -> Result<Outcome, Failure> {
    let program = std::env::current_exe().when("cannot find this program's own file")?;
    let output = std::process::Command::new(program)
        .args(["check", "--complete", "--one-instance", "--require", &about::codes(about::DEMO)])
        .arg(directory.join(stage::TRACES))
        .output()
        .when("cannot start the checker")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    outcome.measured.tested = about::instances(&text);
    outcome.measured.checker = output.status.code();
    outcome.measured.checker_says = text.lines().next().or(complaint.lines().next()).unwrap_or("nothing").to_owned();
    let report = directory.join("check.txt");
    std::fs::write(&report, &*text).when(format_args!("cannot write {}", report.display()))?;
    Ok(outcome)
}

fn tell(outcome: &Outcome, claims: &[verdict::Claim], held: bool) {
    let measured = &outcome.measured;
    data("");
    for claim in claims {
        data(format_args!("{}  {}", if claim.held { "ok  " } else { "FAIL" }, claim.text));
    }
    data("");
    let seconds = measured.fed_ns as f64 / 1e9;
    let time = |share| measured.latency.quantile(share).map_or_else(|| "-".to_owned(), rounded);
    data(format_args!(
        "{} updates in {seconds:.1} s ({:.0} a second, failures included); from sending to ordered delivery: p50 {}, p99 {}",
        outcome.updates(),
        outcome.updates() as f64 / seconds.max(0.001),
        time(0.5),
        time(0.99)
    ));
    for loss in &measured.losses {
        let time = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), rounded);
        data(format_args!(
            "{}: noticed after {}, new view everywhere {} later, longest pause of a survivor {}",
            loss.what,
            time(loss.detected_ns),
            time(loss.view_change_ns),
            rounded(loss.pause_ns)
        ));
    }
    let tested: Vec<String> = measured.tested.iter().map(|(code, count)| format!("{code} {count}")).collect();
    data(format_args!("how often each guarantee was put to the test: {}", tested.join(", ")));
    data(if held { "everything held" } else { "NOT everything held" });
}

/// The demonstration's own directory, so that its processes meet no others. Removed on drop unless `--keep` is given.
struct Directory {
    path: PathBuf,
    temporary: bool,
}

impl Directory {
    fn make(asked: Option<PathBuf>) -> Result<Self, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let temporary = asked.is_none();
        let own = || std::env::temp_dir().join(format!("phalanx-demo-{}", std::process::id()));
        let path = asked.unwrap_or_else(own);
        // Creation fails if the directory exists, so no other program's directory is ever used or emptied.
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::new(Exit::Usage, format!("{} exists already: name a new directory", path.display()))
            }
            _ => Failure::new(Exit::Failure, format!("cannot make {}: {error}", path.display())),
        })?;
        let path = path.canonicalize().when(format_args!("cannot find {}", path.display()))?;
        Ok(Self { path, temporary })
    }

    fn keep(mut self) {
        self.temporary = false;
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
