//! What a long campaign has counted so far, in a file: it is ended and goes on later.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phalanx_sim::{Draw, Options, Summary};
use serde::{Deserialize, Serialize};

use super::spent::{Spent, Watch};
use crate::exit::{Exit, Failure, While};

/// Between two savings.
const EVERY: Duration = Duration::from_secs(10);

/// A campaign's file.
pub(super) struct Journal {
    file: PathBuf,
    kept: Kept,
    saved: Instant,
    /// What earlier processes spent.
    earlier: Spent,
    watch: Watch,
}

/// Its content.
#[derive(Serialize, Deserialize)]
struct Kept {
    campaign: Campaign,
    spent: Spent,
    summary: Summary,
}

/// What must be the same for a campaign to go on.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Campaign {
    first: u64,
    last: u64,
    step: u64,
    members: usize,
    draw: Draw,
    faults: Option<Vec<usize>>,
    /// A hash of the program's own bytes: seeds mean something else to another build.
    program: String,
}

impl Journal {
    /// Reads `file` if it is there.
    ///
    /// # Errors
    /// When it cannot be read, or is of another campaign or another build.
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
        // A file that cannot be written is told of now, not after an hour.
        journal.save()?;
        Ok(journal)
    }

    /// What was counted before this process.
    pub(super) fn summary(&self) -> Summary {
        self.kept.summary.clone()
    }

    /// Saves when some seconds have passed since the last time.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn keep_sometimes(&mut self, summary: &Summary) -> Result<(), Failure> {
        if self.saved.elapsed() < EVERY {
            return Ok(());
        }
        self.keep(summary).map(|_| ())
    }

    /// Saves; gives what was spent so far, by earlier processes too.
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

    /// Writes a new file and puts it in place of the old one, so that a crash leaves one of the two.
    fn save(&self) -> Result<(), Failure> {
        let beside = self.file.with_extension("new");
        let name = self.file.display();
        let bytes = serde_json::to_vec(&self.kept).when("a journal is written as JSON")?;
        fs::write(&beside, bytes).when(format_args!("cannot write {}", beside.display()))?;
        fs::rename(&beside, &self.file).when(format_args!("cannot write {name}"))
    }
}

fn own_hash() -> Result<String, Failure> {
    // The file may have been replaced by a newer build: this is the one that runs.
    let bytes = fs::read("/proc/self/exe").when("cannot read this program's own file")?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
