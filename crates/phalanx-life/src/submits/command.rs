//! What clients say to the table of a group: payloads of messages to its domain. Layout: `docs/wire.md`, *Clients of a state*.

use phalanx_core::wire::Malformed;
use phalanx_core::wire::codec::{Reader, put_prefixed, put_u64, put_varint};

/// Who submits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientId {
    /// A client that lasts as long as a handle: random bits.
    Random(u64, u64),
    /// A client that the application named.
    Named(String),
}

impl ClientId {
    /// Whether a name may be one of a client: 1 to 64 bytes.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        (1..=NAME_BYTES_MAX).contains(&name.len())
    }

    /// What stands for it in a trace.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut name = Vec::new();
        self.put(&mut name);
        phalanx_trace::payload_hash(&name)
    }

    /// The memory that its name takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Random(..) => 16,
            Self::Named(name) => name.len(),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Random(high, low) => {
                out.push(RANDOM);
                put_u64(out, *high);
                put_u64(out, *low);
            }
            Self::Named(name) => {
                out.push(NAMED);
                put_prefixed(out, name.as_bytes());
            }
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        match r.u8()? {
            RANDOM => Ok(Self::Random(r.u64()?, r.u64()?)),
            NAMED => {
                let name = std::str::from_utf8(r.prefixed()?).map_err(|_not_utf8| Malformed)?;
                if Self::is_name(name) { Ok(Self::Named(name.to_owned())) } else { Err(Malformed) }
            }
            _ => Err(Malformed),
        }
    }
}

/// The longest name of a client, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command<'a> {
    pub(crate) client: ClientId,
    /// Random: a name that is taken over begins another session.
    pub(crate) session: u64,
    pub(crate) what: What<'a>,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What<'a> {
    /// It begins, or goes on after a restart. `last`: the last number that it may have used.
    Open { last: u64 },
    /// A message to the state. `acked`: it was told of the results of all numbers up to this one, or wants none.
    Submit { number: u64, acked: u64, payload: &'a [u8] },
    /// It is gone for good.
    Close,
}

const OPEN: u8 = 1;
const SUBMIT: u8 = 2;
const CLOSE: u8 = 3;

const RANDOM: u8 = 0;
const NAMED: u8 = 1;

impl Command<'_> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let Command { client, session, what } = self;
        out.push(match what {
            What::Open { .. } => OPEN,
            What::Submit { .. } => SUBMIT,
            What::Close => CLOSE,
        });
        client.put(out);
        put_u64(out, *session);
        match *what {
            What::Open { last } => put_varint(out, last),
            What::Submit { number, acked, payload } => {
                put_varint(out, number);
                put_varint(out, acked);
                out.extend_from_slice(payload);
            }
            What::Close => {}
        }
    }

    /// # Errors
    /// [`Malformed`] when the bytes are no command.
    pub(crate) fn read(bytes: &[u8]) -> Result<Command<'_>, Malformed> {
        let mut r = Reader::new(bytes);
        let kind = r.u8()?;
        let client = ClientId::read(&mut r)?;
        let session = r.u64()?;
        let what = match kind {
            OPEN => What::Open { last: r.varint()? },
            SUBMIT => {
                let (number, acked) = (r.varint()?, r.varint()?);
                if number == 0 || acked >= number {
                    return Err(Malformed);
                }
                What::Submit { number, acked, payload: r.rest() }
            }
            CLOSE => What::Close,
            _ => return Err(Malformed),
        };
        if r.is_empty() { Ok(Command { client, session, what }) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are what other builds read: they never change.
    #[test]
    fn what_is_written_is_read_and_its_bytes_never_change() {
        let random = || (ClientId::Random(1, 2), vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let named = || (ClientId::Named("desk".to_owned()), vec![1, 4, b'd', b'e', b's', b'k']);
        let all: [(What<'_>, u8, &[u8]); 3] = [
            (What::Open { last: 300 }, 1, &[0xac, 2]),
            (What::Submit { number: 300, acked: 7, payload: b"buy" }, 2, &[0xac, 2, 7, b'b', b'u', b'y']),
            (What::Close, 3, &[]),
        ];
        for (what, kind, rest) in all {
            for (client, id) in [random(), named()] {
                let (command, mut out) = (Command { client, session: 9, what }, Vec::new());
                command.put(&mut out);
                let bytes = [&[kind][..], &id, &[9, 0, 0, 0, 0, 0, 0, 0], rest].concat();
                assert_eq!(out, bytes, "{what:?}");
                assert_eq!(Command::read(&bytes), Ok(command));
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let of = |what| {
            let mut out = Vec::new();
            Command { client: ClientId::Random(1, 2), session: 9, what }.put(&mut out);
            out
        };
        let good = of(What::Open { last: 1 });
        for end in 0..good.len() {
            assert_eq!(Command::read(&good[..end]), Err(Malformed), "{end} bytes");
        }
        assert_eq!(Command::read(&[&good[..], &[0]].concat()), Err(Malformed), "one byte more");
        assert_eq!(Command::read(&[&[9], &good[1..]].concat()), Err(Malformed), "no such kind");
        for (number, acked) in [(0, 0), (3, 3), (3, 4)] {
            assert_eq!(Command::read(&of(What::Submit { number, acked, payload: b"" })), Err(Malformed));
        }
        for name in [String::new(), "n".repeat(NAME_BYTES_MAX + 1)] {
            let mut out = Vec::new();
            Command { client: ClientId::Named(name), session: 9, what: What::Close }.put(&mut out);
            assert_eq!(Command::read(&out), Err(Malformed), "a name of {} bytes", out.len() - 11);
        }
    }
}
