//! The path of a packet between two endpoints.

use phalanx_core::rng::Rng;

use super::plan::{MS, SECOND, Weather};
use super::result::CallsStats;

/// The network: it knows addresses and bytes.
pub(super) struct Network {
    weather: Weather,
    rng: Rng,
    /// Draws for the reports of systems.
    reports: Rng,
    /// Cut links: sender, receiver, and the end of the cut.
    cuts: Vec<(usize, usize, u64)>,
    /// Bursts: packets lost in a million, and the end of the burst.
    bursts: Vec<(u32, u64)>,
    /// For each pair: the arrival of the latest packet.
    latest: Vec<u64>,
    nodes: usize,
}

impl Network {
    pub(super) fn new(weather: Weather, rng: Rng, nodes: usize) -> Self {
        Self {
            weather,
            reports: rng.fork("reports"),
            rng,
            cuts: Vec::new(),
            bursts: Vec::new(),
            latest: vec![0; nodes * nodes],
            nodes,
        }
    }

    pub(super) fn cut(&mut self, from: usize, to: usize, until_ns: u64) {
        self.cuts.push((from, to, until_ns));
    }

    pub(super) fn burst(&mut self, loss_ppm: u32, until_ns: u64) {
        self.bursts.push((loss_ppm, until_ns));
    }

    /// Ends all loss, duplication and delay.
    pub(super) fn heal(&mut self) {
        let Weather { delay_ns, .. } = self.weather;
        self.weather = Weather { delay_ns, ..Weather::default() };
        self.cuts.clear();
        self.bursts.clear();
    }

    /// Arrival times of a packet that is sent now: none, one or several.
    pub(super) fn carry(&mut self, now_ns: u64, from: usize, to: usize, stats: &mut CallsStats) -> Vec<u64> {
        stats.packets += 1;
        self.cuts.retain(|(_, _, until_ns)| *until_ns > now_ns);
        self.bursts.retain(|(_, until_ns)| *until_ns > now_ns);
        let is_cut = self.cuts.iter().any(|cut| (cut.0, cut.1) == (from, to));
        let loss_ppm = self.bursts.iter().map(|burst| burst.0).fold(self.weather.loss_ppm, u32::max);
        let mut arrivals = Vec::with_capacity(1);
        if is_cut || self.rng.chance_ppm(loss_ppm) {
            stats.lost += 1;
        } else {
            let at_ns = self.arrival(now_ns);
            let latest = &mut self.latest[from * self.nodes + to];
            stats.reordered += u64::from(at_ns < *latest);
            *latest = at_ns.max(*latest);
            arrivals.push(at_ns);
            if self.rng.chance_ppm(self.weather.duplicate_ppm) {
                stats.duplicated += 1;
                arrivals.push(self.arrival(now_ns));
            }
        }
        // Even a lost packet may have been recorded and be replayed.
        if self.rng.chance_ppm(self.weather.replay_ppm) {
            stats.replayed += 1;
            let later = (50 * MS) << self.rng.below(7);
            arrivals.push(now_ns + later + self.rng.below(later));
        }
        arrivals
    }

    /// Time at which the sender of a packet hears that no socket was there, if it hears of that.
    pub(super) fn reported(&mut self, now_ns: u64, stats: &mut CallsStats) -> Option<u64> {
        let is_reported = self.reports.chance_ppm(self.weather.reported_ppm);
        stats.reported += u64::from(is_reported);
        is_reported.then(|| now_ns + self.weather.delay_ns + self.reports.below(self.weather.jitter_ns + 1))
    }

    /// Time at which the sender of a packet hears that no socket was there, although one was.
    pub(super) fn forged(&mut self, now_ns: u64, stats: &mut CallsStats) -> Option<u64> {
        let is_forged = self.reports.chance_ppm(self.weather.forged_ppm);
        stats.forged += u64::from(is_forged);
        is_forged.then(|| now_ns + self.reports.below(SECOND))
    }

    /// Time at which a record written now for a process of the same host can be read; `None`: it is overwritten before.
    pub(super) fn share(&mut self, now_ns: u64, stats: &mut CallsStats) -> Option<u64> {
        stats.shared += 1;
        (!self.overtakes(stats)).then_some(now_ns + SHARED_NS)
    }

    /// Whether the writer overwrites the record before it is read.
    pub(super) fn overtakes(&mut self, stats: &mut CallsStats) -> bool {
        let overtakes = self.rng.chance_ppm(self.weather.overtaken_ppm);
        stats.overtaken += u64::from(overtakes);
        overtakes
    }

    fn arrival(&mut self, now_ns: u64) -> u64 {
        now_ns + self.weather.delay_ns + self.rng.below(self.weather.jitter_ns + 1)
    }
}

/// Time from one processor to another.
const SHARED_NS: u64 = 200;

/// Receive buffer of an endpoint that announces none.
pub(super) const RECEIVE_BYTES_USUAL: u64 = 212_992;
