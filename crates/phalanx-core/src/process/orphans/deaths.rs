//! Proofs of death from the operating system. Each is remembered: it may come before the decree that makes a group wait
//! for its process, in the middle of a ballot, or between two incarnations of this process.

use std::collections::VecDeque;

use crate::api::DeathProof;
use crate::id::Incarnation;

/// Upper bound on the remembered proofs. Beyond it, the earliest that concerns nobody any more is forgotten, and if there
/// is none, the earliest.
const DEATHS_MAX: usize = 1024;

/// Incarnations that are proved dead, the earliest proof first.
#[derive(Default)]
pub(in crate::process) struct Deaths(VecDeque<(Incarnation, DeathProof)>);

impl Deaths {
    pub(super) fn iter(&self) -> impl Iterator<Item = Incarnation> {
        self.0.iter().map(|(who, _)| *who)
    }

    /// The proof of a death, if there is one.
    pub(in crate::process) fn of(&self, who: Incarnation) -> Option<DeathProof> {
        self.0.iter().find(|(dead, _)| *dead == who).map(|(_, proof)| *proof)
    }

    /// Adds a proof. `concerns`: whether anything waits for that process, or it is a member.
    pub(super) fn add(&mut self, dead: Incarnation, proof: DeathProof, concerns: impl Fn(Incarnation) -> bool) {
        if self.of(dead).is_some() {
            return;
        }
        if self.0.len() >= DEATHS_MAX {
            let idle = self.0.iter().position(|(who, _)| !concerns(*who)).unwrap_or(0);
            self.0.remove(idle);
        }
        self.0.push_back((dead, proof));
        debug_assert!(self.0.len() <= DEATHS_MAX, "more proofs of death are remembered than may be");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What still concerns somebody outlasts what does not.
    #[test]
    fn proofs_are_kept_up_to_a_number() {
        let mut proofs = Deaths::default();
        let concerns = |who: Incarnation| who.0 <= 2;
        (1..=DEATHS_MAX as u64 + 1).for_each(|who| proofs.add(Incarnation(who), DeathProof::Ended, concerns));
        proofs.add(Incarnation(1), DeathProof::Unlocked, concerns);
        assert_eq!(proofs.of(Incarnation(1)), Some(DeathProof::Ended), "the first proof counts");
        let kept: Vec<u64> = proofs.iter().map(|who| who.0).collect();
        assert_eq!((kept.len(), &kept[..3]), (DEATHS_MAX, &[1, 2, 4][..]));
        proofs.add(Incarnation(9999), DeathProof::Ended, |_| true);
        assert_eq!((proofs.0.len(), proofs.iter().next()), (DEATHS_MAX, Some(Incarnation(2))));
    }
}
