//! The messages of a picture: those that prove something, and those nearest to them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use phalanx_trace::{Event, Order};

use super::diagram::Diagram;
use super::select::{Focus, MessageId, message_of};
use super::text::Names;

/// A multicast under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrow {
    pub(super) label: String,
    /// Place and time of its send, if drawn.
    pub(super) sent: Option<(usize, u64)>,
    /// Places and times of its deliveries.
    pub(super) delivered: Vec<(usize, u64)>,
    /// Whether it proves something.
    pub(super) is_proof: bool,
    pub(super) is_uniform: bool,
}

/// Messages drawn around a violation, and in a requested window.
const AROUND_MAX: usize = 24;
const WINDOW_MAX: usize = 120;

pub(super) fn collect(
    diagram: &Diagram<'_>,
    columns: &[String],
    names: &Names,
    focus: &Focus,
    window: &RangeInclusive<u64>,
    remarks: &mut Vec<String>,
) -> Vec<Arrow> {
    let mut all: BTreeMap<MessageId, Arrow> = BTreeMap::new();
    for trace in diagram.traces {
        let Some(column) = columns.iter().position(|column| *column == trace.header.node) else { continue };
        for record in trace.records.iter().filter(|record| window.contains(&record.at_ns)) {
            let Some(id) = message_of(trace.header.incarnation, &record.event) else { continue };
            let is_proof = focus.messages.contains(&id);
            if !is_proof && !focus.wants_group(id.0) {
                continue;
            }
            let arrow = all.entry(id).or_default();
            arrow.is_proof = is_proof;
            let point = (column, record.at_ns);
            match record.event {
                Event::Send { order, uniform, .. } => {
                    arrow.sent = Some(point);
                    describe(arrow, names, id, order, uniform);
                }
                Event::Deliver { order, uniform, .. } => {
                    arrow.delivered.push(point);
                    describe(arrow, names, id, order, uniform);
                }
                _ => {}
            }
        }
    }
    let total = all.len();
    let near = focus.at_ns.unwrap_or(*window.end());
    let distance = |arrow: &Arrow| {
        let moments = arrow.sent.iter().chain(&arrow.delivered).map(|(_, at_ns)| at_ns.abs_diff(near));
        moments.min().unwrap_or(u64::MAX)
    };
    let mut nearest: Vec<(bool, u64, MessageId)> =
        all.iter().map(|(id, arrow)| (!arrow.is_proof, distance(arrow), *id)).collect();
    nearest.sort_unstable();
    nearest.truncate(if diagram.window.is_some() { WINDOW_MAX } else { AROUND_MAX });
    if nearest.len() < total {
        remarks.push(format!("Of {total} messages in this time the {} nearest are drawn.", nearest.len()));
    }
    let mut kept: Vec<MessageId> = nearest.into_iter().map(|(_, _, id)| id).collect();
    kept.sort_unstable();
    kept.into_iter().filter_map(|id| all.remove(&id)).collect()
}

fn describe(arrow: &mut Arrow, names: &Names, (_, _, sender, seq): MessageId, order: Order, uniform: bool) {
    let letter = match order {
        Order::Fifo => 'F',
        Order::Causal => 'C',
        Order::Total => 'T',
    };
    arrow.is_uniform = uniform;
    arrow.label = format!("{}#{seq} {letter}{}", names.of(sender), if uniform { "u" } else { "" });
}
