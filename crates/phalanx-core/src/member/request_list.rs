//! All that a member requests of the next view, as it travels to the others.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::domains::DomainsOf;
use super::kind::Role;
use super::orphan::Return;
use crate::api::GroupTerms;
use crate::id::{DecreeNumber, Incarnation};
use crate::wire::{Malformed, Tags};

/// A request of a cell member about one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupRequest {
    /// The group's name.
    pub name: String,
    /// True to join, false to leave.
    pub join: bool,
    /// Join only if the group is made by that: the member has not taken its state.
    pub only_new: bool,
    /// The terms of the group if the member makes it. `None` from an earlier build. Sent in the message's tail.
    #[serde(skip)]
    pub terms: Option<GroupTerms>,
    /// What the member wants of the group's state. Sent in the message's tail, from level 6 on.
    #[serde(skip)]
    pub role: Role,
}

/// All requests of a member that no decree has fulfilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestList {
    /// The decree in force at the member. A request holds until the next decree.
    pub decree: DecreeNumber,
    /// Requests about groups.
    pub groups: Vec<GroupRequest>,
    /// The level to which the cell is to rise; 0 for no request.
    pub level: u16,
    /// Groups that wait for this member. This and the following fields are sent in the message's tail, from level 3 on.
    #[serde(skip)]
    pub returns: Vec<Return>,
    /// Names of groups that are to wait no longer.
    #[serde(skip)]
    pub given_up: Vec<String>,
    /// Incarnations for which groups wait, and that are proved dead.
    #[serde(skip)]
    pub dead: Vec<Incarnation>,
    /// What the member has for groups' states: of those that it requests to join with the state, and of those whose lists
    /// lack some of it. From level 10 on. A joiner that is not named has the state itself alone.
    #[serde(skip)]
    pub domains: Vec<DomainsOf>,
}

impl RequestList {
    /// Whether it requests nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.says_domains_at_most()
    }

    /// Whether it requests nothing, whatever it says of domains.
    fn says_domains_at_most(&self) -> bool {
        // Every field is named, so that a new one cannot be forgotten here.
        let Self { decree: _, groups, level, returns, given_up, dead, domains: _ } = self;
        let lists_of_orphans = returns.is_empty() && given_up.is_empty() && dead.is_empty();
        groups.is_empty() && *level == 0 && lists_of_orphans
    }

    /// Whether it requests nothing, and says what the member has for groups' states.
    pub(crate) fn says_domains_alone(&self) -> bool {
        !self.domains.is_empty() && self.says_domains_at_most()
    }

    /// Cuts each list after `max`, and what is said of domains after `DOMAINS_BYTES_MAX`, with the requests to which that
    /// belongs. Returns how many entries that drops.
    pub fn cut(&mut self, max: usize) -> usize {
        let count = |list: &Self| {
            let Self { decree: _, groups, level: _, returns, given_up, dead, domains } = list;
            [groups.len(), returns.len(), given_up.len(), dead.len(), domains.len()].into_iter().sum::<usize>()
        };
        let before = count(self);
        let Self { decree: _, groups, level: _, returns, given_up, dead, domains } = self;
        groups.truncate(max);
        returns.truncate(max);
        given_up.truncate(max);
        dead.truncate(max);
        domains.truncate(max);
        let mut room = DOMAINS_BYTES_MAX;
        let fits = |said: &&DomainsOf| room.checked_sub(said.bytes()).map(|left| room = left).is_some();
        let fitting = domains.iter().take_while(fits).count();
        let late: BTreeSet<String> = domains.drain(fitting..).map(|said| said.group).collect();
        // A request without what it says would be another one.
        groups.retain(|wish| !wish.join || !late.contains(&wish.name));
        before - count(self)
    }

    /// Puts the fields that travel in the message's tail there.
    pub(super) fn put_tail(&self, tail: &mut Tags) {
        put_roles(tail, &self.groups);
        if !self.returns.is_empty() {
            tail.put_value(RETURNS, &self.returns);
        }
        if !self.given_up.is_empty() {
            tail.put_value(GIVEN_UP, &self.given_up);
        }
        if !self.dead.is_empty() {
            tail.put_value(DEAD, &self.dead);
        }
        if !self.domains.is_empty() {
            tail.put_value(DOMAINS, &self.domains);
        }
    }

    /// Reads the fields of [`Self::put_tail`].
    pub(super) fn read_tail(&mut self, tail: &Tags) -> Result<(), Malformed> {
        self.returns = tail.value(RETURNS)?.unwrap_or_default();
        self.given_up = tail.value(GIVEN_UP)?.unwrap_or_default();
        self.dead = tail.value(DEAD)?.unwrap_or_default();
        self.domains = tail.value(DOMAINS)?.unwrap_or_default();
        self.domains.iter().try_for_each(DomainsOf::check)?;
        read_roles(tail, &mut self.groups)
    }
}

/// The most bytes of what one list says of domains.
const DOMAINS_BYTES_MAX: usize = 256 << 10;

/// Tag in the tail of requests: reports of a returned member on groups that wait for it.
const RETURNS: u64 = 2;

/// Tags in the tail of requests: names of groups that are to wait no longer, and incarnations that are proved dead.
const GIVEN_UP: u64 = 3;

/// See [`GIVEN_UP`].
const DEAD: u64 = 4;

/// Tag in the tail of requests: the indexes of those for the state. (5 is a tag of the terms.)
const FOR_STATE: u64 = 6;

/// Tag in the tail of requests: the indexes of those of observers.
const TO_OBSERVE: u64 = 7;

/// Tag in the tail of requests: what the member has for groups' states.
const DOMAINS: u64 = 8;

/// Puts what requests want of the groups' states into the tail of their message. Below level 6 all want the default, and
/// nothing is put.
fn put_roles(tail: &mut Tags, requests: &[GroupRequest]) {
    for (tag, role) in [(FOR_STATE, Role::State), (TO_OBSERVE, Role::Observer)] {
        let places = (0u32..).zip(requests).filter(|(_, wish)| wish.role == role).map(|(place, _)| place);
        let places: Vec<u32> = places.collect();
        if !places.is_empty() {
            tail.put_value(tag, &places);
        }
    }
}

/// Reads the tail of [`put_roles`] into the requests.
fn read_roles(tail: &Tags, requests: &mut [GroupRequest]) -> Result<(), Malformed> {
    for (tag, role) in [(FOR_STATE, Role::State), (TO_OBSERVE, Role::Observer)] {
        let places: Vec<u32> = tail.value(tag)?.unwrap_or_default();
        for place in places {
            let wish = usize::try_from(place).ok().and_then(|place| requests.get_mut(place)).ok_or(Malformed)?;
            wish.role = role;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Domain, OwnDomain};

    fn wish(role: Role) -> GroupRequest {
        GroupRequest { name: "g".into(), join: true, only_new: false, terms: None, role }
    }

    #[test]
    fn what_is_said_of_domains_is_cut_with_its_requests() {
        let domain = Domain { name: "n".repeat(190), version: 1 };
        let own: Vec<OwnDomain> = (0..10).map(|_| OwnDomain { domain: domain.clone(), is_optional: true }).collect();
        let names: Vec<String> = (0..300).map(|at| format!("{at:03}")).collect();
        let said = |name: &String| DomainsOf { group: name.clone(), own: own.clone() };
        let asks = |name: &String| GroupRequest { name: name.clone(), ..wish(Role::State) };
        let mut list = RequestList {
            groups: names.iter().map(asks).collect(),
            domains: names.iter().map(said).collect(),
            ..RequestList::default()
        };
        let dropped = list.cut(1024);
        let kept = list.domains.len();
        assert!((100..200).contains(&kept), "{kept}");
        assert_eq!((list.groups.len(), dropped), (kept, 2 * (300 - kept)));
        assert!(list.groups.iter().zip(&list.domains).all(|(wish, said)| wish.name == said.group));
        let mut tail = Tags::default();
        list.put_tail(&mut tail);
        assert_eq!(Tags::parse(tail.as_bytes()), Ok(tail));
        assert_eq!(list.cut(1024), 0);
    }

    #[test]
    fn requests_say_what_they_want_and_the_default_says_nothing() {
        let said = [Role::State, Role::Stateless, Role::Observer, Role::State].map(wish);
        let mut tail = Tags::default();
        put_roles(&mut tail, &said);
        let mut read = [(); 4].map(|()| wish(Role::Stateless));
        assert_eq!(read_roles(&tail, &mut read), Ok(()));
        assert_eq!(read, said);
        assert_eq!(read_roles(&tail, &mut read[..3]), Err(Malformed), "of a request that is not there");
        let mut tail = Tags::default();
        put_roles(&mut tail, &[wish(Role::Stateless)]);
        assert!(tail.is_empty());
    }
}
