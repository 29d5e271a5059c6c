//! The processor's counter of cycles, fenced, and what throws memory out of its caches. Elsewhere than on x86-64 the
//! monotonic clock counts, and nothing is evicted.

use std::time::{Duration, Instant};

/// How fast the counter runs, and what a bracket around nothing shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Steps of the counter in a nanosecond.
    pub(crate) per_ns: f64,
    /// The least difference above 0 between two readings, in steps.
    pub(crate) least_step: u64,
}

impl Clock {
    /// Compares the counter with the monotonic clock for 20 ms.
    pub(crate) fn calibrated() -> Self {
        let (start, first) = (Instant::now(), before());
        let mut least_step = u64::MAX;
        while start.elapsed() < Duration::from_millis(20) {
            let (a, b) = (before(), after());
            let (c, d) = (before(), after());
            // Two brackets around nothing differ by what the counter can tell apart.
            let difference = b.wrapping_sub(a).abs_diff(d.wrapping_sub(c));
            least_step = least_step.min(if difference == 0 { u64::MAX } else { difference });
        }
        let (time, last) = (start.elapsed(), after());
        let per_ns = last.wrapping_sub(first) as f64 / time.as_nanos() as f64;
        Self { per_ns, least_step: if least_step == u64::MAX { 1 } else { least_step } }
    }

    pub(crate) fn nanos(&self, steps: f64) -> f64 {
        steps / self.per_ns
    }

    pub(crate) fn steps(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 * self.per_ns) as u64
    }
}

/// Reads the counter once all earlier instructions have ended, and before any later one begins.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn before() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: SSE2, which has the instruction, is part of x86-64.
    unsafe { _mm_lfence() };
    // SAFETY: every x86-64 processor has the instruction. Linux lets user programs execute it unless a process asks for
    // the opposite (`PR_SET_TSC`), which nothing here does.
    let count = unsafe { _rdtsc() };
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    count
}

/// Reads the counter once all earlier instructions have ended, and before any later one begins.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn after() -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence};
    let mut processor = 0;
    // SAFETY: `processor` is valid for the write. Processors of the last fifteen years have the instruction; an older
    // one ends the program with a signal, and nothing was changed.
    let count = unsafe { __rdtscp(&raw mut processor) };
    // SAFETY: SSE2, which has the instruction, is part of x86-64.
    unsafe { _mm_lfence() };
    count
}

/// Throws bytes out of all caches.
#[cfg(target_arch = "x86_64")]
pub(crate) fn evict(bytes: &[u8]) {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in bytes.chunks(LINE_BYTES).chain(bytes.last().map(std::slice::from_ref)) {
        // SAFETY: the address is that of a byte of `bytes`, so it is mapped. The instruction changes no memory.
        unsafe { _mm_clflush(line.as_ptr()) };
    }
    // SAFETY: SSE2, which has the instruction, is part of x86-64.
    unsafe { _mm_mfence() };
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn before() -> u64 {
    use std::sync::LazyLock;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn after() -> u64 {
    before()
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn evict(_bytes: &[u8]) {}

/// Whether the counter is that of cycles, and [`evict`] evicts.
pub(crate) const IS_HARDWARE: bool = cfg!(target_arch = "x86_64");

/// Whether the counter keeps its speed while the processor changes its own, or sleeps. Unknown counts as true.
pub(crate) fn is_steady() -> bool {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = facts.lines().filter(|line| line.starts_with("flags"));
    flags.next().is_none_or(|flags| ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.contains(flag)))
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_on() {
        let clock = Clock::calibrated();
        let (first, start, time) = (before(), Instant::now(), Duration::from_millis(2));
        while start.elapsed() < time {}
        let passed = after() - first;
        assert!(passed > clock.steps(time) / 2, "{passed} steps, {clock:?}");
        assert!(clock.least_step > 0 && clock.nanos(clock.per_ns) == 1.0);
    }

    #[test]
    fn evicted_bytes_are_what_they_were() {
        let bytes: Vec<u8> = (0..200).collect();
        evict(&bytes[3..]);
        evict(&[]);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }
}
