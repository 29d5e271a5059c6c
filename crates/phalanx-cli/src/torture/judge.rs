//! Runs the checker on the traces of one cell, and assigns each violation to a fault.

use std::path::{Path, PathBuf};

use phalanx_check::{Options, Property, Report, check_files};

use super::outcome::Outcome;
use crate::exit::{Failure, While};

/// Bound in the quiet phase until all are in one view...
pub(super) const MEMBERSHIP_BOUND_NS: u64 = 5_000_000_000;
/// ... and until a message is delivered.
pub(super) const DELIVERY_BOUND_NS: u64 = 4_000_000_000;

/// Evaluates the traces. Adds violations to the outcomes they belong to.
pub(super) fn judge(traces: &Path, outcomes: &mut [Outcome]) -> Result<Report, Failure> {
    let doing = format!("cannot list {}", traces.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(traces).when(&doing)? {
        files.push(entry.when(&doing)?.path());
    }
    files.sort();
    let options = Options {
        complete: true,
        one_instance: true,
        membership_bound_ns: MEMBERSHIP_BOUND_NS,
        delivery_bound_ns: DELIVERY_BOUND_NS,
        ..Options::default()
    };
    let report = check_files(&files, &options).when("cannot check the traces")?;
    for property in report.properties.iter().filter(|property| property.violations > 0) {
        for violation in &property.first {
            let at_ns = violation.evidence.iter().filter_map(|evidence| time_of(&evidence.text)).max();
            let text = format!("{}: {}", property.property.code(), violation.summary);
            if let Some(outcome) = owner(outcomes, at_ns) {
                outcome.violations.push(text);
            }
        }
        // The checker keeps only the first few violations; the rest is counted.
        let more = property.violations.saturating_sub(property.first.len() as u64);
        if let (1.., Some(outcome)) = (more, owner(outcomes, None)) {
            outcome.violations.push(format!("{}: {more} more in this bout", property.property.code()));
        }
    }
    let codes = |which: Vec<Property>| which.iter().map(|property| property.code()).collect::<Vec<_>>().join(", ");
    let given_up: Vec<Property> = report.properties.iter().filter(|p| p.given_up > 0).map(|p| p.property).collect();
    for (what, which) in [("never put to the test", report.missing.clone()), ("took too long to check", given_up)] {
        if let (false, Some(last)) = (which.is_empty(), outcomes.last_mut()) {
            last.violations.push(format!("{what}: {}", codes(which)));
        }
    }
    Ok(report)
}

/// The last fault that had begun at that time.
fn owner(outcomes: &mut [Outcome], at_ns: Option<u64>) -> Option<&mut Outcome> {
    let at_ns = at_ns.unwrap_or(u64::MAX);
    let spot = outcomes.iter().rposition(|outcome| outcome.began_ns <= at_ns).unwrap_or(0);
    outcomes.get_mut(spot)
}

/// The time at the beginning of a record's text, like `12.000000345 s`.
fn time_of(text: &str) -> Option<u64> {
    let (seconds, nanos) = text.split_once(" s ")?.0.split_once('.')?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::fault::{Fault, Role};

    #[test]
    fn records_tell_their_time() {
        let record = phalanx_trace::Record { at_ns: 12_000_000_345, event: phalanx_trace::Event::Start };
        assert_eq!(time_of(&record.to_string()), Some(12_000_000_345));
        assert_eq!(time_of("nothing"), None);
    }

    #[test]
    fn a_violation_belongs_to_the_last_fault_before_it() {
        let outcome = |began_ns| Outcome {
            bout: 1,
            fault: Fault::Kill,
            role: Role::Joiner,
            member: String::new(),
            began_ns,
            excluded_ms: None,
            recovered_ms: None,
            waited_ms: 0,
            promised_ms: None,
            violations: Vec::new(),
        };
        let mut all = [outcome(10), outcome(20)];
        let began = |all: &mut [Outcome], at_ns| owner(all, at_ns).map(|o| o.began_ns);
        assert_eq!(began(&mut all, Some(15)), Some(10));
        assert_eq!(began(&mut all, Some(20)), Some(20));
        assert_eq!(began(&mut all, Some(5)), Some(10));
        assert_eq!(began(&mut all, None), Some(20));
        assert_eq!(began(&mut [], None), None);
    }
}
