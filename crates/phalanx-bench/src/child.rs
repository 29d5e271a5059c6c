//! The child's side of the benchmark: it executes commands from its parent and must not outlive it.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{BenchError, While};
use crate::protocol::{Command, Report, Role, What};
use crate::{calls, member, raw};

/// Runs a process of the benchmark: reads its role and executes it until its input ends. The program that the benchmark
/// starts for each of its processes calls this. `parent` is the benchmark's process id.
///
/// # Errors
/// When `parent` did not start this process, or the role failed; the failure was also reported to the parent.
pub fn run(parent: u32) -> Result<(), BenchError> {
    end_with_parent(parent, Signal::KILL)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).when("cannot read the role")?;
    let role: Role = serde_json::from_str(&line).map_err(|error| BenchError::Usage(format!("not a role: {error}")))?;
    if let Some(processor) = role.pin {
        pin(processor)?;
    }
    let filled = match role.what {
        What::Member(role) => member::run(&role),
        What::Calls(role) => calls::run(&role),
        what => raw::run(what),
    };
    if let Err(error) = &filled {
        say(&Report::Failed { why: error.to_string() })?;
    }
    filled
}

/// Replaces this process by another program, which receives SIGTERM when the process `parent` ends. Returns only on
/// failure.
///
/// # Errors
/// The error of the system call that failed.
pub fn run_program(parent: u32, program: &[String]) -> Result<(), BenchError> {
    use std::os::unix::process::CommandExt;
    end_with_parent(parent, Signal::TERM)?;
    let Some((program, arguments)) = program.split_first() else {
        return Err(BenchError::Usage("no program to run was given".to_owned()));
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(error).when(format_args!("cannot run {program}"))
}

/// Has the kernel send `signal` to this process when its parent ends, however the parent ends.
fn end_with_parent(parent: u32, signal: Signal) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(signal)).when("cannot watch the parent")?;
    // The parent may have died before `prctl` took effect; then no signal comes.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now.and_then(|pid| u32::try_from(pid).ok()) == Some(parent) {
        return Ok(());
    }
    Err(BenchError::Usage("this command is started by `phalanx bench` only".to_owned()))
}

fn pin(processor: usize) -> Result<(), BenchError> {
    if processor >= CpuSet::MAX_CPU {
        return Err(BenchError::Usage(format!("there is no processor {processor}")));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).when(format_args!("cannot use processor {processor}"))
}

/// Sends a report to the parent.
pub(crate) fn say(report: &Report) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(report).expect("a report is plain data");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).when("the parent does not listen")
}

/// Returns a channel of commands from the parent; it closes when the parent is gone. `wake` is called after each
/// command.
pub(crate) fn listen(wake: impl Fn() + Send + 'static) -> Result<Receiver<Command>, BenchError> {
    let (tell, commands) = channel();
    let work = move || {
        for line in std::io::stdin().lock().lines() {
            let Some(command) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            if tell.send(command).is_err() {
                break;
            }
            wake();
        }
        drop(tell);
        wake();
    };
    std::thread::Builder::new().name("commands".to_owned()).spawn(work).when("cannot start a thread")?;
    Ok(commands)
}

/// Processor time of this process, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The monotonic clock, which all processes of this machine share, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    phalanx_runtime::clock::now().nanos()
}

/// Whether a driver's counter holds packets that the kernel dropped because a receive buffer was full. The names of a
/// driver's counters begin with the driver's name.
pub(crate) fn is_kernel_drop(counter: &str) -> bool {
    counter.ends_with("_receive_overflows")
}
