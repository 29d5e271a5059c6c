//! The names that a program may choose for a group.

use phalanx_core::check_name;

use crate::error::JoinError;

/// Checks the name of a group that is about to be joined.
pub(crate) fn check_group_name(name: &str, is_reserved: bool) -> Result<(), JoinError> {
    check_name(name).map_err(|bad| JoinError::BadName(bad.to_string()))?;
    if name.starts_with(RESERVED) && !is_reserved {
        return Err(JoinError::BadName(format!("names that begin with {RESERVED} are the library's own")));
    }
    Ok(())
}

/// Names of tools' domains begin with this: only messages that name one of them are for it.
pub(crate) const TOOL: &str = "tool.";

/// Names of the library's own groups begin with this.
pub(crate) const RESERVED: &str = "phalanx.";
