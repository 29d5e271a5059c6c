//! A child's own side: it takes commands from its parent and must not outlive it.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{BenchError, While};
use crate::protocol::{Command, Report, Role, What};
use crate::{calls, member, raw};

/// What a process of the benchmark does: reads its role and fills it until its input ends. Called by the program
/// that the benchmark starts again for each of its processes, in `parent`.
///
/// # Errors
/// When it was not started by `parent`, or cannot do what it was told; the parent was told of it.
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

/// Becomes another program, which is sent SIGTERM when the process `parent` ends. Only returns when it cannot.
///
/// # Errors
/// What the system says.
pub fn run_program(parent: u32, program: &[String]) -> Result<(), BenchError> {
    use std::os::unix::process::CommandExt;
    end_with_parent(parent, Signal::TERM)?;
    let Some((program, arguments)) = program.split_first() else {
        return Err(BenchError::Usage("there is no program to become".to_owned()));
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(error).when(format_args!("cannot run {program}"))
}

/// Ends this process when its parent ends, however that comes.
fn end_with_parent(parent: u32, signal: Signal) -> Result<(), BenchError> {
    set_parent_process_death_signal(Some(signal)).when("cannot watch the parent")?;
    // It may have died before the call above.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now.and_then(|pid| u32::try_from(pid).ok()) == Some(parent) {
        return Ok(());
    }
    Err(BenchError::Usage("this command is for `phalanx bench` alone".to_owned()))
}

fn pin(processor: usize) -> Result<(), BenchError> {
    if processor >= CpuSet::MAX_CPU {
        return Err(BenchError::Usage(format!("there is no processor {processor}")));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).when(format_args!("cannot use processor {processor}"))
}

/// Says a line to the parent.
pub(crate) fn say(report: &Report) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(report).expect("a report is plain data");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).when("the parent does not listen")
}

/// Commands from the parent; a closed channel: it has gone. `wake` is called after each.
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

/// What this process has had of its processors, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The clock that all processes of this machine share, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    phalanx::clock::now().nanos()
}

/// Whether a driver's counter counts what the kernel dropped because a receive buffer was full. Each driver's counters
/// begin with its own name.
pub(crate) fn is_kernel_drop(counter: &str) -> bool {
    counter.ends_with("_receive_overflows")
}
