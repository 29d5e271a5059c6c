//! Cells that are founded by named processes, and founded again after they died (`docs/founding.md`).

mod founders;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use founders::{nobody_is_in, says, start};
use phalanx_core::wire::Kind;
use phalanx_core::{CellInstance, CommandError, Order, ReformWhen, Uniformity};
use phalanx_sim::{Cell, Own, OwnAgreed, WorldSettings};
use phalanx_trace::Event;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A cell of `members` processes, none of which runs; the first `founders` of them are founders.
fn cell_of(members: usize, founders: usize, seed: u64) -> Cell {
    let mut settings = WorldSettings::quiet(members);
    settings.founders = founders;
    Cell::new(settings, seed)
}

/// The same, and the last one has the name of the first by mistake.
fn with_twin(members: usize, founders: usize, seed: u64) -> Cell {
    let mut settings = WorldSettings::quiet(members);
    settings.founders = founders;
    settings.twins = vec![(members - 1, 0)];
    Cell::new(settings, seed)
}

fn crash(cell: &mut Cell, slots: &[usize]) {
    slots.iter().for_each(|slot| cell.crash(*slot));
}

/// Number of events of this kind in all incarnations of a process.
fn told(cell: &Cell, slot: usize, which: impl Fn(&Event) -> bool) -> usize {
    let records = cell.traces(slot).iter().flat_map(|trace| &trace.records);
    records.filter(|record| which(&record.event)).count()
}

/// Three founders in one view, all of which die at once.
fn dead_cell(seed: u64) -> Cell {
    let mut cell = cell_of(3, 3, seed);
    start(&mut cell, &[0, 1, 2]);
    cell.settle();
    crash(&mut cell, &[0, 1, 2]);
    cell
}

/// The leader dies after it wrote its bootstrap marker, before any other has one. The others found the cell at its next
/// start, with the instance of that marker.
#[test]
fn who_died_with_the_only_mark_brings_it_back() {
    let mut untold = 0;
    for sends in 0..60 {
        let mut cell = cell_of(3, 3, 1).titled(format!("{sends} sends"));
        [0, 1, 2].into_iter().for_each(|slot| cell.start(slot));
        cell.crash_after_sends(0, sends);
        let _ = cell.run_until(SECOND, |cell| !cell.runs(0));
        cell.crash(0);
        cell.run_for(2 * SECOND);
        let only = cell.has_founded(0) && !cell.has_founded(1) && !cell.has_founded(2);
        let marked = cell.record(0).instance();
        if only {
            untold += 1;
            assert!(nobody_is_in(&cell, &[1, 2]), "two of three founded without the third");
        }
        cell.start(0);
        [0, 1, 2].into_iter().for_each(|slot| cell.join(slot, "a"));
        cell.settle();
        assert!(!only || cell.instance(0) == Some(marked), "another list took the place of the one with a mark");
        cell.finish_clean();
    }
    assert!(untold > 0, "no one died at the moment that this is about");
}

/// When the first founder is in a view, more than half of the names have a marker on disk. So all of them can die at
/// that moment, and found nothing when they are back.
#[test]
fn the_first_that_is_in_a_view_knows_of_marks_on_disk() {
    for founders in 2..=5 {
        let all: Vec<usize> = (0..founders).collect();
        for seed in 0..10 {
            let mut cell = cell_of(founders, founders, seed).titled(format!("{founders} founders"));
            start(&mut cell, &all);
            assert!(cell.run_until(5 * SECOND, |cell| !nobody_is_in(cell, &all)));
            let marked = all.iter().filter(|slot| cell.has_founded(**slot)).count();
            assert!(2 * marked > founders, "{marked} of {founders} have a mark");
            crash(&mut cell, &all);
            start(&mut cell, &all);
            cell.run_for(6 * SECOND);
            assert!(nobody_is_in(&cell, &all), "the cell was founded twice");
            cell.found_anew(0).expect("it looks for the cell");
            cell.settle();
            cell.finish_clean();
        }
    }
}

/// One founder is configured with other names. Nothing is founded, and the reason names both lists.
#[test]
fn founders_with_unequal_lists_found_nothing() {
    let mut cell = cell_of(3, 3, 2);
    cell.set_founders(2, &[0, 2]);
    start(&mut cell, &[0, 1, 2]);
    cell.run_for(10 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2]));
    for slot in [0, 2] {
        let why = cell.searching(slot).unwrap_or_default();
        let names_both = why.contains("p0, p1, p2") && why.replace("p0, p1, p2", "").contains("p0, p2");
        assert!(names_both, "p{slot}: {why}");
    }
    cell.crash(2);
    cell.set_founders(2, &[0, 1, 2]);
    start(&mut cell, &[2]);
    cell.settle();
    cell.finish_clean();
}

/// A second process of p0's name heard a member. Then p1 comes back with an empty directory, and the two hear no other
/// process.
#[test]
fn a_twin_that_heard_a_member_founds_nothing() {
    let mut cell = with_twin(4, 2, 3);
    start(&mut cell, &[0, 1, 2]);
    cell.settle();
    cell.start(3);
    cell.run_for(3 * SECOND);
    assert!(cell.record(3).heard.is_some());
    cell.empty_directory(1);
    cell.crash(1);
    cell.cut_off(&[1, 3]);
    start(&mut cell, &[1]);
    cell.run_for(10 * SECOND);
    assert!(nobody_is_in(&cell, &[1, 3]) && cell.is_primary(0), "there are two primaries");
    cell.crash(3);
    cell.heal();
    cell.settle();
    assert!(cell.has_founded(1), "whoever is taken in has a mark");
    cell.finish_clean();
}

/// Two processes of one name found nothing while they hear each other.
#[test]
fn two_of_one_name_stand_aside() {
    let mut cell = with_twin(4, 3, 4);
    start(&mut cell, &[0, 1, 2]);
    cell.start(3);
    cell.run_for(10 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2, 3]));
    for slot in [0, 3] {
        assert!(says(&cell, slot, "another process with the name p0"), "{:?}", cell.searching(slot));
    }
    cell.crash(3);
    cell.settle();
    cell.finish_clean();
}

/// A second process of the first founder's name has another window. Nothing is founded with it, and the other founder
/// knows why. Once there is a cell, it does not speak for it.
#[test]
fn a_twin_with_other_settings_neither_founds_nor_speaks_for_the_cell() {
    let own = |window_bytes| Own {
        packet_bytes: 1472,
        channel_window_bytes: 65_536,
        heartbeat_ms: 100,
        suspect_after_ms: 900,
        ballot_step_ms: 150,
        ack_delay_ms: 2,
        agreed: Some(OwnAgreed { window_bytes, watchers: 16, expel_after_ms: None }),
    };
    let mut settings = WorldSettings::quiet(3);
    settings.founders = 2;
    settings.twins = vec![(2, 0)];
    settings.unequal = vec![own(1 << 20), own(1 << 20), own(1 << 16)];
    let mut cell = Cell::new(settings, 10);
    start(&mut cell, &[1]);
    cell.start(2);
    cell.run_for(10 * SECOND);
    assert!(nobody_is_in(&cell, &[1, 2]));
    assert!(says(&cell, 1, "limits.group_window is 64KiB"), "{:?}", cell.searching(1));
    crash(&mut cell, &[2]);
    start(&mut cell, &[0]);
    cell.settle();
    cell.start(2);
    cell.run_for(3 * SECOND);
    assert!(cell.record(2).heard.is_some());
    let differs = |cell: &Cell| told(cell, 1, |event| matches!(event, Event::Differs { .. }));
    let before = differs(&cell);
    crash(&mut cell, &[1]);
    cell.run_for(3 * SECOND);
    start(&mut cell, &[1]);
    assert!(cell.run_until(10 * SECOND, |cell| cell.is_primary(0) && cell.is_primary(1)));
    assert_eq!(differs(&cell), before, "it was told of a value that is not the cell's");
    crash(&mut cell, &[2]);
    cell.settle();
    cell.finish_clean();
}

/// All die, and all start again. Their markers show that the cell existed. It is founded again only by command, and one
/// generation later.
#[test]
fn a_cell_that_died_is_founded_by_command_alone() {
    let mut cell = dead_cell(5);
    let before = cell.record(0).last.clone().expect("it was in a view");
    start(&mut cell, &[0, 1, 2]);
    cell.run_for(10 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2]));
    for slot in 0..3 {
        let last = format!("p{slot} view {}", before.view);
        assert!(says(&cell, slot, "the whole cell died") && says(&cell, slot, &last), "{:?}", cell.searching(slot));
    }
    cell.found_anew(1).expect("it looks for the cell");
    cell.settle();
    assert_eq!(cell.instance(0).map(CellInstance::generation), Some(2));
    assert_eq!(cell.found_anew(1), Err(CommandError::NotSearching));
    cell.finish_clean();
}

/// All die, and the first founder dies again after the command, at every step of its ballot, and the others with it. If it
/// alone had its marker of the new list, that list is passed over. The word was given, so the founders found the cell by
/// themselves then, and not in the generation of the cell that died.
#[test]
fn a_command_that_left_one_marker_is_not_needed_twice() {
    for founders in [2, 3] {
        let all: Vec<usize> = (0..founders).collect();
        let mut cut_short = 0;
        for sends in 0..40 {
            let mut cell = cell_of(founders, founders, 1).titled(format!("{founders} founders, {sends} sends"));
            start(&mut cell, &all);
            cell.settle();
            crash(&mut cell, &all);
            let before = cell.record(0).instance();
            start(&mut cell, &all);
            cell.run_for(3 * SECOND);
            cell.found_anew(0).expect("it looks for the cell");
            cell.crash_after_sends(0, sends);
            let _ = cell.run_until(SECOND, |cell| !cell.runs(0));
            crash(&mut cell, &all);
            let has_marked = |slot: &usize| cell.record(*slot).instance() != before;
            let only = has_marked(&0) && !all[1..].iter().any(has_marked);
            start(&mut cell, &all);
            if !only {
                cell.run_for(6 * SECOND);
                assert!(nobody_is_in(&cell, &all), "the cell was founded without a command");
                cell.found_anew(0).expect("it looks for the cell");
            }
            cell.settle();
            let after = cell.instance(0).expect("it is in a view");
            assert!(after.generation() > before.generation(), "{after} follows {before}");
            cut_short += u32::from(only);
            cell.finish_clean();
        }
        assert!(cut_short > 0, "no one died at the moment that this is about");
    }
}

/// Founders of a dead cell lead ballots that find nothing to found, one after the other. The command comes when such a
/// ballot is about to reach the founder that is given it. That founder promises, and leads its own ballot before the
/// others lead again.
#[test]
fn ballots_of_others_do_not_put_a_command_off() {
    for seed in 0..10 {
        let mut cell = cell_of(4, 4, seed);
        start(&mut cell, &[0, 1, 2, 3]);
        cell.settle();
        crash(&mut cell, &[0, 1, 2, 3]);
        start(&mut cell, &[0, 1, 2, 3]);
        cell.run_for(6 * SECOND);
        let is_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_asked);
        cell.lose_if(move |packet| {
            asked.fetch_or(packet.to == 0 && packet.kind == Kind::Control, Ordering::Relaxed);
            false
        });
        assert!(cell.run_until(5 * SECOND, |_| is_asked.load(Ordering::Relaxed)), "nobody leads a ballot");
        cell.found_anew(0).expect("it looks for the cell");
        assert!(cell.run_until(1500 * MS, |cell| !nobody_is_in(cell, &[0])), "{:?}", cell.searching(0));
        cell.settle();
        cell.finish_clean();
    }
}

/// A second process of p2's name has just ended. p2 still hears it, and refuses the ballot of the founder that was
/// given the command. The next ballot comes soon after p2 has forgotten it.
#[test]
fn a_twin_that_has_ended_does_not_put_a_command_off_for_long() {
    let mut settings = WorldSettings::quiet(4);
    settings.founders = 3;
    settings.twins = vec![(3, 2)];
    let mut cell = Cell::new(settings, 16);
    start(&mut cell, &[0, 1, 2]);
    cell.settle();
    crash(&mut cell, &[0, 1, 2]);
    start(&mut cell, &[2]);
    cell.start(3);
    cell.run_for(2 * SECOND);
    crash(&mut cell, &[3]);
    start(&mut cell, &[0, 1]);
    cell.run_for(300 * MS);
    cell.found_anew(0).expect("it looks for the cell");
    cell.run_for(300 * MS);
    assert!(nobody_is_in(&cell, &[0, 1, 2]), "p2 took part while it heard another process of its name");
    assert!(cell.run_until(1200 * MS, |cell| !nobody_is_in(cell, &[0])), "{:?}", cell.searching(0));
    cell.settle();
    assert_eq!(cell.instance(0).map(CellInstance::generation), Some(2));
    cell.finish_clean();
}

/// The command is refused at one founder of three. With a second one it succeeds, and the third joins.
#[test]
fn a_minority_of_founders_founds_nothing_by_command() {
    let mut cell = dead_cell(6);
    start(&mut cell, &[0]);
    cell.run_for(SECOND);
    assert_eq!(cell.found_anew(0), Err(CommandError::TooFewFounders { here: 1, names: 3 }));
    cell.run_for(10 * SECOND);
    assert!(nobody_is_in(&cell, &[0]), "{:?}", cell.searching(0));
    start(&mut cell, &[1]);
    cell.run_for(2 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1]), "what was refused is not done later");
    cell.found_anew(0).expect("two of three look for the cell");
    cell.settle();
    assert_eq!(cell.instance(1).map(CellInstance::generation), Some(2));
    start(&mut cell, &[2]);
    cell.settle();
    cell.finish_clean();
}

/// The directories of all founders are emptied, one after the other, and each founder is admitted again. Then each has
/// a marker again.
#[test]
fn who_is_taken_in_has_a_mark() {
    let mut cell = cell_of(3, 3, 7);
    start(&mut cell, &[0, 1, 2]);
    cell.settle();
    for slot in 0..3 {
        cell.crash(slot);
        cell.empty_directory(slot);
        cell.run_for(3 * SECOND);
        start(&mut cell, &[slot]);
        cell.settle();
    }
    crash(&mut cell, &[0, 1, 2]);
    start(&mut cell, &[0, 1, 2]);
    cell.run_for(6 * SECOND);
    assert!(nobody_is_in(&cell, &[0, 1, 2]), "the cell was founded twice");
    cell.found_anew(0).expect("it looks for the cell");
    cell.settle();
    cell.finish_clean();
}

/// A supervisor's command is carried out once the last of the others is proved dead, and says until then who is not.
#[test]
fn a_supervisor_has_a_cell_reformed_if_all_others_are_proved_dead() {
    for seed in 0..10 {
        let mut cell = Cell::settled(3, seed);
        assert_eq!(cell.reform(2, ReformWhen::AllProvedDead), Err(CommandError::InPrimary));
        cell.cut_off(&[2]);
        crash(&mut cell, &[0, 1]);
        assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(2)));
        let why = |names: &str| Err(CommandError::NotProvedDead { names: names.to_owned() });
        assert_eq!(cell.reform(2, ReformWhen::AllProvedDead), why("p0, p1"));
        cell.tell_death(2, 0);
        assert_eq!(cell.reform(2, ReformWhen::AllProvedDead), why("p1"));
        cell.tell_death(2, 1);
        let before = cell.instance(2).map(CellInstance::generation).expect("it is in a view");
        cell.reform(2, ReformWhen::AllProvedDead).expect("both are proved dead");
        assert!(cell.run_until(20 * SECOND, |cell| cell.is_primary(2)));
        assert_eq!(cell.instance(2).map(CellInstance::generation), Some(before + 1));
        cell.heal();
        start(&mut cell, &[0, 1]);
        cell.settle();
        cell.finish_clean();
    }
}

/// Three of five die. A survivor reforms the cell with the group's state, the other survivor yields, and the restarted
/// ones take the state.
#[test]
fn a_survivor_reforms_its_cell_with_its_groups() {
    for seed in 0..10 {
        let mut cell = Cell::settled(5, seed);
        for slot in 0..5 {
            cell.multicast(slot, "a", Order::Total, Uniformity::Uniform, 40).expect("it is accepted");
        }
        cell.run_for(SECOND);
        assert_eq!(cell.reform(3, ReformWhen::Asked), Err(CommandError::InPrimary));
        crash(&mut cell, &[0, 1, 2]);
        assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(3) && !cell.is_primary(4)));
        let before = cell.instance(3).map(CellInstance::generation).expect("it is in a view");
        cell.reform(3, ReformWhen::Asked).expect("it hears no quorum");
        assert!(cell.run_until(20 * SECOND, |cell| cell.is_primary(3) && cell.is_primary(4)));
        start(&mut cell, &[0, 1, 2]);
        cell.settle();
        assert_eq!(cell.instance(3).map(CellInstance::generation), Some(before + 1));
        let kept = |slot| told(&cell, slot, |event| matches!(event, Event::StateKept { .. }));
        assert_eq!(kept(3) + kept(4), 1, "one of the survivors brings the state");
        assert_eq!(told(&cell, 4, |event| matches!(event, Event::Renounced { .. })), 1, "the other one yields");
        for slot in 0..3 {
            assert!(cell.transfers(slot) > 0, "p{slot} takes the state");
        }
        cell.finish_clean();
    }
}

/// Three of five die, and two survivors are ordered to reform the cell, the second because the first does not complete:
/// its application takes nothing, or it is stopped in the middle of its check. When it goes on, the second one may have
/// founded the next instance, or be about to.
#[test]
fn who_reforms_late_looks_again() {
    let late = (500..6_000).step_by(250);
    for (waits_ms, stops, first) in late.flat_map(|ms| [(ms, false, 3), (ms, false, 4), (ms, true, 3), (ms, true, 4)]) {
        let mut cell = Cell::settled(5, 17);
        let (_, ranks) = cell.cell_view(0).expect("in a view");
        let (first, second) = (ranks[first], ranks[7 - first]);
        crash(&mut cell, &ranks[..3]);
        assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(first) && !cell.is_primary(second)));
        cell.reform(first, ReformWhen::Asked).expect("it hears no quorum");
        cell.run_for(SECOND);
        if stops {
            cell.pause(first);
        } else {
            cell.set_takes(first, false);
        }
        cell.run_for(3 * SECOND);
        cell.reform(second, ReformWhen::Asked).expect("it hears no quorum");
        cell.run_for(waits_ms * MS);
        if stops {
            cell.resume(first);
        } else {
            cell.set_takes(first, true);
        }
        assert!(cell.run_until(20 * SECOND, |cell| cell.is_primary(first) && cell.is_primary(second)));
        assert_eq!(cell.instance(first), cell.instance(second), "after {waits_ms} ms the cell was founded twice");
        start(&mut cell, &ranks[..3]);
        cell.settle();
        cell.finish_clean();
    }
}

/// Two survivors are ordered to reform the cell at once. One goes on. That is so too if they do not hear each other,
/// and both hang after they have renounced their instance.
#[test]
fn two_that_reform_at_once_found_one_instance() {
    for (seed, hangs) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut cell = Cell::settled(5, seed);
        let (_, ranks) = cell.cell_view(0).expect("in a view");
        crash(&mut cell, &ranks[..3]);
        assert!(cell.run_until(10 * SECOND, |cell| ranks[3..].iter().all(|slot| !cell.is_primary(*slot))));
        if hangs {
            cell.cut_off(&ranks[4..]);
        }
        for slot in &ranks[3..] {
            cell.reform(*slot, ReformWhen::Asked).expect("it hears no quorum");
            cell.set_takes(*slot, !hangs);
        }
        cell.run_for(6 * SECOND);
        if hangs {
            cell.heal();
            ranks[3..].iter().for_each(|slot| cell.set_takes(*slot, true));
        }
        assert!(cell.run_until(20 * SECOND, |cell| ranks[3..].iter().all(|slot| cell.is_primary(*slot))));
        assert_eq!(cell.instance(ranks[3]), cell.instance(ranks[4]), "the cell was founded twice");
        start(&mut cell, &ranks[..3]);
        cell.settle();
        cell.finish_clean();
    }
}

/// The last decision did not reach the survivor: a view of its group, and a group. The groups that it decides after it
/// reformed the cell have other numbers.
#[test]
fn what_a_survivor_does_not_know_of_groups_keeps_its_numbers() {
    let mut cell = Cell::settled(4, 9);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let [first, second, third, last] = ranks[..] else { panic!("four members") };
    let before = cell.group_view(last, "a");
    cell.leave_group(third, "a").expect("it is in the group");
    cell.join(third, "b");
    assert!(cell.run_until(SECOND, |cell| cell.activity(first).proposing));
    cell.lose_if(move |packet| packet.to == last && packet.kind == Kind::Control);
    assert!(cell.run_until(SECOND, |cell| cell.group_view(second, "a") != before));
    cell.run_for(100 * MS);
    assert!(cell.group_view(third, "b").is_some() && cell.group_view(last, "a") == before);
    crash(&mut cell, &[first, second, third]);
    cell.heal();
    assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(last)));
    cell.reform(last, ReformWhen::Asked).expect("it hears no quorum");
    assert!(cell.run_until(20 * SECOND, |cell| cell.is_primary(last)));
    cell.join(last, "c");
    start(&mut cell, &[first, second, third]);
    cell.settle();
    cell.finish_clean();
}

/// A member is deaf to the quorum, which cannot exclude it, and hears a member that is not. It does not reform the
/// cell.
#[test]
fn who_hears_a_member_of_the_primary_does_not_reform() {
    let mut cell = Cell::settled(5, 4);
    let (_, ranks) = cell.cell_view(0).expect("in a view");
    let [.., other, deaf] = ranks[..] else { panic!("five members") };
    let before = cell.instance(deaf);
    cell.lose_if(move |packet| packet.kind == Kind::Control || packet.to == deaf && packet.from != other);
    assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(deaf)));
    cell.reform(deaf, ReformWhen::Asked).expect("it hears no quorum");
    cell.run_for(5 * SECOND);
    assert!(cell.is_primary(other) && !cell.is_primary(deaf));
    assert_eq!(cell.instance(deaf), before, "it founded another instance");
    cell.heal();
    cell.settle();
    cell.finish_clean();
}

/// A survivor of a minority reforms by mistake while the primary goes on. When they meet, no member of the primary
/// yields, and both sides are notified. The mistake shows in the traces.
#[test]
fn a_primary_never_yields() {
    let mut cell = Cell::settled(5, 8);
    cell.cut_off(&[3, 4]);
    assert!(cell.run_until(10 * SECOND, |cell| !cell.is_primary(3)));
    let old = cell.instance(0).expect("it is in a view");
    cell.reform(3, ReformWhen::Asked).expect("it hears no quorum");
    assert!(cell.run_until(20 * SECOND, |cell| cell.is_primary(3)));
    let new = cell.instance(3).expect("it is in a view");
    assert_eq!(new.generation(), old.generation() + 1);
    cell.heal();
    cell.run_for(20 * SECOND);
    assert!((0..3).all(|slot| cell.is_primary(slot) && cell.instance(slot) == Some(old)), "the primary yielded");
    assert!((0..3).any(|slot| cell.instances_met(slot) == [new]), "the primary is not told");
    assert!((3..5).any(|slot| cell.instances_met(slot) == [old]), "the other side is not told");
    crash(&mut cell, &[3, 4]);
    start(&mut cell, &[3, 4]);
    cell.settle();
    let result = cell.finish();
    let codes: BTreeSet<&str> = result.violations.iter().map(|violation| violation.code.as_str()).collect();
    let mistake = BTreeSet::from(["M6"]);
    assert!(codes.is_superset(&mistake), "{codes:?}: {}", result.story.unwrap_or_default());
}
