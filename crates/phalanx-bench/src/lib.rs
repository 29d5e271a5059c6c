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
mod commands;
mod crew;
mod error;
mod executor;
mod histogram;
mod interface;
mod machine;
mod measure;
mod member;
mod protocol;
mod raw;
mod report;
mod request;
mod row;
mod suite;
mod tap;
mod three_phase;

pub use alloc::Counting;
pub use child::{run as run_child, run_program};
pub use choice::{Cores, Ordering, Security, Senders, Transport, Waiting};
pub use crew::{CHILD_COMMAND, Interrupt};
pub use error::BenchError;
pub use machine::Machine;
pub use report::Measured;
pub use request::{Reporter, Request, Selection, Suite};
pub use row::{Row, median, show, show_spread};

use phalanx_runtime::driver::udp::{PACKET_BYTES_ETHERNET, PACKET_BYTES_LOOPBACK};

use bench::{Bench, Case};
use suite::core_loop::{Pair, Wire};
use suite::late_sink::LateSink;

/// Unit tests count their allocations.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

/// Number of allocations of this thread so far, if the program's allocator is [`Counting`].
#[must_use]
pub fn allocations() -> u64 {
    alloc::taken()
}

/// Number of allocations by the protocol core, both sides together, while `messages` totally ordered multicasts of 100
/// B pass from one side to the other. As many messages precede them, so that queues have grown to their size. The
/// program's allocator has to be [`Counting`].
///
/// # Errors
/// When the core refuses a command.
pub fn core_allocations(messages: usize) -> Result<u64, BenchError> {
    let mut pair = Pair::<Wire>::meet(PACKET_BYTES_LOOPBACK, true)?;
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
    let mut pair = Pair::<Wire>::meet(PACKET_BYTES_LOOPBACK, sealed)?;
    if trips { pair.trips(count).map(drop) } else { pair.push(false, count) }
}

/// The same with layers bound early or late, in packets of an Ethernet that are not sealed. Meant for profilers.
///
/// # Errors
/// When the core refuses a command.
pub fn drive_layers(count: usize, is_late: bool, trips: bool) -> Result<(), BenchError> {
    fn drive<S: suite::core_loop::Sink + Default>(count: usize, trips: bool) -> Result<(), BenchError> {
        let mut pair = Pair::<S>::meet(PACKET_BYTES_ETHERNET, false)?;
        if trips { pair.trips(count).map(drop) } else { pair.push(false, count) }
    }
    if is_late { drive::<LateSink>(count, trips) } else { drive::<Wire>(count, trips) }
}

/// What [`drive_tap`] shows packets to.
#[derive(Clone, Copy, Debug)]
pub enum Tapped<'a> {
    /// Nothing: what the loop costs.
    Nothing,
    /// One of the ways that the suite `tap` compares, by its name, with a filter that takes all or none.
    Way(&'a str, bool),
    /// The tap in place, with a filter of four instructions that takes so many bytes of every packet.
    Snapshot(u32),
    /// One of the paper's filters, by its name. Packets have lengths of their own.
    Filter(&'a str),
}

/// Shows `count` packets of `len` bytes that came in. Nothing is timed. Meant for profilers.
///
/// # Errors
/// [`BenchError::Usage`] if there is no such way, filter or length; it says which there are.
pub fn drive_tap(tapped: Tapped<'_>, len: usize, count: usize) -> Result<(), BenchError> {
    use tap::linkage::{LONGEST, SHORTEST, Side};
    use tap::paper::SetUp;
    if !(SHORTEST..=LONGEST).contains(&len) {
        return Err(BenchError::Usage(format!("a packet has {SHORTEST} to {LONGEST} bytes here")));
    }
    let unknown = |what: &str, names: Vec<&str>| {
        BenchError::Usage(format!("there is no such {what}; there is:\n  {}", names.join("\n  ")))
    };
    match tapped {
        Tapped::Nothing => tap::repeat_nothing(len, count),
        Tapped::Snapshot(snap) => tap::repeat_snapshot(snap, len, count),
        Tapped::Way(name, takes_all) => {
            let names = || tap::Way::ALL.iter().map(|way| way.name()).collect();
            let way = tap::Way::ALL.iter().find(|way| way.name() == name).ok_or_else(|| unknown("way", names()))?;
            let set_up = if takes_all { SetUp::Accept } else { SetUp::Reject };
            way.repeat(set_up, Side::Read, len, count)?;
        }
        Tapped::Filter(name) if tap::repeat_filter(name, count) => {}
        Tapped::Filter(_) => {
            return Err(unknown("filter", tap::paper::filters().iter().map(|filter| filter.name).collect()));
        }
    }
    Ok(())
}

fn chosen(request: &Request) -> Result<Vec<Case>, BenchError> {
    let mut cases = suite::cases(request.suite, request);
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
