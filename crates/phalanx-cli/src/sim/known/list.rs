//! The list, its parts for each campaign, and its runs.

use phalanx_sim::calls::run_calls;
use phalanx_sim::{Options, SeedResult, run_seed};

use super::listed::{Listed, Standing};
use super::{Campaign, Codes, Entry, Kind, codes, codes_of_calls};

/// The list.
#[derive(Debug, Default)]
pub(in crate::sim) struct Known {
    pub(super) entries: Vec<Entry>,
    pub(super) kinds: Vec<Kind>,
}

/// One run of the list, after it ran.
pub(in crate::sim) struct Ran {
    /// The command that runs it again.
    pub(in crate::sim) command: String,
    pub(in crate::sim) codes: Codes,
    pub(in crate::sim) standing: Standing,
    /// The result of a cell, for machines to read.
    pub(in crate::sim) result: Option<SeedResult>,
}

impl Known {
    /// The rows that apply to cells under `options`.
    pub(in crate::sim) fn of(&self, options: &Options) -> Listed {
        self.of_campaign(Campaign::Cells(options.draw), options.members)
    }

    /// The rows that apply to calls.
    pub(in crate::sim) fn of_calls(&self) -> Listed {
        self.of_campaign(Campaign::Calls, 0)
    }

    fn of_campaign(&self, campaign: Campaign, members: usize) -> Listed {
        let entries = self.entries.iter().filter(|entry| entry.members == members);
        let kinds = self.kinds.iter().filter(|kind| kind.members.is_none_or(|of| of == members));
        Listed::new(campaign, entries.cloned(), kinds.cloned())
    }

    /// Runs every listed run, otherwise under `options`, and calls `each` with how it compares.
    pub(in crate::sim) fn run_all(&self, options: &Options, mut each: impl FnMut(Ran)) {
        for entry in &self.entries {
            let (command, codes, result) = match entry.campaign {
                Campaign::Cells(draw) => {
                    let options = Options { draw, members: entry.members, ..options.clone() };
                    let result = run_seed(entry.seed, &options);
                    (options.replay_command(entry.seed), codes(&result), Some(result))
                }
                Campaign::Calls => {
                    let command = format!("phalanx sim --calls {}..{}", entry.seed, entry.seed + 1);
                    (command, codes_of_calls(&run_calls(entry.seed)), None)
                }
            };
            let standing = Standing::of_listed(&entry.codes, &codes);
            each(Ran { command, codes, standing, result });
        }
    }

    pub(in crate::sim) fn len(&self) -> usize {
        self.entries.len()
    }
}
