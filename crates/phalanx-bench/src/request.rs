//! What a run measures, and who receives its results.

use std::path::PathBuf;
use std::time::Duration;

use crate::choice::{Ordering, Security, Senders, Transport};
use crate::crew::Interrupt;
use crate::error::BenchError;
use crate::row::Row;

/// A request for measurements.
#[derive(Clone, Debug)]
pub struct Request {
    /// The suite.
    pub suite: Suite,
    /// Names of cases, in which `*` matches anything. Empty: all cases.
    pub cases: Vec<String>,
    /// Whether to run one short round, to see that it works.
    pub quick: bool,
    /// Number of rounds for each case.
    pub rounds: usize,
    /// Duration of one measurement.
    pub seconds: Duration,
    /// For the suites `stream`, `interface` and `asks`: parameters of the cases, in place of the usual ones.
    pub selection: Selection,
    /// Directory of the peers' runners.
    pub peers: PathBuf,
    /// Directory in which the runners were built.
    pub built: PathBuf,
    /// Whether to report where the slowest call of a case spent its time.
    pub trace: bool,
    /// Whether to report the counters of the endpoints of calls.
    pub counters: bool,
    /// Set when the user asked to stop.
    pub interrupt: Interrupt,
}

impl Request {
    /// Whether nothing particular is requested and the run must be quick: a few cases then represent all.
    pub(crate) fn is_sketch(&self) -> bool {
        self.quick && self.cases.is_empty()
    }
}

/// Parameters of cases. Every combination of the named values makes a case; an empty list has one usual value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Message sizes in bytes.
    pub sizes: Vec<usize>,
    /// Numbers of group members.
    pub members: Vec<usize>,
    /// Orders.
    pub orders: Vec<Ordering>,
    /// Which members send.
    pub senders: Vec<Senders>,
    /// How packets travel.
    pub transports: Vec<Transport>,
    /// Whether packets are encrypted.
    pub security: Vec<Security>,
}

/// Receives the results of a run.
pub trait Reporter {
    /// Called with the number of cases to be measured.
    fn plan(&mut self, cases: usize);
    /// Called with the step that begins.
    fn doing(&mut self, what: &str);
    /// Called when a case has ended, with or without a figure.
    fn case_done(&mut self);
    /// Called with each figure.
    fn row(&mut self, row: &Row);
    /// Called with each point of a curve: a figure for a plot, of which a table would have too many.
    fn point(&mut self, row: &Row);
    /// Called with a message for people.
    fn notice(&mut self, what: &str);
}

/// A set of cases that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// Limits of the machine.
    Limits,
    /// Multicasts per second.
    Stream,
    /// Latency of messages.
    Latency,
    /// Small buffers, lost packets, members that stop or lag, many senders.
    Flow,
    /// View changes.
    Views,
    /// The protocol core alone.
    Core,
    /// The ways in which programs use the library.
    Interface,
    /// Asks of a group.
    Asks,
    /// Remote procedure calls.
    Rpc,
    /// Packets handed to a filter.
    Tap,
    /// Other systems.
    Peers,
}

impl Suite {
    /// All suites.
    pub const ALL: &[Self] = &[
        Self::Limits,
        Self::Stream,
        Self::Latency,
        Self::Flow,
        Self::Views,
        Self::Core,
        Self::Interface,
        Self::Asks,
        Self::Rpc,
        Self::Tap,
        Self::Peers,
    ];

    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Stream => "stream",
            Self::Latency => "latency",
            Self::Flow => "flow",
            Self::Views => "views",
            Self::Core => "core",
            Self::Interface => "interface",
            Self::Asks => "asks",
            Self::Rpc => "rpc",
            Self::Tap => "tap",
            Self::Peers => "peers",
        }
    }
}

impl std::str::FromStr for Suite {
    type Err = BenchError;

    fn from_str(word: &str) -> Result<Self, BenchError> {
        Self::ALL.iter().copied().find(|suite| suite.word() == word).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|suite| suite.word()).collect();
            BenchError::Usage(format!("there is no suite '{word}'; there is: {}", words.join(", ")))
        })
    }
}
