//! Evaluates each claim of the demonstration from the measurements.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx_check::Property;
use phalanx_runtime::config::show_duration;
use serde::Serialize;

use super::histogram::Histogram;
use super::ledger::{Ledger, STATE_BYTES};

/// One replica's ledger at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Audit {
    pub(super) member: String,
    pub(super) applied: u64,
    pub(super) digest: u64,
    pub(super) sum: u64,
}

/// The course of one failure, as observed by its survivors.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Loss {
    /// The member, and its fault.
    pub(super) what: String,
    /// From the fault to the first survivor's flush.
    pub(super) detected_ns: Option<u64>,
    /// From that flush to the last survivor's view without the victim.
    pub(super) view_change_ns: Option<u64>,
    /// The longest pause of deliveries at a survivor around the failure.
    pub(super) pause_ns: u64,
    /// Bytes of state that it received on its return.
    pub(super) state_bytes: u64,
    /// Duration of that transfer.
    pub(super) transfer_ns: u64,
    /// Whether the transfer was complete.
    pub(super) whole: bool,
}

/// The measurements of the whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Measured {
    pub(super) losses: Vec<Loss>,
    pub(super) audits: Vec<Audit>,
    /// Own updates delivered at their senders, over all incarnations.
    pub(super) acknowledged: u64,
    /// Asks of a member that all members answered, each with the same updates applied.
    pub(super) agreed: u64,
    /// Time for which updates were fed, in nanoseconds.
    pub(super) fed_ns: u64,
    #[serde(skip)]
    pub(super) latency: Histogram,
    /// Whether the stopped member was notified of its exclusion.
    pub(super) exclusion_told: bool,
    /// Whether, with two of four stopped, the others reported that they are no quorum, and all went on together
    /// afterwards.
    pub(super) half_told: bool,
    /// Exit code of the checker. `None`: it did not exit.
    pub(super) checker: Option<i32>,
    /// The checker's last line.
    pub(super) checker_says: String,
    /// Number of times the checker put each property to the test.
    pub(super) tested: BTreeMap<Property, u64>,
}

/// One claim and whether it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Claim {
    pub(super) held: bool,
    pub(super) text: String,
}

/// Members of the demonstration.
pub(super) const MEMBERS: usize = 4;

/// Failures of the demonstration: two kills and a stop.
pub(super) const LOSSES: usize = 3;

/// Evaluates the measurements.
pub(super) fn judge(measured: &Measured) -> Vec<Claim> {
    let audits = &measured.audits;
    let first = audits.first();
    let same = audits.len() == MEMBERS
        && audits.iter().all(|a| Some((a.applied, a.digest)) == first.map(|f| (f.applied, f.digest)));
    let applied = first.map_or(0, |audit| audit.applied);
    let mut claims = vec![
        Claim {
            held: same,
            text: if same {
                format!(
                    "{MEMBERS} replicas applied the same {applied} updates in the same order and hold equal ledgers"
                )
            } else {
                format!("the replicas differ: {}", list(audits))
            },
        },
        Claim {
            held: audits.len() == MEMBERS && audits.iter().all(|audit| audit.sum == Ledger::sum_due()),
            text: format!("no money was made or lost: every ledger sums to {}", Ledger::sum_due()),
        },
        Claim {
            held: measured.acknowledged > 0 && applied >= measured.acknowledged,
            text: format!(
                "nothing acknowledged was forgotten: {} updates came back to their senders, {applied} are in the ledger",
                measured.acknowledged
            ),
        },
    ];
    claims.push(Claim {
        held: measured.agreed > 0,
        text: format!(
            "{} times a member asked all how many updates they had applied, and which: all answers were the same",
            measured.agreed
        ),
    });
    for loss in &measured.losses {
        let held = loss.whole && loss.state_bytes >= STATE_BYTES;
        let text = format!(
            "{}: back with {} MiB of state in {}",
            loss.what,
            loss.state_bytes >> 20,
            rounded(loss.transfer_ns)
        );
        claims.push(Claim { held, text });
    }
    claims.push(Claim {
        held: measured.losses.len() == LOSSES && measured.losses.iter().all(|loss| loss.view_change_ns.is_some()),
        text: format!("{} of {LOSSES} failures led to a new view at all survivors", measured.losses.len()),
    });
    claims.push(Claim {
        held: measured.half_told,
        text: "two of four were no quorum, said so, and went on when the others were back".to_owned(),
    });
    claims.push(Claim {
        held: measured.exclusion_told,
        text: "the stopped member learned of its exclusion and came back as a new incarnation".to_owned(),
    });
    claims.push(Claim {
        held: measured.checker == Some(0),
        text: format!("the checker on all traces: {}", measured.checker_says),
    });
    claims
}

fn list(audits: &[Audit]) -> String {
    let one = |audit: &Audit| format!("{} {} updates, digest {:016x}", audit.member, audit.applied, audit.digest);
    audits.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Formats a time with three digits.
pub(super) fn rounded(ns: u64) -> String {
    let mut unit = 1;
    while ns / unit >= 1_000 {
        unit *= 10;
    }
    show_time(ns / unit * unit)
}

fn show_time(ns: u64) -> String {
    match ns {
        0..1_000 => show_duration(Duration::from_nanos(ns)),
        1_000..1_000_000 => format!("{} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{} ms", ns as f64 / 1e6),
        _ => format!("{} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Measured {
        let audit = |member: &str| Audit { member: member.to_owned(), applied: 9, digest: 7, sum: Ledger::sum_due() };
        let loss = Loss {
            what: "a killed".to_owned(),
            detected_ns: Some(1),
            view_change_ns: Some(2),
            pause_ns: 3,
            state_bytes: STATE_BYTES,
            transfer_ns: 4,
            whole: true,
        };
        Measured {
            losses: vec![loss; LOSSES],
            audits: ["a", "b", "c", "d"].map(audit).to_vec(),
            acknowledged: 8,
            agreed: 6,
            fed_ns: 1,
            latency: Histogram::default(),
            exclusion_told: true,
            half_told: true,
            checker: Some(0),
            checker_says: "good".to_owned(),
            tested: BTreeMap::new(),
        }
    }

    fn broken(change: impl FnOnce(&mut Measured)) -> usize {
        let mut measured = good();
        change(&mut measured);
        judge(&measured).iter().filter(|claim| !claim.held).count()
    }

    #[test]
    fn all_good_is_good() {
        assert_eq!(broken(|_| {}), 0);
    }

    #[test]
    fn each_claim_can_be_broken() {
        assert_eq!(broken(|m| m.audits[2].digest ^= 1), 1);
        assert_eq!(broken(|m| m.audits[0].applied += 1), 1);
        assert_eq!(broken(|m| drop(m.audits.pop())), 2);
        assert_eq!(broken(|m| m.audits[1].sum -= 1), 1);
        assert_eq!(broken(|m| m.acknowledged = 10), 1);
        assert_eq!(broken(|m| m.agreed = 0), 1);
        assert_eq!(broken(|m| m.losses[0].state_bytes -= 1), 1);
        assert_eq!(broken(|m| m.losses[1].whole = false), 1);
        assert_eq!(broken(|m| m.losses[1].view_change_ns = None), 1);
        assert_eq!(broken(|m| drop(m.losses.pop())), 1);
        assert_eq!(broken(|m| m.half_told = false), 1);
        assert_eq!(broken(|m| m.exclusion_told = false), 1);
        assert_eq!(broken(|m| m.checker = Some(1)), 1);
        assert_eq!(broken(|m| m.checker = None), 1);
    }

    #[test]
    fn times_for_people() {
        assert_eq!(rounded(0), "0ns");
        assert_eq!(rounded(1_234), "1.23 us");
        assert_eq!(rounded(98_765_432), "98.7 ms");
        assert_eq!(rounded(2_500_000_000), "2.5 s");
    }
}
