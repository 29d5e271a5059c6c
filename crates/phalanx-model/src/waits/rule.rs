//! The rules of waits. (`process/waits.rs`)

use super::config::{Missing, STEP, Waits};
use super::state::{Member, Rival};

/// Round trips that a ballot has.
const ROUNDS: u16 = 3;
/// Vain ballots after which nobody waits for their coordinator.
const VAIN_MAX: u8 = 2;
/// Proposals that double the waits.
pub(super) const DOUBLINGS_MAX: u16 = 3;

/// The time that ballots have from each other.
fn length(model: &Waits, member: &Member, base: u16, round: u16) -> u16 {
    let round = if model.lacks(Missing::NoDistance) { 0 } else { round };
    let doublings = if model.lacks(Missing::NoDoubling) { 0 } else { member.contested };
    base.max(round * ROUNDS) << doublings
}

/// What a step takes, as far as a member has measured it.
pub(super) fn round(member: &Member) -> u16 {
    member.took.iter().copied().max().unwrap_or(0)
}

/// How long a member waits before it coordinates, if so many others come first.
pub(super) fn turn(model: &Waits, member: &Member, before: u16) -> u16 {
    if model.lacks(Missing::NoTurns) { 0 } else { length(model, member, STEP * 4, round(member)) * before }
}

/// Whether another member's ballot has its time.
pub(super) fn has_time(model: &Waits, member: &Member, rival: &Rival) -> bool {
    let takes = if model.lacks(Missing::Announced) { rival.takes } else { 0 };
    !model.lacks(Missing::NoRival) && rival.since < length(model, member, STEP, round(member).max(takes))
}

/// Whether nobody waits for the turn of that member any more.
pub(super) fn has_no_turn(model: &Waits, member: &Member, rank: usize) -> bool {
    !model.lacks(Missing::NoVain) && member.vain[rank] >= VAIN_MAX
}

/// Whether its ballots have no time, either.
pub(super) fn is_given_up(model: &Waits, member: &Member, rank: usize) -> bool {
    let given_up = model.lacks(Missing::GivenUp) || model.lacks(Missing::GivenUpHeeded);
    given_up && has_no_turn(model, member, rank)
}

/// Counts the ballot that another one supersedes as vain, if its time is over and it proposed nothing.
pub(super) fn count_vain(member: &mut Member) {
    let over = round(member) * ROUNDS;
    if let Some(rival) = member.rival.take().filter(|rival| !rival.proposed && rival.since >= over) {
        let vain = &mut member.vain[usize::from(rival.ballot.rank)];
        *vain = (*vain + 1).min(VAIN_MAX);
    }
}

/// The time until a superseded coordinator may begin again.
pub(super) fn backoff(model: &Waits, rank: usize, jitter: u16) -> u16 {
    if model.lacks(Missing::NoBackoff) { 0 } else { STEP / 4 + STEP / 2 * rank as u16 + jitter }
}
