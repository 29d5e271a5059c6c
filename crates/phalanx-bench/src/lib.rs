//! The benchmark of Phalanx: what a machine can do at best, what the library does of it, and what others do.
//!
//! Every figure is the median of some rounds, and stands beside a baseline that was measured in the same round, so
//! that a ratio means something on a machine whose speed changes by the minute. Members, and the processes of the
//! baselines, are processes of their own: the program that runs the benchmark is started again for each
//! ([`CHILD_COMMAND`], [`run_child`]).
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

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// The suite.
    pub suite: Suite,
    /// Names of cases, in which `*` stands for anything; empty: all.
    pub cases: Vec<String>,
    /// One short round, to see that it works.
    pub quick: bool,
    /// How often each case is measured.
    pub rounds: usize,
    /// How long one measurement takes.
    pub seconds: Duration,
    /// For the suite `stream`: what cases are made of, instead of the usual ones.
    pub selection: Selection,
    /// Where the peers' runners lie.
    pub peers: PathBuf,
    /// Where they were built.
    pub built: PathBuf,
    /// Whether to tell where the slowest call of a case spent its time.
    pub trace: bool,
    /// Whether to tell what the endpoints of calls counted.
    pub counters: bool,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
}

impl Request {
    /// Nothing is asked for in particular, and it must be quick: some cases stand for all.
    pub(crate) fn is_sketch(&self) -> bool {
        self.quick && self.cases.is_empty()
    }
}

/// Every combination of what is named makes a case; what is left empty has one usual value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Bytes of a message.
    pub sizes: Vec<usize>,
    /// Members of the group.
    pub members: Vec<usize>,
    /// Orders.
    pub orders: Vec<Ordering>,
    /// Who sends.
    pub senders: Vec<Senders>,
    /// How packets travel.
    pub transports: Vec<Transport>,
    /// How they are protected.
    pub security: Vec<Security>,
}

/// Who is told what comes of a run.
pub trait Reporter {
    /// So many cases are to be measured.
    fn plan(&mut self, cases: usize);
    /// What is being done now.
    fn doing(&mut self, what: &str);
    /// A case is done, with or without a figure.
    fn case_done(&mut self);
    /// A figure.
    fn row(&mut self, row: &Row);
    /// Something that people should know.
    fn notice(&mut self, what: &str);
}

/// Measures the cases asked for, one after the other. What fails is told, and the others are measured.
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

/// Name of each case of a request, and what it measures.
///
/// # Errors
/// [`BenchError::Usage`] when there is no such case.
pub fn list(request: &Request) -> Result<Vec<(String, String)>, BenchError> {
    Ok(chosen(request)?.into_iter().map(|case| (case.name, case.what)).collect())
}

/// How often the protocol core allocates, both sides together, while `messages` totally ordered multicasts of 100 B pass
/// from one side to the other, after as many that give its queues their size. The program's allocator has to be
/// [`Counting`].
///
/// # Errors
/// When the core refuses.
pub fn core_allocations(messages: usize) -> Result<u64, BenchError> {
    let mut pair = suite::core_loop::Pair::meet(phalanx::driver::udp::PACKET_BYTES_LOOPBACK, true)?;
    pair.push(false, messages)?;
    let before = alloc::taken();
    pair.push(false, messages)?;
    Ok(alloc::taken() - before)
}

/// Drives the protocol core alone with `count` totally ordered multicasts of 100 B, or with round trips of 64 B, for
/// whoever looks at it from outside.
///
/// # Errors
/// When the core refuses.
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

/// Whether a name fits a pattern in which `*` stands for anything.
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
