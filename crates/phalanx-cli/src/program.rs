//! Programs that run for others: one for each request, which is its input; its output is the answer.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::exit::{Exit, Failure};

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It ran, and ended in this way with this output.
    Ran(Way, Vec<u8>),
    /// It could not be started, took too long, or was killed with its service.
    Not(String),
}

/// How a program that ran ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Well,
    /// With an exit code of 1 to 255.
    Code(u8),
    /// By a signal of this number.
    Signal(u8),
}

/// Runs a program for each request, and counts those that run.
pub(crate) struct Programs {
    /// The program and its arguments.
    command: Vec<String>,
    jobs_max: u32,
    timeout: Duration,
    running: Arc<AtomicU32>,
    /// Since when they are killed.
    killed: Arc<OnceLock<Instant>>,
}

impl Programs {
    /// At most `jobs_max` at a time, each for at most `timeout`. Fails if there is no such program.
    pub(crate) fn new(command: &[String], jobs_max: u32, timeout: Duration) -> Result<Self, Failure> {
        let program = &command[0];
        if !is_program(program) {
            let remedy = if program.starts_with('-') { "; options stand before the program, see --help" } else { "" };
            return Err(Failure::new(Exit::Usage, format!("there is no program {program}{remedy}")));
        }
        let (running, killed) = (Arc::default(), Arc::default());
        Ok(Self { command: command.to_vec(), jobs_max, timeout, running, killed })
    }

    /// The program and its arguments, as text.
    pub(crate) fn shown(&self) -> String {
        self.command.join(" ")
    }

    /// Whether as many run as may.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.load(Ordering::Relaxed) >= self.jobs_max
    }

    /// Runs the program with `request` as its input, and calls `done` at its end, in another thread. `Err`: it cannot be
    /// started, and `done` is not called.
    pub(crate) fn start(&self, request: Vec<u8>, done: impl FnOnce(Ended) + Send + 'static) -> Result<(), String> {
        self.try_start(request, done).map_err(|error| format!("cannot run {}: {error}", self.command[0]))
    }

    fn try_start(&self, request: Vec<u8>, done: impl FnOnce(Ended) + Send + 'static) -> std::io::Result<()> {
        let mut command = Command::new(&self.command[0]);
        // A process group of its own, so that the program's children can be killed with it.
        command.args(&self.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let child = command.spawn()?;
        let (timeout, killed, running) = (self.timeout, Arc::clone(&self.killed), Arc::clone(&self.running));
        running.fetch_add(1, Ordering::Relaxed);
        let work = move || {
            let ended = finish(child, request, timeout, &killed);
            running.fetch_sub(1, Ordering::Relaxed);
            done(ended);
        };
        std::thread::Builder::new().name("program".to_owned()).spawn(work).map(drop)
    }

    /// Has running programs be killed. Those that are started later are, too.
    pub(crate) fn kill(&self) {
        self.killed.get_or_init(Instant::now);
    }

    /// Waits a moment. False: all programs that were killed have ended, or their time is over.
    pub(crate) fn are_ending(&self) -> bool {
        let is_late = self.killed.get().is_none_or(|killed| killed.elapsed() > GRACE);
        if is_late || self.running.load(Ordering::Relaxed) == 0 {
            return false;
        }
        std::thread::sleep(LOOK);
        true
    }
}

/// Feeds a program its input, collects its output, and waits for its end.
fn finish(mut child: Child, request: Vec<u8>, timeout: Duration, killed: &OnceLock<Instant>) -> Ended {
    // Input and output go side by side: a program that answers before it has read everything would block otherwise.
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let feed = std::thread::spawn(move || {
        // A program need not read its input.
        let _ = input.map(|mut input| input.write_all(&request));
    });
    let (tell, told) = channel();
    let read = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let most = phalanx_runtime::core::MESSAGE_BYTES_MAX as u64;
        let read = output.map_or(Ok(0), |output| output.take(most).read_to_end(&mut bytes));
        let _ = tell.send(());
        read.map(|_| bytes)
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let end = Instant::now() + timeout;
    let mut late = false;
    // The process id cannot be reused before the process is reaped, so the signals below reach the right one.
    while !has_ended(pid) {
        if Instant::now() >= end || killed.get().is_some() {
            late = true;
            break;
        }
        // Its output usually ends when it does; a child that inherited the pipe may keep it open.
        let _ = told.recv_timeout(LOOK);
    }
    // Kills processes of its group that outlived it.
    if let Some(group) = pid {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().ok().filter(|_| !late);
    let _ = feed.join();
    let output = read.join();
    match (status, output) {
        (Some(status), Ok(Ok(bytes))) => Ended::Ran(way(status), bytes),
        _ if killed.get().is_some() => Ended::Not("it was killed, as its service ends".to_owned()),
        _ if late => Ended::Not(format!("it was killed after {} ms", timeout.as_millis())),
        _ => Ended::Not("its output cannot be read".to_owned()),
    }
}

fn has_ended(pid: Option<Pid>) -> bool {
    // `WNOWAIT` leaves the process unreaped, so that its id is not reused.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // A process that cannot be waited for has no end to wait for.
    pid.is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

fn way(status: ExitStatus) -> Way {
    let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.code(), status.signal()) {
        (Some(0), _) => Way::Well,
        (Some(code), _) => Way::Code(small(code)),
        (None, signal) => Way::Signal(small(signal.unwrap_or(0))),
    }
}

/// Whether a program of this name can be found, with the system's search rules.
fn is_program(name: &str) -> bool {
    let runs =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return runs(Path::new(name));
    }
    std::env::var_os("PATH").is_some_and(|all| std::env::split_paths(&all).any(|directory| runs(&directory.join(name))))
}

/// Interval at which a program is polled that closed its output or ran too long.
const LOOK: Duration = Duration::from_millis(5);
/// Time allowed to running programs when their service ends.
const GRACE: Duration = Duration::from_secs(2);
