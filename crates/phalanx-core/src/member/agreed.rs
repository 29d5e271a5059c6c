//! Settings that a decree makes equal at all members, and a view's level (`docs/levels.md`).

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Directory;
use crate::api::{Limits, SlowMembers, Timing};
use crate::id::{LEVEL, MemberInfo};
use crate::wire::Tags;

/// In a member's record: its own values of the settings that it may be refused for.
const OWN_SETTINGS: u64 = 1;

/// The settings that a cell agrees on, as a process has them or as they are in force.
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

/// Two processes whose settings do not go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The setting as it is called in a configuration, or "level".
    pub name: String,
    /// The value in force, or of the one who refuses, for people.
    pub cell: String,
    /// The value of the one who is refused, for people.
    pub other: String,
}

impl Mismatch {
    /// No text of one is longer than this, in bytes.
    const TEXT_BYTES_MAX: usize = 100;

    /// Whether it can be one: somebody else wrote its texts.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        [&self.name, &self.cell, &self.other].iter().all(|text| text.len() <= Self::TEXT_BYTES_MAX)
    }
}

/// What a joiner does that has another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differing {
    /// It takes the cell's.
    Adopts,
    /// It is refused.
    IsRefused,
}

/// One of the settings, in the form in which it travels: a number.
struct Setting {
    tag: u64,
    /// The level that brings it.
    level: u16,
    name: &'static str,
    differing: Differing,
    /// The least and the largest value that can be in force.
    range: RangeInclusive<u64>,
    get: fn(&Agreed) -> u64,
    set: fn(&mut Agreed, u64),
    show: fn(u64) -> String,
}

/// In microseconds: a tenth of a millisecond to a day.
const DURATIONS: RangeInclusive<u64> = 100..=86_400_000_000;

/// The least members of an adequate cell view. A cell of level 1 has none: each is adequate.
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

/// A duration of level 1, which a joiner takes from its cell.
const fn duration(tag: u64, name: &'static str, get: fn(&Agreed) -> u64, set: fn(&mut Agreed, u64)) -> Setting {
    Setting { tag, level: 1, name, differing: Differing::Adopts, range: DURATIONS, get, set, show: show_micros }
}

/// A number of members, which a joiner takes from its cell.
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

/// As sizes are written in a configuration.
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

    /// Its value in `tags`, if it is there and can be one.
    fn read(&self, tags: &Tags) -> Option<u64> {
        tags.number(self.tag).ok().flatten().filter(|n| self.range.contains(n))
    }
}

impl Agreed {
    /// As a process was started. What lies outside of what can be in force is taken as the nearest that can.
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
            let value = (setting.get)(&own).clamp(*setting.range.start(), *setting.range.end());
            (setting.set)(&mut own, value);
        }
        own
    }

    /// All that a cell of `level` agrees on.
    #[must_use]
    pub fn tags(&self, level: u16) -> Tags {
        self.tags_of(Setting::known_at(level))
    }

    /// What a rise to `level` brings to a cell with `tags`.
    #[must_use]
    pub fn new_at(&self, level: u16, tags: &Tags) -> Tags {
        self.tags_of(Setting::known_at(level).filter(|setting| tags.get(setting.tag).is_none()))
    }

    fn tags_of(&self, settings: impl Iterator<Item = &'static Setting>) -> Tags {
        let mut tags = Tags::default();
        settings.for_each(|setting| tags.put_number(setting.tag, (setting.get)(self)));
        tags
    }

    /// Notes in a process's record what it may be refused for.
    pub fn tell(&self, me: &mut MemberInfo) {
        let may_be = Setting::known_at(me.level).filter(|setting| setting.differing == Differing::IsRefused);
        me.tail.put(OWN_SETTINGS, self.tags_of(may_be).as_bytes());
    }

    /// Whether `tags` can be in force at `level`: each setting of the level with a value that it can have, and no other. Of a
    /// level above this build's, which is in force only where tests play a later build, the settings known here are judged.
    #[must_use]
    pub fn are_settings(tags: &Tags, level: u16) -> bool {
        let known = |tag| Setting::known_at(level).any(|setting| setting.tag == tag);
        Setting::known_at(level).all(|setting| setting.read(tags).is_some())
            && (level > LEVEL || tags.iter().all(|(tag, _)| known(tag)))
    }

    /// The least members of an adequate cell view where `tags` are in force.
    #[must_use]
    pub fn members_min(tags: &Tags) -> usize {
        MEMBERS_MIN.read(tags).map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// These settings, with those that are in force.
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

    /// Puts them in the place of a process's own.
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

/// What a process may be refused for where `tags` are in force at `level`, or are to be.
#[must_use]
pub fn mismatch(level: u16, tags: &Tags, member: &MemberInfo) -> Option<Mismatch> {
    if member.level < level {
        let (cell, other) = (level.to_string(), member.level.to_string());
        return Some(Mismatch { name: "level".to_owned(), cell, other });
    }
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

/// A level to rise to, and the settings that come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rise {
    /// The level.
    pub level: u16,
    /// Settings of the level that are not in force yet.
    pub settings: Tags,
}

impl Rise {
    /// The first member of the view in force that cannot follow, and why; `None`: all can.
    #[must_use]
    pub fn hindered_by<'a>(&self, directory: &'a Directory) -> Option<(&'a MemberInfo, Mismatch)> {
        let tags = directory.settings.under(&self.settings);
        directory.members.iter().find_map(|member| Some((member, mismatch(self.level, &tags, member)?)))
    }
}

#[cfg(test)]
mod tests;
