//! R5, one end: each call has one outcome, and nothing of a call that was reported as not executed runs later.
//!
//! Instances: calls with an outcome. Source: Birrell and Nelson, "Implementing Remote Procedure Calls" (TOCS 2:1,
//! 1984); `docs/rpc.md`, "What a caller is told".

use super::{Run, r4};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let model = run.model;
    let mut counted = Findings::new(super::Property::R4, 0);
    for (call, told, ran) in r4::not_executed(model, &mut counted) {
        if r4::is_after(run, ran, told) {
            out.violation(&[call.made.place, told.place, ran.begun.place], || {
                let (caller, server) = (model.who(call.caller), model.who(ran.server));
                format!(
                    "call {} of {caller} was reported as not executed, and runs at {server} after that",
                    call.number
                )
            });
        }
    }
    for call in model.calls.made.iter().filter(|call| !call.told.is_empty()) {
        out.instance();
        if let [(first, first_at), .., (last, last_at)] = &call.told[..] {
            out.violation(&[call.made.place, first_at.place, last_at.place], || {
                let caller = model.who(call.caller);
                format!("call {} of {caller} ended twice: {first}, and then {last}", call.number)
            });
        }
    }
}
