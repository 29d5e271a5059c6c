//! The connection of a client's session to its server: whether it is asked for, open or closed.

use crate::rpc::path::SessionPath;
use crate::transitions::transitions;

/// The state of a session at its client.
#[allow(clippy::large_enum_variant, reason = "a session is mostly open; a box would cost each packet a load")]
pub(super) enum Connection {
    Asking,
    Open(SessionPath),
    Closed,
}

transitions! {
    /// [`Connection`] without its data.
    pub(super) states SessionState {
        /// The server is asked for a session for as long as there are calls to make.
        Asking,
        /// The server has opened it, and calls run in it.
        Open,
        /// The application closed it.
        Closed,
    }
    begin Asking; end [Closed];
    pub(super) events SessionEvent {
        /// The server opens it.
        Open (Asking => Open),
        /// The server does not know it any more, or this endpoint has no number left for its packets.
        Lose (Open => Asking),
        /// The application closes it.
        Close (Asking | Open => Closed),
    }
}

impl Connection {
    fn state(&self) -> SessionState {
        match self {
            Self::Asking => SessionState::Asking,
            Self::Open(_) => SessionState::Open,
            Self::Closed => SessionState::Closed,
        }
    }

    /// Goes over into `next`.
    pub(super) fn enter(&mut self, event: SessionEvent, next: Self) {
        event.check(self.state(), next.state());
        *self = next;
    }

    #[inline]
    pub(super) fn path(&self) -> Option<&SessionPath> {
        match self {
            Self::Open(path) => Some(path),
            Self::Asking | Self::Closed => None,
        }
    }

    #[inline]
    pub(super) fn path_mut(&mut self) -> Option<&mut SessionPath> {
        match self {
            Self::Open(path) => Some(path),
            Self::Asking | Self::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transitions::kept::hold;

    #[test]
    fn the_table_of_a_clients_session_is_the_one_that_is_kept() {
        hold::<SessionEvent>("client-session");
    }
}
