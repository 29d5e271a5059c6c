//! The corpus of the fuzz targets `trace` and `check`, see `fuzz/README.md`. The files must equal what is made here.

mod common;

use std::path::Path;

use common::{World, causal, fifo, total, uniform};
use phalanx_trace::Trace;

/// Three processes, messages of every order, one process lost.
fn run() -> World {
    let mut w = World::group(3);
    w.multicast(fifo(0, 1, 1), &[0, 1, 2]);
    w.multicast(uniform(causal(1, 1, 1)), &[0, 1, 2]);
    w.send(total(2, 1, 1));
    [0, 1, 2].iter().for_each(|&p| w.deliver_at(p, total(2, 1, 1), 1));
    w.lose(2, &[0, 1]);
    w.multicast(fifo(0, 2, 1), &[0, 1]);
    w.quiet();
    w.end(&[0, 1]);
    w
}

/// Encoded as the target `check` reads them: each header and each record has a byte in front. A header's byte says
/// whether it stops in a record.
fn bare(traces: &[Trace]) -> Vec<u8> {
    let mut bytes = vec![0];
    for trace in traces {
        bytes = postcard::to_extend(&trace.header, [bytes, vec![0]].concat()).expect("a header can be written");
        for record in &trace.records {
            bytes = postcard::to_extend(record, [bytes, vec![1]].concat()).expect("a record can be written");
        }
    }
    bytes
}

fn kept(target: &str, name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target).join(name);
    if std::env::var_os("PHALANX_WRITE_SEEDS").is_some() {
        std::fs::write(&path, bytes).expect("the folder is there");
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    assert!(kept == bytes, "{target}/{name} is not as it is made: run this test with PHALANX_WRITE_SEEDS=1");
}

#[test]
fn kept_traces_are_as_they_are_made() {
    let w = run();
    kept("check", "made-run", &bare(&w.traces));
    kept("check", "made-alone", &bare(&w.traces[..1]));
    for (i, trace) in w.traces.iter().enumerate() {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).expect("memory takes what is written");
        kept("trace", &format!("made-{i}"), &bytes);
    }
}
