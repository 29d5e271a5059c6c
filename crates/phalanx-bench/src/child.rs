//! The child's side of the benchmark: it executes commands from its parent and must not outlive it.

use std::io::BufRead;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::commands::say;
use crate::error::{BenchError, While};
use crate::protocol::{Report, Role, What};
use crate::{calls, interface, member, raw};

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
        What::Interface(role) => interface::run(&role),
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

/// Keeps this thread on one processor.
pub(crate) fn pin(processor: usize) -> Result<(), BenchError> {
    if processor >= CpuSet::MAX_CPU {
        return Err(BenchError::Usage(format!("there is no processor {processor}")));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).when(format_args!("cannot use processor {processor}"))
}
