//! STREAMS, made again: a packet becomes a message of descriptors and a data block, copied before anybody looks at it, and
//! goes from module to module by calls that are bound when the program runs.

use std::collections::VecDeque;

use phalanx_tap::{Packet, Program};

use super::linkage::{Linkage, Parts};
use super::paper::SetUp;
use super::store::{HALF_BYTES, HEADER_BYTES};

/// The type of a message. A module's put procedure has to look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data: all that comes from a network.
    Data,
    /// A request of a protocol.
    Proto,
    /// A request to a driver, answered to whom asked.
    Ioctl,
    /// Queues are to be emptied.
    Flush,
}

/// A message as a module sees it.
pub(crate) trait Message {
    fn kind(&self) -> Kind;
    fn bytes(&self) -> &[u8];
}

/// Where messages come from and go to.
pub(crate) trait Blocks {
    type Message: Message;

    /// Makes a message of data, and copies the packet to it.
    fn allocate(&mut self, parts: Parts<'_>) -> Self::Message;

    /// The message is of no more use.
    fn free(&mut self, message: Self::Message);
}

/// A module or a stream's end.
pub(crate) trait Module<B: Blocks> {
    /// Takes a message: the put procedure.
    fn put(&mut self, blocks: &mut B, message: B::Message);

    /// Works on what its queue holds: the service procedure.
    fn service(&mut self, _blocks: &mut B) {}

    /// A reader takes what is ready for it.
    fn settle(&mut self, _blocks: &mut B) {}

    /// Packets and bytes that arrived at the stream's end.
    fn kept(&self) -> (u64, u64);
}

type Next<B> = Box<dyn Module<B>>;

/// The interface and the stream above it.
pub(crate) struct Stream<B: Blocks> {
    blocks: B,
    above: Next<B>,
    /// Whether the module above has a queue, and its service procedure has to run.
    is_queued: bool,
}

impl<B: Blocks + 'static> Stream<B> {
    /// The stream of a set-up. To take everything the paper has no filter module, to reject it has no buffer module.
    pub(crate) fn new(blocks: B, set_up: SetUp, is_queued: bool) -> Self {
        let end = Box::new(Chunks::<B>::new());
        let above: Next<B> = match set_up {
            SetUp::Accept => end,
            SetUp::Reject => Box::new(Filter { program: set_up.program(), above: end }),
        };
        if is_queued { Self::queued(blocks, above) } else { Self::of(blocks, above) }
    }

    /// Modules are chosen when the program runs, so the compiler must not know them.
    fn of(blocks: B, above: Next<B>) -> Self {
        Self { blocks, above: std::hint::black_box(above), is_queued: false }
    }

    /// The same with a module that queues below.
    fn queued(blocks: B, above: Next<B>) -> Self {
        Self { is_queued: true, ..Self::of(blocks, Box::new(Queued { queue: VecDeque::new(), above })) }
    }
}

impl<B: Blocks> Linkage for Stream<B> {
    #[inline]
    fn tap(&mut self, parts: Parts<'_>) {
        let message = self.blocks.allocate(parts);
        self.above.put(&mut self.blocks, message);
        if self.is_queued {
            self.above.service(&mut self.blocks);
        }
    }

    fn settle(&mut self) {
        self.above.settle(&mut self.blocks);
    }

    fn kept(&self) -> (u64, u64) {
        self.above.kept()
    }
}

/// The filter module: runs a program on each message of data, and frees what it does not take.
struct Filter<B: Blocks> {
    program: Program,
    above: Next<B>,
}

impl<B: Blocks> Module<B> for Filter<B> {
    fn put(&mut self, blocks: &mut B, message: B::Message) {
        match message.kind() {
            Kind::Data => {
                let packet = Packet::new(&[], [message.bytes(), &[], &[]]);
                if self.program.run(&packet) == 0 { blocks.free(message) } else { self.above.put(blocks, message) }
            }
            // It has no queue that could be flushed.
            Kind::Proto | Kind::Ioctl | Kind::Flush => self.above.put(blocks, message),
        }
    }

    fn settle(&mut self, blocks: &mut B) {
        self.above.settle(blocks);
    }

    fn kept(&self) -> (u64, u64) {
        self.above.kept()
    }
}

/// The buffer module and the stream's head: messages become chunks of 16 KiB, and a reader takes a whole chunk.
struct Chunks<B: Blocks> {
    chunk: Vec<B::Message>,
    /// What the chunk would take of a reader's buffer.
    filled: usize,
    ready: Vec<B::Message>,
    packets: u64,
    bytes: u64,
}

impl<B: Blocks> Chunks<B> {
    fn new() -> Self {
        let room = || Vec::with_capacity(HALF_BYTES / HEADER_BYTES);
        Self { chunk: room(), filled: 0, ready: room(), packets: 0, bytes: 0 }
    }
}

impl<B: Blocks> Module<B> for Chunks<B> {
    fn put(&mut self, blocks: &mut B, message: B::Message) {
        match message.kind() {
            Kind::Data => {
                let len = message.bytes().len();
                let needed = HEADER_BYTES + len.next_multiple_of(HEADER_BYTES);
                if self.filled + needed > HALF_BYTES {
                    self.ready.append(&mut self.chunk);
                    self.filled = 0;
                }
                self.filled += needed;
                self.packets += 1;
                self.bytes += len as u64;
                self.chunk.push(message);
            }
            Kind::Flush => {
                self.filled = 0;
                self.chunk.drain(..).for_each(|message| blocks.free(message));
                blocks.free(message);
            }
            Kind::Proto | Kind::Ioctl => blocks.free(message),
        }
    }

    fn settle(&mut self, blocks: &mut B) {
        self.ready.drain(..).for_each(|message| blocks.free(message));
    }

    fn kept(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }
}

/// A module that queues: its put procedure only stores the message, and its service procedure does the work.
struct Queued<B: Blocks> {
    queue: VecDeque<B::Message>,
    above: Next<B>,
}

impl<B: Blocks> Module<B> for Queued<B> {
    fn put(&mut self, blocks: &mut B, message: B::Message) {
        match message.kind() {
            Kind::Data | Kind::Proto => self.queue.push_back(message),
            // What is urgent passes by the queue.
            Kind::Ioctl => self.above.put(blocks, message),
            Kind::Flush => {
                self.queue.drain(..).for_each(|message| blocks.free(message));
                self.above.put(blocks, message);
            }
        }
    }

    fn service(&mut self, blocks: &mut B) {
        while let Some(message) = self.queue.pop_front() {
            self.above.put(blocks, message);
        }
    }

    fn settle(&mut self, blocks: &mut B) {
        self.above.settle(blocks);
    }

    fn kept(&self) -> (u64, u64) {
        self.above.kept()
    }
}

/// The descriptor of a message: six fields, 24 bytes. A message here is never linked, so the links of 4 bytes, which would
/// be addresses of a machine of 32 bits, are always 0.
pub(crate) struct MessageBlock {
    next: u32,
    previous: u32,
    continued: u32,
    /// Where its data begins and ends.
    from: u16,
    to: u16,
    data: Box<DataBlock>,
}

/// The descriptor of a data block: six fields, 24 bytes.
pub(crate) struct DataBlock {
    /// The block itself: an address, and how long it is.
    block: Box<[u8]>,
    free: u32,
    references: u8,
    kind: Kind,
    class: u16,
}

impl Message for Box<MessageBlock> {
    #[inline]
    fn kind(&self) -> Kind {
        self.data.kind
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.data.block[usize::from(self.from)..usize::from(self.to)]
    }
}

impl MessageBlock {
    /// Whether a message is alone, and nobody else reads its data: whoever frees it has to ask.
    #[inline]
    fn is_unshared(&self) -> bool {
        self.next | self.previous | self.continued | self.data.free == 0
            && self.data.references == 1
            && usize::from(self.data.class) <= self.data.block.len()
    }
}

/// As Sun's first system with STREAMS had it: two descriptors and a data block, all from the general allocator.
pub(crate) struct General;

impl Blocks for General {
    type Message = Box<MessageBlock>;

    #[inline]
    fn allocate(&mut self, parts: Parts<'_>) -> Box<MessageBlock> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut block = Vec::with_capacity(len);
        parts.iter().for_each(|part| block.extend_from_slice(part));
        let class = len as u16;
        // It has just this capacity, so it is not allocated again.
        let block = block.into_boxed_slice();
        let data = Box::new(DataBlock { block, free: 0, references: 1, kind: Kind::Data, class });
        Box::new(MessageBlock { next: 0, previous: 0, continued: 0, from: 0, to: class, data })
    }

    #[inline]
    fn free(&mut self, message: Box<MessageBlock>) {
        // A shared one would only lose a reference.
        assert!(message.is_unshared(), "nobody else has the message");
        drop(message);
    }
}

/// A good allocator: messages that were freed wait in a list, descriptors and data block together, and are used again.
pub(crate) struct FreeList {
    #[expect(clippy::vec_box, reason = "a list of what was allocated")]
    free: Vec<Box<MessageBlock>>,
}

impl FreeList {
    pub(crate) fn new() -> Self {
        // Two chunks of the shortest packets, so that the list itself does not grow while it is timed.
        let mut list = Self { free: Vec::with_capacity(FREE) };
        for _ in 0..FREE {
            let block = vec![0; CLASS].into_boxed_slice();
            let data = Box::new(DataBlock { block, free: 0, references: 0, kind: Kind::Data, class: CLASS as u16 });
            list.free.push(Box::new(MessageBlock { next: 0, previous: 0, continued: 0, from: 0, to: 0, data }));
        }
        list
    }
}

impl Blocks for FreeList {
    type Message = Box<MessageBlock>;

    #[inline]
    fn allocate(&mut self, parts: Parts<'_>) -> Box<MessageBlock> {
        let mut message = self.free.pop().expect("more are free than two chunks hold");
        let mut to = 0;
        for part in parts {
            message.data.block[to..to + part.len()].copy_from_slice(part);
            to += part.len();
        }
        (message.next, message.previous, message.continued) = (0, 0, 0);
        (message.from, message.to) = (0, to as u16);
        (message.data.free, message.data.references, message.data.kind) = (0, 1, Kind::Data);
        message
    }

    #[inline]
    fn free(&mut self, message: Box<MessageBlock>) {
        assert!(message.is_unshared(), "nobody else has the message");
        self.free.push(message);
    }
}

/// As Solaris 2 had it: one allocation holds both descriptors, 8 bytes of more state, and the data.
pub(crate) struct Single;

/// Descriptors and data in one.
pub(crate) struct SingleBlock(Box<[u8]>);

impl Message for SingleBlock {
    #[inline]
    fn kind(&self) -> Kind {
        match self.0[KIND] {
            1 => Kind::Data,
            2 => Kind::Proto,
            3 => Kind::Ioctl,
            _ => Kind::Flush,
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        let at = |field: usize| usize::from(u16::from_le_bytes([self.0[field], self.0[field + 1]]));
        &self.0[at(FROM)..at(TO)]
    }
}

impl Blocks for Single {
    type Message = SingleBlock;

    #[inline]
    fn allocate(&mut self, parts: Parts<'_>) -> SingleBlock {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut fields = [0; SINGLE_BYTES];
        fields[FROM..FROM + 2].copy_from_slice(&(SINGLE_BYTES as u16).to_le_bytes());
        fields[TO..TO + 2].copy_from_slice(&((SINGLE_BYTES + len) as u16).to_le_bytes());
        (fields[REFERENCES], fields[KIND]) = (1, 1);
        let mut block = Vec::with_capacity(SINGLE_BYTES + len);
        block.extend_from_slice(&fields);
        parts.iter().for_each(|part| block.extend_from_slice(part));
        SingleBlock(block.into_boxed_slice())
    }

    #[inline]
    fn free(&mut self, message: SingleBlock) {
        assert!(message.0[REFERENCES] == 1, "nobody else has the message");
        drop(message);
    }
}

/// Bytes of the two descriptors: six fields of 4 bytes each.
pub(crate) const DESCRIPTOR_BYTES: usize = 48;
/// The same with what Solaris added.
pub(crate) const SINGLE_BYTES: usize = DESCRIPTOR_BYTES + 8;
/// Fields of a [`SingleBlock`].
const FROM: usize = 12;
const TO: usize = 16;
const REFERENCES: usize = 40;
const KIND: usize = 41;
/// Data blocks of a free list hold the longest packet.
const CLASS: usize = 2_048;
/// Messages of a free list: two chunks of packets of 48 bytes hold fewer.
const FREE: usize = 640;

const _: () = assert!(size_of::<MessageBlock>() + size_of::<DataBlock>() == DESCRIPTOR_BYTES, "as published");

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::alloc::taken;
    use crate::tap::linkage::{Frame, Side};

    /// What a module saw: the kinds and contents of messages.
    type Seen = Rc<RefCell<Vec<(Kind, Vec<u8>)>>>;

    struct Recorder(Seen);

    impl<B: Blocks> Module<B> for Recorder {
        fn put(&mut self, blocks: &mut B, message: B::Message) {
            self.0.borrow_mut().push((message.kind(), message.bytes().to_vec()));
            blocks.free(message);
        }

        fn kept(&self) -> (u64, u64) {
            (0, 0)
        }
    }

    /// The driver's memory is used again before the module above looks: what it sees must be a copy.
    fn copies_before_it_filters<B: Blocks + 'static>(blocks: B) {
        let seen = Seen::default();
        let mut stream = Stream::queued(blocks, Box::new(Recorder(Rc::clone(&seen))));
        let mut frame = Frame::new();
        frame.fill(100);
        let expected = frame.bytes().to_vec();
        let message = stream.blocks.allocate(frame.parts(Side::Write));
        frame.fill(1_000);
        drop(frame);
        stream.above.put(&mut stream.blocks, message);
        assert!(seen.borrow().is_empty(), "the put procedure of a queue does no more than to store");
        stream.above.service(&mut stream.blocks);
        assert_eq!(*seen.borrow(), [(Kind::Data, expected)]);
    }

    #[test]
    fn packets_are_copied_before_a_module_sees_them() {
        copies_before_it_filters(General);
        copies_before_it_filters(FreeList::new());
        copies_before_it_filters(Single);
    }

    /// Allocations for a packet, on average.
    fn allocations<B: Blocks + 'static>(blocks: B, set_up: SetUp, is_queued: bool) -> f64 {
        let mut stream = Stream::new(blocks, set_up, is_queued);
        let mut frame = Frame::new();
        let mut run = |packets: usize| {
            for at in 0..packets {
                frame.fill(48 + at % 1_400);
                stream.tap(frame.parts(Side::Read));
                stream.settle();
            }
        };
        run(3_000);
        let before = taken();
        run(3_000);
        (taken() - before) as f64 / 3_000.0
    }

    #[test]
    fn allocations_are_those_that_are_described() {
        for set_up in SetUp::ALL {
            assert_eq!(allocations(General, set_up, false), 3.0, "two descriptors and a data block");
            assert_eq!(allocations(General, set_up, true), 3.0, "a queue links what there is");
            assert_eq!(allocations(Single, set_up, false), 1.0, "all in one");
            assert_eq!(allocations(FreeList::new(), set_up, false), 0.0, "what was freed is used again");
        }
    }

    #[test]
    fn descriptors_have_the_published_size() {
        assert_eq!((size_of::<MessageBlock>(), size_of::<DataBlock>()), (24, 24));
        let message = Single.allocate([&[7; 100], &[], &[]]);
        assert_eq!((message.0.len(), message.bytes()), (48 + 8 + 100, &[7; 100][..]));
        assert_eq!(message.kind(), Kind::Data);
    }

    #[test]
    fn each_kind_of_message_has_its_way() {
        let seen = Seen::default();
        let above: Next<General> = Box::new(Recorder(Rc::clone(&seen)));
        let filter = Filter { program: SetUp::Reject.program(), above };
        let mut stream = Stream::queued(General, Box::new(filter));
        let frame = Frame::new();
        for kind in [Kind::Data, Kind::Ioctl, Kind::Proto, Kind::Flush, Kind::Proto] {
            let mut message = stream.blocks.allocate(frame.parts(Side::Read));
            message.data.kind = kind;
            stream.above.put(&mut stream.blocks, message);
        }
        stream.above.service(&mut stream.blocks);
        let kinds: Vec<Kind> = seen.borrow().iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::Ioctl, Kind::Flush, Kind::Proto], "data was flushed, and what is urgent came first");
    }

    #[test]
    fn a_chunk_goes_to_its_reader_when_it_is_full() {
        let mut chunks = Chunks::<General>::new();
        let frame = Frame::new();
        for _ in 0..11 {
            chunks.put(&mut General, General.allocate(frame.parts(Side::Read)));
        }
        // Ten of 1,514 bytes and their headers fit 16 KiB.
        assert_eq!((chunks.ready.len(), chunks.chunk.len(), chunks.kept()), (10, 1, (11, 11 * 1_514)));
        chunks.settle(&mut General);
        assert!(chunks.ready.is_empty());
        let mut flush = General.allocate(frame.parts(Side::Read));
        flush.data.kind = Kind::Flush;
        chunks.put(&mut General, flush);
        assert!(chunks.chunk.is_empty());
    }
}
