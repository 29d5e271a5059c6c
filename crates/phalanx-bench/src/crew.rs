//! The benchmark's processes as seen by their parent.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::{BenchError, While};
use crate::protocol::{Command, Mark, Report, Role};

/// The first argument of a process that is a child of the benchmark; `--parent PID` follows.
pub const CHILD_COMMAND: &str = "bench-child";

/// A flag that the user asked to stop. Every wait checks it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(pub Arc<AtomicBool>);

impl Interrupt {
    /// # Errors
    /// [`BenchError::Interrupted`] if the user asked to stop.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.0.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// Sleeps; returns early with an error when the user asks to stop.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), BenchError> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(LOOK));
        }
    }
}

/// A child process; killed and reaped on drop.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: String,
    process: process::Child,
    to: ChildStdin,
    from: Receiver<Report>,
    interrupt: Interrupt,
    /// Views it reported, oldest first.
    pub(crate) views: Vec<View>,
}

/// A view as reported by a child.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) group: String,
    pub(crate) members: usize,
    pub(crate) at_ns: u64,
}

impl Child {
    /// Starts this program again with a role.
    pub(crate) fn start(name: impl Into<String>, role: &Role, interrupt: &Interrupt) -> Result<Self, BenchError> {
        interrupt.check()?;
        let name = name.into();
        let program = std::env::current_exe().when("cannot find this program's own file")?;
        let mut process = process::Command::new(program)
            .args([CHILD_COMMAND, "--parent", &process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // In a group of its own, it does not receive Ctrl-C of the terminal. The parent does, and ends all
            // children.
            .process_group(0)
            .spawn()
            .when(format_args!("cannot start {name}"))?;
        let (Some(to), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both were requested as pipes");
        };
        let (tell, from) = channel();
        let mut child = Self { name, process, to, from, interrupt: interrupt.clone(), views: Vec::new() };
        let listen = move || {
            for line in BufReader::new(stdout).lines() {
                // A killed process may leave an incomplete last line, which does not parse.
                let Some(report) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
                if tell.send(report).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("hear".to_owned()).spawn(listen).when("cannot start a thread")?;
        child.write(role)?;
        Ok(child)
    }

    pub(crate) fn tell(&mut self, command: &Command) -> Result<(), BenchError> {
        self.write(command)
    }

    fn write(&mut self, value: &impl serde::Serialize) -> Result<(), BenchError> {
        let mut line = serde_json::to_vec(value).expect("roles and commands are plain data");
        line.push(b'\n');
        self.to.write_all(&line).when(format_args!("{} does not listen", self.name))
    }

    /// Waits for a report that `pick` accepts. Views reported meanwhile are kept.
    pub(crate) fn hear<T>(
        &mut self,
        what: &str,
        patience: Duration,
        mut pick: impl FnMut(&Report) -> Option<T>,
    ) -> Result<T, BenchError> {
        let end = Instant::now() + patience;
        loop {
            self.interrupt.check()?;
            let left = end.saturating_duration_since(Instant::now());
            let report = match self.from.recv_timeout(left.min(LOOK)) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Err(self.fault(&format!("said nothing of {what} within {patience:?}")));
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    self.interrupt.check()?;
                    return Err(self.fault(&format!("ended while {what} was waited for")));
                }
            };
            self.note(&report)?;
            if let Some(picked) = pick(&report) {
                return Ok(picked);
            }
        }
    }

    fn note(&mut self, report: &Report) -> Result<(), BenchError> {
        match report {
            Report::View { group, members, at_ns, .. } => {
                self.views.push(View { group: group.clone(), members: *members, at_ns: *at_ns });
                Ok(())
            }
            Report::Failed { why } => Err(self.fault(why)),
            _ => Ok(()),
        }
    }

    /// Processes the reports that arrived meanwhile.
    pub(crate) fn catch_up(&mut self) -> Result<(), BenchError> {
        while let Ok(report) = self.from.try_recv() {
            self.note(&report)?;
        }
        Ok(())
    }

    fn fault(&self, what: &str) -> BenchError {
        BenchError::Child(format!("{}: {what}", self.name))
    }

    pub(crate) fn port(&mut self) -> Result<u16, BenchError> {
        self.hear("its port", PATIENCE, |report| match report {
            Report::Ready { port } => Some(*port),
            _ => None,
        })
    }

    pub(crate) fn mark(&mut self) -> Result<Mark, BenchError> {
        self.hear("where it stands", PATIENCE, |report| match report {
            Report::Mark(mark) => Some(*mark),
            _ => None,
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        pid.expect("a process id is above zero")
    }

    /// Sends it a signal. If that stops it, returns when all its threads are stopped: they run on for some time.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        let doing = format_args!("cannot send a signal to {}", self.name);
        kill_process(self.pid(), signal).when(doing)?;
        if signal == Signal::STOP {
            // One that died instead stays to be waited for.
            let seen = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(self.pid()), seen).when(doing)?;
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended by itself. Either way nothing is left to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The longest a child may take for a command that should need no time. A machine that is busy with other work may
/// starve it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Time between two checks of whether the user asked to stop.
const LOOK: Duration = Duration::from_millis(50);
