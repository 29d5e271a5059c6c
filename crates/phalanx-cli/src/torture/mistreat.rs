//! Effects of one directed link on a frame. They depend only on a seeded generator and the link's own state.

use phalanx_runtime::core::rng::Rng;

const MS: u64 = 1_000_000;

/// The faults of a link. The default passes everything at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mistreatment {
    /// Delay of every frame.
    pub(super) delay_ns: u64,
    /// Bound of an additional random delay.
    pub(super) jitter_ns: u64,
    /// Frames in a million that are held for a further `reorder_ns`, so that others overtake them.
    pub(super) reorder_ppm: u32,
    pub(super) reorder_ns: u64,
    /// Frames in a million that are duplicated, up to `again_ns` later.
    pub(super) again_ppm: u32,
    pub(super) again_ns: u64,
    /// Frames in a million in which one bit is flipped.
    pub(super) corrupt_ppm: u32,
    /// Bandwidth in bytes per second; 0: no limit.
    pub(super) rate: u64,
    /// The longest wait in the queue. A frame that would wait longer is lost.
    pub(super) queue_ns: u64,
    /// Frames in a million that begin a burst of losses, and frames within a burst in a million that end it.
    pub(super) burst_begins_ppm: u32,
    pub(super) burst_ends_ppm: u32,
}

impl Mistreatment {
    pub(super) const DELAY: Self = Self { delay_ns: 20 * MS, ..Self::NONE };
    pub(super) const JITTER: Self = Self { jitter_ns: 60 * MS, ..Self::NONE };
    pub(super) const REORDER: Self = Self { reorder_ppm: 100_000, reorder_ns: 30 * MS, ..Self::NONE };
    pub(super) const AGAIN: Self = Self { again_ppm: 200_000, again_ns: 2_000 * MS, ..Self::NONE };
    pub(super) const CORRUPT: Self = Self { corrupt_ppm: 200_000, ..Self::NONE };
    pub(super) const NARROW: Self = Self { rate: 64_000, queue_ns: 1_000 * MS, ..Self::NONE };
    pub(super) const BURSTS: Self = Self { burst_begins_ppm: 20_000, burst_ends_ppm: 100_000, ..Self::NONE };
    const NONE: Self = Self {
        delay_ns: 0,
        jitter_ns: 0,
        reorder_ppm: 0,
        reorder_ns: 0,
        again_ppm: 0,
        again_ns: 0,
        corrupt_ppm: 0,
        rate: 0,
        queue_ns: 0,
        burst_begins_ppm: 0,
        burst_ends_ppm: 0,
    };
}

/// State of a link from frame to frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// Time at which the link has sent the last accepted frame.
    free_ns: u64,
    in_burst: bool,
}

/// One arrival of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) at_ns: u64,
    /// The bit to flip, counted in the payload, modulo its length.
    pub(super) flip: Option<u64>,
}

impl Link {
    /// The arrivals of a frame that enters at `now_ns`: none, one or two.
    pub(super) fn pass(&mut self, now_ns: u64, len_bytes: usize, how: &Mistreatment, rng: &mut Rng) -> Vec<Copy> {
        if self.lost_in_burst(how, rng) {
            return Vec::new();
        }
        let Some(through_ns) = self.squeeze(now_ns, len_bytes, how) else { return Vec::new() };
        let mut at_ns = through_ns + how.delay_ns + rng.below(how.jitter_ns);
        if rng.chance_ppm(how.reorder_ppm) {
            at_ns += how.reorder_ns;
        }
        let flip = rng.chance_ppm(how.corrupt_ppm).then(|| rng.next_u64());
        let mut copies = vec![Copy { at_ns, flip }];
        if rng.chance_ppm(how.again_ppm) {
            copies.push(Copy { at_ns: at_ns + 1 + rng.below(how.again_ns), flip: None });
        }
        copies
    }

    /// Burst losses after Gilbert's model: a good state that loses nothing and a bad one that loses everything.
    fn lost_in_burst(&mut self, how: &Mistreatment, rng: &mut Rng) -> bool {
        let turns = if self.in_burst { how.burst_ends_ppm } else { how.burst_begins_ppm };
        if how.burst_begins_ppm == 0 {
            self.in_burst = false;
        } else if rng.chance_ppm(turns) {
            self.in_burst = !self.in_burst;
        }
        self.in_burst
    }

    /// Time at which the frame has passed a link of that rate. `None`: the queue is too long.
    fn squeeze(&mut self, now_ns: u64, len_bytes: usize, how: &Mistreatment) -> Option<u64> {
        if how.rate == 0 {
            return Some(now_ns);
        }
        let begins_ns = self.free_ns.max(now_ns);
        if begins_ns - now_ns > how.queue_ns {
            return None;
        }
        self.free_ns = begins_ns + len_bytes as u64 * 1_000_000_000 / how.rate;
        Some(self.free_ns)
    }
}

/// Where the parts of a datagram begin in its frame.
struct DatagramOffsets {
    /// The UDP header.
    header: usize,
    /// What follows it.
    data: usize,
}

/// Looks into a frame; `None` unless it is an unfragmented UDP datagram over IPv4.
fn udp(frame: &[u8]) -> Option<DatagramOffsets> {
    let ip = frame.get(14..34)?;
    let plain = frame.get(12..14)? == [8, 0] && ip[9] == 17 && u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
    let header = 14 + usize::from(ip[0] & 15) * 4;
    (plain && frame.len() > header + 8).then_some(DatagramOffsets { header, data: header + 8 })
}

/// Whether the frame is a datagram. Only these are mistreated: without ARP the healthy direction of a link would fail
/// with the cut one.
pub(super) fn is_datagram(frame: &[u8]) -> bool {
    udp(frame).is_some()
}

/// Flips one bit of a datagram. Every other time it removes the checksum, so that the damage reaches the program and is
/// not dropped by the kernel.
pub(super) fn flip(frame: &mut [u8], bit: u64) {
    let Some(DatagramOffsets { header, data }) = udp(frame) else { return };
    let bits = (frame.len() - data) as u64 * 8;
    let at = bit % bits;
    frame[data + usize::try_from(at / 8).unwrap_or(0)] ^= 1 << (at % 8);
    if bit >> 63 == 0 {
        frame[header + 6..header + 8].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(how: &Mistreatment, frames: u64, gap_ns: u64) -> Vec<Vec<Copy>> {
        let (mut link, mut rng) = (Link::default(), Rng::new(1));
        (0..frames).map(|n| link.pass(n * gap_ns, 1_000, how, &mut rng)).collect()
    }

    #[test]
    fn nothing_is_done_without_a_reason() {
        let all = passed(&Mistreatment::default(), 100, MS);
        assert!(all.iter().enumerate().all(|(n, c)| *c == [Copy { at_ns: n as u64 * MS, flip: None }]));
    }

    #[test]
    fn the_same_seed_does_the_same() {
        assert_eq!(passed(&Mistreatment::JITTER, 100, MS), passed(&Mistreatment::JITTER, 100, MS));
    }

    #[test]
    fn held_frames_are_overtaken_and_come_again() {
        let firsts: Vec<u64> = passed(&Mistreatment::REORDER, 1_000, MS).iter().map(|c| c[0].at_ns).collect();
        let overtaken = firsts.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((50..150).contains(&overtaken), "{overtaken}");
        let twice = passed(&Mistreatment::AGAIN, 1_000, MS).iter().filter(|c| c.len() == 2).count();
        assert!((150..250).contains(&twice), "{twice}");
    }

    #[test]
    fn a_narrow_link_queues_and_then_loses() {
        // A thousand bytes arrive every millisecond, and 64 may pass.
        let all = passed(&Mistreatment::NARROW, 2_000, MS);
        let through = all.iter().filter(|c| !c.is_empty()).count();
        assert!((180..210).contains(&through), "two seconds of 64 frames, and a queue of one: {through}");
        let longest = all.iter().enumerate().filter_map(|(n, c)| Some(c.first()?.at_ns - n as u64 * MS)).max();
        assert!(longest > Some(900 * MS) && longest < Some(1_100 * MS));
    }

    #[test]
    fn losses_come_in_bursts() {
        let lost: Vec<bool> = passed(&Mistreatment::BURSTS, 20_000, MS).iter().map(Vec::is_empty).collect();
        let (count, begins) = (lost.iter().filter(|l| **l).count(), lost.windows(2).filter(|p| !p[0] && p[1]).count());
        assert!((2_400..4_200).contains(&count), "{count}");
        assert!(count / begins >= 7, "{begins} bursts");
    }

    #[test]
    fn one_bit_of_a_datagram_flips_and_nothing_of_others() {
        let mut frame = vec![0; 60];
        frame[12] = 8;
        (frame[14], frame[23], frame[40]) = (0x45, 17, 9);
        let before = frame.clone();
        // The payload has 18 bytes. Numbers with the highest bit set leave the checksum.
        flip(&mut frame, (1_u64 << 63).next_multiple_of(18 * 8) + 5);
        assert_eq!(frame[42], before[42] ^ 32);
        assert_eq!(frame[40], 9, "the checksum stays");
        flip(&mut frame, 5);
        assert_eq!((frame[42], frame[40]), (before[42], 0));
        let mut arp = vec![0; 60];
        arp[13] = 6;
        flip(&mut arp, 5);
        assert!(arp.iter().filter(|b| **b != 0).count() == 1 && !is_datagram(&arp));
    }
}
