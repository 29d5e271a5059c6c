use super::packets::CHANNEL_WINDOW_MIN;
use super::*;
use crate::api::{Founding, Limits, Timing};
use crate::id::{MemberInfo, Rank};
use crate::member::SlowReport;
use crate::wire::{DropReason, Header, Kind, PacketNumber, Space};

pub(super) mod by_hand;
mod vain_requests;

pub(super) fn member() -> MemberInfo {
    let address = SocketAddr::from(([127, 0, 0, 1], 1000));
    MemberInfo { host: 1, ..MemberInfo::new(Incarnation(1), "m", address, address) }
}

/// A process that has not found its cell yet.
fn process(timing: Timing) -> Process {
    let me = member();
    let (founding, limits) = (Founding::Join, Limits::default());
    let settings = Settings {
        cell: "test".into(),
        me,
        founding,
        record: crate::member::FounderRecord::default(),
        seeds: Vec::new(),
        timing,
        limits,
    };
    Process::new(Instant::ZERO, settings, &Security::None, 1)
}

/// Silence is tolerated for the configured time, and for some heartbeats even if that is shorter.
#[test]
fn silence_is_borne_for_a_few_heartbeats() {
    let with = |suspect_after, heartbeat| process(Timing { suspect_after, heartbeat, ..Timing::default() });
    let ms = Duration::from_millis;
    assert_eq!(with(ms(500), ms(50)).suspect_after(), ms(500));
    assert_eq!(with(ms(100), ms(100)).suspect_after(), ms(450));
}

/// The window of a channel is its bytes in packets, within limits.
#[test]
fn a_channels_window_is_told_in_packets() {
    let mut process = process(Timing::default());
    let mut window = |bytes: usize, room: usize| {
        process.set.limits.channel_window_bytes = bytes;
        process.channel_window(room)
    };
    assert_eq!(window(1_000_000, 1000), 1000);
    assert_eq!(window(1_000_000, 8000), 125);
    assert_eq!(window(1000, 1000), CHANNEL_WINDOW_MIN);
    assert_eq!(window(1 << 30, 1000), 4096);
}

/// Packets of later views are kept up to a number and a size. Packets of ended views are not kept.
#[test]
fn packets_of_views_to_come_are_kept_within_bounds() {
    let mut process = process(Timing::default());
    process.directory.next_space = Space(5);
    let header =
        |space| Header { kind: Kind::Multicast, cell_tag: 0, sender: Incarnation(2), space, number: PacketNumber(1) };
    for over in [0, 3, 4] {
        assert_eq!(process.keep_early(&header(Space(over)), b"late"), Err(DropReason::UnknownSpace), "space {over}");
    }
    for at in 0..EARLY_PACKETS {
        assert_eq!(process.keep_early(&header(Space(5 + u32::from(at % 2 == 1))), b"x"), Ok(()));
    }
    assert_eq!(process.keep_early(&header(Space(5)), b"x"), Err(DropReason::Overload), "too many");
    assert_eq!((process.early.len(), process.early_bytes), (EARLY_PACKETS, EARLY_PACKETS));
    process.early.clear();
    process.early_bytes = 0;
    let long = vec![0; EARLY_BYTES / 2];
    assert_eq!(process.keep_early(&header(Space(5)), &long), Ok(()));
    assert_eq!(process.keep_early(&header(Space(5)), &long), Ok(()));
    assert_eq!(process.keep_early(&header(Space(5)), b"x"), Err(DropReason::Overload), "too long");
    assert_eq!((process.early.len(), process.early_bytes), (2, EARLY_BYTES));
}

/// A process that declared rare polls is in time within its declared gap, and late beyond.
#[test]
fn turns_within_the_declared_gap_are_in_time() {
    let ms = Duration::from_millis;
    for (declared, in_time) in [(0, 150), (50, 150), (600, 700)] {
        let mut process = process(Timing { turn_gap_max: ms(declared), ..Timing::default() });
        process.notice_absence(Instant::ZERO + ms(in_time));
        assert_eq!(process.counters.absences, 0, "{declared} ms");
        process.notice_absence(Instant::ZERO + ms(in_time) * 2 + Duration::from_nanos(1));
        assert_eq!(process.counters.absences, 1, "{declared} ms");
    }
}

/// A coordinator waits longer for a member that polls seldom, by its declared gap.
#[test]
fn who_turns_seldom_may_answer_so_much_later() {
    let (mut process, _) = by_hand::in_cell(Incarnation(1), 3);
    let gap = Duration::from_secs(2);
    process.directory.members[1].turns_within(gap);
    let patience = process.suspect_after() * 5;
    [2, 3].into_iter().for_each(|who| process.waits.asks(by_hand::NOW, Incarnation(who)));
    let mute = |after| process.mute(by_hand::NOW + after).map(Rank::index).collect::<Vec<_>>();
    assert_eq!((mute(patience), mute(patience + gap)), (vec![], vec![2]));
    assert_eq!(mute(patience + gap + Duration::from_nanos(1)), [1, 2]);
}

/// Its last evaluation counted on a member that has died since: the two of them cannot both go.
#[test]
fn a_slow_member_stays_while_the_decree_without_it_needs_it() {
    let (mut process, _) = by_hand::in_cell(Incarnation(1), 3);
    let slow = SlowReport { excused: false, slow: vec![Rank(2)] };
    process.failure_detector.note_slow_report(by_hand::NOW, Rank(1), slow);
    process.failure_detector.evaluate_slow(by_hand::NOW);
    assert_eq!(process.to_go(by_hand::NOW), [Rank(2)].into());
    process.failure_detector.died(Rank(1));
    assert!(process.to_go(by_hand::NOW).is_empty());
}

#[test]
fn the_table_of_a_process_is_the_one_that_is_kept() {
    crate::transitions::kept::hold::<StageEvent>("stage");
}
