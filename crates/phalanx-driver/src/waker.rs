//! Ends another thread's sleep, and makes the system call only when that thread sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::doze::Doze;
use crate::fork::Home;

/// Ends another thread's [`Wait::wait`](crate::Wait::wait). Cheap to clone.
///
/// Publish the work first, then wake. While the other thread is awake a wake-up is one memory fence and, the first
/// time since it last slept, one atomic swap.
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

    /// Ends the sleep, or makes the next one return at once. What the caller wrote before is seen by the other
    /// thread after it. In a forked child nothing happens: the thread that it would wake is its parent's.
    pub fn wake(&self) {
        if self.shared.home.is_here() && self.shared.doze.wake() {
            // The only failure of a write of 1 is a full counter, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
        }
    }

    /// The sleeper is about to sleep. False: it was woken since it last slept and must not.
    pub(crate) fn begin(&self) -> bool {
        self.shared.doze.begin()
    }

    /// The sleeper is awake again, or did not sleep. True: it was woken by [`Waker::wake`].
    pub(crate) fn end(&self) -> bool {
        let woken = self.shared.doze.end();
        if woken {
            // Empty already when the wake-up came before the sleep; it never blocks. A waker that has swapped
            // and not yet written leaves the descriptor readable: one empty wake-up more, never one too few.
            let mut count = [0_u8; 8];
            let _ = rustix::io::read(&self.shared.event, &mut count);
        }
        woken
    }

    /// Readable after a wake-up.
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

    /// A wake-up that is lost hangs this test.
    #[test]
    fn whoever_publishes_and_wakes_is_heard() {
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
