//! Shared by the Rust programs of the peers: the arguments, the histogram of latencies, the bound on a run's time, and
//! the inner part of the JSON line.

use std::io::Read;
use std::process::exit;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Any error ends the run.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// One of the positional arguments. They come from the script `run`, which has checked them.
pub fn argument<T: FromStr>(index: usize) -> Outcome<T> {
    let text = std::env::args().nth(index).ok_or("started by hand? It wants its arguments from the script `run`")?;
    text.parse().map_err(|_| format!("not understood: {text}").into())
}

/// How long a run of so many seconds warms up.
pub fn warm_up(seconds: f64) -> Duration {
    Duration::from_secs_f64((seconds / 4.0).max(1.0))
}

/// Ends the process when its run takes far longer than it may.
pub fn bound(seconds: f64) {
    std::thread::spawn(move || {
        std::thread::sleep(warm_up(seconds) + Duration::from_secs_f64(seconds + 50.0));
        eprintln!("bench: the run did not come to its end in time");
        exit(1);
    });
}

/// Ends the process when its parent does, whose end of the pipe is then closed.
#[allow(dead_code, reason = "not every program needs it")]
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        exit(0);
    });
}

/// Sub-buckets of one power of two: each is at most 1/128 of its value wide.
const FINE_BITS: u32 = 8;

/// Latencies in buckets that are fine enough for every figure, and bounded whatever the length of the run.
pub struct Histogram {
    buckets: Vec<u64>,
    samples: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { buckets: vec![0; (64 - FINE_BITS as usize + 1) << FINE_BITS], samples: 0 }
    }

    fn record(&mut self, ns: u64) {
        let shift = (64 - ns.leading_zeros()).saturating_sub(FINE_BITS);
        self.buckets[((shift as usize) << FINE_BITS) + (ns >> shift) as usize] += 1;
        self.samples += 1;
    }

    /// The value below which that part of the samples lies, in nanoseconds: the middle of its bucket.
    fn percentile(&self, part: f64) -> u64 {
        let wanted = (part * self.samples as f64) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen > wanted {
                let (shift, value) = (index >> FINE_BITS, index as u64 % (1 << FINE_BITS));
                return (value << shift) + if shift > 0 { 1 << (shift - 1) } else { 0 };
            }
        }
        0
    }

    /// The figures of a ping-pong.
    ///
    /// # Errors
    /// When nothing was measured.
    pub fn print(&self, size: usize, servers: usize, cores: &str, wait: &str) -> Outcome {
        if self.samples == 0 {
            return Err("nothing was measured".into());
        }
        println!(
            "\"size\":{size},\"wait\":\"{wait}\",\"cores\":\"{cores}\",\"servers\":{servers},\"p50_ns\":{},\
             \"p99_ns\":{},\"p999_ns\":{},\"count\":{}",
            self.percentile(0.5),
            self.percentile(0.99),
            self.percentile(0.999),
            self.samples
        );
        Ok(())
    }
}

/// Whether the client warms up, measures, or is done; asked after each exchange.
pub struct Exchanges {
    measuring_from: Instant,
    end: Instant,
    before: Instant,
    pub histogram: Histogram,
}

impl Exchanges {
    pub fn start(seconds: f64) -> Self {
        let now = Instant::now();
        let measuring_from = now + warm_up(seconds);
        let end = measuring_from + Duration::from_secs_f64(seconds);
        Self { measuring_from, end, before: now, histogram: Histogram::new() }
    }

    /// An exchange has come to its end: is there to be another one?
    pub fn again(&mut self) -> bool {
        let now = Instant::now();
        if self.before >= self.measuring_from {
            self.histogram.record((now - self.before).as_nanos() as u64);
        }
        self.before = now;
        now < self.end
    }
}
