//! The level in force, agreed settings, and raising the level (`docs/levels.md`).

use super::{Process, Stage};
use crate::api::{CommandError, Event};
use crate::id::MemberInfo;
use crate::member::{Agreed, Mismatch, Rise, mismatch};
use crate::time::Instant;

impl Process {
    /// Requests that the cell rises to `level`. Members send what that level brings from the view on that decides it.
    ///
    /// A [`crate::CellView`] with that level reports success. [`Event::LevelRefused`] reports that a member came
    /// meanwhile that cannot follow. Does nothing if the level is in force.
    ///
    /// # Errors
    /// [`CommandError::LevelRefused`] when this build, or a member of the view, does not know the level;
    /// [`CommandError::NoView`], [`CommandError::Over`]. Nothing was requested.
    pub fn raise_level(&mut self, now: Instant, level: u16) -> Result<(), CommandError> {
        match self.stage {
            Stage::Over => return Err(CommandError::Over),
            Stage::Searching(_) => return Err(CommandError::NoView),
            Stage::Member | Stage::Leaving { .. } => {}
        }
        if level <= self.directory.level {
            return Ok(());
        }
        if let Some(why) = self.why_not(level) {
            return Err(CommandError::LevelRefused { level, why });
        }
        // Only a command raises the level. If it followed the lowest level of the members, a member of an earlier build
        // that was cut off for a second would find itself locked out.
        self.requested_level = level;
        self.advance_intents(now);
        Ok(())
    }

    /// The settings that members agree on: those in force here, or this process's own before the first view.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        Agreed::of(&self.set.limits, &self.set.timing)
    }

    /// The highest level that all members know.
    #[must_use]
    pub fn highest_level(&self) -> u16 {
        self.directory.members.iter().map(|member| member.level).min().unwrap_or_default()
    }

    /// Why the cell cannot rise to `level`, for people to read.
    fn why_not(&self, level: u16) -> Option<String> {
        let rise = self.rise_to(level);
        let (member, Mismatch { name, cell, other }) = rise.hindered_by(&self.directory)?;
        let who = &member.name;
        Some(match name.as_str() {
            "level" => format!("member {who} knows level {other} at most"),
            _ => format!("{name} would be {cell}, and member {who} has {other}"),
        })
    }

    /// The rise to `level`, with the settings that it brings taken from this process.
    fn rise_to(&self, level: u16) -> Rise {
        let own = self.agreed();
        Rise { level, settings: own.new_at(level, &self.directory.settings) }
    }

    /// The level that this process still requests, or 0.
    pub(super) fn level_requested(&mut self) -> u16 {
        let level = self.requested_level;
        if level > self.directory.level {
            let Some(why) = self.why_not(level) else { return level };
            self.app.event(Event::LevelRefused { level, why });
        }
        self.requested_level = 0;
        0
    }

    /// The requested rise that all members can follow. Leavers and silent members count too: one that was cut off for a
    /// moment would come back to a cell that it does not understand.
    pub(super) fn requested_rise(&self) -> Option<Rise> {
        let decree = self.directory.decree;
        // A request counts in the decree it was made in, like requests about groups.
        let level = self.requests.values().filter(|list| list.decree == decree).map(|list| list.level).max()?;
        if level <= self.directory.level {
            return None;
        }
        let rise = self.rise_to(level);
        rise.hindered_by(&self.directory).is_none().then_some(rise)
    }

    /// Why a joiner is kept out, if it is. Among founders only the leader evaluates this, because its settings become
    /// the cell's: the others would refuse it, and each other, for their own.
    pub(super) fn differs(&mut self, joiner: &MemberInfo) -> Option<Mismatch> {
        if !matches!(self.stage, Stage::Searching(_)) {
            return mismatch(self.directory.level, &self.directory.settings, joiner);
        }
        // A founder that has heard a member must not speak for a cell that already exists.
        if !self.leads_founding() || self.set.record.heard.is_some() {
            return None;
        }
        // The lowest level of the founders is taken, so none is refused for its level.
        let differs = mismatch(1, &self.agreed().tags(1), joiner)?;
        let Mismatch { name, cell, other } = &differs;
        let why = format!("founder {} has another {name}: {other}, and this process {cell}", joiner.name);
        if let Stage::Searching(search) = &mut self.stage {
            search.refused = Some(why);
        }
        Some(differs)
    }

    /// Replaces this process's own settings by the agreed ones.
    pub(super) fn adopt_settings(&mut self) {
        let own = self.agreed();
        let agreed = own.under(&self.directory.settings);
        self.counters.settings_adopted += u64::from(agreed != own);
        agreed.apply(&mut self.set.limits, &mut self.set.timing);
    }
}
