//! One short, real run. Like the command-line program, this program is also each of its own children.

use phalanx_bench::{BenchError, CHILD_COMMAND, Interrupt, Reporter, Request, Row, Selection, Suite, run, run_child};

/// Keeps the rows, points and notices of a run.
#[derive(Default)]
struct Kept {
    rows: Vec<Row>,
    points: Vec<Row>,
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

    fn point(&mut self, row: &Row) {
        self.points.push(row.clone());
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
    streams_are_measured()?;
    asks_are_measured()?;
    linkage_is_measured()
}

/// Checks that figures come in the promised form, also of messages that no datagram holds. Their values depend on the machine.
fn streams_are_measured() -> Result<(), BenchError> {
    [100, 65_536].into_iter().try_for_each(streams_of)
}

fn streams_of(bytes: usize) -> Result<(), BenchError> {
    let name = format!("total-one-2x{bytes}-udp-sealed");
    let selection = Selection { members: vec![2], sizes: vec![bytes], ..Selection::default() };
    let request = Request { selection, ..quick(Suite::Stream, &[&name]) };
    let mut kept = Kept::default();
    run(&request, &mut kept)?;
    assert_eq!((kept.planned, kept.done, kept.notices.len()), (1, 1, 0), "{:?}", kept.notices);
    let row = kept.rows.iter().find(|row| row.metric == "throughput").expect("the figure it is for");
    assert_eq!((row.suite.as_str(), row.case.as_str()), ("stream", name.as_str()));
    assert_eq!((row.group, row.size, row.unit.as_str(), row.runs.len()), (2, bytes, "msg/s", 1));
    assert!(row.value > 0.0 && row.baseline.is_some_and(|value| value > 0.0), "{row:?}");
    assert!(row.ratio.is_some_and(|ratio| ratio.is_finite()), "{row:?}");
    assert!(kept.rows.iter().all(|row| row.value.is_finite()));
    Ok(())
}

/// Checks that each way of asking ends, and that packets are counted.
fn asks_are_measured() -> Result<(), BenchError> {
    let selection = Selection { members: vec![2], ..Selection::default() };
    let request = Request { selection, ..quick(Suite::Asks, &["ask-2x1-block-shm"]) };
    let mut kept = Kept::default();
    run(&request, &mut kept)?;
    assert_eq!((kept.done, kept.notices.len()), (1, 0), "{:?}", kept.notices);
    for (metric, beside) in [
        ("ask of all without self", "a call"),
        ("ask of all without self", "by hand: an abcast, and a message back from each"),
        ("ask of a majority with self", "a call"),
        ("ask of all with self, threaded", "ask of all with self"),
        ("ask of all without self, async", "ask of all without self"),
        ("A13: broadcast in three phases over calls", "ask of all without self"),
        ("A13: broadcast in three phases over calls", "ask of all without self, threaded"),
        ("A13: broadcast in three phases over calls", "ask of all without self, plain"),
        ("sent by all, ask of all without self, plain", ""),
    ] {
        let row = kept.rows.iter().find(|row| row.metric == metric && row.against == beside);
        assert!(
            row.is_some_and(|row| row.value > 0.0 && row.ratios.len() == usize::from(!beside.is_empty())),
            "{metric}"
        );
    }
    Ok(())
}

/// Checks that the published figures come by their numbers, and curves as points.
fn linkage_is_measured() -> Result<(), BenchError> {
    let mut kept = Kept::default();
    run(&quick(Suite::Tap, &["read", "touched", "filters"]), &mut kept)?;
    assert_eq!((kept.planned, kept.done, kept.notices.len()), (3, 3, 0), "{:?}", kept.notices);
    for figure in ["F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F11"] {
        let of_it = |row: &&Row| row.metric.split(' ').next() == Some(figure);
        assert!(kept.rows.iter().any(|row| of_it(&row)), "{figure}");
        assert!(kept.rows.iter().filter(of_it).all(|row| row.value.is_finite() && row.size == 0), "{figure}");
    }
    let printed =
        |metric: &str| kept.rows.iter().find(|row| row.metric.starts_with(metric)).and_then(|row| row.baseline);
    assert_eq!(printed("F4 as posted"), Some(19.6));
    for name in ["accept all, STREAMS, free list: slope, robust", "filter pair: time of an instruction"] {
        assert!(kept.rows.iter().any(|row| row.metric == name && row.value.is_finite()), "{name}");
    }
    let curve = |row: &&Row| row.metric.starts_with("reject all, in place: time at ");
    assert!(kept.points.iter().filter(curve).count() > 20, "a curve has points");
    assert!(kept.points.iter().all(|row| row.p50.is_some() && row.p99.is_some_and(f64::is_finite)));
    let refused = run(&quick(Suite::Tap, &["raed"]), &mut kept).expect_err("there is no such case").to_string();
    assert!(refused.contains("it has:") && refused.contains("read-evicted"), "{refused}");
    Ok(())
}

/// A request for one short round of these cases.
fn quick(suite: Suite, cases: &[&str]) -> Request {
    Request {
        suite,
        cases: cases.iter().map(|case| (*case).to_owned()).collect(),
        quick: true,
        rounds: 5,
        seconds: std::time::Duration::from_secs(1),
        selection: Selection::default(),
        peers: "peers".into(),
        built: "built".into(),
        trace: false,
        counters: false,
        interrupt: Interrupt::default(),
    }
}
