//! What the processes of this host know of their cell at one moment.

use phalanx_runtime::counters::{DepartedStatus, GroupStatus, Status};

/// A member of the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) incarnation: String,
    /// Empty: unknown.
    pub(super) host: String,
}

/// The members of a group, as far as a process of this host is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// No process of this host is in it, and nothing of it is known here.
    Unknown,
    /// It waits for members that are cut off, by name.
    Waiting(Vec<String>),
    /// The number of members, and the members themselves if the status lists them.
    Known { number: u64, view: u64, count: u64, who: Vec<Person> },
}

/// The latest view that a process of this host is in, and what else they report.
#[derive(Debug, Default)]
pub(super) struct Picture {
    statuses: Vec<Status>,
    /// Which of them has the latest view, of those that hear a quorum if one does.
    latest: Option<usize>,
}

impl Picture {
    pub(super) fn of(statuses: Vec<Status>) -> Self {
        let rank = |at: &usize| statuses.get(*at).map(|status| (is_primary(status), status.view));
        let in_a_view =
            (0..statuses.len()).filter(|at| statuses.get(*at).is_some_and(|status| !status.members.is_empty()));
        let latest = in_a_view.max_by_key(rank);
        Self { statuses, latest }
    }

    /// What the first process reports.
    #[cfg(test)]
    pub(super) fn into_first(self) -> Status {
        self.statuses.into_iter().next().expect("there is one")
    }

    fn latest(&self) -> Option<&Status> {
        self.statuses.get(self.latest?)
    }

    /// The view's number, and whether a quorum of it is heard. `None`: no process of this host is in a view.
    pub(super) fn view(&self) -> Option<(u64, bool)> {
        self.latest().map(|status| (status.view.0, is_primary(status)))
    }

    /// The members of the view by rank.
    pub(super) fn members(&self) -> Vec<Person> {
        self.latest().map_or_else(Vec::new, people)
    }

    /// Why an incarnation left. Of several processes that know it, one with evidence is taken.
    pub(super) fn departed(&self, incarnation: &str) -> Option<&DepartedStatus> {
        let known = self.statuses.iter().flat_map(|status| &status.departed).filter(|d| d.incarnation == incarnation);
        known.max_by_key(|departed| (!departed.proof.is_empty(), departed.found_by.len()))
    }

    /// Those that left after a view, oldest first.
    pub(super) fn departed_since(&self, view: u64) -> impl Iterator<Item = &DepartedStatus> {
        let all = self.latest().into_iter().flat_map(|status| &status.departed);
        all.filter(move |departed| departed.view.0 > view)
    }

    /// A group, as the process with its latest view reports it.
    pub(super) fn group(&self, name: &str) -> Members {
        let all = self.statuses.iter().flat_map(|status| status.groups.iter().map(move |group| (status, group)));
        let latest = all.filter(|(_, group)| group.name == name).max_by_key(|(_, group)| (group.number, group.view));
        if let Some((status, group)) = latest {
            return known(status, group);
        }
        let orphan = self.latest().and_then(|status| status.orphans.iter().find(|orphan| orphan.name == name));
        orphan.map_or(Members::Unknown, |orphan| {
            let name = |holder: &phalanx_runtime::counters::HolderStatus| match &holder.name[..] {
                "" => holder.incarnation.clone(),
                name => name.to_owned(),
            };
            Members::Waiting(orphan.waits_for.iter().map(name).collect())
        })
    }
}

fn known(status: &Status, group: &GroupStatus) -> Members {
    let people = people(status);
    let who = group.ranks.iter().filter_map(|rank| people.get(usize::try_from(*rank).ok()?).cloned()).collect();
    Members::Known { number: group.number, view: group.view.0, count: group.members, who }
}

fn is_primary(status: &Status) -> bool {
    status.state == "primary"
}

fn people(status: &Status) -> Vec<Person> {
    let of = |list: &Vec<String>, at: usize| list.get(at).cloned().unwrap_or_default();
    let person = |(at, name): (usize, &String)| Person {
        name: name.clone(),
        incarnation: of(&status.incarnations, at),
        host: of(&status.hosts, at),
    };
    status.members.iter().enumerate().map(person).collect()
}

#[cfg(test)]
mod tests {
    use phalanx_runtime::core::ViewNumber;

    use super::*;

    fn status(view: u64, state: &str, members: &[&str]) -> Status {
        Status {
            state: state.to_owned(),
            view: ViewNumber(view),
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            incarnations: members.iter().map(|name| format!("{name}{view}")).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn the_latest_view_counts_of_those_that_hear_a_quorum() {
        let cut_off = status(9, "non-primary", &["c"]);
        let picture = Picture::of(vec![status(7, "primary", &["a", "b"]), status(8, "primary", &["a"]), cut_off]);
        assert_eq!((picture.view(), picture.members().len()), (Some((8, true)), 1));
        let searching = Picture::of(vec![status(0, "searching", &[])]);
        assert_eq!((searching.view(), searching.members()), (None, Vec::new()));
        assert_eq!(Picture::of(vec![status(9, "non-primary", &["c"])]).view(), Some((9, false)));
    }

    #[test]
    fn a_group_is_known_by_the_latest_view_of_it_and_why_by_who_has_evidence() {
        let group = |view| GroupStatus {
            name: "g".into(),
            number: 3,
            view: ViewNumber(view),
            members: 2,
            ranks: vec![1, 0, 7],
            ..GroupStatus::default()
        };
        let gone =
            |proof: &str| DepartedStatus { incarnation: "0d".into(), proof: proof.into(), ..DepartedStatus::default() };
        let one = Status { groups: vec![group(4)], departed: vec![gone("")], ..status(7, "primary", &["a", "b"]) };
        let two = Status { groups: vec![group(5)], departed: vec![gone("ended")], ..status(7, "primary", &["a", "b"]) };
        let picture = Picture::of(vec![two, one]);
        let Members::Known { view, who, .. } = picture.group("g") else { panic!("it is known") };
        let names: Vec<String> = who.into_iter().map(|person| person.name).collect();
        assert_eq!((view, names), (5, vec!["b".to_owned(), "a".to_owned()]), "a rank beyond the list is nobody");
        assert_eq!(picture.departed("0d").map(|gone| &gone.proof[..]), Some("ended"));
        assert_eq!((picture.departed("0e"), picture.group("h")), (None, Members::Unknown));
    }
}
