//! What a member of the torture tells the harness, one JSON object a line, and what it is told.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// How many calls the endpoint on each host has answered.
pub(super) type Answered = BTreeMap<IpAddr, u64>;

/// From a member to the harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Report {
    /// A life begins.
    Begin { incarnation: u64 },
    /// Its endpoint of calls, which lives as long as the process, is ready.
    Endpoint { incarnation: u64 },
    /// A cell view was installed; names in rank order.
    Cell { view: u64, members: Vec<String> },
    /// A view of the group that all members are in was installed; names in rank order.
    Work { view: u64, members: Vec<String> },
    /// A quorum is heard again, or no more.
    Primary { primary: bool },
    /// A decided view does not hold this member.
    Excluded,
    /// Where it stands; told ten times a second.
    Pulse(Pulse),
    /// It found something wrong itself.
    Wrong { what: String },
}

/// Where a member stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pulse {
    /// The last of its own messages in the group of all that was accepted.
    pub(super) sent: u64,
    /// The last message that came in from each sender of that group's view, by incarnation.
    pub(super) heard: Vec<(u64, u64)>,
    /// The last uniform abcast of each sender there.
    pub(super) uniform: Vec<(u64, u64)>,
    /// Who orders that group's abcasts.
    pub(super) orders: Option<String>,
    /// Its calls that were answered.
    pub(super) answered: Answered,
    /// The wall clock as the member reads it, in seconds since 1970.
    pub(super) wall_s: u64,
}

/// From the harness to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Order {
    /// Leave the group of all and join it again: the last rank is the new one.
    Regroup,
    /// From now on each turn takes so long more; 0: as it should.
    Dawdle { ms: u64 },
    /// The application takes nothing any more, or takes again.
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
