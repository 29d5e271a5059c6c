//! `phalanx check`: evaluates the traces of a run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use phalanx_check::svg::Diagram;
use phalanx_check::{CheckError, Options, Property, Report, Require, check_files};
use phalanx_runtime::config::parse_duration;
use phalanx_trace::{Trace, TraceError};

use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};

/// Evaluates traces: which guarantees held, were put to the test, or were broken, with the records that prove it
///
/// Exit code 0: everything held. 1: something was broken, or a guarantee that should have been put to the test was not,
/// or could not be checked.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Trace files, or directories that hold files named *.trace
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The traces of all processes and of the harness are given, from start to end: check also properties for which one
    /// process's trace is evidence about another
    #[arg(long)]
    complete: bool,
    /// The run should have one cell instance; a second one is a violation
    #[arg(long)]
    one_instance: bool,
    /// In the quiet phase, all must be in one view after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    membership_bound: Duration,
    /// In the quiet phase, a message must be delivered after this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    delivery_bound: Duration,
    /// In the quiet phase, a view change may block sends of a process for this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    flush_bound: Duration,
    /// In the quiet phase, a process that asks to join must be in a view after this long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    join_bound: Duration,
    /// A process that no quorum reaches must report that after this long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    cut_off_bound: Duration,
    /// The others must go on without a stopped member after this long
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    hostage_bound: Duration,
    /// Guarantees that the run must put to the test, in addition to those implied by the kinds of records
    #[arg(long, value_name = "CODE,..", value_delimiter = ',')]
    require: Vec<Property>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Draw a space-time diagram of the first violation's surroundings, or of the whole run, into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw these seconds instead, counted from the first record
    #[arg(long, value_name = "FROM..TO", requires = "svg", value_parser = parse_window)]
    window: Option<RangeInclusive<u64>>,
}

pub(crate) fn run(check: &Check) -> Result<Exit, Failure> {
    let files = gather(&check.paths)?;
    let options = Options {
        complete: check.complete,
        one_instance: check.one_instance,
        membership_bound_ns: nanos(check.membership_bound),
        delivery_bound_ns: nanos(check.delivery_bound),
        flush_bound_ns: nanos(check.flush_bound),
        join_bound_ns: nanos(check.join_bound),
        cut_off_bound_ns: nanos(check.cut_off_bound),
        hostage_bound_ns: nanos(check.hostage_bound),
        require: Require::These(check.require.clone()),
        ..Options::default()
    };
    let report = check_files(&files, &options).map_err(explain)?;
    if check.json {
        data(report.to_json());
    } else {
        data(report.to_string().trim_end());
    }
    if let Some(picture) = &check.svg {
        draw(picture, &files, &report, check.window.as_ref())?;
    }
    Ok(verdict(&report))
}

/// Draws the content of the files. Times count from the first record of all.
fn draw(
    picture: &Path,
    files: &[PathBuf],
    report: &Report,
    window: Option<&RangeInclusive<u64>>,
) -> Result<(), Failure> {
    let (mut traces, mut labels) = (Vec::new(), Vec::new());
    for file in files {
        match Trace::read(file) {
            Ok(trace) => {
                traces.push(trace);
                labels.push(file.display().to_string());
            }
            // The writer was killed before it wrote anything. The checker skips such a file too.
            Err(TraceError::Empty { .. }) => {}
            Err(other) => return Err(explain(other.into())),
        }
    }
    if let Some(other) = traces.iter().find(|trace| trace.header.clock != traces[0].header.clock) {
        let what = format!(
            "the traces of {} and {} come from two clocks and cannot be drawn on one axis: give the traces of one machine",
            traces[0].header.node, other.header.node
        );
        return Err(Failure::new(Exit::Usage, what));
    }
    let first_ns = traces.iter().flat_map(|trace| &trace.records).map(|record| record.at_ns).min().unwrap_or(0);
    for record in traces.iter_mut().flat_map(|trace| &mut trace.records) {
        record.at_ns -= first_ns;
    }
    let cell = traces.first().map_or("", |trace| &trace.header.cell);
    let title = format!("Cell {cell}: {} traces", traces.len());
    let diagram = Diagram::new(title, &traces).with_report(report, &labels).with_window(window.cloned());
    std::fs::write(picture, diagram.to_svg()).when(format_args!("cannot write {}", picture.display()))?;
    say(format_args!("the run is drawn in {}", picture.display()));
    Ok(())
}

/// Reads a window of time, given in seconds. Returns it in nanoseconds.
pub(crate) fn parse_window(text: &str) -> Result<RangeInclusive<u64>, String> {
    let read = |part: &str| match part.trim().parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && (0.0..1e9).contains(&seconds) => Ok((seconds * 1e9) as u64),
        Ok(_) => Err(format!("'{part}' is no time in seconds")),
        Err(error) => Err(format!("'{part}': {error}")),
    };
    let (from, to) = text.split_once("..").ok_or("write the window in seconds as FROM..TO, like 3.2..4")?;
    let window = read(from)?..=read(to)?;
    if window.is_empty() { Err("the window ends before it begins".to_owned()) } else { Ok(window) }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn verdict(report: &Report) -> Exit {
    if report.passed { Exit::Good } else { Exit::Failure }
}

fn explain(error: CheckError) -> Failure {
    Failure::new(Exit::Unreachable, format!("{error}. Nothing was checked."))
}

/// The given files, and those named `*.trace` in the given directories, sorted by name.
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
