//! The counters of an endpoint.

use crate::wire::DropReason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an endpoint since its start. They never decrease.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Packets dropped, by reason, in the order of [`DropReason::ALL`].
            pub drops: [u64; DropReason::ALL.len()],
        }

        impl Counters {
            /// Reports each counter with its name, in a fixed order. Drops are reported only if they are not 0.
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
    /// Packets handed to the driver, including those through memory.
    packets_sent,
    /// Packets among these that went through memory.
    packets_shared,
    /// Packets received.
    packets_received,
    /// Calls made.
    calls,
    /// Handlers begun.
    served,
    /// Calls and sessions refused as server.
    refused,
    /// Calls given up by their clients while their handlers ran.
    detached,
    /// Answers that no caller waited for.
    answers_unwanted,
    /// Answers that exceeded the client's response credit, and which it pulled.
    answers_beyond_credit,
    /// Fragments known to be lost, and retransmitted.
    lost,
    /// Probes of servers after too long a silence.
    probes,
    /// Packets not sent to a client at a new address, because the address was not proved.
    unproved,
    /// Frames of calls that had ended.
    stale,
    /// Requests and fragments received again.
    duplicates,
    /// Frames that made no sense.
    malformed,
    /// Sessions opened, as client.
    sessions_opened,
    /// Sessions lost, as client.
    sessions_lost,
    /// Sessions accepted, as server.
    sessions_taken,
    /// Sessions given up because their clients were silent.
    sessions_idle,
}
