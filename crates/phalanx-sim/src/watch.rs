//! Records for the checker what only the simulator knows: cut links, troubles of processes, fill levels of buffers.
//! Changes are detected by comparison, so that code that makes them need not report them.

use phalanx_core::Incarnation;
use phalanx_trace::{Event as TraceEvent, Trouble};

use crate::world::{Troubles, World};

/// Interval between two samples of the buffers.
const SAMPLE_NS: u64 = 1_000_000_000;

impl World {
    /// Records changes since the last step. Nearly always there are none.
    pub(crate) fn watch(&mut self, next_ns: u64) {
        // Lateness ends with time, without a change of any version, so it is compared separately.
        let late = self.net.is_late(self.now_ns);
        let bridges = self.bridges_version();
        if (self.net.version(), bridges) != (self.watch.network, self.watch.bridges) || late != self.watch.late {
            self.watch.late = late;
            self.watch.bridges = bridges;
            self.watch_network();
        }
        let attacked = self.attacker.rate() > 0;
        if attacked != self.watch.attacked {
            self.watch.attacked = attacked;
            self.harness.push(self.now_ns, TraceEvent::Attack { active: attacked });
        }
        if next_ns >= self.watch.next_sample_ns {
            self.sample();
            self.watch.next_sample_ns = next_ns - next_ns % SAMPLE_NS + SAMPLE_NS;
        }
    }

    fn watch_network(&mut self) {
        let n = self.slots.len();
        self.watch.network = self.net.version();
        self.watch.cut.resize(n * n, false);
        let (mut cut, mut mended) = (Vec::new(), Vec::new());
        // If two processes have one name, a link's record is ambiguous.
        let twins = self.settings.twins.clone();
        let is_shared = |slot: usize| twins.iter().any(|(who, whose)| [*who, *whose].contains(&slot));
        let mut bridged = false;
        for (from, to) in crate::links::all_links(n) {
            let bridge = self.net.is_cut(from, to) && self.is_bridged(from, to);
            bridged |= bridge;
            let is_cut = self.net.is_cut(from, to) && !bridge;
            if std::mem::replace(&mut self.watch.cut[from * n + to], is_cut) != is_cut
                && !is_shared(from)
                && !is_shared(to)
            {
                let link = (self.slots[from].name.clone(), self.slots[to].name.clone());
                if is_cut {
                    cut.push(link);
                    self.cut_memory(from, to);
                } else {
                    mended.push(link);
                }
            }
        }
        if !cut.is_empty() {
            self.harness.push(self.now_ns, TraceEvent::Cut { links: cut });
        }
        if !mended.is_empty() {
            self.harness.push(self.now_ns, TraceEvent::Mend { links: mended });
        }
        // If only memory carries packets, no process can join.
        let rough = bridged || self.net.is_rough(self.now_ns);
        if rough != self.watch.rough {
            self.watch.rough = rough;
            self.trouble(Trouble::Network, Incarnation::NONE, rough);
        }
    }

    /// Records troubles of one process. Called with each of its iterations.
    pub(crate) fn watch_slot(&mut self, index: usize) {
        let slot = &self.slots[index];
        let Some(whose) = slot.incarnation() else { return };
        let reads = slot.app.takes;
        let now = Troubles {
            whose: Some(whose),
            not_reading: !reads,
            slow: slot.turn_ns > self.settings.turn_ns.max(self.settings.declared_ns(index)) || slot.clock.drifts(),
            unread: slot.app.unread(),
            narrow: slot.node.as_ref().is_some_and(|node| node.driver().buffer_bytes() < self.settings.buffer_bytes),
        };
        self.watch.slots.resize(self.slots.len(), Troubles::default());
        let before = std::mem::replace(&mut self.watch.slots[index], now);
        if before == now {
            return;
        }
        // The troubles of an earlier incarnation ended with it.
        let before = if before.whose == now.whose { before } else { Troubles::default() };
        for (what, was, is) in [
            (Trouble::NotReading, before.not_reading, now.not_reading),
            (Trouble::Slow, before.slow, now.slow),
            (Trouble::Narrow, before.narrow, now.narrow),
        ] {
            if was != is {
                self.trouble(what, whose, is);
            }
        }
        let changed = before.unread ^ now.unread;
        for inbox in (0..u32::BITS).filter(|inbox| changed >> inbox & 1 == 1) {
            let begins = now.unread >> inbox & 1 == 1;
            self.harness.push(self.now_ns, TraceEvent::Unread { incarnation: whose.0, inbox, begins });
        }
    }

    /// Records that a trouble of a process, or of all, begins or ends.
    pub(crate) fn trouble(&mut self, what: Trouble, whose: Incarnation, begins: bool) {
        self.harness.push(self.now_ns, TraceEvent::Trouble { what, incarnation: whose.0, begins });
    }

    /// Records the fill levels of buffers.
    pub(crate) fn sample(&mut self) {
        for slot in &self.slots {
            let Some(node) = slot.node.as_ref() else { continue };
            let (process, incarnation) = (node.process(), node.incarnation().0);
            process.gauges(&mut |gauge| {
                // An empty buffer is not worth a record while all are busy.
                if gauge.value > 0 || !self.sending {
                    let (value, limit, idle) = (gauge.value, gauge.limit, gauge.idle);
                    let name = gauge.name.to_owned();
                    self.harness.push(self.now_ns, TraceEvent::Gauge { incarnation, name, value, limit, idle });
                }
            });
        }
    }
}
