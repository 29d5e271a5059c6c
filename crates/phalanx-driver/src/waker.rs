//! Ends another thread's sleep. Makes a system call only if that thread sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::doze::Doze;
use crate::fork::Home;

/// Ends another thread's [`Wait::wait`](crate::Wait::wait). Cheap to clone.
///
/// Publish the work first, then wake. While the other thread is awake, a wake-up costs one memory fence and, the first
/// time since its last sleep, one atomic swap.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    event: OwnedFd,
    doze: Doze,
    home: Home,
}

impl Waker {
    /// A waker for one sleeping thread.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { shared: Arc::new(Shared { event, doze: Doze::new(), home: Home::here() }) })
    }

    /// Ends the sleep, or makes the next one return at once. The woken thread sees everything the caller wrote before.
    /// In a forked child nothing happens, because the thread to wake belongs to the parent.
    pub fn wake(&self) {
        if self.shared.home.is_here() && self.shared.doze.wake() {
            // The only failure of a write of 1 is a full counter, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
        }
    }

    /// Marks the owner as about to sleep. False: it was woken since its last sleep and must not sleep.
    pub(crate) fn begin(&self) -> bool {
        self.shared.doze.begin()
    }

    /// Marks the owner as awake. True: [`Waker::wake`] was called since [`Self::begin`] or before it.
    pub(crate) fn end(&self) -> bool {
        let woken = self.shared.doze.end();
        if woken {
            // The descriptor is empty if the wake-up came before the sleep; reading it never blocks. A waker that has
            // swapped the state and not yet written leaves the descriptor readable afterwards. That causes one spurious
            // wake-up, never a lost one.
            let mut count = [0_u8; 8];
            let _ = rustix::io::read(&self.shared.event, &mut count);
        }
        woken
    }

    /// The descriptor to watch: readable after a wake-up.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use crate::driver::Wait;
    use crate::udp::{Udp, UdpOptions};

    /// A lost wake-up hangs this test.
    #[test]
    fn work_published_before_a_wake_up_is_seen() {
        let mut driver = Udp::bind(&UdpOptions::default()).expect("loopback has free ports");
        let published = AtomicU64::new(0);
        let wakers = [driver.waker(), driver.waker()];
        thread::scope(|scope| {
            for waker in wakers {
                let published = &published;
                scope.spawn(move || {
                    for i in 0..20_000 {
                        published.fetch_add(1, Ordering::Relaxed);
                        waker.wake();
                        if i % 64 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
            while published.load(Ordering::Relaxed) < 40_000 {
                driver.wait(None, &[]).expect("waiting works");
            }
        });
    }
}
