//! Context shared by all cases of a run: number of rounds, working directory, the previous case's cell, and the
//! reporter.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::cell::{Cell, CellPlan, Times};
use crate::crew::Interrupt;
use crate::error::{BenchError, While};
use crate::row::{Row, Series};
use crate::{Reporter, Request};

/// One case of a suite.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Description of what it measures, for people.
    pub(crate) what: String,
    pub(crate) run: Measure,
}

/// Measures a case and reports its rows.
type Measure = Box<dyn Fn(&mut Bench<'_>) -> Result<(), BenchError>>;

impl Case {
    pub(crate) fn new(
        name: impl Into<String>,
        what: impl Into<String>,
        run: impl Fn(&mut Bench<'_>) -> Result<(), BenchError> + 'static,
    ) -> Self {
        Self { name: name.into(), what: what.into(), run: Box::new(run) }
    }
}

/// Context shared by the cases of one run.
pub(crate) struct Bench<'a> {
    pub(crate) request: &'a Request,
    pub(crate) suite: &'static str,
    pub(crate) case: String,
    reporter: &'a mut dyn Reporter,
    /// The previous case's cell, kept in case the next case needs one like it.
    idle: Option<Cell>,
    cells: usize,
    /// Declared after `idle`: fields drop in order, and the cell lives in this directory.
    scratch: Scratch,
    said: BTreeSet<String>,
    /// Counters of the endpoints in this case, divided by answered calls.
    counted: Vec<Series>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(
        request: &'a Request,
        suite: &'static str,
        reporter: &'a mut dyn Reporter,
    ) -> Result<Self, BenchError> {
        let scratch = Scratch::make()?;
        let (said, counted) = (BTreeSet::new(), Vec::new());
        Ok(Self { request, suite, case: String::new(), reporter, scratch, cells: 0, idle: None, said, counted })
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.request.interrupt
    }

    pub(crate) fn rounds(&self) -> usize {
        if self.request.quick { 1 } else { self.request.rounds }
    }

    /// Duration of one measurement.
    pub(crate) fn measured(&self) -> Duration {
        if self.request.quick { QUICK } else { self.request.seconds }
    }

    /// Duration of the warm-up before a measurement.
    pub(crate) fn warm(&self) -> Duration {
        (self.measured() / 4).clamp(WARM_LEAST, WARM_MOST)
    }

    pub(crate) fn times(&self) -> Times {
        Times { warm: self.warm(), measured: self.measured() }
    }

    /// Returns a cell as planned: the previous case's if its plan is the same, else a new one.
    pub(crate) fn cell(&mut self, plan: &CellPlan) -> Result<Cell, BenchError> {
        if let Some(cell) = self.idle.take().filter(|cell| cell.plan == *plan && cell.len() == plan.members) {
            return Ok(cell);
        }
        self.new_cell(plan)
    }

    pub(crate) fn new_cell(&mut self, plan: &CellPlan) -> Result<Cell, BenchError> {
        // An idle cell with another plan would only take processor time from the new one.
        self.idle = None;
        self.cells += 1;
        let directory = self.scratch.path.join(format!("cell-{}", self.cells));
        Cell::start(plan, &directory, self.interrupt())
    }

    /// Creates a directory in which processes find each other and their key.
    pub(crate) fn directory(&mut self) -> Result<PathBuf, BenchError> {
        let directory = self.scratch.path.join("calls");
        std::fs::create_dir_all(&directory).when("cannot make a directory")?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&directory, mode).when("cannot make a directory")?;
        Ok(directory)
    }

    /// Keeps a cell for the next case. Its membership must still be as planned.
    pub(crate) fn keep(&mut self, cell: Cell) {
        self.idle = Some(cell);
    }

    /// Announces a round. Fails if the user asked to stop.
    pub(crate) fn round(&mut self, round: usize) -> Result<(), BenchError> {
        let doing = format!("{} {}: round {} of {}", self.suite, self.case, round + 1, self.rounds());
        self.reporter.doing(&doing);
        self.interrupt().check()
    }

    /// Records one round's counter of an endpoint, divided by answered calls.
    pub(crate) fn count(&mut self, what: &str, size: usize, per_call: f64) {
        let at = self.counted.iter().position(|series| series.metric == what && series.size == size);
        let at = at.unwrap_or_else(|| {
            self.counted.push(Series::new(what, "/call", 2, size));
            self.counted.len() - 1
        });
        self.counted[at].add(per_call);
    }

    pub(crate) fn case_done(&mut self) {
        let counted = std::mem::take(&mut self.counted);
        self.report(counted.iter().filter(|series| series.runs.iter().any(|value| *value > 0.0)));
        self.reporter.case_done();
    }

    pub(crate) fn notice(&mut self, what: &str) {
        self.reporter.notice(what);
    }

    /// Reports a notice, at most once in a run.
    pub(crate) fn notice_once(&mut self, what: &str) {
        if self.said.insert(what.to_owned()) {
            self.reporter.notice(what);
        }
    }

    /// Reports the rows of a case.
    pub(crate) fn report<'s>(&mut self, series: impl IntoIterator<Item = &'s Series>) {
        let rows: Vec<Row> = series.into_iter().filter_map(|series| series.row(self.suite, &self.case)).collect();
        for row in &rows {
            self.reporter.row(row);
        }
    }

    /// Reports the points of a case's curves.
    pub(crate) fn report_points<'s>(&mut self, series: impl IntoIterator<Item = &'s Series>) {
        for row in series.into_iter().filter_map(|series| series.row(self.suite, &self.case)) {
            self.reporter.point(&row);
        }
    }
}

/// A directory of this run; removed on drop.
#[derive(Debug)]
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make() -> Result<Self, BenchError> {
        use std::os::unix::fs::DirBuilderExt;
        sweep();
        let path = std::env::temp_dir().join(format!("{SCRATCH}{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&path).when(format_args!("cannot make {}", path.display()))?;
        let path = path.canonicalize().when(format_args!("cannot find {}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of runs that were killed. Errors are ignored: a directory that cannot be removed belongs to
/// another user.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(SCRATCH)?.parse::<u32>().ok()) else {
            continue;
        };
        // The process id in the name shows whether its run still lives.
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Prefix of the name of a run's directory; the process id follows.
const SCRATCH: &str = "phalanx-bench-";
const QUICK: Duration = Duration::from_millis(250);
const WARM_LEAST: Duration = Duration::from_millis(80);
const WARM_MOST: Duration = Duration::from_secs(2);
