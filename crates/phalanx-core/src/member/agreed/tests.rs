use std::net::SocketAddr;

use super::*;
use crate::id::Incarnation;

fn own() -> Agreed {
    Agreed::of(&Limits::default(), &Timing::default())
}

fn member(level: u16, own: &Agreed) -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut member = MemberInfo { level, ..MemberInfo::new(Incarnation(1), "m1", address, address) };
    own.tell(&mut member);
    member
}

#[test]
fn what_was_decided_takes_the_place_of_what_a_process_has() {
    let cell = Agreed {
        group_window_bytes: 1 << 20,
        watchers: 3,
        slow_members: SlowMembers::Expel,
        heartbeat: Duration::from_millis(50),
        suspect_after: Duration::from_millis(400),
        ballot_step: Duration::from_millis(70),
        expel_after: Duration::from_secs(3),
        members_min: 4,
    };
    let tags = cell.tags(LEVEL);
    assert!(Agreed::are_settings(&tags, LEVEL));
    assert_eq!(own().under(&tags), cell);
    let (mut limits, mut timing) = (Limits::default(), Timing::default());
    cell.apply(&mut limits, &mut timing);
    assert_eq!(Agreed::of(&limits, &timing), cell);
}

#[test]
fn settings_are_complete_possible_and_known() {
    let tags = own().tags(LEVEL);
    for setting in &SETTINGS {
        let mut without = Tags::default();
        tags.iter().filter(|(tag, _)| *tag != setting.tag).for_each(|(tag, bytes)| without.put(tag, bytes));
        assert!(!Agreed::are_settings(&without, LEVEL), "without {}", setting.name);
        for (value, possible) in [
            (*setting.range.start(), true),
            (*setting.range.end(), true),
            (setting.range.start().wrapping_sub(1), false),
            (*setting.range.end() + 1, false),
        ] {
            let mut with = tags.clone();
            with.put_number(setting.tag, value);
            assert_eq!(Agreed::are_settings(&with, LEVEL), possible, "{} is {value}", setting.name);
        }
    }
    let mut more = tags.clone();
    more.put_number(99, 1);
    assert!(!Agreed::are_settings(&more, LEVEL));
    assert!(Agreed::are_settings(&more, LEVEL + 1), "a leaver hears of a level that it does not know");
}

#[test]
fn a_window_beyond_what_can_be_in_force_is_taken_as_the_nearest_that_can() {
    let limits = Limits { group_window_bytes: 0, ..Limits::default() };
    let least = Agreed::of(&limits, &Timing::default());
    assert_eq!(least.group_window_bytes, 1);
    assert!(Agreed::are_settings(&least.tags(LEVEL), LEVEL));
}

#[test]
fn a_cell_of_level_1_has_no_minimum_and_a_rise_brings_it() {
    let cell = Agreed { members_min: 3, ..own() };
    let first = cell.tags(1);
    assert!(Agreed::are_settings(&first, 1) && !Agreed::are_settings(&first, 2));
    assert!(!Agreed::are_settings(&cell.tags(2), 1), "a setting of a later level");
    assert_eq!(Agreed::members_min(&first), 1);
    let brought = cell.new_at(2, &first);
    assert_eq!(brought.iter().map(|(tag, _)| tag).collect::<Vec<_>>(), [8]);
    assert_eq!(Agreed::members_min(&first.under(&brought)), 3);
    assert_eq!(mismatch(2, &first.under(&brought), &member(2, &own())), None, "a joiner takes it");
}

#[test]
fn a_joiner_is_refused_by_name_and_with_both_values() {
    let cell = own();
    let tags = cell.tags(1);
    assert_eq!(mismatch(1, &tags, &member(1, &cell)), None);
    let other = Agreed { group_window_bytes: 4 << 20, watchers: 2, ..cell.clone() };
    let differs = mismatch(1, &tags, &member(1, &other)).expect("its window differs");
    assert_eq!((&*differs.name, &*differs.cell, &*differs.other), ("limits.group_window", "8MiB", "4MiB"));
    let adopts = Agreed { watchers: 2, heartbeat: Duration::from_millis(70), ..cell };
    assert_eq!(mismatch(1, &tags, &member(1, &adopts)), None, "it takes the cell's");
    let differs = mismatch(2, &tags, &member(1, &adopts)).expect("level 2 is not known there");
    assert_eq!((&*differs.name, &*differs.cell, &*differs.other), ("level", "2", "1"));
}

#[test]
fn a_record_that_tells_nothing_of_a_setting_differs_in_nothing() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let silent = MemberInfo::new(Incarnation(1), "m1", address, address);
    assert_eq!(mismatch(1, &own().tags(1), &silent), None);
}

#[test]
fn a_rise_brings_what_is_new_and_is_hindered_by_who_cannot_follow() {
    let cell = own();
    let mut tags = Tags::default();
    cell.tags(1).iter().filter(|(tag, _)| *tag != 1).for_each(|(tag, bytes)| tags.put(tag, bytes));
    let brought = cell.new_at(1, &tags);
    assert_eq!(brought.iter().map(|(tag, _)| tag).collect::<Vec<_>>(), [1]);
    let other = Agreed { group_window_bytes: 4 << 20, ..cell.clone() };
    let members = vec![member(2, &cell), member(1, &other)];
    let directory = Directory::found(members, 1, tags);
    let hindered = |level, settings: &Tags, count: usize| {
        let rise = Rise { level, settings: settings.clone() };
        let mut directory = directory.clone();
        directory.members.truncate(count);
        rise.hindered_by(&directory).map(|(_, differs)| differs.name)
    };
    assert_eq!(hindered(2, &Tags::default(), 2), Some("level".to_owned()));
    assert_eq!(hindered(2, &Tags::default(), 1), None);
    assert_eq!(hindered(1, &brought, 2), Some("limits.group_window".to_owned()));
}

#[test]
fn a_refusal_with_texts_that_are_too_long_is_none() {
    let with = |len: usize| Mismatch { name: "x".repeat(len), cell: String::new(), other: String::new() };
    assert!(with(Mismatch::TEXT_BYTES_MAX).is_sound());
    assert!(!with(Mismatch::TEXT_BYTES_MAX + 1).is_sound());
}
