//! One reader: its programs and its ring.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use phalanx_core::Incarnation;
use phalanx_core::wire::{Header, Kind};
use phalanx_tap::{
    ClearPreamble, Compiled, Filter, FilterError, Flags, Form, Layout, Names, Packet, Program, Summary, UdpPreamble,
    Unbound,
};

use super::attachment::{Attachment, UNKNOWN};
use super::ring::{RecordHeader, RecordKind, RingWriter};

/// A packet on its way to the readers.
pub(super) struct Shown<'a, 'p> {
    /// Its preamble depends on what a reader's program reads. Borrowed, because a copy made right after it was written costs
    /// more than all else here.
    pub(super) packet: &'a mut Packet<'p>,
    /// The address of this end.
    pub(super) local: &'a Local,
    /// The address of the other end.
    pub(super) peer: &'a SocketAddr,
    /// The incarnation that it is sealed for.
    pub(super) to: Incarnation,
}

/// An address of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    address: SocketAddr,
    is_ipv4: bool,
}

impl Local {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, is_ipv4: is_ipv4(&address) }
    }
}

impl Shown<'_, '_> {
    #[inline]
    fn verdict(&mut self, bound: &Bound) -> u32 {
        if bound.reads_preamble {
            return self.verdict_with_preamble(bound);
        }
        self.packet.put_behind(bound.blank);
        bound.program.run(self.packet)
    }

    #[inline(never)]
    fn verdict_with_preamble(&self, bound: &Bound) -> u32 {
        let run = |preamble: &[u8]| {
            let mut packet = *self.packet;
            packet.put_behind(preamble);
            bound.program.run(&packet)
        };
        if bound.layout.is_clear() {
            return run(ClearPreamble::new(self.to, &self.summary()).bytes());
        }
        let is_sent = self.packet.flags().bits() & Flags::new().sent().bits() != 0;
        let (local, peer) = (self.local.address, *self.peer);
        let (from, to) = if is_sent { (local, peer) } else { (peer, local) };
        let payload_bytes = usize::try_from(self.packet.own_len()).unwrap_or(usize::MAX);
        run(UdpPreamble::new(from, to, payload_bytes).bytes())
    }

    /// What its frames are. Of a packet of which not all is here: what is here.
    fn summary(&self) -> Summary {
        let [header, frames, _] = self.packet.parts();
        let kind = Header::parse(header).map(|header| header.kind);
        kind.map_or_else(|_| Summary::new(), |kind: Kind| Summary::of(kind, frames))
    }
}

/// The longest preamble, that of IPv6.
const PREAMBLE_BYTES_MAX: usize = Layout::Ipv6.preamble_bytes() as usize;

/// A program for one layout.
#[derive(Debug)]
struct Bound {
    layout: Layout,
    program: Program,
    reads_preamble: bool,
    /// What stands for a preamble that the program does not read.
    blank: &'static [u8],
}

/// A reader that is attached.
#[derive(Debug)]
pub(super) struct Reader {
    number: u64,
    filter: Filter,
    form: Form,
    snap: u32,
    /// For packets in clear the only one. For sealed ones that of IPv4, then that of IPv6.
    bound: Vec<Bound>,
    ring: RingWriter,
    seen: u64,
    matched: u64,
}

impl Reader {
    pub(super) fn new(attachment: Attachment, names: &dyn Names) -> Result<(Self, Vec<Unbound>), FilterError> {
        let Attachment { number, filter, form, snap, ring } = attachment;
        let (bound, unbound) = compiled(&filter, form, snap, names)?;
        Ok((Self { number, filter, form, snap, bound, ring, seen: 0, matched: 0 }, unbound))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn change(&mut self, filter: Filter, snap: u32, names: &dyn Names) -> Result<Vec<Unbound>, FilterError> {
        let (bound, unbound) = compiled(&filter, self.form, snap, names)?;
        (self.filter, self.snap, self.bound) = (filter, snap, bound);
        Ok(unbound)
    }

    /// Compiles the filter with what names stand for now.
    pub(super) fn bind(&mut self, names: &dyn Names) -> Result<(), FilterError> {
        self.bound = compiled(&self.filter, self.form, self.snap, names)?.0;
        Ok(())
    }

    /// Runs the filter on a packet. Returns whether the reader gets it.
    #[inline]
    pub(super) fn show(&mut self, shown: &mut Shown<'_, '_>) -> bool {
        self.seen += 1;
        let is_ipv6 = self.form == Form::Sealed && !(shown.local.is_ipv4 && is_ipv4(shown.peer));
        let Some(bound) = self.bound.get(usize::from(is_ipv6)) else { return false };
        let snap = shown.verdict(bound);
        if snap == 0 {
            return false;
        }
        let room = snap.saturating_sub(bound.layout.preamble_bytes());
        self.take(shown, snap, room);
        true
    }

    /// Copies the first `room` bytes of a packet into the ring.
    #[inline(never)]
    fn take(&mut self, shown: &Shown<'_, '_>, snap: u32, room: u32) {
        self.matched += 1;
        let mut room = usize::try_from(room).unwrap_or(usize::MAX);
        let parts = shown.packet.parts().map(|part| {
            let part = &part[..part.len().min(room)];
            room -= part.len();
            part
        });
        let kind = match self.form {
            Form::Sealed => RecordKind::Sealed,
            Form::Clear => RecordKind::Clear,
        };
        let header = RecordHeader {
            time_ns: nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            len: shown.packet.own_len(),
            snap,
            kind,
            flags: shown.packet.flags().bits().to_le_bytes()[0],
            local: shown.local.address,
            peer: *shown.peer,
            to: shown.to,
        };
        self.ring.push(&header, parts);
    }

    /// Gives the reader texts of names.
    pub(super) fn tell(&mut self, texts: &[String]) {
        for text in texts {
            let head = RecordHeader {
                time_ns: 0,
                len: u32::try_from(text.len()).unwrap_or(u32::MAX),
                snap: 0,
                kind: RecordKind::Names,
                flags: 0,
                local: UNKNOWN,
                peer: UNKNOWN,
                to: Incarnation::NONE,
            };
            self.ring.push(&head, [text.as_bytes(), &[], &[]]);
        }
    }

    pub(super) fn publish(&self) {
        self.ring.publish(self.seen, self.matched);
    }
}

fn compiled(
    filter: &Filter,
    form: Form,
    snap: u32,
    names: &dyn Names,
) -> Result<(Vec<Bound>, Vec<Unbound>), FilterError> {
    let mut unbound = Vec::new();
    let bound = form.layouts().iter().map(|layout| {
        let Compiled { program, unbound: missing } = filter.compile(*layout, names, snap)?;
        unbound = missing;
        let reads_preamble = program.reads(0, layout.preamble_bytes());
        let blank = &[0; PREAMBLE_BYTES_MAX][..layout.preamble_bytes() as usize];
        Ok(Bound { layout: *layout, program, reads_preamble, blank })
    });
    Ok((bound.collect::<Result<_, _>>()?, unbound))
}

/// Whether it is an address of IPv4, also if it is written as one of IPv6.
#[inline]
fn is_ipv4(address: &SocketAddr) -> bool {
    match address {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(address) => address.ip().to_ipv4_mapped().is_some(),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
