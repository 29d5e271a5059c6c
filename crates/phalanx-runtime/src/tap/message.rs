//! What a tap and a process say to each other: `docs/tap.md`, *The socket*.

use std::net::SocketAddr;

use phalanx_driver::tap::Form;
use serde::{Deserialize, Serialize};

/// The most bytes of a message.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// From a reader.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    Look {},
    Attach(Attach),
}

/// How a reader wants to be attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attach {
    pub(super) filter: String,
    #[serde(with = "form")]
    pub(super) form: Form,
    pub(super) snap: u32,
    pub(super) ring_bytes: usize,
}

/// From the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Points(Vec<Point>),
    /// This many points will send their rings.
    Attached {
        points: usize,
    },
    Refused(String),
    /// The ring's descriptor comes with it.
    Ring {
        point: Point,
        unbound: Vec<String>,
    },
    Ended {
        number: u64,
        why: String,
    },
}

/// One thread of a process that shows its packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Its number in the process.
    pub number: u64,
    /// What polls there.
    pub kind: PointKind,
    /// The process's name.
    pub name: String,
    /// The address that it advertises for data.
    pub data: SocketAddr,
    /// The address that it advertises for control.
    pub control: SocketAddr,
    /// Whether it shows packets in clear, too.
    pub is_clear: bool,
}

/// What polls at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    /// A member of a cell, or a process that looks for its cell.
    Member,
    /// An endpoint of calls.
    Calls,
}

mod form {
    use phalanx_driver::tap::Form;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Word {
        Sealed,
        Clear,
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(form: &Form, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match form {
            Form::Sealed => "sealed",
            Form::Clear => "clear",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Form, D::Error> {
        Word::deserialize(from).map(|word| match word {
            Word::Sealed => Form::Sealed,
            Word::Clear => Form::Clear,
        })
    }
}
