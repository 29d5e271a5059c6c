//! Settings that a decree makes equal at all members, and a view's level (`docs/levels.md`).

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Directory;
use crate::api::{Limits, SlowMembers, Timing};
use crate::id::{LEVEL, MemberInfo};
use crate::wire::Tags;

/// Tag in a member record: the process's own values of the settings for which it may be refused.
const OWN_SETTINGS: u64 = 1;

/// The settings that a cell agrees on: those of one process, or those in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// See [`crate::Limits::group_window_bytes`].
    pub group_window_bytes: usize,
    /// See [`crate::Limits::watchers`].
    pub watchers: usize,
    /// See [`crate::Limits::slow_members`].
    pub slow_members: SlowMembers,
    /// See [`crate::Timing::heartbeat`].
    pub heartbeat: Duration,
    /// See [`crate::Timing::suspect_after`].
    pub suspect_after: Duration,
    /// See [`crate::Timing::ballot_step`].
    pub ballot_step: Duration,
    /// See [`crate::Timing::expel_after`].
    pub expel_after: Duration,
    /// See [`crate::Limits::members_min`].
    pub members_min: usize,
}

/// The first setting in which two processes do not go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The setting as a configuration names it, or "level".
    pub name: String,
    /// The value in force, or that of the process that refuses; for people.
    pub cell: String,
    /// The value of the refused process; for people.
    pub other: String,
}

impl Mismatch {
    /// The longest text in it, in bytes.
    const TEXT_BYTES_MAX: usize = 100;

    /// Whether its texts are within their bound. A peer wrote them, and they reach events.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        [&self.name, &self.cell, &self.other].iter().all(|text| text.len() <= Self::TEXT_BYTES_MAX)
    }
}

/// What happens to a joiner with another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differing {
    /// It takes the cell's value.
    Adopts,
    /// It is refused.
    IsRefused,
}

/// A setting in its encoded form, a number.
struct Setting {
    tag: u64,
    /// The lowest level that has the setting.
    level: u16,
    name: &'static str,
    differing: Differing,
    /// The values that may be in force.
    range: RangeInclusive<u64>,
    get: fn(&Agreed) -> u64,
    set: fn(&mut Agreed, u64),
    show: fn(u64) -> String,
}

/// Durations in microseconds: 0.1 ms to a day.
const DURATIONS: RangeInclusive<u64> = 100..=86_400_000_000;

/// The least members of an adequate cell view. A cell of level 1 does not have the setting: each of its views is
/// adequate.
const MEMBERS_MIN: Setting =
    count(8, 2, "limits.members_min", |a| a.members_min as u64, |a, n| a.members_min = as_count(n));

const SETTINGS: [Setting; 8] = [
    Setting {
        tag: 1,
        level: 1,
        name: "limits.group_window",
        differing: Differing::IsRefused,
        range: 1..=1 << 40,
        get: |a| a.group_window_bytes as u64,
        set: |a, n| a.group_window_bytes = as_count(n),
        show: show_bytes,
    },
    count(2, 1, "limits.watchers", |a| a.watchers as u64, |a, n| a.watchers = as_count(n)),
    Setting {
        tag: 3,
        level: 1,
        name: "limits.slow_members",
        differing: Differing::Adopts,
        range: 0..=1,
        get: |a| u64::from(a.slow_members == SlowMembers::Expel),
        set: |a, n| a.slow_members = if n == 1 { SlowMembers::Expel } else { SlowMembers::Wait },
        show: |n| if n == 1 { "expel".to_owned() } else { "wait".to_owned() },
    },
    duration(4, "timing.heartbeat", |a| micros(a.heartbeat), |a, n| a.heartbeat = Duration::from_micros(n)),
    duration(5, "timing.suspect_after", |a| micros(a.suspect_after), |a, n| a.suspect_after = Duration::from_micros(n)),
    duration(6, "timing.ballot_step", |a| micros(a.ballot_step), |a, n| a.ballot_step = Duration::from_micros(n)),
    duration(7, "timing.expel_after", |a| micros(a.expel_after), |a, n| a.expel_after = Duration::from_micros(n)),
    MEMBERS_MIN,
];

/// A duration of level 1; a joiner takes the cell's value.
const fn duration(tag: u64, name: &'static str, get: fn(&Agreed) -> u64, set: fn(&mut Agreed, u64)) -> Setting {
    Setting { tag, level: 1, name, differing: Differing::Adopts, range: DURATIONS, get, set, show: show_micros }
}

/// A number of members; a joiner takes the cell's value.
const fn count(
    tag: u64,
    level: u16,
    name: &'static str,
    get: fn(&Agreed) -> u64,
    set: fn(&mut Agreed, u64),
) -> Setting {
    Setting { tag, level, name, differing: Differing::Adopts, range: 1..=65_535, get, set, show: |n| n.to_string() }
}

fn as_count(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A size as a configuration writes it.
fn show_bytes(n: u64) -> String {
    match n {
        n if n % (1 << 20) == 0 => format!("{}MiB", n >> 20),
        n if n % (1 << 10) == 0 => format!("{}KiB", n >> 10),
        n => format!("{n}"),
    }
}

fn show_micros(n: u64) -> String {
    format!("{:?}", Duration::from_micros(n))
}

impl Setting {
    fn known_at(level: u16) -> impl Iterator<Item = &'static Self> {
        SETTINGS.iter().filter(move |setting| setting.level <= level)
    }

    /// Its value in `tags`. `None` if it is absent or out of range, so that a peer's nonsense is never in force.
    fn read(&self, tags: &Tags) -> Option<u64> {
        tags.number(self.tag).ok().flatten().filter(|n| self.range.contains(n))
    }
}

impl Agreed {
    /// The settings of a process as it was started. Values out of range are replaced by the nearest allowed ones.
    #[must_use]
    pub fn of(limits: &Limits, timing: &Timing) -> Self {
        let mut own = Self {
            group_window_bytes: limits.group_window_bytes,
            watchers: limits.watchers,
            slow_members: limits.slow_members,
            heartbeat: timing.heartbeat,
            suspect_after: timing.suspect_after,
            ballot_step: timing.ballot_step,
            expel_after: timing.expel_after,
            members_min: limits.members_min,
        };
        for setting in &SETTINGS {
            // A value out of range could never be in force, because `are_settings` refuses it.
            let value = (setting.get)(&own).clamp(*setting.range.start(), *setting.range.end());
            (setting.set)(&mut own, value);
        }
        own
    }

    /// The entries of all settings that a cell of `level` agrees on.
    #[must_use]
    pub fn tags(&self, level: u16) -> Tags {
        self.tags_of(Setting::known_at(level))
    }

    /// The entries that a rise to `level` adds to a cell with `tags`. Settings in force keep their values.
    #[must_use]
    pub fn new_at(&self, level: u16, tags: &Tags) -> Tags {
        self.tags_of(Setting::known_at(level).filter(|setting| tags.get(setting.tag).is_none()))
    }

    fn tags_of(&self, settings: impl Iterator<Item = &'static Setting>) -> Tags {
        let mut tags = Tags::default();
        settings.for_each(|setting| tags.put_number(setting.tag, (setting.get)(self)));
        tags
    }

    /// Writes into a process's record the values for which it may be refused.
    pub fn tell(&self, me: &mut MemberInfo) {
        let may_be = Setting::known_at(me.level).filter(|setting| setting.differing == Differing::IsRefused);
        me.tail.put(OWN_SETTINGS, self.tags_of(may_be).as_bytes());
    }

    /// Whether `tags` can be in force at `level`: each setting of the level with an allowed value, and no other entry.
    /// For a level above this build's, which only tests of later builds have in force, only the known settings are
    /// checked.
    #[must_use]
    pub fn are_settings(tags: &Tags, level: u16) -> bool {
        let known = |tag| Setting::known_at(level).any(|setting| setting.tag == tag);
        Setting::known_at(level).all(|setting| setting.read(tags).is_some())
            && (level > LEVEL || tags.iter().all(|(tag, _)| known(tag)))
    }

    /// The least members of an adequate cell view with `tags` in force.
    #[must_use]
    pub fn members_min(tags: &Tags) -> usize {
        MEMBERS_MIN.read(tags).map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// These settings, replaced by those in force.
    #[must_use]
    pub fn under(&self, tags: &Tags) -> Self {
        let mut agreed = self.clone();
        for setting in &SETTINGS {
            if let Some(value) = setting.read(tags) {
                (setting.set)(&mut agreed, value);
            }
        }
        agreed
    }

    /// Replaces a process's own settings with these.
    pub fn apply(&self, limits: &mut Limits, timing: &mut Timing) {
        limits.group_window_bytes = self.group_window_bytes;
        limits.watchers = self.watchers;
        limits.slow_members = self.slow_members;
        limits.members_min = self.members_min;
        timing.heartbeat = self.heartbeat;
        timing.suspect_after = self.suspect_after;
        timing.ballot_step = self.ballot_step;
        timing.expel_after = self.expel_after;
    }
}

/// The first reason for which `member` cannot be in a cell with `tags` in force at `level`.
#[must_use]
pub fn mismatch(level: u16, tags: &Tags, member: &MemberInfo) -> Option<Mismatch> {
    // The level first: a member of an older build may not know the settings.
    if member.level < level {
        let (cell, other) = (level.to_string(), member.level.to_string());
        return Some(Mismatch { name: "level".to_owned(), cell, other });
    }
    // A build that does not report its settings cannot be refused for them.
    let own = Tags::parse(member.tail.get(OWN_SETTINGS)?).ok()?;
    let differs = |setting: &&Setting| {
        let (cell, other) = (setting.read(tags), setting.read(&own));
        cell.is_some() && other.is_some() && cell != other
    };
    let may_be = |setting: &&Setting| setting.differing == Differing::IsRefused;
    let setting = Setting::known_at(level).filter(may_be).find(differs)?;
    let show = |tags: &Tags| setting.read(tags).map(setting.show).unwrap_or_default();
    Some(Mismatch { name: setting.name.to_owned(), cell: show(tags), other: show(&own) })
}

/// A rise to a level, with the settings that it adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rise {
    /// The level.
    pub level: u16,
    /// Settings of the level that are not in force yet.
    pub settings: Tags,
}

impl Rise {
    /// The first member of the view in force that cannot follow, and why. `None` if all can.
    #[must_use]
    pub fn hindered_by<'a>(&self, directory: &'a Directory) -> Option<(&'a MemberInfo, Mismatch)> {
        let tags = directory.settings.under(&self.settings);
        directory.members.iter().find_map(|member| Some((member, mismatch(self.level, &tags, member)?)))
    }
}

#[cfg(test)]
mod tests;
