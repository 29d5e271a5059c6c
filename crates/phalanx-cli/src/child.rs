//! Child processes of this program: they execute orders from it, and must not outlive it.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, channel};
use std::task::Waker;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, set_parent_process_death_signal, waitid,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::{Exit, Failure, While};

/// Has the kernel kill this process when its parent ends, however the parent ends and even while this process is
/// stopped. Fails if `parent`, which runs `phalanx OWNER`, is not the parent.
pub(crate) fn end_with_parent(parent: u32, owner: &str) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).when("cannot watch the parent")?;
    // The parent may have died before `prctl` took effect; then no signal comes.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now.and_then(|pid| u32::try_from(pid).ok()) == Some(parent) {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("this command is started by `phalanx {owner}` only")))
}

/// Stops a child (SIGSTOP), and returns when all its threads are stopped, or it is dead. The signal alone does not say so:
/// the thread that takes it stops the others, and on a busy machine they run on until then.
pub(crate) fn stop(child: Pid) -> rustix::io::Result<()> {
    kill_process(child, Signal::STOP)?;
    // It stays to be waited for.
    waitid(WaitId::Pid(child), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    Ok(())
}

/// Writes reports as lines of JSON to standard output, and clears them.
pub(crate) fn tell<T: Serialize>(reports: &mut Vec<T>) -> Result<(), Failure> {
    if reports.is_empty() {
        return Ok(());
    }
    let mut lines = Vec::new();
    for report in reports.drain(..) {
        serde_json::to_writer(&mut lines, &report).expect("a report is plain data");
        lines.push(b'\n');
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&lines).and_then(|()| stdout.flush()).when("the parent does not listen")
}

/// Returns a channel of orders, read as lines of JSON from standard input; `None`: the parent is gone. `waker` is woken
/// after each.
pub(crate) fn listen<T: DeserializeOwned + Send + 'static>(waker: Waker) -> std::io::Result<Receiver<Option<T>>> {
    let (orders, inbox) = channel();
    let work = move || {
        for line in std::io::stdin().lock().lines() {
            let Some(order) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            if orders.send(Some(order)).is_err() {
                return;
            }
            waker.wake_by_ref();
        }
        let _ = orders.send(None);
        waker.wake();
    };
    std::thread::Builder::new().name("orders".to_owned()).spawn(work)?;
    Ok(inbox)
}
