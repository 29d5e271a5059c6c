//! Merges the sources key by key, and records the origin of each value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::error::{ConfigError, Origin};
use super::file::{self, Entry};
use super::keys::{KEYS, Key, Written};
use super::{Config, SecurityMode};

/// A configuration and the origin of each of its values.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The settings.
    pub config: Config,
    /// Warnings for a person before the process starts, one sentence each.
    pub warnings: Vec<String>,
    origins: BTreeMap<&'static str, Origin>,
}

/// One line of the configuration in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key.
    pub key: &'static str,
    /// Its value, as it would be written in a file; `None`: not set.
    pub value: Option<String>,
    /// Its origin.
    pub origin: Origin,
}

/// Whether the command line has a flag for this key alone. Other keys, and those that do not exist, come from `--set`.
fn has_flag(key: &str) -> bool {
    !key.contains('.') && key != "driver" && KEYS.iter().any(|known| known.name == key)
}

impl Config {
    /// Merges `flags` (key and value, such as `("timing.heartbeat", "50ms")`) over `environment` over `file` over the
    /// defaults. Variables of the environment that do not begin with `PHALANX_` are ignored.
    ///
    /// # Errors
    /// The first error found, with its origin; see [`ConfigError`].
    pub fn load(
        flags: &[(String, String)],
        environment: impl IntoIterator<Item = (String, String)>,
        file: Option<&Path>,
    ) -> Result<Resolved, ConfigError> {
        let mut merged = Resolved { config: Self::default(), warnings: Vec::new(), origins: BTreeMap::new() };
        for entry in file.map_or_else(|| Ok(Vec::new()), file::read)? {
            merged.set(entry)?;
        }
        for (variable, value) in environment {
            merged.set_variable(variable, value)?;
        }
        for (key, value) in flags {
            let flag = if has_flag(key) { format!("--{}", key.replace('_', "-")) } else { format!("--set {key}") };
            let origin = Origin::Flag { flag };
            merged.set(Entry { key: key.clone(), written: Written::Text(value.clone()), origin })?;
        }
        merged.check()?;
        Ok(merged)
    }
}

impl Resolved {
    /// The origin of the value of `key`.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// Every key with its value and origin, in the order of [`KEYS`].
    #[must_use]
    pub fn shown(&self) -> Vec<Shown> {
        let line = |key: &Key| Shown { key: key.name, value: key.show(&self.config), origin: self.origin(key.name) };
        KEYS.iter().map(line).collect()
    }

    fn set(&mut self, entry: Entry) -> Result<(), ConfigError> {
        let Entry { key: written_key, written, origin } = entry;
        let Some(key) = KEYS.iter().find(|key| key.name == written_key) else {
            return Err(ConfigError::UnknownKey { origin, nearest: nearest(&written_key), key: written_key });
        };
        (key.set)(&mut self.config, &written).map_err(|problem| ConfigError::BadValue {
            origin: origin.clone(),
            key: key.name.to_owned(),
            problem,
        })?;
        self.origins.insert(key.name, origin);
        Ok(())
    }

    fn set_variable(&mut self, variable: String, value: String) -> Result<(), ConfigError> {
        let Some(rest) = variable.strip_prefix(PREFIX) else { return Ok(()) };
        if NOT_KEYS.contains(&rest) {
            return Ok(());
        }
        let name = rest.to_lowercase().replace("__", ".");
        if KEYS.iter().any(|key| key.name == name) {
            let origin = Origin::Environment { variable };
            return self.set(Entry { key: name, written: Written::Text(value), origin });
        }
        // A warning and no error: container platforms add variables of their own (PHALANX_SERVICE_HOST) to the
        // environment of every program beside a service of that name.
        let hint = nearest(&name).and_then(|name| KEYS.iter().find(|key| key.name == name)).map(Key::variable);
        let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        self.warnings.push(format!("the environment variable {variable} is not known and was ignored{hint}"));
        Ok(())
    }

    fn check(&mut self) -> Result<(), ConfigError> {
        if let Some((key, problem)) = self.config.conflict() {
            return Err(ConfigError::BadValue { origin: self.origin(key), key: key.to_owned(), problem });
        }
        if self.config.security == SecurityMode::None {
            let origin = self.origin("security");
            self.warnings.push(format!(
                "security = \"none\" ({origin}): packets are neither authenticated nor encrypted; anybody who \
                 reaches the port can join the cell and forge messages"
            ));
        }
        if self.config.founders.iter().collect::<BTreeSet<_>>().len() == 2 {
            let origin = self.origin("founders");
            self.warnings.push(format!(
                "founders ({origin}) are two: half of a view with rank 0 is its quorum, so when the first of them by name is \
                 lost the other does not go on; name a third"
            ));
        }
        Ok(())
    }
}

/// The known key most similar to `written`, if any is similar at all.
fn nearest(written: &str) -> Option<String> {
    // A key written without its table is as likely as a misspelt one.
    let bare = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let last = written.rsplit('.').next().unwrap_or(written);
    let distance = |key: &Key| distance(written, key.name).min(distance(last, bare(key.name)) + 1);
    let best = KEYS.iter().min_by_key(|key| distance(key))?;
    let close = distance(best) <= (written.chars().count() / 3).max(2);
    close.then(|| best.name.to_owned())
}

/// The number of edits that turn one text into the other (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            let cost = (diagonal + usize::from(from != *to)).min(above + 1).min(left + 1);
            diagonal = above;
            left = cost;
            *cell = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

const PREFIX: &str = "PHALANX_";

/// Variables with our prefix that set no key.
const NOT_KEYS: [&str; 3] = ["CONFIG", "CI", "BUILD"];

#[cfg(test)]
mod tests;
