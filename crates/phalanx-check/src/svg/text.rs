//! Text in a picture: escaped, cut to a length, and the names of processes and times.

use std::collections::BTreeMap;

use phalanx_trace::Trace;

/// Escapes `text` for an XML element or attribute. Characters that XML cannot represent become a replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// The first `letters_max` letters, followed by three dots if there were more.
pub(super) fn shorten(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(letters_max.saturating_sub(3)).collect();
    out.push_str("...");
    out
}

/// Lines of at most `letters_max` letters, broken between words where that is possible.
pub(super) fn wrap(text: &str, letters_max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(&shorten(word, letters_max));
        } else if line.chars().count() + 1 + word.chars().count() <= letters_max {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(shorten(word, letters_max));
        }
    }
    lines
}

/// Seconds with six digits after the point.
pub(super) fn seconds(at_ns: u64) -> String {
    format!("{}.{:06}", at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1_000)
}

/// Names of incarnations: the process's name, with a number from its second incarnation on.
pub(super) struct Names(BTreeMap<u64, String>);

impl Names {
    pub(super) fn new(traces: &[Trace]) -> Self {
        let mut lives: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for trace in traces.iter().filter(|trace| !trace.header.is_harness()) {
            let began_ns = trace.records.first().map_or(0, |record| record.at_ns);
            lives.entry(&trace.header.node).or_default().push((began_ns, trace.header.incarnation));
        }
        let mut names = BTreeMap::new();
        for (node, mut lives) in lives {
            lives.sort_unstable();
            for (life, (_, incarnation)) in lives.into_iter().enumerate() {
                let name = if life == 0 { node.to_owned() } else { format!("{node}.{}", life + 1) };
                names.insert(incarnation, name);
            }
        }
        Self(names)
    }

    pub(super) fn of(&self, incarnation: u64) -> String {
        self.0.get(&incarnation).cloned().unwrap_or_else(|| format!("{incarnation:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_an_element() {
        assert_eq!(escape("a<b>&\"'\u{7}\u{fffe}\n"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}\u{fffd} ");
    }

    #[test]
    fn long_text_is_cut_and_wrapped() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abc...");
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(seconds(12_345_678_901), "12.345678");
    }
}
