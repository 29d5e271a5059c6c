//! Golden vectors: the bytes of the format as other implementations, and older releases, see them.
//!
//! `tests/golden/README.md` says how the files are read and when they may be written again.

#[path = "golden/file.rs"]
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use file::{blesses, hold, read};
use phalanx_core::link::{Ack, Gap};
use phalanx_core::member::{
    Agreed, Ballot, BootstrapMarker, Control, DOMAINS_LEVEL, Directory, DomainsOf, End, Ended, Findings, FirstView,
    FounderRecord, FoundingBallot, FoundingMessage, FoundingRefusal, GroupChange, GroupCut, GroupEntry, GroupRequest,
    Heard, KIND_LEVEL, LastView, LinkReport, Lost, MembershipRequests, Orphan, OrphanHolder, PathKind, Proposal,
    RecoveredPacket, ReplayedView, Report, RequestList, Return, ReturnPoint, Revived, Role, SlowReport, StateMessage,
    Suspicion, Unread, Unreadable, Waiting, Wedge, Welcome, WelcomePart, build_proposal,
};
use phalanx_core::order::Status;
use phalanx_core::process::best_effort::{
    Probe, Target, WatchHeartbeat, put_ack, put_excluded, put_findings, put_heartbeat, put_link_report, put_probe,
    put_slow_report, put_status, put_watch_heartbeat, read_best_effort,
};
use phalanx_core::seal::{CellKey, CookieKey, Opener, Sealer, Security};
use phalanx_core::wire::codec::{put_prefixed, put_varint};
use phalanx_core::wire::{Header, Kind, PacketNumber, Reader, Space, Tags, cell_tag, put_with_tail, read_with_tail};
use phalanx_core::{
    CellInstance, DecreeNumber, Domain, DomainIndex, GroupId, GroupTerms, Incarnation, LEVEL, LeaveReason, Limits,
    MemberInfo, OwnDomain, Rank, Sequence, SlowMembers, Timing, Uniformity, ViewNumber,
};

const CELL: &str = "golden";
const SENDER: Incarnation = Incarnation(0x0102_0304_0506_0708);
const DEST: Incarnation = Incarnation(0x1112_1314_1516_1718);
const SPACE: u32 = 0x2122_2324;
const INSTANCE: CellInstance = CellInstance(0xc0ff_ee00);
const NUMBER: u64 = 0x3132_3334_3536_3738;
const FRAMES: &[u8] = b"the frames of a golden packet";

const KINDS: [(&str, Kind); 6] = [
    ("greeting", Kind::Handshake),
    ("direct", Kind::Direct),
    ("spread", Kind::BestEffortMulticast),
    ("control", Kind::Control),
    ("data", Kind::Data),
    ("multicast", Kind::Multicast),
];

const VARINTS: [u64; 12] =
    [0, 1, 127, 128, 300, 16_383, 16_384, u32::MAX as u64, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];

#[test]
fn headers() {
    let file = "header.txt";
    hold(file, KINDS.map(|(name, kind)| (name.to_owned(), header(kind).to_bytes().to_vec())).to_vec());
    for ((_, bytes), (_, kind)) in read(file).into_iter().zip(KINDS) {
        assert_eq!(Header::parse(&bytes), Ok(header(kind)));
    }
}

#[test]
fn cell_tags() {
    let tag = |name: &str| (name.to_owned(), cell_tag(name).to_le_bytes()[..3].to_vec());
    hold("cell_tag.txt", vec![tag("golden"), tag("home"), tag("Zürich")]);
}

#[test]
fn sealed_packets() {
    packets("sealed.txt", &Security::Sealed(CellKey::from_bytes(counting())));
}

#[test]
fn unsealed_packets() {
    packets("unsealed.txt", &Security::None);
}

/// The fuzzers start from packets of the format in force.
#[test]
fn kept_inputs_of_the_fuzzers() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut inputs: Vec<(String, Vec<u8>)> = Vec::new();
    inputs.extend(read("header.txt").into_iter().map(|(name, bytes)| (format!("header/{name}"), bytes)));
    inputs.extend(read("to_one.txt").into_iter().map(|(name, bytes)| (format!("to_one/{name}"), bytes)));
    for (file, kind, choice) in [("sealed.txt", "sealed", [0, 3, 0]), ("unsealed.txt", "clear", [0x80, 3, 0])] {
        let input = |(name, bytes): (String, Vec<u8>)| (format!("open/{kind}-{name}"), [&choice, &bytes[..]].concat());
        inputs.extend(read(file).into_iter().map(input));
    }
    for (name, bytes) in inputs {
        let path = folder.join(&name);
        if blesses() {
            std::fs::write(&path, &bytes).expect("the folder of inputs can be written");
        }
        assert_eq!(std::fs::read(&path).expect("a kept input"), bytes, "{name}: see tests/golden/README.md");
    }
}

#[test]
fn varints() {
    let file = "varint.txt";
    let encode = |value: u64| {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        (value.to_string(), out)
    };
    hold(file, VARINTS.map(encode).to_vec());
    for ((_, bytes), value) in read(file).into_iter().zip(VARINTS) {
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.varint(), reader.is_empty()), (Ok(value), true));
    }
}

#[test]
fn prefixed_bytes() {
    let file = "prefixed.txt";
    let lens = [0, 1, 127, 128];
    let encode = |len: usize| {
        let mut out = Vec::new();
        put_prefixed(&mut out, &vec![0x5a; len]);
        (len.to_string(), out)
    };
    hold(file, lens.map(encode).to_vec());
    for ((_, bytes), len) in read(file).into_iter().zip(lens) {
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.prefixed(), reader.is_empty()), (Ok(&vec![0x5a; len][..]), true));
    }
}

#[test]
fn cookies() {
    let file = "cookie.txt";
    let key = CookieKey::new(&counting());
    let data: [(&str, &[u8]); 2] = [("empty", b""), ("text", b"127.0.0.1:7000 at 12")];
    hold(file, data.map(|(name, data)| (name.to_owned(), key.mac(data).to_vec())).to_vec());
    for ((_, bytes), (_, data)) in read(file).into_iter().zip(data) {
        assert!(key.verify(data, &bytes));
    }
}

/// Entries that no build knows yet. Readers keep them.
fn unknown() -> Tags {
    let mut tags = Tags::default();
    tags.put(0x4000, b"later");
    tags
}

/// Settings that a cell may have agreed on. Defaults may change, but the vectors stay.
fn agreed() -> Agreed {
    let limits = Limits { slow_members: SlowMembers::Wait, ..Limits::default() };
    Agreed::of(&limits, &Timing { suspect_after: Duration::from_millis(900), ..Timing::default() })
}

fn member(number: u64) -> MemberInfo {
    let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let mut member = MemberInfo::new(Incarnation(number), format!("m{number}"), at(7000), at(7001));
    agreed().tell(&mut member);
    member
}

fn settings() -> Tags {
    agreed().tags(1)
}

fn proposal() -> Proposal {
    let cut = GroupCut { prefixes: vec![7, 0, 300], holders: vec![Incarnation(1), Incarnation::NONE, Incarnation(3)] };
    Proposal {
        decree: DecreeNumber(5),
        view: ViewNumber(4),
        joined: vec![member(4)],
        left: vec![(Incarnation(2), LeaveReason::Unreachable)],
        groups: vec![GroupChange {
            group: GroupId(1),
            name: "ledger".into(),
            view: ViewNumber(3),
            space: Space(9),
            cut: Some(cut),
            joined: vec![Incarnation(4)],
            left: vec![(Incarnation(2), LeaveReason::Unreachable)],
            tail: unknown(),
        }],
        next_group: 2,
        next_space: Space(10),
        level: 1,
        settings: Tags::default(),
        tail: unknown(),
    }
}

fn directory() -> Directory {
    let mut directory = Directory::found(vec![member(1), member(3), member(4)], 1, settings());
    let members = vec![Incarnation(1), Incarnation(3), Incarnation(4)];
    let entry = GroupEntry { name: "ledger".into(), view: ViewNumber(3), space: Space(9), members, tail: unknown() };
    directory.groups.insert(GroupId(1), entry);
    directory.departed.push(Incarnation(2));
    (directory.decree, directory.view, directory.next_group, directory.next_space) =
        (DecreeNumber(5), ViewNumber(4), 2, Space(10));
    directory.tail = unknown();
    directory
}

fn first_view() -> FirstView {
    let (members, waiting) = (vec![member(1), member(3)], Waiting::default());
    FirstView { instance: INSTANCE, members, level: 1, settings: settings(), waiting }
}

fn unreadable(ballot: Option<Ballot>) -> Unreadable {
    let streams = vec![(Rank(0), 7, false), (Rank(300), 299, true)];
    Unreadable { decree: DecreeNumber(4), ballot, groups: vec![Unread { group: GroupId(1), streams }] }
}

#[test]
fn control_messages() {
    let ballot = Ballot { round: 2, rank: Rank(1) };
    let cuts = vec![(GroupId(1), proposal().groups[0].cut.clone().expect("a cut"))];
    let prefixes = vec![(GroupId(1), vec![7, 0, 300])];
    let accepted = Some((ballot, proposal()));
    let wish = GroupRequest { name: "ledger".into(), join: true, only_new: false, terms: None, role: Role::default() };
    let proposed = std::sync::Arc::new(proposal());
    let welcome = Welcome { instance: INSTANCE, directory: directory(), proposal: proposed.clone() };
    let part = WelcomePart { decree: DecreeNumber(5), len_bytes: 100_000, offset: 65_536, bytes: FRAMES.to_vec() };
    let recovered =
        RecoveredPacket { space: Space(9), rank: Rank(2), number: PacketNumber(300), frames: FRAMES.to_vec() };
    let all = [
        (
            "wedge",
            Control::Wedge(Wedge { decree: DecreeNumber(5), ballot, groups: vec![GroupId(1)], cuts: Vec::new() }),
        ),
        ("wedge_to_fill", Control::Wedge(Wedge { decree: DecreeNumber(5), ballot, groups: vec![GroupId(1)], cuts })),
        (
            "report",
            Control::Report(Report {
                decree: DecreeNumber(5),
                ballot,
                prefixes: prefixes.clone(),
                ..Report::default()
            }),
        ),
        (
            "report_accepted",
            Control::Report(Report { decree: DecreeNumber(5), ballot, accepted, prefixes, ..Report::default() }),
        ),
        ("refuse", Control::Refuse { decree: DecreeNumber(5), promised: ballot }),
        ("propose", Control::Propose { ballot, proposal: proposed.clone() }),
        ("accepted", Control::Accepted { decree: DecreeNumber(5), ballot }),
        ("decide", Control::Decide(proposed)),
        ("welcome", Control::Welcome(Box::new(welcome))),
        ("fetch", Control::Fetch { space: Space(9), rank: Rank(2), from: 298, to: 300 }),
        ("recovered", Control::Recovered(recovered)),
        (
            "wishes",
            Control::MembershipRequests(RequestList {
                decree: DecreeNumber(4),
                groups: vec![wish],
                level: 2,
                ..RequestList::default()
            }),
        ),
        ("leave", Control::Leave { waits: false }),
        ("unreadable", Control::Unreadable(unreadable(None))),
        ("unreadable_in_a_ballot", Control::Unreadable(unreadable(Some(Ballot { round: 3, rank: Rank(2) })))),
        ("holds_state", Control::HoldsState { group: GroupId(1), view: ViewNumber(3) }),
        ("out", Control::Out),
        ("welcome_part", Control::WelcomePart(part)),
    ];
    messages("control.txt", &all);
}

/// Messages between founders, and what founders keep on disk.
#[test]
fn founding() {
    let ballot = FoundingBallot { round: 2, leader: Incarnation(3) };
    let names = || vec!["m1".to_owned(), "m3".to_owned()];
    let heard = Heard { instance: INSTANCE, at: member(1).control };
    let last = LastView { instance: INSTANCE, view: ViewNumber(300), members: names() };
    let mark = BootstrapMarker::of_list(ballot, first_view());
    let lost = Lost { who: Incarnation(9), seat: 0xabcd, name: "m2".into() };
    let ended = Ended { instance: INSTANCE, view: ViewNumber(301), but_for: vec![lost], waiting: Waiting::default() };
    let left = End::Left { instance: INSTANCE };
    let marked =
        FounderRecord { mark: Some(mark), heard: None, last: Some(last.clone()), end: Some(End::Ended(ended)) };
    let record = FounderRecord { mark: None, heard: Some(heard), last: None, end: Some(left) };
    let dead = || vec![("m1".into(), Some(last.clone())), ("m3".into(), None)];
    let refuse = |why| FoundingMessage::Refuse { ballot, why };
    let all = [
        ("ask", FoundingMessage::Ask { ballot, names: names(), asked: vec![member(1), member(3)] }),
        ("report", FoundingMessage::Report { ballot, record: Box::new(record.clone()) }),
        ("report_of_a_mark", FoundingMessage::Report { ballot, record: Box::new(marked) }),
        ("refuse_promised", refuse(FoundingRefusal::Promised(ballot))),
        ("refuse_names", refuse(FoundingRefusal::Names(names()))),
        ("refuse_namesake", refuse(FoundingRefusal::Namesake(member(1).control))),
        ("refuse_settings", refuse(FoundingRefusal::Settings)),
        ("propose", FoundingMessage::Propose { ballot, first: first_view() }),
        ("accept", FoundingMessage::Accept { ballot }),
        ("decide", FoundingMessage::Decide { ballot }),
        ("marked", FoundingMessage::Marked { instance: INSTANCE }),
        ("confirmed", FoundingMessage::Confirmed(first_view())),
        ("dead", FoundingMessage::Dead { ballot, last: dead(), but_for: None }),
        ("dead_but_for", FoundingMessage::Dead { ballot, last: dead(), but_for: Some(vec!["m2".into()]) }),
    ];
    let all = all.map(|(name, message)| (name, Control::Founding(message)));
    messages("founding.txt", &all);
    hold("record.txt", vec![("record".to_owned(), record.to_bytes())]);
    let [(_, bytes)] = read("record.txt").try_into().expect("one line");
    assert_eq!(FounderRecord::from_bytes(&bytes), Ok(record));
}

/// Groups that wait while no instance of the cell is there: in a leave, in what founders keep, and in their messages.
#[test]
fn waiting_groups() {
    let ballot = FoundingBallot { round: 2, leader: Incarnation(3) };
    let holder = OrphanHolder { who: Incarnation(9), seat: 0xabcd, stayed: true, name: "m2".into() };
    let mut tail = Tags::default();
    tail.put_value(4, &Orphan { members: 2, holders: vec![holder] });
    let (name, space) = ("ledger".to_owned(), Space(9));
    let entry = GroupEntry { name, view: ViewNumber(3), space, members: Vec::new(), tail };
    let waiting = Waiting {
        ancestors: vec![INSTANCE, CellInstance(0x0001_0000_0000_0007)],
        groups: BTreeMap::from([(GroupId(1), entry)]),
        next_group: 300,
        next_space: Space(10),
    };
    assert!(waiting.is_sound());
    let first = FirstView { level: LEVEL, ..first_view() }.with(waiting.clone());
    let end = Some(End::Ended(Ended { instance: INSTANCE, view: ViewNumber(301), but_for: Vec::new(), waiting }));
    let mark = Some(BootstrapMarker::of_list(ballot, first.clone()));
    let record = FounderRecord { mark, heard: None, last: None, end };
    let founding = |message| Control::Founding(message);
    let all = [
        ("leave_waits", Control::Leave { waits: true }),
        ("report", founding(FoundingMessage::Report { ballot, record: Box::new(record.clone()) })),
        ("propose", founding(FoundingMessage::Propose { ballot, first: first.clone() })),
        ("confirmed", founding(FoundingMessage::Confirmed(first))),
    ];
    let encoded = |message: &Control| message.encode().expect("it can be written");
    let mut lines: Vec<(String, Vec<u8>)> =
        all.iter().map(|(name, message)| ((*name).to_owned(), encoded(message))).collect();
    lines.push(("record".to_owned(), record.to_bytes()));
    hold("waiting.txt", lines);
    let read = read("waiting.txt");
    for ((name, message), (_, bytes)) in all.iter().zip(&read) {
        assert_eq!(Control::decode(bytes).as_ref(), Ok(message), "{name}");
    }
    assert_eq!(FounderRecord::from_bytes(&read[4].1), Ok(record));
}

/// Terms of a group: as requested, and as stored in the group's entry.
#[test]
fn terms_of_groups() {
    let terms = |uniformity, members_min| GroupTerms { uniformity, members_min, ends_alone: false };
    let wish =
        |terms| GroupRequest { name: "ledger".into(), join: true, only_new: false, terms, role: Role::default() };
    let groups = vec![wish(None), wish(Some(terms(Uniformity::Plain, 1))), wish(Some(terms(Uniformity::Uniform, 300)))];
    let requests =
        Control::MembershipRequests(RequestList { decree: DecreeNumber(4), groups, ..RequestList::default() });
    let encoded = requests.encode().expect("it can be written");
    let entry = terms(Uniformity::Uniform, 300).tags().as_bytes().to_vec();
    hold("terms.txt", vec![("wishes".to_owned(), encoded), ("entry".to_owned(), entry)]);
    let [(_, encoded), (_, entry)] = read("terms.txt").try_into().expect("two lines");
    assert_eq!(Control::decode(&encoded), Ok(requests));
    assert_eq!(GroupTerms::of(&Tags::parse(&entry).expect("entries")), terms(Uniformity::Uniform, 300));
}

/// Orphaned groups: what records, reports, requests, changes and entries hold.
#[test]
fn orphans() {
    let mut seated = member(4);
    seated.sit(0x5ea7_0004);
    seated.keeps(&[Incarnation(2), Incarnation(300)]);
    let ballot = Ballot { round: 2, rank: Rank(1) };
    let groups = |id| vec![GroupId(id)];
    let report = Report {
        decree: DecreeNumber(5),
        ballot,
        incomplete: groups(1),
        giving: groups(2),
        taking: groups(300),
        ..Report::default()
    };
    let from = ReturnPoint { view: ViewNumber(3), prefixes: vec![7, 0, 300], counts: vec![9, 0, 400] };
    let back = |from| Return { group: GroupId(1), was: Incarnation(2), from };
    let requests = RequestList {
        decree: DecreeNumber(4),
        returns: vec![back(Some(from.clone())), back(None)],
        given_up: vec!["ledger".into()],
        dead: vec![Incarnation(3)],
        ..RequestList::default()
    };
    let (report, requests) = (Control::Report(report), Control::MembershipRequests(requests));
    // All members of the group are cut off. One of them is struck off, and the other brings the group back.
    let settings = agreed().tags(3);
    let mut before = Directory::found(vec![member(1), seated.clone(), member(3)], 3, settings);
    let members = vec![Incarnation(4), Incarnation(3)];
    let entry =
        GroupEntry { name: "ledger".into(), view: ViewNumber(3), space: Space(9), members, tail: Tags::default() };
    before.groups.insert(GroupId(1), entry);
    let lost = |who| (Incarnation(who), LeaveReason::Unreachable);
    let change = |cut, joined, left| GroupChange {
        group: GroupId(1),
        name: "ledger".into(),
        view: ViewNumber(4),
        space: Space(10),
        cut,
        joined,
        left,
        tail: Tags::default(),
    };
    let decide = |change, left| Proposal {
        joined: Vec::new(),
        left,
        groups: vec![change],
        level: 3,
        tail: Tags::default(),
        ..proposal()
    };
    let cut = |prefixes: &[u64]| {
        Some(GroupCut { prefixes: prefixes.to_vec(), holders: vec![Incarnation::NONE; prefixes.len()] })
    };
    let out = decide(change(cut(&[7, 300]), vec![], vec![lost(4), lost(3)]), vec![lost(4), lost(3)]);
    let orphaned = before.after(&out);
    let mut strike = change(None, vec![], vec![]);
    strike.strike(&[Incarnation(3)]);
    let struck = orphaned.after(&decide(strike.clone(), vec![]));
    let mut revival = change(cut(&[7, 299]), vec![Incarnation(1)], vec![]);
    revival.revive(&Revived { view: ViewNumber(3), was: Incarnation(4), counts: vec![9, 400] });
    let revived = struck.after(&decide(revival.clone(), vec![]));
    let entry = |directory: &Directory| directory.groups[&GroupId(1)].tail.as_bytes().to_vec();
    let all = vec![
        ("member", seated.tail.as_bytes().to_vec()),
        ("report", report.encode().expect("it can be written")),
        ("wishes", requests.encode().expect("it can be written")),
        ("strike", strike.tail.as_bytes().to_vec()),
        ("revival", revival.tail.as_bytes().to_vec()),
        ("entry_orphaned", entry(&orphaned)),
        ("entry_struck", entry(&struck)),
        ("entry_revived", entry(&revived)),
    ];
    hold("orphans.txt", all.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect());
    let read = read("orphans.txt");
    let tags = |at: usize| Tags::parse(&read[at].1).expect("entries");
    assert_eq!(tags(0), seated.tail);
    assert_eq!(Control::decode(&read[1].1), Ok(report));
    assert_eq!(Control::decode(&read[2].1), Ok(requests));
    let waits_for = |directory: &Directory| {
        let orphan = directory.groups[&GroupId(1)].orphan().expect("it waits");
        assert_eq!(orphan.members, 2);
        orphan.holders.into_iter().map(|holder| (holder.who.0, holder.seat, holder.name)).collect::<Vec<_>>()
    };
    assert_eq!(waits_for(&orphaned), [(4, 0x5ea7_0004, "m4".into()), (3, 0, "m3".into())]);
    assert_eq!(waits_for(&struck), [(4, 0x5ea7_0004, "m4".into())]);
    let entry = &revived.groups[&GroupId(1)];
    assert_eq!((entry.view, &entry.members[..]), (ViewNumber(4), &[Incarnation(1)][..]));
    assert_eq!((entry.orphan(), entry.begun_at()), (None, Some(vec![7, 299])));
    assert_eq!(entry.revived(), revival.revived());
}

/// Whether a group has a state: what requests want, and what the entries of groups with and without one hold.
#[test]
fn kinds_of_groups() {
    let wish = |role| GroupRequest { name: "ledger".into(), join: true, only_new: false, terms: None, role };
    let list = |roles: &[Role]| {
        let groups = roles.iter().copied().map(wish).collect();
        Control::MembershipRequests(RequestList { decree: DecreeNumber(4), groups, ..RequestList::default() })
    };
    let default = list(&[Role::Stateless]);
    let requests = list(&[Role::State, Role::Stateless, Role::Observer]);
    let settings = agreed().tags(KIND_LEVEL);
    let members = [1, 2, 3].map(|number| MemberInfo { level: KIND_LEVEL, ..member(number) });
    let before = Directory::found(members.to_vec(), KIND_LEVEL, settings);
    let decide = |before: &Directory, asks: &[(u64, Role)]| {
        let of = |who: u64| ("ledger".to_owned(), Incarnation(who));
        let requests = MembershipRequests {
            group_joins: asks.iter().map(|(who, _)| of(*who)).collect(),
            roles: asks.iter().map(|(who, role)| (of(*who), *role)).collect(),
            ..MembershipRequests::default()
        };
        let reports: BTreeMap<Rank, Report> = Rank::all(3).map(|rank| (rank, Report::default())).collect();
        let wedged = before.groups.keys().copied().collect();
        let reason = |_| LeaveReason::Unreachable;
        before.after(&build_proposal(before, &reports, &wedged, &BTreeSet::new(), &requests, reason))
    };
    let without = decide(&before, &[(1, Role::Stateless), (2, Role::State), (3, Role::Observer)]);
    let with = decide(&before, &[(3, Role::Observer), (2, Role::State), (1, Role::Stateless)]);
    let observed = decide(&with, &[(1, Role::Stateless), (3, Role::Observer)]);
    let entry = |directory: &Directory| directory.groups[&GroupId(1)].tail.as_bytes().to_vec();
    let all = vec![
        ("wishes_without", default.encode().expect("it can be written")),
        ("wishes", requests.encode().expect("it can be written")),
        ("entry_without", entry(&without)),
        ("entry_with", entry(&with)),
        ("entry_observed", entry(&observed)),
    ];
    hold("kinds.txt", all.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect());
    let read = read("kinds.txt");
    assert_eq!(Control::decode(&read[0].1), Ok(default));
    assert_eq!(Control::decode(&read[1].1), Ok(requests));
    let group = |directory: &Directory| {
        let entry = &directory.groups[&GroupId(1)];
        let numbers = |who: &[Incarnation]| who.iter().map(|who| who.0).collect::<Vec<_>>();
        (entry.has_state(), numbers(&entry.members), numbers(&entry.observers()))
    };
    assert_eq!(group(&without), (Some(false), vec![1], vec![]));
    assert_eq!(group(&with), (Some(true), vec![2], vec![]));
    assert_eq!(group(&observed), (Some(true), vec![2, 3], vec![3]));
    // Below level 6 nothing is agreed.
    let before = Directory { level: 5, ..before };
    let earlier = decide(&before, &[(1, Role::Stateless), (2, Role::Stateless)]);
    assert_eq!(group(&earlier), (None, vec![1, 2], vec![]));
}

const TRANSFER: u64 = 0x5152_5354;

/// A replayed delivery, of a message to that domain.
fn replay(domain: Option<DomainIndex>) -> StateMessage {
    StateMessage::Replay {
        transfer: TRANSFER,
        view: ViewNumber(3),
        sender: Incarnation(1),
        seq: Sequence(12),
        order: 2 | 4,
        position: Some(40),
        payload: FRAMES.to_vec(),
        domain,
    }
}

#[test]
fn state_messages() {
    let transfer = TRANSFER;
    let replay = replay(None);
    let all = [
        ("ask", StateMessage::Ask { group: GroupId(1), view: ViewNumber(3), transfer }),
        ("begin", StateMessage::Begin { transfer, bytes: Some(300), view: None, domains: None }),
        ("begin_without_state", StateMessage::Begin { transfer, bytes: None, view: None, domains: None }),
        ("chunk", StateMessage::Chunk { transfer, offset: 128, bytes: FRAMES.to_vec() }),
        ("replay", replay),
        ("caught_up", StateMessage::CaughtUp { transfer }),
        ("done", StateMessage::Done { transfer, view: ViewNumber(4) }),
        ("abort", StateMessage::Abort { transfer }),
        ("taken", StateMessage::Taken { transfer, bytes: 428 }),
    ];
    messages("state.txt", &all);
}

/// From level 7 on: a snapshot that says its view, and a view that is replayed.
#[test]
fn views_within_a_state() {
    let transfer = 0x5152_5354;
    let view = ReplayedView {
        view: ViewNumber(301),
        members: vec![member(1), member(3), member(4)],
        joined: vec![Incarnation(4)],
        left: vec![(Incarnation(2), LeaveReason::Unreachable)],
        incomplete: vec![Incarnation(4)],
        observers: Vec::new(),
        has_state: Some(true),
        uniform: true,
        members_min: 2,
        ends_alone: false,
        domains: None,
    };
    let all = [
        ("begin", StateMessage::Begin { transfer, bytes: Some(300), view: Some(ViewNumber(300)), domains: None }),
        ("replay_view", StateMessage::ReplayView { transfer, view: Box::new(view) }),
    ];
    let encode = |message: &StateMessage| message.encode(Vec::new()).expect("it can be written");
    hold("views.txt", all.iter().map(|(name, message)| ((*name).to_owned(), encode(message))).collect());
    for ((_, bytes), (name, message)) in read("views.txt").into_iter().zip(&all) {
        assert_eq!(StateMessage::decode(&bytes).as_ref(), Ok(message), "{name}");
    }
}

/// From level 10 on: what a member has for a group's state, the list of a group, and what is replayed of both.
#[test]
fn domains_of_a_state() {
    let domain = |name: &str, version| Domain { name: name.into(), version };
    let own = |name: &str, version, is_optional| OwnDomain { domain: domain(name, version), is_optional };
    let said = vec![own("", 1, false), own("prices", 300, true)];
    let list = RequestList {
        decree: DecreeNumber(4),
        domains: vec![DomainsOf { group: "ledger".into(), own: said.clone() }],
        ..RequestList::default()
    };
    let requests = Control::MembershipRequests(list);
    let settings = agreed().tags(DOMAINS_LEVEL);
    let members = [1, 2].map(|number| MemberInfo { level: DOMAINS_LEVEL, ..member(number) });
    let before = Directory::found(members.to_vec(), DOMAINS_LEVEL, settings);
    let of = |who: u64| ("ledger".to_owned(), Incarnation(who));
    let decide = |before: &Directory, requests: MembershipRequests| {
        let reports: BTreeMap<Rank, Report> = Rank::all(2).map(|rank| (rank, Report::default())).collect();
        let wedged: BTreeSet<GroupId> = before.groups.keys().copied().collect();
        let reason = |_| LeaveReason::Unreachable;
        before.after(&build_proposal(before, &reports, &wedged, &BTreeSet::new(), &requests, reason))
    };
    let made = MembershipRequests {
        group_joins: vec![of(1), of(2)],
        roles: [1, 2].map(|who| (of(who), Role::State)).into(),
        ..MembershipRequests::default()
    };
    let first = decide(&before, made);
    let growing = MembershipRequests {
        growing: [GroupId(1)].into(),
        domains: [1, 2].map(|who| (of(who), said.clone())).into(),
        ..MembershipRequests::default()
    };
    let second = decide(&first, growing);
    let entry = |directory: &Directory| directory.groups[&GroupId(1)].tail.as_bytes().to_vec();
    let transfer = TRANSFER;
    let replay = replay(Some(DomainIndex(1)));
    let view = ReplayedView {
        view: ViewNumber(301),
        members: vec![member(1)],
        joined: Vec::new(),
        left: Vec::new(),
        incomplete: Vec::new(),
        observers: Vec::new(),
        has_state: Some(true),
        uniform: true,
        members_min: 1,
        ends_alone: false,
        domains: Some(vec![domain("", 1), domain("prices", 300)]),
    };
    let list = view.domains.clone();
    let begin = StateMessage::Begin { transfer, bytes: Some(300), view: Some(ViewNumber(300)), domains: list };
    let state = [begin, replay, StateMessage::ReplayView { transfer, view: Box::new(view) }];
    let [begin, replay, view] = state.clone().map(|message| message.encode(Vec::new()).expect("it can be written"));
    let all = vec![
        ("said", requests.encode().expect("it can be written")),
        ("entry_first", entry(&first)),
        ("entry_grown", entry(&second)),
        ("begin", begin),
        ("replay", replay),
        ("replay_view", view),
    ];
    hold("domains.txt", all.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect());
    let read = read("domains.txt");
    assert_eq!(Control::decode(&read[0].1), Ok(requests));
    let lists = [&first, &second].map(|directory| directory.groups[&GroupId(1)].domains());
    assert_eq!(lists, [Some(vec![domain("", 1)]), Some(vec![domain("", 1), domain("prices", 300)])]);
    for (at, message) in (3..).zip(state) {
        assert_eq!(StateMessage::decode(&read[at].1), Ok(message));
    }
}

/// Each message alone, and the first also with an entry behind it that no build knows yet.
fn messages<M>(file: &str, all: &[(&str, M)])
where
    M: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let none = Tags::default();
    let mut tailed: Vec<(String, &M, &Tags)> = all.iter().map(|(name, m)| ((*name).to_owned(), m, &none)).collect();
    let later = unknown();
    tailed.push((format!("{}_with_tail", all[0].0), &all[0].1, &later));
    let encode = |(name, message, tail): &(String, &M, &Tags)| {
        (name.clone(), put_with_tail(message, tail, Vec::new()).expect("it can be written"))
    };
    hold(file, tailed.iter().map(encode).collect());
    for ((_, bytes), (name, message, tail)) in read(file).into_iter().zip(&tailed) {
        let (got, rest) = read_with_tail::<M>(&bytes).expect("a golden message is read");
        assert_eq!((&got, &rest), (*message, *tail), "{name}");
    }
}

#[test]
fn best_effort_frames() {
    let ack =
        || Ack { prefix: 300, limit: 812, gaps: vec![Gap { first: 302, last: 303 }, Gap { first: 310, last: 320 }] };
    let frame = |name: &str, put: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        put(&mut bytes);
        (name.to_owned(), bytes)
    };
    let link_report = LinkReport { version: 3, suspected: vec![Rank(2)], besides: vec![Rank(0), Rank(5)] };
    let beat = WatchHeartbeat { decree: DecreeNumber(5), depth: 2, asks: true, digest: NUMBER };
    let stream = Target::Stream { space: Space(9), wants_stable: true };
    let status = Status { highest: 300, stable: 290, blocked: true };
    let slow_report = SlowReport { excused: true, slow: vec![Rank(1), Rank(3)] };
    let probe = Probe { kind: PathKind::LongControl, answers: false, sent: NUMBER };
    let suspicion = |rank, kind, number| Suspicion { rank, kind, number };
    let suspected = vec![suspicion(Rank(1), PathKind::Data, 300), suspicion(Rank(2), PathKind::LongData, 4)];
    let findings = Findings { suspected, answered: vec![(Rank(1), 7), (Rank(4), 300)], ..Findings::default() };
    let silent = vec![suspicion(Rank(3), PathKind::Silence, 5)];
    let reached = vec![Incarnation(NUMBER)];
    let later = Findings { suspected: silent, answered: Vec::new(), dead: vec![Rank(4), Rank(6)], reached };
    let all = vec![
        frame("receipt_stream", &|out| put_ack(out, stream, &ack())),
        frame("receipt_control", &|out| put_ack(out, Target::Control, &ack())),
        frame("receipt_data", &|out| put_ack(out, Target::Data, &ack())),
        frame("receipt_to_one", &|out| put_ack(out, Target::ToOne, &ack())),
        frame("status", &|out| put_status(out, Space(9), &status)),
        frame("heartbeat", &|out| put_heartbeat(out, DecreeNumber(5), &[true, false, true])),
        frame("exclusion", &|out| put_excluded(out, ViewNumber(6))),
        frame("heartbeat_of_a_large_cell", &|out| put_watch_heartbeat(out, &beat)),
        frame("claim", &|out| put_link_report(out, DecreeNumber(5), Rank(4), &link_report)),
        frame("complaint", &|out| put_slow_report(out, DecreeNumber(5), &slow_report)),
        frame("probe", &|out| put_probe(out, probe, 0)),
        frame("answer_of_20_bytes", &|out| put_probe(out, Probe { answers: true, ..probe }, 20)),
        frame("findings", &|out| put_findings(out, DecreeNumber(5), &findings)),
        frame("findings_from_level_5", &|out| put_findings(out, DecreeNumber(5), &later)),
    ];
    hold("unrepaired.txt", all);
    for (name, bytes) in read("unrepaired.txt") {
        let mut reader = Reader::new(&bytes);
        let known = read_best_effort(&mut reader).map(|frame| frame.is_some());
        assert_eq!((known, reader.is_empty()), (Ok(true), true), "{name}");
    }
}

/// One packet of each kind: the sealed bytes match the file, and the file's bytes open.
fn packets(file: &str, security: &Security) {
    let seal = |(name, kind): (&str, Kind)| {
        let mut packet = Vec::new();
        header(kind).write(&mut packet);
        packet.extend_from_slice(FRAMES);
        let dest = if kind.is_addressed() { DEST } else { Incarnation::NONE };
        // One sealer for each packet: here the kinds role one space and number, which a process never lets happen.
        Sealer::new(security, CELL, SENDER).seal(dest, &mut packet);
        (name.to_owned(), packet)
    };
    hold(file, KINDS.map(seal).to_vec());
    for ((_, mut bytes), (name, kind)) in read(file).into_iter().zip(KINDS) {
        let mut opener = Opener::new(security, CELL, DEST);
        let (got, frames) = opener.open(&mut bytes).expect("a golden packet opens");
        assert_eq!((got, &*frames), (header(kind), FRAMES), "{name}");
    }
}

fn header(kind: Kind) -> Header {
    Header { kind, cell_tag: cell_tag(CELL), sender: SENDER, space: Space(SPACE), number: PacketNumber(NUMBER) }
}

/// 0, 1, 2, up to 31.
fn counting() -> [u8; 32] {
    std::array::from_fn(|index| index as u8)
}
