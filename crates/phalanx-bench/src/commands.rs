//! How a child and its parent talk: commands come in on standard input, and reports go out on standard output.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, channel};

use crate::error::{BenchError, While};
use crate::protocol::{Command, Report};

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

/// A channel of commands that wakes nobody, for processes that poll it themselves.
pub(crate) fn commands() -> Result<Receiver<Command>, BenchError> {
    listen(|| {})
}
