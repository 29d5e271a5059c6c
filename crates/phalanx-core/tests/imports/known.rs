//! What the guards of `imports.rs` found when they were written. These tables only shrink.

use super::types::Size;

/// Circles of imports, by crate, each with all files of it. `lib` is the root.
pub(crate) const KNOWN_CIRCLES: [(&str, &[&str]); 18] = [
    ("phalanx-driver", &["driver", "shm", "shm/links", "shm/segment", "shm/sending"]),
    ("phalanx-driver", &["fork", "fork/hook"]),
    ("phalanx-runtime", &["local", "local/liveness_lock"]),
    ("phalanx-runtime", &["local/founder", "local/kept"]),
    ("phalanx-runtime", &["rpc/caller", "rpc/pending"]),
    ("phalanx", &["simulate", "simulate/machine"]),
    (
        "phalanx-check",
        &[
            "findings",
            "model",
            "model/accepted",
            "model/call",
            "model/domains",
            "model/intern",
            "model/object",
            "model/quiet",
            "model/submits",
            "options",
            "property",
            "property/anew",
            "property/carried",
            "property/m7",
            "property/m8",
            "property/past",
            "property/s3",
            "property/u1",
            "property/u6",
            "property/unsent",
            "property/v1",
            "property/v14",
            "property/v16",
            "property/v4",
            "property/x1",
            "property/x6",
        ],
    ),
    ("phalanx-check", &["ingest", "ingest/accepted", "ingest/domains", "ingest/submits"]),
    ("phalanx-check", &["property/i1", "property/i4"]),
    ("phalanx-model", &["founding", "founding/property", "founding/rule", "founding/state", "founding/step"]),
    ("phalanx-model", &["leaving", "leaving/property", "leaving/rule", "leaving/state", "leaving/step"]),
    ("phalanx-model", &["levels", "levels/property", "levels/state", "levels/step"]),
    ("phalanx-model", &["orphans", "orphans/property", "orphans/state", "orphans/step"]),
    (
        "phalanx-model",
        &[
            "progress",
            "progress/fault",
            "progress/judge",
            "progress/property",
            "progress/rule",
            "progress/state",
            "progress/step",
        ],
    ),
    ("phalanx-model", &["view_change", "view_change/nonsense", "view_change/property"]),
    ("phalanx-cli", &["demo", "demo/script"]),
    ("phalanx-cli", &["doctor", "doctor/clock", "doctor/files", "doctor/kernel", "doctor/network"]),
    ("phalanx-cli", &["torture/lease", "torture/limits"]),
];

/// Fields of a type with more than [`DATA_METHODS`] methods.
pub(crate) const FIELDS_MAX: usize = 30;
/// A type with at most this many methods is a record of data. It may have any number of fields.
pub(crate) const DATA_METHODS: usize = 10;
/// Inherent methods of a type.
pub(crate) const METHODS_MAX: usize = 60;
/// Files in which inherent methods of one type stand.
pub(crate) const FILES_MAX: usize = 3;

/// The types beyond these limits, by crate, file and name, with their sizes.
pub(crate) const LARGE_TYPES: [(&str, &str, Size); 10] = [
    ("phalanx-core", "member/directory::Directory", size(10, 31, 6)),
    ("phalanx-core", "order/view_streams::ViewStreams", size(28, 95, 6)),
    ("phalanx-core", "process::Process", size(70, 317, 22)),
    ("phalanx-core", "rpc/client::ClientSession", size(17, 58, 4)),
    ("phalanx-sim", "app::App", size(29, 43, 6)),
    ("phalanx-sim", "calls/world::World", size(13, 35, 4)),
    ("phalanx-sim", "script::Cell", size(3, 75, 3)),
    ("phalanx-sim", "world::World", size(37, 163, 21)),
    ("phalanx-check", "ingest::Builder", size(5, 42, 6)),
    ("phalanx-check", "model::Model", size(24, 53, 7)),
];

/// The functions and `impl` blocks of `process` that are generic over the sink, by file: what runs for each packet or
/// message. Each program with a sink of its own compiles them again, and what they call generically.
pub(crate) const GENERIC_OVER_THE_SINK: [(&str, usize); 5] =
    [("process", 11), ("process/app", 1), ("process/packet_builder", 1), ("process/packets", 5), ("process/port", 1)];

const fn size(fields: usize, methods: usize, files: usize) -> Size {
    Size { fields, methods, files }
}
