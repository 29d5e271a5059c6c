//! X7: members without the state are agreed.

mod common;

use common::{GROUP, World, fifo, id};
use phalanx_check::Property;
use phalanx_trace::Event;

/// A third member joins a group of two. Each of the three is given a list of members that lack the state.
fn told(lists: [&[usize]; 3]) -> World {
    let mut w = World::cell(3);
    for p in 0..2 {
        w.ask_group(p, false);
        w.group_view(p, 1, None, &[0, 1], &[0, 1], &[]);
    }
    w.multicast(fifo(1, 1, 1), &[0, 1]);
    w.ask_group(2, false);
    for (p, list) in lists.iter().enumerate() {
        w.group_view(p, 2, (p < 2).then_some(1), &[0, 1, 2], &[2], &[]);
        let who: Vec<u64> = list.iter().map(|&member| id(member)).collect();
        if !who.is_empty() {
            w.push(p, Event::GroupIncomplete { group: GROUP, who });
        }
    }
    w
}

#[test]
fn x7_all_are_told_the_same() {
    let mut w = told([&[2], &[2], &[2]]);
    w.end(&[0, 1, 2]);
    w.holds(&[Property::X7]);
    assert_eq!(w.report().instances(Property::X7), 3);
    let mut none = told([&[], &[], &[]]);
    none.end(&[0, 1, 2]);
    assert_eq!(none.report().instances(Property::X7), 0);
}

#[test]
fn x7_one_is_told_of_another_or_of_nobody() {
    for other in [&[][..], &[0], &[0, 2]] {
        let mut w = told([&[2], &[2], other]);
        w.end(&[0, 1, 2]);
        w.breaks(Property::X7);
    }
}

#[test]
fn x7_who_sent_in_the_view_before_had_the_state() {
    let mut w = told([&[1, 2], &[1, 2], &[1, 2]]);
    w.end(&[0, 1, 2]);
    w.breaks(Property::X7);
}

/// Member 0 took a state, sent in the view before, and is told not to have the state in the next.
#[test]
fn x7_who_refused_the_state_may_have_sent() {
    for refuses in [false, true] {
        let mut w = World::taker(3, refuses);
        w.multicast(fifo(0, 2, 1), &[0, 1]);
        w.ask_group(2, false);
        for p in 0..3 {
            w.group_view(p, 3, (p < 2).then_some(2), &[1, 0, 2], &[2], &[]);
            w.push(p, Event::GroupIncomplete { group: GROUP, who: vec![id(0), id(2)] });
        }
        let report = w.report();
        assert_eq!(report.violated().contains(&Property::X7), !refuses, "{report}");
    }
}

#[test]
fn x7_asks_nothing_where_traces_have_no_word_for_it() {
    let mut w = told([&[2], &[2], &[]]);
    w.end(&[0, 1, 2]);
    w.traces[2].header.format = phalanx_trace::FORMAT_IN_DOUBT - 1;
    w.holds(&[Property::X7]);
}
