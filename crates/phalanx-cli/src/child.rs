//! Processes that this program starts of itself must not outlive it.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::exit::{Exit, Failure, While};

/// Ends this process when the process `parent`, which runs `phalanx OWNER`, ends: however that comes, and even while
/// this one is stopped.
pub(crate) fn end_with_parent(parent: u32, owner: &str) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).when("cannot watch the parent")?;
    // It may have died before the call above.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now.and_then(|pid| u32::try_from(pid).ok()) == Some(parent) {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("this command is for `phalanx {owner}` alone")))
}
