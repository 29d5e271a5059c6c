//! Restores files of a living process that are missing, and reports that.

use std::time::Duration;

use phalanx_core::Instant;
use phalanx_core::member::FounderRecord;

use crate::counters::CountersWriter;
use crate::local::{Founder, Kept, LivenessLock, LocalError};

/// The files to restore. Checked about once a second.
#[derive(Debug)]
pub(super) struct Files {
    kept: Kept,
    /// Errors that the operator was notified of. Each is reported once while it lasts.
    wrong: Vec<String>,
    /// Since when processes without liveness locks keep this one from founding.
    waits_since: Option<Instant>,
}

impl Files {
    pub(super) fn new(kept: Kept) -> Self {
        Self { kept, wrong: Vec::new(), waits_since: None }
    }

    /// Restores missing files. Returns notices for the operator.
    pub(super) fn restore(
        &mut self,
        now: Instant,
        mut liveness_lock: Option<&mut LivenessLock>,
        counters: Option<&mut CountersWriter>,
        founder: Option<(&mut Founder, &FounderRecord)>,
    ) -> Vec<String> {
        let mut notices = Vec::new();
        let mut wrong = Vec::new();
        if let Some(liveness_lock) = liveness_lock.as_deref_mut() {
            let (again, failed) = restore_runtime(liveness_lock, counters);
            notices.extend(emptied(&liveness_lock.scope().display().to_string(), &again));
            wrong.extend(failed);
        }
        let state = self.kept.restore(founder);
        notices.extend(emptied(&self.kept.directory().display().to_string(), &state.again));
        wrong.extend(state.wrong.iter().map(LocalError::to_string));
        wrong.extend(self.waits(now, liveness_lock.as_deref()));
        notices.extend(wrong.iter().filter(|text| !self.wrong.contains(text)).cloned());
        self.wrong = wrong;
        notices
    }

    /// Names the processes that this one waits for, if it has waited long.
    fn waits(&mut self, now: Instant, liveness_lock: Option<&LivenessLock>) -> Option<String> {
        let liveness_lock = liveness_lock.filter(|liveness_lock| !liveness_lock.lost().is_empty());
        let Some(liveness_lock) = liveness_lock else {
            self.waits_since = None;
            return None;
        };
        let since = *self.waits_since.get_or_insert(now);
        if now.since(since) < WAITS {
            return None;
        }
        let pids: Vec<String> = liveness_lock.lost().iter().map(|sign| sign.pid.to_string()).collect();
        let scope = liveness_lock.scope().display();
        Some(format!(
            "{scope} was emptied while processes of this cell live: this one does not found the cell, and waits until they have restored \
             their files. Resume them if they are stopped, or end them; their process ids: {}",
            pids.join(", ")
        ))
    }
}

fn restore_runtime(
    liveness_lock: &mut LivenessLock,
    counters: Option<&mut CountersWriter>,
) -> (Vec<&'static str>, Option<String>) {
    let mut again = Vec::new();
    match liveness_lock.restore() {
        Ok(true) => again.push("the liveness lock"),
        Ok(false) => {}
        Err(error) => return (again, Some(error.to_string())),
    }
    let path = liveness_lock.counters_path();
    if let Some(counters) = counters.filter(|counters| !counters.is_at(path)) {
        match counters.move_to(path) {
            Ok(()) => again.push("the counters file"),
            Err(error) => {
                let failed = format!("cannot make the counters file {}: {error}", path.display());
                return (again, Some(failed));
            }
        }
    }
    (again, None)
}

fn emptied(directory: &str, again: &[&str]) -> Option<String> {
    let what = again.join(", ");
    (!again.is_empty()).then(|| {
        format!(
            "the directory {directory} was emptied while this process lives: {what} written again. See that nothing removes files there"
        )
    })
}

/// A process that runs restores its files within a second.
const WAITS: Duration = Duration::from_secs(3);
