//! How a process ended.

use std::fmt;

/// How a process ended: [`Cell::end`](crate::Cell::end) and [`CellChange::Over`](crate::CellChange::Over). Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It left in order, because it was asked to.
    Left,
    /// It left as one of the last, and something may be lost with the cell; see [`LeaveError::InDoubt`](crate::LeaveError::InDoubt).
    InDoubt,
    /// Its health check ([`CellBuilder::health_check`](crate::CellBuilder::health_check)) made it leave.
    Unhealthy {
        /// What the check found, for people.
        why: String,
    },
    /// It was excluded, and was started to [stay out](crate::CellBuilder::stay_out).
    Excluded,
    /// It was stopped before it had left: the patience of its leave ran out, or a panic dropped its last handle. The others take it
    /// for dead.
    Stopped,
    /// Its protocol thread ended after an error or a panic. A notice says which.
    Failed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("left the cell"),
            Self::InDoubt => f.write_str("left the cell in doubt, as one of its last members"),
            Self::Unhealthy { why } => write!(f, "left the cell, because {why}"),
            Self::Excluded => f.write_str("excluded from the cell, and stays out"),
            Self::Stopped => f.write_str("stopped before it had left the cell"),
            Self::Failed => f.write_str("the protocol thread failed"),
        }
    }
}
