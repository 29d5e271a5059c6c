//! Looking at the packets of a process: the process's side and the tap's. `docs/tap.md` describes both.
//!
//! ```
//! use phalanx_runtime::config::Config;
//! use phalanx_runtime::rpc::{Port, PortOptions};
//! use phalanx_runtime::tap::{Form, Reader, Shown, Wanted, places};
//! # use phalanx_runtime::rpc::Service;
//! # struct Nothing;
//! # impl Service for Nothing {}
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let (run, state) = (directory.path().join("run"), directory.path().join("state"));
//! let config = Config { runtime_dir: Some(run), state_dir: Some(state), ..Config::default() };
//! let mut port = Port::start(&PortOptions { config: config.clone(), ..PortOptions::default() })?;
//! # let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
//! # let halt = stop.clone();
//! # let polled = std::thread::spawn(move || {
//! #     while !halt.load(std::sync::atomic::Ordering::Relaxed) {
//! #         port.poll(&mut Nothing);
//! #         port.wait(None, &[]).expect("it waits");
//! #     }
//! # });
//! // Elsewhere, while the port is polled:
//! let place = places(&config)?.pop().ok_or("nobody is there")?;
//! let filter = "type open or type session".to_owned();
//! let mut reader = Reader::attach(&place, &Wanted { filter, form: Form::Sealed, snap: 128, ring_bytes: 1 << 20 })?;
//! while let Some(shown) = reader.read()? {
//!     if let Shown::Packet(seen, _) = shown {
//!         println!("{:?} from {}", seen.time, seen.peer);
//!     }
//! }
//! # assert_eq!(reader.points().len(), 1);
//! # stop.store(true, std::sync::atomic::Ordering::Relaxed);
//! # polled.join().expect("it ends");
//! # Ok(())
//! # }
//! ```

mod error;
mod message;
mod reader;
mod seat;
mod service;
mod socket;

pub use error::TapError;
pub use message::{Point, PointKind};
pub use phalanx_driver::tap::Form;
pub use reader::{Place, Reader, Shown, Stats, Wanted, places};

pub(crate) use seat::{Known, Seat};
