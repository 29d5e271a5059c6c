//! The domains of a group's state: an agreed list in the group's entry of the directory, from level [`DOMAINS_LEVEL`] on
//! (`docs/domains.md`).

use serde::{Deserialize, Serialize};

use super::{Directory, GroupChange, GroupEntry, MembershipRequests, Role};
use crate::api::{Domain, DomainMismatch, OwnDomain, are_domains};
use crate::id::{GroupId, Incarnation};
use crate::wire::Malformed;

/// The level from which on a group keeps a list of the domains of its state.
pub const DOMAINS_LEVEL: u16 = 10;

/// Tag in a group's change and entry: the list after it.
const DOMAINS: u64 = 13;

/// Bytes that a name counts for beside its own, in what is said of domains.
const SAID_BYTES: usize = 16;

/// What a member has for a group's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainsOf {
    /// The group's name.
    pub group: String,
    /// The domains.
    pub own: Vec<OwnDomain>,
}

impl DomainsOf {
    /// Bytes that it takes in a message, at most.
    pub(super) fn bytes(&self) -> usize {
        let own = self.own.iter().map(|own| own.domain.name.len() + SAID_BYTES);
        self.group.len() + SAID_BYTES + own.sum::<usize>()
    }

    /// Checks what came from another process.
    pub(super) fn check(&self) -> Result<(), Malformed> {
        if are_domains(self.own.iter().map(|own| &own.domain)) { Ok(()) } else { Err(Malformed) }
    }
}

impl GroupEntry {
    /// The domains of the group's state. `None`: there is no list. A malformed one counts as absent: all members read the
    /// same.
    #[must_use]
    pub fn domains(&self) -> Option<Vec<Domain>> {
        let list: Vec<Domain> = self.tail.value(DOMAINS).ok().flatten()?;
        are_domains(list.iter()).then_some(list)
    }
}

/// Records the group's list after a change.
pub(super) fn note_domains(change: &mut GroupChange, list: &[Domain]) {
    change.tail.put_value(DOMAINS, &list);
}

impl MembershipRequests {
    /// What this process said that it has for the group's state.
    fn said(&self, name: &str, who: Incarnation) -> Option<&[OwnDomain]> {
        self.domains.get(&(name.to_owned(), who)).map(Vec::as_slice)
    }

    /// What this joiner has for the group's state: who says nothing has the state itself.
    fn own_of_joiner(&self, name: &str, who: Incarnation) -> Vec<OwnDomain> {
        self.said(name, who).map_or_else(|| vec![OwnDomain::unnamed()], <[OwnDomain]>::to_vec)
    }

    /// What is wrong with the domains of a process that requests a group with this list.
    pub(crate) fn mismatch(&self, list: &[Domain], name: &str, who: Incarnation) -> Option<DomainMismatch> {
        DomainMismatch::of(list, &self.own_of_joiner(name, who))
    }

    /// The list of a group that is made: what the first of its members needs, and what else all of them have. Those of
    /// `coming` whom that does not suit are dropped: they come later, or are refused.
    pub(super) fn first_list(&self, name: &str, coming: &mut Vec<Incarnation>) -> Vec<Domain> {
        let founder = coming.first().map(|&who| self.own_of_joiner(name, who)).unwrap_or_default();
        let needed: Vec<Domain> = founder.into_iter().filter(|own| !own.is_optional).map(|own| own.domain).collect();
        coming.retain(|who| self.mismatch(&needed, name, *who).is_none());
        let said: Vec<Vec<OwnDomain>> = coming.iter().map(|who| self.own_of_joiner(name, *who)).collect();
        grown(Some(&needed), said.iter().map(|own| Some(own.as_slice()))).unwrap_or(needed)
    }

    /// The list of the group after `change`, if it grows: all members of the next view that do not observe said that they
    /// have what is added.
    pub(super) fn next_list(&self, entry: &GroupEntry, change: &GroupChange) -> Option<Vec<Domain>> {
        let stays = |who: &&Incarnation| change.left.iter().all(|(left, _)| left != *who) && !entry.has_observer(**who);
        let said = |who: &Incarnation| self.said(&entry.name, *who);
        let joined = change.joined.iter().filter(|who| self.role(&entry.name, **who) != Role::Observer);
        let coming: Vec<Vec<OwnDomain>> = joined.map(|who| self.own_of_joiner(&entry.name, *who)).collect();
        let list = entry.domains();
        let all = entry.members.iter().filter(stays).map(said).chain(coming.iter().map(|own| Some(own.as_slice())));
        grown(list.as_deref(), all)
    }

    /// Notes the groups whose lists could grow if nobody came or left.
    pub(crate) fn note_growing(&mut self, directory: &Directory) {
        if !lists_domains(directory) || self.domains.is_empty() {
            return;
        }
        let named = |entry: &GroupEntry| self.domains.keys().any(|(name, _)| *name == entry.name);
        let grows = |entry: &GroupEntry| {
            let members = entry.members.iter().filter(|who| !entry.has_observer(**who));
            grown(entry.domains().as_deref(), members.map(|who| self.said(&entry.name, *who))).is_some()
        };
        let all = directory.groups.iter().filter(|(_, entry)| !entry.is_orphan() && entry.has_state() == Some(true));
        let growing: Vec<GroupId> = all.filter(|(_, entry)| named(entry) && grows(entry)).map(|(id, _)| *id).collect();
        self.growing.extend(growing);
    }
}

/// Whether the groups that are made with a state keep a list of its domains.
#[must_use]
pub fn lists_domains(directory: &Directory) -> bool {
    directory.level >= DOMAINS_LEVEL
}

/// The list with what all of `said` have beside it, in the order of names. `None`: it does not grow, or somebody has not
/// said what it has. Where there is no `list` yet, the first one has to suit all.
fn grown<'a>(list: Option<&[Domain]>, said: impl Iterator<Item = Option<&'a [OwnDomain]>>) -> Option<Vec<Domain>> {
    let said: Vec<&[OwnDomain]> = said.collect::<Option<_>>()?;
    let (first, others) = said.split_first()?;
    let mut next = list.unwrap_or_default().to_vec();
    let mut new: Vec<&Domain> = first.iter().map(|own| &own.domain).collect();
    new.retain(|domain| next.iter().all(|listed| listed.name != domain.name));
    new.retain(|domain| others.iter().all(|own| own.iter().any(|own| own.domain == **domain)));
    new.sort();
    for domain in new {
        next.push(domain.clone());
        if !are_domains(next.iter()) {
            next.pop();
        }
    }
    let is_longer = next.len() > list.map_or(0, <[Domain]>::len);
    let suits = list.is_some() || said.iter().all(|own| DomainMismatch::of(&next, own).is_none());
    (is_longer && suits).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(name: &str) -> Domain {
        Domain { name: name.into(), version: 1 }
    }

    fn own(names: &[(&str, bool)]) -> Vec<OwnDomain> {
        names.iter().map(|&(name, is_optional)| OwnDomain { domain: domain(name), is_optional }).collect()
    }

    fn names(list: Option<Vec<Domain>>) -> Option<Vec<String>> {
        list.map(|list| list.into_iter().map(|domain| domain.name).collect())
    }

    #[test]
    fn a_list_grows_by_what_all_have() {
        let list = [domain("")];
        let (a, b) = (own(&[("", false), ("y", true), ("x", true)]), own(&[("x", true), ("y", true), ("z", true)]));
        let both = || [Some(a.as_slice()), Some(b.as_slice())].into_iter();
        assert_eq!(names(grown(Some(&list), both())), Some(vec!["".into(), "x".into(), "y".into()]), "in one order");
        assert_eq!(grown(Some(&list), both().chain([None])), None, "one has not said");
        let full = [domain("x"), domain("y")];
        assert_eq!(names(grown(Some(&full), both())), None);
        assert_eq!(grown(Some(&list), std::iter::empty()), None);
        let mut later = a.clone();
        later[2].domain.version = 2;
        let of_two = [Some(a.as_slice()), Some(later.as_slice())].into_iter();
        assert_eq!(
            names(grown(Some(&list), of_two)),
            Some(vec!["".into(), "y".into()]),
            "two versions are two domains"
        );
        let listed = [domain(""), Domain { name: "x".into(), version: 2 }];
        assert_eq!(
            names(grown(Some(&listed), both())),
            Some(vec!["".into(), "x".into(), "y".into()]),
            "a name is listed once"
        );
    }

    #[test]
    fn the_first_list_suits_all() {
        let (a, b) = (own(&[("", false), ("x", false)]), own(&[("", false), ("x", true)]));
        assert_eq!(names(grown(None, [Some(&a[..]), Some(&b[..])].into_iter())), Some(vec!["".into(), "x".into()]));
        assert_eq!(grown(None, [Some(&a[..]), Some(&b[..1])].into_iter()), None, "one needs what another one lacks");
        let who = |at| Incarnation(at);
        let mut requests = MembershipRequests::default();
        requests.domains.insert(("g".into(), who(1)), own(&[("", false), ("x", true), ("y", true)]));
        requests.domains.insert(("g".into(), who(2)), own(&[("", false), ("y", true)]));
        requests.domains.insert(("g".into(), who(4)), own(&[("", false), ("w", false)]));
        let mut coming = vec![who(1), who(2), who(4)];
        assert_eq!(names(Some(requests.first_list("g", &mut coming))), Some(vec!["".into(), "y".into()]));
        assert_eq!(coming, [who(1), who(2)], "the last one needs what nobody else has");
        let mut coming = vec![who(1), who(3)];
        assert_eq!(names(Some(requests.first_list("g", &mut coming))), Some(vec!["".into()]), "one that says nothing");
        assert_eq!(coming, [who(1), who(3)]);
    }
}
