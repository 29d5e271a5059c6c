//! Arbitrary traces, decoded without the trace files' framing, to the checker: it gives a verdict, in time and memory
//! that the traces' size bounds, and the same verdict again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_check::{Options, Quorum, Require, check};
use phalanx_trace::{Header, Record, Trace};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let traces = traces(rest);
    let options = Options {
        require: if choice & 1 == 0 { Require::Features } else { Require::Nothing },
        quorum: if choice & 2 == 0 { Quorum::OldestHalf } else { Quorum::AnyHalf },
        one_instance: choice & 4 != 0,
        complete: choice & 8 != 0,
        clock_slack_ns: if choice & 16 == 0 { 0 } else { u64::MAX },
        membership_bound_ns: if choice & 32 == 0 { 1000 } else { u64::MAX },
        delivery_bound_ns: if choice & 32 == 0 { 1000 } else { u64::MAX },
        ..Options::default()
    };
    let report = check(&traces, &options);
    assert_eq!(report.passed, report.violated().is_empty() && report.missing.is_empty());
    assert!(report.to_string().contains("tested"));
    assert_eq!(report.to_json(), check(&traces, &options).to_json());
});

/// As many traces as the bytes hold, up to where they make no sense.
fn traces(mut rest: &[u8]) -> Vec<Trace> {
    let mut traces: Vec<Trace> = Vec::new();
    // A byte says whether a record follows, or another process's trace.
    while let Some((&what, body)) = rest.split_first() {
        rest = match (traces.last_mut(), what) {
            (Some(trace), 1..) => {
                let Ok((record, rest)) = postcard::take_from_bytes::<Record>(body) else { break };
                trace.records.push(record);
                rest
            }
            _ => {
                let Ok((header, rest)) = postcard::take_from_bytes::<Header>(body) else { break };
                traces.push(Trace { header, records: Vec::new(), truncated: what != 0 });
                rest
            }
        };
    }
    traces
}
