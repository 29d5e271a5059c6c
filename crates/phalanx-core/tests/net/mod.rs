//! Processes over a small network with seeded delay and loss.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use phalanx_core::rng::Rng;
use phalanx_core::seal::CellKey;
use phalanx_core::{
    Delivery, Effects, Event, Founding, GroupId, GroupTerms, InboxId, Incarnation, Instant, LEVEL, LeaveReason, Limits,
    MemberInfo, MessageToOne, Order, Origin, Packet, Process, Security, Sequence, Settings, Snapshot, Timing,
    ToOneOutcome, TrafficClass, Uniformity, ViewNumber,
};

/// Traffic class, from, to, bytes.
pub(crate) type Datagram = (TrafficClass, SocketAddr, SocketAddr, Vec<u8>);
/// View, sender, number, order, position.
pub(crate) type Line = (ViewNumber, u64, Sequence, Order, Option<u64>);

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) out: Vec<(TrafficClass, SocketAddr, Vec<u8>)>,
    pub(crate) cell_views: Vec<(ViewNumber, usize)>,
    /// Level of the last cell view.
    pub(crate) level: u16,
    /// Why the search goes on, as last reported.
    pub(crate) searching: String,
    /// Reports of settings that differ and levels that were refused.
    pub(crate) refused: Vec<Event>,
    pub(crate) group: Option<GroupId>,
    /// Terms of the last group view.
    pub(crate) terms: Option<GroupTerms>,
    /// Names of the domains that the last group view lists.
    pub(crate) domains: Option<Vec<String>>,
    /// The payloads of messages to domains, and to which.
    pub(crate) to_domains: Vec<(u8, Vec<u8>)>,
    /// Members without the state in the last group view, and why the group was left last.
    pub(crate) incomplete: Vec<Incarnation>,
    pub(crate) left: Option<LeaveReason>,
    /// Reports on the group's views: the view, and whether it is adequate.
    pub(crate) adequate: Vec<(ViewNumber, bool)>,
    /// The uniformity of each delivery in turn.
    pub(crate) uniformities: Vec<Uniformity>,
    /// View, number of members, and the deliveries in it.
    pub(crate) views: Vec<(ViewNumber, usize, Vec<Line>)>,
    pub(crate) replayed: usize,
    pub(crate) restored: Vec<u8>,
    /// States that began to come.
    pub(crate) begun: usize,
    pub(crate) state_complete: bool,
    pub(crate) ended: Option<String>,
    /// Multicasts that were sent; below, those reported as not sent.
    pub(crate) sent: u64,
    pub(crate) unsent: Vec<(GroupId, u64)>,
    pub(crate) non_primary: usize,
    pub(crate) sum: u64,
    /// Length and sum of each point-to-point message.
    pub(crate) messages: Vec<(usize, u64)>,
    /// Messages to this member of the group: sender, payload, and how many multicasts it had delivered of each member.
    pub(crate) to_one: Vec<(Incarnation, Vec<u8>, BTreeMap<u64, u64>)>,
    /// Outcomes of its own messages to one: receiver, outcome, how many.
    pub(crate) settled: Vec<(Incarnation, ToOneOutcome, u64)>,
    /// Whether it takes nothing of its group.
    pub(crate) is_full: bool,
    /// Packets sent, counted per receiver.
    pub(crate) packets: u64,
}

pub(crate) struct Frozen(Vec<u8>);

impl Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }
    fn read(&mut self, offset: u64, max: usize, out: &mut Vec<u8>) {
        let from = usize::try_from(offset).expect("small");
        out.extend_from_slice(&self.0[from..self.0.len().min(from + max)]);
    }
}

impl Seen {
    /// Multicasts delivered here, by sender.
    pub(crate) fn delivered_of(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for (_, sender, ..) in self.views.iter().flat_map(|view| &view.2) {
            *counts.entry(*sender).or_default() += 1;
        }
        counts
    }
}

impl Effects for Seen {
    fn transmit(&mut self, class: TrafficClass, to: &[SocketAddr], packet: &[u8]) {
        self.out.extend(to.iter().map(|a| (class, *a, packet.to_vec())));
        self.packets += to.len() as u64;
    }
    fn deliver(&mut self, d: &Delivery<'_>) {
        self.sum = self.sum.wrapping_add(d.payload.iter().map(|b| u64::from(*b)).sum());
        self.to_domains.extend(d.domain.map(|domain| (domain.0, d.payload.to_vec())));
        if d.replayed {
            self.replayed += 1;
            return;
        }
        self.uniformities.push(d.uniformity);
        let line = (d.view, d.sender.0, d.seq, d.order, d.position);
        self.views.last_mut().expect("a view comes before its deliveries").2.push(line);
    }
    fn event(&mut self, event: Event) {
        match event {
            Event::CellView(v) => {
                self.level = v.level;
                self.cell_views.push((v.view, v.members.len()));
            }
            Event::GroupView(v) => {
                self.group = Some(v.group);
                self.terms = Some(v.terms);
                self.domains = v.domains.as_ref().map(|list| list.iter().map(|domain| domain.name.clone()).collect());
                self.incomplete.clone_from(&v.incomplete);
                self.adequate.push((v.view, v.adequate));
                self.views.push((v.view, v.members.len(), Vec::new()));
            }
            Event::GroupAdequacy { view, adequate, .. } => self.adequate.push((view, adequate)),
            Event::StateBegin { .. } => {
                self.begun += 1;
                self.restored.clear();
                self.sum = 0;
            }
            Event::StateEnd { .. } => self.state_complete = true,
            Event::Unsent { group, messages } => {
                assert!(self.ended.is_none(), "reported before the end");
                self.unsent.push((group, messages));
            }
            Event::NonPrimary { .. } => self.non_primary += 1,
            Event::Searching { why, .. } => self.searching = why,
            Event::Differs { .. } | Event::LevelRefused { .. } | Event::GroupDiffers { .. } => self.refused.push(event),
            Event::GroupDomains { .. } => self.refused.push(event),
            Event::GroupLeft { why, .. } => self.left = Some(why),
            Event::Excluded { .. } | Event::Left => self.ended = Some(format!("{event:?}")),
            _ => {}
        }
    }
    fn sent(&mut self, _: GroupId, _: ViewNumber, _: Sequence, _: Order, _: Uniformity, _: &[u8]) {
        self.sent += 1;
    }
    fn message(&mut self, _from: Incarnation, payload: &[u8]) {
        self.messages.push((payload.len(), payload.iter().map(|b| u64::from(*b)).sum()));
    }
    fn to_one(&mut self, message: &MessageToOne<'_>) {
        let counts = self.delivered_of();
        self.to_one.push((message.sender, message.payload.to_vec(), counts));
    }
    fn settled(&mut self, _: GroupId, to: Incarnation, outcome: ToOneOutcome, messages: u64) {
        self.settled.push((to, outcome, messages));
    }
    fn ready(&mut self, _inbox: InboxId) -> bool {
        !self.is_full
    }
    fn snapshot(&mut self, _group: GroupId) -> Option<Box<dyn Snapshot>> {
        let mut bytes = vec![7; 100_000];
        bytes.extend_from_slice(&self.sum.to_le_bytes());
        Some(Box::new(Frozen(bytes)))
    }
    fn restore(&mut self, _group: GroupId, chunk: &[u8]) {
        self.restored.extend_from_slice(chunk);
        if self.restored.len() == 100_008 {
            self.sum = u64::from_le_bytes(self.restored[100_000..].try_into().expect("eight"));
        }
    }
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) rng: Rng,
    pub(crate) loss_ppm: u32,
    pub(crate) nodes: Vec<(Process, Seen, bool)>,
    pub(crate) flight: BTreeMap<(Instant, u64), Datagram>,
    pub(crate) serial: u64,
    pub(crate) cut: Vec<(usize, usize)>,
}

pub(crate) fn addr(i: usize, class: TrafficClass) -> SocketAddr {
    let port = 1000 + 2 * i + usize::from(class == TrafficClass::Control);
    SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("small")))
}

impl Net {
    pub(crate) fn new(seed: u64, loss_ppm: u32) -> Self {
        Self {
            now: Instant(1_000_000_000),
            rng: Rng::new(seed),
            loss_ppm,
            nodes: Vec::new(),
            flight: BTreeMap::new(),
            serial: 0,
            cut: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, founding: Founding) -> usize {
        self.add_with(founding, LEVEL, Timing::default(), Limits::default())
    }

    /// A process of a build that knows levels up to `level`.
    pub(crate) fn add_with(&mut self, founding: Founding, level: u16, timing: Timing, limits: Limits) -> usize {
        let i = self.nodes.len();
        let who = Incarnation(self.rng.next_u64() | 1);
        let me = MemberInfo::new(who, format!("m{i}"), addr(i, TrafficClass::Data), addr(i, TrafficClass::Control));
        let me = MemberInfo { host: 1, level, ..me };
        let seeds = (0..i.max(8)).map(|s| addr(s, TrafficClass::Control)).collect();
        let settings = Settings {
            cell: "test".into(),
            me,
            founding,
            record: phalanx_core::member::FounderRecord::default(),
            seeds,
            timing,
            limits,
        };
        let security = Security::Sealed(CellKey::from_bytes([9; 32]));
        let process = Process::new(self.now, settings, &security, self.rng.next_u64());
        self.nodes.push((process, Seen::default(), true));
        i
    }

    pub(crate) fn found(seed: u64, loss_ppm: u32, n: usize) -> Self {
        Self::found_with(seed, loss_ppm, n, false)
    }

    /// The same; `with_state`: the group has one.
    pub(crate) fn found_with(seed: u64, loss_ppm: u32, n: usize, with_state: bool) -> Self {
        let mut net = Self::new(seed, loss_ppm);
        for i in 0..n {
            net.add(if i == 0 { Founding::Alone } else { Founding::Join });
            let now = net.now;
            net.nodes[i].0.join_group(now, "g", with_state, GroupTerms::default()).expect("a good name");
        }
        net.run_until(30, |net| net.alive().all(|(_, s)| s.views.last().is_some_and(|v| v.1 == n)));
        net
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = (&Process, &Seen)> {
        self.nodes.iter().filter(|n| n.2).map(|n| (&n.0, &n.1))
    }

    pub(crate) fn drain(&mut self, i: usize) {
        for (class, to, packet) in std::mem::take(&mut self.nodes[i].1.out) {
            let j = usize::from(to.port() - 1000) / 2;
            if self.cut.contains(&(i, j)) || self.rng.chance_ppm(self.loss_ppm) {
                continue;
            }
            self.serial += 1;
            let at = self.now + Duration::from_micros(100 + self.rng.below(900));
            self.flight.insert((at, self.serial), (class, addr(i, class), to, packet));
        }
    }

    pub(crate) fn step(&mut self) {
        let next_packet = self.flight.keys().next().map(|k| k.0);
        let next_turn = self.nodes.iter().filter(|n| n.2).filter_map(|n| n.0.deadline()).min();
        let at = [next_packet, next_turn].into_iter().flatten().min().expect("something is always due").max(self.now);
        self.now = at;
        let mut touched = Vec::new();
        while let Some(entry) = self.flight.first_entry() {
            if entry.key().0 > at {
                break;
            }
            let (class, from, to, mut packet) = entry.remove();
            let j = usize::from(to.port() - 1000) / 2;
            if let Some((process, seen, true)) = self.nodes.get_mut(j) {
                process.handle_packet(at, class, Origin::Network(from), Packet::Lent(&mut packet), seen);
                touched.push(j);
            }
        }
        for i in 0..self.nodes.len() {
            let (process, seen, alive) = &mut self.nodes[i];
            if *alive && (touched.contains(&i) || process.deadline().is_some_and(|d| d <= at)) {
                process.poll(at, seen);
                process.check_invariants();
                self.drain(i);
            }
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    pub(crate) fn run_until(&mut self, seconds: u64, done: impl Fn(&Self) -> bool) {
        let end = self.now + Duration::from_secs(seconds);
        while !done(self) {
            assert!(self.now < end, "not within {seconds} simulated seconds");
            self.step();
        }
    }

    pub(crate) fn cast(&mut self, i: usize, order: Order, uniformity: Uniformity, payload: &[u8]) -> bool {
        let now = self.now;
        let (process, seen, _) = &mut self.nodes[i];
        let Some(group) = seen.group else { return false };
        let accepted = process.multicast(now, group, order, uniformity.into(), &[payload], seen);
        let ok = accepted.is_ok();
        seen.sent += u64::from(accepted.is_ok_and(|accepted| accepted.sent.is_some()));
        process.poll(now, seen);
        self.drain(i);
        ok
    }

    pub(crate) fn delivered(&self, i: usize) -> usize {
        self.nodes[i].1.views.iter().map(|v| v.2.len()).sum()
    }
}
