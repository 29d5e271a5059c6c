//! The members' processes: starts, kills and stops them, reads their reports, and records in the harness's trace what
//! is done to them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use phalanx_runtime::clock::{clock_name, now};
use phalanx_trace::{Event, Header, Phase, TraceWriter};
use rustix::process::{Pid, Signal, kill_process};

use super::limits::Disk;
use super::network::{CONTROL_PORT, DATA_PORT, Network, address};
use super::recovery::Seen;
use super::report::{Order, Pulse, Report};
use super::submits::SECOND_CELL;
use super::tools::command;
use crate::about;
use crate::child::stop as stop_child;
use crate::exit::{Exit, Failure, While};

/// The cell of the torture.
pub(super) const CELL: &str = "torture";
/// Directories of the traces of the cell, and of the second one, in the bout's directory.
pub(super) const TRACES: &str = "traces";
pub(super) const SECOND_TRACES: &str = "traces-2";

/// The process that currently runs on a host, and its last reports.
#[derive(Debug)]
pub(super) struct Member {
    /// Its host, from 1.
    pub(super) host: usize,
    child: Child,
    stdin: ChildStdin,
    /// Number of starts on this host. Reports of an earlier start are ignored.
    start: u64,
    pub(super) alive: bool,
    /// The incarnation it last reported; 0 before the first report.
    pub(super) incarnation: u64,
    /// The incarnation of its endpoint of calls; 0 before it is reported.
    endpoint: u64,
    /// The incarnation of its process in the second cell; 0 before it is reported.
    second: u64,
    /// The last views of this incarnation, with names in rank order.
    pub(super) cell: Option<(u64, Vec<String>)>,
    pub(super) work: Option<(u64, Vec<String>)>,
    pub(super) primary: bool,
    pub(super) pulse: Pulse,
    /// Pulses received since it started.
    pub(super) pulses: u64,
}

impl Member {
    pub(super) fn name(&self) -> String {
        name(self.host)
    }

    pub(super) fn pid(&self) -> Pid {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.expect("a process id is above zero")
    }
}

/// Parameters of the members of one cell.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Directory of this cell: keys, logs, traces, runtime directories.
    pub(super) directory: PathBuf,
    pub(super) seed: u64,
    pub(super) rate: u64,
    /// Path of the library that makes wall clocks jump, if available.
    pub(super) faketime: Option<PathBuf>,
    /// Whether each member's state directory is a file system of its own, which can be filled.
    pub(super) disks: bool,
}

impl Plan {
    pub(super) fn traces(&self) -> PathBuf {
        self.directory.join(TRACES)
    }

    fn second_traces(&self) -> PathBuf {
        self.directory.join(SECOND_TRACES)
    }

    /// The file that sets a member's wall clock.
    pub(super) fn wall_clock(&self, host: usize) -> PathBuf {
        self.directory.join(format!("{}.time", name(host)))
    }

    /// A member's state directory, which outlives its process.
    pub(super) fn state(&self, host: usize) -> PathBuf {
        self.directory.join(format!("state-{}", name(host)))
    }

    fn log(&self, host: usize) -> PathBuf {
        self.directory.join(format!("{}.log", name(host)))
    }
}

/// A host and its report.
pub(super) type Heard = (usize, Report);

/// All members.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) members: Vec<Member>,
    plan: Plan,
    trace: TraceWriter<File>,
    /// What is done to the second cell, for the verdict on it.
    second: TraceWriter<File>,
    inbox: Receiver<(usize, u64, Option<Report>)>,
    outbox: Sender<(usize, u64, Option<Report>)>,
    starts: u64,
    /// Incarnations whose deaths the trace records already.
    dead: BTreeSet<u64>,
    /// Errors that members reported, and members that ended by themselves.
    pub(super) wrongs: Vec<String>,
    /// Whether a member ended by itself: the cell will not be whole again.
    pub(super) lost: bool,
    /// Panics reported so far.
    panics: BTreeSet<String>,
    /// File systems of the members' state directories. Declared last: fields drop in order, and the processes must end
    /// first.
    disks: Vec<Disk>,
}

impl Crew {
    pub(super) fn start(plan: Plan, network: &Network) -> Result<Self, Failure> {
        let [trace, second] = [(CELL, plan.traces()), (SECOND_CELL, plan.second_traces())].map(|(cell, traces)| {
            std::fs::create_dir_all(&traces).when(format_args!("cannot make {}", traces.display()))?;
            let header = Header::harness(cell, &clock_name()).with_write_ahead();
            TraceWriter::create(&traces.join("harness.trace"), &header).when("cannot write the trace")
        });
        let (trace, second) = (trace?, second?);
        write_key(&plan)?;
        let (outbox, inbox) = channel();
        let mut crew = Self {
            members: Vec::new(),
            plan,
            trace,
            second,
            inbox,
            outbox,
            starts: 0,
            dead: BTreeSet::new(),
            wrongs: Vec::new(),
            lost: false,
            panics: BTreeSet::new(),
            disks: Vec::new(),
        };
        crew.write(&about::record(about::TORTURE))?;
        crew.write_second(&about::record(about::TORTURE_SECOND))?;
        crew.phase(Phase::Faulty)?;
        for host in 1..=network.count {
            if crew.plan.faketime.is_some() {
                std::fs::write(crew.plan.wall_clock(host), "+0\n").when("cannot write a member's wall clock")?;
            }
            if crew.plan.disks {
                crew.disks.push(Disk::make(&crew.plan.state(host))?);
            }
            crew.spawn(network, host)?;
        }
        Ok(crew)
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Starts a process on a host, in place of the earlier one.
    pub(super) fn spawn(&mut self, network: &Network, host: usize) -> Result<(), Failure> {
        let command = self.member_command(network, host)?;
        self.spawn_as(command, host)
    }

    /// The same; the process stops itself as soon as a state transfer to it has begun.
    pub(super) fn spawn_to_hang(&mut self, network: &Network, host: usize) -> Result<(), Failure> {
        let mut command = self.member_command(network, host)?;
        command.arg("--stops-in-transfer");
        self.spawn_as(command, host)
    }

    fn spawn_as(&mut self, mut command: std::process::Command, host: usize) -> Result<(), Failure> {
        let log = self.plan.log(host);
        let log = File::options().create(true).append(true).open(&log);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.when("cannot write a member's log")?)
            // In a group of its own, it does not receive Ctrl-C of the terminal. The harness does, and ends all
            // members.
            .process_group(0)
            .spawn()
            .when(format_args!("cannot start {}", name(host)))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were requested as pipes");
        };
        // Reports carry the number of the start, so that late ones of an earlier process are recognised.
        self.starts += 1;
        let (outbox, start) = (self.outbox.clone(), self.starts);
        let listen = move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                // A killed process may leave an incomplete last line, which does not parse.
                let Ok(report) = serde_json::from_str(&line) else { continue };
                if outbox.send((host, start, Some(report))).is_err() {
                    return;
                }
            }
            // `None`: the output has ended, and so has the process.
            let _ = outbox.send((host, start, None));
        };
        let thread = std::thread::Builder::new().name(format!("hear-{}", name(host)));
        if let Err(error) = thread.spawn(listen) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::new(Exit::Failure, format!("cannot start a thread: {error}")));
        }
        let pulse = Pulse::default();
        let member = Member {
            host,
            child,
            stdin,
            start,
            alive: true,
            incarnation: 0,
            endpoint: 0,
            second: 0,
            cell: None,
            work: None,
            primary: false,
            pulse,
            pulses: 0,
        };
        match self.members.iter_mut().find(|m| m.host == host) {
            Some(place) => *place = member,
            None => self.members.push(member),
        }
        Ok(())
    }

    fn member_command(&self, network: &Network, host: usize) -> Result<std::process::Command, Failure> {
        let program = std::env::current_exe().when("cannot find this program's own file")?;
        let plan = &self.plan;
        let hosts = 1..=network.count;
        let seeds: Vec<String> = hosts.clone().map(|host| format!("{}:{CONTROL_PORT}", address(host))).collect();
        let founders: Vec<String> = hosts.map(name).collect();
        let path = |file: &str| plan.directory.join(file);
        let mut command = command("ip");
        // `ip netns exec` execs the program, so the child is the member itself.
        command.args(["netns", "exec", &network.namespace(host)]).arg(program).arg("torture-member");
        command.args(["--parent", &std::process::id().to_string()]);
        // Each start has a seed of its own, so that a restarted member does not repeat its draws.
        command.args(["--seed", &(plan.seed ^ (self.starts << 8) ^ host as u64).to_string()]);
        command.args(["--rate", &plan.rate.to_string()]);
        // Every other member is in the second group as well.
        if host.is_multiple_of(2) {
            command.arg("--side");
        }
        command.args(["--cell", CELL, "--name", &name(host), "--bind", &address(host)]);
        command.args(["--control-port", &CONTROL_PORT.to_string(), "--data-port", &DATA_PORT.to_string()]);
        command.args(["--seeds", &seeds.join(","), "--founders", &founders.join(",")]);
        command.arg("--cell-key").arg(path("cell.key"));
        command.arg("--runtime-dir").arg(path(&format!("run-{}", name(host))));
        command.arg("--state-dir").arg(plan.state(host));
        // Small limits, so that a member that takes nothing blocks the others within seconds.
        command.args(["--set", "limits.group_window=256KiB", "--set", "limits.outbox=64KiB"]);
        command.arg("--trace").arg(plan.traces());
        command.arg("--second-trace").arg(plan.second_traces());
        if let Some(library) = &plan.faketime {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", plan.wall_clock(host));
            // Only the wall clock is to jump: the protocol uses the monotonic one. Without the cache each call reads
            // the file anew.
            command.envs([
                ("FAKETIME_NO_CACHE", "1"),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
                ("FAKETIME_DISABLE_SHM", "1"),
            ]);
        }
        Ok(command)
    }

    /// Kills a member. On return it is dead, its reports are read, and its death is recorded.
    pub(super) fn kill(&mut self, host: usize) -> Result<(), Failure> {
        let member = self.member(host);
        let who = member.name();
        member.child.kill().when(format_args!("cannot kill {who}"))?;
        self.bury(host)
    }

    fn bury(&mut self, host: usize) -> Result<(), Failure> {
        let member = self.member(host);
        let who = member.name();
        member.child.wait().when(format_args!("cannot wait for {who}"))?;
        member.alive = false;
        (member.cell, member.work) = (None, None);
        // Its last incarnation may not have been reported; the name of its trace file shows it.
        for incarnation in self.lives(host, &self.plan.traces())? {
            if self.dead.insert(incarnation) {
                self.write(&Event::Crash { incarnation })?;
            }
        }
        for incarnation in self.lives(host, &self.plan.second_traces())? {
            if self.dead.insert(incarnation) {
                self.write_second(&Event::Crash { incarnation })?;
            }
        }
        Ok(())
    }

    /// Ends the experiment: kills all members, and records that.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        // After its end the experiment's kills do not count for liveness.
        self.write(&Event::End)?;
        self.write_second(&Event::End)?;
        let living: Vec<usize> = self.members.iter().filter(|m| m.alive).map(|m| m.host).collect();
        living.into_iter().try_for_each(|host| self.kill(host))
    }

    /// All incarnations on a host, from the names of their traces in that directory.
    fn lives(&self, host: usize, directory: &Path) -> Result<Vec<u64>, Failure> {
        let prefixes = [format!("{}-", name(host)), format!("{}.calls-", name(host))];
        let doing = || format!("cannot list {}", directory.display());
        let mut lives = Vec::new();
        for entry in std::fs::read_dir(directory).when(doing())? {
            let file = entry.when(doing())?.file_name().to_string_lossy().into_owned();
            let life = prefixes.iter().find_map(|prefix| file.strip_prefix(prefix)?.strip_suffix(".trace"));
            lives.extend(life.and_then(|life| u64::from_str_radix(life, 16).ok()));
        }
        Ok(lives)
    }

    /// Stops a member (SIGSTOP) or continues it (SIGCONT).
    pub(super) fn hold(&mut self, host: usize, stop: bool) -> Result<(), Failure> {
        let member = self.member(host);
        let (pid, who) = (member.pid(), member.name());
        let (lives, second) = ([member.incarnation, member.endpoint], member.second);
        // The trace must be true at any time: a stop is recorded after it happened, a continuation before.
        if stop {
            stop_child(pid).when(format_args!("cannot stop {who}"))?;
            self.write_stop(host)
        } else {
            lives.into_iter().try_for_each(|incarnation| self.write(&Event::Cont { incarnation }))?;
            self.write_second(&Event::Cont { incarnation: second })?;
            kill_process(pid, Signal::CONT).when(format_args!("cannot continue {who}"))
        }
    }

    /// Records that a member is stopped, whoever stopped it.
    pub(super) fn write_stop(&mut self, host: usize) -> Result<(), Failure> {
        let member = self.member(host);
        let (lives, second) = ([member.incarnation, member.endpoint], member.second);
        lives.into_iter().try_for_each(|incarnation| self.write(&Event::Stop { incarnation }))?;
        self.write_second(&Event::Stop { incarnation: second })
    }

    pub(super) fn order(&mut self, host: usize, order: Order) -> Result<(), Failure> {
        let mut line = serde_json::to_string(&order).expect("an order is plain data");
        line.push('\n');
        let member = self.member(host);
        member.stdin.write_all(line.as_bytes()).when(format_args!("{} does not listen", name(host)))
    }

    pub(super) fn member(&mut self, host: usize) -> &mut Member {
        self.members.iter_mut().find(|m| m.host == host).expect("every host has its member from the start")
    }

    /// All members as they last reported themselves.
    pub(super) fn seen(&self) -> Vec<Seen<'_>> {
        self.members.iter().map(|m| Seen { life: m.incarnation, pulses: m.pulses, pulse: &m.pulse }).collect()
    }

    pub(super) fn phase(&mut self, phase: Phase) -> Result<(), Failure> {
        self.write(&Event::Phase { phase, connected: Vec::new() })
    }

    /// Writes an event of the harness into its trace, for the checker.
    pub(super) fn write(&mut self, event: &Event) -> Result<(), Failure> {
        write(&mut self.trace, event)
    }

    /// The same into that of the second cell.
    fn write_second(&mut self, event: &Event) -> Result<(), Failure> {
        write(&mut self.second, event)
    }

    /// Waits up to `patience` for a report, and processes it.
    pub(super) fn hear(&mut self, patience: Duration) -> Result<Option<Heard>, Failure> {
        let (host, start, report) = match self.inbox.recv_timeout(patience) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => unreachable!("this end keeps a sender"),
        };
        // A report of an earlier start is stale.
        let Some(member) = self.members.iter_mut().find(|m| m.host == host && m.start == start) else {
            return Ok(None);
        };
        let Some(report) = report else {
            if member.alive {
                let status = member.child.wait().when("cannot wait for a member")?;
                self.lost = true;
                self.wrongs.push(format!("{} ended by itself with {status}: {}", name(host), self.last_words(host)));
                self.bury(host)?;
            }
            return Ok(None);
        };
        match &report {
            Report::Begin { incarnation } => {
                member.incarnation = *incarnation;
                (member.cell, member.work, member.primary) = (None, None, false);
                member.pulse = Pulse::default();
            }
            Report::Endpoint { incarnation } => member.endpoint = *incarnation,
            Report::Second { incarnation } => member.second = *incarnation,
            Report::Cell { view, members } => {
                member.cell = Some((*view, members.clone()));
                member.primary = true;
            }
            Report::Work { view, members } => member.work = Some((*view, members.clone())),
            Report::Primary { primary } => member.primary = *primary,
            Report::Excluded => (member.cell, member.work, member.primary) = (None, None, false),
            Report::Pulse(pulse) => {
                member.pulse = pulse.clone();
                member.pulses += 1;
            }
            Report::Wrong { what } => self.wrongs.push(format!("{}: {what}", name(host))),
        }
        Ok(Some((host, report)))
    }

    /// The reason for a member's end from its log: a panic, or the last line.
    fn last_words(&self, host: usize) -> String {
        let log = std::fs::read_to_string(self.plan.log(host)).unwrap_or_default();
        let mut lines = log.lines().rev().filter(|line| !line.trim().is_empty());
        let panic = lines.clone().find(|line| line.contains(PANIC));
        panic.or_else(|| lines.next()).unwrap_or("it said nothing").to_owned()
    }

    /// Panics not yet reported, including those of threads whose process went on.
    pub(super) fn new_panics(&mut self) -> Vec<String> {
        let mut new = Vec::new();
        for host in self.members.iter().map(|member| member.host) {
            let log = std::fs::read_to_string(self.plan.log(host)).unwrap_or_default();
            for line in log.lines().filter(|line| line.contains(PANIC)) {
                let text = format!("{}: {line}", name(host));
                if self.panics.insert(text.clone()) {
                    new.push(text);
                }
            }
        }
        new
    }
}

/// Text in the log of a thread that panicked.
const PANIC: &str = " panicked at ";

impl Drop for Crew {
    fn drop(&mut self) {
        // SIGKILL ends a stopped process as well.
        for member in self.members.iter_mut().filter(|m| m.alive) {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn write(trace: &mut TraceWriter<File>, event: &Event) -> Result<(), Failure> {
    let doing = "cannot write the trace of what was done";
    trace.write(now().nanos(), event).when(doing)?;
    // The header promises that a record reaches the system before any process can see its effect.
    trace.flush().when(doing)
}

/// A member's name.
pub(super) fn name(host: usize) -> String {
    format!("m{host}")
}

/// The host of a member's name.
pub(super) fn host_of(name: &str) -> Option<usize> {
    name.strip_prefix('m')?.parse().ok()
}

fn write_key(plan: &Plan) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let path: &Path = &plan.directory.join("cell.key");
    // The seed suffices as a key: the cell lives for minutes, on hosts that no other machine reaches.
    let mut rng = phalanx_runtime::core::rng::Rng::new(plan.seed).fork("key");
    let key: String = (0..4).map(|_| format!("{:016x}", rng.next_u64())).collect();
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(key.as_bytes())).when(format_args!("cannot write {}", path.display()))
}
