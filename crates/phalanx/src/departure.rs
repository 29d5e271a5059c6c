//! A member that left the cell: why, and what is known of it here.

use std::fmt;

use phalanx_core as core;

use crate::id::{LeaveReason, Member, MemberId};

/// A member that left the cell, why, and what this process knows of that.
///
/// Who left, with which view and for which reason is agreed: all members have the same. The evidence beside it, in
/// [`Departure::proof`] and [`Departure::found_by`], is what this process knew when it installed that view. It does not travel, so
/// members may have different parts of it, or none.
///
/// Its text, for people, says who left and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departure {
    /// Who left. Only its id is known if it was gone before this process could know it: the name is empty then.
    pub member: Member,
    /// The first view of the cell without it, as far as this process knows.
    pub view: u64,
    /// Why it left. `None`: this process was not in the cell meanwhile, and was not told.
    pub why: Option<LeaveReason>,
    /// The proof of its death that this process's own system gave, even if the cell decided for another reason. `None`: it gave
    /// none, because the member was on another host or did not die. Which proof another member's system gave is not known.
    pub proof: Option<Proof>,
    /// Members that did not hear it or that it held back, as far as they told this process in time; this process among them if
    /// it found so itself. Those to which a path failed by the decree ([`CellView::apart`](crate::CellView::apart)) come first.
    /// At most sixteen. Empty if it died or asked to leave. Which member proposed to leave it out is not known.
    pub found_by: Vec<MemberId>,
}

/// How an operating system proved a process dead. The numbers are the same in every version and language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Proof {
    /// It reported the end of the process.
    Ended = 1,
    /// The lock that the process holds while it lives is free: it ended where this process cannot see it, or left the cell
    /// without asking.
    Unlocked = 2,
}

impl Departure {
    /// One that left with the view, by what the core knows.
    pub(crate) fn of(view: &core::CellView, departed: &core::Departed) -> Self {
        let who = departed.member.incarnation;
        let apart = view.apart.iter().filter(|(left, _)| *left == who).flat_map(|(_, by)| by);
        let mut found_by: Vec<MemberId> = Vec::new();
        for by in apart.chain(&departed.found_by).map(|by| MemberId::of(*by)) {
            if !found_by.contains(&by) {
                found_by.push(by);
            }
        }
        Self {
            member: Member::of(&departed.member),
            view: view.view.0,
            why: Some(LeaveReason::of(departed.why)),
            proof: departed.proof.map(Proof::of),
            found_by,
        }
    }

    /// One of which is known only that it is not in the view.
    pub(crate) fn unexplained(member: Member, view: u64) -> Self {
        Self { member, view, why: None, proof: None, found_by: Vec::new() }
    }
}

impl Proof {
    const fn of(proof: core::DeathProof) -> Self {
        match proof {
            core::DeathProof::Ended => Self::Ended,
            core::DeathProof::Unlocked => Self::Unlocked,
        }
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member.name[..] {
            "" => write!(f, "{}", self.member.id)?,
            name => write!(f, "{name} {}", self.member.id)?,
        }
        match self.why {
            Some(why) => write!(f, ": {why}")?,
            None => f.write_str(": gone, nobody told this process why")?,
        }
        if let Some(proof) = self.proof {
            write!(f, " ({proof})")?;
        }
        if !self.found_by.is_empty() {
            let by: Vec<String> = self.found_by.iter().map(MemberId::to_string).collect();
            write!(f, ", found by {}", by.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "its process ended",
            Self::Unlocked => "its lock is free",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn info(number: u64) -> core::MemberInfo {
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let info = core::MemberInfo::new(core::Incarnation(number), format!("m{number}"), nowhere, nowhere);
        core::MemberInfo { host: number.div_ceil(2), ..info }
    }

    /// View `number` of members 1 to `members`, without those of `left`. Two processes each share a host.
    pub(crate) fn view_of(number: u64, members: u64, left: &[(u64, core::LeaveReason)]) -> core::CellView {
        let is_in = |who: &u64| left.iter().all(|(left, _)| left != who);
        let departed = |&(who, why): &(u64, core::LeaveReason)| core::Departed {
            member: info(who),
            why,
            proof: (why == core::LeaveReason::Died).then_some(core::DeathProof::Ended),
            found_by: if why == core::LeaveReason::Unreachable { vec![core::Incarnation(1)] } else { Vec::new() },
        };
        core::CellView {
            instance: core::CellInstance(1 << 48),
            ancestors: Vec::new(),
            view: core::ViewNumber(number),
            level: core::LEVEL,
            members: (1..=members).filter(is_in).map(info).collect(),
            joined: Vec::new(),
            left: left.iter().map(|(who, why)| (core::Incarnation(*who), *why)).collect(),
            apart: Vec::new(),
            departed: left.iter().map(departed).collect(),
            members_min: 1,
        }
    }

    /// What is agreed comes first, and nobody is named twice.
    #[test]
    fn who_found_it_is_told_once_and_the_agreed_ones_first() {
        let mut view = view_of(2, 4, &[(4, core::LeaveReason::Unreachable)]);
        view.apart = vec![(core::Incarnation(4), vec![core::Incarnation(3), core::Incarnation(1)])];
        view.departed[0].found_by.push(core::Incarnation(2));
        let departure = Departure::of(&view, &view.departed[0]);
        assert_eq!(departure.found_by, [3, 1, 2].map(|who| MemberId::of(core::Incarnation(who))));
        assert_eq!((departure.view, departure.why, departure.proof), (2, Some(LeaveReason::Unreachable), None));
        assert!(departure.to_string().starts_with("m4 0000000000000004: unreachable, found by 0000000000000003, "));
    }

    #[test]
    fn a_proof_has_its_number_and_its_text() {
        let view = view_of(2, 2, &[(2, core::LeaveReason::Died)]);
        let died = Departure::of(&view, &view.departed[0]);
        assert_eq!(died.to_string(), "m2 0000000000000002: died (its process ended)");
        assert_eq!([core::DeathProof::Ended, core::DeathProof::Unlocked].map(|proof| Proof::of(proof) as u8), [1, 2]);
        let gone = Departure::unexplained(Member::unknown(MemberId::of(core::Incarnation(5)), String::new()), 3);
        assert_eq!(gone.to_string(), "0000000000000005: gone, nobody told this process why");
    }
}
