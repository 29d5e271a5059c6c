//! The core's events as records of a trace.

use phalanx_core::{
    CellView, Delivery, Domain, Event, GroupId, GroupView, Incarnation, LeaveReason, MessageToOne, Order, OwnDomain,
    Sent, ToOneKind, ToOneOutcome, Uniformity, ViewNumber,
};
use phalanx_trace::{Event as Record, payload_hash};

/// An order, as a trace names it.
#[must_use]
pub fn order(order: Order) -> phalanx_trace::Order {
    match order {
        Order::Fifo => phalanx_trace::Order::Fifo,
        Order::Causal => phalanx_trace::Order::Causal,
        Order::Total => phalanx_trace::Order::Total,
    }
}

/// The record of a multicast that is bound to a view. `hash` is that of its payload.
#[must_use]
pub fn sent(group: GroupId, Sent { view, seq }: Sent, of: Order, uniformity: Uniformity, hash: u64) -> Record {
    let uniform = uniformity.is_uniform();
    Record::Send { group: group.0, view: view.0, seq: seq.0, order: order(of), uniform, hash }
}

/// The record of a message to one member. `hash` is that of its payload.
#[must_use]
pub fn sent_to_one(group: GroupId, view: ViewNumber, to: Incarnation, kind: ToOneKind, hash: u64) -> Record {
    Record::ToOneSend { group: group.0, view: view.0, to: to.0, is_answer: kind.is_answer(), hash }
}

/// The record of a message to this process alone.
#[must_use]
pub fn to_one(message: &MessageToOne<'_>) -> Record {
    Record::ToOneDeliver {
        group: message.group.0,
        view: message.view.0,
        from: message.sender.0,
        is_answer: message.kind.is_answer(),
        hash: payload_hash(message.payload),
    }
}

/// The record of what became of messages to one member.
#[must_use]
pub fn settled(group: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) -> Record {
    let outcome = match outcome {
        ToOneOutcome::Delivered => phalanx_trace::ToOneOutcome::Delivered,
        ToOneOutcome::NotDelivered => phalanx_trace::ToOneOutcome::NotDelivered,
        ToOneOutcome::InDoubt => phalanx_trace::ToOneOutcome::InDoubt,
    };
    Record::ToOneSettled { group: group.0, to: to.0, outcome, messages }
}

pub(super) fn delivery(delivery: &Delivery<'_>) -> Record {
    Record::Deliver {
        group: delivery.group.0,
        view: delivery.view.0,
        sender: delivery.sender.0,
        seq: delivery.seq.0,
        order: order(delivery.order),
        uniform: delivery.uniformity.is_uniform(),
        position: delivery.position,
        hash: payload_hash(delivery.payload),
        replayed: delivery.replayed,
    }
}

/// The record that precedes the one of leaving a group: the reason, if this process did not request to leave.
#[must_use]
pub fn lost(group: GroupId, why: LeaveReason) -> Option<Record> {
    let why = reason(why);
    (why != phalanx_trace::LeaveReason::Left).then_some(Record::GroupLost { group: group.0, why })
}

/// The record of an event, if it precedes the handler's call.
pub(super) fn event(event: &Event) -> Option<Record> {
    Some(match event {
        Event::CellView(view) => cell_view(view),
        Event::GroupView(view) => group_view(view),
        Event::GroupViewReplayed(view) => group_view_replayed(view),
        Event::Unsent { group, messages } => Record::Unsent { group: group.0, messages: *messages },
        Event::InDoubt { to, messages } => Record::InDoubt { to: to.0, messages: *messages },
        Event::GroupLeft { group, .. } => Record::GroupLeft { group: group.0 },
        Event::NonPrimary { .. } => Record::NonPrimary,
        Event::Primary => Record::Primary,
        Event::Excluded { view } => Record::Excluded { view: view.0 },
        Event::Renounced { generation } => Record::Renounced { generation: *generation },
        Event::Left => Record::Left,
        Event::EndInDoubt { groups, members } => {
            Record::EndInDoubt { groups: groups.clone(), members: members.clone() }
        }
        Event::Differs { setting, cell, own } => {
            Record::Differs { setting: setting.clone(), cell: cell.clone(), own: own.clone() }
        }
        Event::GroupAdequacy { group, view, adequate } => {
            Record::GroupAdequacy { group: group.0, view: view.0, adequate: *adequate }
        }
        Event::GroupForgotten { group, view, kept, .. } => Record::Forgotten {
            group: group.0,
            view: view.0,
            kept: kept.as_ref().map(|kept| kept.iter().map(|(who, count)| (who.0, *count)).collect()),
        },
        Event::StateBegin { group, bytes, .. } => Record::SnapshotIn { group: group.0, bytes: *bytes },
        Event::StateAnew { group, .. } => Record::SnapshotIn { group: group.0, bytes: 0 },
        _ => return None,
    })
}

fn cell_view(view: &CellView) -> Record {
    Record::CellView {
        instance: view.instance.0,
        view: view.view.0,
        members: view.members.iter().map(|m| (m.incarnation.0, m.name.clone())).collect(),
        left: left(&view.left),
    }
}

/// The record that follows one of a cell view: its level.
pub(super) fn level(view: &CellView) -> Record {
    Record::Level { level: view.level, known: view.members.iter().map(|m| m.level).min().unwrap_or_default() }
}

/// The record after that: the cell's minimum.
pub(super) fn cell_minimum(view: &CellView) -> Record {
    Record::CellMinimum { members: view.members_min as u64 }
}

/// The record that follows one of a group view: its terms.
pub(super) fn group_terms(view: &GroupView) -> Record {
    Record::GroupTerms {
        group: view.group.0,
        uniform: view.terms.uniformity.is_uniform(),
        members_min: u64::from(view.terms.members_min),
        adequate: view.adequate,
    }
}

/// The record after that, if some member does not have the group's state yet.
#[must_use]
pub fn group_incomplete(view: &GroupView) -> Option<Record> {
    let who: Vec<u64> = view.incomplete.iter().map(|who| who.0).collect();
    (!who.is_empty()).then_some(Record::GroupIncomplete { group: view.group.0, who })
}

/// The record after that, if some member observes.
#[must_use]
pub fn group_observers(view: &GroupView) -> Option<Record> {
    let who: Vec<u64> = view.observers.iter().map(|who| who.0).collect();
    (!who.is_empty()).then_some(Record::GroupObservers { group: view.group.0, who })
}

/// The record after that, or after a view within a state transfer: the list of the group's domains, if it keeps one.
#[must_use]
pub fn group_domains(view: &GroupView) -> Option<Record> {
    view.domains.as_ref().map(|list| listed(view.group, view.view, list))
}

/// The record after the view of a snapshot, if the group keeps a list of its domains.
#[must_use]
pub fn listed(group: GroupId, view: ViewNumber, list: &[Domain]) -> Record {
    let list = list.iter().map(|domain| (domain.name.clone(), domain.version)).collect();
    Record::GroupDomains { group: group.0, view: view.0, list }
}

/// The record after that of a delivery, if it goes to one domain alone.
#[must_use]
pub fn delivered_to(delivery: &Delivery<'_>) -> Option<Record> {
    delivery.domain.map(|domain| Record::DeliveredTo {
        group: delivery.group.0,
        view: delivery.view.0,
        sender: delivery.sender.0,
        seq: delivery.seq.0,
        domain: domain.0,
    })
}

/// The record after that of a request for a group: what the process has for its state, if that is more than the state itself.
#[must_use]
pub fn own_domains(name: &str, with_state: bool, own: &[OwnDomain]) -> Option<Record> {
    let says = with_state && *own != [OwnDomain::unnamed()];
    let shown = |own: &OwnDomain| (own.domain.name.clone(), own.domain.version, own.is_optional);
    says.then(|| Record::OwnDomains { name: name.to_owned(), own: own.iter().map(shown).collect() })
}

fn group_view(view: &GroupView) -> Record {
    Record::GroupView {
        group: view.group.0,
        name: view.name.to_string(),
        view: view.view.0,
        prev: view.prev.map(|view| view.0),
        members: view.members.iter().map(|m| m.0).collect(),
        joined: view.joined.iter().map(|m| m.0).collect(),
        left: left(&view.left),
    }
}

/// The record that follows the begin of a snapshot: the view in which it was frozen.
#[must_use]
pub fn snapshot_view(group: GroupId, view: ViewNumber) -> Record {
    Record::SnapshotView { group: group.0, view: view.0 }
}

/// A view within a state transfer.
#[must_use]
pub fn group_view_replayed(view: &GroupView) -> Record {
    Record::GroupViewReplayed {
        group: view.group.0,
        view: view.view.0,
        members: view.members.iter().map(|m| m.0).collect(),
        joined: view.joined.iter().map(|m| m.0).collect(),
        left: left(&view.left),
    }
}

/// Members that left and their reasons, as a trace names them.
#[must_use]
pub fn left(left: &[(Incarnation, LeaveReason)]) -> Vec<(u64, phalanx_trace::LeaveReason)> {
    left.iter().map(|(who, why)| (who.0, reason(*why))).collect()
}

/// A reason to leave, as a trace names it.
#[must_use]
pub fn reason(reason: LeaveReason) -> phalanx_trace::LeaveReason {
    match reason {
        LeaveReason::Left => phalanx_trace::LeaveReason::Left,
        LeaveReason::Died => phalanx_trace::LeaveReason::Died,
        LeaveReason::Unreachable => phalanx_trace::LeaveReason::Unreachable,
        LeaveReason::TooSlow => phalanx_trace::LeaveReason::TooSlow,
        LeaveReason::Nonsense => phalanx_trace::LeaveReason::Nonsense,
        LeaveReason::Anew => phalanx_trace::LeaveReason::Anew,
        LeaveReason::Stopped => phalanx_trace::LeaveReason::Stopped,
        LeaveReason::NoProgress => phalanx_trace::LeaveReason::NoProgress,
    }
}
