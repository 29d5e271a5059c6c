//! What a campaign must have reached, not only avoided: counts of the moments that break group communication, each
//! with the least that so many seeds must show. A change of the generator, or of the protocol, that makes one of them
//! rare is seen at once.

use crate::campaign::Draw;
use crate::result::{Counters, Summary};

/// One moment, and how often a campaign met it.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// What was counted.
    pub name: &'static str,
    /// How often.
    pub count: u64,
    /// The least for as many seeds; 0: nothing is asked.
    pub floor: u64,
}

impl Coverage {
    /// Whether it happened often enough.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.count >= self.floor
    }
}

/// Below this many seeds chance alone decides, and no floor is asked for.
const SEEDS_MIN: u64 = 200;

/// What is counted, and the least in a thousand seeds of five members. The floors are about a third of what was seen.
type Moment = (&'static str, fn(&Counters) -> u64, u64);

const MOMENTS: &[Moment] = &[
    ("cell views decided", |c| c.cell_views, 2_500),
    ("group views that lost a member", |c| c.lossy_changes, 1_500),
    ("flushes with unstable messages outstanding", |c| core(c, "flushes_with_traffic"), 1_500),
    ("cuts that a member had to fill", |c| core(c, "fills"), 100),
    ("packets fetched for a cut", |c| core(c, "fetched"), 500),
    ("messages discarded at the end of a view", |c| core(c, "discarded"), 0),
    ("ballots", |c| core(c, "ballots"), 5_000),
    ("ballots given up for a later one", |c| core(c, "superseded"), 20),
    ("proposals adopted from an earlier ballot", |c| core(c, "adopted"), 20),
    ("take-overs while reports were gathered", |c| step(c, "gathering"), 100),
    ("take-overs while a cut was filled", |c| step(c, "filling"), 5),
    ("take-overs while a proposal was out", |c| step(c, "proposing"), 20),
    ("take-overs when only the dead knew the decision", |c| step(c, "decided"), 5),
    ("times a process heard no quorum", |c| c.non_primary, 500),
    ("exclusions told", |c| c.exclusions, 300),
    ("members found too slow", |c| core(c, "slow_accused"), 50),
    ("views without a member that was too slow", |c| core(c, "slow_expelled"), 50),
    ("state transfers", |c| c.transfers, 2_000),
    ("packets sent again", |c| core(c, "repairs"), 10_000),
    ("multicasts refused for want of credit", |c| c.refused, 50),
    ("accepted multicasts that waited over a view change", |c| core(c, "carried_over"), 0),
    ("long messages that waited over a view change", |c| core(c, "carried_over_long"), 0),
    ("long messages cut off by a view change", |c| core(c, "carried_over_cut"), 0),
    ("forged or replayed packets", |c| c.attacks, 100_000),
    ("packets through shared memory", |c| c.shared, 1_000_000),
    ("runs of packets lost in shared memory", |c| memory(c, "lapped"), 500),
    ("packets read of the dead", |c| memory(c, "of_the_dead"), 100),
    ("packets for others read, an earlier life among them", |c| memory(c, "for_others"), 5_000),
    ("neighbours attached", |c| memory(c, "attached"), 2_000),
    ("members with settings of their own", |c| moment(c, "members with settings of their own"), 230),
    ("leaves while a member was silent", |c| moment(c, "leaves while a member was silent"), 80),
    ("leaves while a state was given", |c| moment(c, "leaves while a state was given"), 80),
    ("uniform messages whose only holders died", |c| holders(c, "own"), 220),
    ("the same, of others' messages before them", |c| holders(c, "past"), 110),
    ("the same, of their sender's messages before them", |c| holders(c, "own past"), 100),
    ("uniform abcasts whose order died with its holders", |c| holders(c, "orders"), 290),
    ("the same, while another of the few sends most abcasts", |c| holders(c, "earlier orders"), 120),
    ("seeds with a minority broken for good", |c| c.ruined, 450),
];

/// The same for the plans beyond what the core stands, in a thousand of those.
const FRONTIER: &[Moment] = &[
    ("groups cut off or stopped as a whole", |c| moment(c, "groups cut off or stopped as a whole"), 60),
    (
        "groups founded while their members were cut off",
        |c| moment(c, "groups founded while their members were cut off"),
        55,
    ),
    ("leaves of a process that gave a state", |c| moment(c, "leaves of a process that gave a state"), 55),
    ("leaves while a member was silent", |c| moment(c, "leaves while a member was silent"), 170),
    ("founders with a twin", |c| moment(c, "founders with a twin"), 70),
    ("members with settings that must be equal", |c| moment(c, "members with settings that must be equal"), 150),
    ("members late for the whole run", |c| moment(c, "members late for the whole run"), 240),
    ("cells late as a whole", |c| moment(c, "cells late as a whole"), 35),
];

/// At least this share of all faults strikes inside a flush, a join or a transfer.
const INSIDE_PERCENT: u64 = 25;

/// What `summary` covered. `members` are those asked for: floors hold for cells of five and more (0: three to sixteen).
#[must_use]
pub fn coverage(summary: &Summary, members: usize, draw: Draw) -> Vec<Coverage> {
    let totals = &summary.totals;
    let has_floors = matches!(draw, Draw::Swarm | Draw::Frontier);
    let asked = has_floors && summary.seeds >= SEEDS_MIN && (members == 0 || members >= 5);
    let floor = |in_a_thousand: u64| if asked { in_a_thousand * summary.seeds / 1000 } else { 0 };
    let moments = if draw == Draw::Frontier { FRONTIER } else { MOMENTS }.iter();
    let mut lines: Vec<Coverage> =
        moments.map(|(name, count, least)| Coverage { name, count: count(totals), floor: floor(*least) }).collect();
    lines.push(Coverage {
        name: "faults inside a flush, a join or a transfer",
        count: totals.faults_inside,
        floor: if asked { totals.faults_total() * INSIDE_PERCENT / 100 } else { 0 },
    });
    lines
}

fn moment(counters: &Counters, name: &str) -> u64 {
    counters.moments.get(name).copied().unwrap_or(0)
}

fn core(counters: &Counters, name: &str) -> u64 {
    counters.core.get(name).copied().unwrap_or(0)
}

fn holders(counters: &Counters, name: &str) -> u64 {
    counters.holders.get(name).copied().unwrap_or(0)
}

fn memory(counters: &Counters, name: &str) -> u64 {
    counters.memory.get(name).copied().unwrap_or(0)
}

fn step(counters: &Counters, name: &str) -> u64 {
    counters.take_overs_at.get(name).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_grow_with_the_seeds_and_are_missed_by_a_campaign_that_met_nothing() {
        let mut summary = Summary { seeds: 400, ..Summary::default() };
        let missed =
            |summary: &Summary| coverage(summary, 5, Draw::Swarm).iter().filter(|line| !line.is_reached()).count();
        let asked = MOMENTS.iter().filter(|(.., floor)| *floor > 0).count();
        // Without any fault a quarter of them is nothing.
        assert_eq!(missed(&summary), asked);
        summary.totals.cell_views = 1_000;
        assert_eq!(missed(&summary), asked - 1);
        summary.totals.faults.insert("crash".into(), 100);
        assert_eq!(missed(&summary), asked);
        summary.totals.faults_inside = 25;
        assert_eq!(missed(&summary), asked - 1);
        summary.seeds = SEEDS_MIN - 1;
        assert_eq!(missed(&summary), 0, "too few seeds to tell");
        summary.seeds = 400;
        assert_eq!(coverage(&summary, 5, Draw::Mild(60)).iter().map(|line| line.floor).max(), Some(0), "mild weather");
    }
}
