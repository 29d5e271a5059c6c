//! The steps of a run and their byte encoding: any bytes are a list of steps.

/// One step. Its numbers select among what exists, modulo how much that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `n * n / 32` milliseconds pass, with everything that falls due.
    Wait { n: u8 },
    /// A packet overtakes the others.
    Deliver { which: u8 },
    /// A packet is lost.
    Lose { which: u8 },
    /// A packet arrives now and once more later.
    Duplicate { which: u8 },
    /// A packet is held up for `ms`.
    Delay { which: u8, ms: u8 },
    /// A damaged copy of a packet arrives: one byte changed, or, with mask 0, cut off there.
    Damage { which: u8, at: u16, mask: u8 },
    /// A member multicasts; `how` chooses order and uniformity.
    Multicast { who: u8, how: u8, len: u16 },
    /// A member sends to one other.
    Message { who: u8, to: u8, len: u16 },
    /// A process dies. `told`: whether the others' operating systems report it.
    Crash { who: u8, told: bool },
    /// A process that died or was excluded starts again.
    Restart { who: u8 },
    /// An application stops taking what is delivered, or takes it again.
    Busy { who: u8 },
    /// A process requests to be in, or out of, one of two groups.
    Group { who: u8, which: u8 },
    /// A process leaves the cell.
    Leave { who: u8 },
    /// The sender of a packet under way put other frames in it.
    Twist { which: u8, edits: Vec<Edit> },
    /// A member, or a stranger that holds the cell key, seals arbitrary frames.
    Forge { from: u8, to: u8, kind: u8, space: u8, number: u8, times: u8, frames: Vec<u8> },
    /// As `Forge`, but as the next message of the control or data channel.
    Speak { from: u8, to: u8, data: bool, message: Vec<u8> },
    /// A process without the cell key sends `frames`, in clear or sealed with another key.
    Intrude { to: u8, kind: u8, seals: bool, frames: Vec<u8> },
}

/// A change to frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The kind of change: the byte is replaced, added to, removed or inserted, or the rest is cut off.
    pub(crate) how: u8,
    /// The position, modulo the length.
    pub(crate) at: u16,
    /// The byte.
    pub(crate) value: u8,
}

const KINDS: u8 = 17;

impl Step {
    /// The steps that `bytes` encode, up to one that is cut short.
    pub(crate) fn read_all(bytes: &[u8]) -> Vec<Self> {
        let mut from = From { rest: bytes };
        std::iter::from_fn(|| from.step()).collect()
    }

    /// Appends the bytes that encode this step.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Wait { n } => out.extend([0, *n]),
            Self::Deliver { which } => out.extend([1, *which]),
            Self::Lose { which } => out.extend([2, *which]),
            Self::Duplicate { which } => out.extend([3, *which]),
            Self::Delay { which, ms } => out.extend([4, *which, *ms]),
            Self::Damage { which, at, mask } => {
                let [low, high] = at.to_le_bytes();
                out.extend([5, *which, low, high, *mask]);
            }
            Self::Multicast { who, how, len } => {
                let [low, high] = len.to_le_bytes();
                out.extend([6, *who, *how, low, high]);
            }
            Self::Message { who, to, len } => {
                let [low, high] = len.to_le_bytes();
                out.extend([7, *who, *to, low, high]);
            }
            Self::Crash { who, told } => out.extend([8, *who, u8::from(*told)]),
            Self::Restart { who } => out.extend([9, *who]),
            Self::Busy { who } => out.extend([10, *who]),
            Self::Group { who, which } => out.extend([11, *who, *which]),
            Self::Leave { who } => out.extend([12, *who]),
            Self::Twist { which, edits } => {
                let edits = &edits[..edits.len().min(255)];
                out.extend([13, *which, edits.len() as u8]);
                for edit in edits {
                    let [low, high] = edit.at.to_le_bytes();
                    out.extend([edit.how, low, high, edit.value]);
                }
            }
            Self::Forge { from, to, kind, space, number, times, frames } => {
                out.extend([14, *from, *to, *kind, *space, *number, *times]);
                put_bytes(out, frames);
            }
            Self::Speak { from, to, data, message } => {
                out.extend([15, *from, *to, u8::from(*data)]);
                put_bytes(out, message);
            }
            Self::Intrude { to, kind, seals, frames } => {
                out.extend([16, *to, *kind, u8::from(*seals)]);
                put_bytes(out, frames);
            }
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The bytes from which steps are read.
struct From<'a> {
    rest: &'a [u8],
}

impl From<'_> {
    fn step(&mut self) -> Option<Step> {
        Some(match self.byte()? % KINDS {
            0 => Step::Wait { n: self.byte()? },
            1 => Step::Deliver { which: self.byte()? },
            2 => Step::Lose { which: self.byte()? },
            3 => Step::Duplicate { which: self.byte()? },
            4 => Step::Delay { which: self.byte()?, ms: self.byte()? },
            5 => Step::Damage { which: self.byte()?, at: self.short()?, mask: self.byte()? },
            6 => Step::Multicast { who: self.byte()?, how: self.byte()?, len: self.short()? },
            7 => Step::Message { who: self.byte()?, to: self.byte()?, len: self.short()? },
            8 => Step::Crash { who: self.byte()?, told: self.byte()? & 1 == 1 },
            9 => Step::Restart { who: self.byte()? },
            10 => Step::Busy { who: self.byte()? },
            11 => Step::Group { who: self.byte()?, which: self.byte()? },
            12 => Step::Leave { who: self.byte()? },
            13 => {
                let (which, n) = (self.byte()?, self.byte()?);
                Step::Twist { which, edits: (0..n).map_while(|_| self.edit()).collect() }
            }
            14 => Step::Forge {
                from: self.byte()?,
                to: self.byte()?,
                kind: self.byte()?,
                space: self.byte()?,
                number: self.byte()?,
                times: self.byte()?,
                frames: self.bytes()?,
            },
            15 => Step::Speak {
                from: self.byte()?,
                to: self.byte()?,
                data: self.byte()? & 1 == 1,
                message: self.bytes()?,
            },
            _ => Step::Intrude {
                to: self.byte()?,
                kind: self.byte()?,
                seals: self.byte()? & 1 == 1,
                frames: self.bytes()?,
            },
        })
    }

    fn edit(&mut self) -> Option<Edit> {
        Some(Edit { how: self.byte()?, at: self.short()?, value: self.byte()? })
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    /// As many bytes as exist, if the length says more.
    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::from(self.short()?).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(taken.to_vec())
    }
}
