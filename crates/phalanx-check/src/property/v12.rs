//! V12, pending joins end: a join that takes state and was under way when the quiet phase began is done within the
//! bound, withdrawn, or its process is over.
//!
//! The bound counts from the last cell view. Evaluated only if V1 holds. (Calls are V15. Point-to-point messages
//! promise nothing that ends with an event.)
//!
//! Instances: such joins of running, connected processes. Source: as V6.

use super::{Run, v4, v6};
use crate::findings::Findings;

pub(super) fn check(run: &Run<'_>, out: &mut Findings) {
    if let Some(quiet) = v4::due(run) {
        v6::groups(run, quiet, out, |join| v6::is_pending_transfer(quiet, join));
    }
}
