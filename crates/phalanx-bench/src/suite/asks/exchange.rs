//! One exchange after the other between the members of a cell: what is measured of asks, here and beside peers.

use std::time::Duration;

use crate::cell::Cell;
use crate::choice::Interface;
use crate::crew::PATIENCE;
use crate::error::BenchError;
use crate::protocol::{AskPlan, Command, Report};
use crate::row::Quantiles;

/// A byte, about as much as a packet holds on an Ethernet, and several of these.
pub(super) const SIZES: [usize; 3] = [1, 1_100, 7 << 10];
pub(super) const MEMBERS: [usize; 3] = [2, 3, 4];

/// Says so if members have no processor each.
pub(super) fn crowd(members: usize) -> &'static str {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if members > processors { "; more processes than processors" } else { "" }
}

/// Something of which one follows the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Ask(Interface, AskPlan),
    ByHand {
        uniform: bool,
    },
    /// Makes this number of calls, one after the other.
    Calls(usize),
}

impl What {
    pub(super) fn name(self) -> String {
        match self {
            Self::Ask(Interface::Calls, _) => "A13: broadcast in three phases over calls".to_owned(),
            Self::Ask(interface, AskPlan { want, with_self, uniform, .. }) => {
                let itself = if with_self { "with self" } else { "without self" };
                let plain = if uniform { "" } else { ", plain" };
                let interface = if interface == Interface::Inline { "" } else { interface.name() };
                let comma = if interface.is_empty() { "" } else { ", " };
                format!("ask of {} {itself}{plain}{comma}{interface}", want.name())
            }
            Self::ByHand { uniform: true } => "by hand: an abcast, and a message back from each".to_owned(),
            Self::ByHand { uniform: false } => "by hand, plain".to_owned(),
            Self::Calls(1) => "a call".to_owned(),
            Self::Calls(calls) => format!("{calls} calls in turn"),
        }
    }
}

/// Times of single exchanges, which the youngest member begins.
pub(super) fn exchange(cell: &mut Cell, what: What, size: usize, time: Duration) -> Result<Quantiles, BenchError> {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let youngest = cell.youngest();
    youngest.tell(&match what {
        What::ByHand { uniform } => Command::ByHand { size, uniform, nanos },
        What::Ask(_, ask) => Command::Ask { ask, nanos },
        What::Calls(_) => unreachable!("members make no calls"),
    })?;
    let times = youngest.hear("its times", time + PATIENCE, |report| match report {
        Report::Times(times) => Some(*times),
        _ => None,
    })?;
    cell.settle()?;
    cell.unchanged()?;
    Ok(times)
}
