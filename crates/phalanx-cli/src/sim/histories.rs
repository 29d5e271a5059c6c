//! `phalanx sim --histories`: writes the operations of the users of simulated registers and locks, with their answers,
//! one file a seed.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use phalanx_sim::SeedResult;

use crate::exit::{Exit, Failure, While};

/// Creates the directory if it does not exist.
pub(super) fn prepare(directory: &Path) -> Result<(), Failure> {
    let why = |error| Failure::new(Exit::Usage, format!("--histories {}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(why)
}

/// Writes a seed's history as JSON lines, one operation each. Replaces an older file of that seed.
pub(super) fn write(directory: &Path, result: &SeedResult) -> Result<(), Failure> {
    let path = directory.join(format!("seed-{}.jsonl", result.seed));
    let write = || {
        let mut file = BufWriter::new(File::create(&path)?);
        for operation in &result.history {
            serde_json::to_writer(&mut file, operation)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().when(path.display())
}
