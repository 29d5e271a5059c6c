//! The other ends of sessions that are on this host: reached through shared memory, as members are.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use phalanx_core::Incarnation;
use phalanx_driver::Wait;
use phalanx_driver::shm::{Offer, Peer};

use crate::local::host;

/// Endpoints with which there are sessions.
#[derive(Debug)]
pub(super) struct Nearby {
    host: u64,
    /// Endpoints of this host: where each is, and how many sessions there are with it.
    sessions: BTreeMap<Incarnation, (SocketAddr, usize)>,
    /// What the driver has not been told.
    news: Vec<News>,
}

#[derive(Debug)]
enum News {
    Met(Peer),
    Parted(u64),
}

impl Nearby {
    pub(super) fn new() -> Self {
        Self { host: host::host_id(), sessions: BTreeMap::new(), news: Vec::new() }
    }

    /// What the other side of a session is told: the host in the sense of [`host::host_id`], and where on it the memory is.
    pub(super) fn describe(&self, offer: Option<Offer>) -> Vec<u8> {
        let Some(Offer { pid, memory, knock }) = offer.filter(|_| self.host != 0) else { return Vec::new() };
        let mut told = self.host.to_le_bytes().to_vec();
        for number in [pid, memory, knock] {
            told.extend_from_slice(&number.to_le_bytes());
        }
        told
    }

    /// A session is open; see [`phalanx_core::rpc::CallEffects::met`].
    pub(super) fn met(&mut self, peer: Incarnation, at: SocketAddr, told: &[u8]) {
        let Some(offer) = self.read(told) else { return };
        // An address belongs to the latest life there: nothing is written for those before.
        self.sessions.retain(|known, (address, _)| {
            let stays = *known == peer || *address != at;
            if !stays {
                self.news.push(News::Parted(known.0));
            }
            stays
        });
        let (_, sessions) = self.sessions.entry(peer).or_insert((at, 0));
        *sessions += 1;
        if *sessions == 1 {
            self.news.push(News::Met(Peer { offer, token: peer.0, data: at, control: at }));
        }
    }

    pub(super) fn parted(&mut self, peer: Incarnation) {
        let Some((_, sessions)) = self.sessions.get_mut(&peer) else { return };
        *sessions -= 1;
        if *sessions == 0 {
            self.sessions.remove(&peer);
            self.news.push(News::Parted(peer.0));
        }
    }

    /// Where the memory of a process of this host is; `None`: it is elsewhere, or has none.
    fn read(&self, told: &[u8]) -> Option<Offer> {
        let (host, numbers) = told.split_first_chunk::<8>()?;
        if self.host == 0 || u64::from_le_bytes(*host) != self.host {
            return None;
        }
        let (numbers, _) = numbers.as_chunks::<4>();
        let [pid, memory, knock] = numbers else { return None };
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        Some(Offer { pid: number(pid), memory: number(memory), knock: number(knock) })
    }

    /// Tells the driver what happened. Whoever cannot be attached is reached by datagrams, as its driver counts.
    pub(super) fn tell(&mut self, driver: &mut impl Wait) {
        if self.news.is_empty() {
            return;
        }
        let Some(driver) = driver.neighbours() else { return self.news.clear() };
        for news in self.news.drain(..) {
            match news {
                News::Met(peer) => drop(driver.attach(&peer)),
                News::Parted(token) => driver.detach(token),
            }
        }
    }
}
