//! One line on a terminal that shows the current step.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// The progress line. It is drawn on terminals only.
#[derive(Debug)]
pub(super) struct Progress {
    lively: bool,
    ends: Instant,
    due: Instant,
    doing: String,
    pub(super) faults: usize,
    pub(super) violations: usize,
}

impl Progress {
    pub(super) fn new(ends: Instant) -> Self {
        let lively = std::io::stderr().is_terminal();
        Self { lively, ends, due: Instant::now(), doing: String::new(), faults: 0, violations: 0 }
    }

    pub(super) fn doing(&mut self, what: &str) {
        what.clone_into(&mut self.doing);
        self.due = Instant::now();
    }

    pub(super) fn show(&mut self) {
        if !self.lively || Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + DRAW_EVERY;
        let left = self.ends.saturating_duration_since(Instant::now()).as_secs();
        let (faults, violations, doing) = (self.faults, self.violations, &self.doing);
        // A closed standard error is no reason to stop.
        let _ = write!(
            std::io::stderr().lock(),
            "\r\x1b[K{faults} faults, {violations} violations, {}:{:02} left: {doing}",
            left / 60,
            left % 60
        );
    }

    /// Clears the line.
    pub(super) fn clear(&self) {
        if self.lively {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
