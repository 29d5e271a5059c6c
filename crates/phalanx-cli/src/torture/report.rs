//! The protocol between a torture member and the harness: one JSON object a line.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Number of calls that the endpoint on each host has answered.
pub(super) type Answered = BTreeMap<IpAddr, u64>;

/// Reports from a member to the harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Report {
    /// An incarnation begins.
    Begin { incarnation: u64 },
    /// Its endpoint of calls is ready. It lives as long as the process.
    Endpoint { incarnation: u64 },
    /// An incarnation of its process in the second cell begins.
    Second { incarnation: u64 },
    /// A cell view was installed; names in rank order.
    Cell { view: u64, members: Vec<String> },
    /// A view of the group that all members are in was installed; names in rank order.
    Work { view: u64, members: Vec<String> },
    /// The member hears a quorum again, or no longer.
    Primary { primary: bool },
    /// A decided view does not contain this member.
    Excluded,
    /// Its state; sent ten times a second.
    Pulse(Pulse),
    /// The member itself found an error.
    Wrong { what: String },
}

/// State of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pulse {
    /// Number of its last own message accepted in the group of all.
    pub(super) sent: u64,
    /// Number of the last message received from each sender of that group's view, by incarnation.
    pub(super) heard: Vec<(u64, u64)>,
    /// The same for uniform abcasts.
    pub(super) uniform: Vec<(u64, u64)>,
    /// The sequencer of that group: its token holder.
    pub(super) orders: Option<String>,
    /// Its answered calls.
    pub(super) answered: Answered,
    /// Its submits whose results it was told.
    pub(super) results: u64,
    /// The wall clock as the member reads it, in seconds since 1970.
    pub(super) wall_s: u64,
}

/// Orders from the harness to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Order {
    /// Leave the group of all and join it again. The member then has the last rank.
    Regroup,
    /// From now on delay each poll by this much; 0: not at all.
    Dawdle { ms: u64 },
    /// The application stops taking what comes of its groups, or takes it again.
    Hang { hangs: bool },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_read_back_as_lines() {
        let pulse = Pulse {
            sent: 3,
            heard: vec![(u64::MAX, 1), (2, u64::MAX)],
            uniform: vec![(2, 7)],
            orders: Some("m1".to_owned()),
            answered: Answered::from([(IpAddr::from([10, 77, 0, 1]), 4)]),
            results: 5,
            wall_s: 9,
        };
        for report in [
            Report::Begin { incarnation: u64::MAX },
            Report::Work { view: 2, members: vec!["m1".to_owned()] },
            Report::Excluded,
            Report::Pulse(pulse),
        ] {
            let line = serde_json::to_string(&report).expect("it is plain data");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Report>(&line).expect("own line"), report);
        }
        for order in [Order::Regroup, Order::Dawdle { ms: 200 }, Order::Hang { hangs: true }] {
            let line = serde_json::to_string(&order).expect("it is plain data");
            assert_eq!(serde_json::from_str::<Order>(&line).expect("own line"), order);
        }
    }
}
