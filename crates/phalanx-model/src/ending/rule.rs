//! The rules of the end, and of what the next instance begins with.

use super::config::{Ending, Missing, PROCESSES};
use super::state::{Group, Record, State, Waiting, founding_of, generation_of, view_number};
use crate::rules::Rules;

const RULES: Rules = Rules { without: None };

/// Whether these are a quorum of the members. The order of ranks is that of slots.
pub(super) fn is_quorum(members: u8, present: u8) -> bool {
    let (there, first) = (members & present, members & members.wrapping_neg());
    RULES.is_quorum(there.count_ones() as usize, members.count_ones() as usize, there & first != 0)
}

/// Whether a decree may leave an instance without members, as far as those that are cut off are concerned.
pub(super) fn may_end(model: &Ending, s: &State, instance: u8) -> bool {
    let of = s.of(instance);
    let waits = match model.missing {
        Some(Missing::DoesNotWait) => false,
        Some(Missing::WaitsForEver) => return !has_to_wait(s, instance),
        _ => has_to_wait(s, instance),
    };
    !waits || of.waited
}

/// Whether the last members of an instance have somebody to wait for.
pub(super) fn has_to_wait(s: &State, instance: u8) -> bool {
    let present = s.present(instance);
    let behind = (0..PROCESSES).filter(|p| present & 1 << p != 0).any(|p| s.processes[p].behind != 0);
    behind || matches!(s.of(instance).group, Group::Waits(_))
}

/// Whether one of the last members of an instance ends in doubt.
pub(super) fn is_doubtful(model: &Ending, s: &State, p: usize) -> bool {
    let process = &s.processes[p];
    let of = s.of(process.instance);
    let waits = matches!(of.group, Group::Waits(_));
    match model.missing {
        Some(Missing::LastNotTold) => false,
        Some(Missing::OnlyWaitingDoubted) => waits,
        Some(Missing::OnlyLostDoubted) => waits || process.behind & of.lost != 0,
        _ => waits || process.behind != 0,
    }
}

/// The number of a group's next view in an instance.
pub(super) fn next_view(model: &Ending, view: u8, generation: u8) -> u8 {
    let (founding, count) = (founding_of(view), view & 15);
    match generation_of(view) {
        own if own == generation => view_number(founding, generation, count + 1),
        own if model.lacks(Missing::OneStep) => view_number(founding, own + 1, count),
        _ => view_number(founding, generation, count),
    }
}

/// The latest instance that one of these records names.
pub(super) fn latest_known(records: &[Record]) -> u8 {
    records.iter().map(|record| record.mark.max(record.end)).max().unwrap_or(0)
}

/// The latest instance whose end is recorded.
fn latest_end(records: &[Record]) -> u8 {
    records.iter().filter(|record| record.ended).map(|record| record.end).max().unwrap_or(0)
}

/// Whether nobody lives in an instance, by these records. Those that search have shown that they are out.
pub(super) fn is_over(records: &[Record], instance: u8, search: u8) -> bool {
    records.iter().any(|record| record.ended && record.end >= instance && record.lost & !search == 0)
}

/// The group that waits by the records of the end of that instance. Each of its last members may have learned of more
/// holders that they are gone.
fn at_end(records: &[Record], instance: u8) -> Waiting {
    let mut ends = records.iter().filter(|record| record.ended && record.end == instance).map(|record| record.waits);
    let first = ends.next().unwrap_or_default();
    ends.fold(first, |all, one| Waiting { holders: all.holders & one.holders, ..all })
}

/// The group that waited when that instance began, or when it took a founder in. Of different lists, that of the latest
/// view of the group counts; holders that any of them names count.
fn at_begin(records: &[Record], instance: u8) -> Waiting {
    let begun = records.iter().filter(|record| record.mark == instance).map(|record| record.begun);
    begun.fold(Waiting::default(), |all, one| match all.view.cmp(&one.view) {
        std::cmp::Ordering::Less => one,
        std::cmp::Ordering::Equal => Waiting { holders: all.holders | one.holders, ..all },
        std::cmp::Ordering::Greater => all,
    })
}

/// The group that waits when the founders found the instance after the latest end.
pub(super) fn after_end(model: &Ending, records: &[Record]) -> Waiting {
    match model.missing {
        Some(Missing::ListNotPassedOn) => Waiting::default(),
        Some(Missing::FirstRecord) => {
            records.iter().find(|record| record.ended).map(|record| record.waits).unwrap_or_default()
        }
        _ => at_end(records, latest_end(records)),
    }
}

/// The group that waits when founders found the next instance by command.
pub(super) fn after_death(model: &Ending, records: &[Record]) -> Waiting {
    let (latest, end) = (latest_known(records), latest_end(records));
    match model.missing {
        _ if latest == end => after_end(model, records),
        Some(Missing::CommandForgets) => Waiting::default(),
        Some(Missing::CommandTakesLastEnd) => at_end(records, end),
        _ => at_begin(records, latest),
    }
}
