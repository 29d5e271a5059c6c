//! A process slot: the place of one named process, with its sockets, its application and its weaknesses. The slot
//! stays when its process crashes, and the process that is started there next has the same name.

use phalanx::Node;
use phalanx_core::process::Activity;
use phalanx_core::rng::Rng;
use phalanx_core::{Incarnation, Instant, Membership};

use crate::app::App;
use crate::clock::Clock;
use crate::driver::SimDriver;
use crate::memory::Memory;
use crate::neighbours::Neighbours;

/// What a slot's process sent, a packet for each receiver, and what reached its sockets.
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
    /// How often its address changed.
    pub(crate) moves: u8,
    /// How often a process was started here: timers of an earlier one mean nothing.
    pub(crate) life: u32,
    /// Stopped, as by SIGSTOP.
    pub(crate) paused: bool,
    /// Its state directory lost what it held, or there are two of it, and it has not been in a view since.
    pub(crate) damaged: bool,
    /// How often its directory was emptied: an emptied one has another number.
    pub(crate) directory: u32,
    /// The same when its process started.
    pub(crate) started_in: u32,
    /// The founders that its process is configured with, where they are not those of all others.
    pub(crate) list: Option<Vec<usize>>,
    /// Its process died with the quorum of the cell, and is not started before that is founded again.
    pub(crate) buried: bool,
    /// It is to be started.
    pub(crate) awaited: bool,
    /// It was started by mistake and is never started again.
    pub(crate) retired: bool,
    /// It asked to leave the cell.
    pub(crate) leaving: bool,
    /// What a turn costs now.
    pub(crate) turn_ns: u64,
    /// What each packet that it receives costs besides.
    pub(crate) packet_ns: u64,
    pub(crate) clock: Clock,
    /// It is inside a turn until then.
    pub(crate) busy_until_ns: u64,
    /// Turns in a row that took no time and did nothing.
    pub(crate) idle_turns: u32,
    /// It crashes while it sends.
    pub(crate) doom: Option<Doom>,
    /// What its process was in the middle of after its last turn.
    pub(crate) activity: Activity,
    /// The last view it was seen in, and in which life.
    pub(crate) noted_view: (Incarnation, u64),
    /// Chance for its application.
    pub(crate) rng: Rng,
    pub(crate) traffic: Traffic,
    /// The members of its host that it reaches through memory.
    pub(crate) neighbours: Neighbours,
}

/// A crash in the middle of what a turn sends: some receivers get it, the others do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doom {
    /// How many more packets it may send.
    pub(crate) left: u32,
    /// Started again after this long, at a new address or not.
    pub(crate) back: Option<(u64, bool)>,
    /// It is spared when the cell could not go on without it.
    pub(crate) spare_the_last: bool,
}

impl Slot {
    /// Runs and has not finished leaving.
    pub(crate) fn runs(&self) -> bool {
        self.node.is_some()
    }

    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.node.as_ref().map(Node::incarnation)
    }

    /// Virtual time as this process's clock shows it.
    pub(crate) fn local(&self, now_ns: u64) -> Instant {
        self.clock.local(now_ns)
    }

    /// When this process wants its next turn, in virtual time: when a timer is due, or when it sees what others wrote.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let deadline = self.node.as_ref()?.deadline().map(|deadline| self.clock.virtual_ns(deadline));
        let written = self.memory().and_then(Memory::next_ns);
        [deadline, written].into_iter().flatten().min()
    }

    /// Whether its process hears no quorum, before it does anything.
    pub(crate) fn begin_watch(&mut self) -> bool {
        self.app.sent_uniform = None;
        self.is_outside()
    }

    /// It did something: while it hears no quorum it sends nothing as uniform.
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

    /// What it shares with those of its host, while it runs.
    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.node.as_ref()?.driver().memory()
    }

    /// Its process ends. Those who read its memory may go on.
    pub(crate) fn end(&mut self) {
        self.memory().into_iter().for_each(Memory::orphan);
        self.node = None;
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut Memory> {
        self.node.as_mut()?.driver_mut().memory_mut()
    }
}
