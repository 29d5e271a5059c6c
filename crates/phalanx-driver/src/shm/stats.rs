//! Counts what went through memory.

/// What happened on the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentStats {
    /// Packets written, each once, whatever the number of readers.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// System calls that ended another process's sleep.
    pub doorbells: u64,
}

/// What happened on the receiving side, and between the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets handed up.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Times a writer had come round before this process had read: all that waited was lost, and is retransmitted.
    pub overruns: u64,
    /// Writers that wrote what no writer of ours writes; they are not read any more.
    pub broken: u64,
    /// Sleeps of this process that another one ended.
    pub wakes: u64,
    /// Sleeps that were not begun, because the next long packet came before.
    pub lingered: u64,
    /// Processes whose memory could not be opened, because the system refused.
    pub refused_system: u64,
    /// Because it was not sealed.
    pub refused_seals: u64,
    /// Because it was laid out in another way.
    pub refused_layout: u64,
    /// Because it spoke for another life.
    pub refused_incarnation: u64,
    /// Because there was no room for one more.
    pub refused_full: u64,
}

impl SentStats {
    pub(super) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("shm_sent", self.packets);
        each("shm_sent_bytes", self.bytes);
        each("shm_knocks", self.doorbells);
    }
}

impl LinkStats {
    pub(super) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("shm_received", self.received);
        each("shm_received_bytes", self.received_bytes);
        each("shm_overruns", self.overruns);
        each("shm_broken", self.broken);
        each("shm_wakes", self.wakes);
        each("shm_lingered", self.lingered);
        each("shm_refused_system", self.refused_system);
        each("shm_refused_seals", self.refused_seals);
        each("shm_refused_layout", self.refused_layout);
        each("shm_refused_life", self.refused_incarnation);
        each("shm_refused_full", self.refused_full);
    }
}
