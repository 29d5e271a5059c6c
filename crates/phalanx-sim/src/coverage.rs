//! Coverage that a campaign must reach: counts of the moments that break group communication, each with a floor. If a
//! change of the generator, or of the protocol, makes one of them rare, that shows at once.

use std::fmt::Write;

use crate::classes::ORDINARY;
use crate::options::Draw;
use crate::result::{Counters, Summary};

/// A moment, and how often a campaign met it.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// Name of the moment.
    pub name: &'static str,
    /// Number of times it was met.
    pub count: u64,
    /// The least for this many seeds; 0: no floor.
    pub floor: u64,
}

impl Coverage {
    /// Whether it was met often enough.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.count >= self.floor
    }
}

/// Number of seeds below which no floor applies, because chance alone would decide. In a campaign of one class it is half
/// of that: what a class is about comes in most of its seeds.
const SEEDS_MIN: u64 = 200;
/// Floors below this do not apply either, because chance would decide.
const FLOOR_MIN: u64 = 5;
/// Number of seeds to which the listed floors refer.
pub const FLOOR_SEEDS: u64 = 10_000;

/// A moment, its count, and its floor in [`FLOOR_SEEDS`] seeds: a third of the usual count, and at least 10. The usual
/// counts are in `docs/simulator.md`; a test compares the floors.
type Moment = (&'static str, fn(&Counters) -> u64, u64);

/// A moment that runs count under its name.
macro_rules! counted {
    ($name:literal, $floor:literal) => {
        ($name, |c| moment(c, $name), $floor)
    };
}

const MOMENTS: &[Moment] = &[
    ("cell views decided", |c| c.cell_views, 27_000),
    ("group views that lost a member", |c| c.lossy_changes, 9_000),
    ("flushes with unstable messages outstanding", |c| core(c, "flushes_with_traffic"), 67_000),
    ("wedges that met the last sender falling idle", |c| core(c, "wedged_idle"), 14_000),
    ("cuts that a member had to fill", |c| core(c, "cut_recoveries"), 12_000),
    ("packets fetched for a cut", |c| core(c, "fetched"), 8_800),
    ("messages discarded at the end of a view", |c| core(c, "discarded"), 1_700),
    ("ballots", |c| core(c, "ballots"), 100_000),
    ("ballots given up for a later one", |c| core(c, "superseded"), 3_900),
    ("proposals adopted from an earlier ballot", |c| core(c, "adopted"), 780),
    ("ballots that met two different accepted proposals", |c| core(c, "rival_proposals"), 85),
    ("proposals that came after the promise to a later ballot", |c| core(c, "late_proposals"), 1_000),
    ("acceptances of a ballot that was given up", |c| core(c, "late_acceptances"), 430),
    ("wishes about groups that came after their decree", |c| core(c, "requests_late"), 7_200),
    ("wishes about groups that a decree overtook", |c| core(c, "requests_overtaken"), 95_000),
    ("take-overs while reports were gathered", |c| step(c, "gathering"), 5_000),
    ("take-overs while a cut was filled", |c| step(c, "filling"), 130),
    ("take-overs while a proposal was out", |c| step(c, "proposing"), 470),
    ("take-overs when only the dead knew the decision", |c| step(c, "decided"), 800),
    ("times a process heard no quorum", |c| c.non_primary, 4_100),
    ("exclusions told", |c| c.exclusions, 2_500),
    ("multicasts told not to be sent", |c| c.unsent, 55_000),
    ("multicasts told to be stable", |c| c.stable, 10_000_000),
    ("multicasts in doubt when their sender's life was over", |c| c.doubted, 80_000),
    ("messages to one told to be in doubt", |c| c.in_doubt, 3_000),
    counted!("messages to one member of a group", 820_000),
    counted!("answers to one", 590_000),
    counted!("messages to one that had to wait", 110_000),
    counted!("messages to one that was gone", 2_000),
    counted!("messages to one below their level", 220_000),
    counted!("messages to one told not to be delivered", 290),
    counted!("messages to one of a group told to be in doubt", 11_000),
    ("messages to one that waited for their past", |c| core(c, "to_one_waited"), 690_000),
    ("messages to one that came before their view", |c| core(c, "to_one_early"), 910),
    ("messages to one delivered at the end of a view", |c| core(c, "to_one_at_end"), 22_000),
    ("messages to one dropped", |c| core(c, "to_one_dropped"), 600),
    ("messages to one that came too late", |c| core(c, "to_one_late"), 660),
    counted!("asks of all", 100_000),
    counted!("asks of a majority", 52_000),
    counted!("asks of some", 100_000),
    counted!("asks that end by a test", 52_000),
    counted!("asks sent at once", 140_000),
    counted!("asks that had to wait", 5_800),
    counted!("asks for another view", 650),
    counted!("asks below their level", 38_000),
    counted!("asks refused", 31_000),
    counted!("asks met", 140_000),
    counted!("asks complete and not met", 27_000),
    counted!("asks aborted", 9_800),
    counted!("asks ended by their deadline", 38_000),
    counted!("asks given up", 14_000),
    counted!("asks ended behind a full inbox", 1_100),
    counted!("asks over with their life", 2_800),
    counted!("asks that came forwarded", 70_000),
    counted!("asks that are never answered", 28_000),
    counted!("asks that their asker gave up before an answer", 20_000),
    counted!("values that counted", 340_000),
    counted!("nulls that counted", 61_000),
    counted!("aborts that counted", 9_900),
    counted!("places of members that left", 6_900),
    counted!("answers that came later", 77_000),
    counted!("answers refused where given", 37_000),
    counted!("words of asks that came too late", 250_000),
    counted!("messages to a domain delivered", 1_000_000),
    counted!("messages to a domain replayed", 20_000),
    counted!("lists of domains that grew at a member", 600),
    counted!("lists of domains that grew inside of a transfer", 10),
    counted!("processes refused because they lack a domain", 1_000),
    counted!("processes refused because they need a domain", 60),
    counted!("submits", 770_000),
    counted!("results of submits", 470_000),
    counted!("results of submits told in a later life", 700),
    counted!("answers found in a table, at a member", 100),
    counted!("submits executed once or never", 1_400),
    counted!("submits whose result is too long", 27_000),
    counted!("submits abandoned", 5_500),
    counted!("submits not executed: refused", 220_000),
    counted!("submits not executed: the membership is over", 14_000),
    counted!("submits not executed: the table is full of answers", 43_000),
    counted!("submits not executed: the table is full of clients", 62_000),
    counted!("groups in which all submits of a member were due an outcome", 4_100),
    counted!("submits under a name", 110_000),
    counted!("submits of an earlier membership, under a name", 2_600),
    counted!("results of an earlier membership, under a name", 460),
    counted!("submits not executed: the name is not known any more", 1_500),
    counted!("submits of clients that are not open, at a member", 1_500),
    counted!("clients closed", 10_000),
    counted!("clients dropped while away, at a member", 5_000),
    ("members found too slow", |c| core(c, "slow_reported"), 230),
    ("views without a member that was too slow", |c| core(c, "slow_expelled"), 520),
    ("state transfers", |c| c.transfers, 42_000),
    counted!("views inside of state transfers", 3_300),
    ("packets sent again", |c| core(c, "retransmissions"), 3_100_000),
    ("multicasts refused for want of credit", |c| c.refused, 1_200_000),
    ("token passes", |c| c.passes, 29_000),
    ("token passes while a fault was in force", |c| c.passes_in_faults, 6_300),
    ("token passes while somebody was in a flush", |c| c.passes_in_flush, 620),
    ("passes put off: the one before was not stable", |c| core(c, "token_kept"), 8_600),
    ("times two tenures were open at a member", |c| core(c, "token_overtaken"), 2_900),
    ("forged or replayed packets", |c| c.attacks, 810_000),
    ("packets through shared memory", |c| c.shared, 10_000_000),
    ("runs of packets lost in shared memory", |c| memory(c, "lapped"), 2_100),
    ("packets read of the dead", |c| memory(c, "of_the_dead"), 1_000),
    ("packets for others read, an earlier life among them", |c| memory(c, "for_others"), 9_700_000),
    ("neighbours attached", |c| memory(c, "attached"), 17_000),
    ("accepted multicasts that waited over a view change", |c| core(c, "carried_over"), 590_000),
    ("long messages that waited over a view change", |c| core(c, "carried_over_long"), 890),
    ("long messages cut off by a view change", |c| core(c, "carried_over_cut"), 500),
    counted!("members with settings of their own", 1_800),
    counted!("seeds between two builds", 1_000),
    counted!("seeds between the last two builds", 500),
    ("views of a higher level", |c| core(c, "levels_risen"), 170),
    ("joins refused for a level or a setting", |c| core(c, "joins_differing"), 14_000),
    ("times agreed settings took the place of others", |c| core(c, "settings_adopted"), 3_000),
    counted!("seeds with minima of members", 880),
    counted!("seeds with inboxes of groups", 340),
    counted!("inboxes not read for a while that held items", 510),
    counted!("the same, while another inbox was given something", 500),
    counted!("the same, when the incarnation was over", 75),
    counted!("multicasts told to be stable while their inbox held items", 5_900),
    counted!("multicasts that named a view and were sent in it", 950_000),
    counted!("multicasts that named a view that was over or ending", 59_000),
    counted!("multicasts that named a view and could not be sent then", 250_000),
    counted!("multicasts that named a view and that no packet holds", 1_800),
    counted!("multicasts whose outcome was told: not sent", 74_000),
    counted!("multicasts whose outcome was told: in doubt", 100_000),
    counted!("iterations after which an outcome was withheld", 1_300_000),
    counted!("memberships that ended with a leave", 28_000),
    counted!("memberships that ended because the group stopped", 73),
    counted!("memberships that ended with their process", 5_000),
    counted!("items looked at between the steps of a publication", 47_000_000),
    counted!("messages that were queued", 4_100_000),
    counted!("receipts for messages", 4_100_000),
    counted!("threads that ended while the core was ahead of what was told", 81),
    counted!("panics of an application on the thread of its process", 110),
    counted!("states whose donors were gone before they were complete", 900),
    counted!("states that their application refused", 1_500),
    counted!("seeds with a user's state of several domains", 270),
    counted!("seeds with a user's state in many pieces", 260),
    counted!("seeds with a user's state that is refused now and then", 270),
    counted!("seeds with a user's state in slow pieces", 270),
    counted!("donors that died with 0 tenths of their state taken", 62),
    counted!("donors that died with 1 tenth of their state taken", 73),
    counted!("donors that died with 2 tenths of their state taken", 73),
    counted!("donors that died with 3 tenths of their state taken", 66),
    counted!("donors that died with 4 tenths of their state taken", 64),
    counted!("donors that died with 5 tenths of their state taken", 62),
    counted!("donors that died with 6 tenths of their state taken", 57),
    counted!("donors that died with 7 tenths of their state taken", 58),
    counted!("donors that died with 8 tenths of their state taken", 63),
    counted!("donors that died with 9 tenths of their state taken", 56),
    counted!("states whose donor died, begun by another holder", 280),
    counted!("states whose donor died and was the only holder", 210),
    counted!("donors told to leave inside of a snapshot", 110),
    counted!("joiners told to leave inside of a snapshot", 120),
    counted!("members told to leave beside a snapshot", 130),
    counted!("members that left a group and joined it beside a snapshot", 130),
    counted!("groups joined again with another inbox", 1_000),
    counted!("inboxes left unread in the quiet phase", 360),
    ("messages to one judged beside an unread inbox", |c| checked(c, "V16 under failure"), 17_000),
    ("uniform messages held in an inadequate view", |c| core(c, "held_for_members"), 2_800),
    ("uniform messages held outside the primary", |c| core(c, "held_for_quorum"), 1_500),
    counted!("leaves while a member was silent", 1_000),
    counted!("leaves while a state was given", 890),
    ("uniform messages whose only holders died", |c| holders(c, "own"), 830),
    ("the same, of others' messages before them", |c| holders(c, "past"), 320),
    ("the same, of their sender's messages before them", |c| holders(c, "own past"), 430),
    ("uniform abcasts whose order died with its holders", |c| holders(c, "orders"), 1_900),
    ("the same, while another of the few sends most abcasts", |c| holders(c, "earlier orders"), 370),
    ("uniform messages on the first lost packet, whose only holders died", |c| holders(c, "first of the past"), 300),
    ("token passes known only to holders that died", |c| holders(c, "pass"), 35),
    ("groups judged for a packet that made no sense to one", |c| core(c, "nonsense_to_one"), 70),
    ("the same, to more but fewer than half", |c| core(c, "nonsense_to_fewer"), 11),
    ("the same, to half", |c| core(c, "nonsense_to_half"), 20),
    ("the same, to more than half", |c| core(c, "nonsense_to_more"), 35),
    ("members that took a group's state anew", |c| core(c, "state_anew"), 230),
    ("members whose own stream made no sense to most", |c| core(c, "outcast"), 35),
    ("groups stopped, by member", |c| core(c, "groups_stopped"), 40),
    ("members that stopped alone in front of nonsense", |c| core(c, "stopped_alone"), 37),
    counted!("groups cut off or stopped as a whole", 600),
    counted!("groups asked for while their members were cut off", 450),
    counted!("times told that a group waits", 3_800),
    counted!("groups that went on with a kept state", 2_100),
    ("ballots for it before all had answered", |c| core(c, "revivals_by_some"), 85),
    counted!("states kept in vain", 2_600),
    counted!("groups given up", 250),
    counted!("leaves of a process that gave a state", 190),
    ("leavers not let go yet", |c| core(c, "leavers_held"), 1_000),
    counted!("founders with a twin", 180),
    counted!("founders' directories emptied", 420),
    counted!("cells that died as a whole", 120),
    counted!("cells whose quorum died", 85),
    counted!("cells founded again", 250),
    counted!("commands to found a cell again", 150),
    counted!("commands to reform a cell", 90),
    counted!("cells that all were told to leave", 120),
    counted!("cells that all left and that were founded again", 80),
    ("ballots of founders in which nothing could be founded", |c| core(c, "foundings_dead"), 240),
    ("founders that heard a member before they were one", |c| core(c, "founders_heard"), 220),
    ("views lost with the only one that knew them", |c| c.lost_views, 75),
    ("seeds with a minority broken for good", |c| c.ruined, 1_200),
    ("members left out behind a link, as all judged", |c| core(c, "removed_behind_a_link"), 370),
    ("ballots for silence that not all had looked into", |c| core(c, "suspicions_unsettled"), 340),
    ("times a process was told that it was left out lately", |c| core(c, "joins_held_back"), 110_000),
    counted!("heals after which who was left out lately waits", 350),
];

/// The same for the plans of rare conditions.
const RARE: &[Moment] = &[
    ("decisions of founders after a later promise", |c| core(c, "founding_decisions_late"), 240),
    ("acceptances of founders whose ballot was given up", |c| core(c, "founding_acceptances_late"), 77),
    ("founders that were away as their cell was founded", |c| checked(c, "M13 under failure"), 44),
    ("records that could not be written", |c| core(c, "records_refused"), 81_000),
    counted!("minorities that meet an earlier instance", 440),
    ("the same, with an answer to a challenge", |c| core(c, "instances_not_yielded_to"), 370),
    ("joiners that are unfit while a level rises", |c| core(c, "joiners_unfit"), 200),
    ("verdicts on nonsense beside a member without the state", |c| core(c, "nonsense_beside_incomplete"), 170),
    ("messages to one process that make no sense there", |c| core(c, "nonsense_channels"), 270),
    ("members that cannot be read over a view", |c| core(c, "nonsense_channels_kept"), 120),
    ("instances that end with several members", |c| core(c, "instances_ended_together"), 130),
    ("members removed again", |c| core(c, "removed_again"), 1_300),
    ("the same, that count for an earlier removal alone", |c| core(c, "removed_again_unheard"), 310),
    ("groups asked for as new and founded by others", |c| core(c, "founded_by_others"), 8_400),
    (
        "uniform abcasts whose order died with its holders",
        |c| holders(c, "orders") + holders(c, "earlier orders"),
        6_700,
    ),
    ("token passes known only to holders that died", |c| holders(c, "pass"), 200),
];

/// The same for plain seeds that all have a user's state.
const STATES: &[Moment] = &[
    ("messages applied", |c| c.deliveries, 43_000_000),
    ("state transfers", |c| c.transfers, 60_000),
    ("views of groups", |c| c.group_views, 110_000),
    ("members that were excluded", |c| c.exclusions, 2_700),
    counted!("seeds with a user's state of several domains", 700),
    counted!("seeds with a user's state in many pieces", 700),
    counted!("seeds with a user's state that is refused now and then", 700),
    counted!("seeds with a user's state in slow pieces", 600),
    counted!("states that their application refused", 7_000),
    counted!("states whose donor died, begun by another holder", 500),
    counted!("states whose donor died and was the only holder", 450),
];

/// Percentage of all faults that must strike inside a flush, a join or a transfer.
const INSIDE_PERCENT: u64 = 25;

/// Names of the moments of ordinary seeds, with their floors for [`FLOOR_SEEDS`] seeds.
pub fn floors() -> impl Iterator<Item = (&'static str, u64)> {
    MOMENTS.iter().map(|&(name, _, floor)| (name, floor)).chain(ORDINARY.iter().copied())
}

/// Coverage of `summary`. `members` is the requested number: floors hold for cells of five and more (0: as seeds draw
/// them).
#[must_use]
pub fn coverage(summary: &Summary, members: usize, draw: Draw) -> Vec<Coverage> {
    let totals = &summary.totals;
    let has_floors = matches!(draw, Draw::Swarm | Draw::Rare | Draw::States | Draw::Only(_));
    let seeds_min = if matches!(draw, Draw::States | Draw::Only(_)) { SEEDS_MIN / 2 } else { SEEDS_MIN };
    let asked = has_floors && summary.seeds >= seeds_min && (members == 0 || members >= 5);
    let floor = |least: u64| {
        let scaled = least * summary.seeds / FLOOR_SEEDS;
        if asked && scaled >= FLOOR_MIN { scaled } else { 0 }
    };
    let of_class =
        |(name, least): &(&'static str, u64)| Coverage { name, count: moment(totals, name), floor: floor(*least) };
    if let Draw::Only(class) = draw {
        return class.floors().iter().map(of_class).collect();
    }
    let moments = match draw {
        Draw::Rare => RARE,
        Draw::States => STATES,
        _ => MOMENTS,
    };
    let moments = moments.iter();
    let mut lines: Vec<Coverage> =
        moments.map(|(name, count, least)| Coverage { name, count: count(totals), floor: floor(*least) }).collect();
    if draw == Draw::Swarm {
        lines.extend(ORDINARY.iter().map(of_class));
    }
    lines.push(Coverage {
        name: "faults inside a flush, a join or a transfer",
        count: totals.faults_inside,
        // Plans of rare conditions are aimed at those.
        floor: if asked && draw != Draw::Rare { totals.faults_total() * INSIDE_PERCENT / 100 } else { 0 },
    });
    lines
}

fn moment(counters: &Counters, name: &str) -> u64 {
    counters.moments.get(name).copied().unwrap_or(0)
}

/// The table of `docs/simulator.md`: the counts of `summary`, scaled to [`FLOOR_SEEDS`] seeds, and the floors.
#[must_use]
pub fn coverage_table(summary: &Summary) -> String {
    let mut text = format!("{TABLE_HEAD}\n|---|---|---|\n");
    let mut row = |name: &str, count: u64, floor: u64| {
        let met = count * FLOOR_SEEDS / summary.seeds.max(1);
        let _ = writeln!(text, "| {name} | {} | {} |", grouped(met), grouped(floor));
    };
    MOMENTS.iter().for_each(|(name, count, floor)| row(name, count(&summary.totals), *floor));
    ORDINARY.iter().for_each(|(name, floor)| row(name, moment(&summary.totals, name), *floor));
    text
}

/// The first line of [`coverage_table`].
const TABLE_HEAD: &str = "| condition | times met in 10,000 seeds | floor |";

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn core(counters: &Counters, name: &str) -> u64 {
    // A counter that was renamed must not read as one that nothing was counted in.
    let count = counters.core.get(name).copied();
    assert!(count.is_some() || counters.core.is_empty(), "processes have no counter called {name}");
    count.unwrap_or(0)
}

fn checked(counters: &Counters, code: &str) -> u64 {
    counters.checked.get(code).copied().unwrap_or(0)
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
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn floors_grow_with_the_seeds_and_are_missed_by_a_campaign_that_met_nothing() {
        let mut summary = Summary { seeds: FLOOR_SEEDS, ..Summary::default() };
        let missed =
            |summary: &Summary| coverage(summary, 5, Draw::Swarm).iter().filter(|line| !line.is_reached()).count();
        // Without any fault a quarter of them is nothing.
        let all = MOMENTS.len() + ORDINARY.len();
        assert_eq!(missed(&summary), all, "each has a floor");
        assert!(coverage(&summary, 5, Draw::Plain).iter().all(Coverage::is_reached), "plain seeds are a part of these");
        summary.totals.cell_views = 100_000;
        assert_eq!(missed(&summary), all - 1);
        summary.totals.faults.insert("crash".into(), 100);
        assert_eq!(missed(&summary), all);
        summary.totals.faults_inside = 25;
        assert_eq!(missed(&summary), all - 1);
        summary.seeds = 400;
        let often = |floor: u64| floor * 400 / FLOOR_SEEDS >= FLOOR_MIN;
        assert_eq!(missed(&summary), floors().filter(|(_, floor)| often(*floor)).count() - 1, "what is not too rare");
        assert_eq!(coverage(&summary, 5, Draw::Mild(60)).iter().map(|line| line.floor).max(), Some(0), "mild weather");
        summary.seeds = SEEDS_MIN - 1;
        assert_eq!(missed(&summary), 0, "too few seeds to tell");
    }

    #[test]
    fn no_floor_is_below_ten_and_no_name_comes_twice() {
        let names: BTreeSet<&str> = floors().map(|(name, _)| name).collect();
        assert_eq!(names.len(), MOMENTS.len() + ORDINARY.len());
        assert!(floors().all(|(_, floor)| floor >= 10));
    }

    /// The first line of the table of rare conditions.
    const RARE_HEAD: &str = "| rare condition | times met in 10,000 seeds | floor |";

    #[test]
    fn a_campaign_of_rare_conditions_has_floors_of_its_own() {
        let summary = Summary { seeds: FLOOR_SEEDS, ..Summary::default() };
        let missed = coverage(&summary, 5, Draw::Rare).iter().filter(|line| !line.is_reached()).count();
        assert_eq!(missed, RARE.len());
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 30, 999, 1_000, 25_000, 1_234_567].map(grouped),
            ["0", "30", "999", "1,000", "25,000", "1,234,567"]
        );
    }

    /// The first table in the documents was printed by `phalanx sim --coverage`. The floors in both equal those in the
    /// code, and a third of their usual counts, or 10.
    #[test]
    fn the_documents_tell_the_floors() {
        let docs = include_str!("../../../docs/simulator.md");
        let rare = RARE.iter().map(|&(name, _, floor)| (name, floor)).collect();
        for (head, moments) in [(TABLE_HEAD, floors().collect::<Vec<_>>()), (RARE_HEAD, rare)] {
            let rows = docs.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
            let number = |cell: &str| cell.replace(',', "").parse::<u64>().expect("a number");
            let told: Vec<(&str, u64, u64)> = rows
                .map(|row| {
                    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
                    let [name, met, floor] = cells[..] else { panic!("three cells: {row}") };
                    (name, number(met), number(floor))
                })
                .collect();
            assert_eq!(told.iter().map(|&(name, _, floor)| (name, floor)).collect::<Vec<_>>(), moments);
            for (name, met, floor) in told {
                assert!(met >= floor && floor <= (met / 3).max(10), "{name}: {floor} of {met}");
                assert!(floor >= met / 12, "{name}: {floor} is far less than a third of {met}");
            }
        }
    }
}
