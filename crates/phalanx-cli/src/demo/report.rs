//! The protocol between a member of the demonstration and its parent: one JSON object a line.

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;

/// Reports from a member to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Report {
    /// An incarnation begins.
    Begin {
        /// Its number.
        incarnation: u64,
    },
    /// A view change was observed: this member's streams are stopped.
    Flush { at_ns: u64 },
    /// A view of the group was installed.
    View {
        at_ns: u64,
        view: u64,
        /// Names in rank order.
        members: Vec<String>,
    },
    /// A donor's state begins to arrive.
    StateBegin { at_ns: u64, bytes: u64 },
    /// A donor's state has been received completely.
    StateEnd { at_ns: u64, whole: bool },
    /// A view of the cell was installed, in the primary partition.
    Cell {
        /// Names in rank order.
        members: Vec<String>,
    },
    /// The member began to hear a quorum of its view, or ceased to.
    Primary { primary: bool },
    /// A decided view does not contain this member.
    Excluded { at_ns: u64, view: u64 },
    /// Its progress; sent ten times a second.
    Progress {
        at_ns: u64,
        /// Updates applied to the ledger since it was opened.
        applied: u64,
        /// Own updates delivered here in this incarnation.
        returned: u64,
        /// Own asks that all members answered alike, since the last report.
        agreed: u64,
        /// Times from sending an update to its own delivery, in nanoseconds, since the last report.
        latency: Histogram,
        /// The longest pause between two deliveries since the last report, in nanoseconds.
        pause_ns_max: u64,
    },
    /// A consistent summary of the whole ledger.
    Audit {
        /// Updates applied.
        applied: u64,
        /// Digest of every balance and of the order of all updates.
        digest: u64,
        /// Sum of all balances.
        sum: u64,
    },
    /// The member left the cell gracefully.
    Left,
    /// The member cannot go on.
    Failed { why: String },
}

/// Orders from the parent to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Order {
    /// Send this many updates a second, evenly spaced; 0: none.
    Feed { rate: u64 },
    /// Answer with [`Report::Audit`].
    Audit,
    /// Leave gracefully and end.
    Leave,
}

/// Nanoseconds of the machine's monotonic clock, which all processes of the host share.
pub(super) fn now_ns() -> u64 {
    phalanx_runtime::clock::now().nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_read_back_as_lines() {
        let mut latency = Histogram::default();
        latency.add(1_000);
        for report in [
            Report::Begin { incarnation: u64::MAX },
            Report::View { at_ns: 1, view: 2, members: vec!["a".to_owned(), "b".to_owned()] },
            Report::Progress { at_ns: 1, applied: 2, returned: 3, agreed: 5, latency, pause_ns_max: 4 },
            Report::Primary { primary: false },
            Report::Left,
        ] {
            let line = serde_json::to_string(&report).expect("it is plain data");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Report>(&line).expect("own line"), report);
        }
        let order = serde_json::to_string(&Order::Feed { rate: 5 }).expect("it is plain data");
        assert_eq!(serde_json::from_str::<Order>(&order).expect("own line"), Order::Feed { rate: 5 });
    }
}
