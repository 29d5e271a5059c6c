use super::*;
use crate::id::{Incarnation, ViewNumber};
use crate::member::orphan::Orphan;
use crate::member::{Agreed, BootstrapMarker, End, Ended, Ends, FirstView, FounderRecord, FoundingBallot, passed_on};
use crate::{LEVEL, Limits, Timing};

fn member() -> MemberInfo {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1000));
    MemberInfo::new(Incarnation(99), "founder", at, at)
}

fn instance(generation: u16) -> CellInstance {
    CellInstance::fresh(generation, 7)
}

fn holder(who: u64) -> OrphanHolder {
    OrphanHolder { who: Incarnation(who), seat: who, stayed: false, name: format!("m{who}") }
}

fn entry(name: &str, view: u64, holders: &[u64]) -> GroupEntry {
    let orphan = Orphan { members: 2, holders: holders.iter().copied().map(holder).collect() };
    let (space, members, tail) = (Space(view as u32), Vec::new(), Tags::default());
    GroupEntry { name: name.to_owned(), view: ViewNumber(view), space, members, tail }.waiting_for(orphan)
}

/// A directory with these groups, which wait.
fn directory(groups: Vec<GroupEntry>, level: u16) -> Directory {
    let settings = Agreed::of(&Limits::default(), &Timing::default()).tags(level);
    let mut directory = Directory::found(vec![member()], level, settings);
    directory.next_group = 1 + groups.len() as u32;
    directory.next_space = Space(1000);
    directory.groups = (1..).map(GroupId).zip(groups).collect();
    directory
}

fn ended(earlier: CellInstance, waiting: Waiting) -> FounderRecord {
    let ended = Ended { instance: earlier, view: ViewNumber(9), but_for: Vec::new(), waiting };
    FounderRecord {
        mark: Some(BootstrapMarker::bare(earlier)),
        end: Some(End::Ended(ended)),
        ..FounderRecord::default()
    }
}

/// What founders with these records begin with.
fn begun(records: Vec<FounderRecord>, next: CellInstance) -> Waiting {
    let ends = Ends::told(&[], records.iter().filter_map(|record| record.end.as_ref()));
    let reports = (0..).map(|n: u32| n.to_string()).zip(records).collect();
    let (earlier, waiting) = passed_on(&reports, &ends);
    waiting.passed_on_to(earlier, next)
}

fn names(waiting: &Waiting) -> Vec<&str> {
    waiting.groups.values().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn groups_beyond_the_bound_are_not_recorded() {
    let named = |n: u64| entry(&format!("{n:0200}"), n + 1, &[1]);
    let at_least = PASSED_ON_BYTES_MAX / 260;
    let of = |groups: usize| {
        let mut directory = directory((0..groups as u64).map(named).collect(), LEVEL);
        directory.next_space = Space(u32::MAX);
        Waiting::of(instance(1), &directory).map(|waiting| waiting.groups.len())
    };
    assert_eq!((of(0), of(at_least)), (Some(0), Some(at_least)));
    assert_eq!(of(2 * at_least), None, "a record has no room for them");
    let low = directory(vec![named(1)], PASSED_ON_LEVEL - 1);
    assert_eq!(Waiting::of(instance(1), &low), Some(Waiting::default()), "nothing of it below its level");
}

/// Each generation in between may have gone on with the group, unknown to the founders.
#[test]
fn the_next_view_skips_numbers_for_each_generation() {
    let waiting = Waiting::of(instance(1), &directory(vec![entry("a", 4, &[1])], LEVEL)).expect("it is short");
    let next = |waiting: &Waiting| waiting.groups[&GroupId(1)].next_view().map(|view| view.0);
    let second = begun(vec![ended(instance(1), waiting.clone())], instance(2));
    assert_eq!((next(&second), &*second.ancestors), (Some(4 + (1 << 32)), &[instance(1)][..]));
    assert!(second.next_group > waiting.next_group, "groups that nobody knows of may have numbers");
    let fourth = begun(vec![ended(instance(1), waiting)], instance(4));
    assert_eq!(next(&fourth), Some(4 + (3 << 32)));
    // The second instance died as a whole. A founder has its list, another one was taken in.
    let first = FirstView {
        instance: instance(2),
        members: vec![member()],
        level: LEVEL,
        settings: Tags::default(),
        waiting: second,
    };
    let begun_with = first.directory();
    let marked = |mark| FounderRecord { mark: Some(mark), ..FounderRecord::default() };
    let list = marked(BootstrapMarker::of_list(FoundingBallot::NONE, first));
    let taken_in = marked(BootstrapMarker::taken_in(instance(2), &begun_with));
    for records in [vec![list.clone()], vec![taken_in.clone()], vec![list, taken_in]] {
        let third = begun(records, instance(3));
        assert_eq!((next(&third), &*third.ancestors), (Some(4 + (2 << 32)), &[instance(2), instance(1)][..]));
        assert!(third.is_sound());
    }
}

/// The latest instance counts, with or without groups that wait.
#[test]
fn founders_go_by_the_latest_instance() {
    let waiting = |name: &str, generation| {
        Waiting::of(instance(generation), &directory(vec![entry(name, 4, &[1])], LEVEL)).expect("it is short")
    };
    let (first, second) = (ended(instance(1), waiting("a", 1)), ended(instance(2), waiting("b", 2)));
    assert_eq!(names(&begun(vec![first.clone(), second.clone()], instance(3))), ["b"]);
    assert_eq!(names(&begun(vec![second, first.clone()], instance(3))), ["b"]);
    let nothing = ended(instance(2), Waiting::default());
    assert_eq!(names(&begun(vec![first.clone(), nothing], instance(3))), [""; 0]);
    // A build below the level has recorded the end without the groups.
    assert_eq!(names(&begun(vec![ended(instance(1), Waiting::default()), first], instance(2))), ["a"]);
}

/// What two founders found waiting when they came into an instance: the later view counts, with the holders of both.
#[test]
fn what_was_found_waiting_is_united() {
    let marked = |groups| {
        let mark = BootstrapMarker::taken_in(instance(2), &directory(groups, LEVEL));
        FounderRecord { mark: Some(mark), ..FounderRecord::default() }
    };
    let one = marked(vec![entry("a", 4, &[1]), entry("b", 5, &[1])]);
    let other = marked(vec![entry("a", 4, &[2]), entry("b", 6, &[3]), entry("c", 7, &[1])]);
    for records in [vec![one.clone(), other.clone()], vec![other, one]] {
        let all = begun(records, instance(3));
        assert_eq!(names(&all), ["a", "b", "c"]);
        let holders = |id: u32| {
            let orphan = all.groups[&GroupId(id)].orphan().expect("it waits");
            let mut who: Vec<u64> = orphan.holders.iter().map(|holder| holder.who.0).collect();
            who.sort_unstable();
            (all.groups[&GroupId(id)].view.0, who)
        };
        assert_eq!([holders(1), holders(2), holders(3)], [(4, vec![1, 2]), (6, vec![3]), (7, vec![1])]);
    }
}

/// A record that is too long could not be read. Only a founding by command unites several.
#[test]
fn what_does_not_fit_is_not_united() {
    let marked = |from: u64, groups: u64| {
        let named = |n: u64| entry(&format!("{n:0200}"), n + 1, &[1]);
        let mut directory = directory((from..from + groups).map(named).collect(), LEVEL);
        directory.groups = (1 + from as u32..).map(GroupId).zip(directory.groups.into_values()).collect();
        (directory.next_group, directory.next_space) = (u32::MAX - (1 << 17), Space(u32::MAX));
        let mark = BootstrapMarker::taken_in(instance(2), &directory);
        FounderRecord { mark: Some(mark), ..FounderRecord::default() }
    };
    let most = (PASSED_ON_BYTES_MAX / 300) as u64;
    let united = |records| begun(records, instance(3)).groups.len() as u64;
    assert_eq!(united(vec![marked(0, 20), marked(10, 20)]), 30);
    for records in [vec![marked(0, most), marked(most, most - 1)], vec![marked(most, most - 1), marked(0, most)]] {
        assert_eq!(united(records), most);
    }
}

#[test]
fn a_founder_that_began_anew_is_no_holder() {
    let sit = |seat: u64, keeps: &[Incarnation]| {
        let mut info = member();
        info.sit(seat);
        info.keeps(keeps);
        info
    };
    let waiting = Waiting::of(instance(1), &directory(vec![entry("a", 4, &[1]), entry("b", 5, &[1, 2])], LEVEL));
    let first = |member, level| {
        let (settings, members) = (Tags::default(), vec![member]);
        let list = FirstView { instance: instance(2), members, level, settings, waiting: Waiting::default() };
        list.with(waiting.clone().expect("it is short")).directory()
    };
    let named = |directory: Directory| directory.groups.into_values().map(|entry| entry.name).collect::<Vec<_>>();
    assert_eq!(named(first(sit(1, &[]), LEVEL)), ["b"], "it runs where the only holder ran, without the state");
    assert_eq!(named(first(sit(1, &[Incarnation(1)]), LEVEL)), ["a", "b"], "it kept the state");
    assert_eq!(named(first(sit(3, &[]), LEVEL)), ["a", "b"]);
    assert_eq!(
        named(first(sit(3, &[]), PASSED_ON_LEVEL - 1)),
        [""; 0],
        "no founder of an earlier build begins with them"
    );
}

#[test]
fn entries_that_contradict_each_other_are_refused() {
    let sound = Waiting::of(instance(1), &directory(vec![entry("a", 4, &[1]), entry("b", 5, &[1])], LEVEL));
    let sound = sound.expect("it is short");
    assert!(sound.is_sound() && Waiting::default().is_sound());
    let broken = |change: fn(&mut Waiting)| {
        let mut waiting = sound.clone();
        change(&mut waiting);
        !waiting.is_sound()
    };
    assert!(broken(|w| w.groups.get_mut(&GroupId(2)).expect("there").name = "a".into()), "one name twice");
    assert!(broken(|w| w.groups.get_mut(&GroupId(2)).expect("there").space = Space(4)), "one space twice");
    assert!(broken(|w| w.groups.get_mut(&GroupId(2)).expect("there").tail = Tags::default()), "no holders");
    assert!(broken(|w| w.groups.get_mut(&GroupId(2)).expect("there").members.push(Incarnation(1))), "a member");
    assert!(broken(|w| w.next_group = 2), "a number that is not given");
    assert!(broken(|w| w.next_space = Space(5)), "a space that is not given");
    assert!(broken(|w| w.ancestors = vec![CellInstance(1); ANCESTORS_MAX + 1]), "too many instances");
}
