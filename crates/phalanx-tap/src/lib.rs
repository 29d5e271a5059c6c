//! The packet filter: which packets a tap shows. A filter is a text; it is compiled to a program of the classic packet
//! filter, which is verified and then runs in place on each packet. `docs/tap.md` describes all of it. [`capture`] writes
//! packets to files that Wireshark, tshark and tcpdump read (`docs/captures.md`).
//!
//! Read first: *The BSD Packet Filter*, USENIX Winter 1993, by the authors of tcpdump.
//!
//! ```
//! use std::net::SocketAddr;
//! use phalanx_tap::{Filter, Layout, NoNames, Packet, UdpPreamble};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let filter = Filter::parse("type multicast and dst port 7001 and size > 30")?;
//! let program = filter.compile(Layout::Ipv4, &NoNames, 64)?.program;
//!
//! // A packet in two parts, as a driver sends it.
//! let (header, frames) = ([0x36; 24], [0; 100]);
//! let (from, to): (SocketAddr, SocketAddr) = ("10.0.0.1:7001".parse()?, "10.0.0.2:7001".parse()?);
//! let preamble = UdpPreamble::new(from, to, header.len() + frames.len());
//! assert_eq!(preamble.layout(), Layout::Ipv4);
//! let packet = Packet::new(preamble.bytes(), [&header, &frames, &[]]);
//! assert_eq!(program.run(&packet), 64);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]

mod arithmetic;
mod bounds;
pub mod capture;
mod checksum;
mod compiler;
mod contents;
mod cursor;
mod describe;
mod emitter;
mod error;
mod fields;
mod filter;
mod instruction;
mod layout;
mod lexer;
mod name_table;
mod names;
mod numbers;
mod packet;
mod parser;
mod preamble;
mod program;
mod step;
mod summary;
mod syntax;
mod values;
mod verify;

pub use bounds::{NESTING_MAX, PROGRAM_MAX, TEXT_BYTES_MAX};
pub use describe::{Description, Form, Party};
pub use error::{FilterError, FilterFault, ProgramError, ProgramFault};
pub use filter::{Compiled, Filter, Unbound, UnboundKind};
pub use instruction::{Instruction, opcode};
pub use layout::{FLAGS_AT, Flags, FrameKind, Layout};
pub use name_table::NameTable;
pub use names::{BoundMember, BoundView, Names, NoNames};
pub use packet::Packet;
pub use preamble::{ClearPreamble, UdpPreamble};
pub use program::Program;
pub use summary::Summary;

/// The dissector with which Wireshark and tshark read the files of [`capture`], a script in Lua. `docs/captures.md` tells
/// where it goes.
///
/// ```
/// assert!(phalanx_tap::DISSECTOR.contains("Proto(\"phalanx\""));
/// ```
pub const DISSECTOR: &str = include_str!("../../../dissector/phalanx.lua");
