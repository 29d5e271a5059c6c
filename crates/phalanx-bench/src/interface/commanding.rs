//! Carries out the benchmark's commands, for members whose work is done by other threads.

use std::sync::Arc;

use bytes::Bytes;
use phalanx::{Ask, AskEnd, Group};

use super::group_load::{GroupLoad, Job};
use crate::commands::{commands, say};
use crate::error::BenchError;
use crate::measure::{cpu_ns, now_ns};
use crate::protocol::{AskPlan, Command, Mark, Report};

/// Carries out commands until the parent is gone. `give` hands a job to who sends to the group of that index, and says
/// whether that one is still there.
pub(super) fn obey(groups: &[Arc<GroupLoad>], give: impl Fn(usize, Job) -> bool) -> Result<(), BenchError> {
    for command in commands()? {
        let mut is_taken = true;
        match command {
            Command::Mark => say(&Report::Mark(mark(groups)))?,
            Command::Offer { group, size, way } => {
                is_taken = give(group, Job::Load { number: groups[group].next(), size, way });
            }
            Command::Trips { size, nanos, until } => is_taken = give(0, Job::Trips { size, nanos, until }),
            Command::Ask { ask, nanos } => is_taken = give(0, Job::Ask { ask, nanos }),
            Command::Stop => groups.iter().for_each(|group| group.stop()),
            Command::Read { group, reads } => groups[group].set_reads(reads),
            // These are for other roles.
            _ => {}
        }
        if !is_taken {
            return Err(BenchError::Child("nobody sends any more".to_owned()));
        }
    }
    Ok(())
}

fn mark(groups: &[Arc<GroupLoad>]) -> Mark {
    Mark {
        at_ns: now_ns(),
        delivered: groups[0].delivered(),
        accepted: groups[0].accepted(),
        delivered_beside: groups.get(1).map_or(0, |group| group.delivered()),
        cpu_ns: cpu_ns(),
        ..Mark::default()
    }
}

/// Runs the work of a thread. If it fails, the benchmark is told.
pub(super) fn spawn(
    name: &str,
    work: impl FnOnce() -> Result<(), BenchError> + Send + 'static,
) -> Result<(), BenchError> {
    use crate::error::While;
    let work = move || {
        if let Err(error) = work() {
            // Without a listener the process ends anyway.
            let _ = say(&Report::Failed { why: error.to_string() });
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).when("cannot start a thread")
}

/// What a group is asked.
pub(super) fn question(group: &Group, ask: &AskPlan, payload: &Bytes) -> Ask {
    let question = group.ask_bytes(payload.clone()).want(ask.want.of_library()).guarantee(ask.guarantee());
    if ask.with_self { question.with_self() } else { question.without_self() }
}

/// Fails if an ask did not get what it wanted: nobody left.
pub(super) fn met(end: &AskEnd) -> Result<(), BenchError> {
    if *end == AskEnd::Met { Ok(()) } else { Err(BenchError::Child(format!("an ask ended otherwise: {end:?}"))) }
}

/// The error of a call that the library refuses.
pub(super) fn failed<E: std::fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> BenchError {
    move |error| BenchError::Child(format!("{doing}: {error}"))
}

/// Messages in a call of [`Way::Batches`](crate::choice::Way::Batches).
pub(super) const BATCH: usize = 64;

/// Items that are taken at once.
pub(super) const TAKE: usize = 256;
