use super::*;
use crate::id::ViewNumber;
use crate::wire::{Space, Tags};

fn entry(members: &[u64], tail: Tags) -> GroupEntry {
    let members = members.iter().copied().map(Incarnation).collect();
    GroupEntry { name: "g".into(), view: ViewNumber(1), space: Space(1), members, tail }
}

fn change(left: &[u64]) -> GroupChange {
    let left = left.iter().map(|who| (Incarnation(*who), crate::api::LeaveReason::Left)).collect();
    let (cut, joined, tail) = (None, Vec::new(), Tags::default());
    GroupChange { group: GroupId(1), name: "g".into(), view: ViewNumber(2), space: Space(2), cut, joined, left, tail }
}

#[test]
fn a_group_takes_those_that_ask_for_what_it_is_and_observers() {
    let all = [Role::Stateless, Role::State, Role::Observer];
    let of = |has_state: Option<bool>| {
        let mut change = change(&[]);
        has_state.into_iter().for_each(|has_state| change.note_has_state(has_state));
        let entry = entry(&[1], change.tail);
        assert_eq!(entry.has_state(), has_state);
        all.map(|role| entry.suits(role))
    };
    assert_eq!(of(Some(true)), [false, true, true]);
    assert_eq!(of(Some(false)), [true, false, true]);
    assert_eq!(of(None), [true; 3], "nothing is agreed");
}

#[test]
fn who_leaves_observes_no_longer_and_may_come_again_with_the_state() {
    let who = |numbers: &[u64]| numbers.iter().copied().map(Incarnation).collect::<Vec<_>>();
    let mut first = change(&[]);
    first.note_observers(&entry(&[1], Tags::default()), &who(&[2, 3]));
    let with_two = entry(&[1, 2, 3], first.tail);
    assert_eq!(with_two.observers(), who(&[2, 3]));
    let mut second = change(&[3]);
    second.note_observers(&with_two, &[]);
    // It came again as another kind of member.
    let after = entry(&[1, 2, 3], with_two.tail.under(&second.tail));
    assert_eq!(after.observers(), who(&[2]));
    assert!(after.has_observer(Incarnation(2)) && !after.has_observer(Incarnation(3)));
    let mut none = change(&[]);
    none.note_observers(&entry(&[1], Tags::default()), &[]);
    assert!(none.tail.is_empty(), "a group without observers says nothing");
}
