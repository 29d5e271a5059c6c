//! Parses the file into keys, values and lines.

use std::fs;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::keys::Written;

/// One key of the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) written: Written,
    pub(super) origin: Origin,
}

pub(super) fn read(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let text = fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    parse(path, &text)
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, ConfigError> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let Position { line, column } = position(text, offset);
        ConfigError::Syntax { path: path.to_owned(), line, column, message: error.message().to_owned() }
    })?;
    let mut entries = Vec::new();
    collect(path, text, "", table.get_ref(), &mut entries);
    // In the order of the file, so that the first error is the one reported.
    entries.sort_by_key(|entry| match entry.origin {
        Origin::File { line, .. } => line,
        _ => 0,
    });
    Ok(entries)
}

fn collect(path: &Path, text: &str, prefix: &str, table: &DeTable<'_>, entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        let line = position(text, name.span().start).line;
        let origin = Origin::File { path: path.to_owned(), line };
        match value.get_ref() {
            // Tables have one level only; a deeper one is reported as an unknown key with its full name.
            DeValue::Table(inner) if prefix.is_empty() => collect(path, text, &format!("{key}."), inner, entries),
            value => entries.push(Entry { key, written: written(value), origin }),
        }
    }
}

fn written(value: &DeValue<'_>) -> Written {
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Written::Other("a number this large"), Written::Integer),
        DeValue::Float(_) => Written::Other("a number with a fraction"),
        DeValue::Boolean(_) => Written::Other("true or false"),
        DeValue::Datetime(_) => Written::Other("a date"),
        DeValue::Table(_) => Written::Other("a table"),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                })
                .collect();
            texts.map_or(Written::Other("a list with something else than strings"), Written::List)
        }
    }
}

/// A place in a text; both count from 1.
struct Position {
    line: usize,
    column: usize,
}

/// The place of a byte offset.
fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position { line, column }
}
