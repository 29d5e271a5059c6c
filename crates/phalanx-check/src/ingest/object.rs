//! Reads records of the objects that the members of a group replicate.

use phalanx_trace::Event;

use super::Builder;
use crate::model::object::{Balance, Call, Use};
use crate::model::{Moment, ProcIx};

impl Builder {
    pub(super) fn object_event(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        match *event {
            Event::Invoke { group: id, op, action } => {
                let (group, asked_in) = (self.group(id), self.now.open.get(&id).copied());
                let call = Call { proc: me, group, action, invoke: moment, asked_in, answer: None };
                self.now.calls.insert(op, (self.model.objects.calls.len(), id));
                self.model.objects.calls.push(call);
            }
            Event::Return { op, outcome } => {
                // An answer without its invocation is reported by E1.
                if let Some((call, id)) = self.now.calls.remove(&op) {
                    let came_in = self.now.open.get(&id).copied();
                    self.model.objects.calls[call].answer = Some((outcome, moment, came_in));
                }
            }
            Event::Guard { resource, serial, token, accepted } => {
                let place = moment.place;
                self.model.objects.uses.push(Use { resource, serial, token, accepted, place });
            }
            Event::Balance { group, sum } => {
                let group = self.group(group);
                self.model.objects.balances.push(Balance { group, sum, place: moment.place });
            }
            _ => {}
        }
    }
}
