//! Calls to several members at once, phase after phase: what broadcasts and take-overs have in common.

use phalanx::MemberId;

use super::message::{Answer, Request};

/// The calls of a phase, which are made at once.
pub(crate) type Calls = Vec<(MemberId, Request)>;

/// What became of each call of a phase. `None`: the member left.
pub(crate) type Outcomes = Vec<(MemberId, Option<Answer>)>;

/// A machine that makes calls.
pub(crate) trait Phases {
    /// Takes the outcomes of the phase before, none at first, and returns the calls of the next one. Empty: it is over.
    ///
    /// # Errors
    /// [`Refused`]; it is over.
    fn next(&mut self, outcomes: Outcomes) -> Result<Calls, Refused>;
}

/// A member refused a call: it takes the caller for gone. Another one ends what the caller began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} takes the caller for gone")]
pub(crate) struct Refused(pub(crate) MemberId);

/// Leaves out the members that left.
///
/// # Errors
/// [`Refused`] if one refused.
pub(super) fn answered(outcomes: Outcomes, members: &mut Vec<MemberId>) -> Result<Vec<(MemberId, Answer)>, Refused> {
    let mut answers = Vec::with_capacity(outcomes.len());
    for (who, outcome) in outcomes {
        match outcome {
            Some(Answer::Refused) => return Err(Refused(who)),
            Some(answer) => answers.push((who, answer)),
            None => members.retain(|member| *member != who),
        }
    }
    Ok(answers)
}
