//! U4, no early acknowledgement: a sender learns that its uniform `m` will survive by delivering it itself. If `p`
//! delivers its own uniform `m` in `v` then every `q` with `v -> w` has `m in del_q(v)`, whatever becomes of `p`.
//!
//! There is no other acknowledgement, and none for plain messages. (What a sender delivers after a cell view without it
//! is M7.)
//!
//! Instances and *under failure*: as U1, for a process's own messages. Source: as U1; the name answers a defect of
//! replicated stores that acknowledged before their copies held the write.

use super::{Run, u1};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    u1::judge(run, out, |e, step| {
        let p = run.model.epochs[e].proc;
        let own = run.model.stream_of(step.message).sender == p;
        (own && run.dropped.before(run, p, step).is_none()).then_some(None)
    });
}
