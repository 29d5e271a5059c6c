//! The benchmark of Phalanx: the limits of the machine, the library's share of them, and other systems.
//!
//! Every figure is the median over some rounds. Its baseline is measured in the same round, so that the ratio stays
//! meaningful on a machine whose speed changes by the minute. Every member and every process of a baseline is a
//! separate process: the program that runs the benchmark is started again for each ([`CHILD_COMMAND`], [`run_child`]).
#![deny(missing_docs)]

#[allow(unsafe_code)]
mod alloc;
mod bench;
mod calls;
mod cell;
mod child;
mod choice;
mod crew;
mod error;
mod histogram;
mod machine;
mod member;
mod protocol;
mod raw;
mod report;
mod row;
mod suite;

use std::path::PathBuf;
use std::time::Duration;

pub use alloc::Counting;
pub use child::{run as run_child, run_program};
pub use choice::{Cores, Ordering, Security, Senders, Transport, Waiting};
pub use crew::{CHILD_COMMAND, Interrupt};
pub use error::BenchError;
pub use machine::Machine;
pub use report::Measured;
pub use row::{Row, median, show, show_spread};
pub use suite::Suite;

use bench::{Bench, Case};

/// A request for measurements.
#[derive(Clone, Debug)]
pub struct Request {
    /// The suite.
    pub suite: Suite,
    /// Names of cases, in which `*` matches anything. Empty: all cases.
    pub cases: Vec<String>,
    /// Whether to run one short round, to see that it works.
    pub quick: bool,
    /// Number of rounds for each case.
    pub rounds: usize,
    /// Duration of one measurement.
    pub seconds: Duration,
    /// For the suite `stream`: parameters of the cases, in place of the usual ones.
    pub selection: Selection,
    /// Directory of the peers' runners.
    pub peers: PathBuf,
    /// Directory in which the runners were built.
    pub built: PathBuf,
    /// Whether to report where the slowest call of a case spent its time.
    pub trace: bool,
    /// Whether to report the counters of the endpoints of calls.
    pub counters: bool,
    /// Set when the user asked to stop.
    pub interrupt: Interrupt,
}

impl Request {
    /// Whether nothing particular is requested and the run must be quick: a few cases then represent all.
    pub(crate) fn is_sketch(&self) -> bool {
        self.quick && self.cases.is_empty()
    }
}

/// Parameters of cases. Every combination of the named values makes a case; an empty list has one usual value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Message sizes in bytes.
    pub sizes: Vec<usize>,
    /// Numbers of group members.
    pub members: Vec<usize>,
    /// Orders.
    pub orders: Vec<Ordering>,
    /// Which members send.
    pub senders: Vec<Senders>,
    /// How packets travel.
    pub transports: Vec<Transport>,
    /// Whether packets are encrypted.
    pub security: Vec<Security>,
}

/// Receives the results of a run.
pub trait Reporter {
    /// Called with the number of cases to be measured.
    fn plan(&mut self, cases: usize);
    /// Called with the step that begins.
    fn doing(&mut self, what: &str);
    /// Called when a case has ended, with or without a figure.
    fn case_done(&mut self);
    /// Called with each figure.
    fn row(&mut self, row: &Row);
    /// Called with a message for people.
    fn notice(&mut self, what: &str);
}

/// Measures the requested cases one after the other. A case that fails is reported, and the next ones are measured.
///
/// # Errors
/// [`BenchError::Interrupted`], [`BenchError::Usage`]; [`BenchError::Failed`] when some cases gave no figure.
pub fn run(request: &Request, reporter: &mut dyn Reporter) -> Result<(), BenchError> {
    let cases = chosen(request)?;
    reporter.plan(cases.len());
    let mut bench = Bench::new(request, request.suite.word(), reporter)?;
    let mut failed = Vec::new();
    for case in cases {
        bench.case.clone_from(&case.name);
        match (case.run)(&mut bench) {
            Ok(()) => {}
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => {
                bench.notice(&format!("{} {}: {error}", bench.suite, case.name));
                failed.push(case.name);
            }
        }
        bench.case_done();
    }
    if failed.is_empty() { Ok(()) } else { Err(BenchError::Failed(failed)) }
}

/// A case that can be measured.
#[derive(Clone, Debug)]
pub struct CaseInfo {
    /// Its name, by which a request selects it.
    pub name: String,
    /// What it measures.
    pub what: String,
}

/// Returns each case of a request.
///
/// # Errors
/// [`BenchError::Usage`] when no case matches.
pub fn list(request: &Request) -> Result<Vec<CaseInfo>, BenchError> {
    Ok(chosen(request)?.into_iter().map(|case| CaseInfo { name: case.name, what: case.what }).collect())
}

/// Number of allocations by the protocol core, both sides together, while `messages` totally ordered multicasts of 100
/// B pass from one side to the other. As many messages precede them, so that queues have grown to their size. The
/// program's allocator has to be [`Counting`].
///
/// # Errors
/// When the core refuses a command.
pub fn core_allocations(messages: usize) -> Result<u64, BenchError> {
    let mut pair = suite::core_loop::Pair::meet(phalanx::driver::udp::PACKET_BYTES_LOOPBACK, true)?;
    pair.push(false, messages)?;
    let before = alloc::taken();
    pair.push(false, messages)?;
    Ok(alloc::taken() - before)
}

/// Drives the protocol core alone with `count` totally ordered multicasts of 100 B, or with round trips of 64 B. Meant
/// for profilers.
///
/// # Errors
/// When the core refuses a command.
pub fn drive_core(count: usize, sealed: bool, trips: bool) -> Result<(), BenchError> {
    let mut pair = suite::core_loop::Pair::meet(phalanx::driver::udp::PACKET_BYTES_LOOPBACK, sealed)?;
    if trips { pair.trips(count).map(drop) } else { pair.push(false, count) }
}

fn chosen(request: &Request) -> Result<Vec<Case>, BenchError> {
    let mut cases = request.suite.cases(request);
    let known = |asked: &String| cases.iter().any(|case| fits(asked, &case.name));
    if let Some(asked) = request.cases.iter().find(|asked| !known(asked)) {
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let (suite, names) = (request.suite.word(), names.join("\n  "));
        return Err(BenchError::Usage(format!("the suite {suite} has no case '{asked}'; it has:\n  {names}")));
    }
    cases.retain(|case| request.cases.is_empty() || request.cases.iter().any(|asked| fits(asked, &case.name)));
    Ok(cases)
}

/// Whether `name` matches a pattern in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|left| (0..=left.len()).any(|at| left.is_char_boundary(at) && fits(rest, &left[at..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*b*", "abc", true),
            ("a*c", "abc", true),
            ("a*d", "abc", false),
            ("*-udp-*", "total-one-4x100-udp-sealed", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
