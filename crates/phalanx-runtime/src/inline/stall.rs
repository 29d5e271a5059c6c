//! Reports a sender that sends nothing although messages are queued, and what it waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx_core::order::Hold;
use phalanx_core::{GroupId, Instant, StreamStatus, ViewNumber};

/// The streams of a process.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    streams: BTreeMap<GroupId, Seen>,
}

#[derive(Debug)]
struct Seen {
    view: ViewNumber,
    sent: u64,
    /// Since when messages are queued and none is sent.
    since: Instant,
    reported: bool,
}

/// A stall: this long without a message sent while some are queued.
const STALLED_AFTER: Duration = Duration::from_secs(1);

impl Stalls {
    /// Checks all streams. Returns a notice for each that has just been found stalled, and for each reported one that
    /// has resumed.
    pub(super) fn look(&mut self, now: Instant, streams: &[StreamStatus]) -> Vec<String> {
        self.streams.retain(|group, _| streams.iter().any(|s| s.group == *group));
        let mut notices = Vec::new();
        for stream in streams {
            let fresh = Seen { view: stream.view, sent: stream.sent, since: now, reported: false };
            let seen = self.streams.entry(stream.group).or_insert(fresh);
            let moved = stream.queued_messages == 0 || stream.sent != seen.sent || stream.view != seen.view;
            if moved {
                if seen.reported {
                    notices.push(format!("group {}: messages go out again", stream.name));
                }
                *seen = Seen { view: stream.view, sent: stream.sent, since: now, reported: false };
            } else if !seen.reported && now.since(seen.since) >= STALLED_AFTER {
                seen.reported = true;
                notices.push(explain(stream, now.since(seen.since)));
            }
        }
        notices
    }
}

fn explain(stream: &StreamStatus, stalled: Duration) -> String {
    let member = stream.waits_for.as_deref().unwrap_or("a member");
    let why = match stream.hold {
        Some(Hold::Credit) => format!("{member} has received all, and its application does not take it"),
        Some(Hold::Ack) => format!("{member} does not acknowledge what was sent"),
        Some(Hold::Change) => "a new view is being decided".to_owned(),
        Some(Hold::System) => {
            "the system takes no more packets: its send buffer, or the interface's queue, is full".to_owned()
        }
        Some(Hold::Outside) => {
            "the first of them is uniform, and no quorum of the cell is heard: the others may have gone on without this process".to_owned()
        }
        Some(Hold::Inadequate) => {
            "the first of them is uniform, and the cell or the group has fewer members than were agreed on".to_owned()
        }
        None => "nothing holds them back now".to_owned(),
    };
    format!(
        "group {}: nothing went out for {:.1} s, and {} messages ({} bytes) wait: {why}",
        stream.name,
        stalled.as_secs_f64(),
        stream.queued_messages,
        stream.queued_bytes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(sent: u64, queued_messages: usize, hold: Option<Hold>) -> StreamStatus {
        StreamStatus {
            group: GroupId(1),
            name: "stock".into(),
            view: ViewNumber(1),
            members: 2,
            has_state: Some(false),
            observes: false,
            queued_messages,
            queued_bytes: queued_messages * 10,
            unstable_packets: 0,
            waits_for: Some("slow".to_owned()),
            hold,
            orders: None,
            sent,
            delivered: 0,
        }
    }

    #[test]
    fn a_stall_is_reported_once_with_its_reason_and_so_is_its_end() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let mut stalls = Stalls::default();
        assert_eq!(stalls.look(at(0), &[status(5, 3, Some(Hold::Credit))]), [""; 0]);
        assert_eq!(stalls.look(at(900), &[status(5, 4, Some(Hold::Credit))]), [""; 0]);
        let reported = stalls.look(at(1100), &[status(5, 4, Some(Hold::Credit))]);
        assert_eq!(
            reported,
            ["group stock: nothing went out for 1.1 s, and 4 messages (40 bytes) wait: slow has received \
                           all, and its application does not take it"]
        );
        assert_eq!(stalls.look(at(5000), &[status(5, 4, Some(Hold::Ack))]), [""; 0]);
        assert_eq!(stalls.look(at(5100), &[status(6, 4, None)]), ["group stock: messages go out again"]);
        let reported = stalls.look(at(6200), &[status(6, 4, Some(Hold::Inadequate))]);
        assert!(reported[0].ends_with("the cell or the group has fewer members than were agreed on"), "{reported:?}");
    }

    #[test]
    fn who_sends_slowly_or_has_nothing_to_send_is_not_stalled() {
        let mut stalls = Stalls::default();
        for second in 0..10 {
            let now = Instant(second * 1_000_000_000);
            assert_eq!(stalls.look(now, &[status(second, 100, Some(Hold::Ack))]), [""; 0]);
        }
        for second in 10..20 {
            assert_eq!(stalls.look(Instant(second * 1_000_000_000), &[status(9, 0, None)]), [""; 0]);
        }
    }
}
