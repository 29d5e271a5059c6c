//! The directory of servers as data: which member serves which group, and at which address.
//!
//! It is the state of a group. Each member announces what it serves; what a member announced ends with its membership.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::rpc::{Failure, Reason};
use phalanx_core::{Incarnation, Instant};

/// A server of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The group that it serves; `None`: it is found by its member alone.
    pub group: Option<String>,
    /// Where it answers.
    pub address: SocketAddr,
}

/// What all members announced. Equal at all members of the group after the same messages and views.
#[derive(Debug, Default)]
pub struct Servers {
    of: BTreeMap<Incarnation, Vec<Entry>>,
}

/// Whom a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The server at this address. No directory is asked.
    Address(SocketAddr),
    /// A server of this member.
    Member(Incarnation),
    /// A server of any member, for this group.
    Group(String),
}

/// What a process has of the directory.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Its copy.
    pub servers: &'a Servers,
    /// The copy follows the group. If not, the process has none yet, or an old one.
    pub is_current: bool,
    /// The process has ended, and its copy does not change any more.
    pub is_over: bool,
    /// Counts the changes of the copy, read before it.
    pub changes: u64,
    /// Servers that were silent lately ([`Silent`]). They are asked after the others.
    pub silent: &'a [SocketAddr],
}

/// Servers that did not answer a call until its deadline. For a while the others are asked before them. A server that is
/// stopped would else cost the deadline of each call whose turn it is, until a view excludes its member.
#[derive(Debug, Default)]
pub struct Silent {
    /// Each with the time from which on it is asked as before, the earliest first.
    until: VecDeque<(SocketAddr, Instant)>,
}

impl Silent {
    /// For how long the others are asked first.
    pub const TIME: Duration = Duration::from_secs(10);
    /// The most that are remembered: the latest.
    pub const SERVERS_MAX: usize = 64;

    /// A server answered a call, or the call failed so.
    pub fn note(&mut self, server: SocketAddr, ended: Result<(), Failure>, now: Instant) {
        match ended {
            Ok(()) => self.forget(server),
            Err(Failure::NotExecuted(why) | Failure::Unknown(why)) => {
                if matches!(why, Reason::Deadline | Reason::NoAnswer) {
                    self.add(server, now);
                }
            }
        }
    }

    fn add(&mut self, server: SocketAddr, now: Instant) {
        self.forget(server);
        if self.until.len() == Self::SERVERS_MAX {
            self.until.pop_front();
        }
        self.until.push_back((server, now + Self::TIME));
    }

    fn forget(&mut self, server: SocketAddr) {
        self.until.retain(|(silent, _)| *silent != server);
    }

    /// Those that are remembered at this time.
    pub fn at(&mut self, now: Instant) -> Vec<SocketAddr> {
        while self.until.front().is_some_and(|(_, until)| *until <= now) {
            self.until.pop_front();
        }
        self.until.iter().map(|(server, _)| *server).collect()
    }
}

/// What a copy of the directory says of a server that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its address.
    Server(SocketAddr),
    /// No such server is in it.
    Nobody,
    /// This process does not have it yet.
    NotYet,
    /// The process has ended.
    Over,
}

impl Servers {
    /// Most servers of one member. An announcement of more changes nothing.
    pub const ENTRIES_MAX: usize = 64;

    /// A directory with these lists, as [`Servers::lists`] gives them.
    #[must_use]
    pub fn of_lists(lists: impl IntoIterator<Item = (Incarnation, Vec<Entry>)>) -> Self {
        Self { of: lists.into_iter().collect() }
    }

    /// The lists of all members that serve, by member.
    pub fn lists(&self) -> impl ExactSizeIterator<Item = (Incarnation, &[Entry])> {
        self.of.iter().map(|(member, entries)| (*member, &entries[..]))
    }

    /// A member announced all that it serves.
    pub fn announce(&mut self, member: Incarnation, entries: Vec<Entry>) {
        if entries.is_empty() {
            self.of.remove(&member);
        } else if entries.len() <= Self::ENTRIES_MAX {
            self.of.insert(member, entries);
        }
    }

    /// A view of the group came: what was announced by those that are not in it is over.
    pub fn view(&mut self, is_member: impl Fn(Incarnation) -> bool) {
        self.of.retain(|member, _| is_member(*member));
    }

    /// All servers that are wanted, each with its member, in an order that is the same at all members.
    fn fitting(&self, wanted: &Destination) -> impl Iterator<Item = (Incarnation, SocketAddr)> {
        let fits = move |member: Incarnation, entry: &Entry| match wanted {
            Destination::Address(address) => entry.address == *address,
            Destination::Member(wanted) => member == *wanted,
            Destination::Group(group) => entry.group.as_deref() == Some(group),
        };
        let all = self.of.iter().flat_map(|(member, entries)| entries.iter().map(move |entry| (*member, entry)));
        all.filter(move |(member, entry)| fits(*member, entry)).map(|(member, entry)| (member, entry.address))
    }

    /// The members whose server for this call is at `address`, by member.
    #[must_use]
    pub fn members_at(&self, wanted: &Destination, address: SocketAddr) -> Vec<Incarnation> {
        let there = self.fitting(wanted).filter(|(_, at)| *at == address);
        let mut members: Vec<Incarnation> = there.map(|(member, _)| member).collect();
        members.dedup();
        members
    }
}

impl Known<'_> {
    /// A server that is wanted. Among several: number `turn`, counted around, of those that are not among `tried`. Those that were
    /// silent lately count only where there is no other.
    #[must_use]
    pub fn find(&self, wanted: &Destination, tried: &[SocketAddr], turn: usize) -> Found {
        if self.is_over {
            return Found::Over;
        }
        let fitting = self.servers.fitting(wanted).map(|(_, address)| address);
        let fitting = fitting.filter(|address| !tried.contains(address));
        let (silent, others): (Vec<_>, Vec<_>) = fitting.partition(|address| self.silent.contains(address));
        let asked = if others.is_empty() { silent } else { others };
        match asked.len() {
            0 if self.is_current || !tried.is_empty() => Found::Nobody,
            0 => Found::NotYet,
            many => Found::Server(asked[turn % many]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(group: Option<&str>, port: u16) -> Entry {
        Entry { group: group.map(str::to_owned), address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Nobody takes back what a member announced that died. A call to it would cost its caller the deadline.
    #[test]
    fn who_is_gone_is_not_in_the_directory() {
        let mut servers = Servers::default();
        for member in 1..=3 {
            servers.announce(Incarnation(member), vec![entry(Some("stock"), 1)]);
        }
        let members = |servers: &Servers| servers.lists().map(|(member, _)| member.0).collect::<Vec<_>>();
        servers.announce(Incarnation(2), Vec::new());
        assert_eq!(members(&servers), [1, 3], "who serves no more");
        servers.announce(Incarnation(1), vec![entry(None, 1); Servers::ENTRIES_MAX + 1]);
        assert_eq!(servers.lists().next(), Some((Incarnation(1), &[entry(Some("stock"), 1)][..])), "too many");
        servers.view(|member| member.0 > 1);
        assert_eq!(members(&servers), [3]);
    }

    #[test]
    fn servers_of_a_group_take_turns() {
        let lists =
            [(1, vec![entry(Some("a"), 1), entry(Some("b"), 2)]), (2, vec![entry(Some("a"), 3), entry(None, 4)])];
        let servers = Servers::of_lists(lists.map(|(member, entries)| (Incarnation(member), entries)));
        let known = Known { servers: &servers, is_current: true, is_over: false, changes: 0, silent: &[] };
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let group = Destination::Group("a".to_owned());
        assert_eq!([0, 1, 2].map(|turn| known.find(&group, &[], turn)), [1, 3, 1].map(|port| Found::Server(at(port))));
        assert_eq!(known.find(&group, &[at(1)], 4), Found::Server(at(3)));
        assert_eq!(known.find(&group, &[at(1), at(3)], 4), Found::Nobody);
        assert_eq!(known.find(&Destination::Member(Incarnation(2)), &[at(3)], 0), Found::Server(at(4)));
        let stranger = Destination::Member(Incarnation(9));
        assert_eq!(known.find(&stranger, &[], 0), Found::Nobody);
        assert_eq!(Known { is_current: false, ..known }.find(&stranger, &[], 0), Found::NotYet);
        assert_eq!(Known { is_current: false, ..known }.find(&group, &[at(1)], 0), Found::Server(at(3)));
        assert_eq!(Known { is_over: true, ..known }.find(&group, &[], 0), Found::Over);
    }

    #[test]
    fn who_was_silent_is_asked_last_for_a_while() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let lists = (1..=3_u16).map(|port| (Incarnation(u64::from(port)), vec![entry(Some("a"), port)]));
        let servers = Servers::of_lists(lists);
        let group = Destination::Group("a".to_owned());
        let asked = |silent: &[SocketAddr], tried: &[SocketAddr]| {
            let known = Known { servers: &servers, is_current: true, is_over: false, changes: 0, silent };
            [0, 1, 2].map(|turn| match known.find(&group, tried, turn) {
                Found::Server(address) => address.port(),
                _ => 0,
            })
        };
        assert_eq!(asked(&[at(1)], &[]), [2, 3, 2]);
        assert_eq!(asked(&[at(1)], &[at(2), at(3)]), [1, 1, 1], "the others were asked");
        assert_eq!(asked(&[at(1), at(2), at(3)], &[]), [1, 2, 3], "there is no other");
        let (mut silent, start) = (Silent::default(), Instant(5));
        silent.note(at(1), Err(Failure::Unknown(Reason::Deadline)), start);
        silent.note(at(2), Err(Failure::NotExecuted(Reason::NoAnswer)), start + Duration::from_secs(1));
        silent.note(at(3), Err(Failure::Unknown(Reason::Deadline)), start + Duration::from_secs(2));
        silent.note(at(1), Err(Failure::NotExecuted(Reason::Unreachable)), start + Duration::from_secs(3));
        silent.note(at(2), Ok(()), start + Duration::from_secs(3));
        assert_eq!(silent.at(start + Duration::from_secs(9)), [at(1), at(3)]);
        assert_eq!(silent.at(start + Silent::TIME), [at(3)]);
        silent.note(at(3), Err(Failure::Unknown(Reason::Deadline)), start + Silent::TIME);
        assert_eq!(silent.at(start + Silent::TIME + Duration::from_secs(9)), [at(3)], "once more");
        for port in 0..=Silent::SERVERS_MAX {
            let port = 100 + u16::try_from(port).expect("small");
            silent.note(at(port), Err(Failure::Unknown(Reason::Deadline)), start + Silent::TIME);
        }
        assert_eq!(silent.at(start + Silent::TIME).len(), Silent::SERVERS_MAX);
    }
}
