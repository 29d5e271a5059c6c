//! The processes of the demonstration: starts, kills and stops them and reads their reports. None is left behind.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use phalanx_runtime::clock::clock_name;
use phalanx_trace::{Event, Header, TraceWriter};
use rustix::process::{Pid, Signal, kill_process};

use super::histogram::Histogram;
use super::report::{Order, Report, now_ns};
use crate::child::stop as stop_child;
use crate::exit::{Exit, Failure, While};

/// The process that currently has a member's name, and its last reports.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    child: Child,
    stdin: ChildStdin,
    /// Number of starts of this name. Reports of an earlier start are ignored.
    start: u64,
    /// Alive as far as the parent knows.
    pub(super) alive: bool,
    pub(super) stopped: bool,
    pub(super) incarnation: u64,
    /// The last view it installed in this incarnation, with names in rank order.
    pub(super) view: Option<(u64, Vec<String>)>,
    /// Whether it hears a quorum of its view.
    pub(super) primary: bool,
    /// Whether it reported to hear none since this was last cleared.
    pub(super) cut_off: bool,
    /// Names of its cell view in rank order.
    pub(super) cell: Vec<String>,
    /// Whether a state transfer is under way.
    pub(super) taking: bool,
    /// The transfer of this incarnation: bytes, beginning and end.
    pub(super) transfer: Option<Transfer>,
    pub(super) applied: u64,
    /// Own updates delivered in this incarnation.
    pub(super) returned: u64,
    pub(super) latency: Histogram,
    /// Whether it reported its exclusion since the process started.
    pub(super) excluded: bool,
    pub(super) audit: Option<(u64, u64, u64)>,
    pub(super) left: bool,
}

/// One state transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) bytes: u64,
    pub(super) began_ns: u64,
    pub(super) ended_ns: Option<u64>,
    pub(super) whole: bool,
}

impl Member {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn rank(&self) -> Option<usize> {
        let (_, members) = self.view.as_ref()?;
        members.iter().position(|name| *name == self.name)
    }

    /// Whether it is in a view, in the primary partition, with its state.
    pub(super) fn serves(&self) -> bool {
        self.alive && !self.stopped && self.primary && self.view.is_some() && !self.taking
    }
}

/// All members, their reports, and the trace of the faults.
pub(super) struct Stage {
    pub(super) members: Vec<Member>,
    directory: PathBuf,
    trace: TraceWriter<std::fs::File>,
    inbox: Receiver<(String, u64, Option<Report>)>,
    outbox: Sender<(String, u64, Option<Report>)>,
    starts: u64,
    /// Own updates delivered in earlier incarnations.
    returned_before: u64,
    /// Asks that all members answered alike.
    pub(super) agreed: u64,
    /// Latencies of processes that have ended.
    latency_before: Histogram,
}

impl Stage {
    pub(super) fn new(directory: &Path) -> Result<Self, Failure> {
        let traces = directory.join(TRACES);
        std::fs::create_dir_all(&traces).when(format_args!("cannot make {}", traces.display()))?;
        let header = Header::harness(CELL, &clock_name()).with_write_ahead();
        let trace = TraceWriter::create(&traces.join("harness.trace"), &header).when("cannot write the trace")?;
        let (outbox, inbox) = channel();
        Ok(Self {
            members: Vec::new(),
            directory: directory.to_owned(),
            trace,
            inbox,
            outbox,
            starts: 0,
            returned_before: 0,
            agreed: 0,
            latency_before: Histogram::default(),
        })
    }

    /// Starts a process under this name, in place of the earlier one.
    pub(super) fn start(&mut self, name: &str) -> Result<(), Failure> {
        let program = std::env::current_exe().when("cannot find this program's own file")?;
        let mut child = Command::new(program)
            .arg("demo-member")
            .args(["--name", name, "--parent", &std::process::id().to_string()])
            .arg("--directory")
            .arg(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // In a group of its own, it does not receive Ctrl-C of the terminal. The parent does, and ends all members.
            .process_group(0)
            .spawn()
            .when(format_args!("cannot start {name}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were requested as pipes");
        };
        self.starts += 1;
        let (outbox, start, who) = (self.outbox.clone(), self.starts, name.to_owned());
        let listen = move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                // A killed process may leave an incomplete last line, which does not parse.
                let Ok(report) = serde_json::from_str(&line) else { continue };
                if outbox.send((who.clone(), start, Some(report))).is_err() {
                    return;
                }
            }
            let _ = outbox.send((who, start, None));
        };
        let thread = std::thread::Builder::new().name(format!("hear-{name}"));
        if let Err(error) = thread.spawn(listen) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::new(Exit::Failure, format!("cannot start a thread: {error}")));
        }
        let member = Member {
            name: name.to_owned(),
            child,
            stdin,
            start,
            alive: true,
            stopped: false,
            incarnation: 0,
            view: None,
            primary: false,
            cut_off: false,
            cell: Vec::new(),
            taking: false,
            transfer: None,
            applied: 0,
            returned: 0,
            latency: Histogram::default(),
            excluded: false,
            audit: None,
            left: false,
        };
        match self.members.iter_mut().find(|m| m.name == name) {
            Some(place) => {
                let old = std::mem::replace(place, member);
                self.returned_before += old.returned;
                self.latency_before.merge(&old.latency);
            }
            None => self.members.push(member),
        }
        Ok(())
    }

    /// Kills a member with SIGKILL, and returns when it is dead. Returns the time of the kill in nanoseconds.
    pub(super) fn kill(&mut self, name: &str) -> Result<u64, Failure> {
        let member = self.member(name);
        let at_ns = now_ns();
        member.child.kill().when(format_args!("cannot kill {name}"))?;
        member.child.wait().when(format_args!("cannot wait for {name}"))?;
        member.alive = false;
        member.view = None;
        let incarnation = member.incarnation;
        self.write(&Event::Crash { incarnation })?;
        Ok(at_ns)
    }

    /// Stops a member (SIGSTOP) or continues it (SIGCONT). Returns the time.
    pub(super) fn hold(&mut self, name: &str, stop: bool) -> Result<u64, Failure> {
        let member = self.member(name);
        let incarnation = member.incarnation;
        let pid = i32::try_from(member.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a child that was not waited for has a process id");
        member.stopped = stop;
        let at_ns = now_ns();
        if stop {
            stop_child(pid).when(format_args!("cannot stop {name}"))?;
            self.write(&Event::Stop { incarnation })?;
        } else {
            self.write(&Event::Cont { incarnation })?;
            kill_process(pid, Signal::CONT).when(format_args!("cannot continue {name}"))?;
        }
        Ok(at_ns)
    }

    /// Sends an order to one member.
    pub(super) fn tell(&mut self, name: &str, order: Order) -> Result<(), Failure> {
        let mut line = serde_json::to_string(&order).expect("an order is plain data");
        line.push('\n');
        self.member(name).stdin.write_all(line.as_bytes()).when(format_args!("{name} does not listen"))
    }

    pub(super) fn member(&mut self, name: &str) -> &mut Member {
        self.members.iter_mut().find(|m| m.name == name).expect("the script names members it started")
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.members.iter().map(|m| m.name.clone()).collect()
    }

    /// Writes an event of the harness into its trace, for the checker.
    pub(super) fn write(&mut self, event: &Event) -> Result<(), Failure> {
        let doing = "cannot write the trace of what was done";
        self.trace.write(now_ns(), event).when(doing)?;
        self.trace.flush().when(doing)
    }

    /// Waits up to `patience` for a report, processes it and returns it with the member's name.
    pub(super) fn hear(&mut self, patience: Duration) -> Result<Option<(String, Report)>, Failure> {
        let (name, start, report) = match self.inbox.recv_timeout(patience) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => unreachable!("this end keeps a sender"),
        };
        let Some(member) = self.members.iter_mut().find(|m| m.name == name && m.start == start) else {
            return Ok(None);
        };
        let Some(report) = report else {
            if member.alive && !member.left {
                return Err(Failure::new(Exit::Failure, format!("{name} ended without an order")));
            }
            return Ok(None);
        };
        match &report {
            Report::Begin { incarnation } => {
                member.incarnation = *incarnation;
                member.view = None;
                member.primary = false;
                member.transfer = None;
                self.returned_before += std::mem::take(&mut member.returned);
            }
            Report::View { view, members, .. } => member.view = Some((*view, members.clone())),
            Report::StateBegin { at_ns, bytes } => {
                member.taking = true;
                member.transfer = Some(Transfer { bytes: *bytes, began_ns: *at_ns, ended_ns: None, whole: false });
            }
            Report::StateEnd { at_ns, whole } => {
                member.taking = false;
                if let Some(transfer) = &mut member.transfer {
                    transfer.ended_ns = Some(*at_ns);
                    transfer.whole = *whole;
                }
            }
            Report::Cell { members } => {
                member.primary = true;
                member.cell.clone_from(members);
            }
            Report::Primary { primary } => {
                member.primary = *primary;
                member.cut_off |= !primary;
            }
            Report::Excluded { .. } => {
                member.excluded = true;
                member.primary = false;
                member.view = None;
            }
            Report::Progress { applied, returned, agreed, latency, .. } => {
                member.applied = *applied;
                member.returned = *returned;
                self.agreed += agreed;
                member.latency.merge(latency);
            }
            Report::Audit { applied, digest, sum } => member.audit = Some((*applied, *digest, *sum)),
            Report::Left => member.left = true,
            Report::Failed { why } => return Err(Failure::new(Exit::Failure, format!("{name}: {why}"))),
            Report::Flush { .. } => {}
        }
        Ok(Some((name, report)))
    }

    /// Whether exactly the members `names` are in one view, and all of them have the state.
    pub(super) fn agree(&self, names: &[String]) -> bool {
        let mut views = self.members.iter().filter(|m| names.contains(&m.name)).map(|m| (m.serves(), m.view.as_ref()));
        let Some((true, Some(first))) = views.next() else { return false };
        let mut sorted = first.1.clone();
        sorted.sort();
        let mut wanted = names.to_vec();
        wanted.sort();
        sorted == wanted && views.all(|(serves, view)| serves && view == Some(first))
    }

    /// Own updates delivered at their senders, over all incarnations.
    pub(super) fn returned(&self) -> u64 {
        self.returned_before + self.members.iter().map(|m| m.returned).sum::<u64>()
    }

    /// All latencies.
    pub(super) fn latency(&self) -> Histogram {
        let mut all = self.latency_before.clone();
        self.members.iter().for_each(|m| all.merge(&m.latency));
        all
    }

    /// Waits until every member has ended by itself.
    pub(super) fn part(&mut self) -> Result<(), Failure> {
        for member in &mut self.members {
            let status = member.child.wait().when(format_args!("cannot wait for {}", member.name))?;
            member.alive = false;
            if !status.success() {
                return Err(Failure::new(Exit::Failure, format!("{} ended with {status}", member.name)));
            }
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SIGKILL ends a stopped process as well.
        for member in self.members.iter_mut().filter(|m| m.alive) {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// The cell of the demonstration.
pub(super) const CELL: &str = "demo";

/// Name of the trace directory within the demonstration's directory.
pub(super) const TRACES: &str = "traces";
