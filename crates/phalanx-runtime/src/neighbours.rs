//! Finds the members of a cell view on this host and attaches them to the driver's shared memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use phalanx_core::{CellView, Incarnation, MemberInfo};
use phalanx_driver::shm::{Neighbours as Reached, Peer, Refused};

use crate::local::{host, roster};

/// The members of this host, and which of them are attached.
#[derive(Debug)]
pub(crate) struct Neighbours {
    scope: PathBuf,
    host: u64,
    /// The incarnation of this process that the driver knows.
    me: Incarnation,
    members: BTreeMap<Incarnation, Neighbour>,
    /// The operator was notified that memory is not used with some member.
    notified: bool,
}

#[derive(Debug)]
struct Neighbour {
    info: MemberInfo,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Number of failed attempts; calls of [`Neighbours::retry`] to skip before the next one.
    Sought {
        tries: u32,
        rest: u32,
    },
    Attached,
    /// Reached by datagrams for as long as it is a member.
    Given,
}

/// The outcome of one attempt.
enum Outcome {
    Attached,
    /// It offers no memory.
    None,
    Failed {
        why: String,
        again: bool,
    },
}

impl Neighbours {
    /// Finds liveness locks in `scope`; see [`crate::local::LocalCell::scope`].
    pub(crate) fn new(scope: &Path) -> Self {
        Self {
            scope: scope.to_path_buf(),
            host: host::host_id(),
            me: Incarnation::NONE,
            members: BTreeMap::new(),
            notified: false,
        }
    }

    /// Whether the driver knows this incarnation of the process.
    pub(crate) fn is_of(&self, me: Incarnation) -> bool {
        self.me == me
    }

    /// Begins an incarnation, in no view yet.
    pub(crate) fn begin_incarnation(&mut self, me: Incarnation, driver: Option<&mut dyn Reached>) {
        self.me = me;
        self.members.clear();
        if let Some(driver) = driver {
            driver.begin_incarnation(me.0);
        }
    }

    /// Attaches the members of `view` on this host, and no others. Returns a notice for the operator, if there is one.
    pub(crate) fn watch(&mut self, view: &CellView, driver: Option<&mut dyn Reached>) -> Option<String> {
        let driver = driver?;
        let near = |m: &&MemberInfo| m.host == self.host && m.host != 0 && m.incarnation != self.me;
        let mut members: BTreeMap<Incarnation, Neighbour> = view
            .members
            .iter()
            .filter(near)
            .map(|info| {
                let state = State::Sought { tries: 0, rest: 0 };
                (info.incarnation, Neighbour { info: info.clone(), state })
            })
            .collect();
        for (incarnation, neighbour) in std::mem::take(&mut self.members) {
            match members.get_mut(&incarnation) {
                // A member that stays keeps its state: it is not attached again, and a hopeless one is not tried again.
                Some(stays) => *stays = neighbour,
                None => driver.detach(incarnation.0),
            }
        }
        self.members = members;
        self.retry(Some(driver))
    }

    /// Detaches a member that is proved dead, so that nothing is written for it any more.
    pub(crate) fn forget(&mut self, dead: Incarnation, driver: Option<&mut dyn Reached>) {
        if self.members.remove(&dead).is_some()
            && let Some(driver) = driver
        {
            driver.detach(dead.0);
        }
    }

    /// Retries members that are not attached, because an advert may appear late. Call it ten times a second.
    pub(crate) fn retry(&mut self, driver: Option<&mut dyn Reached>) -> Option<String> {
        let driver = driver?;
        let mut notice = None;
        for neighbour in self.members.values_mut() {
            let State::Sought { tries, rest } = &mut neighbour.state else { continue };
            if *rest > 0 {
                *rest -= 1;
                continue;
            }
            *tries += 1;
            // 2, 4, 8 and 16 rounds of a tenth of a second: five attempts within three seconds.
            *rest = 1 << *tries;
            let last = *tries >= TRIES;
            match attach(&self.scope, &neighbour.info, driver) {
                Outcome::Attached => neighbour.state = State::Attached,
                Outcome::None => neighbour.state = State::Given,
                Outcome::Failed { again: true, .. } if !last => {}
                Outcome::Failed { why, .. } => {
                    neighbour.state = State::Given;
                    notice.get_or_insert_with(|| {
                        format!("{} is reached by datagrams, not through shared memory: {why}", neighbour.info.name)
                    });
                }
            }
        }
        notice.filter(|_| !std::mem::replace(&mut self.notified, true))
    }
}

fn attach(scope: &Path, info: &MemberInfo, driver: &mut dyn Reached) -> Outcome {
    let Some(liveness_lock) = roster::find(scope, info.incarnation) else {
        return Outcome::Failed { why: format!("it has no liveness lock in {}", scope.display()), again: true };
    };
    // An advert that cannot be parsed was written by another version.
    let Some(advert) = roster::read_advert(&liveness_lock) else { return Outcome::None };
    let Some(offer) = advert.memory.filter(|_| advert.pid_namespace == host::namespace("pid")) else {
        return Outcome::None;
    };
    let peer = Peer { offer, token: info.incarnation.0, data: info.data, control: info.control };
    match driver.attach(&peer) {
        Ok(()) => Outcome::Attached,
        Err(error) => {
            let again = matches!(error, Refused::OtherIncarnation | Refused::System(_));
            Outcome::Failed { why: error.to_string(), again }
        }
    }
}

/// After this many attempts, within three seconds in all, a member is reached by datagrams for good.
const TRIES: u32 = 5;
