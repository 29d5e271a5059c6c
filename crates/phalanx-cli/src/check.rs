//! `phalanx check`: judges the traces of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use phalanx::config::parse_duration;
use phalanx_check::{CheckError, Options, Report, Require, check_files};

use crate::exit::{Exit, Failure, While};
use crate::notice::data;

/// Judges traces: which guarantees held, were put to the test, or were broken, with the records that prove it
///
/// Exit code 0: everything held. 1: something was broken, or a guarantee that should have been put to the test was
/// not.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Trace files, or directories that hold files named *.trace
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The traces of all processes are given: judge also what one process's trace proves about another
    #[arg(long)]
    complete: bool,
    /// The run was to have one cell instance; a second one is a violation
    #[arg(long)]
    one_instance: bool,
    /// In the quiet phase, all must be in one view after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    membership_bound: Duration,
    /// In the quiet phase, a message must be delivered after this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    delivery_bound: Duration,
    /// Do not ask that any guarantee was put to the test
    #[arg(long)]
    allow_vacuous: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(check: &Check) -> Result<Exit, Failure> {
    let files = gather(&check.paths)?;
    let options = Options {
        complete: check.complete,
        one_instance: check.one_instance,
        membership_bound_ns: nanos(check.membership_bound),
        delivery_bound_ns: nanos(check.delivery_bound),
        require: if check.allow_vacuous { Require::Nothing } else { Require::Features },
        ..Options::default()
    };
    let report = check_files(&files, &options).map_err(explain)?;
    if check.json {
        data(report.to_json());
    } else {
        data(report.to_string().trim_end());
    }
    Ok(verdict(&report))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn verdict(report: &Report) -> Exit {
    if report.passed { Exit::Good } else { Exit::Failure }
}

fn explain(error: CheckError) -> Failure {
    Failure::new(Exit::Unreachable, format!("{error}. Nothing was judged."))
}

/// The files, and those named `*.trace` in the directories, in the order of their names.
fn gather(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(in_directory(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let doing = format!("cannot list {}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).when(&doing)? {
        let path = entry.when(&doing)?.path();
        if path.extension().is_some_and(|extension| extension == "trace") {
            files.push(path);
        }
    }
    if files.is_empty() {
        let what = format!("{} holds no file named *.trace", directory.display());
        return Err(Failure::new(Exit::Unreachable, what));
    }
    files.sort();
    Ok(files)
}
