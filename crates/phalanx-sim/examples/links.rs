//! Sweeps calls over links of given rates: `cargo run -p phalanx-sim --release --example links -- WORKLOAD [--NAME
//! VALUES]...`.
//!
//! WORKLOAD is `closed`, `incast` or `mixed`. Each parameter takes one value or several, with commas between them; each
//! combination has a row. Values may end with k, M, G (thousands) or Ki, Mi, Gi. With `--json` each row is a line of
//! JSON. Exit code 0: no call failed. 1: some did. 2: wrong usage.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Duration;

use phalanx_core::rpc::EndpointLimits;
use phalanx_sim::calls::links::{Extremes, Long, Measured, Setup, Workload, measure};

/// The parameters: name, default, description.
const PARAMETERS: [(&str, u64, &str); 26] = [
    ("rate", 10_000_000_000, "of links, bits per second"),
    ("peers", 1, "closed: clients, incast: servers, mixed: clients"),
    ("servers", 1, "closed, mixed: servers"),
    ("at-once", 1, "closed: calls of a client under way"),
    ("request", 64, "closed: bytes of a request"),
    ("answer", 64, "closed, incast: bytes of an answer"),
    ("think-us", 0, "closed: between the end of a call and the next"),
    ("for-ms", 20, "closed: no call begins later"),
    ("calls", 1_000_000, "closed: calls of each client at most; mixed: all calls"),
    ("rounds", 20, "incast: rounds"),
    ("load", 500, "mixed: of the servers' links, in thousandths"),
    ("long-requests", 0, "mixed: 1: requests are long, 0: answers"),
    ("window", 16, "EndpointLimits::window_packets"),
    ("timer-us", 5_000, "EndpointLimits::timer_min"),
    ("free-us", 2_000, "EndpointLimits::delay_free"),
    ("inflow", 768 << 10, "EndpointLimits::receive_budget_bytes"),
    ("bounds", 1, "EndpointLimits::bounds_answers"),
    ("slots", 8, "EndpointLimits::slots"),
    ("loss", 0, "packets lost of a million"),
    ("packet", 1_472, "longest packet, bytes"),
    ("hop-ns", 1_000, "propagation of a hop"),
    ("port", 512 << 10, "bytes that may wait at a port of the switch"),
    ("receive", 4 << 20, "receive buffer, bytes as charged"),
    ("packet-ns", 300, "time of a host's core for a packet"),
    ("wake-ns", 1_000, "an idle host looks for packets so often"),
    ("seed", 1, "decides everything that is left to chance"),
];

/// A combination of parameters, in the order of [`PARAMETERS`].
type Chosen = [u64; PARAMETERS.len()];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let kind = args.next().unwrap_or_default();
    let mut values: Vec<Vec<u64>> = PARAMETERS.iter().map(|(_, usual, _)| vec![*usual]).collect();
    let mut is_json = false;
    while let Some(arg) = args.next() {
        if arg == "--json" {
            is_json = true;
            continue;
        }
        let at = PARAMETERS.iter().position(|(name, ..)| arg.strip_prefix("--") == Some(name));
        let given = args.next().and_then(|text| text.split(',').map(number).collect::<Option<Vec<u64>>>());
        let (Some(at), Some(given)) = (at, given) else { return usage(&arg) };
        values[at] = given;
    }
    if !matches!(kind.as_str(), "closed" | "incast" | "mixed") {
        return usage(&kind);
    }
    let swept: Vec<usize> = (0..values.len()).filter(|at| values[*at].len() > 1).collect();
    let mut failed = false;
    let mut widths = Vec::new();
    for chosen in combinations(&values) {
        let (setup, workload) = (setup(&chosen), workload(&kind, &chosen));
        let measured = measure(&setup, &workload, of(&chosen, "seed"));
        failed |= measured.failed > 0;
        let names = swept.iter().map(|at| PARAMETERS[*at].0.to_owned());
        let cells: Vec<(String, String)> =
            names.zip(swept.iter().map(|at| chosen[*at].to_string())).chain(cells(&measured)).collect();
        if is_json {
            let pairs: Vec<String> = cells.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            println!("{{\"workload\":\"{kind}\",{}}}", pairs.join(","));
            continue;
        }
        if widths.is_empty() {
            widths = cells.iter().map(|(name, value)| name.len().max(value.len() + 1).max(6)).collect();
            println!("{}", line(cells.iter().map(|(name, _)| name), &widths));
        }
        println!("{}", line(cells.iter().map(|(_, value)| value), &widths));
    }
    ExitCode::from(u8::from(failed))
}

fn usage(why: &str) -> ExitCode {
    eprintln!("not understood: {why:?}\nusage: links closed|incast|mixed [--json] [--NAME VALUE,VALUE...]...");
    for (name, usual, what) in PARAMETERS {
        eprintln!("  --{name:<14} {usual:>12}  {what}");
    }
    ExitCode::from(2)
}

fn number(text: &str) -> Option<u64> {
    let units =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = units.iter().find_map(|(end, unit)| Some((text.strip_suffix(end)?, *unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Every combination; the last parameter changes fastest.
fn combinations(values: &[Vec<u64>]) -> Vec<Chosen> {
    let mut all = vec![[0; PARAMETERS.len()]];
    for (at, values) in values.iter().enumerate() {
        let with = |chosen: Chosen, value: u64| {
            let mut chosen = chosen;
            chosen[at] = value;
            chosen
        };
        all = all.into_iter().flat_map(|chosen| values.iter().map(move |value| with(chosen, *value))).collect();
    }
    all
}

fn of(chosen: &Chosen, name: &str) -> u64 {
    let at = PARAMETERS.iter().position(|parameter| parameter.0 == name);
    chosen[at.expect("names are those of the table")]
}

fn setup(chosen: &Chosen) -> Setup {
    let of = |name| of(chosen, name);
    Setup {
        link_bps: of("rate"),
        hop_ns: of("hop-ns"),
        port_bytes: of("port"),
        loss_ppm: of("loss") as u32,
        packet_bytes: of("packet") as u32,
        packet_ns: of("packet-ns"),
        wake_ns: of("wake-ns"),
        receive_bytes: of("receive"),
        limits: EndpointLimits {
            window_packets: of("window") as u32,
            timer_min: Duration::from_micros(of("timer-us")),
            delay_free: Duration::from_micros(of("free-us")),
            receive_budget_bytes: of("inflow"),
            bounds_answers: of("bounds") > 0,
            slots: of("slots") as u8,
            ..EndpointLimits::default()
        },
    }
}

fn workload(kind: &str, chosen: &Chosen) -> Workload {
    let of = |name| of(chosen, name);
    let size = |name| of(name) as usize;
    match kind {
        "incast" => {
            Workload::Incast { servers: size("peers"), answer_bytes: size("answer"), rounds: of("rounds").max(1) }
        }
        "mixed" => Workload::Mixed {
            clients: size("peers"),
            servers: size("servers"),
            long: if of("long-requests") > 0 { Long::Requests } else { Long::Answers },
            load_permille: of("load"),
            calls: of("calls"),
        },
        _ => Workload::Closed {
            clients: size("peers"),
            servers: size("servers"),
            at_once: size("at-once"),
            request_bytes: size("request"),
            answer_bytes: size("answer"),
            think_ns: of("think-us") * 1_000,
            for_ns: of("for-ms") * 1_000_000,
            calls: of("calls"),
        },
    }
}

/// Cells of a row: names and values.
fn cells(measured: &Measured) -> Vec<(String, String)> {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1_000.0);
    let Measured { took, .. } = measured;
    let times = |ns: u64| format!("{:.2}", ns as f64 / measured.ideal_ns as f64);
    let mut cells = vec![
        ("calls", measured.calls.to_string()),
        ("failed", measured.failed.to_string()),
        ("calls/s", format!("{:.0}", measured.calls as f64 * 1e9 / measured.span_ns.max(1) as f64)),
        ("share%", format!("{:.1}", measured.link_share * 100.0)),
    ];
    if measured.ideal_ns > 0 {
        cells.extend([
            ("ideal_us", us(measured.ideal_ns)),
            ("p50/ideal", times(took.p50_ns)),
            ("first_us", us(took.first_ns)),
            ("p50_us", us(took.p50_ns)),
            ("p99_us", us(took.p99_ns)),
            ("max_us", us(took.max_ns)),
        ]);
    }
    cells.extend([
        ("switch_drops", measured.switch_drops.to_string()),
        ("host_drops", measured.host_drops.to_string()),
        ("lost", measured.lost.to_string()),
        ("probes", measured.probes.to_string()),
        ("again", measured.fragments_again.to_string()),
        ("duplicates", measured.duplicates.to_string()),
        ("packets", measured.packets.to_string()),
        ("port_KiB", (measured.port_bytes_max >> 10).to_string()),
        ("buffer_KiB", (measured.charged_bytes_max >> 10).to_string()),
    ]);
    let parts = |Extremes { least, most }: Extremes| format!("{:.2}", most as f64 / least.max(1) as f64);
    cells.push(("uneven", parts(measured.client_bytes)));
    cells.push(("uneven_servers", parts(measured.server_ns)));
    let mut cells: Vec<(String, String)> = cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for class in measured.classes.iter().filter(|class| class.calls > 0) {
        let name =
            if class.bytes < 1 << 20 { format!("{}K", class.bytes >> 10) } else { format!("{}M", class.bytes >> 20) };
        cells.push((format!("<{name}_p50"), format!("{:.1}", class.p50_slowdown)));
        cells.push((format!("<{name}_p99"), format!("{:.1}", class.p99_slowdown)));
    }
    cells
}

fn line<'a>(cells: impl Iterator<Item = &'a String>, widths: &[usize]) -> String {
    cells.zip(widths).map(|(cell, width)| format!("{cell:>width$} ")).collect()
}
