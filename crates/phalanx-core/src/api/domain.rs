//! The domains of a group's state: named parts, of which the group keeps one list (`docs/domains.md`).

use serde::{Deserialize, Serialize};

use crate::id::fits_name;

/// The most domains of a group's state, and of what one process has for it.
pub const DOMAINS_MAX: usize = 32;

/// The most bytes of a list: the directory has that of each group.
const LIST_BYTES_MAX: usize = 2048;

/// Bytes that a listed domain counts for beside its name.
const LISTED_BYTES: usize = 8;

/// A domain as a group lists it. A name in two versions is two domains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Domain {
    /// Its name, of at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes. The state itself has the empty one.
    pub name: String,
    /// The version of its format, as the program numbers it.
    pub version: u32,
}

/// A domain that a process has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnDomain {
    /// The domain.
    pub domain: Domain,
    /// Whether the process may be in a group that does not list it. It then asks that it be added.
    pub is_optional: bool,
}

impl OwnDomain {
    /// The state itself in its first version: what a process has that names no domains.
    #[must_use]
    pub fn unnamed() -> Self {
        Self { domain: Domain { name: String::new(), version: 1 }, is_optional: false }
    }
}

/// The place of a domain in its group's list. Lists grow at their end alone, so it holds as long as the group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainIndex(pub u8);

impl DomainIndex {
    /// The place in a list.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The place of a listed domain.
    #[must_use]
    pub fn of(list: &[Domain], name: &str) -> Option<Self> {
        let at = list.iter().position(|domain| domain.name == name)?;
        u8::try_from(at).ok().map(Self)
    }
}

/// Why a process cannot be in a group with its domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainMismatch {
    /// The group has a domain that the process lacks.
    Lacks(Domain),
    /// The process needs a domain that the group does not have.
    Needs(Domain),
}

impl DomainMismatch {
    /// What is wrong when a process with `own` is in a group with `list`.
    #[must_use]
    pub fn of(list: &[Domain], own: &[OwnDomain]) -> Option<Self> {
        let lacks = list.iter().find(|listed| own.iter().all(|own| own.domain != **listed));
        let needs = || own.iter().find(|own| !own.is_optional && !list.contains(&own.domain));
        lacks.map(|domain| Self::Lacks(domain.clone())).or_else(|| needs().map(|own| Self::Needs(own.domain.clone())))
    }
}

/// Whether a list of domains can be one: within the bounds, and no name twice.
#[must_use]
pub fn are_domains<'a>(list: impl ExactSizeIterator<Item = &'a Domain> + Clone) -> bool {
    let once =
        list.clone().enumerate().all(|(at, domain)| list.clone().skip(at + 1).all(|other| other.name != domain.name));
    let bytes: usize = list.clone().map(|domain| domain.name.len() + LISTED_BYTES).sum();
    list.len() <= DOMAINS_MAX && bytes <= LIST_BYTES_MAX && once && list.clone().all(|domain| fits_name(&domain.name))
}

const _: () = assert!(DOMAINS_MAX <= u8::MAX as usize, "a place in a list is a byte");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NAME_BYTES_MAX;

    fn domain(name: &str, version: u32) -> Domain {
        Domain { name: name.into(), version }
    }

    fn own(name: &str, version: u32, is_optional: bool) -> OwnDomain {
        OwnDomain { domain: domain(name, version), is_optional }
    }

    #[test]
    fn a_process_has_what_is_listed_and_lists_hold_what_it_needs() {
        let list = [domain("", 1), domain("prices", 2)];
        let both = [own("prices", 2, false), own("", 1, false)];
        assert_eq!(DomainMismatch::of(&list, &both), None);
        assert_eq!(DomainMismatch::of(&list, &both[..1]), Some(DomainMismatch::Lacks(domain("", 1))));
        let later = [own("", 1, false), own("prices", 3, true)];
        assert_eq!(DomainMismatch::of(&list, &later), Some(DomainMismatch::Lacks(domain("prices", 2))));
        assert_eq!(DomainMismatch::of(&list[..1], &both), Some(DomainMismatch::Needs(domain("prices", 2))));
        assert_eq!(DomainMismatch::of(&list[..1], &later), None, "it may do without it");
        assert_eq!(DomainIndex::of(&list, "prices"), Some(DomainIndex(1)));
        assert_eq!(DomainIndex::of(&list, "price"), None);
    }

    #[test]
    fn a_list_is_bounded_and_has_each_name_once() {
        assert!(are_domains([domain("", 1), domain("a", 1)].iter()));
        assert!(!are_domains([domain("a", 1), domain("b", 1), domain("a", 2)].iter()));
        let long =
            |count: usize| -> Vec<Domain> { (0..count).map(|at| domain(&at.to_string().repeat(100), 1)).collect() };
        assert!(!are_domains([domain(&"n".repeat(NAME_BYTES_MAX + 1), 1)].iter()));
        assert!(are_domains(long(10).iter()) && !are_domains(long(20).iter()), "long names");
        let many: Vec<Domain> = (0..=DOMAINS_MAX).map(|at| domain(&at.to_string(), 1)).collect();
        assert!(are_domains(many[1..].iter()) && !are_domains(many.iter()));
    }
}
