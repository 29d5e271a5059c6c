//! Names of members and groups, read from a text (`docs/captures.md`, *Names*).

use std::net::SocketAddr;

use phalanx_core::id::{Incarnation, ViewNumber};
use phalanx_core::wire::Space;

use super::names::{COMMENT_MAX, FIRST_LINE};

/// What a line of names says.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_tap::capture::NameLine;
///
/// let text = "phalanx-names 1\nmember 000000000000001a 10.0.0.1:7000 a%25\nsomething of a later build\n";
/// let lines: Vec<NameLine> = NameLine::all(text).collect();
/// let addresses = vec!["10.0.0.1:7000".parse().expect("an address")];
/// assert_eq!(lines, [NameLine::Member { incarnation: Incarnation(0x1a), addresses, name: "a%".to_owned() }]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameLine {
    /// A member.
    Member {
        /// Its incarnation.
        incarnation: Incarnation,
        /// Those of its sockets.
        addresses: Vec<SocketAddr>,
        /// Its name.
        name: String,
    },
    /// A view of a group, or a part of a large one.
    View {
        /// The packet-number space of its streams.
        space: Space,
        /// Its number.
        view: ViewNumber,
        /// The rank of the first of the members.
        first_rank: usize,
        /// Members, in rank order.
        members: Vec<Incarnation>,
        /// The group's name.
        group: String,
    },
}

impl NameLine {
    /// The lines of a text. Those that are not known are left out: all of them, if the first line is not that of names.
    pub fn all(text: &str) -> impl Iterator<Item = Self> {
        Self::with_lines(text).map(|(_, known)| known)
    }

    /// The same, with the lines as they stand.
    pub(super) fn with_lines(text: &str) -> impl Iterator<Item = (&str, Self)> {
        let mut lines = text.lines();
        let is_names = lines.next() == Some(FIRST_LINE);
        lines.filter(move |_| is_names).filter_map(|line| Self::parse(line).map(|known| (line, known)))
    }

    fn parse(line: &str) -> Option<Self> {
        // A longer one fits no comment.
        if FIRST_LINE.len() + 1 + line.len() > COMMENT_MAX {
            return None;
        }
        let (word, rest) = line.split_once(' ')?;
        match word {
            "member" => {
                let [who, addresses, name] = fields(rest)?;
                let incarnation = incarnation(who)?;
                Some(Self::Member {
                    incarnation,
                    addresses: list(addresses, |one| one.parse().ok())?,
                    name: read_name(name),
                })
            }
            "view" => {
                let [space, view, first_rank, members, group] = fields(rest)?;
                Some(Self::View {
                    space: Space(u32::try_from(hexadecimal(space, 8)?).ok()?),
                    view: ViewNumber(view.parse().ok()?),
                    first_rank: first_rank.parse().ok()?,
                    members: list(members, incarnation)?,
                    group: read_name(group),
                })
            }
            _ => None,
        }
    }
}

/// Fields between single blanks. The last goes to the end of the line.
fn fields<const N: usize>(rest: &str) -> Option<[&str; N]> {
    rest.splitn(N, ' ').collect::<Vec<_>>().try_into().ok()
}

fn list<T>(field: &str, each: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if field == "-" { Some(Vec::new()) } else { field.split(',').map(each).collect() }
}

fn incarnation(digits: &str) -> Option<Incarnation> {
    hexadecimal(digits, 16).map(Incarnation)
}

fn hexadecimal(digits: &str, count: usize) -> Option<u64> {
    let is_number = digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// Undoes what the writer of names did. What it cannot have written stays as it is.
fn read_name(written: &str) -> String {
    let mut name = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let [byte, behind @ ..] = rest {
        let escaped = behind.get(..2).filter(|_| *byte == b'%').and_then(|two| {
            let two = str::from_utf8(two).ok()?;
            u8::try_from(hexadecimal(two, 2)?).ok()
        });
        match escaped {
            Some(escaped) => {
                name.push(escaped);
                rest = &behind[2..];
            }
            None => {
                name.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&name).into_owned()
}

#[cfg(test)]
mod tests {
    use phalanx_core::id::{Incarnation, ViewNumber};
    use phalanx_core::wire::Space;
    use proptest::prelude::*;

    use super::NameLine;
    use crate::capture::NameTexts;

    fn read(line: &str) -> Vec<NameLine> {
        NameLine::all(&format!("phalanx-names 1\n{line}")).collect()
    }

    #[test]
    fn lines_that_are_not_known_are_left_out() {
        assert_eq!(read("member 000000000000001a - a b").len(), 1);
        assert_eq!(read("view 00000021 3 0 - b").len(), 1);
        for line in [
            "",
            "member",
            "member 1a - a",
            "member 000000000000001a -",
            "member +00000000000001a - a",
            "member 000000000000001a 10.0.0.1 a",
            "members 000000000000001a - a",
            "view 00000021 3 0 -",
            "view 00000021 x 0 - b",
            "view 21 3 0 - b",
            "view 00000021 3 0 1a b",
            "view 00000021 3 0  b",
        ] {
            assert_eq!(read(line), [], "{line}");
        }
        assert_eq!(read(&format!("member 000000000000001a - {}", "a".repeat(32_768))), []);
        for first in ["phalanx-names 2", "phalanx-names 1 ", "a comment"] {
            assert_eq!(NameLine::all(&format!("{first}\nmember 000000000000001a - a")).count(), 0, "{first}");
        }
    }

    #[test]
    fn what_no_writer_escapes_stays() {
        let name = |line: &str| match &read(line)[..] {
            [NameLine::Member { name, .. }] => name.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(name("member 000000000000001a - 100%"), "100%");
        assert_eq!(name("member 000000000000001a - %zz%2"), "%zz%2");
        assert_eq!(name("member 000000000000001a - %c3%28"), "\u{fffd}(");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in ".{0,60}", who: u64, space: u32, view: u64,
            address in any::<std::net::SocketAddrV4>(), members in proptest::collection::vec(any::<u64>(), 0..3_000),
        ) {
            let members: Vec<Incarnation> = members.into_iter().map(Incarnation).collect();
            let mut texts = NameTexts::default();
            texts.member(Incarnation(who), &name, &[address.into()]);
            texts.view(Space(space), ViewNumber(view), &name, &members);
            let texts: Vec<String> = texts.take().collect();
            let mut lines = texts.iter().flat_map(|text| NameLine::all(text));
            let (incarnation, addresses) = (Incarnation(who), vec![address.into()]);
            prop_assert_eq!(lines.next(), Some(NameLine::Member { incarnation, addresses, name: name.clone() }));
            let mut read = Vec::new();
            for line in lines {
                let NameLine::View { space: of, view: number, first_rank, members, group } = line else { panic!("{line:?}") };
                prop_assert_eq!((of, number, first_rank, group), (Space(space), ViewNumber(view), read.len(), name.clone()));
                read.extend(members);
            }
            prop_assert_eq!(read, members);
        }

        #[test]
        fn any_text_is_read(text in "(phalanx-names 1\n)?(member|view|) ?[0-9a-f]{0,16} .{0,40}") {
            NameLine::all(&text).for_each(drop);
        }
    }
}
