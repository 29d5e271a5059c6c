//! The counters of an endpoint.

use crate::wire::DropReason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What an endpoint did. Numbers only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Packets dropped, by reason, in the order of [`DropReason::ALL`].
            pub drops: [u64; DropReason::ALL.len()],
        }

        impl Counters {
            /// Each counter with its name, in a fixed order; of drops, those that are not 0.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
                for (reason, count) in DropReason::ALL.iter().zip(self.drops) {
                    if count > 0 {
                        each(reason.name(), count);
                    }
                }
            }
        }
    };
}

counters! {
    /// Packets handed to the driver, those through memory included.
    packets_sent,
    /// Of these, through memory.
    packets_shared,
    /// Packets that came.
    packets_received,
    /// Calls made.
    calls,
    /// Handlers begun.
    served,
    /// Calls and sessions refused as server.
    refused,
    /// Calls given up by their clients while their handlers ran.
    detached,
    /// Answers that nobody waited for.
    answers_unwanted,
    /// Answers that the client's response credit did not cover, and which it pulled.
    answers_beyond_credit,
    /// Fragments known to be lost, and sent again.
    lost,
    /// Questions to servers, where something was silent for too long.
    probes,
    /// Packets that did not go to a client that came to another address, as it was not proved to be there.
    unproved,
    /// Frames of calls that are over.
    stale,
    /// Requests and fragments that came again.
    duplicates,
    /// Frames that made no sense.
    malformed,
    /// Sessions opened, as client.
    sessions_opened,
    /// Sessions lost, as client.
    sessions_lost,
    /// Sessions taken in, as server.
    sessions_taken,
    /// Sessions given up because their clients were silent.
    sessions_idle,
}
