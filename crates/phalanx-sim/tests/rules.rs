//! Stories each of which is about one rule (`docs/rules.md`): groups that wait and for whom, removals and their budget,
//! and the rise of a level.

use std::time::Duration;

use phalanx_core::wire::Kind;
use phalanx_core::{GroupTerms, Order, ReformWhen, TrafficClass, Uniformity, ViewNumber};
use phalanx_sim::{Builds, Cell, SUSPECT_AFTER, Weather, WorldSettings, send_until};
use phalanx_trace::Event;

const SECOND: Duration = Duration::from_secs(1);

/// The first view of a group with one member.
const FOUNDED_ALONE: Option<(ViewNumber, usize)> = Some((ViewNumber(1), 1));

/// Five members, of which the last two are the group "two".
fn of_two(seed: u64, terms: GroupTerms) -> Cell {
    let mut cell = Cell::settled(5, seed);
    for slot in [3, 4] {
        cell.join_on_terms(slot, "two", terms);
    }
    cell.settle();
    cell
}

/// The same, cut off from the others, which wait for both.
fn waiting(seed: u64) -> Cell {
    let mut cell = of_two(seed, GroupTerms::default());
    cell.cut_off(&[3, 4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    cell
}

fn waits_for(cell: &Cell, slot: usize) -> Vec<String> {
    cell.orphans(slot).into_iter().find(|(name, _)| name == "two").map(|(_, who)| who).unwrap_or_default()
}

/// Whether the group is over: a process that asks for its name founds another.
fn is_founded_anew(cell: &mut Cell) -> bool {
    cell.join(0, "two");
    cell.run_until(5 * SECOND, |cell| cell.group_view(0, "two") == FOUNDED_ALONE)
}

#[test]
fn a_group_ends_with_members_that_are_proved_dead() {
    let mut cell = of_two(60, GroupTerms::default());
    for dead in [3, 4] {
        cell.crash(dead);
        (0..3).for_each(|told| cell.tell_death(told, dead));
    }
    assert!(is_founded_anew(&mut cell), "it waits for {:?}", waits_for(&cell, 0));
    cell.finish_clean();
}

#[test]
fn a_group_ends_with_members_that_leave() {
    let mut cell = of_two(61, GroupTerms::default());
    [3, 4].into_iter().for_each(|slot| cell.leave(slot));
    assert!(cell.run_until(5 * SECOND, |cell| !cell.runs(3) && !cell.runs(4)));
    assert!(is_founded_anew(&mut cell), "it waits for {:?}", waits_for(&cell, 0));
    cell.finish_clean();
}

/// Both holders are back, and their applications do not want the group any more.
#[test]
fn a_holder_that_declines_is_waited_for_no_more() {
    let mut cell = waiting(62);
    [3, 4].into_iter().for_each(|slot| cell.leave_group(slot, "two").expect("it is in the group"));
    cell.heal();
    assert!(is_founded_anew(&mut cell), "it waits for {:?}", waits_for(&cell, 0));
    cell.finish_clean();
}

/// Both holders die while they are out, and the system says so to a member.
#[test]
fn a_holder_whose_death_is_told_is_waited_for_no_more() {
    let mut cell = waiting(63);
    [3, 4].into_iter().for_each(|slot| cell.crash(slot));
    cell.run_for(SECOND);
    assert_eq!(waits_for(&cell, 0).len(), 2, "silence strikes nobody off");
    cell.tell_death(1, 3);
    assert!(cell.run_until(2 * SECOND, |cell| waits_for(cell, 0) == ["p4"]));
    cell.tell_death(1, 4);
    assert!(is_founded_anew(&mut cell), "it waits for {:?}", waits_for(&cell, 0));
    cell.finish_clean();
}

/// The holders die while the ballot is under way that leaves them out, at each of its steps. Once it is proposed, it calls
/// them unreachable, whatever the system says then.
#[test]
fn a_death_that_is_told_inside_the_ballot_is_not_forgotten() {
    let mut proposed = 0;
    for step in 0..16 {
        let mut cell = of_two(66, GroupTerms::default()).titled(format!("step {step}"));
        cell.cut_off(&[3, 4]);
        assert!(cell.run_until(5 * SECOND, |cell| cell.activity(0).flushing));
        cell.run_for(Duration::from_micros(50 * step));
        for dead in [3, 4] {
            cell.crash(dead);
            (0..3).for_each(|told| cell.tell_death(told, dead));
        }
        proposed += u64::from(cell.accepted(0).is_some());
        assert!(is_founded_anew(&mut cell), "step {step}: it waits for {:?}", waits_for(&cell, 0));
        cell.finish_clean();
    }
    assert!((1..16).contains(&proposed), "{proposed} steps lie behind the proposal");
}

/// The holders die, and the only member that is told leaves by the decree that leaves them out. Nobody can say so later.
#[test]
fn a_death_that_only_a_leaver_knows_is_not_forgotten() {
    let mut at_once = 0;
    for wait in 0..12 {
        let mut cell = of_two(67, GroupTerms::default()).titled(format!("{} ms", 10 * wait));
        for dead in [3, 4] {
            cell.crash(dead);
            cell.tell_death(1, dead);
        }
        cell.run_for(Duration::from_millis(10 * wait));
        cell.leave(1);
        let has_left = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, ranks)| !ranks.contains(&1));
        let before = cell.cell_view(0).map(|(view, _)| view);
        assert!(cell.run_until(SECOND, has_left));
        let (after, ranks) = cell.cell_view(0).expect("in a view");
        // One that leaves before its next heartbeat tells nobody, and one that waits longer leaves after the dead.
        if ranks.len() == 2 && before.map(|view| view.next()) == Some(after) {
            at_once += 1;
            assert!(is_founded_anew(&mut cell), "{wait}: it waits for {:?}", waits_for(&cell, 0));
            cell.finish_clean();
        }
    }
    assert!(at_once > 0, "no leave met the decree that it is about");
}

#[test]
fn a_group_that_is_to_end_at_once_waits_for_nobody() {
    let mut cell = of_two(64, GroupTerms { ends_alone: true, ..GroupTerms::default() });
    cell.cut_off(&[3, 4]);
    assert!(is_founded_anew(&mut cell), "it waits for {:?}", waits_for(&cell, 0));
}

/// The longest that a half-broken member may hold the others up.
const BOUND: Duration = SUSPECT_AFTER.saturating_mul(12);

/// The data sockets of these processes do not work from now on.
fn lose_data_of(cell: &mut Cell, slots: &'static [usize]) {
    cell.lose_if(move |packet| {
        packet.class == TrafficClass::Data && (slots.contains(&packet.from) || slots.contains(&packet.to))
    });
}

/// A cell of five. The data sockets of the last two fail, one after the other; both members go, and come back.
fn two_went_and_came_back(seed: u64) -> Cell {
    let mut cell = Cell::settled(5, seed);
    lose_data_of(&mut cell, &[4]);
    assert!(send_until(&mut cell, BOUND, |cell| cell.are_alone(&[0, 1, 2, 3])));
    lose_data_of(&mut cell, &[3, 4]);
    assert!(send_until(&mut cell, BOUND, |cell| cell.are_alone(&[0, 1, 2])));
    cell.lose_if(|_| false);
    cell.settle();
    cell
}

/// Two names went, and the data socket of a third member fails: it stays, because two names went within ten minutes.
#[test]
fn no_more_than_a_minority_of_names_goes() {
    let mut cell = two_went_and_came_back(65);
    assert_eq!(cell.cell_view(0).map(|(_, members)| members.len()), Some(5));
    lose_data_of(&mut cell, &[2]);
    assert!(!send_until(&mut cell, BOUND, |cell| cell.are_alone(&[0, 1, 3, 4])), "a third name went");
}

/// Two names went, and the data socket of one of them fails again.
#[test]
fn a_name_that_goes_again_counts_once() {
    let mut cell = two_went_and_came_back(66);
    lose_data_of(&mut cell, &[4]);
    assert!(send_until(&mut cell, BOUND, |cell| cell.are_alone(&[0, 1, 2, 3])), "it counted twice");
}

/// Groups come and go without a pause, and each ballot takes a while. A process that was cut off for a moment waits for a
/// second, and not for a second between ballots.
#[test]
fn the_wait_of_a_removed_process_runs_on_in_ballots() {
    let mut cell = Cell::settled(5, 69);
    for slot in 0..5 {
        cell.set_weather_around(slot, Weather { base_ns: 15_000_000, ..Weather::FINE });
    }
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| cell.are_alone(&[0, 1, 2, 3])));
    let (removed_at, mut groups) = (cell.now(), 0);
    cell.heal();
    while !cell.cell_view(0).is_some_and(|(_, members)| members.contains(&4)) {
        assert!(cell.now() < removed_at + 4 * SECOND, "it still waits, after {groups} changes of groups");
        for slot in 0..4 {
            let name = format!("g{slot}");
            let asked = match cell.group_view(slot, &name) {
                Some(_) => cell.leave_group(slot, &name),
                None => cell.try_join(slot, &name),
            };
            groups += u64::from(asked.is_ok());
        }
        cell.run_for(Duration::from_millis(5));
    }
    assert!(cell.now() > removed_at + SECOND, "it waited");
    assert!(groups >= 20, "{groups} changes of groups");
}

/// A cell of earlier level whose members all know the later one.
fn between_builds(members: usize, seed: u64) -> Cell {
    let builds = Builds { returns: Some(members), ..Builds::LATE };
    let mut cell = Cell::new(WorldSettings { builds: Some(builds), ..WorldSettings::quiet(members) }, seed);
    for slot in 0..members {
        cell.start(slot);
        cell.join(slot, "a");
    }
    cell.settle();
    cell.leave(0);
    assert!(cell.run_until(5 * SECOND, |cell| !cell.runs(0)));
    cell.start(0);
    cell.join(0, "a");
    cell.settle();
    assert_eq!(cell.level(1), Some(Builds::LATE.earlier()));
    cell
}

/// A process asks for a level while a decree is under way that knows nothing of it.
#[test]
fn a_rise_that_a_decree_overtook_comes_with_the_next() {
    let mut overtaken = 0;
    for seed in 70..75 {
        let mut cell = between_builds(4, seed);
        let (_, ranks) = cell.cell_view(1).expect("in a view");
        let (first, last) = (ranks[0], ranks[3]);
        cell.leave_group(ranks[2], "a").expect("in the group");
        assert!(cell.run_until(SECOND, |cell| cell.activity(first).proposing));
        assert_eq!(cell.raise_level(last, Builds::LATE.later), Ok(()));
        overtaken += usize::from(cell.level(first) == Some(Builds::LATE.earlier()));
        assert!(
            cell.run_until(5 * SECOND, |cell| cell.level(first) == Some(Builds::LATE.later)),
            "it is asked for once"
        );
        cell.settle();
        cell.finish_clean();
    }
    assert_eq!(overtaken, 5);
}

/// One of two holders is back, and dies before the group goes on; the system says so.
#[test]
fn a_holder_that_goes_again_is_waited_for_no_more() {
    let mut cell = of_two(67, GroupTerms::default());
    cell.cut_off(&[3]);
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 2));
    for other in 0..3 {
        cell.mend(other, 3);
        cell.mend(3, other);
    }
    let is_in = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members.contains(&3));
    assert!(cell.run_until(5 * SECOND, is_in));
    cell.crash(3);
    (0..3).for_each(|told| cell.tell_death(told, 3));
    assert!(cell.run_until(SECOND, |cell| waits_for(cell, 0) == ["p4"]), "{:?}", waits_for(&cell, 0));
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// A process joins groups with these names.
fn join_all(cell: &mut Cell, slot: usize, names: &[String]) {
    names.iter().for_each(|name| cell.join(slot, name));
    assert!(cell.run_until(10 * SECOND, |cell| names.iter().all(|name| cell.group_view(slot, name).is_some())));
}

/// Hundreds of groups wait for one process. That is no reason why another one may not make a group.
#[test]
fn beside_hundreds_of_groups_that_wait_for_one_others_make_groups() {
    let mut cell = Cell::settled(3, 68);
    let names: Vec<String> = (0..300).map(|number| format!("g{number}")).collect();
    join_all(&mut cell, 2, &names);
    cell.cut_off(&[2]);
    assert!(cell.run_until(5 * SECOND, |cell| cell.orphans(0).len() == names.len()));
    cell.join(0, "new");
    assert!(cell.run_until(SECOND, |cell| cell.group_view(0, "new") == FOUNDED_ALONE));
}

/// Two processes have so many groups that the share of each is used up while these wait. One of them is back. Until the
/// other one is waited for no more it makes no group, nothing is decided for that, and the others go on.
#[test]
fn who_has_as_much_waiting_as_may_makes_no_group() {
    let mut cell = Cell::settled(5, 78);
    let names: Vec<String> = (0..560).map(|number| format!("{number:0180}")).collect();
    [3, 4].into_iter().for_each(|slot| join_all(&mut cell, slot, &names));
    cell.cut_off(&[3]);
    cell.cut_off(&[4]);
    assert!(cell.run_until(5 * SECOND, |cell| cell.orphans(0).len() == names.len()));
    for other in 0..3 {
        cell.mend(other, 3);
        cell.mend(3, other);
    }
    assert!(cell.run_until(5 * SECOND, |cell| cell.is_primary(3)));
    cell.join(3, "new");
    cell.run_for(SECOND / 10);
    let before = cell.packets();
    cell.join(0, "other");
    assert!(cell.run_until(SECOND / 5, |cell| cell.group_view(0, "other") == FOUNDED_ALONE));
    cell.run_for(SECOND / 2);
    assert_eq!((cell.orphans(0).len(), cell.group_view(3, "new")), (names.len(), None));
    let packets = cell.packets() - before;
    assert!(packets < 3_000, "{packets} packets, as if something were decided all the time");
    assert!(cell.run_until(2 * SECOND, |cell| cell.group_view(3, "new") == FOUNDED_ALONE), "there is room again");
    assert_eq!(cell.orphans(0).len(), 0);
}

/// A cell of these founders, none of which runs.
fn founders(count: usize, seed: u64) -> Cell {
    Cell::new(WorldSettings { founders: count, ..WorldSettings::quiet(count) }, seed)
}

/// Both founders die, and the directory of one is emptied. What the other has a marker of may have been confirmed by
/// the marker that is lost.
#[test]
fn a_founder_with_an_empty_directory_passes_over_no_list() {
    let mut cell = founders(2, 69);
    [0, 1].into_iter().for_each(|slot| cell.start(slot));
    cell.settle();
    [0, 1].into_iter().for_each(|slot| cell.crash(slot));
    cell.empty_directory(0);
    [0, 1].into_iter().for_each(|slot| cell.start(slot));
    cell.run_for(8 * SECOND);
    assert!([0, 1].into_iter().all(|slot| cell.cell_view(slot).is_none()), "the cell was founded twice");
}

/// One of three founders hears of no proposal. The other two are most of them, and set no marker.
#[test]
fn a_founder_that_did_not_accept_keeps_the_others_from_founding() {
    let mut cell = founders(3, 70);
    (0..3).for_each(|slot| cell.start(slot));
    assert!(cell.run_until(5 * SECOND, |cell| (0..3).any(|slot| cell.activity(slot).founding)));
    cell.lose_if(|packet| packet.kind == Kind::Control && packet.from == 2);
    cell.run_for(5 * SECOND);
    assert!((0..2).all(|slot| !cell.has_founded(slot)), "two of three decided");
    cell.lose_if(|_| false);
    cell.settle();
    cell.finish_clean();
}

/// Two of three leave while the third is silent for a moment. None of them is in a group whose state would keep them.
#[test]
fn leavers_in_no_group_do_not_decide_for_the_silent() {
    let mut cell = Cell::new(WorldSettings::quiet(3), 77);
    (0..3).for_each(|slot| cell.start(slot));
    cell.settle();
    cell.cut_off(&[2]);
    cell.leave(0);
    cell.leave(1);
    let of_two = |cell: &Cell| cell.cell_view(0).is_some_and(|(_, members)| members == [0, 1]);
    assert!(cell.run_until(5 * SECOND, of_two), "the silent one is out by a decree of its own first");
}

/// One of the founders was taken into an instance after which the next one was founded by command. That one ended when
/// all left, so that nobody lives in the earlier one either.
#[test]
fn an_instance_that_ended_excuses_the_one_before_it() {
    let mut cell = founders(3, 78);
    (0..3).for_each(|slot| cell.start(slot));
    cell.settle();
    cell.empty_directory(2);
    cell.crash(2);
    cell.start(2);
    cell.settle();
    (0..3).for_each(|slot| cell.crash(slot));
    (0..2).for_each(|slot| cell.start(slot));
    cell.run_for(2 * SECOND);
    cell.found_anew(0).expect("two of three look for the cell");
    cell.settle();
    (0..2).for_each(|slot| cell.leave(slot));
    assert!(cell.run_until(5 * SECOND, |cell| (0..2).all(|slot| !cell.runs(slot))));
    (0..3).for_each(|slot| cell.start(slot));
    cell.settle();
    cell.finish_clean();
}

/// A survivor reforms its cell, and cannot write down that it does. It founds nothing until it can.
#[test]
fn a_survivor_that_cannot_write_founds_nothing() {
    let mut cell = Cell::settled(3, 79);
    [0, 1].into_iter().for_each(|slot| cell.crash(slot));
    assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(2)));
    cell.fill_disk(2, true);
    cell.reform(2, ReformWhen::Asked).expect("it hears no quorum");
    cell.run_for(12 * SECOND);
    assert!(!cell.is_primary(2), "it founded without a marker");
    cell.fill_disk(2, false);
    assert!(cell.run_until(10 * SECOND, |cell| cell.is_primary(2)));
}

/// A group that needs two members with its state has one, and another that is in the view and still takes it. The first
/// sends nothing uniform until the other has all of it.
#[test]
fn who_still_takes_the_state_does_not_count() {
    let mut cell = Cell::settled(3, 80);
    let terms = GroupTerms { members_min: 2, ..GroupTerms::default() };
    cell.join_on_terms(0, "two", terms);
    cell.settle();
    cell.join_on_terms(1, "two", terms);
    assert!(cell.run_until(5 * SECOND, |cell| (0..3).any(|slot| cell.activity(slot).proposing)));
    cell.lose_if(|packet| packet.kind == Kind::Data && packet.to == 1);
    assert!(cell.run_until(SECOND, |cell| cell.activity(1).incomplete));
    let before = cell.delivered(0);
    cell.multicast(0, "two", Order::Fifo, Uniformity::Uniform, 40).expect("it is accepted");
    cell.run_for(Duration::from_millis(300));
    assert_eq!(cell.delivered(0), before, "the joiner counts");
    cell.lose_if(|_| false);
    assert!(cell.run_until(5 * SECOND, |cell| cell.delivered(0) > before));
    cell.settle();
    cell.finish_clean();
}

/// One of the three members that the terms ask for is dead when another one multicasts and leaves. One member will have
/// the message then, and the leaver learns of no view that has more.
#[test]
fn a_leaver_is_not_told_stable_what_too_few_have() {
    for (dies, doubt) in [(true, 1), (false, 0)] {
        let mut cell = Cell::settled(4, 83).titled(format!("one dies: {dies}"));
        let terms = GroupTerms { members_min: 3, ..GroupTerms::default() };
        (0..3).for_each(|slot| cell.join_on_terms(slot, "two", terms));
        cell.settle();
        if dies {
            cell.crash(2);
        }
        cell.multicast(0, "two", Order::Fifo, Uniformity::Plain, 40).expect("in the group");
        cell.leave_group(0, "two").expect("in the group");
        assert!(cell.run_until(5 * SECOND, |cell| cell.group_view(0, "two").is_none()), "it leaves");
        let records = cell.traces(0).iter().flat_map(|trace| &trace.records);
        let in_doubt = records.filter_map(|record| match &record.event {
            Event::ToldLost { in_doubt, .. } => Some(*in_doubt),
            _ => None,
        });
        assert_eq!(in_doubt.sum::<u64>(), doubt);
        cell.finish_clean();
    }
}

/// A group has fewer members than its terms ask for. That counts from the level on that has such terms, and each member
/// is told so when its cell rises to it, also one whose application takes nothing at that moment.
#[test]
fn a_rise_tells_of_too_few_members_whoever_reads_late() {
    let mut cell = between_builds(4, 81);
    let terms = GroupTerms { members_min: 3, ..GroupTerms::default() };
    [1, 2].into_iter().for_each(|slot| cell.join_on_terms(slot, "two", terms));
    cell.settle();
    cell.set_takes(2, false);
    cell.multicast(1, "two", Order::Fifo, Uniformity::Plain, 40).expect("in the group");
    cell.run_for(Duration::from_millis(100));
    assert_eq!(cell.raise_level(1, Builds::LATE.later), Ok(()));
    assert!(cell.run_until(5 * SECOND, |cell| (1..3).all(|slot| cell.level(slot) == Some(Builds::LATE.later))));
    cell.run_for(SECOND);
    cell.set_takes(2, true);
    cell.run_for(SECOND);
    for slot in [1, 2] {
        let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
        let told = records.filter(|record| matches!(record.event, Event::GroupAdequacy { adequate: false, .. }));
        assert_eq!(told.count(), 1, "p{slot} is told once");
    }
    cell.join(3, "two");
    cell.settle();
    cell.finish_clean();
}

/// A holder is back and dies at once. When another one is back later, the third is waited for as if nobody had been.
#[test]
fn the_wait_for_holders_begins_with_the_first_that_is_there() {
    let mut cell = Cell::settled(7, 82);
    (4..7).for_each(|slot| cell.join_on_terms(slot, "two", GroupTerms::default()));
    cell.settle();
    (4..7).for_each(|slot| cell.cut_off(&[slot]));
    assert!(cell.run_until(5 * SECOND, |cell| waits_for(cell, 0).len() == 3));
    let is_in = |cell: &Cell, slot: usize| cell.cell_view(0).is_some_and(|(_, members)| members.contains(&slot));
    let mend = |cell: &mut Cell, slot: usize| {
        for other in 0..4 {
            cell.mend(other, slot);
            cell.mend(slot, other);
        }
    };
    mend(&mut cell, 4);
    assert!(cell.run_until(10 * SECOND, |cell| is_in(cell, 4)));
    cell.run_for(Duration::from_millis(300));
    cell.crash(4);
    (0..4).for_each(|told| cell.tell_death(told, 4));
    assert!(cell.run_until(2 * SECOND, |cell| waits_for(cell, 0).len() == 2 && !is_in(cell, 4)));
    cell.run_for(2 * SECOND);
    mend(&mut cell, 5);
    assert!(cell.run_until(20 * SECOND, |cell| is_in(cell, 5)));
    cell.run_for(Duration::from_millis(600));
    assert_eq!(waits_for(&cell, 0).len(), 2, "p6 is not waited for");
    assert!(cell.run_until(SECOND, |cell| waits_for(cell, 0).is_empty()));
    cell.heal();
    cell.settle();
    cell.finish_clean();
}
