//! V13, others broken for good: in a quiet phase that names who is connected (`C`), while processes outside of `C` stay dead,
//! stopped, cut off, or come and go for ever, V1, V3 and V4 hold for `C` with the same bounds.
//!
//! In such a phase they are judged here and not under their own codes, so that a run without one shows.
//!
//! Instances: those of V1, V3 and V4. Source: the liveness mode of `TigerBeetle`'s simulator: a healthy core must
//! converge while the rest stays broken.

use super::{Run, v1, v3, v4};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let Some(quiet) = run.quiet.as_ref().ok().filter(|q| q.broken_outside && q.impaired_ns.is_none()) else { return };
    v1::judge(run, quiet, out);
    if out.violations == 0 {
        v3::judge(run, quiet, out);
        v4::judge(run, quiet, out);
    }
}
