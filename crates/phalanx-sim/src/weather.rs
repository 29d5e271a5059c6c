//! What a link does to all packets, its weather, and what somebody on the way does to those of one kind, the toll.

/// The weather of one directed link. Rates are per million packets, times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// The shortest delay of a packet.
    pub base_ns: u64,
    /// Bound of an additional, uniformly random delay.
    pub jitter_ns: u64,
    /// Whether later packets wait for earlier ones, as on one cable. Otherwise jitter and spikes reorder them.
    pub in_order: bool,
    /// Packets that meet a spike.
    pub spike_ppm: u32,
    /// The longest spike; drawn uniformly.
    pub spike_ns: u64,
    /// Packets lost at random.
    pub loss_ppm: u32,
    /// Begins of a burst of losses. 0: never.
    pub burst_ppm: u32,
    /// Ends of a burst, per packet inside it.
    pub burst_end_ppm: u32,
    /// Packets delivered twice.
    pub duplicate_ppm: u32,
    /// Packets delivered with flipped bits.
    pub corrupt_ppm: u32,
    /// Bandwidth in bytes per second; 0: no limit. A packet that would wait longer than [`crate::QUEUE_NS_MAX`] is dropped.
    pub rate_bytes: u64,
}

/// Effect of something on the path on the packets of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toll {
    /// Packets dropped, in a million.
    pub loss_ppm: u32,
    /// Bound of a random delay, in nanoseconds; later packets overtake.
    pub delay_ns: u64,
}

impl Weather {
    /// A good local network: 60 us and a little jitter, nothing lost.
    pub const FINE: Self = Self {
        base_ns: 60_000,
        jitter_ns: 40_000,
        in_order: true,
        spike_ppm: 0,
        spike_ns: 0,
        loss_ppm: 0,
        burst_ppm: 0,
        burst_end_ppm: 0,
        duplicate_ppm: 0,
        corrupt_ppm: 0,
        rate_bytes: 0,
    };
    /// Between two processes of one machine.
    pub const LOCAL: Self = Self { base_ns: 8_000, jitter_ns: 4_000, ..Self::FINE };

    /// Whether many packets are lost, damaged or late.
    pub(crate) fn is_rough(&self) -> bool {
        let lossy = self.loss_ppm > 1_000 || self.burst_ppm > 0 || self.corrupt_ppm > 0 || self.rate_bytes > 0;
        lossy || self.spike_ppm > 0 || self.jitter_ns > 16_000_000
    }
}
