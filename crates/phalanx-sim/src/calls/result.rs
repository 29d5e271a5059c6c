//! The result of one seed of calls: violations, a hash, and counts of events.

/// Result of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallsResult {
    /// The seed.
    pub seed: u64,
    /// Violations: code, time and description, for example `R1 at 1.250 s: ...`. Empty: none.
    pub violations: Vec<String>,
    /// Hash over all packets and outcomes and their times. The same seed has the same hash.
    pub trace_hash: u64,
    /// Counts of events.
    pub stats: CallsStats,
}

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of events in a run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CallsStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl CallsStats {
            /// Calls `each` with each count and its name, in a fixed order.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
            }

            /// Adds the counts of another seed.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

stats! {
    /// Calls accepted.
    calls,
    /// Of these, idempotent ones.
    idempotent,
    /// Calls not accepted, because too many waited or the request was too long.
    not_accepted,
    /// Outcomes: the answer.
    answers,
    /// Outcomes: not executed.
    not_executed,
    /// Outcomes: unknown.
    unknown,
    /// Failures because the deadline passed.
    deadlines,
    /// Failures because the deadline passed, and no session was open.
    no_answer,
    /// Failures because no server was reported to be there.
    unreachable,
    /// Failures because it was cancelled.
    cancelled,
    /// Failures because the server refused.
    refused,
    /// Failures because the session was lost.
    session_lost,
    /// Failures because the callee left the cell.
    left,
    /// Failures because the answer was too long.
    answer_too_long,
    /// Calls whose client was restarted, so that no caller was left.
    abandoned,
    /// Handlers begun.
    runs,
    /// Idempotent calls that ran more than once.
    ran_again,
    /// Handlers that answered later.
    answered_later,
    /// Handlers that did not answer until everything was whole again.
    answered_never,
    /// Handlers whose calls were given up before they answered.
    given_up,
    /// Handlers that answered twice.
    answered_twice,
    /// Handlers that reported that there is no such service.
    handlers_refused,
    /// Calls given up by the application.
    cancels,
    /// Sessions closed with calls under way.
    closes,
    /// Servers restarted.
    server_restarts,
    /// Clients restarted.
    client_restarts,
    /// Links cut in one direction for a while.
    cuts,
    /// Times in which most packets are lost.
    bursts,
    /// Processes stopped for a while.
    pauses,
    /// Clients that changed their address.
    moves,
    /// Packets sent to an address that its client no longer had.
    strayed,
    /// Packets sent.
    packets,
    /// Packets lost on their way.
    lost,
    /// Packets of which the system reported that no socket was there.
    reported,
    /// Such reports that were not true.
    forged,
    /// Packets that arrived twice.
    duplicated,
    /// Packets that arrived again much later.
    replayed,
    /// Packets overtaken by one sent later.
    reordered,
    /// Packets through shared memory.
    shared,
    /// Packets of these that were overwritten before they were read.
    overtaken,
    /// Packets of these that were written for an earlier life, or for a process that does not read them any more or
    /// yet.
    unread,
    /// Packets dropped because the receiver's buffer was full.
    overflowed,
    /// Calls, runs and answers that the checker evaluated, once for each property of calls.
    checked,
    /// Calls made when everything was whole again, which had to be answered.
    calls_after,
    /// Routed calls: by group, by member or by address, as the public client makes them.
    routes,
    /// Of these, calls to groups.
    routes_to_groups,
    /// Of these, calls to members.
    routes_to_members,
    /// Of these, calls to addresses.
    routes_to_addresses,
    /// Routed calls that were answered.
    routes_answered,
    /// Routed calls for which more than one server was asked.
    routes_passed_over,
    /// Servers asked before one that had been silent.
    routes_past_silent,
    /// Routed calls for which a server was asked again that had not been there.
    routes_asked_again,
    /// Times a server that was waited for came.
    routes_came,
    /// Routed calls that waited for the directory.
    routes_waited_for_directory,
    /// Routed calls that ended before their deadline because nobody was there.
    routes_to_nobody,
    /// Routed calls that ended at their deadline while they waited.
    routes_late,
    /// Routed calls that ended because the directory was over.
    routes_over,
    /// Routed calls to groups and members that may have run at a server that restarted.
    routes_restarted,
    /// Times the callee of a routed call left the cell, before or while its server was asked.
    routes_left,
    /// Of these, when nothing was sent because it had left before.
    routes_to_left,
    /// Of these, when another server could be asked.
    routes_left_and_go_on,
    /// Of these, when it may have run at a server that lived.
    routes_left_alive,
    /// Routed calls that were answered by a server that had left the directory alone since it was asked.
    routes_answered_unlisted,
    /// Routed calls for which a second server was asked while the first one was.
    routes_hedged,
    /// Routed calls that were to be hedged, when no other server was listed.
    routes_not_hedged,
    /// Routed calls that the second one answered.
    routes_hedge_won,
    /// Servers that were told that another one had answered.
    routes_hedge_cancelled,
    /// Servers that lived and were out of the cell.
    excluded_alive,
    /// Servers that lived and were gone from the directory alone.
    unlisted_alive,
    /// Routed calls that their callers gave up.
    routes_given_up,
    /// Servers asked that were not there any more, or had moved.
    routes_stale,
    /// Times a server that only routed calls find came.
    visits,
    /// Routed calls made when everything was whole again, which had to be answered.
    routes_after,
}
