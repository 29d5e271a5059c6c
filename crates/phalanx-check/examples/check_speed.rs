//! Measures the time to evaluate traces: of a small run, and of one with a million records, both generated in memory.
//!
//! With `--write DIR` it writes the million records as files instead. With `--files DIR` it evaluates the files of a
//! directory and prints the peak memory.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use phalanx_check::{Options, Require, check, check_files};
use phalanx_trace::{Event, Header, LeaveReason, Order, Trace};

const MEMBERS: u64 = 5;
const GROUP: u32 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--write", dir] => {
            std::fs::create_dir_all(dir)?;
            for trace in run(1_000_000) {
                trace.save(&Path::new(dir).join(format!("{}.trace", trace.header.node)))?;
            }
            return Ok(());
        }
        ["--files", dir] => {
            let files = std::fs::read_dir(dir)?.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
            let start = Instant::now();
            let report = check_files(&files, &Options { require: Require::Nothing, ..Options::default() })?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let records = report.stats.records;
            writeln!(out, "{records} records of {} files in {ms:.0} ms, {}", files.len(), peak_memory())?;
            return Ok(());
        }
        _ => {}
    }
    for (what, records, rounds) in [("small run", 10_000, 100), ("large run", 1_000_000, 3)] {
        let traces = run(records);
        let count: usize = traces.iter().map(|t| t.records.len()).sum();
        let mut best_ms = f64::INFINITY;
        for _ in 0..rounds {
            let start = Instant::now();
            let report = check(&traces, &Options::default());
            best_ms = best_ms.min(start.elapsed().as_secs_f64() * 1e3);
            assert!(report.passed, "{report}");
        }
        writeln!(out, "{what}: {count} records in {best_ms:.1} ms")?;
    }
    Ok(())
}

/// Peak memory of this process, as the system reports it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("peak memory unknown".into(), |peak| format!("peak memory {}", peak.trim()))
}

/// Generates a run in which five members multicast in turn, in all orders, and the youngest dies half-way.
fn run(records: u64) -> Vec<Trace> {
    let process = |p| Trace::new(Header::process("cell", &format!("node{p}"), incarnation(p), "clock"));
    let mut traces: Vec<Trace> = (0..MEMBERS).map(process).collect();
    traces.push(Trace::new(Header::harness("cell", "clock")));
    let mut now = 0;
    for trace in traces.iter_mut().take(MEMBERS as usize) {
        now += 1;
        trace.push(now, Event::Start);
        trace.push(now, Event::JoinAsked { cell: "cell".into() });
        trace.push(now, Event::GroupJoinAsked { name: "g".into(), with_state: false });
    }
    install(&mut traces, now, 1, MEMBERS);
    let half = records / 2 / (MEMBERS + 1);
    traffic(&mut traces, &mut now, 1, MEMBERS, half);
    traces[MEMBERS as usize].push(now, Event::Crash { incarnation: incarnation(MEMBERS - 1) });
    install(&mut traces, now + 1, 2, MEMBERS - 1);
    traffic(&mut traces, &mut now, 2, MEMBERS - 1, records / 2 / MEMBERS);
    traces
}

fn incarnation(p: u64) -> u64 {
    0x9e37_79b9_7f4a_7c15u64.wrapping_mul(p + 1)
}

fn install(traces: &mut [Trace], now: u64, view: u64, members: u64) {
    let all = || (0..members).map(incarnation);
    let left = if view == 1 { vec![] } else { vec![(incarnation(members), LeaveReason::Died)] };
    for trace in traces.iter_mut().take(members as usize) {
        let named = all().zip(0..).map(|(i, p)| (i, format!("node{p}"))).collect();
        trace.push(now, Event::CellView { instance: 1, view, members: named, left: left.clone() });
        trace.push(
            now,
            Event::GroupView {
                group: GROUP,
                name: "g".into(),
                view,
                prev: (view > 1).then(|| view - 1),
                members: all().collect(),
                joined: if view == 1 { all().collect() } else { vec![] },
                left: left.clone(),
            },
        );
    }
}

fn traffic(traces: &mut [Trace], now: &mut u64, view: u64, members: u64, messages: u64) {
    let mut position = 0;
    for i in 0..messages {
        let (sender, seq) = (i % members, i / members + 1);
        let order = [Order::Fifo, Order::Causal, Order::Total][(i % 3) as usize];
        position += u64::from(order == Order::Total);
        let uniform = i % 4 == 0;
        *now += 1_000;
        traces[sender as usize].push(*now, Event::Send { group: GROUP, view, seq, order, uniform, hash: i });
        for trace in traces.iter_mut().take(members as usize) {
            *now += 100;
            let position = (order == Order::Total).then_some(position);
            let sender = incarnation(sender);
            let event =
                Event::Deliver { group: GROUP, view, sender, seq, order, uniform, position, hash: i, replayed: false };
            trace.push(*now, event);
        }
    }
}
