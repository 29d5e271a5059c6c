//! What names stand for, as the directories of a cell tell.

use std::collections::VecDeque;

use phalanx_core::MemberInfo;
use phalanx_core::member::Directory;
use phalanx_tap::capture::NameTexts;
use phalanx_tap::{BoundMember, BoundView, Names};

/// The latest directories that this process installed.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    /// This process itself: before it is in a view, and where it calls and is in none.
    own: Option<MemberInfo>,
    /// The latest first. Packets of earlier views may still come.
    directories: VecDeque<Directory>,
    /// The names of the process itself and of the latest directory, as text.
    texts: Vec<String>,
}

/// How many directories are known.
const DIRECTORIES_MAX: usize = 4;

impl KnownNames {
    pub(super) fn learn(&mut self, directory: &Directory) {
        let known = |known: &Directory| known.decree == directory.decree && known.members == directory.members;
        if self.directories.front().is_some_and(known) {
            return;
        }
        self.directories.truncate(DIRECTORIES_MAX - 1);
        self.directories.push_front(directory.clone());
        self.write();
    }

    pub(super) fn set_own(&mut self, me: &MemberInfo) {
        if self.own.as_ref() != Some(me) {
            self.own = Some(me.clone());
            self.write();
        }
    }

    fn write(&mut self) {
        let mut names = NameTexts::default();
        if let Some(me) = &self.own {
            names.member(me.incarnation, &me.name, &[me.data, me.control]);
        }
        if let Some(directory) = self.directories.front() {
            names.directory(directory);
        }
        self.texts = names.take().collect();
    }

    /// Lines of names, see `docs/captures.md`.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }
}

impl Names for KnownNames {
    fn views(&self, group: &str) -> Vec<BoundView> {
        let mut views: Vec<BoundView> = Vec::new();
        for entry in self.directories.iter().flat_map(|directory| directory.groups.values()) {
            if entry.name == group && views.iter().all(|view| view.space != entry.space) {
                views.push(BoundView { space: entry.space, members: entry.members.clone() });
            }
        }
        views
    }

    fn member(&self, name: &str) -> Option<BoundMember> {
        let mut bound: Option<BoundMember> = None;
        for member in self.own.iter().chain(self.directories.iter().flat_map(|directory| &directory.members)) {
            if member.name != name {
                continue;
            }
            let bound = bound.get_or_insert_default();
            if !bound.incarnations.contains(&member.incarnation) {
                bound.incarnations.push(member.incarnation);
            }
            for address in [member.data, member.control] {
                if !bound.addresses.contains(&address) {
                    bound.addresses.push(address);
                }
            }
        }
        bound
    }
}
