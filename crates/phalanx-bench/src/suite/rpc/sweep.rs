//! The effect of an endpoint's limits: each is varied alone, on both sides, beside its default.

use std::time::Duration;

use crate::bench::{Bench, Case};
use crate::calls::{Load, Tuning};
use crate::choice::Transport;
use crate::error::BenchError;
use crate::row::Series;

use super::incast::{ANSWERED, rounds};
use super::pair::{Pair, Setup, none_failed};

/// A limit and the values it takes.
#[derive(Clone, Debug)]
struct Sweep {
    transport: Transport,
    /// Name of the timed quantity.
    timed: &'static str,
    /// Name of the limit, with its unit.
    name: &'static str,
    values: Vec<(f64, Tuning)>,
    usual: f64,
    load: Load,
    /// Bytes of a message.
    size: usize,
    servers: usize,
    answer: Option<usize>,
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [64 << 10, 1 << 20].map(window).into();
    cases.extend([timer(), delay(), inflow(1 << 20), inflow(8 << 20)]);
    cases
}

/// Varies the initial window. The first call of a session feels it, because the window grows later.
fn window(size: usize) -> Case {
    let tuning = |packets: u32| Tuning { window_packets: Some(packets), ..Tuning::default() };
    let sweep = Sweep {
        transport: Transport::Udp,
        timed: "first call",
        name: "packets of first window",
        values: [4, 8, 16, 64, 256].map(|packets| (f64::from(packets), tuning(packets))).into(),
        usual: 16.0,
        load: Load::Rounds { size, calls: 1, fresh: true },
        size,
        servers: 1,
        answer: None,
    };
    sweep.case(
        format!("sweep-window-{size}"),
        format!("the first call of a session, of {size} B, by the packets with which its window begins"),
    )
}

/// Varies the retransmission timer. Only the timer recovers the loss of a last packet, since no later one reveals it.
fn timer() -> Case {
    const SIZE: usize = 64;
    const LOSS_PPM: u32 = 10_000;
    let tuning =
        |ms: u64| Tuning { timer_min: Some(Duration::from_millis(ms)), loss_ppm: LOSS_PPM, ..Tuning::default() };
    let sweep = Sweep {
        transport: Transport::Udp,
        timed: "call",
        name: "ms of timer",
        values: [1, 2, 5, 10, 20, 50].map(|ms| (ms as f64, tuning(ms))).into(),
        usual: 5.0,
        load: Load::closed(SIZE, 1),
        size: SIZE,
        servers: 1,
        answer: None,
    };
    let what = format!("calls of {SIZE} B of which 1 % of the packets are lost, by the shortest timer");
    sweep.case(format!("sweep-timer-{SIZE}"), what)
}

/// Varies the delay that is not taken for congestion. When many servers answer at once, their packets queue behind each
/// other.
fn delay() -> Case {
    const SERVERS: usize = 64;
    let tuning = |us: u64| Tuning { delay_free: Some(Duration::from_micros(us)), ..Tuning::default() };
    let sweep = Sweep {
        transport: Transport::Udp,
        timed: "round",
        name: "ms of free delay",
        values: [100, 500, 2_000, 10_000].map(|us| (us as f64 / 1e3, tuning(us))).into(),
        usual: 2.0,
        load: rounds(SERVERS),
        size: ANSWERED,
        servers: SERVERS,
        answer: Some(ANSWERED),
    };
    let what = format!("{SERVERS} servers answer {ANSWERED} B at once, by the delay that is no sign of congestion");
    sweep.case(format!("sweep-delay-{SERVERS}x{ANSWERED}"), what)
}

/// Varies the in-flight receive budget over shared memory. More bytes lie longer in the ring and leave the caches.
/// Sockets of this host are bounded by their buffers anyway.
fn inflow(size: usize) -> Case {
    let tuning = |kib: u64| Tuning { receive_budget_bytes: Some(kib << 10), ..Tuning::default() };
    let sweep = Sweep {
        transport: Transport::Shm,
        timed: "call",
        name: "KiB of receive budget",
        values: [192, 384, 768, 1_536, 3_072, 12_288].map(|kib| (kib as f64, tuning(kib))).into(),
        usual: 768.0,
        load: Load::closed(size, 1),
        size,
        servers: 1,
        answer: None,
    };
    let what = format!("calls of {size} B with an answer as long, by what may be on its way to the client");
    sweep.case(format!("sweep-inflow-{size}"), what)
}

impl Sweep {
    fn case(self, name: String, what: String) -> Case {
        Case::new(name, what, move |bench| self.measure(bench))
    }

    fn measure(&self, bench: &mut Bench<'_>) -> Result<(), BenchError> {
        let Self { transport, timed, name, usual, size, servers, answer, .. } = *self;
        let mut all = Vec::new();
        for (value, tuning) in &self.values {
            let pair = Pair::start(bench, &Setup { transport, servers, answer, ..Setup::tuned(*tuning) })?;
            let series = |what: &str, unit| {
                let metric = format!("{what} at {value} {name}");
                Series::new(metric, unit, servers + 1, size).against("the default")
            };
            let drops = series("dropped by the client's kernel", "packets");
            all.push((*value, pair, series(timed, "us"), series("answers", "B/s"), drops));
        }
        let mut failures = 0;
        for round in 0..bench.rounds() {
            bench.round(round)?;
            let mut measured = Vec::new();
            for (value, pair, ..) in &mut all {
                measured.push((*value, pair.timed(&self.load, bench)?.called));
            }
            let usual = measured.iter().find(|(value, _)| *value == usual).map(|(_, called)| called.clone());
            let usual = usual.expect("the default is among the values");
            for ((.., times, bytes, drops), (_, called)) in all.iter_mut().zip(&measured) {
                times.add_quantiles_beside(&called.times, usual.times.p50);
                bytes.add_beside(called.byte_rate(), usual.byte_rate());
                drops.add(called.kernel_drops as f64);
                failures += called.failed;
            }
        }
        bench.report(all.iter().flat_map(|(.., times, bytes, drops)| [times, bytes, drops]));
        none_failed(failures)
    }
}
