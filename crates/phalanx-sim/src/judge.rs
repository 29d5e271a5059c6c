//! Converts the checker's report into violations and counts of a seed.

use std::fmt::Write;

use phalanx_check::{Evidence, Property, Report};

use crate::options::Draw;
use crate::result::{Counters, Violation};
use crate::timeline::Proofs;

/// The checker's violations, at the time of the last record that proves each.
pub(crate) fn violations(report: &Report) -> Vec<Violation> {
    let broken = report.properties.iter().filter(|property| property.violations > 0);
    let each = broken.flat_map(|property| property.first.iter().map(move |first| (property, first)));
    // A search that was given up proves nothing, so it counts as a violation.
    let given_up = report.properties.iter().filter(|property| property.given_up > 0).map(|property| Violation {
        code: property.property.code().to_owned(),
        at_ns: 0,
        text: format!("{}: took too long to check, {} times", property.title, property.given_up),
    });
    let found = each.map(|(property, first)| {
        let mut text = format!("{}: {}", property.title, first.summary);
        for Evidence { file, text: record, .. } in &first.evidence {
            let _ = write!(text, "\n      {file}: {record}");
        }
        Violation {
            code: property.property.code().to_owned(),
            at_ns: first.evidence.iter().filter_map(at_ns).max().unwrap_or(0),
            text,
        }
    });
    found.chain(given_up).collect()
}

/// The records that prove the first violations of a property, by the checker's names of their traces.
pub(crate) fn proofs(report: &Report, code: &str) -> Proofs {
    let broken = report.properties.iter().filter(|property| property.property.code() == code);
    let evidence = broken.flat_map(|property| &property.first).flat_map(|first| &first.evidence);
    evidence.map(|evidence| (evidence.file.clone(), evidence.index)).collect()
}

/// Adds the number of times each property was put to the test.
pub(crate) fn count(report: &Report, counters: &mut Counters) {
    counters.cell_views = report.stats.cell_views as u64;
    counters.group_views = report.stats.group_views as u64;
    let outcomes = &report.stats.outcomes;
    (counters.stable, counters.doubted) = (outcomes.stable, outcomes.in_doubt);
    counters.lossy_changes = report.stats.lossy_changes as u64;
    for property in &report.properties {
        counters.checked.insert(property.property.code().to_owned(), property.instances);
        if property.under_failure > 0 {
            let code = format!("{} under failure", property.property.code());
            counters.checked.insert(code, property.under_failure);
        }
        if property.given_up > 0 {
            let code = format!("{} given up", property.property.code());
            counters.checked.insert(code, property.given_up);
        }
    }
}

/// Properties that a campaign never put to the test, though plans of that kind could.
pub(crate) fn never_checked(totals: &Counters, draw: Draw) -> Vec<String> {
    // With partly broken paths, V14 replaces the properties of a whole cell.
    let beyond: &[Property] = match draw {
        Draw::Partial => &[Property::V1, Property::V2, Property::V5, Property::V10, Property::V13, Property::V16],
        Draw::Swarm | Draw::Plain => &[Property::V14],
        // These have no inboxes of groups.
        Draw::Mild(_) | Draw::Rare => &[Property::V14, Property::V16],
        // They have floors of their own, and the other campaigns ask for all properties.
        Draw::States | Draw::Only(_) => Property::ALL,
    };
    // Members of simulated cells make no calls; those have a simulation of their own.
    let is_of_calls = |property: &&Property| Property::OF_CALLS.contains(property);
    let within = Property::ALL.iter().filter(|property| !beyond.contains(property) && !is_of_calls(property));
    let codes = within.map(|property| property.code());
    let never = codes.filter(|code| totals.checked.get(*code).is_none_or(|count| *count == 0));
    never.map(str::to_owned).collect()
}

/// The time with which a record's text begins, in seconds.
fn at_ns(evidence: &Evidence) -> Option<u64> {
    let (seconds, rest) = evidence.text.split_once('.')?;
    let nanos = rest.split(' ').next()?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use phalanx_trace::{Event, Header, Trace};

    use super::*;

    #[test]
    fn a_broken_property_becomes_a_violation_with_its_time() {
        let mut trace = Trace::new(Header::process("cell", "a", 7, "clock"));
        trace.push(0, Event::Start);
        trace.push(1, Event::JoinAsked { cell: "cell".into() });
        let members = vec![(8, "b".into())];
        trace.push(2_000_000_003, Event::CellView { instance: 1, view: 1, members, left: vec![] });
        let report = phalanx_check::check(&[trace], &phalanx_check::Options::default());
        let found = violations(&report);
        assert_eq!((found[0].code.as_str(), found[0].at_ns), ("M1", 2_000_000_003));
        let mut counters = Counters::default();
        count(&report, &mut counters);
        assert!(counters.checked["M1"] > 0);
        assert!(never_checked(&counters, Draw::Swarm).contains(&"U1".to_owned()));
        assert!(!never_checked(&counters, Draw::Swarm).contains(&"M1".to_owned()));
    }
}
