//! The directory of servers in a simulated run: what happened in its group, and what a caller has of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use phalanx_core::rpc::Failure;
use phalanx_core::{Incarnation, Instant};
use phalanx_life::{Destination, Entry, Known, Servers, Silent};

/// What happened in the directory's group, in its order.
#[derive(Debug, Default)]
pub(super) struct Log {
    changes: Vec<Change>,
    members: BTreeSet<Incarnation>,
}

#[derive(Debug)]
enum Change {
    /// A member announced all that it serves.
    Announced(Incarnation, Vec<Entry>),
    /// A view of these members came.
    View(BTreeSet<Incarnation>),
}

impl Log {
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn join(&mut self, member: Incarnation) {
        self.members.insert(member);
        self.changes.push(Change::View(self.members.clone()));
    }

    pub(super) fn leave(&mut self, member: Incarnation) {
        self.members.remove(&member);
        self.changes.push(Change::View(self.members.clone()));
    }

    pub(super) fn announce(&mut self, member: Incarnation, entries: Vec<Entry>) {
        self.changes.push(Change::Announced(member, entries));
    }

    /// All that ever announced something, the dead included.
    pub(super) fn announcers(&self) -> Vec<Incarnation> {
        let of = |change: &Change| match change {
            Change::Announced(member, _) => Some(*member),
            Change::View(_) => None,
        };
        self.changes.iter().filter_map(of).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The servers for `destination` after the first `count` changes.
    pub(super) fn listed(&self, count: usize, destination: &Destination) -> Vec<SocketAddr> {
        self.named(count, destination).into_iter().map(|(_, address)| address).collect()
    }

    /// The same, with their members. It is found from the changes alone, so that the directory that callers use can be judged
    /// by it.
    pub(super) fn named(&self, count: usize, destination: &Destination) -> Vec<(Incarnation, SocketAddr)> {
        let past = &self.changes[..count];
        let mut listed = Vec::new();
        for (at, change) in past.iter().enumerate() {
            let Change::Announced(member, entries) = change else { continue };
            let is_over = past[at + 1..].iter().any(|later| match later {
                Change::Announced(who, _) => who == member,
                Change::View(members) => !members.contains(member),
            });
            let fits = |entry: &&Entry| match destination {
                Destination::Address(address) => entry.address == *address,
                Destination::Member(wanted) => wanted == member,
                Destination::Group(group) => entry.group.as_ref() == Some(group),
            };
            listed.extend(entries.iter().filter(|entry| !is_over && fits(entry)).map(|entry| (*member, entry.address)));
        }
        listed
    }
}

/// What a caller has of the directory.
#[derive(Debug, Default)]
pub(super) struct Copied {
    servers: Servers,
    /// How many changes of the log are in it.
    pub(super) count: usize,
    /// It is a member of the group, and learns what happens.
    pub(super) is_current: bool,
    pub(super) is_over: bool,
    /// What its caller counts of its changes.
    pub(super) changes: u64,
    silent: Silent,
    /// Servers that were silent lately, by the last look.
    asked_last: Vec<SocketAddr>,
}

impl Copied {
    /// It becomes a member, and has the state.
    pub(super) fn follow(&mut self, log: &Log) {
        self.is_current = true;
        self.changes += 1;
        self.take(log, log.len());
    }

    /// It learns of the first `count` changes. False: nothing is new.
    pub(super) fn learn(&mut self, log: &Log, count: usize) -> bool {
        let is_news = self.is_current && !self.is_over && count > self.count;
        if is_news {
            self.changes += 1;
            self.take(log, count);
        }
        is_news
    }

    /// It is excluded, and keeps what it has.
    pub(super) fn lose(&mut self) {
        self.is_current = false;
        self.changes += 1;
    }

    fn take(&mut self, log: &Log, count: usize) {
        for change in &log.changes[self.count..count] {
            match change {
                Change::Announced(member, entries) => self.servers.announce(*member, entries.clone()),
                Change::View(members) => self.servers.view(|member| members.contains(&member)),
            }
        }
        self.count = count;
    }

    /// A server that was asked answered, or the call failed so.
    pub(super) fn note(&mut self, server: SocketAddr, ended: Result<(), Failure>, now_ns: u64) {
        self.silent.note(server, ended, Instant(now_ns));
    }

    pub(super) fn known(&mut self, now_ns: u64) -> Known<'_> {
        self.asked_last = self.silent.at(Instant(now_ns));
        let Self { servers, is_current, is_over, changes, asked_last, .. } = self;
        Known { servers, is_current: *is_current, is_over: *is_over, changes: *changes, silent: asked_last }
    }

    /// Whether the last look had a server among those that were silent.
    pub(super) fn is_asked_last(&self, server: SocketAddr) -> bool {
        self.asked_last.contains(&server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found from the changes alone is what the directory says.
    #[test]
    fn the_log_and_the_directory_list_the_same() {
        let who = Incarnation;
        let entry = |group: &str, port| Entry {
            group: Some(group.to_owned()),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        };
        let (mut log, group) = (Log::default(), Destination::Group("g".to_owned()));
        log.join(who(1));
        log.announce(who(1), vec![entry("g", 1)]);
        log.join(who(2));
        log.announce(who(2), vec![entry("g", 2), entry("h", 3)]);
        log.announce(who(1), Vec::new());
        log.leave(who(2));
        let ports = |count| log.listed(count, &group).iter().map(SocketAddr::port).collect::<Vec<_>>();
        assert_eq!([1, 2, 4, 5, 6].map(ports), [vec![], vec![1], vec![1, 2], vec![2], vec![]]);
        assert_eq!(log.announcers(), [who(1), who(2)]);
        let mut copy = Copied::default();
        assert!(!copy.learn(&log, 4), "it is no member yet");
        copy.follow(&Log::default());
        for count in 1..=log.len() {
            assert!(copy.learn(&log, count) && !copy.learn(&log, count));
            let tried = log.listed(count, &group);
            let found = copy.known(0).find(&group, &[], 0);
            assert_eq!(matches!(found, phalanx_life::Found::Server(_)), !tried.is_empty());
            assert_eq!(copy.known(0).find(&group, &tried, 0), phalanx_life::Found::Nobody);
        }
    }
}
