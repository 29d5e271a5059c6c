//! Selects the part of a run that is worth a picture: the surroundings of a violation.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use phalanx_trace::{Event, Record};

use super::diagram::Diagram;
use super::text::seconds;

/// A message: group, view, sender, number.
pub(super) type MessageId = (u32, u64, u64, u64);

/// The subject of the first finding.
#[derive(Debug)]
pub(super) struct Focus {
    /// Its time.
    pub(super) at_ns: Option<u64>,
    /// Times of its proofs.
    proofs_ns: Vec<u64>,
    /// Messages that prove something.
    pub(super) messages: BTreeSet<MessageId>,
    /// Groups it concerns; empty: all.
    groups: BTreeSet<u32>,
}

/// Time drawn before and after the proofs of a violation.
const AROUND_NS: u64 = 150_000_000;
/// Bound on the time drawn before a violation, unless a window is requested.
const BEFORE_NS: u64 = 3_000_000_000;
/// Bound on the moments in a picture.
const MOMENTS_MAX: usize = 1500;

impl Focus {
    pub(super) fn new(diagram: &Diagram<'_>) -> Self {
        let first = diagram.findings.iter().find(|finding| !finding.evidence.is_empty());
        let first = first.or(diagram.findings.first());
        let mut focus = Self {
            at_ns: first.map(|finding| finding.at_ns),
            proofs_ns: Vec::new(),
            messages: BTreeSet::new(),
            groups: BTreeSet::new(),
        };
        for &(trace, record) in first.iter().flat_map(|finding| &finding.evidence) {
            let Some(trace) = diagram.traces.get(trace) else { continue };
            let Some(record) = trace.records.get(record) else { continue };
            focus.proofs_ns.push(record.at_ns);
            focus.groups.extend(group_of(&record.event));
            focus.messages.extend(message_of(trace.header.incarnation, &record.event));
        }
        focus
    }

    /// Whether the finding concerns a group.
    pub(super) fn wants_group(&self, group: u32) -> bool {
        self.groups.is_empty() || self.groups.contains(&group)
    }

    /// The time span to draw.
    pub(super) fn window(&self, diagram: &Diagram<'_>, remarks: &mut Vec<String>) -> RangeInclusive<u64> {
        let asked = diagram.window.clone();
        let window = asked.or_else(|| self.around()).unwrap_or_else(|| whole(diagram));
        let mut moments: Vec<u64> = diagram
            .traces
            .iter()
            .flat_map(|trace| &trace.records)
            .filter(|record| window.contains(&record.at_ns) && is_drawn(record))
            .map(|record| record.at_ns)
            .collect();
        if moments.len() <= MOMENTS_MAX {
            return window;
        }
        moments.sort_unstable();
        let from_ns = moments[moments.len() - MOMENTS_MAX];
        remarks.push(format!(
            "{} events do not fit into one picture: what came before {} s is left out. Ask for less time.",
            moments.len(),
            seconds(from_ns)
        ));
        from_ns..=*window.end()
    }

    fn around(&self) -> Option<RangeInclusive<u64>> {
        let at_ns = self.at_ns?;
        let first = self.proofs_ns.iter().copied().min().unwrap_or(at_ns.saturating_sub(BEFORE_NS));
        let last = self.proofs_ns.iter().copied().max().unwrap_or(at_ns).max(at_ns);
        let from_ns = first.saturating_sub(AROUND_NS).max(last.saturating_sub(BEFORE_NS));
        Some(from_ns..=last + AROUND_NS)
    }
}

/// The span from the first record to the last.
fn whole(diagram: &Diagram<'_>) -> RangeInclusive<u64> {
    let moments = || diagram.traces.iter().flat_map(|trace| &trace.records).map(|record| record.at_ns);
    moments().min().unwrap_or(0)..=moments().max().unwrap_or(0)
}

/// Whether a record is drawn. Messages are counted separately.
fn is_drawn(record: &Record) -> bool {
    !matches!(
        record.event,
        Event::Send { .. }
            | Event::Deliver { .. }
            | Event::Digest { .. }
            | Event::P2pSend { .. }
            | Event::P2pDeliver { .. }
    )
}

fn group_of(event: &Event) -> Option<u32> {
    match event {
        Event::Send { group, .. }
        | Event::Deliver { group, .. }
        | Event::GroupView { group, .. }
        | Event::GroupLeft { group }
        | Event::SnapshotOut { group, .. }
        | Event::SnapshotIn { group, .. }
        | Event::StateEnd { group, .. }
        | Event::Digest { group, .. } => Some(*group),
        _ => None,
    }
}

/// The multicast that a record of `who` refers to.
pub(super) fn message_of(who: u64, event: &Event) -> Option<MessageId> {
    match event {
        Event::Send { group, view, seq, .. } => Some((*group, *view, who, *seq)),
        Event::Deliver { group, view, sender, seq, replayed: false, .. } => Some((*group, *view, *sender, *seq)),
        _ => None,
    }
}
