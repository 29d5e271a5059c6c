//! One short, real run. Like the command-line program, this program is also each of its own children.

use phalanx_bench::{BenchError, CHILD_COMMAND, Interrupt, Reporter, Request, Row, Selection, Suite, run, run_child};

/// Keeps the rows and notices of a run.
#[derive(Default)]
struct Kept {
    rows: Vec<Row>,
    notices: Vec<String>,
    planned: usize,
    done: usize,
}

impl Reporter for Kept {
    fn plan(&mut self, cases: usize) {
        self.planned = cases;
    }

    fn doing(&mut self, _what: &str) {}

    fn case_done(&mut self) {
        self.done += 1;
    }

    fn row(&mut self, row: &Row) {
        self.rows.push(row.clone());
    }

    fn notice(&mut self, what: &str) {
        self.notices.push(what.to_owned());
    }
}

fn main() -> Result<(), BenchError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, _, parent] = &arguments[..]
        && command == CHILD_COMMAND
    {
        let parent = parent.parse().map_err(|error| BenchError::Usage(format!("a process has a number: {error}")))?;
        return run_child(parent);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return Ok(());
    }
    streams_are_measured()
}

/// Checks that figures come in the promised form. Their values depend on the machine.
fn streams_are_measured() -> Result<(), BenchError> {
    let request = Request {
        suite: Suite::Stream,
        cases: vec!["total-one-2x100-udp-sealed".to_owned()],
        quick: true,
        rounds: 5,
        seconds: std::time::Duration::from_secs(1),
        selection: Selection { members: vec![2], ..Selection::default() },
        peers: "peers".into(),
        built: "built".into(),
        trace: false,
        counters: false,
        interrupt: Interrupt::default(),
    };
    let mut kept = Kept::default();
    run(&request, &mut kept)?;
    assert_eq!((kept.planned, kept.done, kept.notices.len()), (1, 1, 0), "{:?}", kept.notices);
    let row = kept.rows.iter().find(|row| row.metric == "throughput").expect("the figure it is for");
    assert_eq!((row.suite.as_str(), row.case.as_str()), ("stream", "total-one-2x100-udp-sealed"));
    assert_eq!((row.group, row.size, row.unit.as_str(), row.runs.len()), (2, 100, "msg/s", 1));
    assert!(row.value > 0.0 && row.baseline.is_some_and(|value| value > 0.0), "{row:?}");
    assert!(row.ratio.is_some_and(|ratio| ratio.is_finite()), "{row:?}");
    assert!(kept.rows.iter().all(|row| row.value.is_finite()));
    Ok(())
}
