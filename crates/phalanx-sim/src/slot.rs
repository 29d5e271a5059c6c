//! A process slot: the place of one named process, with its sockets, its application and its weaknesses. The slot stays
//! when its process crashes; the next process started there has the same name.

use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_core::process::Activity;
use phalanx_core::rng::Rng;
use phalanx_core::{CellView, Incarnation, Instant, MemberInfo, Membership, ViewNumber};
use phalanx_runtime::Node;

use crate::app::App;
use crate::clock::Clock;
use crate::driver::SimDriver;
use crate::memory::Memory;

/// Packets that a slot's process sent, one for each receiver, and packets that reached its sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
}

pub(crate) struct Slot {
    pub(crate) name: String,
    /// The machine it runs on.
    pub(crate) host: u64,
    /// The process, if it runs.
    pub(crate) node: Option<Node<SimDriver>>,
    pub(crate) app: App,
    /// Number of its address changes.
    pub(crate) moves: u8,
    /// Number of starts here. Timers of an earlier start are stale.
    pub(crate) life: u32,
    /// Stopped, as by SIGSTOP.
    pub(crate) paused: bool,
    /// Whether its state directory lost its content, or there are two of it, and it has not been in a view since.
    pub(crate) damaged: bool,
    /// Number of times its directory was emptied. It identifies the directory.
    pub(crate) directory: u32,
    /// That number when its process started.
    pub(crate) started_in: u32,
    /// The founders in its process's configuration, if they differ from those of all others.
    pub(crate) list: Option<Vec<usize>>,
    /// Whether its process died with the quorum of the cell, and is not started before the cell is founded again.
    pub(crate) buried: bool,
    /// Whether it is to be started.
    pub(crate) awaited: bool,
    /// Whether it was started by mistake and is never started again.
    pub(crate) retired: bool,
    /// Whether it asked to leave the cell.
    pub(crate) leaving: bool,
    /// Current duration of an iteration.
    pub(crate) turn_ns: u64,
    /// Additional time for each packet that it receives.
    pub(crate) packet_ns: u64,
    pub(crate) clock: Clock,
    /// End of its current iteration.
    pub(crate) busy_until_ns: u64,
    /// Earliest time of the next count of its packets.
    pub(crate) next_count_ns: u64,
    /// Consecutive iterations that took no time and did nothing.
    pub(crate) idle_turns: u32,
    /// Set if it is to crash while it sends.
    pub(crate) doom: Option<Doom>,
    /// Set if its application is to panic: when its process is started again, if ever.
    pub(crate) panics: Option<Option<u64>>,
    /// Activity of its process after its last iteration.
    pub(crate) activity: Activity,
    /// The last view in which it was seen, and the incarnation.
    pub(crate) noted_view: (Incarnation, ViewNumber),
    /// Random numbers of its application.
    pub(crate) rng: Rng,
    pub(crate) traffic: Traffic,
    /// Members of its host that it reaches through memory.
    pub(crate) neighbours: Neighbours,
}

/// The least time between two counts of a process's packets.
const COUNT_EVERY_NS: u64 = 250_000_000;

/// A crash in the middle of the sends of an iteration: some receivers get the packets, the others do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doom {
    /// Number of packets it may still send.
    pub(crate) left: u32,
    /// Time until its restart, and whether at a new address.
    pub(crate) back: Option<(u64, bool)>,
    /// Whether it is spared if the cell could not go on without it.
    pub(crate) spare_the_last: bool,
}

impl Slot {
    /// Whether a process runs and has not finished leaving.
    pub(crate) fn runs(&self) -> bool {
        self.node.is_some()
    }

    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.node.as_ref().map(Node::incarnation)
    }

    /// The time that this process's clock shows.
    pub(crate) fn local(&self, now_ns: u64) -> Instant {
        self.clock.local(now_ns)
    }

    /// Virtual time of this process's next iteration: when a timer is due, or when a record in memory becomes visible.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let deadline = self.node.as_ref()?.deadline().map(|deadline| self.clock.virtual_ns(deadline));
        let written = self.memory().and_then(Memory::next_ns);
        [deadline, written].into_iter().flatten().min()
    }

    /// Called before an iteration: whether its process hears no quorum.
    pub(crate) fn begin_watch(&mut self) -> bool {
        self.app.sent_uniform = None;
        self.is_outside()
    }

    /// Called after an iteration: a process that hears no quorum all the while sends nothing as uniform.
    pub(crate) fn end_watch(&mut self, was_outside: bool) {
        if let Some((group, seq)) = self.app.sent_uniform.filter(|_| was_outside && self.is_outside()) {
            let text =
                format!("{} sent its message {seq} in group {} as uniform, outside the primary", self.name, group.0);
            self.app.faults.push(("sent_outside", text));
        }
    }

    fn is_outside(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.membership() == Membership::NonPrimary)
    }

    /// Whether its application panics with the next message; `Some`: with the time until a restart.
    pub(crate) fn panic_next(&mut self, back_ns: Option<Option<u64>>) {
        self.panics = back_ns;
        self.app.told.panic_next(back_ns.is_some());
    }

    /// Its shared memory, while it runs.
    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.node.as_ref()?.driver().memory()
    }

    /// Ends its process. Readers of its memory may go on.
    pub(crate) fn end(&mut self) {
        self.memory().into_iter().for_each(Memory::orphan);
        self.node = None;
    }

    /// Returns how many packets its process has sent, if a count is due. It is called after an iteration in the quiet
    /// phase, so that whole iterations lie between two counts. Counts at any moment would attribute what a long iteration
    /// gathered to a shorter time.
    pub(crate) fn count_packets(&mut self, now_ns: u64) -> Option<u64> {
        let process = self.node.as_ref().filter(|_| now_ns >= self.next_count_ns)?.process();
        self.next_count_ns = now_ns + COUNT_EVERY_NS;
        let mut packets = 0;
        process.counters(&mut |name, count| {
            if matches!(name, "datagrams_sent" | "packets_shared") {
                packets += count;
            }
        });
        Some(packets)
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut Memory> {
        self.node.as_mut()?.driver_mut().memory_mut()
    }
}

/// The most packets that a process sends in a second while its application is idle. `others` counts the other processes
/// that run: each gets ten heartbeats a second, and twice that of other packets. `ruined` counts the processes that stay
/// broken: one that is excluded and does not hear of it is notified again and again.
pub(crate) fn packets_idle(others: usize, ruined: usize) -> u64 {
    30 * others as u64 + 40 * ruined as u64
}

/// The members on a process's host.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// The incarnation of the process's segment.
    pub(crate) life: Option<Incarnation>,
    /// The last view processed.
    pub(crate) view: Option<Arc<CellView>>,
    pub(crate) members: BTreeMap<Incarnation, Neighbour>,
    /// Whether a fault keeps all of them detached.
    pub(crate) held: bool,
}

#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) info: MemberInfo,
    pub(crate) state: NeighbourState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighbourState {
    /// To be attached at that time, after this many failed tries.
    Sought {
        at_ns: u64,
        tries: u32,
    },
    Attached,
    /// Reached over the network for as long as it is a member.
    Given,
}
