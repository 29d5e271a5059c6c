//! Messages of a traitor: control and state messages that parse, with numbers that are often in use.

use std::net::SocketAddr;
use std::sync::Arc;

use phalanx_core::member::Role;
use phalanx_core::member::{
    Agreed, Ballot, BootstrapMarker, Control, Directory, DomainsOf, End, Ended, FirstView, FounderRecord,
    FoundingBallot, FoundingMessage, FoundingRefusal, GroupChange, GroupCut, GroupEntry, GroupRequest, Heard, LastView,
    Lost, Proposal, RecoveredPacket, ReplayedView, Report, RequestList, Return, ReturnPoint, StateMessage, Unread,
    Unreadable, Waiting, Wedge, Welcome, WelcomePart,
};
use phalanx_core::rng::Rng;
use phalanx_core::wire::{PacketNumber, Space, Tags, put_with_tail};
use phalanx_core::{
    CellInstance, DecreeNumber, Domain, DomainIndex, GroupId, Incarnation, LEVEL, LeaveReason, Limits, MemberInfo,
    OwnDomain, Rank, Sequence, Timing, ViewNumber,
};

/// Makes random messages.
pub(crate) struct Speech<'a>(pub(crate) &'a mut Rng);

impl Speech<'_> {
    fn role(&mut self) -> Role {
        [Role::Stateless, Role::State, Role::Observer][self.0.below(3) as usize]
    }

    /// A message of the control channel.
    pub(crate) fn control(&mut self) -> Vec<u8> {
        let message = match self.0.below(19) {
            0 => Control::Wedge(Wedge {
                decree: self.decree(),
                ballot: self.ballot(),
                groups: self.some(|s| s.group()),
                cuts: self.some(|s| (s.group(), s.cut())),
            }),
            1 => Control::Report(Report {
                decree: self.decree(),
                ballot: self.ballot(),
                accepted: self.maybe(|s| (s.ballot(), s.proposal())),
                prefixes: self.some(|s| (s.group(), s.some(Self::number))),
                incomplete: self.some(Self::group),
                giving: self.some(Self::group),
                taking: self.some(Self::group),
            }),
            2 => Control::Refuse { decree: self.decree(), promised: self.ballot() },
            3 => Control::Propose { ballot: self.ballot(), proposal: Arc::new(self.proposal()) },
            4 => Control::Accepted { decree: self.decree(), ballot: self.ballot() },
            5 => Control::Decide(Arc::new(self.proposal())),
            6 => Control::Welcome(Box::new(Welcome {
                instance: CellInstance(self.number()),
                directory: self.directory(),
                proposal: Arc::new(self.proposal()),
            })),
            7 => {
                Control::Fetch { space: Space(self.small()), rank: self.rank(), from: self.number(), to: self.number() }
            }
            8 => Control::Recovered(RecoveredPacket {
                space: Space(self.small()),
                rank: self.rank(),
                number: PacketNumber(self.number()),
                frames: self.frames(),
            }),
            9 => Control::MembershipRequests(RequestList {
                decree: self.decree(),
                groups: self.some(|s| GroupRequest {
                    name: s.name(),
                    join: s.coin(),
                    only_new: s.coin(),
                    terms: None,
                    role: s.role(),
                }),
                level: self.level(),
                returns: self.some(Self::back),
                given_up: self.some(Self::name),
                dead: self.some(Self::who),
                domains: self.some(|s| DomainsOf { group: s.name(), own: s.some(Self::own_domain) }),
            }),
            10 => Control::Leave { waits: self.coin() },
            11 => Control::FormerFoundList,
            12 => Control::Founding(self.founding()),
            13 => Control::Unreadable(Unreadable {
                decree: self.decree(),
                ballot: self.coin().then(|| self.ballot()),
                groups: self.some(|s| {
                    let group = s.group();
                    Unread { group, streams: s.some(|s| (s.rank(), s.number(), s.coin())) }
                }),
            }),
            14 => Control::HoldsState { group: self.group(), view: self.view() },
            15 => Control::Out,
            16 => {
                let bytes = self.frames();
                let len_bytes = self.number().max(bytes.len() as u64);
                Control::WelcomePart(WelcomePart { decree: self.decree(), len_bytes, offset: 0, bytes })
            }
            17 => Control::WelcomePart(WelcomePart {
                decree: self.decree(),
                len_bytes: self.number(),
                offset: self.number(),
                bytes: self.frames(),
            }),
            _ => Control::Founding(FoundingMessage::Confirmed(self.first_view())),
        };
        let with_own_tail = self.coin();
        if with_own_tail { message.encode() } else { put_with_tail(&message, &self.tail(), Vec::new()) }
            .expect("a message can be written")
    }

    fn founding(&mut self) -> FoundingMessage {
        let ballot = FoundingBallot { round: self.small(), leader: self.who() };
        match self.0.below(8) {
            0 => FoundingMessage::Ask { ballot, names: self.some(Self::name), asked: self.some(Self::info) },
            1 => FoundingMessage::Report { ballot, record: Box::new(self.record(ballot)) },
            2 => FoundingMessage::Refuse { ballot, why: FoundingRefusal::Promised(ballot) },
            3 => FoundingMessage::Propose { ballot, first: self.first_view() },
            4 => FoundingMessage::Accept { ballot },
            5 => FoundingMessage::Decide { ballot },
            6 => FoundingMessage::Marked { instance: CellInstance(self.number()) },
            _ => FoundingMessage::Dead {
                ballot,
                last: self.some(|s| (s.name(), None)),
                but_for: self.maybe(|s| s.some(Self::name)),
            },
        }
    }

    fn record(&mut self, ballot: FoundingBallot) -> FounderRecord {
        FounderRecord {
            mark: self.maybe(|s| BootstrapMarker {
                instance: CellInstance(s.number()),
                list: s.maybe(|s| (ballot, s.first_view())),
                waiting: s.waiting(),
            }),
            heard: self.maybe(|s| Heard { instance: CellInstance(s.number()), at: s.info().control }),
            last: self.maybe(|s| LastView {
                instance: CellInstance(s.number()),
                view: s.view(),
                members: s.some(Self::name),
            }),
            end: self.maybe(|s| match s.maybe(|s| s.some(Self::lost)) {
                None => End::Left { instance: CellInstance(s.number()) },
                Some(but_for) => {
                    let (instance, view) = (CellInstance(s.number()), s.view());
                    End::Ended(Ended { instance, view, but_for, waiting: s.waiting() })
                }
            }),
        }
    }

    fn lost(&mut self) -> Lost {
        Lost { who: self.who(), seat: self.number(), name: self.name() }
    }

    fn back(&mut self) -> Return {
        let from = self.maybe(|s| ReturnPoint {
            view: s.view(),
            prefixes: s.some(Self::number),
            counts: s.some(Self::number),
        });
        Return { group: self.group(), was: self.who(), from }
    }

    /// A message of the data channel: one for the application, or one of a state transfer.
    pub(crate) fn data(&mut self) -> Vec<u8> {
        if self.0.below(4) == 0 {
            return [vec![0], self.frames()].concat();
        }
        let transfer = self.number();
        let message = match self.0.below(9) {
            0 => StateMessage::Ask { group: self.group(), view: self.view(), transfer },
            1 => StateMessage::Begin {
                transfer,
                bytes: self.maybe(Self::number),
                view: self.maybe(Self::view),
                domains: self.maybe(|s| s.some(|s| s.own_domain().domain)),
            },
            2 => StateMessage::Chunk { transfer, offset: self.number(), bytes: self.frames() },
            3 => StateMessage::Replay {
                transfer,
                view: self.view(),
                sender: self.who(),
                seq: Sequence(self.number()),
                order: self.short() as u8,
                position: self.maybe(Self::number),
                payload: self.frames(),
                domain: self.maybe(|s| DomainIndex(s.short() as u8)),
            },
            4 => StateMessage::CaughtUp { transfer },
            5 => StateMessage::Done { transfer, view: self.view() },
            6 => StateMessage::Abort { transfer },
            7 => StateMessage::Taken { transfer, bytes: self.number() },
            _ => {
                let view = ReplayedView {
                    view: self.view(),
                    members: self.some(Self::info),
                    joined: self.some(Self::who),
                    left: self.some(|s| (s.who(), LeaveReason::Left)),
                    incomplete: self.some(Self::who),
                    observers: self.some(Self::who),
                    has_state: self.maybe(Self::coin),
                    uniform: self.coin(),
                    members_min: self.short(),
                    ends_alone: self.coin(),
                    domains: self.maybe(|s| s.some(|s| s.own_domain().domain)),
                };
                StateMessage::ReplayView { transfer, view: Box::new(view) }
            }
        };
        let with_own_tail = self.coin();
        if with_own_tail { message.encode(vec![1]) } else { put_with_tail(&message, &self.tail(), vec![1]) }
            .expect("a message can be written")
    }

    fn own_domain(&mut self) -> OwnDomain {
        let (name, version) = (self.name(), u32::from(self.short()));
        OwnDomain { domain: Domain { name, version }, is_optional: self.coin() }
    }

    /// Bytes that begin like frames more often than by chance.
    pub(crate) fn frames(&mut self) -> Vec<u8> {
        let rng = &mut *self.0;
        let longest = if rng.chance_ppm(100_000) { 1300 } else { 60 };
        let len = usize::try_from(rng.below(longest)).expect("small");
        let mut bytes: Vec<u8> = (0..len).map(|_| u8::try_from(rng.below(256)).expect("a byte")).collect();
        for (at, byte) in bytes.iter_mut().enumerate() {
            if at == 0 || rng.chance_ppm(300_000) {
                *byte = u8::try_from(rng.below(16)).expect("small") | if rng.chance_ppm(400_000) { 0x80 } else { 0 };
            }
        }
        bytes
    }

    fn proposal(&mut self) -> Proposal {
        Proposal {
            decree: self.decree(),
            view: self.view(),
            joined: self.some(Self::info),
            left: self.some(|s| (s.who(), LeaveReason::Died)),
            groups: self.some(|s| GroupChange {
                group: s.group(),
                name: s.name(),
                view: s.view(),
                space: Space(s.small()),
                cut: s.maybe(Self::cut),
                joined: s.some(Self::who),
                left: s.some(|s| (s.who(), LeaveReason::Left)),
                tail: s.tail(),
            }),
            next_group: self.small(),
            next_space: Space(self.small()),
            level: self.level(),
            settings: if self.0.below(4) == 0 { self.settings() } else { Tags::default() },
            tail: self.tail(),
        }
    }

    fn first_view(&mut self) -> FirstView {
        FirstView {
            instance: CellInstance(self.number()),
            members: self.some(Self::info),
            level: self.level(),
            settings: self.settings(),
            waiting: self.waiting(),
        }
    }

    /// Groups with which an instance begins, mostly none.
    fn waiting(&mut self) -> Waiting {
        if self.0.below(4) > 0 {
            return Waiting::default();
        }
        let directory = self.directory();
        Waiting {
            ancestors: self.some(|s| CellInstance(s.number())),
            groups: directory.groups,
            next_group: directory.next_group,
            next_space: directory.next_space,
        }
    }

    /// A level, mostly that of this build.
    fn level(&mut self) -> u16 {
        if self.0.below(4) == 0 { self.short() } else { LEVEL }
    }

    /// Settings, mostly some that can be in force.
    fn settings(&mut self) -> Tags {
        let mut settings = Agreed::of(&Limits::default(), &Timing::default()).tags(LEVEL);
        if self.0.below(4) == 0 {
            settings.put_number(self.0.below(9), self.number());
        }
        settings
    }

    /// A tail, mostly empty.
    fn tail(&mut self) -> Tags {
        let mut tail = Tags::default();
        if self.0.below(4) == 0 {
            tail.put(self.number(), &self.frames());
        }
        tail
    }

    fn directory(&mut self) -> Directory {
        let entry = |s: &mut Self| GroupEntry {
            name: s.name(),
            view: s.view(),
            space: Space(s.small()),
            members: s.some(Self::who),
            tail: s.tail(),
        };
        Directory {
            decree: self.decree(),
            view: self.view(),
            members: self.some(Self::info),
            groups: self.some(|s| (s.group(), entry(s))).into_iter().collect(),
            departed: self.some(Self::who),
            next_group: self.small(),
            next_space: Space(self.small()),
            level: self.level(),
            settings: self.settings(),
            tail: self.tail(),
        }
    }

    fn cut(&mut self) -> GroupCut {
        GroupCut { prefixes: self.some(Self::number), holders: self.some(Self::who) }
    }

    fn info(&mut self) -> MemberInfo {
        let slot = u16::try_from(self.0.below(4)).expect("small");
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        MemberInfo {
            incarnation: self.who(),
            name: self.name(),
            data: address(2000 + 2 * slot),
            control: address(2001 + 2 * slot),
            host: self.0.below(3),
            packet_bytes_max: if self.coin() { 1432 } else { self.small() },
            receive_packets: if self.coin() { 0 } else { self.small() },
            level: self.level(),
            tail: self.tail(),
        }
    }

    fn ballot(&mut self) -> Ballot {
        Ballot { round: self.small(), rank: self.rank() }
    }

    /// A number, mostly one in use, seldom any.
    fn number(&mut self) -> u64 {
        match self.0.below(30) {
            0 => u64::MAX - self.0.below(3),
            1 => self.0.next_u64() >> self.0.below(64),
            _ => self.0.below(8),
        }
    }

    fn decree(&mut self) -> DecreeNumber {
        DecreeNumber(self.number())
    }

    fn view(&mut self) -> ViewNumber {
        ViewNumber(self.number())
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    fn rank(&mut self) -> Rank {
        Rank(self.short())
    }

    fn short(&mut self) -> u16 {
        u16::try_from(self.number()).unwrap_or(u16::MAX)
    }

    fn who(&mut self) -> Incarnation {
        Incarnation(self.0.below(6))
    }

    fn group(&mut self) -> GroupId {
        GroupId(u32::try_from(self.0.below(4)).expect("small"))
    }

    fn name(&mut self) -> String {
        ["g", "h", "m0", "m1", "m2", ""][usize::try_from(self.0.below(6)).expect("small")].to_owned()
    }

    fn coin(&mut self) -> bool {
        self.0.below(2) == 0
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coin() { Some(make(self)) } else { None }
    }

    fn some<T>(&mut self, make: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.0.below(5)).map(|_| make(self)).collect()
    }
}
