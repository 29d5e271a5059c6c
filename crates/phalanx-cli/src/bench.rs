//! `phalanx bench`: figures beside baselines of the same run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use phalanx_bench::{
    BenchError, Interrupt, Machine, Ordering, Reporter, Request, Row, Security, Selection, Senders, Suite, Transport,
};

use crate::exit::{Exit, Failure, While};
use crate::notice::{data, say};
use crate::table::Table;

/// Counts allocations: the suite `core` reports them.
#[global_allocator]
static ALLOCATOR: phalanx_bench::Counting = phalanx_bench::Counting;

/// Measures the library beside baselines of the same run: raw sockets, raw memory, other systems
///
/// SUITE is one of: limits, stream, latency, flow, views, core, interface, asks, rpc, tap, peers. Each member is a process of its own on this machine. Every figure is
/// the median of some rounds; its baseline is measured in the same round, and ratios are made within a round. See
/// docs/bench.md.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The suite to measure; or "report": make a page from files with JSON lines
    #[arg(value_name = "SUITE", required_unless_present = "list")]
    suite: Option<Wanted>,
    /// Only these cases; * matches anything. For a report: its files
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// report: the page to write [default: bench.html]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// One short round of each case, to see that it works
    #[arg(long)]
    quick: bool,
    /// Number of rounds for each case [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: Option<u16>,
    /// Duration of one measurement [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Write one JSON object a line to this file; "-": to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// List the cases instead of measuring them
    #[arg(long)]
    list: bool,
    /// stream, interface, asks: bytes of a message
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', value_parser = size)]
    sizes: Vec<usize>,
    /// stream, asks: members of the group
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = members)]
    members: Vec<usize>,
    /// stream: fifo, causal, total, uniform
    #[arg(long, value_name = "ORDER,..", value_delimiter = ',')]
    order: Vec<Ordering>,
    /// stream: one, all
    #[arg(long, value_name = "WHO,..", value_delimiter = ',')]
    senders: Vec<Senders>,
    /// stream, interface, asks: how packets travel
    #[arg(long, value_name = "HOW,..", value_delimiter = ',')]
    transport: Vec<Transport>,
    /// stream: sealed, none
    #[arg(long, value_name = "HOW,..", value_delimiter = ',')]
    security: Vec<Security>,
    /// rpc: show where the slowest of the calls one after the other spent its time
    #[arg(long)]
    time_trace: bool,
    /// rpc: show the counters of the endpoints at both ends, divided by answered calls
    #[arg(long)]
    counters: bool,
    /// peers, asks: directory of the peers' runners [default: bench/peers]
    #[arg(long, value_name = "DIR")]
    peers_dir: Option<PathBuf>,
    #[arg(long, value_name = "DIR", help = BUILT_DIR_HELP)]
    built_dir: Option<PathBuf>,
}

const BUILT_DIR_HELP: &str =
    "peers, asks: directory where they were built [env: PHALANX_PEERS_DIR] [default: target/peers]";

impl Bench {
    /// Refuses flags that what is measured does not take. `None`: a report is made.
    fn refuse_flags(&self, suite: Option<Suite>) -> Result<(), Failure> {
        let flags: [(&str, bool, &[Suite]); 16] = [
            ("--output", self.output.is_some(), &[]),
            ("--quick", self.quick, Suite::ALL),
            ("--rounds", self.rounds.is_some(), Suite::ALL),
            ("--seconds", self.seconds.is_some(), Suite::ALL),
            ("--json", self.json.is_some(), Suite::ALL),
            ("--list", self.list, Suite::ALL),
            ("--sizes", !self.sizes.is_empty(), &[Suite::Stream, Suite::Interface, Suite::Asks]),
            ("--members", !self.members.is_empty(), &[Suite::Stream, Suite::Asks]),
            ("--order", !self.order.is_empty(), &[Suite::Stream]),
            ("--senders", !self.senders.is_empty(), &[Suite::Stream]),
            ("--transport", !self.transport.is_empty(), &[Suite::Stream, Suite::Interface, Suite::Asks]),
            ("--security", !self.security.is_empty(), &[Suite::Stream]),
            ("--time-trace", self.time_trace, &[Suite::Rpc]),
            ("--counters", self.counters, &[Suite::Rpc]),
            ("--peers-dir", self.peers_dir.is_some(), &[Suite::Peers, Suite::Asks]),
            ("--built-dir", self.built_dir.is_some(), &[Suite::Peers, Suite::Asks]),
        ];
        let takes = |of: &[Suite]| suite.map_or(of.is_empty(), |suite| of.contains(&suite));
        let Some((flag, _, of)) = flags.into_iter().find(|&(_, is_given, of)| is_given && !takes(of)) else {
            return Ok(());
        };
        let of = match of {
            [] => "report".to_owned(),
            _ if of.len() == Suite::ALL.len() => "suites that measure".to_owned(),
            _ => of.iter().map(|suite| suite.word()).collect::<Vec<_>>().join(", "),
        };
        let what = suite.map_or("report", Suite::word);
        Err(Failure::new(Exit::Usage, format!("bench {what} takes no {flag}, which is for: {of}")))
    }
}

/// The first positional argument.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Suite(Suite),
    Report,
}

impl FromStr for Wanted {
    type Err = BenchError;

    fn from_str(word: &str) -> Result<Self, BenchError> {
        if word == "report" { Ok(Self::Report) } else { word.parse().map(Self::Suite) }
    }
}

/// A process of the benchmark; started by `phalanx bench`
#[derive(Args, Debug)]
pub(crate) struct Child {
    #[arg(long)]
    parent: u32,
    /// The program to run in place of this process
    #[arg(last = true)]
    program: Vec<String>,
}

pub(crate) fn run(bench: &Bench) -> Result<Exit, Failure> {
    let suite = match bench.suite {
        Some(Wanted::Suite(suite)) => suite,
        Some(Wanted::Report) => {
            bench.refuse_flags(None)?;
            return report(bench);
        }
        None => {
            for suite in Suite::ALL {
                list(&request(bench, *suite))?;
            }
            return Ok(Exit::Good);
        }
    };
    bench.refuse_flags(Some(suite))?;
    let request = request(bench, suite);
    if bench.list {
        list(&request)?;
        return Ok(Exit::Good);
    }
    // A wrong case name is reported before any process starts.
    phalanx_bench::list(&request).map_err(|error| failure(&error))?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&request.interrupt.0)).when("cannot watch for signals")?;
    }
    let mut teller = Teller::new(bench)?;
    let ended = phalanx_bench::run(&request, &mut teller);
    teller.finish()?;
    match ended {
        Ok(()) => Ok(Exit::Good),
        Err(error) => Err(failure(&error)),
    }
}

pub(crate) fn run_child(child: &Child) -> Result<Exit, Failure> {
    let done = if child.program.is_empty() {
        phalanx_bench::run_child(child.parent)
    } else {
        phalanx_bench::run_program(child.parent, &child.program)
    };
    done.map(|()| Exit::Good).map_err(|error| failure(&error))
}

/// Makes one page from some files.
fn report(bench: &Bench) -> Result<Exit, Failure> {
    let files: Vec<PathBuf> = bench.cases.iter().map(PathBuf::from).collect();
    if files.is_empty() {
        return Err(Failure::new(Exit::Usage, "which files? For example: phalanx bench report stream.json"));
    }
    let measured = phalanx_bench::Measured::read(&files).map_err(|error| failure(&error))?;
    let page = bench.output.as_deref().unwrap_or(Path::new("bench.html"));
    std::fs::write(page, measured.page()).when(format_args!("cannot write {}", page.display()))?;
    say(format_args!("{} figures in {}", measured.rows.len(), page.display()));
    Ok(Exit::Good)
}

fn request(bench: &Bench, suite: Suite) -> Request {
    let built = std::env::var_os("PHALANX_PEERS_DIR").map(PathBuf::from);
    Request {
        suite,
        cases: bench.cases.clone(),
        quick: bench.quick,
        rounds: bench.rounds.map_or(5, usize::from),
        seconds: Duration::from_secs_f64(bench.seconds.unwrap_or(1.0)),
        selection: Selection {
            sizes: bench.sizes.clone(),
            members: bench.members.clone(),
            orders: bench.order.clone(),
            senders: bench.senders.clone(),
            transports: bench.transport.clone(),
            security: bench.security.clone(),
        },
        peers: bench.peers_dir.clone().unwrap_or_else(|| "bench/peers".into()),
        built: bench.built_dir.clone().unwrap_or_else(|| built.unwrap_or_else(|| "target/peers".into())),
        trace: bench.time_trace,
        counters: bench.counters,
        interrupt: Interrupt::default(),
    }
}

fn list(request: &Request) -> Result<(), Failure> {
    let cases = phalanx_bench::list(request).map_err(|error| failure(&error))?;
    let mut table = Table::new(&[request.suite.word(), ""]);
    for case in cases {
        table.row([case.name, case.what]);
    }
    data(table);
    Ok(())
}

fn failure(error: &BenchError) -> Failure {
    let exit = match error {
        BenchError::Interrupted => Exit::Interrupted,
        BenchError::Usage(_) => Exit::Usage,
        _ => Exit::Failure,
    };
    Failure::new(exit, error.to_string())
}

/// Shows a progress bar, keeps rows for the table, and writes each row as a line at once.
struct Teller {
    bar: ProgressBar,
    table: Option<Table>,
    lines: Option<Box<dyn Write>>,
}

impl Teller {
    fn new(bench: &Bench) -> Result<Self, Failure> {
        let machine = Machine::here();
        let standard = bench.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
        let lines: Option<Box<dyn Write>> = match &bench.json {
            None => None,
            Some(_) if standard => Some(Box::new(std::io::stdout())),
            Some(path) => {
                let file = File::create(path).when(format_args!("cannot write {}", path.display()))?;
                Some(Box::new(BufWriter::new(file)))
            }
        };
        let table = (!standard).then(|| Table::new(&Row::HEADS));
        let mut teller = Self { bar: ProgressBar::hidden(), table, lines };
        if !standard {
            for (name, value) in machine.facts() {
                data(format_args!("{name}: {value}"));
            }
        }
        teller.line(&serde_json::to_string(&machine).expect("facts are plain data"));
        Ok(teller)
    }

    fn line(&mut self, line: &str) {
        let Some(lines) = &mut self.lines else { return };
        if writeln!(lines, "{line}").and_then(|()| lines.flush()).is_err() {
            self.lines = None;
            say("nobody takes the JSON lines any more");
        }
    }

    fn finish(self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        if let Some(table) = self.table {
            data(format_args!("\n{table}"));
        }
        Ok(())
    }
}

impl Reporter for Teller {
    fn plan(&mut self, cases: usize) {
        // Indicatif draws nothing if standard error is not a terminal.
        self.bar = ProgressBar::new(cases as u64);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}");
        self.bar.set_style(style.expect("the template is sound"));
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    fn doing(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    fn case_done(&mut self) {
        self.bar.inc(1);
    }

    fn row(&mut self, row: &Row) {
        self.line(&serde_json::to_string(row).expect("a row is plain data"));
        if let Some(table) = &mut self.table {
            table.row(row.cells());
        }
    }

    fn point(&mut self, row: &Row) {
        self.line(&serde_json::to_string(row).expect("a row is plain data"));
    }

    fn notice(&mut self, what: &str) {
        self.bar.suspend(|| say(what));
    }
}

fn seconds(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(seconds) if (0.05..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("it must be a number of seconds from 0.05 to 3600".to_owned()),
    }
}

fn size(word: &str) -> Result<usize, String> {
    match word.parse::<usize>() {
        Ok(size) if (1..=1 << 20).contains(&size) => Ok(size),
        _ => Err("a message has 1 to 1048576 bytes here".to_owned()),
    }
}

fn members(word: &str) -> Result<usize, String> {
    match word.parse::<usize>() {
        Ok(members) if (2..=16).contains(&members) => Ok(members),
        _ => Err("a group has 2 to 16 members here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    /// What is said against these words. `None`: nothing.
    fn refused(words: &str) -> Option<String> {
        let bench = Line::try_parse_from(words.split(' ')).expect("the words are flags").bench;
        let suite = match bench.suite {
            Some(Wanted::Suite(suite)) => Some(suite),
            _ => None,
        };
        bench.refuse_flags(suite).err().map(|failure| failure.what)
    }

    #[test]
    fn flags_that_a_suite_lacks_are_refused_by_name() {
        for flag in ["--members 3", "--sizes 9", "--order total"] {
            let name = flag.split(' ').next().unwrap_or_default();
            let text = refused(&format!("bench latency {flag}")).expect("latency has no such parameter");
            assert!(text.starts_with(&format!("bench latency takes no {name}, ")) && text.contains("stream"), "{text}");
        }
        assert!(refused("bench report a.json --quick").is_some() && refused("bench stream -o a.html").is_some());
        assert!(refused("bench flow --peers-dir x").is_some() && refused("bench interface --members 2").is_some());
        for taken in
            ["report a.json -o b.html", "stream --members 3 --order total --quick", "asks --built-dir x --sizes 9"]
        {
            assert_eq!(refused(&format!("bench {taken}")), None);
        }
    }
}
