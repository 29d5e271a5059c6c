//! One process of the cell and its application.

use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::seal::CellKey;
use phalanx_core::{
    CellInstance, Delivery, Effects, Event, Founding, GroupId, GroupTerms, InboxId, Incarnation, Instant, Limits,
    MemberInfo, Process, Security, Sequence, Settings, Snapshot, Timing, TrafficClass, ViewNumber,
};

pub(super) const CELL: &str = "hostile";
/// The groups a process may be in. All members of the first view are in the first group.
pub(super) const GROUPS: [&str; 2] = ["g", "h"];
const STATE: [u8; 3000] = [7; 3000];

pub(super) struct Member {
    pub(super) process: Process,
    pub(super) out: Out,
    /// False after a crash.
    pub(super) alive: bool,
}

/// The effects of a process.
#[derive(Default)]
pub(super) struct Out {
    pub(super) packets: Vec<(TrafficClass, SocketAddr, Vec<u8>)>,
    pub(super) delivered: Vec<Line>,
    /// Groups with their numbers of members, as reported to the application.
    pub(super) groups: Vec<(GroupId, String, usize)>,
    /// Bytes of messages from other processes.
    pub(super) messages: usize,
    pub(super) busy: bool,
    /// The cell instance it is in: another one follows if a cell died out.
    pub(super) instance: CellInstance,
}

/// A recorded delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) group: GroupId,
    pub(super) view: ViewNumber,
    pub(super) sender: Incarnation,
    pub(super) seq: Sequence,
    pub(super) position: Option<u64>,
    pub(super) replayed: bool,
    /// Length, and a sum over the bytes.
    pub(super) payload: (usize, u64),
}

struct Frozen;

impl Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        STATE.len() as u64
    }
    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(STATE.len());
        out.extend_from_slice(&STATE[from..STATE.len().min(from.saturating_add(max_bytes))]);
    }
}

impl Effects for Out {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        assert!(packet.len() <= 1432, "a packet of {} bytes", packet.len());
        self.packets.extend(to.iter().map(|a| (class, *a, packet.to_vec())));
    }
    fn ready(&mut self, _inbox: InboxId) -> bool {
        !self.busy
    }
    fn deliver(&mut self, d: &Delivery<'_>) {
        assert!(!self.busy, "delivered to an application that takes nothing");
        let sum = d.payload.iter().fold(0u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(*b)));
        self.delivered.push(Line {
            group: d.group,
            view: d.view,
            sender: d.sender,
            seq: d.seq,
            position: d.position,
            replayed: d.replayed,
            payload: (d.payload.len(), sum),
        });
    }
    fn event(&mut self, event: Event) {
        match event {
            Event::CellView(view) => self.instance = view.instance,
            Event::GroupView(view) => {
                self.groups.retain(|g| g.0 != view.group);
                self.groups.push((view.group, view.name.to_string(), view.members.len()));
            }
            Event::GroupLeft { group, .. } => self.groups.retain(|g| g.0 != group),
            _ => {}
        }
    }
    fn message(&mut self, _from: Incarnation, payload: &[u8]) {
        self.messages += payload.len();
    }
    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        Some(Box::new(Frozen))
    }
}

pub(super) fn security(sealed: bool) -> Security {
    if sealed { Security::Sealed(CellKey::from_bytes([3; 32])) } else { Security::None }
}

/// The address at which the process in `slot` receives.
pub(super) fn address(slot: usize, class: TrafficClass) -> SocketAddr {
    let port = 2000 + 2 * slot + usize::from(class == TrafficClass::Control);
    SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("few slots")))
}

/// The slot that receives at `address`.
pub(super) fn slot(address: SocketAddr) -> Option<usize> {
    Some(usize::from(address.port().checked_sub(2000)?) / 2)
}

impl Member {
    /// A process in `slot` as it starts: it founds the cell, or searches for it.
    pub(super) fn start(now: Instant, slot: usize, slots: usize, me: Incarnation, founds: bool, sealed: bool) -> Self {
        let founding = if founds { Founding::Alone } else { Founding::Join };
        let settings = Settings {
            cell: CELL.into(),
            me: MemberInfo {
                host: 1,
                ..MemberInfo::new(
                    me,
                    format!("m{slot}"),
                    address(slot, TrafficClass::Data),
                    address(slot, TrafficClass::Control),
                )
            },
            founding,
            record: phalanx_core::member::FounderRecord::default(),
            seeds: (0..slots).map(|s| address(s, TrafficClass::Control)).collect(),
            timing: Timing { probe: Duration::from_millis(20), ..Timing::default() },
            limits: Limits {
                group_window_bytes: 256 << 10,
                channel_window_bytes: 128 << 10,
                outbox_bytes: 64 << 10,
                members: 8,
                ..Limits::default()
            },
        };
        let mut process = Process::new(now, settings, &security(sealed), me.0);
        process.join_group(now, GROUPS[0], true, GroupTerms::default()).expect("a good name");
        Self { process, out: Out::default(), alive: true }
    }

    pub(super) fn runs(&self) -> bool {
        self.alive && !self.process.is_over()
    }

    pub(super) fn group(&self, name: &str) -> Option<GroupId> {
        self.out.groups.iter().find(|g| g.1 == name).map(|g| g.0)
    }

    /// Packets refused before anything of them was read.
    pub(super) fn refused(&self) -> u64 {
        let mut sum = 0;
        self.process.counters(&mut |name, value| {
            if ["short", "version", "other_cell", "kind", "bad_tag", "malformed"].contains(&name) {
                sum += value;
            }
        });
        sum
    }
}
