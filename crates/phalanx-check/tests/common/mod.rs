//! Small runs written by hand: three processes `a`, `b`, `c` (0, 1, 2) in cell view 1 and view 1 of one group.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use phalanx_check::{Options, Property, Report, check};
use phalanx_trace::{Event, Header, LeaveReason, Order, Phase, Trace};

pub const CELL: u64 = 0xce11;
pub const GROUP: u32 = 4;
pub const SECOND: u64 = 1_000_000_000;

/// A multicast.
#[derive(Clone, Copy)]
pub struct M {
    pub sender: usize,
    pub view: u64,
    pub seq: u64,
    pub order: Order,
    pub uniform: bool,
}

pub fn fifo(sender: usize, view: u64, seq: u64) -> M {
    M { sender, view, seq, order: Order::Fifo, uniform: false }
}

pub fn causal(sender: usize, view: u64, seq: u64) -> M {
    M { order: Order::Causal, ..fifo(sender, view, seq) }
}

pub fn total(sender: usize, view: u64, seq: u64) -> M {
    M { order: Order::Total, ..fifo(sender, view, seq) }
}

pub fn uniform(m: M) -> M {
    M { uniform: true, ..m }
}

/// The incarnation of a process.
pub fn id(p: usize) -> u64 {
    p as u64 + 1
}

pub fn name(p: usize) -> String {
    ["a", "b", "c", "d", "e", "f"][p].to_owned()
}

fn hash(m: M) -> u64 {
    id(m.sender) * 1_000_000 + m.view * 1_000 + m.seq
}

/// The traces of a run, one per process and the harness's last. Each record is a microsecond after the previous one.
#[derive(Clone)]
pub struct World {
    pub traces: Vec<Trace>,
    pub now: u64,
}

impl World {
    /// Processes that have started and asked to join, in no view yet.
    pub fn strangers(n: usize) -> Self {
        let mut traces: Vec<Trace> =
            (0..n).map(|p| Trace::new(Header::process("cell", &name(p), id(p), "clock"))).collect();
        traces.push(Trace::new(Header::harness("cell", "clock")));
        let mut world = Self { traces, now: 0 };
        for p in 0..n {
            world.push(p, Event::Start);
            world.push(p, Event::JoinAsked { cell: "cell".into() });
        }
        world
    }

    /// Processes in cell view 1.
    pub fn cell(n: usize) -> Self {
        let mut world = Self::strangers(n);
        let all: Vec<usize> = (0..n).collect();
        all.iter().for_each(|&p| world.cell_view(p, 1, &all, &[]));
        world
    }

    /// Processes in cell view 1 and group view 1.
    pub fn group(n: usize) -> Self {
        let mut world = Self::cell(n);
        let all: Vec<usize> = (0..n).collect();
        for p in 0..n {
            world.ask_group(p, false);
            world.group_view(p, 1, None, &all, &all, &[]);
        }
        world
    }

    /// A cell of `n`. Member 1 is alone in the group, and member 0 takes its state and comes into view 2 beside it. It
    /// refuses the state, or not.
    pub fn taker(n: usize, refuses: bool) -> Self {
        let mut w = Self::cell(n);
        w.ask_group(1, true);
        w.group_view(1, 1, None, &[1], &[1], &[]);
        w.ask_group(0, true);
        w.push(0, Event::SnapshotIn { group: GROUP, bytes: 9 });
        if refuses {
            w.push(0, Event::ToldSenseless { name: "ledger".into() });
        }
        w.push(0, Event::StateEnd { group: GROUP, digest: 7 });
        for p in 0..2 {
            w.group_view(p, 2, (p == 1).then_some(1), &[1, 0], &[0], &[]);
        }
        w
    }

    pub fn harness(&self) -> usize {
        self.traces.len() - 1
    }

    pub fn push(&mut self, p: usize, event: Event) {
        self.now += 1_000;
        let now = self.now;
        self.traces[p].push(now, event);
    }

    pub fn ask_group(&mut self, p: usize, with_state: bool) {
        self.push(p, Event::GroupJoinAsked { name: "ledger".into(), with_state });
    }

    pub fn cell_view(&mut self, p: usize, view: u64, members: &[usize], left: &[(usize, LeaveReason)]) {
        let members = members.iter().map(|&m| (id(m), name(m))).collect();
        let left = left.iter().map(|&(m, why)| (id(m), why)).collect();
        self.push(p, Event::CellView { instance: CELL, view, members, left });
    }

    pub fn group_view(
        &mut self,
        p: usize,
        view: u64,
        prev: Option<u64>,
        members: &[usize],
        joined: &[usize],
        left: &[(usize, LeaveReason)],
    ) {
        let ids = |ps: &[usize]| ps.iter().map(|&m| id(m)).collect();
        let left = left.iter().map(|&(m, why)| (id(m), why)).collect();
        let (members, joined) = (ids(members), ids(joined));
        self.push(p, Event::GroupView { group: GROUP, name: "ledger".into(), view, prev, members, joined, left });
    }

    pub fn send(&mut self, m: M) {
        let M { sender, view, seq, order, uniform } = m;
        self.push(sender, Event::Send { group: GROUP, view, seq, order, uniform, hash: hash(m) });
    }

    pub fn accept(&mut self, m: M) {
        let M { sender, order, uniform, .. } = m;
        self.push(sender, Event::Accept { group: GROUP, order, uniform, hash: hash(m) });
    }

    pub fn deliver(&mut self, p: usize, m: M) {
        self.deliver_at(p, m, None);
    }

    /// Delivers a total message as number `position`.
    pub fn deliver_at(&mut self, p: usize, m: M, position: impl Into<Option<u64>>) {
        self.push(p, delivery(m, position.into(), false));
    }

    pub fn replay(&mut self, p: usize, m: M) {
        self.replay_at(p, m, None);
    }

    /// Replays a total message as number `position`.
    pub fn replay_at(&mut self, p: usize, m: M, position: impl Into<Option<u64>>) {
        self.push(p, delivery(m, position.into(), true));
    }

    /// Sends a message, and delivers it at all `to`, in that order.
    pub fn multicast(&mut self, m: M, to: &[usize]) {
        self.send(m);
        to.iter().for_each(|&p| self.deliver(p, m));
    }

    pub fn digest(&mut self, p: usize, view: u64, delivered: u64, digest: u64) {
        self.push(p, Event::Digest { group: GROUP, view, delivered, digest });
    }

    /// Adds a record of the harness.
    pub fn harness_says(&mut self, event: Event) {
        let harness = self.harness();
        self.push(harness, event);
    }

    /// Cuts the links from these to that process from here on.
    pub fn cut(&mut self, from: &[usize], to: usize) {
        self.harness_says(Event::Cut { links: from.iter().map(|&p| (name(p), name(to))).collect() });
    }

    pub fn crash(&mut self, p: usize) {
        let harness = self.harness();
        self.push(harness, Event::Crash { incarnation: id(p) });
    }

    /// `gone` dies; the others go on to the next cell view and group view.
    pub fn lose(&mut self, gone: usize, survivors: &[usize]) {
        self.crash(gone);
        for &p in survivors {
            self.cell_view(p, 2, survivors, &[(gone, LeaveReason::Died)]);
            self.group_view(p, 2, Some(1), survivors, &[], &[(gone, LeaveReason::Died)]);
        }
    }

    pub fn quiet(&mut self) {
        self.quiet_for(&[]);
    }

    /// Begins the quiet phase of these processes.
    pub fn quiet_for(&mut self, connected: &[usize]) {
        let connected = connected.iter().map(|&p| name(p)).collect();
        let harness = self.harness();
        if !self.traces[harness].records.iter().any(|r| matches!(r.event, Event::About { .. })) {
            self.harness_says(Event::About { codes: vec!["E1".into()] });
        }
        self.harness_says(Event::Phase { phase: Phase::Quiet, connected });
    }

    pub fn wait(&mut self, ns: u64) {
        self.now += ns;
    }

    /// Ends the run of the harness, and then these processes. All others that have not ended are killed.
    pub fn end(&mut self, alive: &[usize]) {
        self.harness_says(Event::End);
        alive.iter().for_each(|&p| self.push(p, Event::End));
        let open = |t: &&Trace| !t.header.is_harness() && t.records.last().is_none_or(|r| r.event != Event::End);
        let killed: Vec<u64> = self.traces.iter().filter(open).map(|t| t.header.incarnation).collect();
        killed.into_iter().for_each(|incarnation| self.harness_says(Event::Crash { incarnation }));
    }

    pub fn report(&self) -> Report {
        check(&self.traces, &options())
    }

    /// Asserts that no property is broken, and that these were put to the test.
    #[track_caller]
    pub fn holds(&self, tested: &[Property]) {
        let report = self.report();
        assert!(report.passed, "{report}");
        for &p in tested {
            assert!(report.instances(p) > 0, "{p} was not put to the test\n{report}");
        }
    }

    /// Asserts that exactly this property is broken, with evidence.
    #[track_caller]
    pub fn breaks(&self, property: Property) -> Report {
        let report = self.report();
        assert_eq!(report.violated(), [property], "{report}");
        let broken = report.properties.iter().find(|p| p.property == property).expect("in every report");
        let evidence = broken.first.iter().flat_map(|v| &v.evidence);
        assert!(broken.first.iter().all(|v| !v.evidence.is_empty()), "{report}");
        evidence.for_each(|e| assert!(!e.text.is_empty(), "{report}"));
        report
    }
}

pub fn options() -> Options {
    Options { clock_slack_ns: 0, complete: true, ..Options::default() }
}

pub fn delivery(m: M, position: Option<u64>, replayed: bool) -> Event {
    let M { sender, view, seq, order, uniform } = m;
    Event::Deliver { group: GROUP, view, sender: id(sender), seq, order, uniform, position, hash: hash(m), replayed }
}
