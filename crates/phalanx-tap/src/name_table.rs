//! The names that a reader of packets has learned.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use phalanx_core::id::{Incarnation, ViewNumber};
use phalanx_core::wire::Space;

use crate::capture::NameLine;

/// The most incarnations that are known. A table that is full is emptied: whoever shows packets tells its names again with
/// each view.
const MEMBERS_MAX: usize = 262_144;
/// The most views that are known. The oldest goes first: numbers of spaces rise.
const VIEWS_MAX: usize = 1_024;

/// The names of members and groups, as far as they were told.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_tap::NameTable;
///
/// let mut names = NameTable::default();
/// names.learn("phalanx-names 1\nmember 0000000000000007 10.0.0.1:7000 m1");
/// assert_eq!(names.member(Incarnation(7)), Some("m1"));
/// ```
#[derive(Debug, Default)]
pub struct NameTable {
    members: HashMap<Incarnation, String>,
    /// Whose socket it is. The latest counts, as a process that comes back has its address again.
    addresses: HashMap<SocketAddr, Incarnation>,
    views: BTreeMap<Space, KnownView>,
}

/// A view of a group.
#[derive(Debug)]
pub(crate) struct KnownView {
    pub(crate) group: String,
    pub(crate) view: ViewNumber,
    /// By rank. [`Incarnation::NONE`] where a part of a large view was not told.
    pub(crate) members: Vec<Incarnation>,
}

impl NameTable {
    /// Takes the names of a text in the form of `docs/captures.md`, *Names*. Lines that are not known are ignored.
    pub fn learn(&mut self, text: &str) {
        for line in NameLine::all(text) {
            match line {
                NameLine::Member { incarnation, addresses, name } => self.learn_member(incarnation, &addresses, name),
                NameLine::View { space, view, first_rank, members, group } => {
                    self.learn_view(space, KnownView { group, view, members }, first_rank);
                }
            }
        }
    }

    /// The name of this incarnation's member.
    #[must_use]
    pub fn member(&self, who: Incarnation) -> Option<&str> {
        self.members.get(&who).map(String::as_str)
    }

    /// The name of the member with a socket at this address.
    #[must_use]
    pub fn member_at(&self, address: SocketAddr) -> Option<&str> {
        self.addresses.get(&canonical(address)).and_then(|who| self.member(*who))
    }

    pub(crate) fn view(&self, space: Space) -> Option<&KnownView> {
        self.views.get(&space)
    }

    fn learn_member(&mut self, who: Incarnation, addresses: &[SocketAddr], name: String) {
        if self.members.len() >= MEMBERS_MAX || self.addresses.len() >= MEMBERS_MAX {
            self.members.clear();
            self.addresses.clear();
        }
        self.addresses.extend(addresses.iter().map(|address| (canonical(*address), who)));
        self.members.insert(who, name);
    }

    fn learn_view(&mut self, space: Space, part: KnownView, first_rank: usize) {
        let ranks = usize::from(u16::MAX) + 1;
        if first_rank.saturating_add(part.members.len()) > ranks {
            return;
        }
        if self.views.len() >= VIEWS_MAX && !self.views.contains_key(&space) {
            self.views.pop_first();
        }
        let KnownView { group, view, members: part } = part;
        let known = self.views.entry(space).or_insert(KnownView { group, view, members: Vec::new() });
        let len = known.members.len().max(first_rank + part.len());
        known.members.resize(len, Incarnation::NONE);
        known.members[first_rank..first_rank + part.len()].copy_from_slice(&part);
    }
}

/// An address of IPv4 as such, also if it is written as IPv6, and without a scope: as names tell it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use phalanx_core::id::{Incarnation, ViewNumber};
    use phalanx_core::wire::Space;

    use super::NameTable;
    use crate::capture::NameTexts;

    #[test]
    fn the_latest_process_at_an_address_has_it() {
        let mut names = NameTable::default();
        names.learn("phalanx-names 1\nmember 0000000000000001 10.0.0.1:7000,10.0.0.1:7001 m1");
        names.learn("phalanx-names 1\nmember 0000000000000002 10.0.0.1:7000 m2");
        let at = |text: &str| names.member_at(text.parse().expect("an address"));
        assert_eq!((at("10.0.0.1:7000"), at("10.0.0.1:7001")), (Some("m2"), Some("m1")));
        assert_eq!((at("[::ffff:10.0.0.1]:7000"), at("10.0.0.2:7000")), (Some("m2"), None));
        assert_eq!(names.member(Incarnation(1)), Some("m1"));
    }

    #[test]
    fn the_oldest_views_are_forgotten() {
        let mut texts = NameTexts::default();
        (1..=1_025).for_each(|space| texts.view(Space(space), ViewNumber(1), "g", &[]));
        let mut names = NameTable::default();
        texts.take().for_each(|text| names.learn(&text));
        assert!(names.view(Space(1)).is_none() && names.view(Space(2)).is_some() && names.view(Space(1_025)).is_some());
    }

    #[test]
    fn parts_of_a_large_view_are_put_together() {
        let members: Vec<Incarnation> = (1..=65_536).map(Incarnation).collect();
        let mut texts = NameTexts::default();
        texts.view(Space(3), ViewNumber(7), "crowd", &members);
        let mut texts: Vec<String> = texts.take().collect();
        texts.reverse();
        let mut names = NameTable::default();
        texts.iter().for_each(|text| names.learn(text));
        let view = names.view(Space(3)).expect("known");
        assert_eq!((view.group.as_str(), view.view), ("crowd", ViewNumber(7)));
        assert!(view.members == members);
        names.learn("phalanx-names 1\nview 00000003 7 65536 0000000000000001 crowd");
        names.learn("phalanx-names 1\nview 00000003 7 18446744073709551615 0000000000000001 crowd");
        assert_eq!(names.view(Space(3)).map(|view| view.members.len()), Some(65_536), "no view has more ranks");
    }
}
