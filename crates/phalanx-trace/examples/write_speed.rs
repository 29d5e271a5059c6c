//! Measures what one delivery record costs its writer, in nanoseconds: the best of five rounds into a sink.

use std::hint::black_box;
use std::io::{Write, sink};
use std::time::Instant;

use phalanx_trace::{Event, Header, Order, TraceWriter, payload_hash};

const RECORDS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let payload = [7u8; 64];
    let mut best_ns = f64::INFINITY;
    for _ in 0..5 {
        let mut writer = TraceWriter::new(sink(), "sink", &Header::process("cell", "a", 1, "clock"))?;
        let start = Instant::now();
        for i in 0..RECORDS {
            let event = Event::Deliver {
                group: 1,
                view: 5,
                sender: 0x9e37_79b9_7f4a_7c15,
                seq: i,
                order: Order::Total,
                uniform: false,
                position: Some(i),
                hash: payload_hash(black_box(&payload)),
                replayed: false,
            };
            writer.write(1_000_000_000 + i * 300, &event)?;
        }
        writer.flush()?;
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / RECORDS as f64);
    }
    writeln!(std::io::stdout(), "{best_ns:.0} ns per delivery record, its payload's hash included")?;
    Ok(())
}
