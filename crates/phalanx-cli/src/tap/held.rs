//! Packets that wait until those of other processes with earlier times are here.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx_runtime::tap::Form;
use phalanx_tap::capture::Seen;

/// Packets in the order of their times; of one time in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Held {
    packets: BTreeMap<(Duration, u64), Packet>,
    next: u64,
    /// The packet that was given last.
    given: Option<Packet>,
}

#[derive(Debug)]
struct Packet {
    pid: u32,
    form: Form,
    /// Without its bytes.
    seen: Seen<'static>,
    bytes: Vec<u8>,
    /// Where its second and its third part begin.
    cuts: [usize; 2],
}

impl Held {
    pub(super) fn add(&mut self, pid: u32, seen: &Seen<'_>, form: Form) {
        let [a, b, _] = seen.parts;
        let Seen { time, is_sent, class, is_memory, local, peer, to, packet_bytes, snap, missed, .. } = *seen;
        let empty = Seen::new(time, local, peer, [&[]; 3]);
        let empty = Seen { is_sent, class, is_memory, to, packet_bytes, snap, missed, ..empty };
        let cuts = [a.len(), a.len() + b.len()];
        self.packets.insert((time, self.next), Packet { pid, form, seen: empty, bytes: seen.parts.concat(), cuts });
        self.next += 1;
    }

    /// The next packet up to that time: of which process, what it is, and how it is shown.
    pub(super) fn next(&mut self, to: Duration) -> Option<(u32, Seen<'_>, Form)> {
        let first = self.packets.first_entry().filter(|first| first.key().0 <= to)?;
        let Packet { pid, form, seen, bytes, cuts: [a, b] } = self.given.insert(first.remove());
        let parts = [&bytes[..*a], &bytes[*a..*b], &bytes[*b..]];
        Some((*pid, Seen { parts, ..*seen }, *form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_several_processes_come_in_the_order_of_their_times() {
        let at = "10.0.0.1:7000".parse().expect("an address");
        let mut held = Held::default();
        for (pid, millis) in [(1, 3), (1, 5), (2, 1), (2, 3), (2, 9)] {
            let seen = Seen::new(Duration::from_millis(millis), at, at, [&[1, 2], &[3], &[4, 5]]);
            held.add(pid, &Seen { missed: 7, is_sent: true, packet_bytes: 70, ..seen }, Form::Clear);
        }
        let mut come = Vec::new();
        while let Some((pid, seen, form)) = held.next(Duration::from_millis(5)) {
            assert_eq!((seen.parts, form), ([&[1, 2][..], &[3], &[4, 5]], Form::Clear));
            assert_eq!((seen.missed, seen.is_sent, seen.packet_bytes), (7, true, 70));
            come.push((pid, seen.time.as_millis()));
        }
        assert_eq!(come, [(2, 1), (1, 3), (2, 3), (1, 5)]);
        assert!(held.next(Duration::MAX).is_some() && held.next(Duration::MAX).is_none());
    }
}
