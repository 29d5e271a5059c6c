//! What a founder knows of the ballots for view 1: whom it met, what it promised and accepted, and the ballot it leads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::id::{CellInstance, Incarnation, MemberInfo};
use crate::member::{FirstView, FounderRecord, FoundingBallot};
use crate::process::join::JOINER_TTL;
use crate::time::Instant;

/// Time after which the leader of a founding ballot tries again.
pub(super) const BALLOT_TTL: Duration = Duration::from_secs(1);

/// The state of a founder.
#[derive(Default)]
pub(in crate::process) struct Foundation {
    /// Founders that answered a fresh challenge, with the time of the answer.
    pub(super) contacts: BTreeMap<Incarnation, (MemberInfo, Instant)>,
    pub(super) promised: Option<FoundingBallot>,
    /// The list accepted last.
    pub(super) accepted: Option<Accepted>,
    pub(super) led: Option<Led>,
    /// Names of the founders that have a bootstrap marker of a list, by the list's instance.
    pub(super) marked: BTreeMap<CellInstance, BTreeSet<String>>,
    pub(super) lead_after: Option<Instant>,
    /// Until when the operator's word is valid that nobody of earlier instances lives.
    pub(super) all_dead: Option<Instant>,
    /// Why founders cannot found the cell, as found out last.
    pub(super) hindrance: Option<String>,
}

pub(super) struct Accepted {
    pub(super) ballot: FoundingBallot,
    pub(super) first: FirstView,
}

/// A ballot that this process leads.
pub(super) struct Led {
    pub(super) ballot: FoundingBallot,
    pub(super) since: Instant,
    pub(super) asked: Vec<MemberInfo>,
    pub(super) by_command: bool,
    pub(super) reports: BTreeMap<String, FounderRecord>,
    pub(super) proposed: Option<FirstView>,
    pub(super) accepted: BTreeSet<Incarnation>,
    pub(super) decided: bool,
}

impl Led {
    pub(super) fn asked_name(&self, who: Incarnation) -> Option<&str> {
        self.asked.iter().find(|member| member.incarnation == who).map(|member| &*member.name)
    }
}

impl Foundation {
    /// Whether a ballot that this process leads has a list proposed, and is not decided.
    pub(in crate::process) fn has_proposed(&self) -> bool {
        self.led.as_ref().is_some_and(|led| led.proposed.is_some() && !led.decided)
    }

    pub(in crate::process) fn promised(&self) -> Option<FoundingBallot> {
        self.promised
    }

    pub(super) fn forget_silent(&mut self, now: Instant) {
        self.contacts.retain(|_, (_, at)| now.since(*at) < JOINER_TTL);
    }

    /// Whether the operator's command is still valid.
    pub(super) fn is_commanded(&self, now: Instant) -> bool {
        self.all_dead.is_some_and(|until| now < until)
    }

    /// Leads no ballot for `wait`. A command is valid for a few seconds only, and meanwhile no other founder's ballot
    /// founds anything. So a commanded founder waits no longer than one ballot under way may take; otherwise such
    /// ballots could put the command off until it lapses.
    pub(super) fn lead_later(&mut self, now: Instant, wait: Duration) {
        let wait = if self.is_commanded(now) { wait.min(BALLOT_TTL) } else { wait };
        self.lead_after = Some(now + wait);
    }

    /// The address of another living process with this name.
    pub(super) fn namesake(&self, me: &MemberInfo) -> Option<SocketAddr> {
        let is_other = |info: &&MemberInfo| info.name == me.name && info.incarnation != me.incarnation;
        self.contacts.values().map(|(info, _)| info).find(is_other).map(|info| info.control)
    }

    /// One process for each founder's name that is present.
    ///
    /// # Errors
    /// A message for people, if two processes have the same founder's name.
    pub(super) fn present(&self, me: &MemberInfo, names: &[String]) -> Result<Vec<MemberInfo>, String> {
        let mut all: BTreeMap<&str, &MemberInfo> = BTreeMap::from([(&*me.name, me)]);
        for info in self.contacts.values().map(|(info, _)| info).filter(|info| names.contains(&info.name)) {
            if let Some(other) = all.insert(&info.name, info) {
                let (name, a, b) = (&info.name, other.control, info.control);
                return Err(format!("founder {name} runs twice, at {a} and at {b}: end one of them"));
            }
        }
        Ok(all.into_values().cloned().collect())
    }
}
