//! The contents of handshake packets: probes, challenges, requests to join and refusals.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{CellInstance, MemberInfo, ViewNumber};
use crate::member::Mismatch;

/// Contents of handshake packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinHandshake {
    /// Asks whether there is a cell. Padded, so that the answer is never longer and no sender can use members to
    /// amplify traffic.
    ///
    /// A member names its instance and view. It may have been left out by processes that are gone, if it hears no
    /// quorum; a coordinator may be the only one that knows where such a member is. View 0 stands for a founder of an
    /// earlier build that was in that instance.
    Probe {
        /// The sender.
        info: MemberInfo,
        /// Random bits that come back.
        nonce: u64,
        /// Where the sender is a member.
        member_of: Option<(CellInstance, ViewNumber)>,
        /// Nothing.
        padding: Vec<u8>,
    },
    /// Asks for a proof of address: the joiner sends the cookie back.
    Challenge {
        /// That of the probe.
        nonce: u64,
        /// When the cookie was made, by the clock of its maker.
        stamp: u64,
        /// The cookie.
        cookie: [u8; 16],
        /// The view in force.
        view: ViewNumber,
        /// The control address of the coordinator.
        coordinator: SocketAddr,
        /// Whether a join is to go to the sender.
        is_coordinator: bool,
    },
    /// The proof, with the request to be taken in.
    Join {
        /// The sender.
        info: MemberInfo,
        /// That of the challenge.
        nonce: u64,
        /// That of the challenge.
        stamp: u64,
        /// That of the challenge.
        cookie: [u8; 16],
        /// The groups that it wants to be a member of at once.
        groups: Vec<String>,
    },
    /// The request is refused.
    Refused {
        /// That of the join.
        nonce: u64,
        /// Why.
        why: JoinRefusal,
    },
}

/// Why a joiner is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinRefusal {
    /// A living member has that name.
    NameTaken,
    /// The cell has as many members as it may.
    Full,
    /// A decided view took this incarnation in, and the view with this number or an earlier one left it out.
    Excluded(ViewNumber),
    /// A setting differs, or the joiner does not know the level in force.
    Differs(Mismatch),
    /// The process was excluded recently and has to wait. Exists from level 5 on.
    HeldBack {
        /// Minimum time to wait, in milliseconds.
        wait_ms: u64,
        /// Members that it must be able to talk with first, because they did not hear it or were not heard by it: names
        /// and control sockets.
        away: Vec<(String, SocketAddr)>,
    },
}

/// Tag in a member's challenge: its cell instance, 8 bytes.
pub(in crate::process) const INSTANCE: u64 = 2;

/// Tag in a probe: the sender is about to found the instance after this one, 8 bytes. Earlier builds leave the number
/// out: then it is the instance that the sender is a member of.
pub(in crate::process) const REFORMING: u64 = 3;

/// Tag in a member's challenge: the asking process was excluded recently and is held back. Any member then tells it why
/// if it asks to join.
pub(in crate::process) const HELD: u64 = 5;

/// Length of the padding of a probe: about that of the longest answer.
pub(in crate::process) const PROBE_PADDING: usize = 160;

pub(in crate::process) const GROUPS_MAX: usize = 64;

const _: () = assert!(INSTANCE != REFORMING && REFORMING != HELD && INSTANCE != HELD, "a tag means one thing");

pub(in crate::process) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// The bytes that a cookie authenticates.
pub(in crate::process) fn cookie_data(info: &MemberInfo, nonce: u64, stamp: u64) -> Vec<u8> {
    postcard::to_allocvec(&(info, nonce, stamp)).unwrap_or_default()
}

/// Explains for people why a recently excluded process waits.
pub(in crate::process) fn held_back(wait_ms: u64, away: &[(String, SocketAddr)]) -> String {
    let names: Vec<&str> = away.iter().map(|(name, _)| name.as_str()).collect();
    let wait = Duration::from_millis(wait_ms);
    let names = names.join(", ");
    match (wait_ms, away.is_empty()) {
        (_, true) => {
            format!("it was left out of the cell lately, and waits for {wait:.1?} before it is taken in again")
        }
        (0, _) => format!(
            "it was left out of the cell because the path between it and {names} failed: mend it, and it is taken in again when they \
             can talk for some time"
        ),
        _ => format!(
            "it was left out of the cell because the path between it and {names} failed: it is taken in again when they can talk, \
             after {wait:.1?} at the earliest"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::member;
    use crate::wire::{Tags, put_with_tail, read_with_tail};

    /// `tests/golden/README.md`.
    #[test]
    fn golden_greetings() {
        let info = member;
        let (nonce, stamp, cookie) = (0x6162_6364, 1_000_000_000, [0x5a; 16]);
        let coordinator = info().control;
        let differs = Mismatch { name: "limits.watchers".into(), cell: "16".into(), other: "3".into() };
        let refused = |why| JoinHandshake::Refused { nonce, why };
        let padding = || vec![0; PROBE_PADDING];
        let all = [
            ("probe", JoinHandshake::Probe { info: info(), nonce, member_of: None, padding: padding() }),
            (
                "probe_of_a_member",
                JoinHandshake::Probe {
                    info: info(),
                    nonce,
                    member_of: Some((CellInstance(7), ViewNumber(4))),
                    padding: padding(),
                },
            ),
            (
                "challenge",
                JoinHandshake::Challenge {
                    nonce,
                    stamp,
                    cookie,
                    view: ViewNumber(4),
                    coordinator,
                    is_coordinator: false,
                },
            ),
            ("join", JoinHandshake::Join { info: info(), nonce, stamp, cookie, groups: vec!["ledger".into()] }),
            ("name_taken", refused(JoinRefusal::NameTaken)),
            ("full", refused(JoinRefusal::Full)),
            ("excluded", refused(JoinRefusal::Excluded(ViewNumber(5)))),
            ("differs", refused(JoinRefusal::Differs(differs))),
            (
                "held_back",
                refused(JoinRefusal::HeldBack { wait_ms: 4_000, away: vec![("ledger-2".into(), coordinator)] }),
            ),
        ];
        let encode = |(name, handshake): (&str, JoinHandshake)| {
            (name.to_owned(), put_with_tail(&handshake, &Tags::default(), Vec::new()).expect("it can be written"))
        };
        crate::golden::hold("greeting.txt", all.map(encode).to_vec());
        for (name, bytes) in crate::golden::read("greeting.txt") {
            let (handshake, tail) = read_with_tail::<JoinHandshake>(&bytes).expect("a golden handshake is read");
            assert_eq!(put_with_tail(&handshake, &tail, Vec::new()), Ok(bytes), "{name}");
        }
    }
}
