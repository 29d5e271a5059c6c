//! The bounds of a run: how long joins, view changes and deliveries may take. They grow with the longest exchange
//! between two members; `docs/costs.md` says why, and a test compares.

use crate::clock::{MS, SECOND};

/// Bounds in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// From the quiet phase's begin to one common view of all.
    pub(crate) settle_ns: u64,
    /// From a send in the quiet phase to its deliveries.
    pub(crate) deliver_ns: u64,
    /// From a request to join, in a settled cell, to the first view.
    pub(crate) join_ns: u64,
    /// A view change blocks the sends of a member of a settled cell.
    pub(crate) flush_ns: u64,
    /// Until a process that no quorum reaches considers itself cut off.
    pub(crate) cut_off_ns: u64,
    /// From the last activity of any application to the calm.
    pub(crate) calm_ns: u64,
    /// A stopped member holds up the others, beyond the bound of a cell of near members.
    pub(crate) hostage_more_ns: u64,
}

/// Name of each bound in `docs/costs.md`, its part for near members in milliseconds, and its number of exchanges.
const FORMULA: [(&str, u64, u64); 7] = [
    ("one common view after the heal", 10_000, 48),
    ("a multicast is delivered", 4_000, 8),
    ("a join of the cell or of a group", 5_000, 24),
    ("a view change blocks sends", 5_000, 8),
    ("a process knows that it is cut off", 5_000, 4),
    ("only heartbeats are left", 2_000, 4),
    ("a stopped member holds up the others", 0, 8),
];

/// What a donor sends of its states in an exchange: two chunks, of which one waits while the other is sent.
const STATE_OF_EXCHANGE_BYTES: u64 = 60_000;

/// The most states that one process takes: those of two groups.
const STATES: u64 = 2;

impl Bounds {
    /// The bounds of a cell whose longest exchange between two members takes `exchange_ns`, 0 if all members are near and
    /// on time, and whose groups have states of `state_bytes`.
    pub(crate) fn of(exchange_ns: u64, state_bytes: u64) -> Self {
        let [settle_ns, deliver_ns, join_ns, flush_ns, cut_off_ns, calm_ns, hostage_more_ns] =
            FORMULA.map(|(_, near_ms, exchanges)| near_ms * MS + exchanges * exchange_ns);
        let states_ns = (STATES * state_bytes).div_ceil(STATE_OF_EXCHANGE_BYTES) * exchange_ns;
        let (settle_ns, join_ns) = (settle_ns + states_ns, join_ns + states_ns);
        Self { settle_ns, deliver_ns, join_ns, flush_ns, cut_off_ns, calm_ns, hostage_more_ns }
    }

    /// The time for which the faults of a plan are put off, so that founding takes no larger share of the run than in a
    /// cell of near members.
    pub(crate) fn founding_more_ns(exchange_ns: u64) -> u64 {
        (10 * exchange_ns).min(20 * SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SETTLE_NS;
    use crate::run::DELIVER_NS;

    #[test]
    fn near_members_have_the_bounds_of_all_campaigns() {
        let near = Bounds::of(0, 300_000);
        assert_eq!((near.settle_ns, near.deliver_ns, near.join_ns), (SETTLE_NS, DELIVER_NS, SETTLE_NS / 2));
        let default = phalanx_check::Options::default();
        assert_eq!((near.flush_ns, near.cut_off_ns), (default.flush_bound_ns, default.cut_off_bound_ns));
        assert_eq!((near.calm_ns, near.hostage_more_ns), (default.calm_bound_ns, 0));
    }

    /// The rows of `docs/costs.md`, *Far and late members*.
    #[test]
    fn the_documents_tell_the_formula() {
        let docs = include_str!("../../../docs/costs.md");
        for (what, near_ms, exchanges) in FORMULA {
            let near = if near_ms == 0 { "as near".to_owned() } else { format!("{} s", near_ms / 1000) };
            let row = format!("| {what} | {near} + {exchanges} X |");
            assert!(docs.contains(&row), "no row {row}");
        }
    }
}
