//! The encoding of an operation.

use phalanx_trace::Action;

/// First byte of the payload of an operation. Payloads of other messages begin with the length of their chain, which is
/// small.
const MARK: u8 = 0xff;

/// Length of an operation: a mark, a kind, and four words.
const BYTES: usize = 2 + 4 * 8;

/// One operation of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its number at its sender.
    pub(crate) op: u64,
    pub(crate) action: Action,
    /// With [`Action::Acquire`]: the token of a grant that is void.
    pub(crate) gone: u64,
}

impl Command {
    pub(crate) fn payload(&self) -> [u8; BYTES] {
        let (kind, words) = match self.action {
            Action::Read { key } => (0, [u64::from(key), 0, 0]),
            Action::Write { key, value } => (1, [u64::from(key), value, 0]),
            Action::Cas { key, expected, value } => (2, [u64::from(key), value, expected]),
            Action::Acquire { lock } => (3, [u64::from(lock), self.gone, 0]),
            Action::Release { lock, token } => (4, [u64::from(lock), token, 0]),
            Action::Transfer { from, to, amount } => (5, [u64::from(from), u64::from(to), amount]),
        };
        let mut payload = [0; BYTES];
        payload[..2].copy_from_slice(&[MARK, kind]);
        for (place, word) in payload[2..].chunks_exact_mut(8).zip([self.op].iter().chain(&words)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        payload
    }

    /// Decodes an operation. `None`: the payload is none.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let (&[mark, kind], words) = payload.split_first_chunk()?;
        if mark != MARK || payload.len() != BYTES {
            return None;
        }
        let mut words =
            words.chunks_exact(8).map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        let [op, a, b, c] = std::array::from_fn(|_| words.next().unwrap_or(0));
        let small = |word: u64| u32::try_from(word).ok();
        let (action, gone) = match kind {
            0 => (Action::Read { key: small(a)? }, 0),
            1 => (Action::Write { key: small(a)?, value: b }, 0),
            2 => (Action::Cas { key: small(a)?, expected: c, value: b }, 0),
            3 => (Action::Acquire { lock: small(a)? }, b),
            4 => (Action::Release { lock: small(a)?, token: b }, 0),
            5 => (Action::Transfer { from: small(a)?, to: small(b)?, amount: c }, 0),
            _ => return None,
        };
        Some(Self { op, action, gone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let actions = [
            Action::Read { key: 1 },
            Action::Write { key: 2, value: u64::MAX },
            Action::Cas { key: 3, expected: 4, value: 5 },
            Action::Acquire { lock: 1 },
            Action::Release { lock: 1, token: 6 },
            Action::Transfer { from: 7, to: 8, amount: 9 },
        ];
        for action in actions {
            let gone = if matches!(action, Action::Acquire { .. }) { 11 } else { 0 };
            let command = Command { op: 10, action, gone };
            assert_eq!(Command::parse(&command.payload()), Some(command));
        }
        assert_eq!(Command::parse(&[MARK]), None);
        assert_eq!(Command::parse(&[0; BYTES]), None);
        assert_eq!(Command::parse(&[MARK; BYTES]), None);
    }
}
