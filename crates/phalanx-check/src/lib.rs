//! Evaluates traces. From what each process of a run recorded, it determines which guarantees held, which were put to the
//! test, and which were broken, with the records that prove it.
//!
//! The checker shares no code with the protocol. It rebuilds views, messages and causal pasts from the traces alone
//! ([`phalanx_trace`]) and then runs one function per property; each property's file states it formally.
//! `docs/checker.md` lists them all.
//!
//! ```
//! use phalanx_check::{Options, Property, check};
//! use phalanx_trace::{Event, Header, Trace};
//!
//! let mut trace = Trace::new(Header::process("cell", "a", 7, "clock"));
//! trace.push(0, Event::Start);
//! trace.push(1, Event::JoinAsked { cell: "cell".into() });
//! trace.push(2, Event::CellView { instance: 1, view: 1, members: vec![(8, "b".into())], left: vec![] });
//! trace.push(3, Event::End);
//! let report = check(&[trace], &Options::default());
//! assert_eq!(report.violated(), [Property::M1]); // a view without the process that installs it
//! ```

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod findings;
mod ingest;
mod linear;
mod model;
mod options;
mod property;
mod render;
mod report;
pub mod svg;

use std::path::{Path, PathBuf};

use phalanx_trace::{Trace, TraceError, TraceReader};

use crate::findings::Texts;
use crate::ingest::Builder;
pub use crate::options::{Options, Quorum, Require};
pub use crate::property::Property;
pub use crate::report::{Evidence, Outcomes, PropertyReport, Report, Stats, Violation};

/// Why files could not be evaluated. A defect *in* a well-formed trace is a violation, never an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A file cannot be read or is malformed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No files were given.
    #[error("no trace files given")]
    NoFiles,
}

/// The checker's name for a trace in memory.
#[must_use]
pub fn memory_label(trace: &Trace) -> String {
    match trace.header.incarnation {
        0 => trace.header.node.clone(),
        incarnation => format!("{}-{incarnation:016x}", trace.header.node),
    }
}

/// Evaluates traces in memory.
#[must_use]
pub fn check(traces: &[Trace], options: &Options) -> Report {
    let mut builder = Builder::new();
    for trace in traces {
        builder.begin(memory_label(trace), &trace.header);
        for record in &trace.records {
            builder.record(record);
        }
        builder.end(trace.truncated);
    }
    let model = builder.finish();
    let findings = property::check_all(&model, options);
    // Only records that evidence refers to are turned into text: a clean run needs none.
    let mut texts = Texts::new();
    for place in findings.iter().flat_map(|f| f.places()) {
        if let Some(record) = traces.get(place.trace).and_then(|t| t.records.get(place.index)) {
            texts.insert(place, record.to_string());
        }
    }
    report::assemble(&model, options, findings, &texts)
}

/// Evaluates trace files, one after the other in streaming fashion. Only what the properties need is held in memory.
///
/// A file whose writer was killed before it wrote the header is empty. It is listed in [`Stats::empty_files`] and
/// otherwise skipped.
///
/// # Errors
/// When a file cannot be read or is malformed, or none was given.
pub fn check_files(files: &[PathBuf], options: &Options) -> Result<Report, CheckError> {
    if files.is_empty() {
        return Err(CheckError::NoFiles);
    }
    let mut builder = Builder::new();
    let mut read: Vec<&Path> = Vec::new();
    for path in files {
        let mut reader = match TraceReader::open(path) {
            Ok(reader) => reader,
            Err(TraceError::Empty { file }) => {
                builder.note_empty(file);
                continue;
            }
            Err(other) => return Err(other.into()),
        };
        builder.begin(path.display().to_string(), reader.header());
        while let Some(record) = reader.read()? {
            builder.record(&record);
        }
        builder.end(reader.truncated());
        read.push(path);
    }
    let model = builder.finish();
    let findings = property::check_all(&model, options);
    let texts = texts_from_files(&read, &findings)?;
    Ok(report::assemble(&model, options, findings, &texts))
}

/// Reads the records that the evidence of violations refers to a second time. A run without violations is read once.
fn texts_from_files(files: &[&Path], findings: &[findings::Findings]) -> Result<Texts, CheckError> {
    let mut texts = Texts::new();
    for (trace, path) in files.iter().enumerate() {
        let wanted: std::collections::BTreeMap<usize, findings::Place> =
            findings.iter().flat_map(|f| f.places()).filter(|p| p.trace == trace).map(|p| (p.index, p)).collect();
        let Some(&last) = wanted.keys().next_back() else { continue };
        for (index, record) in TraceReader::open(path)?.enumerate().take(last + 1) {
            let record = record?;
            if let Some(&place) = wanted.get(&index) {
                texts.insert(place, record.to_string());
            }
        }
    }
    Ok(texts)
}
