//! Arbitrary bytes as a trace file. Whatever is read can be written, and is then read alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_trace::{FORMAT_VERSION, Header, Trace, TraceReader};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = TraceReader::new(bytes, "fuzz") else { return };
    let mut trace = Trace { header: reader.header().clone(), records: Vec::new(), truncated: false };
    while let Ok(Some(record)) = reader.read() {
        assert!(!record.to_string().is_empty());
        trace.records.push(record);
    }
    assert!(matches!(reader.read(), Ok(None)), "a reader that came to its end goes on");

    let mut written = Vec::new();
    trace.write(&mut written).expect("what was read can be written");
    let mut again = TraceReader::new(&written[..], "again").expect("and read");
    // It is written in the format of today.
    assert_eq!(again.header(), &Header { format: FORMAT_VERSION, ..trace.header.clone() });
    for record in &trace.records {
        assert_eq!(again.read().expect("as it was").as_ref(), Some(record));
    }
    assert!(matches!(again.read(), Ok(None)) && !again.truncated());
});
