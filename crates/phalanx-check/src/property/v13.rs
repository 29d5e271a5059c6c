//! V13, others broken for good: let a quiet phase name its connected processes (`C`), while processes outside of `C`
//! stay dead, stopped, cut off, or come and go for ever. Then V1, V3 and V4 hold for `C` with the same bounds.
//!
//! In such a phase they are reported here and not under their own codes, so that a campaign without such a phase shows.
//!
//! Instances: those of V1, V3 and V4. Source: the liveness mode of `TigerBeetle`'s simulator: a healthy core must
//! converge while the rest stays broken.

use super::{Run, v1, v3, v4};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    let quiet = match &run.quiet {
        Ok(quiet) if quiet.broken_outside && quiet.impaired_ns.is_none() => quiet,
        Err(why) if run.model.others_stay_broken() && run.model.harness.impaired.is_none() => {
            return v1::in_vain(run, *why, out);
        }
        _ => return,
    };
    v1::judge(run, quiet, out);
    if out.violations == 0 {
        v3::judge(run, quiet, out);
        v4::judge(run, quiet, out);
    }
}
