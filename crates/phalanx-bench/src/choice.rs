//! The choices a case is made of.

use phalanx::config::{Config, DriverMode, SecurityMode};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// Makes an enum whose values have names on the command line.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[$value_doc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $name {
            /// All there are.
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
        /// Datagrams over loopback.
        Udp = "udp",
        /// Memory shared by all members.
        Shm = "shm",
        /// Every second member uses datagrams with all, the others share memory among themselves.
        Mixed = "mixed",
    }
}

impl Transport {
    /// Makes a member use it.
    fn configure(self, config: &mut Config) {
        let last_digit = config.name.as_deref().and_then(|name| name.bytes().last()).unwrap_or(0);
        config.driver = match self {
            Self::Udp => DriverMode::Udp,
            Self::Mixed if last_digit % 2 == 1 => DriverMode::Udp,
            Self::Shm | Self::Mixed => DriverMode::Auto,
        };
    }

    /// What carries bytes between two processes in the same way, and nothing else.
    pub(crate) fn medium(self) -> Medium {
        match self {
            Self::Udp | Self::Mixed => Medium::Datagrams,
            Self::Shm => Medium::Ring,
        }
    }
}

/// What the raw baselines run over.
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

    /// How many can receive what one sends, of so many: a ring has one reader.
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
        /// They are not.
        None = "none",
    }
}

choice! {
    /// The order multicasts ask for.
    Ordering: "order" {
        /// Of each sender.
        Fifo = "fifo",
        /// After everything a message may depend on.
        Causal = "causal",
        /// The same everywhere.
        Total = "total",
        /// The same everywhere, and delivered when all have it.
        Uniform = "uniform",
    }
}

impl Ordering {
    /// In the library's terms: the order, and by name whether it is uniform.
    pub(crate) fn of_library(self) -> (phalanx::core::Order, phalanx::core::Stability) {
        use phalanx::core::{Order, Stability};
        match self {
            Self::Fifo => (Order::Fifo, Stability::Plain),
            Self::Causal => (Order::Causal, Stability::Plain),
            Self::Total => (Order::Total, Stability::Plain),
            Self::Uniform => (Order::Total, Stability::Uniform),
        }
    }
}

choice! {
    /// Who multicasts.
    Senders: "senders" {
        /// The youngest member.
        One = "one",
        /// Every member.
        All = "all",
    }
}

choice! {
    /// How a process waits.
    Waiting: "wait" {
        /// It sleeps until something comes.
        Block = "block",
        /// It looks again and again.
        Spin = "spin",
    }
}

choice! {
    /// Which processors the processes of a case may use.
    Cores: "cores" {
        /// All share the first.
        One = "one",
        /// The one that measures has the first for itself, the others share the second.
        Two = "two",
    }
}

impl Cores {
    /// The processor of a process that measures, or of another.
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
