//! M11: levels, and processes that are kept out of a cell.

mod common;

use common::World;
use phalanx_check::{Options, Property, Report, Require, check};
use phalanx_trace::Event;

/// Two members; each records a level and what all know, in view 1 and in view 2.
fn run(asked: Option<u16>, told: [[(u16, u16); 2]; 2]) -> Report {
    let mut w = World::strangers(2);
    for view in [1, 2] {
        for p in [0, 1] {
            w.cell_view(p, view, &[0, 1], &[]);
            let (level, known) = told[usize::try_from(view).expect("small") - 1][p];
            w.push(p, Event::Level { level, known });
        }
        if let (1, Some(level)) = (view, asked) {
            w.push(0, Event::RiseAsked { level });
        }
    }
    judged(&w)
}

fn judged(w: &World) -> Report {
    check(&w.traces, &Options { complete: true, require: Require::Nothing, ..Options::default() })
}

fn breaks(report: &Report) -> bool {
    report.violated().contains(&Property::M11)
}

#[test]
fn a_level_rises_for_all_and_when_it_was_asked_for() {
    let rise = [[(1, 2); 2], [(2, 2); 2]];
    let report = run(Some(2), rise);
    assert!(!breaks(&report), "{report}");
    assert_eq!(report.instances(Property::M11), 4);
    assert!(breaks(&run(None, rise)), "nobody asked");
    assert!(breaks(&run(Some(3), rise)), "another was asked for");
    assert!(breaks(&run(Some(2), [[(1, 2); 2], [(2, 2), (1, 2)]])), "at one member only");
    assert!(breaks(&run(Some(2), [[(2, 2); 2], [(1, 2); 2]])), "it falls");
    assert!(breaks(&run(Some(2), [[(1, 2); 2], [(2, 1); 2]])), "a member does not know it");
    assert!(breaks(&run(Some(2), [[(1, 1); 2], [(2, 2); 2]])), "one that was there did not");
}

#[test]
fn who_is_kept_out_differs_and_all_are_told_the_same() {
    let run = |refusals: &[(usize, &str, &str)]| {
        let mut w = World::strangers(3);
        w.cell_view(0, 1, &[0], &[]);
        for (p, cell, own) in refusals {
            let setting = "limits.group_window".to_owned();
            w.push(*p, Event::Differs { setting, cell: (*cell).to_owned(), own: (*own).to_owned() });
        }
        judged(&w)
    };
    assert!(!breaks(&run(&[(1, "8", "4"), (2, "8", "2")])));
    assert!(breaks(&run(&[(1, "8", "8")])));
    assert!(breaks(&run(&[(1, "8", "4"), (2, "6", "2")])));
}

/// Founders announce their own values to each other; none of them is the cell's. A late one hears that when the others
/// are in the cell already.
#[test]
fn before_there_is_a_cell_its_founders_differ() {
    let mut w = World::strangers(3);
    let differs = |w: &mut World, p, cell: &str, own: &str| {
        let setting = "limits.group_window".to_owned();
        w.push(p, Event::Differs { setting, cell: cell.to_owned(), own: own.to_owned() });
    };
    differs(&mut w, 0, "4", "8");
    differs(&mut w, 1, "8", "4");
    w.cell_view(0, 1, &[0, 2], &[]);
    differs(&mut w, 2, "4", "8");
    w.cell_view(2, 1, &[0, 2], &[]);
    differs(&mut w, 1, "8", "4");
    assert!(!breaks(&judged(&w)));
    differs(&mut w, 1, "6", "4");
    assert!(breaks(&judged(&w)), "the cell's value does not change");
}
