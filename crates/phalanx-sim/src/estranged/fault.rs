//! What the world keeps of members that are strangers to their cell.

use phalanx_core::CellInstance;

/// The members in this fault, and how far it has come.
#[derive(Clone, Debug)]
pub(crate) struct Estranged {
    /// The one that stays in the earlier instance.
    pub(crate) stays: usize,
    pub(super) before: CellInstance,
    /// The one of the next instance that hears no quorum.
    pub(super) lone: Option<usize>,
    pub(super) met: bool,
    pub(super) cut: Vec<(usize, usize)>,
}
