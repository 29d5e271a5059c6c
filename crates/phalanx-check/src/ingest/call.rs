//! Reads records of calls.

use phalanx_trace::Event;

use super::Builder;
use crate::model::call::{Made, Ran};
use crate::model::{Moment, ProcIx};

impl Builder {
    pub(super) fn call_event(&mut self, me: ProcIx, event: &Event, moment: Moment) {
        match event {
            Event::Endpoint { address } => self.model.procs[me].endpoint = Some(address.clone()),
            Event::CallMade { call, to, idempotent, hash } => {
                self.now.made.insert(*call, self.model.calls.made.len());
                self.model.calls.made.push(Made {
                    caller: me,
                    number: *call,
                    to: to.clone(),
                    idempotent: *idempotent,
                    request: *hash,
                    made: moment,
                    within_ns: None,
                    told: Vec::new(),
                });
            }
            Event::CallDeadline { call, within_ns } => {
                if let Some(&call) = self.now.made.get(call) {
                    self.model.calls.made[call].within_ns = Some(*within_ns);
                }
            }
            // An outcome without its call or run is reported by E1.
            Event::CallEnded { call, outcome } => {
                if let Some(&call) = self.now.made.get(call) {
                    self.model.calls.made[call].told.push((*outcome, moment));
                }
            }
            Event::CallRan { run, from, hash } => {
                let caller = self.proc(*from);
                self.now.runs.insert(*run, self.model.calls.runs.len());
                self.model.calls.runs.push(Ran { server: me, caller, request: *hash, begun: moment, said: Vec::new() });
            }
            Event::CallAnswered { run, answer } => {
                if let Some(&run) = self.now.runs.get(run) {
                    self.model.calls.runs[run].said.push((*answer, moment));
                }
            }
            _ => {}
        }
    }
}
