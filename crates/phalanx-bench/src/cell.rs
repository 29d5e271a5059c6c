//! A cell whose members are processes, as seen by the benchmark.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phalanx_runtime::clock;
use phalanx_runtime::counters::CountersFile;
use phalanx_runtime::local::{Live, LocalCell};
use rustix::process::Signal;

use crate::choice::{Cores, Interface, Ordering, Security, Senders, Transport, Waiting};
use crate::crew::{Child, Interrupt, PATIENCE};
use crate::error::BenchError;
use crate::protocol::{Command, InterfaceRole, Mark, MemberRole, Pauses, Report, Role, What};

/// How long a measurement takes.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The load runs for so long before anything counts.
    pub(crate) warm: Duration,
    /// So long everything counts.
    pub(crate) measured: Duration,
}

/// Settings of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellPlan {
    pub(crate) members: usize,
    pub(crate) transport: Transport,
    pub(crate) security: Security,
    pub(crate) wait: Waiting,
    pub(crate) cores: Option<Cores>,
    pub(crate) loss_ppm: Option<u32>,
    pub(crate) state_bytes: usize,
    /// Time after which a member that holds others back is expelled.
    pub(crate) expel_after: Option<Duration>,
    /// Whether the default time applies before a silent member is excluded. Otherwise it is longer
    /// ([`SUSPECT_AFTER_MS`]): a busy machine may starve a member, and the resulting view change would spoil the
    /// figures.
    pub(crate) strict: bool,
    /// How members use the library, in the suite `interface`.
    pub(crate) interface: Option<Interface>,
    /// The groups that all members are in.
    pub(crate) groups: &'static [&'static str],
}

impl CellPlan {
    pub(crate) fn new(members: usize, transport: Transport, security: Security) -> Self {
        Self {
            members,
            transport,
            security,
            wait: Waiting::Block,
            cores: None,
            loss_ppm: None,
            state_bytes: 0,
            expel_after: None,
            strict: false,
            interface: None,
            groups: &[GROUP],
        }
    }
}

/// A running cell. Members are in order of age.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) members: Vec<Child>,
    pub(crate) plan: CellPlan,
    directory: PathBuf,
    interrupt: Interrupt,
    started: usize,
}

/// The name of the cell, in the suites `interface` and `asks`.
pub(crate) const CELL: &str = "bench";

/// The group that all members are in.
pub(crate) const GROUP: &str = "bench";

impl Cell {
    /// Starts members one after the other, until all are in one view. `directory` exists, and no other cell uses it.
    pub(crate) fn start(plan: &CellPlan, directory: &Path, interrupt: &Interrupt) -> Result<Self, BenchError> {
        let (plan, directory, interrupt) = (plan.clone(), directory.to_owned(), interrupt.clone());
        let mut cell = Self { members: Vec::new(), plan, directory, interrupt, started: 0 };
        // One after the other, so that their ages, and with them the ranks, follow the order of the starts.
        while cell.members.len() < cell.plan.members {
            cell.join(false)?;
            let count = cell.members.len();
            cell.agree(count)?;
        }
        Ok(cell)
    }

    /// Starts one more member. Returns before it is in a view.
    pub(crate) fn join(&mut self, takes_state: bool) -> Result<(), BenchError> {
        let number = self.started;
        self.started += 1;
        // The youngest member is the one that measures.
        let pin = self.plan.cores.map(|cores| cores.of(number + 1 == self.plan.members));
        let what = match self.plan.interface {
            None => What::Member(self.member(number, takes_state)),
            Some(interface) => What::Interface(self.interface(number, interface)),
        };
        self.members.push(Child::start(format!("member-{number}"), &Role { pin, what }, &self.interrupt)?);
        Ok(())
    }

    fn member(&self, number: usize, takes_state: bool) -> MemberRole {
        MemberRole {
            name: format!("member-{number}"),
            directory: self.directory.clone(),
            transport: self.plan.transport,
            security: self.plan.security,
            wait: self.plan.wait,
            loss_ppm: self.plan.loss_ppm,
            suspect_after_ms: (!self.plan.strict).then_some(SUSPECT_AFTER_MS),
            expel_after_ms: self.plan.expel_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            groups: self.groups(),
            // A member that takes the state needs none of its own.
            state_bytes: if takes_state { 0 } else { self.plan.state_bytes },
            takes_state,
        }
    }

    fn interface(&self, number: usize, interface: Interface) -> InterfaceRole {
        InterfaceRole {
            name: format!("member-{number}"),
            directory: self.directory.clone(),
            interface,
            transport: self.plan.transport,
            security: self.plan.security,
            wait: self.plan.wait,
            suspect_after_ms: SUSPECT_AFTER_MS,
            groups: self.groups(),
        }
    }

    fn groups(&self) -> Vec<String> {
        self.plan.groups.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Waits until every member's last view has `count` members.
    pub(crate) fn agree(&mut self, count: usize) -> Result<(), BenchError> {
        (0..self.members.len()).try_for_each(|index| self.sees(index, count).map(drop))
    }

    /// Waits until the last view of the member at `index` has `count` members. Returns the time at which that view
    /// came.
    pub(crate) fn sees(&mut self, index: usize, count: usize) -> Result<u64, BenchError> {
        let member = &mut self.members[index];
        member.catch_up()?;
        loop {
            let last = |group: &str| member.views.iter().rev().find(|view| view.group == group);
            // The groups are joined one after the other, so the first view with all is that of the first group.
            let seen = self.plan.groups.iter().map(|group| last(group).filter(|view| view.members == count));
            if let Some(at_ns) = seen.map(|view| view.map(|view| view.at_ns)).min().flatten() {
                return Ok(at_ns);
            }
            member.hear("a view", PATIENCE, |report| matches!(report, Report::View { .. }).then_some(()))?;
        }
    }

    pub(crate) fn pause(&self, time: Duration) -> Result<(), BenchError> {
        self.interrupt.sleep(time)
    }

    /// Does `work` while no member runs, because members that spin would take processor time from it. It must take less
    /// than [`SUSPECT_AFTER_MS`], or members suspect each other.
    pub(crate) fn stopped<T>(&self, work: impl FnOnce() -> Result<T, BenchError>) -> Result<T, BenchError> {
        let all = |signal| self.members.iter().try_for_each(|member| member.signal(signal));
        all(Signal::STOP)?;
        let outcome = work();
        all(Signal::CONT)?;
        outcome
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The youngest member. It sends where only one does, because it does not hold the token at first.
    pub(crate) fn youngest(&mut self) -> &mut Child {
        self.members.last_mut().expect("a cell has members")
    }

    pub(crate) fn tell_all(&mut self, command: &Command) -> Result<(), BenchError> {
        self.members.iter_mut().try_for_each(|member| member.tell(command))
    }

    /// Fails if the membership has changed: figures across a view change would mean nothing.
    pub(crate) fn unchanged(&mut self) -> Result<(), BenchError> {
        let count = self.members.len();
        for member in &mut self.members {
            member.catch_up()?;
            if member.views.last().is_none_or(|view| view.members != count) {
                return Err(BenchError::Child("the membership changed during the measurement".to_owned()));
            }
        }
        Ok(())
    }

    pub(crate) fn marks(&mut self) -> Result<Vec<Mark>, BenchError> {
        self.tell_all(&Command::Mark)?;
        self.members.iter_mut().map(Child::mark).collect()
    }

    /// Packets that all members have sent until now, one for each receiver. For members of the suites `interface` and `asks`. It
    /// waits until each has written its counters.
    pub(crate) fn sent_packets(&self) -> Result<u64, BenchError> {
        let (asked, end) = (clock::now(), Instant::now() + PATIENCE);
        let failed = |why: String| BenchError::Child(format!("cannot read the counters of a member: {why}"));
        let local = LocalCell::open(Some(&self.directory), Some(&self.directory.join("state")), CELL);
        let local = local.map_err(|error| failed(error.to_string()))?;
        loop {
            let living = local.living().map_err(|error| failed(error.to_string()))?;
            let read = |live: &Live| CountersFile::open(&live.counters).and_then(|file| file.read()).ok();
            let fresh: Vec<_> = living.iter().filter_map(read).filter(|reading| reading.updated > asked).collect();
            if fresh.len() == self.members.len() {
                let counters = fresh.iter().flat_map(|reading| &reading.counters);
                let sent = counters.filter(|(name, _)| matches!(name.as_str(), "datagrams_sent" | "packets_shared"));
                return Ok(sent.map(|(_, value)| value).sum());
            }
            if Instant::now() > end {
                return Err(failed(format!("{} of {} wrote theirs", fresh.len(), self.members.len())));
            }
            self.interrupt.sleep(Duration::from_millis(5))?;
        }
    }

    pub(crate) fn pauses(&mut self) -> Result<Vec<Pauses>, BenchError> {
        self.tell_all(&Command::Pauses)?;
        let pauses = |member: &mut Child| {
            member.hear("its pauses", PATIENCE, |report| match report {
                Report::Pauses(pauses) => Some(*pauses),
                _ => None,
            })
        };
        self.members.iter_mut().map(pauses).collect()
    }

    /// Orders the senders to multicast.
    pub(crate) fn load(
        &mut self,
        senders: Senders,
        ordering: Ordering,
        size: usize,
        per_second: Option<f64>,
    ) -> Result<(), BenchError> {
        self.tell_senders(senders, &Command::Load { ordering, size, per_second })
    }

    pub(crate) fn tell_senders(&mut self, senders: Senders, command: &Command) -> Result<(), BenchError> {
        match senders {
            Senders::One => self.youngest().tell(command),
            Senders::All => self.tell_all(command),
        }
    }

    /// Stops the senders, and waits until all members have delivered the same number of messages and no more arrive.
    /// Fails if one of them never delivers some.
    pub(crate) fn settle(&mut self) -> Result<(), BenchError> {
        self.tell_all(&Command::Stop)?;
        let end = Instant::now() + PATIENCE;
        let mut before = None;
        loop {
            let counts: Vec<u64> = self.marks()?.iter().map(|mark| mark.delivered).collect();
            let same = counts.iter().all(|count| *count == counts[0]);
            // Counts may be equal by chance while messages are under way, so two equal samples are required.
            if same && before == Some(counts[0]) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(BenchError::Child(format!("members delivered different numbers of messages: {counts:?}")));
            }
            before = Some(counts[0]).filter(|_| same);
            self.interrupt.sleep(Duration::from_millis(20))?;
        }
    }

    /// Runs a load, and samples the counters of all members twice.
    pub(crate) fn measure(
        &mut self,
        senders: Senders,
        ordering: Ordering,
        size: usize,
        times: Times,
    ) -> Result<Measured, BenchError> {
        self.measure_load(senders, &Command::Load { ordering, size, per_second: None }, times)
    }

    /// Likewise, with the load of this command.
    pub(crate) fn measure_load(
        &mut self,
        senders: Senders,
        load: &Command,
        Times { warm, measured }: Times,
    ) -> Result<Measured, BenchError> {
        self.tell_senders(senders, load)?;
        self.interrupt.sleep(warm)?;
        let first = self.marks()?;
        self.interrupt.sleep(measured)?;
        let second = self.marks()?;
        self.settle()?;
        self.unchanged()?;
        Ok(Measured { senders, first, second })
    }
}

/// Two samples of all members' counters.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    senders: Senders,
    first: Vec<Mark>,
    second: Vec<Mark>,
}

/// Processor time for each delivery, in nanoseconds.
pub(crate) struct DeliveryCpu {
    /// At the youngest member, which sends.
    pub(crate) sender_ns: f64,
    /// The mean over the counted members.
    pub(crate) receivers_ns: f64,
}

impl Measured {
    fn pairs(&self) -> impl Iterator<Item = (&Mark, &Mark)> {
        self.first.iter().zip(&self.second)
    }

    /// The number of members that are counted: those that do not send, or all if all send.
    fn counted(&self) -> usize {
        match self.senders {
            Senders::One => self.first.len() - 1,
            Senders::All => self.first.len(),
        }
    }

    /// Deliveries per second at a member: the mean over the counted members.
    pub(crate) fn delivered_per_s(&self) -> f64 {
        let rates = self.pairs().take(self.counted()).map(|(first, second)| second.delivery_rate(first));
        rates.sum::<f64>() / self.counted().max(1) as f64
    }

    /// Deliveries per second in the second group, at the member where they were most.
    pub(crate) fn beside_per_s(&self) -> f64 {
        self.pairs().map(|(first, second)| second.rate_beside(first)).fold(0.0, f64::max)
    }

    /// Processor time of all members together for each message, in nanoseconds.
    pub(crate) fn cpu_of_all_ns(&self) -> f64 {
        let cpu: u64 = self.pairs().map(|(first, second)| second.cpu_ns - first.cpu_ns).sum();
        let delivered: u64 = self.pairs().map(|(first, second)| second.delivered - first.delivered).sum();
        (cpu * self.first.len() as u64) as f64 / delivered.max(1) as f64
    }

    /// Processor time for each delivery.
    pub(crate) fn cpu_ns(&self) -> DeliveryCpu {
        let of = |(first, second): (&Mark, &Mark)| {
            (second.cpu_ns - first.cpu_ns) as f64 / (second.delivered - first.delivered).max(1) as f64
        };
        let receivers = self.pairs().take(self.counted()).map(of).sum::<f64>() / self.counted().max(1) as f64;
        DeliveryCpu { sender_ns: self.pairs().last().map_or(0.0, of), receivers_ns: receivers }
    }

    /// Acceptances of the slowest sender, divided by those of the fastest.
    pub(crate) fn fairness(&self) -> f64 {
        let shares = || self.pairs().map(|(first, second)| (second.accepted - first.accepted) as f64);
        shares().fold(f64::INFINITY, f64::min) / shares().fold(1.0, f64::max)
    }

    /// Packets sent by all members, divided by multicasts accepted.
    pub(crate) fn packets_per_message(&self) -> f64 {
        let packets: u64 = self.pairs().map(|(first, second)| second.sent_packets - first.sent_packets).sum();
        let messages: u64 = self.pairs().map(|(first, second)| second.accepted - first.accepted).sum();
        packets as f64 / messages.max(1) as f64
    }

    /// Packets that the kernel dropped.
    pub(crate) fn kernel_drops(&self) -> u64 {
        self.pairs().map(|(first, second)| second.kernel_drops - first.kernel_drops).sum()
    }
}

/// Silence after which a member is suspected. It is long because a machine with few processors and other work may
/// starve a member, and that is not what is measured.
const SUSPECT_AFTER_MS: u64 = 8_000;
