//! The parameters that distinguish cases.

use phalanx_runtime::config::{Config, DriverMode, SecurityMode};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// Defines an enum whose values have names on the command line.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[$value_doc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$value,)*];

            /// Its name.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$value => $word,)* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = BenchError;

            fn from_str(word: &str) -> Result<Self, BenchError> {
                Self::ALL.iter().copied().find(|value| value.word() == word).ok_or_else(|| {
                    let words: Vec<&str> = Self::ALL.iter().map(|value| value.word()).collect();
                    BenchError::Usage(format!("there is no {} '{word}'; there is: {}", $what, words.join(", ")))
                })
            }
        }
    };
}

choice! {
    /// How packets travel.
    Transport: "transport" {
        /// UDP datagrams over the loopback interface.
        Udp = "udp",
        /// Memory shared by all members.
        Shm = "shm",
        /// Every second member uses datagrams for all; the others share memory among themselves.
        Mixed = "mixed",
    }
}

impl Transport {
    /// Sets up a member's configuration for this transport.
    fn configure(self, config: &mut Config) {
        let last_digit = config.name.as_deref().and_then(|name| name.bytes().last()).unwrap_or(0);
        config.driver = match self {
            Self::Udp => DriverMode::Udp,
            Self::Mixed if last_digit % 2 == 1 => DriverMode::Udp,
            Self::Shm | Self::Mixed => DriverMode::Auto,
        };
    }

    /// Whether a member uses datagrams for all.
    pub(crate) fn is_udp(self) -> bool {
        self == Self::Udp
    }

    /// The raw medium that carries bytes between two processes in the same way; its figures are the baseline.
    pub(crate) fn medium(self) -> Medium {
        match self {
            Self::Udp | Self::Mixed => Medium::Datagrams,
            Self::Shm => Medium::Ring,
        }
    }
}

/// The medium of the raw baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Medium {
    /// UDP on loopback.
    Datagrams,
    /// A ring in shared memory.
    Ring,
}

impl Medium {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Datagrams => "raw UDP",
            Self::Ring => "raw ring",
        }
    }

    /// The number of receivers that a raw baseline can have, at most `wanted`. A ring has one reader.
    pub(crate) fn receivers(self, wanted: usize) -> usize {
        match self {
            Self::Datagrams => wanted,
            Self::Ring => 1,
        }
    }
}

choice! {
    /// How packets are protected.
    Security: "security" {
        /// Every packet is encrypted and authenticated.
        Sealed = "sealed",
        /// Packets are neither encrypted nor authenticated.
        None = "none",
    }
}

choice! {
    /// The order that multicasts request.
    Ordering: "order" {
        /// FIFO order of each sender.
        Fifo = "fifo",
        /// Causal order: after every message it may depend on.
        Causal = "causal",
        /// Total order.
        Total = "total",
        /// Total order, and delivered only when stable.
        Uniform = "uniform",
    }
}

impl Ordering {
    /// The library's order and stability for this ordering.
    pub(crate) fn of_library(self) -> (phalanx_runtime::core::Order, phalanx_runtime::core::Stability) {
        use phalanx_runtime::core::{Order, Stability};
        match self {
            Self::Fifo => (Order::Fifo, Stability::Plain),
            Self::Causal => (Order::Causal, Stability::Plain),
            Self::Total => (Order::Total, Stability::Plain),
            Self::Uniform => (Order::Total, Stability::Uniform),
        }
    }
}

choice! {
    /// The members that multicast.
    Senders: "senders" {
        /// The youngest member.
        One = "one",
        /// Every member.
        All = "all",
    }
}

/// How a program uses the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Interface {
    /// The runtime on the caller's own thread.
    Inline,
    /// The crate `phalanx` with calls that block their thread.
    Threads,
    /// The crate `phalanx` with futures on one thread.
    Tasks,
    /// Calls of the crate `phalanx`, and no multicasts: asks are broadcasts in three phases.
    Calls,
}

impl Interface {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Threads => "threaded",
            Self::Tasks => "async",
            Self::Calls => "over calls",
        }
    }
}

/// How a program hands messages over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Way {
    /// Many in a call, without receipts.
    Batches,
    /// One in a call, without a receipt.
    Posts,
    /// One in a call, with a receipt.
    Receipts,
}

/// What a program waits for after it sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Until {
    /// The message is bound to a view.
    Receipt,
    /// The message was delivered here.
    Delivered,
}

/// How many answers end an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Want {
    All,
    Majority,
    First,
}

impl Want {
    pub(crate) const ALL: [Self; 3] = [Self::All, Self::Majority, Self::First];

    /// How many, in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Majority => "a majority",
            Self::First => "the first",
        }
    }

    /// How many of those that are to answer have to.
    pub(crate) fn of(self, expected: usize) -> usize {
        match self {
            Self::All => expected,
            Self::Majority => expected / 2 + 1,
            Self::First => 1,
        }
    }

    pub(crate) fn of_library(self) -> phalanx::Want {
        match self {
            Self::All => phalanx::Want::All,
            Self::Majority => phalanx::Want::Majority,
            Self::First => phalanx::Want::Count(1),
        }
    }
}

choice! {
    /// How a process waits.
    Waiting: "wait" {
        /// It sleeps until a packet arrives.
        Block = "block",
        /// It polls without pause.
        Spin = "spin",
    }
}

choice! {
    /// The processors that the processes of a case may use.
    Cores: "cores" {
        /// All share the first processor.
        One = "one",
        /// The process that measures has the first processor to itself; the others share the second.
        Two = "two",
    }
}

impl Cores {
    /// The processor of a process that measures, or of another one.
    pub(crate) fn of(self, measures: bool) -> usize {
        usize::from(self == Self::Two && !measures)
    }
}

/// Applies transport and security to a member's configuration.
pub(crate) fn configure(config: &mut Config, transport: Transport, security: Security) {
    transport.configure(config);
    config.security = match security {
        Security::Sealed => SecurityMode::Sealed,
        Security::None => SecurityMode::None,
    };
}
