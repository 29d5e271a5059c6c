//! The words and signs of a filter's text, with their places.

use crate::error::{FilterError, FilterFault};

/// A part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// A word, a number or an address.
    Word(&'t str),
    /// What stood between quotes.
    Quoted(&'t str),
    Sign(&'static str),
    End,
}

/// All signs, longer ones before those that they begin with.
const SIGNS: [&str; 25] = [
    "&&", "||", "!=", "==", "<=", ">=", "<<", ">>", "(", ")", "[", "]", ":", "+", "-", "*", "/", "%", "&", "|", "^",
    "!", "=", "<", ">",
];

/// The parts of a text, each with the byte where it begins. The last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, FilterError> {
    let mut found = Vec::new();
    // Within brackets a colon and a minus are signs; elsewhere they are parts of addresses and names.
    let (mut at, mut brackets) = (0, 0_usize);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, len) = if first == '"' {
            let fault = FilterError { place: at, fault: FilterFault::Quote };
            let name = &rest[1..];
            let end = name.find('"').ok_or(fault)?;
            (Token::Quoted(&name[..end]), end + 2)
        } else if let len @ 1.. = word(rest, brackets > 0) {
            (Token::Word(&rest[..len]), len)
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = *sign.ok_or(FilterError { place: at, fault: FilterFault::Character(first) })?;
            match sign {
                "[" => brackets += 1,
                "]" => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            (Token::Sign(sign), sign.len())
        };
        found.push((at, token));
        at += len;
    }
    found.push((text.len(), Token::End));
    Ok(found)
}

/// The length of the word at the beginning of `rest`; 0 if there is none.
fn word(rest: &str, in_brackets: bool) -> usize {
    let mut len = 0;
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let next_is_part = chars.peek().is_some_and(|next| next.is_alphanumeric() || *next == '_');
        let is_part = match c {
            ':' => !in_brackets,
            '-' => !in_brackets && len > 0 && next_is_part,
            '.' => len > 0,
            c => c.is_alphanumeric() || c == '_',
        };
        if !is_part {
            break;
        }
        len += c.len_utf8();
    }
    len
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};
    use crate::error::{FilterError, FilterFault};

    fn shown(text: &str) -> Vec<String> {
        let shown = tokens(text).expect("tokens").into_iter().map(|(place, token)| match token {
            Token::Word(word) => format!("{place} {word}"),
            Token::Quoted(name) => format!("{place} \"{name}\""),
            Token::Sign(sign) => format!("{place} '{sign}'"),
            Token::End => format!("{place}"),
        });
        shown.collect()
    }

    #[test]
    fn addresses_and_names_are_words() {
        assert_eq!(shown("from desk-3"), ["0 from", "5 desk-3", "11"]);
        assert_eq!(shown("host ::1 or fe80::"), ["0 host", "5 ::1", "9 or", "12 fe80::", "18"]);
        assert_eq!(shown("portrange 1-5"), ["0 portrange", "10 1-5", "13"]);
        assert_eq!(shown("group \"a b\""), ["0 group", "6 \"a b\"", "11"]);
        assert_eq!(shown("from größe"), ["0 from", "5 größe", "12"]);
    }

    #[test]
    fn in_brackets_a_colon_and_a_minus_are_signs() {
        let expected =
            ["0 udp", "3 '['", "4 len", "7 '-'", "8 4", "9 ':'", "10 2", "11 ']'", "12 '!='", "14 0x1f", "18"];
        assert_eq!(shown("udp[len-4:2]!=0x1f"), expected);
    }

    #[test]
    fn the_longest_sign_counts() {
        assert_eq!(shown("<<=<=="), ["0 '<<'", "2 '='", "3 '<='", "5 '='", "6"]);
        assert_eq!(shown("!a&&b"), ["0 '!'", "1 a", "2 '&&'", "4 b", "5"]);
    }

    #[test]
    fn what_is_no_part_of_a_filter_is_named_with_its_place() {
        assert_eq!(tokens("a $"), Err(FilterError { place: 2, fault: FilterFault::Character('$') }));
        assert_eq!(tokens("group \"a"), Err(FilterError { place: 6, fault: FilterFault::Quote }));
    }
}
