//! The suites.

pub(crate) mod core_loop;
mod flow;
mod latency;
mod limits;
mod peers;
mod rpc;
mod stream;
mod views;

use crate::Request;
use crate::bench::Case;
use crate::error::BenchError;

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
    /// Remote procedure calls.
    Rpc,
    /// Other systems.
    Peers,
}

impl Suite {
    /// All suites.
    pub const ALL: &[Self] =
        &[Self::Limits, Self::Stream, Self::Latency, Self::Flow, Self::Views, Self::Core, Self::Rpc, Self::Peers];

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
            Self::Rpc => "rpc",
            Self::Peers => "peers",
        }
    }

    pub(crate) fn cases(self, request: &Request) -> Vec<Case> {
        match self {
            Self::Limits => limits::cases(request),
            Self::Stream => stream::cases(request),
            Self::Latency => latency::cases(request),
            Self::Flow => flow::cases(request),
            Self::Views => views::cases(request),
            Self::Core => core_loop::cases(request),
            Self::Rpc => rpc::cases(request),
            Self::Peers => peers::cases(request),
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
