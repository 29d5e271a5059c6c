//! The display while the demonstration runs: a picture that is redrawn on a terminal, plain lines elsewhere.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use super::stage::{Member, Stage};
use super::verdict::rounded;
use crate::notice::{data, lively};

/// Interval between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Interval between two lines of progress where nothing can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Events that stay visible in the picture.
const EVENTS_SHOWN: usize = 12;

/// Draws the stage.
pub(super) struct Picture {
    began: Instant,
    lively: bool,
    quiet: bool,
    /// Standard output is closed: nobody looks on.
    closed: bool,
    due: Instant,
    events: VecDeque<String>,
    /// Lines of the last drawing, which the next one overwrites.
    drawn: usize,
    /// Updates applied at the previous drawing, from which the rate is computed.
    last: Option<(Instant, u64)>,
    rate: f64,
}

impl Picture {
    /// A display of the demonstration. With `quiet` it shows nothing.
    pub(super) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        let lively = lively() && !quiet;
        let events = VecDeque::new();
        Self { began: now, lively, quiet, closed: false, due: now, events, drawn: 0, last: None, rate: 0.0 }
    }

    /// Whether standard output was found closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds an event.
    pub(super) fn event(&mut self, text: &str) {
        let line = format!("{:6.2} s  {text}", self.began.elapsed().as_secs_f64());
        if self.lively {
            self.events.push_back(line);
            if self.events.len() > EVENTS_SHOWN {
                self.events.pop_front();
            }
            self.due = Instant::now();
        } else if !self.quiet {
            self.closed |= !data(line);
        }
    }

    /// Redraws if the interval has passed.
    pub(super) fn tick(&mut self, stage: &Stage) {
        let now = Instant::now();
        if now < self.due || self.quiet {
            return;
        }
        self.measure(now, stage);
        if self.lively {
            self.due = now + DRAW_EVERY;
            self.draw(stage);
        } else {
            self.due = now + LINE_EVERY;
            self.event(&self.line(stage));
        }
    }

    fn measure(&mut self, now: Instant, stage: &Stage) {
        let applied = stage.members.iter().map(|m| m.applied).max().unwrap_or(0);
        if let Some((then, before)) = self.last {
            let seconds = (now - then).as_secs_f64();
            if seconds > 0.1 {
                self.rate = applied.saturating_sub(before) as f64 / seconds;
            }
        }
        self.last = Some((now, applied));
    }

    /// Draws a last time. Later output appears below the picture.
    pub(super) fn end(&mut self, stage: &Stage) {
        if self.lively {
            self.draw(stage);
            self.drawn = 0;
        }
    }

    fn line(&self, stage: &Stage) -> String {
        let states: Vec<String> = stage.members.iter().map(|m| format!("{} {}", m.name, state(m))).collect();
        let applied = stage.members.iter().map(|m| m.applied).max().unwrap_or(0);
        format!("{applied} updates, {:.0}/s; {}", self.rate, states.join(", "))
    }

    fn draw(&mut self, stage: &Stage) {
        let mut lines = vec![
            format!(
                "phalanx demo: four processes, one replicated ledger of 64 MiB{:>12.1} s{:>12.0} updates/s",
                self.began.elapsed().as_secs_f64(),
                self.rate
            ),
            String::new(),
            format!(
                "  {:<8}{:>8}  {:<22}{:>6}{:>14}{:>10}{:>10}",
                "member", "pid", "state", "rank", "updates", "p50", "p99"
            ),
        ];
        for member in &stage.members {
            let time = |share| member.latency.quantile(share).map_or_else(|| "-".to_owned(), rounded);
            lines.push(format!(
                "  {:<8}{:>8}  {}{:<22}\x1b[0m{:>6}{:>14}{:>10}{:>10}",
                member.name,
                member.pid(),
                colour(member),
                state(member),
                member.rank().map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
                member.applied,
                time(0.5),
                time(0.99),
            ));
        }
        lines.push(String::new());
        lines.extend(self.events.iter().cloned());
        let mut out = String::new();
        if self.drawn > 0 {
            out.push_str(&format!("\x1b[{}A", self.drawn));
        }
        for line in &lines {
            // Each line is cleared to its end, so that no rest of a longer one remains.
            out.push_str(line);
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J");
        self.drawn = lines.len();
        let mut stdout = std::io::stdout().lock();
        self.closed |= stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()).is_err();
    }
}

fn state(member: &Member) -> String {
    match (&member.view, member.alive, member.stopped, member.taking) {
        _ if member.left => "left".to_owned(),
        (_, false, _, _) => "dead".to_owned(),
        (_, _, true, _) => "stopped".to_owned(),
        (_, _, _, true) => "taking the state".to_owned(),
        (Some((view, members)), ..) => format!("in view {view} of {}", members.len()),
        (None, ..) => "joining".to_owned(),
    }
}

fn colour(member: &Member) -> &'static str {
    match (member.alive, member.serves()) {
        (false, _) => "\x1b[31m",
        (true, true) => "\x1b[32m",
        (true, false) => "\x1b[33m",
    }
}
