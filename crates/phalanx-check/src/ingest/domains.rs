//! Reads what is said of the domains of groups' states.

use phalanx_trace::Event;

use super::Builder;
use crate::model::domains::{Listed, Named, Own};
use crate::model::{MessageIx, Moment, ProcIx};

/// Reads a record about domains.
pub(super) fn read(builder: &mut Builder, me: ProcIx, event: &Event, moment: Moment) {
    match event {
        Event::OwnDomains { name, own } => {
            let own = Own { proc: me, group: name.clone(), domains: own.clone(), moment };
            builder.model.domains.own.push(own);
        }
        Event::GroupDomains { group, view, list } => {
            let group = builder.group(*group);
            let (view, list) = (*view, list.clone());
            builder.model.domains.lists.push(Listed { proc: me, group, view, list, moment });
        }
        Event::DeliveredTo { group, view, sender, seq, domain } => {
            let sender = builder.proc(*sender);
            match last_delivered(builder, *group, (*view, sender, *seq)) {
                Some(message) => {
                    builder.model.domains.named.push(Named { proc: me, message, domain: *domain, moment });
                }
                None => builder.malformed("a message to a domain that it did not deliver"),
            }
        }
        _ => {}
    }
}

/// The message of the group that was recorded last as delivered, if it is that of this view, sender and number.
fn last_delivered(builder: &Builder, group: u32, (view, sender, seq): (u64, ProcIx, u64)) -> Option<MessageIx> {
    let message = match builder.now.open.get(&group) {
        Some(&epoch) => builder.model.epochs[epoch].steps.last().filter(|step| !step.sent)?.message,
        None => builder.now.transfers.get(&group)?.replayed.last()?.step.message,
    };
    let (stream, number) = (builder.model.stream_of(message), builder.model.messages[message as usize].seq);
    let is_it = builder.model.views[stream.view].number == view && stream.sender == sender && number == seq;
    is_it.then_some(message)
}
