//! Showing packets to other processes of this user, in place: `docs/tap.md`, *In a process*.

mod attachment;
mod names;
mod reader;
pub mod ring;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use phalanx_core::member::Directory;
use phalanx_core::wire::Header;
use phalanx_core::{ClearPacket, Incarnation, MemberInfo, Origin, TrafficClass};
use phalanx_tap::{Filter, FilterError, Flags, Packet, Unbound};

use crate::fork::Home;
pub use attachment::Attachment;
use attachment::UNKNOWN;
use names::KnownNames;
pub use phalanx_tap::Form;
use reader::{Local, Reader, Shown};

/// The readers of one thread's packets.
///
/// A driver shows each packet here once for each destination. Until a reader is attached that costs one test of a flag.
#[derive(Debug)]
pub struct Tap {
    /// A forked child has the rings of its parent, not a copy, and must not write them.
    home: Home,
    shows_sealed: bool,
    shows_clear: bool,
    readers: Vec<Reader>,
    /// Indexed by [`TrafficClass`].
    locals: [Local; 2],
    names: KnownNames,
    /// Readers that a directory made impossible.
    failed: Vec<(u64, FilterError)>,
    shown: u64,
}

impl Default for Tap {
    fn default() -> Self {
        Self {
            home: Home::here(),
            shows_sealed: false,
            shows_clear: false,
            readers: Vec::new(),
            locals: [Local::new(UNKNOWN); 2],
            names: KnownNames::default(),
            failed: Vec::new(),
            shown: 0,
        }
    }
}

impl Tap {
    /// Gives the process's own record: its name, and the addresses that it advertises.
    pub fn set_own(&mut self, me: &MemberInfo) {
        self.locals = [me.data, me.control].map(Local::new);
        self.names.set_own(me);
    }

    /// Attaches a reader, which sees the next packet. Returns the names in its filter that nobody has.
    ///
    /// # Errors
    /// The filter asks for what this form does not show, or is too long. Nothing changed.
    pub fn attach(&mut self, attachment: Attachment) -> Result<Vec<Unbound>, FilterError> {
        let (mut reader, unbound) = Reader::new(attachment, &self.names)?;
        reader.tell(self.names.texts());
        self.readers.push(reader);
        self.settle();
        Ok(unbound)
    }

    /// Gives a reader another filter, from the next packet on. Returns the names in it that nobody has.
    ///
    /// # Errors
    /// As for [`Self::attach`]; the reader keeps the filter that it has.
    pub fn change(&mut self, number: u64, filter: Filter, snap: u32) -> Result<Vec<Unbound>, FilterError> {
        let reader = self.readers.iter_mut().find(|reader| reader.number() == number);
        reader.map_or_else(|| Ok(Vec::new()), |reader| reader.change(filter, snap, &self.names))
    }

    /// Detaches a reader.
    pub fn detach(&mut self, number: u64) {
        self.readers.retain(|reader| reader.number() != number);
        self.settle();
    }

    /// The numbers of the attached readers.
    pub fn readers(&self) -> impl Iterator<Item = u64> {
        self.readers.iter().map(Reader::number)
    }

    /// Readers that were detached because their filters no longer compile, since the last call.
    pub fn take_failed(&mut self) -> Vec<(u64, FilterError)> {
        std::mem::take(&mut self.failed)
    }

    /// Binds the names in filters anew, and gives the readers the names. While nobody is attached it need not be called, if
    /// it is called before somebody is.
    pub fn learn(&mut self, directory: &Directory) {
        self.names.learn(directory);
        let names = &self.names;
        let failed = &mut self.failed;
        self.readers.retain_mut(|reader| match reader.bind(names) {
            Ok(()) => true,
            Err(error) => {
                failed.push((reader.number(), error));
                false
            }
        });
        self.tell_names();
        self.settle();
    }

    /// Whether a reader is attached.
    #[inline]
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.shows_sealed | self.shows_clear
    }

    /// Gives the readers the names again: an earlier record of them may be lost.
    pub fn tell_names(&mut self) {
        let texts = self.names.texts();
        self.readers.iter_mut().for_each(|reader| reader.tell(texts));
    }

    /// Publishes how many packets the filters saw.
    pub fn publish(&self) {
        self.readers.iter().for_each(Reader::publish);
    }

    /// Passes the counters by name.
    pub fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("tap_readers", self.readers.len() as u64);
        each("tap_shown", self.shown);
    }

    fn settle(&mut self) {
        let has = |form| self.readers.iter().any(|reader| reader.form() == form);
        (self.shows_sealed, self.shows_clear) = (has(Form::Sealed), has(Form::Clear));
    }

    /// A datagram goes to each of `to`.
    #[inline]
    pub fn sent(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) {
        if self.shows_sealed {
            self.show_sent(class, to, parts);
        }
    }

    /// A datagram was received.
    #[inline]
    pub fn received(&mut self, class: TrafficClass, from: &SocketAddr, packet: &[u8]) {
        if self.shows_sealed {
            self.show_received(class, from, packet);
        }
    }

    /// A packet is to be sealed for each of `to`. `parts`: as for [`Transmit::write_shared`](crate::Transmit).
    #[inline]
    pub fn sealing(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) {
        if self.shows_clear {
            self.show_clear(class, to, parts, false);
        }
    }

    /// A packet goes through memory to `to`. `parts`: as for [`Transmit::write_shared`](crate::Transmit).
    #[inline]
    pub fn shared(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) {
        if self.is_attached() {
            self.show_shared(class, to, parts);
        }
    }

    /// A packet came through memory: its beginning, and the length of all of it.
    #[inline]
    pub fn came(&mut self, class: TrafficClass, head: &[u8], len: usize) {
        if self.shows_sealed {
            self.show_came(class, head, len);
        }
    }

    /// A packet was opened.
    #[inline]
    pub fn opened(&mut self, class: TrafficClass, origin: Origin, packet: &ClearPacket<'_>) {
        if self.shows_clear {
            self.show_opened(class, origin, packet);
        }
    }

    /// A handshake is to be sealed for `to`.
    #[inline]
    pub fn handshake(&mut self, class: TrafficClass, to: SocketAddr, packet: &ClearPacket<'_>) {
        if self.shows_clear {
            self.show_whole(flags(class).sent(), &to, packet, class);
        }
    }

    #[inline(never)]
    fn show_sent(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3]) {
        for peer in to {
            let mut packet = Packet::new(&[], parts).flagged(flags(class).sent());
            self.show(Form::Sealed, class, peer, &mut packet, Incarnation::NONE);
        }
    }

    #[inline(never)]
    fn show_received(&mut self, class: TrafficClass, from: &SocketAddr, packet: &[u8]) {
        let mut packet = Packet::new(&[], [packet, &[], &[]]).flagged(flags(class));
        self.show(Form::Sealed, class, from, &mut packet, Incarnation::NONE);
    }

    #[cold]
    #[inline(never)]
    fn show_clear(&mut self, class: TrafficClass, to: &[SocketAddr], parts: [&[u8]; 3], is_memory: bool) {
        let [head, frames, rest] = parts;
        let Some((header, dest)) = head.split_at_checked(Header::LEN) else { return };
        let dest = dest.first_chunk().map_or(Incarnation::NONE, |dest| Incarnation(u64::from_le_bytes(*dest)));
        let flags = if is_memory { flags(class).sent().through_memory() } else { flags(class).sent() };
        for peer in to {
            let mut packet = Packet::new(&[], [header, frames, rest]).flagged(flags);
            self.show(Form::Clear, class, peer, &mut packet, dest);
        }
    }

    #[cold]
    #[inline(never)]
    fn show_shared(&mut self, class: TrafficClass, to: SocketAddr, parts: [&[u8]; 3]) {
        if self.shows_clear {
            self.show_clear(class, &[to], parts, true);
        }
        if self.shows_sealed {
            let len = parts.iter().map(|part| part.len()).sum();
            self.show_header(flags(class).sent().through_memory(), &to, parts[0], len, class);
        }
    }

    #[cold]
    #[inline(never)]
    fn show_came(&mut self, class: TrafficClass, head: &[u8], len: usize) {
        self.show_header(flags(class).through_memory(), &UNKNOWN, head, len, class);
    }

    /// What is sealed shows no more than the header of what goes through memory. `len`: with the destination, which is no
    /// part of the packet.
    fn show_header(&mut self, flags: Flags, peer: &SocketAddr, head: &[u8], len: usize, class: TrafficClass) {
        let header = head.get(..Header::LEN).unwrap_or(head);
        let packet = Packet::new(&[], [header, &[], &[]]).of_len(length(len.saturating_sub(DEST_BYTES)));
        self.show(Form::Sealed, class, peer, &mut packet.flagged(flags), Incarnation::NONE);
    }

    #[cold]
    #[inline(never)]
    fn show_whole(&mut self, flags: Flags, peer: &SocketAddr, clear: &ClearPacket<'_>, class: TrafficClass) {
        let header = clear.header.to_bytes();
        let len = header.len().saturating_add(clear.frames_bytes);
        let packet = Packet::new(&[], [&header, clear.frames, &[]]).of_len(length(len));
        self.show(Form::Clear, class, peer, &mut packet.flagged(flags), clear.to);
    }

    #[cold]
    #[inline(never)]
    fn show_opened(&mut self, class: TrafficClass, origin: Origin, packet: &ClearPacket<'_>) {
        match origin {
            Origin::Network(from) => self.show_whole(flags(class), &from, packet, class),
            Origin::Memory => self.show_whole(flags(class).through_memory(), &UNKNOWN, packet, class),
        }
    }

    #[inline]
    fn show(&mut self, form: Form, class: TrafficClass, peer: &SocketAddr, packet: &mut Packet<'_>, to: Incarnation) {
        if !self.home.is_here() {
            return;
        }
        let mut shown = Shown { packet, local: &self.locals[class as usize], peer, to };
        for reader in &mut self.readers {
            if reader.form() == form {
                self.shown += u64::from(reader.show(&mut shown));
            }
        }
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn flags(class: TrafficClass) -> Flags {
    match class {
        TrafficClass::Data => Flags::new(),
        TrafficClass::Control => Flags::new().control(),
    }
}

/// The destination stands behind the header of a packet in memory.
const DEST_BYTES: usize = 8;
