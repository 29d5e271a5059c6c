//! Room for new groups at and beyond its bounds.

use std::net::SocketAddr;

use super::*;
use crate::id::ViewNumber;
use crate::member::{Orphan, OrphanHolder};
use crate::wire::{Space, Tags};

fn member(number: u64, seat: u64) -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut info = MemberInfo::new(Incarnation(number), format!("m{number}"), address, address);
    info.sit(seat);
    info
}

/// A directory with groups that wait, each for these holders by incarnation and seat, and with a name of so many bytes.
fn waiting(groups: &[(&[(u64, u64)], usize)]) -> Directory {
    let mut directory = Directory::found((1..=3).map(|number| member(number, number)).collect(), 3, Tags::default());
    for (number, (holders, bytes)) in (1..).zip(groups) {
        let holder =
            |&(who, seat): &(u64, u64)| OrphanHolder { who: Incarnation(who), seat, stayed: true, name: String::new() };
        let orphan = Orphan { members: 2, holders: holders.iter().map(holder).collect() };
        let number_of = number.to_string();
        let name = "0".repeat(bytes - number_of.len()) + &number_of;
        let (view, space) = (ViewNumber(1), Space(number));
        let entry = GroupEntry { name, view, space, members: Vec::new(), tail: Tags::default() };
        directory.groups.insert(GroupId(number), entry.waiting_for(orphan));
        (directory.next_group, directory.next_space) = (number + 1, Space(number + 1));
    }
    directory
}

/// Bytes of an entry that waits for one holder, without those of its name.
fn beside_the_name() -> usize {
    let room = GroupRoom::of(&waiting(&[(&[(10, 10)], 1)]));
    room.bytes[&Share::Seat(10)] - 1
}

#[test]
fn who_has_its_share_waiting_makes_no_group_and_others_do() {
    let bytes = SEAT_BYTES_MAX - beside_the_name();
    let (below, full) = (waiting(&[(&[(10, 7)], bytes - 1)]), waiting(&[(&[(10, 7)], bytes)]));
    let takes = |directory: &Directory, seat| GroupRoom::of(directory).takes(&member(1, seat));
    assert!(takes(&below, 7) && !takes(&full, 7), "at the bound, and one byte below");
    assert!(takes(&full, 8) && takes(&full, 0), "the shares of others are theirs");
    let lack = GroupRoom::of(&full).lack(&member(1, 7));
    assert_eq!(lack, Some(NoRoom { waiting: 1, bytes: SEAT_BYTES_MAX, bytes_max: SEAT_BYTES_MAX }));
    // However much waits for one process, it counts for the others as its share.
    assert!(takes(&waiting(&[(&[(10, 7)], 4 * WAITING_BYTES_MAX)]), 8));
}

#[test]
fn two_that_are_waited_for_have_a_half_each() {
    let directory = waiting(&[(&[(10, 7), (11, 8)], SEAT_BYTES_MAX)]);
    assert!([7, 8].iter().all(|seat| GroupRoom::of(&directory).takes(&member(1, *seat))));
}

#[test]
fn without_a_seat_each_life_has_a_share() {
    let directory = waiting(&[(&[(10, 0)], SEAT_BYTES_MAX)]);
    let mut back = member(1, 0);
    assert!(GroupRoom::of(&directory).takes(&back));
    back.keeps(&[Incarnation(10)]);
    assert!(!GroupRoom::of(&directory).takes(&back), "it is the one that the group waits for");
}

#[test]
fn no_group_is_made_while_as_many_bytes_wait_as_may() {
    let bytes = SEAT_BYTES_MAX - beside_the_name();
    let holders: Vec<[(u64, u64); 1]> = (10..14).map(|number| [(number, number)]).collect();
    let mut groups: Vec<(&[(u64, u64)], usize)> = holders.iter().map(|holder| (&holder[..], bytes)).collect();
    let full = GroupRoom::of(&waiting(&groups));
    let lack = NoRoom { waiting: 4, bytes: WAITING_BYTES_MAX, bytes_max: WAITING_BYTES_MAX };
    assert_eq!(full.lack(&member(1, 1)), Some(lack));
    groups[3].1 -= 1;
    assert!(GroupRoom::of(&waiting(&groups)).takes(&member(1, 1)));
    // One of them is back, and its groups with it.
    assert!(GroupRoom::of(&waiting(&groups[..3])).takes(&member(1, 1)));
}

#[test]
fn a_name_finds_its_group() {
    let directory = waiting(&[(&[(10, 7)], 3), (&[(11, 8)], 5)]);
    let names = GroupNames::of(&directory);
    for name in ["001", "00002", "2"] {
        assert_eq!(names.get(name), directory.group_named(name), "{name}");
    }
}
