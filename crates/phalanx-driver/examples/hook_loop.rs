//! Sends packets from one UDP driver to another and receives them, with or without somebody who looks at them, and does
//! nothing else: for valgrind.
//!
//! ```text
//! cargo build --release -p phalanx-driver --example hook_loop
//! valgrind --tool=callgrind target/release/examples/hook_loop 20000 1514 off
//! valgrind --tool=callgrind target/release/examples/hook_loop 20000 1514 reject
//! valgrind --tool=callgrind target/release/examples/hook_loop 20000 1514 64
//! ```
//!
//! The third word is `off`, `reject` (a filter of four instructions that takes nothing), or the most bytes to keep of each packet. The
//! difference between two runs of different counts is free of what starts and ends the program.

use std::error::Error;

use phalanx_core::TrafficClass;
use phalanx_core::wire::Header;
use phalanx_driver::tap::ring::RingWriter;
use phalanx_driver::tap::{Attachment, Form};
use phalanx_driver::{Driver, Transmit, Udp, UdpOptions};
use phalanx_tap::Filter;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [count, len, look] = &words[..] else { return Err("COUNT BYTES off|reject|SNAP".into()) };
    let (count, len): (usize, usize) = (count.parse()?, len.parse()?);
    let options = UdpOptions { packet_bytes_max: Some(9_000), ..UdpOptions::default() };
    let (mut sender, mut receiver) = (Udp::bind(&options)?, Udp::bind(&options)?);
    if look != "off" {
        let (filter, snap) = if look == "reject" { ("type multicast", 96) } else { ("", look.parse()?) };
        for driver in [&mut sender, &mut receiver] {
            let attachment = Attachment {
                number: 1,
                filter: Filter::parse(filter)?,
                form: Form::Sealed,
                snap,
                ring: RingWriter::new(1 << 20)?,
            };
            driver.outbox().tap().ok_or("no tap")?.attach(attachment)?;
        }
    }
    let to = [receiver.local_address(TrafficClass::Data)];
    let packet = vec![0x35; len.max(Header::LEN)];
    let mut received = 0;
    for sent in 1..=count {
        sender.outbox().transmit(TrafficClass::Data, &to, &packet);
        if sent.is_multiple_of(BURST) || sent == count {
            sender.flush();
            while received < sent {
                let taken = receiver.receive(BURST, &mut |_, _, _, _| {});
                received += taken.packets;
            }
        }
    }
    if received == count { Ok(()) } else { Err(format!("{received} of {count} packets came").into()) }
}

/// Packets that go out together.
const BURST: usize = 32;
