//! Names, lengths and lists in lines.

use std::borrow::Cow;

/// The most bytes of a name in a line. Names have at most 200, and each byte may take ten when it is escaped.
const NAME_BYTES_MAX: usize = 250;

/// A name as it stands in a line: between quotes and escaped if it could be taken for something else, or would move the
/// cursor.
pub(super) fn plain(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || ['-', '_', '.', '@'].contains(&c);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut quoted = String::from("\"");
    for c in name.escape_debug() {
        if quoted.len() + c.len_utf8() > NAME_BYTES_MAX {
            quoted.push('…');
            break;
        }
        quoted.push(c);
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// A length.
pub(super) fn bytes(count: usize) -> String {
    format!("{count} B")
}

/// Numbers or names with commas between them. Of a long list the beginning.
pub(super) fn listed(items: impl IntoIterator<Item = String>) -> String {
    const SHOWN: usize = 6;
    let mut items = items.into_iter();
    let mut list: Vec<String> = items.by_ref().take(SHOWN).collect();
    let more = items.count();
    if more > 0 {
        list.push(format!("{more} more"));
    }
    list.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{listed, plain};

    #[test]
    fn names_that_are_not_plain_are_quoted() {
        for name in ["m1", "ledger-1", "a.b_c@host", "größe"] {
            assert_eq!(plain(name), name);
        }
        assert_eq!(plain(""), "\"\"");
        assert_eq!(plain("a b"), "\"a b\"");
        assert_eq!(plain("a\"b\\"), r#""a\"b\\""#);
        assert_eq!(plain("\x1b[2J\n\u{202e}x"), r#""\u{1b}[2J\n\u{202e}x""#);
        let long = plain(&"\u{1}".repeat(200)).into_owned();
        assert!(long.len() < 260 && long.ends_with("…\""), "{long}");
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(listed((1..=6).map(|n: u8| n.to_string())), "1 2 3 4 5 6");
        assert_eq!(listed((1..=9).map(|n: u8| n.to_string())), "1 2 3 4 5 6 3 more");
        assert_eq!(listed([]), "");
    }
}
