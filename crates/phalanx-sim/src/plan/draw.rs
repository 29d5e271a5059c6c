//! Draws the plan of a seed. Each class of faults adds its own.

use phalanx_core::Limits;
use phalanx_core::rng::Rng;

use super::{Plan, SETTLE_NS, Workload};
use crate::bursts::{add_bursts, draw_tally};
use crate::classes::{class_of, draw_class};
use crate::clock::{MS, SECOND};
use crate::draw::index;
use crate::fault::{Aim, Fault, Kind, Reach, Role};
use crate::founding::add_founding;
use crate::holders::{add_holders, sharpen_holders};
use crate::inboxes::add_inboxes;
use crate::laggards::{add_laggards, draw_expel_after};
use crate::leaving::add_leaving;
use crate::lost_view::add_lost_views;
use crate::memory::MemorySettings;
use crate::minima::draw_minima;
use crate::nonsense::add_nonsense;
use crate::stranded::add_stranded;
use crate::swarm::{add_rivals, draw_memory_faults, draw_swarm};
use crate::tenths::add_tenths;
use crate::threads::add_thread_ends;
use crate::unequal::{break_rules, draw_builds, draw_unequal};
use crate::weather::Weather;

impl Plan {
    /// The plan of `seed` for `members` processes; 0: three to sixteen, as the seed decides. Two seeds of five draw
    /// a class.
    #[must_use]
    pub fn draw(seed: u64, members: usize) -> Self {
        let plain = Self::draw_plain(seed, members);
        match class_of(seed, &plain) {
            Some(class) => draw_class(seed, members, class),
            None => plain,
        }
    }

    /// The plan of `seed` without a class.
    #[must_use]
    pub fn draw_plain(seed: u64, members: usize) -> Self {
        let mut plan = Self::draw_single_inbox(seed, members);
        add_inboxes(&mut Rng::new(seed).fork("inboxes"), &mut plan);
        add_thread_ends(&mut Rng::new(seed).fork("threads"), &mut plan);
        add_tenths(&mut Rng::new(seed).fork("tenths"), &mut plan);
        plan
    }

    /// The plan of `seed` in which all groups of a process have its own inbox.
    pub(crate) fn draw_single_inbox(seed: u64, members: usize) -> Self {
        let root = Rng::new(seed);
        let mut rng = root.fork("plan");
        let members = if members == 0 { draw_members(&mut root.fork("members")) } else { members };
        let mild = rng.chance_ppm(50_000);
        let lethal = !mild && rng.chance_ppm(20_000);
        let heal_ns = (14 + rng.below(5)) * SECOND;
        let mut plan = Self {
            members,
            hosts: draw_hosts(&mut rng, members),
            founders: draw_founders(&mut rng, members),
            death_notice: rng.chance_ppm(500_000),
            memory: None,
            sealed: true,
            weather: draw_weather(&mut rng),
            buffer_bytes: 212_992 << rng.below(5),
            tells_buffers: root.fork("buffers").chance_ppm(700_000),
            egress: draw_egress(&mut root.fork("egress")),
            packet_bytes: [1472, 1472, 1472, 8972][index(&mut rng, 4)],
            window_bytes: [8 << 20, 8 << 20, 1 << 20, 256 << 10, 64 << 10, 16 << 10][index(&mut rng, 6)],
            turn_ns: 2_000 + rng.below(30_000),
            workload: draw_workload(&mut rng),
            lethal,
            mild,
            // A little more than half, because in some cells no process is expendable at that time.
            ruin: !mild && !lethal && rng.chance_ppm(620_000),
            partial: None,
            herd: rng.chance_ppm(250_000),
            watchers: draw_watchers(&mut root.fork("watchers"), members),
            expel_after: draw_expel_after(&mut root.fork("expel after")),
            unequal: Vec::new(),
            builds: draw_builds(&mut root.fork("builds")),
            minima: draw_minima(&mut root.fork("minima"), members),
            inboxes: None,
            late: Vec::new(),
            turn_gaps: Vec::new(),
            far: None,
            stateless: Vec::new(),
            crowd: None,
            churn: None,
            death_delay_ns: None,
            minority: Vec::new(),
            state: None,
            pieces: None,
            twin: None,
            class: None,
            rare: None,
            token_tally: draw_tally(&mut root.fork("tally")),
            bursts: None,
            heal_ns,
            faults: Vec::new(),
        };
        plan.quicken();
        if !mild {
            plan.unequal = draw_unequal(&mut root.fork("unequal"), members);
        }
        plan.faults =
            if mild { draw_mild(&mut root.fork("mild"), heal_ns) } else { draw_swarm(&mut root.fork("faults"), &plan) };
        // Each class draws from a generator of its own, so that a new class leaves all other draws of a seed unchanged.
        add_laggards(&mut root.fork("laggards"), &mut plan);
        add_leaving(&mut root.fork("leaving"), &mut plan);
        add_stranded(&mut root.fork("stranded"), &mut plan);
        add_holders(&mut root.fork("holders"), &mut plan);
        sharpen_holders(&mut root.fork("sharper holders"), &mut plan);
        add_rivals(&mut root.fork("rivals"), &mut plan);
        add_nonsense(&mut root.fork("nonsense"), &mut plan);
        add_bursts(&mut root.fork("bursts"), &mut plan);
        add_lost_views(&mut root.fork("lost views"), &mut plan);
        plan.draw_memory(&mut root.fork("memory"));
        add_founding(&mut root.fork("founding"), &mut plan);
        break_rules(&mut root.fork("agreed"), &mut plan.unequal, plan.window_bytes, plan.founders);
        plan
    }

    /// Adapts interfaces to large cells, because each receiver gets its own copy of a multicast. In a large cell no
    /// interface is so slow that a state, or the longest message, for all others takes it more than a third of the
    /// bound for transfers, joins and multicasts.
    fn quicken(&mut self) {
        if self.members > SLOW_MEMBERS_MAX {
            let bytes = self.workload.state_bytes.max(self.workload.long_bytes);
            let least = (bytes * (self.members as u64 - 1)).div_ceil(SETTLE_NS / 3 / MS);
            self.egress = self.egress.map(|rate| rate.max(least));
        }
    }

    /// Draws shared memory. Processes that share machines mostly share memory, and some share machines only for that.
    /// It uses a generator of its own, so that a seed without shared memory is unchanged.
    fn draw_memory(&mut self, rng: &mut Rng) {
        let together = self.hosts.iter().enumerate().any(|(slot, host)| self.hosts[..slot].contains(host));
        if !rng.chance_ppm(if together { 700_000 } else { 200_000 }) {
            return;
        }
        if !together {
            let machines = 1 + index(rng, self.members.div_ceil(2));
            self.hosts = (0..self.members).map(|_| 1 + rng.below(machines as u64)).collect();
        }
        self.sealed = rng.chance_ppm(700_000);
        let windows = (2 * self.window_bytes).next_power_of_two();
        self.memory = Some(MemorySettings {
            ring_bytes: windows.max([256 << 10, 1 << 20][index(rng, 2)]),
            latency_ns: [1_000, 5_000, 40_000][index(rng, 3)],
            late_ppm: [0, 200_000, 800_000][index(rng, 3)],
            stale_ppm: [0, 500_000, 1_000_000][index(rng, 3)],
            bridges: rng.chance_ppm(400_000),
        });
        if !self.mild {
            draw_memory_faults(rng, self);
        }
    }

    /// A plan of mild weather for `seconds`, with a pause every five seconds and a message of each process every ten:
    /// conditions in which no member may be excluded, hour after hour.
    #[must_use]
    pub fn draw_mild(seed: u64, members: usize, seconds: u64) -> Self {
        let heal_ns = seconds.max(MILD_FROM_S + 5) * SECOND;
        let faults = draw_mild(&mut Rng::new(seed).fork("mild"), heal_ns);
        let drawn = Self::draw_single_inbox(seed, members);
        let workload =
            Workload { gap_ns: 10 * SECOND, long_ppm: 0, long_bytes: 0, reply_ppm: 0, regroup_ns: 0, ..drawn.workload };
        let (late, unequal) = (Vec::new(), Vec::new());
        Self { mild: true, lethal: false, ruin: false, bursts: None, heal_ns, faults, workload, late, unequal, ..drawn }
    }
}

/// Begin of the mild weather. The founding is not part of the promise, so the cell forms before.
const MILD_FROM_S: u64 = 3;

/// Cells of each size in a thousand. Small cells cost least and are the most common in practice. A campaign of 100,000
/// seeds has at least 2,000 with 12 members and 2,000 with 16, the largest in which all watch each other.
const SIZES: [(usize, u64); 14] = [
    (3, 498),
    (4, 170),
    (5, 120),
    (6, 45),
    (7, 45),
    (8, 25),
    (9, 20),
    (10, 10),
    (11, 10),
    (12, 22),
    (13, 4),
    (14, 4),
    (15, 4),
    (16, 23),
];

/// Number of members up to which interfaces may be as slow as drawn.
const SLOW_MEMBERS_MAX: usize = 8;

fn draw_members(rng: &mut Rng) -> usize {
    let mut drawn = rng.below(SIZES.iter().map(|(_, weight)| weight).sum());
    let within = |(_, weight): &&(usize, u64)| match drawn.checked_sub(*weight) {
        Some(rest) => {
            drawn = rest;
            false
        }
        None => true,
    };
    SIZES.iter().find(within).map_or(SIZES[0].0, |(members, _)| *members)
}

fn draw_hosts(rng: &mut Rng, members: usize) -> Vec<u64> {
    // One machine each; two or three machines; all on one.
    let machines = match rng.below(10) {
        0..=6 => members,
        7 | 8 => 2 + index(rng, 2),
        _ => 1,
    };
    (0..members).map(|slot| 1 + (slot % machines) as u64).collect()
}

fn draw_founders(rng: &mut Rng, members: usize) -> usize {
    match rng.below(10) {
        0..=5 => 0,
        6..=8 => members,
        _ => 1 + index(rng, members),
    }
}

/// Draws the watchers. Some of the larger cells use the watch graph of cells of hundreds, in which a few watch each
/// process.
fn draw_watchers(rng: &mut Rng, members: usize) -> usize {
    if members >= 7 && rng.chance_ppm(250_000) { 2 + index(rng, 3) } else { Limits::default().watchers }
}

fn draw_weather(rng: &mut Rng) -> Weather {
    let base_ns = [60_000, 60_000, 500_000, 2 * MS, 8 * MS][index(rng, 5)];
    Weather {
        base_ns,
        jitter_ns: base_ns / 2 + rng.below(base_ns),
        in_order: rng.chance_ppm(700_000),
        loss_ppm: [0, 0, 0, 1_000][index(rng, 4)],
        ..Weather::FINE
    }
}

fn draw_workload(rng: &mut Rng) -> Workload {
    let mut orders = [0; 3];
    for weight in &mut orders {
        *weight = u32::try_from(rng.below(4)).unwrap_or(0);
    }
    if orders == [0; 3] {
        orders = [1, 1, 1];
    }
    // One seed in three has no long messages, most have some, and a few have very long ones.
    let (long_ppm, long_bytes) = [(0, 0), (5_000, 20_000), (10_000, 60_000), (4_000, 200_000)][index(rng, 4)];
    Workload {
        gap_ns: [100 * MS, 100 * MS, 100 * MS, 50 * MS][index(rng, 4)],
        orders,
        uniform_ppm: [0, 200_000, 500_000, 1_000_000][index(rng, 4)],
        long_ppm,
        long_bytes,
        reply_ppm: [0, 10_000, 50_000][index(rng, 3)],
        second_group_ppm: [0, 500_000, 1_000_000][index(rng, 3)],
        state_bytes: [0, 2_000, 30_000, 300_000][index(rng, 4)],
        regroup_ns: [0, 0, 8 * SECOND, 3 * SECOND][index(rng, 4)],
        operations_ppm: [0, 200_000, 300_000, 400_000][index(&mut rng.fork("operations"), 4)],
        to_one_ppm: [0, 0, 100_000, 400_000][index(&mut rng.fork("to one"), 4)],
        ask_ppm: [0, 0, 100_000, 300_000][index(&mut rng.fork("asks"), 4)],
        submit_ppm: [0, 100_000, 200_000, 400_000][index(&mut rng.fork("submits"), 4)],
        has_domains: rng.fork("domains").chance_ppm(500_000),
    }
}

/// Draws the mild faults: 5 % of loss, 50 ms of jitter, pauses of 200 ms. No member may be excluded.
fn draw_mild(rng: &mut Rng, heal_ns: u64) -> Vec<Fault> {
    let from_ns = MILD_FROM_S * SECOND;
    let lasts_ns = heal_ns;
    let weather = Weather { base_ns: MS, jitter_ns: 50 * MS, in_order: false, loss_ppm: 50_000, ..Weather::FINE };
    let kind = Kind::Storm { what: "mild", reach: Reach::Everywhere, weather };
    let mut faults = vec![Fault { aim: Aim::At(from_ns), kind, lasts_ns }];
    for _ in 0..heal_ns / (5 * SECOND) + rng.below(4) {
        faults.push(Fault {
            aim: Aim::At(from_ns + rng.below(heal_ns - from_ns - SECOND)),
            kind: Kind::Pause(Role::Slot(index(rng, 64))),
            lasts_ns: 50 * MS + rng.below(150 * MS),
        });
    }
    faults
}

/// Draws the interface. In most seeds it is unbounded. Otherwise it is so slow that a long message or a state fills it,
/// and heartbeats and acks do not.
fn draw_egress(rng: &mut Rng) -> Option<u64> {
    rng.chance_ppm(200_000).then(|| 300 + rng.below(3_000))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_draws_the_same_plan_and_another_seed_another() {
        assert_eq!(Plan::draw_plain(7, 5), Plan::draw_plain(7, 5));
        assert_ne!(Plan::draw_plain(7, 5).faults, Plan::draw_plain(8, 5).faults);
        assert_eq!(Plan::draw_plain(7, 5).members, 5);
    }

    #[test]
    fn every_swarm_has_three_faults_and_an_aimed_one() {
        for seed in 0..500 {
            let plan = Plan::draw_plain(seed, 0);
            assert!((3..=16).contains(&plan.members));
            assert!(plan.heal_ns >= 14 * SECOND);
            if plan.mild {
                continue;
            }
            assert!(plan.faults.len() >= 3);
            let aimed = |fault: &&Fault| matches!(fault.aim, Aim::Inside { .. });
            assert!(plan.faults.iter().any(|fault| aimed(&fault)));
        }
    }

    #[test]
    fn most_cells_are_small_and_some_as_large_as_they_get() {
        let sizes: Vec<usize> = (0..20_000).map(|seed| Plan::draw_plain(seed, 0).members).collect();
        let count = |wanted: std::ops::RangeInclusive<usize>| sizes.iter().filter(|size| wanted.contains(size)).count();
        assert!(count(3..=5) >= 14_000, "{}", count(3..=5));
        for size in [12, 16] {
            assert!(count(size..=size) >= 360, "{size}: {}", count(size..=size));
        }
        assert_eq!(count(3..=16), 20_000);
        assert!((3..=16).all(|size| count(size..=size) > 0));
    }

    #[test]
    fn interfaces_of_large_cells_get_what_goes_to_all_out_in_time() {
        let mut slow = 0;
        for plan in (0..20_000).map(|seed| Plan::draw_plain(seed, 0)).filter(|plan| plan.members > SLOW_MEMBERS_MAX) {
            let bytes = plan.workload.state_bytes.max(plan.workload.long_bytes) * (plan.members as u64 - 1);
            let Some(rate) = plan.egress else { continue };
            slow += 1;
            assert!(bytes <= rate * SETTLE_NS / 3 / MS, "{} members, {bytes} bytes, {rate}", plan.members);
        }
        assert!(slow > 200, "{slow}");
    }

    #[test]
    fn more_than_half_of_the_plans_end_with_somebody_broken_for_good() {
        let ruined = (0..2000).filter(|seed| Plan::draw_plain(*seed, 5).ruin).count();
        assert!((1050..1350).contains(&ruined), "{ruined}");
    }

    #[test]
    fn a_quarter_of_the_plans_share_memory_and_some_of_those_are_not_sealed() {
        let plans: Vec<Plan> =
            (0..2000).map(|seed| Plan::draw_plain(seed, 5)).filter(|plan| plan.memory.is_some()).collect();
        assert!((550..800).contains(&plans.len()), "{}", plans.len());
        let unsealed = plans.iter().filter(|plan| !plan.sealed).count();
        assert!((plans.len() / 5..plans.len() * 2 / 5).contains(&unsealed), "{unsealed}");
    }

    #[test]
    fn every_kind_is_drawn() {
        let names: BTreeSet<&str> =
            (0..2000).flat_map(|seed| Plan::draw_plain(seed, 5).faults).map(|fault| fault.kind.name()).collect();
        let known = [
            "loss",
            "burst",
            "duplicate",
            "jitter",
            "spikes",
            "corrupt",
            "narrow",
            "cut_one_way",
            "cut_pair",
            "isolate",
            "deaf",
            "desert",
            "mute",
            "partition",
            "ring",
            "blackout",
            "flap",
            "rivals",
            "mtu_hole",
            "small_buffer",
            "crash",
            "crash_sending",
            "pause",
            "slow",
            "slow_reader",
            "unread_inbox",
            "leave",
            "clock_jump",
            "drift",
            "by_kind",
            "lapped",
            "late_memory",
            "detach",
            "holders",
            "lost_view",
            "nonsense",
            "panic",
            "regroup",
            "strand",
            "strand_stopped",
            "found_again",
            "follow",
            "emptied",
            "end_thread",
            "perish",
            "behead",
            "disband",
            "replay",
            "noise",
            "forge",
            "mild",
        ];
        assert_eq!(names, known.into_iter().collect());
    }
}
