//! Names of members and groups, as the comments of a file have them (`docs/captures.md`, *Names*).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;

use phalanx_core::id::{Incarnation, ViewNumber};
use phalanx_core::member::Directory;
use phalanx_core::wire::Space;

/// The first line of each comment.
pub(super) const FIRST_LINE: &str = "phalanx-names 1";
/// The longest comment, in bytes. An option of pcapng has at most 65,535.
pub(super) const COMMENT_MAX: usize = 32_768;
/// The most comments of one packet. Readers bound blocks: libpcap's bound is 16 MiB.
const COMMENTS_MAX: usize = 32;
/// Members in one line. A line with a name of 200 bytes, each written as three, then fits a comment.
const MEMBERS_IN_LINE: usize = 1_024;
/// Addresses of one member that are written down: those of a data and a control socket, in both versions of IP.
const ADDRESSES_MAX: usize = 4;

/// Names of members and groups as texts, in the form of `docs/captures.md`, *Names*. [`super::NameLine`] reads them.
///
/// ```
/// use phalanx_core::id::Incarnation;
/// use phalanx_tap::capture::{NameLine, NameTexts};
///
/// let mut names = NameTexts::default();
/// names.member(Incarnation(7), "m1", &[]);
/// let texts: Vec<String> = names.take().collect();
/// assert_eq!(texts, ["phalanx-names 1\nmember 0000000000000007 - m1"]);
/// assert_eq!(names.take().count(), 0, "each is taken once");
/// # assert_eq!(NameLine::all(&texts[0]).count(), 1);
/// ```
#[derive(Debug, Default)]
pub struct NameTexts {
    comments: VecDeque<String>,
}

impl NameTexts {
    /// The members and groups of a cell, as a member of it knows them.
    pub fn directory(&mut self, directory: &Directory) {
        for member in &directory.members {
            self.member(member.incarnation, &member.name, &[member.data, member.control]);
        }
        for group in directory.groups.values() {
            self.view(group.space, group.view, &group.name, &group.members);
        }
    }

    /// An incarnation, and the addresses of its sockets. Four of them count.
    pub fn member(&mut self, who: Incarnation, name: &str, addresses: &[SocketAddr]) {
        let mut line = format!("member {who} ");
        for (index, address) in addresses.iter().take(ADDRESSES_MAX).enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // Cannot fail: a string takes all.
            _ = write!(line, "{comma}{}", written(*address));
        }
        if addresses.is_empty() {
            line.push('-');
        }
        line.push(' ');
        put_name(&mut line, name);
        self.line(&line);
    }

    /// The packet-number space of a group's view, and its members by rank.
    pub fn view(&mut self, space: Space, view: ViewNumber, group: &str, members: &[Incarnation]) {
        let chunks: Vec<&[Incarnation]> =
            if members.is_empty() { vec![members] } else { members.chunks(MEMBERS_IN_LINE).collect() };
        for (index, members) in chunks.into_iter().enumerate() {
            let first_rank = index * MEMBERS_IN_LINE;
            let mut line = format!("view {:08x} {} {first_rank} ", space.0, view.0);
            for (rank, member) in members.iter().enumerate() {
                let comma = if rank > 0 { "," } else { "" };
                _ = write!(line, "{comma}{member}");
            }
            if members.is_empty() {
                line.push('-');
            }
            line.push(' ');
            put_name(&mut line, group);
            self.line(&line);
        }
    }

    /// The texts, and takes them away. Each has at most 32,768 bytes.
    pub fn take(&mut self) -> impl Iterator<Item = String> {
        std::mem::take(&mut self.comments).into_iter()
    }

    /// The comments that go with the next packet.
    pub(super) fn next(&self) -> impl Iterator<Item = &str> {
        self.comments.iter().take(COMMENTS_MAX).map(String::as_str)
    }

    /// A packet with the comments of [`Self::next`] is written.
    pub(super) fn written(&mut self) {
        let count = self.comments.len().min(COMMENTS_MAX);
        self.comments.drain(..count);
    }

    pub(super) fn line(&mut self, line: &str) {
        match self.comments.back_mut().filter(|last| last.len() + 1 + line.len() <= COMMENT_MAX) {
            Some(last) => {
                last.push('\n');
                last.push_str(line);
            }
            None => self.comments.push_back(format!("{FIRST_LINE}\n{line}")),
        }
    }
}

/// An address as it stands in a file: IPv4 as such, also if it is written as IPv6, and without a scope.
pub(super) fn written(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Bytes that would end a line or a comment, and the percent sign, are written as a percent sign and two hexadecimal
/// digits.
fn put_name(line: &mut String, name: &str) {
    for c in name.chars() {
        if c == '%' || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                _ = write!(line, "%{byte:02x}");
            }
        } else {
            line.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_core::id::{Incarnation, ViewNumber};
    use phalanx_core::wire::Space;

    use super::{COMMENT_MAX, COMMENTS_MAX, NameTexts};

    fn all(names: &NameTexts) -> Vec<String> {
        names.next().map(str::to_owned).collect()
    }

    #[test]
    fn members_and_views_are_lines_of_one_comment() {
        let mut names = NameTexts::default();
        let address = |text: &str| text.parse().expect("an address");
        names.member(
            Incarnation(0x1a),
            "a b%\n",
            &[address("10.0.0.1:70"), address("[fd00::1%3]:71"), address("[::ffff:10.0.0.1]:72")],
        );
        names.member(Incarnation(2), "", &[]);
        names.view(Space(0x21), ViewNumber(3), "ledger", &[Incarnation(0x1a), Incarnation(2)]);
        names.view(Space(0x22), ViewNumber(4), "ledger", &[]);
        let expected = "phalanx-names 1\n\
            member 000000000000001a 10.0.0.1:70,[fd00::1]:71,10.0.0.1:72 a b%25%0a\n\
            member 0000000000000002 - \n\
            view 00000021 3 0 000000000000001a,0000000000000002 ledger\n\
            view 00000022 4 0 - ledger";
        assert_eq!(all(&names), [expected]);
        names.written();
        assert!(all(&names).is_empty(), "they are written once");
    }

    #[test]
    fn large_views_are_cut_into_lines_and_comments_into_packets() {
        let mut names = NameTexts::default();
        let members: Vec<Incarnation> = (1..=65_536).map(Incarnation).collect();
        let name = "%".repeat(200);
        names.view(Space(1), ViewNumber(1), &name, &members);
        let mut ranks = 0;
        let mut packets = 0;
        while names.next().next().is_some() {
            let comments = all(&names);
            assert!(comments.len() <= COMMENTS_MAX);
            for comment in comments {
                assert!(comment.len() <= COMMENT_MAX, "{} bytes", comment.len());
                for line in comment.lines().skip(1) {
                    assert!(line.starts_with(&format!("view 00000001 1 {ranks} ")), "{line}");
                    ranks += line.split(' ').nth(4).expect("members").split(',').count();
                }
            }
            names.written();
            packets += 1;
        }
        assert_eq!(ranks, members.len());
        assert!(packets > 1, "they did not fit one packet");
    }
}
