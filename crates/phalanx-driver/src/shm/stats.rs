//! Counters of the traffic through memory.

/// Counters of the sending side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentStats {
    /// Packets written; each counts once, however many read it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// System calls made to end another process's sleep.
    pub doorbells: u64,
}

/// Counters of the receiving side, and of attachments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets handed up.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Times a writer overtook this process: all unread packets of that ring were lost, and are retransmitted.
    pub overruns: u64,
    /// Writers whose records no correct writer makes; their rings are not read any more.
    pub broken: u64,
    /// Sleeps of this process that another process ended.
    pub wakes: u64,
    /// Sleeps that were spared because the next long packet arrived first.
    pub lingered: u64,
    /// Attachments that failed because the system refused to open the memory.
    pub refused_system: u64,
    /// Attachments that failed because the memory was not sealed.
    pub refused_seals: u64,
    /// Attachments that failed because of another layout.
    pub refused_layout: u64,
    /// Attachments that failed because the memory belonged to another incarnation.
    pub refused_incarnation: u64,
    /// Attachments that failed because no index was free.
    pub refused_full: u64,
}

impl SentStats {
    pub(super) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("shm_sent", self.packets);
        each("shm_sent_bytes", self.bytes);
        each("shm_doorbells", self.doorbells);
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
        each("shm_refused_incarnation", self.refused_incarnation);
        each("shm_refused_full", self.refused_full);
    }
}
