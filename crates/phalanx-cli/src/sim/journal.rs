//! The progress of a long campaign in a file, so that the campaign can be interrupted and continued.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phalanx_sim::{Draw, Options, Summary};
use serde::{Deserialize, Serialize};

use super::spent::{Spent, Watch};
use crate::exit::{Exit, Failure, While};

/// Interval between two saves.
const EVERY: Duration = Duration::from_secs(10);

/// The journal of a campaign.
pub(super) struct Journal {
    file: PathBuf,
    kept: Kept,
    saved: Instant,
    /// Time spent by earlier processes.
    earlier: Spent,
    watch: Watch,
}

/// Content of the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    campaign: Campaign,
    spent: Spent,
    summary: Summary,
}

/// The parameters that must be the same for a campaign to continue.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Campaign {
    first: u64,
    last: u64,
    step: u64,
    members: usize,
    draw: Draw,
    faults: Option<Vec<usize>>,
    /// A hash of the program's own bytes: another build draws other runs from the same seeds.
    program: String,
}

impl Journal {
    /// Reads `file` if it exists.
    ///
    /// # Errors
    /// When it cannot be read, or belongs to another campaign or another build.
    pub(super) fn open(file: &Path, seeds: Range<u64>, options: &Options) -> Result<Self, Failure> {
        let campaign = Campaign {
            first: seeds.start,
            last: seeds.end,
            step: options.step,
            members: options.members,
            draw: options.draw,
            faults: options.faults.clone(),
            program: own_hash()?,
        };
        let name = file.display();
        let kept = match fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Kept { campaign, spent: Spent::default(), summary: Summary::default() }
            }
            read => {
                let bytes = read.when(format_args!("cannot read {name}"))?;
                let kept: Kept = serde_json::from_slice(&bytes)
                    .when(format_args!("{name} is no journal of a campaign (remove it, or name another file)"))?;
                let differs = |what: &str| {
                    let text = format!("{name} is of a campaign with {what}: remove it, or name another file");
                    Err(Failure::new(Exit::Usage, text))
                };
                if kept.campaign.program != campaign.program {
                    return differs("another build of this program");
                }
                if kept.campaign != campaign {
                    return differs("other seeds or options");
                }
                kept
            }
        };
        let journal =
            Self { file: file.to_owned(), earlier: kept.spent, kept, saved: Instant::now(), watch: Watch::start() };
        // Fails now if the file cannot be written, not after an hour.
        journal.save()?;
        Ok(journal)
    }

    /// The counts of earlier processes.
    pub(super) fn summary(&self) -> Summary {
        self.kept.summary.clone()
    }

    /// Saves if [`EVERY`] has passed since the last time.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn keep_sometimes(&mut self, summary: &Summary) -> Result<(), Failure> {
        if self.saved.elapsed() < EVERY {
            return Ok(());
        }
        self.keep(summary).map(|_| ())
    }

    /// Saves. Returns the time spent so far, by earlier processes too.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn keep(&mut self, summary: &Summary) -> Result<Spent, Failure> {
        self.kept.summary = summary.clone();
        self.kept.spent = self.earlier + self.watch.spent();
        self.save()?;
        self.saved = Instant::now();
        Ok(self.kept.spent)
    }

    /// Writes a new file and renames it over the old one, so that a crash leaves one of the two.
    fn save(&self) -> Result<(), Failure> {
        let beside = self.file.with_extension("new");
        let name = self.file.display();
        let bytes = serde_json::to_vec(&self.kept).when("a journal is written as JSON")?;
        fs::write(&beside, bytes).when(format_args!("cannot write {}", beside.display()))?;
        fs::rename(&beside, &self.file).when(format_args!("cannot write {name}"))
    }
}

fn own_hash() -> Result<String, Failure> {
    // A newer build may have replaced the program's file; `/proc/self/exe` is the one that runs.
    let bytes = fs::read("/proc/self/exe").when("cannot read this program's own file")?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
