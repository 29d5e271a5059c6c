//! What the words of the language mean, told a second time: each test is also a function of what the packet is made of.

use std::net::SocketAddr;

use phalanx_core::Order;
use phalanx_core::id::Incarnation;
use phalanx_core::rng::Rng;
use phalanx_core::wire::{Header, Kind, PacketNumber, Space};
use phalanx_tap::{
    BoundMember, BoundView, ClearPreamble, Filter, Flags, FrameKind, Layout, Names, Packet, Program, Summary,
    UdpPreamble,
};

use crate::draw;

/// Three processes, the first two of which came back once; two groups, of which the first has two views.
struct Cell;

const SENDERS: [Incarnation; 5] = [
    Incarnation(0x0102_0304_0506_0708),
    // They differ in one half only.
    Incarnation(0x0102_0304_0506_0709),
    Incarnation(0x1102_0304_0506_0708),
    Incarnation(u64::MAX),
    Incarnation(7),
];
const SPACES: [Space; 4] = [Space(3), Space(0x0300_0000), Space(70_000), Space(9)];

/// Which of [`SENDERS`] a member is.
const MEMBERS: [(&str, &[usize]); 3] = [("desk-1", &[0, 1]), ("desk-2", &[2, 3]), ("desk-3", &[4])];
/// A view: which of [`SPACES`], and which of [`SENDERS`] by rank.
type View = (usize, &'static [usize]);
/// Groups, with their views.
const GROUPS: [(&str, &[View]); 2] = [("quotes", &[(0, &[0, 2, 4]), (1, &[2, 1])]), ("a b", &[(2, &[4, 3])])];

fn address(member: usize, is_control: bool, is_v6: bool) -> SocketAddr {
    let port = 7000 + u16::from(is_control);
    // Two members share an address, and differ in ports.
    let (host, port) = if member == 2 { (1, port + 100) } else { (member, port) };
    let ip = if is_v6 { format!("fd00::{host}") } else { format!("10.0.0.{host}") };
    SocketAddr::new(ip.parse().expect("an address"), port)
}

impl Names for Cell {
    fn views(&self, group: &str) -> Vec<BoundView> {
        let views = GROUPS.iter().find(|(name, _)| *name == group).map_or(&[][..], |(_, views)| views);
        let members = |members: &[usize]| members.iter().map(|member| SENDERS[*member]).collect();
        views.iter().map(|(space, of)| BoundView { space: SPACES[*space], members: members(of) }).collect()
    }

    fn member(&self, name: &str) -> Option<BoundMember> {
        let member = MEMBERS.iter().position(|(member, _)| *member == name)?;
        let incarnations = MEMBERS[member].1.iter().map(|sender| SENDERS[*sender]).collect();
        let ends = [(false, false), (true, false), (false, true), (true, true)];
        let addresses = ends.map(|(is_control, is_v6)| address(member, is_control, is_v6)).to_vec();
        Some(BoundMember { incarnations, addresses })
    }
}

/// What a packet is made of.
#[derive(Debug)]
struct Made {
    layout: Layout,
    kind: Kind,
    sender: usize,
    space: usize,
    number: u64,
    /// Which member it goes to, at which incarnation of it.
    to: (usize, usize),
    is_sent: bool,
    is_control: bool,
    through_memory: bool,
    frames: Vec<FrameKind>,
    messages: Vec<(Order, bool)>,
    /// Which of [`SPACES`], and the prefix.
    acks: Vec<(Option<usize>, u64)>,
    payload: Vec<u8>,
    /// Bytes that did not come with the header.
    missing: u32,
}

const NUMBERS: [u64; 7] = [1, 255, 256, 0xffff_ffff, 0x1_0000_0000, 0x0102_0304_0506_0708, u64::MAX];

impl Made {
    fn draw(rng: &mut Rng, layout: Layout) -> Self {
        let member = draw::index(rng, MEMBERS.len());
        let some = |rng: &mut Rng| draw::index(rng, 3);
        Self {
            layout,
            kind: if rng.below(2) == 0 { Kind::Multicast } else { *draw::one(rng, &Kind::ALL) },
            sender: draw::index(rng, SENDERS.len()),
            space: draw::index(rng, SPACES.len()),
            number: draw::one(rng, &NUMBERS).wrapping_add(rng.below(3)).wrapping_sub(1),
            to: (member, draw::index(rng, MEMBERS[member].1.len())),
            is_sent: rng.below(2) == 0,
            is_control: rng.below(2) == 0,
            through_memory: rng.below(2) == 0,
            frames: (0..some(rng)).map(|_| *draw::one(rng, &FrameKind::ALL)).filter(|f| *f != FrameKind::Ack).collect(),
            messages: (0..some(rng)).map(|_| (*draw::one(rng, &ORDERS), rng.below(2) == 0)).collect(),
            acks: (0..some(rng)).map(|_| ack(rng)).collect(),
            payload: {
                let count = draw::index(rng, 90);
                draw::bytes(rng, count)
            },
            missing: rng.below(2) as u32 * 1000,
        }
    }

    fn header(&self) -> [u8; Header::LEN] {
        let (sender, space) = (SENDERS[self.sender], SPACES[self.space]);
        Header { kind: self.kind, cell_tag: 5, sender, space, number: PacketNumber(self.number) }.to_bytes()
    }

    /// The acknowledgement that filters see.
    fn ack(&self) -> Option<(Option<usize>, u64)> {
        self.acks.iter().find(|(space, _)| space.is_some()).or(self.acks.first()).copied()
    }

    fn len(&self) -> u32 {
        self.layout.preamble_bytes() + self.size()
    }

    fn size(&self) -> u32 {
        u32::try_from(Header::LEN + self.payload.len()).expect("it is short") + self.missing
    }

    fn verdict(&self, program: &Program) -> u32 {
        let (header, mut summary) = (self.header(), Summary::new());
        self.frames.iter().for_each(|frame| summary.frame(*frame));
        self.messages.iter().for_each(|(order, is_uniform)| summary.message(*order, *is_uniform));
        self.acks.iter().for_each(|(space, prefix)| summary.ack(space.map(|space| SPACES[space]), *prefix));
        let clear = ClearPreamble::new(SENDERS[MEMBERS[self.to.0].1[self.to.1]], &summary);
        let to = address(self.to.0, self.is_control, self.layout == Layout::Ipv6);
        let from = address(9, false, self.layout == Layout::Ipv6);
        let udp = UdpPreamble::new(from, to, self.size() as usize);
        let preamble = if self.layout.is_clear() { clear.bytes() } else { udp.bytes() };
        let mut flags = Flags::new();
        for (holds, marked) in [
            (self.is_sent, Flags::sent as fn(Flags) -> Flags),
            (self.is_control, Flags::control),
            (self.through_memory, Flags::through_memory),
        ] {
            flags = if holds { marked(flags) } else { flags };
        }
        program.run(&Packet::new(preamble, [&header, &self.payload, &[]]).of_len(self.len()).flagged(flags))
    }
}

const ORDERS: [Order; 3] = [Order::Fifo, Order::Causal, Order::Total];

fn ack(rng: &mut Rng) -> (Option<usize>, u64) {
    let space = (rng.below(2) == 0).then(|| draw::index(rng, SPACES.len()));
    (space, draw::one(rng, &NUMBERS).wrapping_add(rng.below(3)).wrapping_sub(1))
}

/// A text, and what it means. `None`: the program rejects the packet, whatever stands around the test.
type Meaning = Box<dyn Fn(&Made) -> Option<bool>>;

fn test(rng: &mut Rng, is_clear: bool) -> (String, Meaning) {
    let sure = |holds: fn(&Made) -> bool| -> Meaning { Box::new(move |made| Some(holds(made))) };
    let name = draw::index(rng, MEMBERS.len());
    let (group, views) = *draw::one(rng, &GROUPS);
    let is_in = move |space: usize| views.iter().any(|(of, _)| *of == space);
    match rng.below(if is_clear { 19 } else { 14 }) {
        0 => {
            const FIRST: [&str; 10] =
                ["greeting", "direct", "spread", "control", "data", "multicast", "open", "session", "plain", "to-one"];
            const SECOND: [&str; 10] = [
                "handshake",
                "direct",
                "best-effort",
                "control",
                "data",
                "multicast",
                "open",
                "session",
                "unreliable",
                "to-one",
            ];
            let [first, second] = [(); 2].map(|()| draw::index(rng, Kind::ALL.len()));
            let kinds = [Kind::ALL[first], Kind::ALL[second]];
            let text = format!("type ({} or {})", FIRST[first], SECOND[second]);
            (text, Box::new(move |made| Some(kinds.contains(&made.kind))))
        }
        1 => (
            format!("group \"{group}\""),
            Box::new(move |made| Some(made.kind == Kind::Multicast && is_in(made.space))),
        ),
        2 => {
            let rank = draw::index(rng, 4);
            let has = move |made: &Made| {
                let view = views.iter().find(|(space, _)| *space == made.space);
                view.is_some_and(|(_, members)| members.get(rank) == Some(&made.sender))
            };
            let holds = move |made: &Made| Some(made.kind == Kind::Multicast && has(made));
            (format!("rank {rank} of \"{group}\""), Box::new(holds))
        }
        3 => (format!("from {}", MEMBERS[name].0), Box::new(move |made| Some(MEMBERS[name].1.contains(&made.sender)))),
        4 => (format!("to {}", MEMBERS[name].0), Box::new(move |made| Some(made.to.0 == name))),
        5 => {
            let holds = move |made: &Made| Some(MEMBERS[name].1.contains(&made.sender) || made.to.0 == name);
            (format!("member {}", MEMBERS[name].0), Box::new(holds))
        }
        6 => {
            let sender = draw::index(rng, SENDERS.len());
            (format!("sender {}", SENDERS[sender]), Box::new(move |made| Some(made.sender == sender)))
        }
        7 => {
            let (sign, holds) = relation(rng);
            let number = *draw::one(rng, &NUMBERS);
            (format!("number {sign} {number}"), Box::new(move |made| Some(holds(made.number, number))))
        }
        8 => {
            let (sign, holds) = relation(rng);
            let space = draw::one(rng, &SPACES).0;
            let of = move |made: &Made| Some(holds(SPACES[made.space].0.into(), space.into()));
            (format!("space {sign} {space}"), Box::new(of))
        }
        9 => match rng.below(5) {
            0 => ("in".to_owned(), sure(|made| !made.is_sent)),
            1 => ("out".to_owned(), sure(|made| made.is_sent)),
            2 => ("class control".to_owned(), sure(|made| made.is_control)),
            3 => ("class data".to_owned(), sure(|made| !made.is_control)),
            _ => ("memory".to_owned(), sure(|made| made.through_memory)),
        },
        10 => {
            let (sign, holds) = relation(rng);
            let size = 24 + rng.below(90);
            (format!("size {sign} {size}"), Box::new(move |made| Some(holds(made.size().into(), size))))
        }
        11 => {
            let (sign, holds) = relation(rng);
            let len = 52 + rng.below(110);
            (format!("{len} {sign} len"), Box::new(move |made| Some(holds(len, made.len().into()))))
        }
        12 => {
            let (at, value) = (rng.below(130), rng.below(5));
            let byte = move |made: &Made| {
                let bytes = [&made.header()[..], &made.payload].concat();
                bytes.get(usize::try_from(at).ok()?).map(|byte| u64::from(*byte) == value)
            };
            (format!("packet[{at}] = {value}"), Box::new(byte))
        }
        13 => ("from nobody or to nobody or group none or rank 0 of none".to_owned(), sure(|_| false)),
        14 => {
            let kind = *draw::one(rng, &FrameKind::ALL);
            let holds = move |made: &Made| match kind {
                FrameKind::Ack => Some(made.ack().is_some()),
                FrameKind::Message => Some(made.frames.contains(&kind) || !made.messages.is_empty()),
                _ => Some(made.frames.contains(&kind)),
            };
            (format!("frame {}", kind.word()), Box::new(holds))
        }
        15 => {
            let order = draw::index(rng, 3);
            let holds = move |made: &Made| Some(made.messages.iter().any(|(of, _)| *of == ORDERS[order]));
            (format!("order {}", ["fifo", "causal", "total"][order]), Box::new(holds))
        }
        16 => ("uniform".to_owned(), sure(|made| made.messages.iter().any(|(_, is_uniform)| *is_uniform))),
        17 => (
            format!("ack of \"{group}\""),
            Box::new(move |made| Some(made.ack().is_some_and(|(space, _)| space.is_some_and(is_in)))),
        ),
        _ => {
            let (sign, holds) = relation(rng);
            let prefix = *draw::one(rng, &NUMBERS);
            let of = move |made: &Made| Some(made.ack().is_some_and(|(_, acked)| holds(acked, prefix)));
            (format!("acked {sign} {prefix}"), Box::new(of))
        }
    }
}

/// A sign, and when it holds.
type Relation = (&'static str, fn(u64, u64) -> bool);

fn relation(rng: &mut Rng) -> Relation {
    const RELATIONS: [Relation; 6] = [
        ("=", |a, b| a == b),
        ("!=", |a, b| a != b),
        ("<", |a, b| a < b),
        ("<=", |a, b| a <= b),
        (">", |a, b| a > b),
        (">=", |a, b| a >= b),
    ];
    *draw::one(rng, &RELATIONS)
}

/// Tests, joined. The second of two is not looked at if the first decides.
fn expr(rng: &mut Rng, is_clear: bool, depth: usize) -> (String, Meaning) {
    if depth == 0 || rng.below(3) == 0 {
        return test(rng, is_clear);
    }
    let (left, a) = expr(rng, is_clear, depth - 1);
    match rng.below(5) {
        0 => (format!("not ({left})"), Box::new(move |made| Some(!a(made)?))),
        1 | 2 => {
            let (right, b) = expr(rng, is_clear, depth - 1);
            (format!("({left}) and ({right})"), Box::new(move |made| if a(made)? { b(made) } else { Some(false) }))
        }
        _ => {
            let (right, b) = expr(rng, is_clear, depth - 1);
            (format!("({left}) or ({right})"), Box::new(move |made| if a(made)? { Some(true) } else { b(made) }))
        }
    }
}

#[test]
fn a_filter_chooses_what_its_words_mean() {
    let mut rng = draw::rng("meaning");
    let mut some = 0;
    for round in 0..6_000 {
        let layout = Layout::ALL[round % 3];
        let (text, meaning) = expr(&mut rng, layout.is_clear(), 3);
        let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = filter.compile(layout, &Cell, 96).unwrap_or_else(|error| panic!("{text}: {error}")).program;
        let mut taken = 0;
        for _ in 0..30 {
            let made = Made::draw(&mut rng, layout);
            let verdict = made.verdict(&program);
            let expected = if meaning(&made) == Some(true) { 96 } else { 0 };
            assert_eq!(verdict, expected, "{text}: {made:?}\n{:?}", program.instructions());
            taken += usize::from(verdict != 0);
        }
        some += usize::from((1..30).contains(&taken));
    }
    assert!(some > 2_000, "{some} of 6,000 filters took some packets and left others");
}

#[test]
fn names_that_nobody_knows_are_told_in_the_order_of_the_text() {
    let filter = Filter::parse("group quotes and from desk-9 or rank 1 of none or to nobody").expect("a filter");
    let compiled = filter.compile(Layout::Ipv4, &Cell, 96).expect("a program");
    let told: Vec<String> = compiled.unbound.iter().map(ToString::to_string).collect();
    let expected = [
        "byte 22: no member is called 'desk-9'",
        "byte 37: no group is called 'none'",
        "byte 53: no member is called 'nobody'",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_type_is_told_by_four_instructions() {
    let program = Filter::parse("type multicast").expect("a filter").compile(Layout::Ipv4, &Cell, 96);
    let program = program.expect("a program").program;
    assert_eq!(program.instructions().len(), 4, "as the filter of the paper");
    assert!(!program.reads(0, 28), "nothing of the preamble");
}
