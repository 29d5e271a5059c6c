//! The outcome for streams in which some member found nonsense, as the coordinator decides it.

use super::config::{Config, STREAMS};
use super::state::State;
use crate::rules::Mutant;
use crate::verdict::{self, Said, Verdict};

/// Decides the outcome for streams with nonsense; false: nothing can be proposed.
pub(super) fn judge(config: &Config, s: &mut State, ballot: u8) -> bool {
    let b = s.ballot_mut(ballot);
    if config.poisoned.is_empty() || b.found == [0; STREAMS] || b.proposal.judged() {
        return true;
    }
    let mut p = b.proposal;
    let mut verdicts = [(0, Verdict::default()); STREAMS];
    for (stream, &sender) in config.senders.iter().enumerate() {
        let said: Vec<Option<Said>> = (0..config.processes)
            .map(|r| {
                let nonsense = b.found[stream] & 1 << r != 0;
                let said = Said { prefix: b.prefixes[r][stream], read: b.read[r][stream], nonsense };
                (b.reported & config.group & 1 << r != 0).then_some(said)
            })
            .collect();
        verdicts[stream] = (sender, verdict::judge(config.rules, sender, &said));
        p.cut[stream] = verdicts[stream].1.cut;
    }
    let verdicts = verdicts.into_iter().take(config.senders.len());
    let all = verdict::together(verdicts, (p.survivors | p.leavers) & config.group);
    if all.stops {
        p.cut = Default::default();
        if config.rules.lacks(Mutant::TieWaits) {
            return false;
        }
    }
    (p.anew, p.gone, p.stops) = (all.anew, all.gone, all.stops);
    b.proposal = p;
    true
}
