//! The costs of a cell by its size: packets, bytes, memory and times, measured in one thread on a good network.

mod plot;

use std::time::Duration;

use phalanx_core::{Order, Uniformity, ViewNumber};
use serde::Serialize;

use crate::slot::Traffic;
use crate::world::{Step, World, WorldSettings, coordinates};

pub use plot::svg;

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct ScaleOptions {
    /// Members of the cell.
    pub members: usize,
    /// Time for which the idle cell is measured.
    pub idle: Duration,
    /// The seed of everything drawn.
    pub seed: u64,
    /// Number of members up to which everybody watches everybody; `None`: as shipped.
    pub watchers: Option<usize>,
}

/// Packets and bytes of one process in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Packets sent, one for each receiver.
    pub sent_packets: f64,
    /// Bytes of those.
    pub sent_bytes: f64,
    /// Packets that reached its sockets.
    pub received_packets: f64,
    /// Bytes of those.
    pub received_bytes: f64,
}

/// Costs of one cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScaleRow {
    /// Members of the cell.
    pub members: usize,
    /// Virtual time until all of them were in one view. The cell doubles with each batch of joiners.
    pub form_ms: f64,
    /// Costs of the idle cell per second: the member of rank 0.
    pub idle_coordinator: Cost,
    /// The same, as the mean of all members.
    pub idle_member: Cost,
    /// Time from a member's crash to the first ballot without it.
    pub detect_ms: f64,
    /// Time from there to the last member's installation of the view without it.
    pub change_ms: f64,
    /// Cost of that change to its coordinator.
    pub change_coordinator: Cost,
    /// Mean cost of that change to the other members.
    pub change_member: Cost,
    /// Time from a new process's start to the last member's installation of the view with it.
    pub join_ms: f64,
    /// Cost of that join to its coordinator.
    pub join_coordinator: Cost,
    /// Mean cost of that join to the other members.
    pub join_member: Cost,
    /// Resident memory of the whole simulation, divided by the members: the processes themselves and the simulator's
    /// state for each of them.
    pub memory_bytes: Option<u64>,
    /// Real time of the measurement, in milliseconds.
    pub real_ms: u64,
}

/// The group of all members.
const GROUP: &str = "all";
/// Time between two messages of the one sender.
const GAP_NS: u64 = 100 * MS;
/// Length of each message.
const MESSAGE_BYTES: usize = 100;
/// Bound on each wait.
const LIMIT_NS: u64 = 120 * SECOND;
/// Time after a view change for its last acks.
const TAIL_NS: u64 = 20 * MS;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Forms a cell, measures it idle, crashes a member, and lets another join.
///
/// # Errors
/// The step that did not complete within two minutes of virtual time.
pub fn measure(options: &ScaleOptions) -> Result<ScaleRow, String> {
    let began = std::time::Instant::now();
    let n = options.members;
    if n < 4 {
        return Err(format!("a cell of {n} is too small to lose a member and measure the rest: 4 or more"));
    }
    let mut lab = Lab::new(options);
    lab.form(n)?;
    let form_ms = ms(lab.world.now_ns);

    lab.run(3 * SECOND);
    let before = lab.traffic();
    lab.run(nanos(options.idle));
    let idle = Spent::between(&before, &lab.traffic()).per(options.idle.as_secs_f64());

    lab.sends = true;
    lab.run(SECOND);
    let crashed_ns = lab.world.now_ns;
    let view = lab.view();
    lab.world.crash(n / 2);
    lab.wait("a ballot after a crash", |world, turned| coordinates(&world.slots[turned].activity))?;
    let (ballot_ns, before) = (lab.world.now_ns, lab.traffic());
    lab.installed(view.next())?;
    let installed_ns = lab.world.now_ns;
    lab.run(TAIL_NS);
    let change = Spent::between(&before, &lab.traffic());

    lab.sends = false;
    lab.run(3 * SECOND);
    let (start_ns, before) = (lab.world.now_ns, lab.traffic());
    lab.start(n);
    lab.installed(view.next().next())?;
    let joined_ns = lab.world.now_ns;
    lab.run(TAIL_NS);
    let join = Spent::between(&before, &lab.traffic());

    Ok(ScaleRow {
        members: n,
        form_ms,
        idle_coordinator: idle.of(0),
        idle_member: idle.mean(|_| true),
        detect_ms: ms(ballot_ns - crashed_ns),
        change_ms: ms(installed_ns - ballot_ns),
        change_coordinator: change.of(0),
        change_member: change.mean(|slot| slot != 0 && slot != n / 2),
        join_ms: ms(joined_ns - start_ns),
        join_coordinator: join.of(0),
        join_member: join.mean(|slot| slot != 0 && slot != n / 2 && slot != n),
        memory_bytes: resident_bytes().map(|bytes| bytes / n as u64),
        real_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// A world and its one sender.
struct Lab {
    world: World,
    sends: bool,
    next_send_ns: u64,
}

impl Lab {
    fn new(options: &ScaleOptions) -> Self {
        // One more place, for the process that joins at the end.
        let mut settings = WorldSettings::quiet(options.members + 1);
        settings.check_every = u32::MAX;
        if let Some(watchers) = options.watchers {
            settings.watchers = watchers;
        }
        Self { world: World::new(settings, options.seed), sends: false, next_send_ns: 0 }
    }

    fn start(&mut self, slot: usize) {
        self.world.start(slot);
        self.world.join_group(slot, GROUP, false).expect("a running process may ask for a group");
    }

    /// Forms the cell. It doubles with each batch, because no view admits more joiners than it had members.
    fn form(&mut self, members: usize) -> Result<(), String> {
        let (mut there, mut view) = (0, ViewNumber::NONE);
        while there < members {
            let batch = there.max(1).min(members - there);
            (there..there + batch).for_each(|slot| self.start(slot));
            there += batch;
            let begun_ns = self.world.now_ns;
            while self.smallest() < there {
                if self.world.now_ns > begun_ns + LIMIT_NS {
                    return Err(format!("{there} processes were in no common view within two minutes"));
                }
                self.run(20 * MS);
            }
            view = self.view().max(view);
        }
        Ok(())
    }

    /// The fewest members in any running process's view; 0 if a process has none, or is not in the group.
    fn smallest(&self) -> usize {
        let running = self.world.slots.iter().filter(|slot| slot.runs());
        let sizes = running.map(|slot| {
            let view = slot.node.as_ref().and_then(|node| node.process().cell_view());
            let group = slot.app.member_of(GROUP).map_or(0, |(_, group)| group.members.len());
            view.map_or(0, |view| view.members.len()).min(group)
        });
        sizes.min().unwrap_or(0)
    }

    /// The view of rank 0.
    fn view(&self) -> ViewNumber {
        self.view_of(0)
    }

    fn view_of(&self, slot: usize) -> ViewNumber {
        let node = self.world.slots[slot].node.as_ref();
        node.and_then(|node| node.process().cell_view()).map_or(ViewNumber::NONE, |view| view.view)
    }

    fn run(&mut self, for_ns: u64) {
        let until_ns = self.world.now_ns + for_ns;
        while self.step(until_ns) != Step::Done {}
    }

    /// Processes one event, or sends one message.
    fn step(&mut self, until_ns: u64) -> Step {
        if !self.sends {
            return self.world.step(until_ns);
        }
        if self.next_send_ns <= self.world.now_ns {
            self.next_send_ns = self.world.now_ns + GAP_NS;
            self.multicast();
        }
        match self.world.step(until_ns.min(self.next_send_ns)) {
            Step::Done if self.world.now_ns < until_ns => Step::Other,
            step => step,
        }
    }

    fn multicast(&mut self) {
        if let Some((group, _)) = self.world.slots[1].app.member_of(GROUP) {
            // Without credit the message is not sent. The measurement needs only a little traffic.
            let _ = self.world.multicast(1, group, Order::Total, Uniformity::Plain, &[0; MESSAGE_BYTES]);
        }
    }

    /// Runs until `condition` holds for a process after its iteration.
    fn wait(&mut self, what: &str, mut condition: impl FnMut(&World, usize) -> bool) -> Result<(), String> {
        let until_ns = self.world.now_ns + LIMIT_NS;
        loop {
            match self.step(until_ns) {
                Step::Turned(slot) if condition(&self.world, slot) => return Ok(()),
                Step::Done => return Err(format!("{what} did not come within two minutes")),
                _ => {}
            }
        }
    }

    /// Runs until every running process has installed `view`.
    fn installed(&mut self, view: ViewNumber) -> Result<(), String> {
        let has = |world: &World, slot: usize| {
            let node = world.slots[slot].node.as_ref();
            node.is_none_or(|node| node.process().cell_view().is_some_and(|v| v.view >= view))
        };
        let mut lacking: Vec<bool> = (0..self.world.slots.len()).map(|slot| !has(&self.world, slot)).collect();
        let mut left = lacking.iter().filter(|lacks| **lacks).count();
        if left == 0 {
            return Ok(());
        }
        self.wait(&format!("view {view} at all members"), |world, slot| {
            if lacking[slot] && has(world, slot) {
                lacking[slot] = false;
                left -= 1;
            }
            left == 0
        })
    }

    fn traffic(&self) -> Vec<Traffic> {
        self.world.slots.iter().map(|slot| slot.traffic).collect()
    }
}

/// Costs of each process in some time.
struct Spent(Vec<Cost>);

impl Spent {
    fn between(before: &[Traffic], after: &[Traffic]) -> Self {
        let cost = |(before, after): (&Traffic, &Traffic)| Cost {
            sent_packets: (after.sent_packets - before.sent_packets) as f64,
            sent_bytes: (after.sent_bytes - before.sent_bytes) as f64,
            received_packets: (after.received_packets - before.received_packets) as f64,
            received_bytes: (after.received_bytes - before.received_bytes) as f64,
        };
        Self(before.iter().zip(after).map(cost).collect())
    }

    fn per(self, parts: f64) -> Self {
        Self(self.0.into_iter().map(|cost| cost.over(parts)).collect())
    }

    fn of(&self, slot: usize) -> Cost {
        self.0[slot]
    }

    /// Mean over the processes for which `counts` holds. The last place is the joiner's and counts only if requested.
    fn mean(&self, counts: impl Fn(usize) -> bool) -> Cost {
        let last = self.0.len() - 1;
        let chosen: Vec<&Cost> =
            self.0.iter().enumerate().filter(|(slot, _)| *slot < last && counts(*slot)).map(|(_, cost)| cost).collect();
        let sum = |part: fn(&Cost) -> f64| chosen.iter().map(|cost| part(cost)).sum();
        let total = Cost {
            sent_packets: sum(|c| c.sent_packets),
            sent_bytes: sum(|c| c.sent_bytes),
            received_packets: sum(|c| c.received_packets),
            received_bytes: sum(|c| c.received_bytes),
        };
        total.over(chosen.len().max(1) as f64)
    }
}

impl Cost {
    fn over(self, parts: f64) -> Self {
        Self {
            sent_packets: self.sent_packets / parts,
            sent_bytes: self.sent_bytes / parts,
            received_packets: self.received_packets / parts,
            received_bytes: self.received_bytes / parts,
        }
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / MS as f64
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Resident memory of this process according to the kernel; `None` where it is unknown.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cell_is_measured_whole() {
        let options = ScaleOptions { members: 6, idle: Duration::from_secs(2), seed: 1, watchers: None };
        let row = measure(&options).expect("a cell of six forms, loses one and takes one in");
        // Ten heartbeats a second to each of five others, and as many from them; 2.5 short probes and 1.25 long ones,
        // and answers.
        assert!((80.0..95.0).contains(&row.idle_member.sent_packets), "{row:?}");
        assert!((80.0..95.0).contains(&row.idle_coordinator.received_packets), "{row:?}");
        assert!((800.0..3_000.0).contains(&row.detect_ms), "{row:?}");
        assert!(row.change_ms > 0.0 && row.change_ms < 500.0, "{row:?}");
        assert!(row.change_coordinator.sent_packets >= 12.0, "a wedge, a proposal and a decision for each: {row:?}");
        assert!(row.join_ms > 0.0, "{row:?}");
    }

    #[test]
    fn a_member_of_a_large_cell_beats_no_more_than_of_a_small_one() {
        let cost = |members| {
            let options = ScaleOptions { members, idle: Duration::from_secs(16), seed: 1, watchers: Some(4) };
            measure(&options).expect("the cell forms, loses one and takes one in")
        };
        let (small, large) = (cost(12), cost(24));
        for row in [small, large] {
            // Ten heartbeats a second to each of four neighbours; 2.5 short probes and 1.25 long ones, and answers.
            assert!((64.0..76.0).contains(&row.idle_member.sent_packets), "{row:?}");
            assert!((64.0..76.0).contains(&row.idle_coordinator.received_packets), "{row:?}");
            assert!((800.0..3_000.0).contains(&row.detect_ms), "{row:?}");
        }
        assert!((large.idle_member.sent_bytes / small.idle_member.sent_bytes - 1.0).abs() < 0.02);
        let twice = large.change_coordinator.sent_packets / small.change_coordinator.sent_packets;
        assert!(twice < 2.6, "twice the members cost the coordinator {twice} times the packets");
    }

    #[test]
    fn a_cell_too_small_is_refused() {
        let options = ScaleOptions { members: 3, idle: Duration::from_secs(1), seed: 1, watchers: None };
        assert!(measure(&options).is_err());
    }
}
