//! Peers of sessions on this host, which are reached through shared memory as members are.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_core::Incarnation;
use phalanx_driver::Wait;
use phalanx_driver::shm::{Offer, Peer};

use crate::local::host;

/// Endpoints with open sessions.
#[derive(Debug)]
pub(super) struct Nearby {
    host: u64,
    /// Endpoints of this host.
    known: BTreeMap<Incarnation, Known>,
    /// Changes that the driver does not know yet.
    news: Vec<News>,
}

#[derive(Debug)]
struct Known {
    at: SocketAddr,
    sessions: usize,
    /// Whether it is attached. A peer met later at the same address replaces it, because that one is taken to live
    /// there now; a late packet may reverse that.
    attached: bool,
}

#[derive(Debug)]
enum News {
    Opened(Peer),
    Closed(u64),
}

impl Nearby {
    pub(super) fn new() -> Self {
        Self { host: host::host_id(), known: BTreeMap::new(), news: Vec::new() }
    }

    /// What the other side of a session learns: the host in the sense of [`host::host_id`], and where on it the memory
    /// is.
    pub(super) fn describe(&self, offer: Option<Offer>) -> Vec<u8> {
        let Some(Offer { pid, memory, doorbell }) = offer.filter(|_| self.host != 0) else { return Vec::new() };
        let mut described = self.host.to_le_bytes().to_vec();
        for number in [pid, memory, doorbell] {
            described.extend_from_slice(&number.to_le_bytes());
        }
        described
    }

    /// Records an opened session; see [`phalanx_core::rpc::CallEffects::session_opened`].
    pub(super) fn session_opened(&mut self, peer: Incarnation, at: SocketAddr, described: &[u8]) {
        let Some(offer) = self.read(described) else { return };
        // An address belongs to the latest incarnation there, so earlier ones are detached and nothing is written for
        // them.
        for (incarnation, known) in &mut self.known {
            if known.attached && *incarnation != peer && known.at == at {
                known.attached = false;
                self.news.push(News::Closed(incarnation.0));
            }
        }
        let known = self.known.entry(peer).or_insert(Known { at, sessions: 0, attached: false });
        known.sessions += 1;
        if !known.attached {
            known.attached = true;
            self.news.push(News::Opened(Peer { offer, token: peer.0, data: at, control: at }));
        }
    }

    pub(super) fn session_closed(&mut self, peer: Incarnation) {
        let Some(known) = self.known.get_mut(&peer) else { return };
        known.sessions -= 1;
        if known.sessions == 0 {
            if known.attached {
                self.news.push(News::Closed(peer.0));
            }
            self.known.remove(&peer);
        }
    }

    /// Where the memory of a process of this host is; `None`: the process is on another host, or shares none.
    fn read(&self, described: &[u8]) -> Option<Offer> {
        let (host, numbers) = described.split_first_chunk::<8>()?;
        if self.host == 0 || u64::from_le_bytes(*host) != self.host {
            return None;
        }
        let (numbers, _) = numbers.as_chunks::<4>();
        let [pid, memory, doorbell] = numbers else { return None };
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        Some(Offer { pid: number(pid), memory: number(memory), doorbell: number(doorbell) })
    }

    /// Passes the changes to the driver. A peer that cannot be attached is reached by datagrams; the driver counts
    /// that.
    pub(super) fn tell(&mut self, driver: &mut impl Wait) {
        if self.news.is_empty() {
            return;
        }
        let Some(driver) = driver.neighbours() else { return self.news.clear() };
        for news in self.news.drain(..) {
            match news {
                News::Opened(peer) => drop(driver.attach(&peer)),
                News::Closed(token) => driver.detach(token),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(nearby: &mut Nearby) -> Vec<(&'static str, u64)> {
        let described = nearby.news.drain(..).map(|news| match news {
            News::Opened(peer) => ("opened", peer.token),
            News::Closed(token) => ("closed", token),
        });
        described.collect()
    }

    #[test]
    fn a_peer_displaced_by_an_earlier_incarnation_is_attached_until_its_last_session_ends() {
        let mut nearby = Nearby { host: 7, ..Nearby::new() };
        let described = nearby.describe(Some(Offer { pid: 1, memory: 2, doorbell: 3 }));
        let at = SocketAddr::from(([127, 0, 0, 1], 9));
        let (earlier, lives) = (Incarnation(1), Incarnation(2));
        nearby.session_opened(lives, at, &described);
        assert_eq!(changes(&mut nearby), [("opened", 2)]);
        // A packet of the earlier incarnation there arrived late.
        nearby.session_opened(earlier, at, &described);
        assert_eq!(changes(&mut nearby), [("closed", 2), ("opened", 1)]);
        nearby.session_opened(lives, at, &described);
        assert_eq!(changes(&mut nearby), [("closed", 1), ("opened", 2)]);
        nearby.session_closed(lives);
        nearby.session_closed(earlier);
        assert_eq!(changes(&mut nearby), [], "a session with it is open");
        nearby.session_closed(lives);
        assert_eq!(changes(&mut nearby), [("closed", 2)]);
        nearby.session_closed(lives);
        assert_eq!(changes(&mut nearby), [], "nothing is known of it");
    }
}
