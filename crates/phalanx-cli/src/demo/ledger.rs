//! The replicated state of the demonstration: an array of balances, and transfers between them.

use std::sync::Arc;

use phalanx::{DecodeError, Snapshot};

/// Balances in the ledger: 8 Mi of 8 bytes, 64 MiB.
pub(super) const ACCOUNTS: u32 = 8 << 20;

/// Initial balance of every account.
const OPENING: u64 = 1_000;

/// Balances in one page. A page of 32 KiB is the unit of copy-on-write after a freeze.
const PAGE: usize = 4_096;

/// Bytes before the balances in a snapshot: magic, number of transfers applied, digest.
const HEAD: usize = 24;

const MAGIC: [u8; 8] = *b"PHXLEDG1";

/// One transfer, which is also a multicast's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    /// Its number among the sender's transfers in this incarnation.
    pub(super) number: u64,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) amount: u32,
}

impl Transfer {
    /// Its encoded length in bytes.
    pub(super) const LEN: usize = 20;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.from.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.to.to_le_bytes());
        bytes[16..].copy_from_slice(&self.amount.to_le_bytes());
        bytes
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (number, rest) = payload.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let amount = rest.try_into().ok()?;
        let transfer = Self {
            number: u64::from_le_bytes(*number),
            from: u32::from_le_bytes(*from),
            to: u32::from_le_bytes(*to),
            amount: u32::from_le_bytes(amount),
        };
        (transfer.from < ACCOUNTS && transfer.to < ACCOUNTS).then_some(transfer)
    }
}

type Page = Box<[u64]>;

/// The balances. Pages are shared with snapshots and copied on write.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pages: Vec<Arc<Page>>,
    applied: u64,
    digest: u64,
}

/// What all balances of a ledger come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Audit {
    /// Of every balance and of [`Ledger::digest`].
    pub(super) digest: u64,
    /// Of all balances; see [`Ledger::sum_due`].
    pub(super) sum: u64,
}

impl Ledger {
    pub(super) fn new() -> Self {
        // All pages are initially one shared page, so an untouched ledger costs one page.
        let page: Arc<Page> = Arc::new(vec![OPENING; PAGE].into());
        Self { pages: vec![page; PAGES], applied: 0, digest: 0 }
    }

    /// Moves the amount if the balance covers it. A transfer that is not covered still changes the count and the
    /// digest, so that its place in the order shows.
    pub(super) fn apply(&mut self, transfer: &Transfer) {
        let amount = u64::from(transfer.amount);
        if self.balance(transfer.from) >= amount {
            *self.balance_mut(transfer.from) -= amount;
            // This cannot overflow: the sum of all balances never changes, and fits.
            *self.balance_mut(transfer.to) += amount;
        }
        self.applied += 1;
        let mark = u64::from(transfer.from) << 32 | u64::from(transfer.to);
        self.digest = mix(self.digest ^ mark).wrapping_add(amount ^ transfer.number << 32);
    }

    /// Transfers applied since the ledger was opened.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// A digest of the transfers applied, in their order.
    pub(super) fn digest(&self) -> u64 {
        mix(self.digest ^ self.applied)
    }

    /// Reads every balance.
    pub(super) fn audit(&self) -> Audit {
        let mut digest = self.digest();
        let mut sum = 0_u64;
        for balance in self.pages.iter().flat_map(|page| page.iter()) {
            digest = mix(digest ^ balance);
            sum = sum.wrapping_add(*balance);
        }
        Audit { digest, sum }
    }

    /// The sum of all balances of an undamaged ledger.
    pub(super) fn sum_due() -> u64 {
        u64::from(ACCOUNTS) * OPENING
    }

    fn balance(&self, account: u32) -> u64 {
        let account = account as usize;
        self.pages.get(account / PAGE).and_then(|page| page.get(account % PAGE)).copied().unwrap_or(0)
    }

    fn balance_mut(&mut self, account: u32) -> &mut u64 {
        let account = account as usize;
        let page = Arc::make_mut(&mut self.pages[account / PAGE]);
        &mut page[account % PAGE]
    }

    /// Freezes the whole state, in pieces: a head, then each page. Copies only a list of pointers; the bytes of a page are made
    /// when it is sent.
    pub(super) fn freeze(&self) -> Snapshot {
        let head = [MAGIC, self.applied.to_le_bytes(), self.digest.to_le_bytes()].concat();
        let bytes = |page: Arc<Page>| page.iter().flat_map(|balance| balance.to_le_bytes()).collect::<Vec<u8>>();
        Snapshot::pieces(STATE_BYTES, std::iter::once(head).chain(self.pages.clone().into_iter().map(bytes)))
    }
}

/// Pages of a ledger.
const PAGES: usize = ACCOUNTS as usize / PAGE;

/// Length of the whole state in bytes, with a frame around each piece.
pub(super) const STATE_BYTES: u64 = HEAD as u64 + ACCOUNTS as u64 * 8 + (1 + PAGES as u64) * Snapshot::FRAME_BYTES;

/// Assembles a ledger from the pieces of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Transfers applied, and the digest.
    head: Option<(u64, u64)>,
    pages: Vec<Arc<Page>>,
    /// What came of a piece that is not complete.
    piece: Vec<u8>,
}

impl Incoming {
    /// Takes the next part of a piece. Returns the ledger with the last page.
    ///
    /// # Errors
    /// If this is no ledger.
    pub(super) fn take(&mut self, part: &[u8], is_end: bool) -> Result<Option<Ledger>, DecodeError> {
        self.piece.extend_from_slice(part);
        if !is_end {
            return Ok(None);
        }
        let (words, rest) = self.piece.as_chunks::<8>();
        match (self.head, words) {
            (None, [MAGIC, applied, digest]) if rest.is_empty() => {
                self.head = Some((u64::from_le_bytes(*applied), u64::from_le_bytes(*digest)));
            }
            (Some(_), page) if rest.is_empty() && page.len() == PAGE && self.pages.len() < PAGES => {
                self.pages.push(Arc::new(page.iter().map(|balance| u64::from_le_bytes(*balance)).collect()));
            }
            _ => return Err(DecodeError::new("it is no ledger")),
        }
        self.piece.clear();
        let Some((applied, digest)) = self.head.filter(|_| self.pages.len() == PAGES) else { return Ok(None) };
        Ok(Some(Ledger { pages: std::mem::take(&mut self.pages), applied, digest }))
    }
}

/// Spreads a change of any bit over all bits (the finaliser of splitmix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (value ^ value >> 31).wrapping_add(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(number: u64) -> Transfer {
        let spread = mix(number);
        Transfer {
            number,
            from: (spread % u64::from(ACCOUNTS)) as u32,
            to: ((spread >> 32) % u64::from(ACCOUNTS)) as u32,
            amount: (spread % 1_500) as u32,
        }
    }

    #[test]
    fn a_payload_reads_back_and_others_are_refused() {
        let some = transfer(7);
        assert_eq!(Transfer::decode(&some.encode()), Some(some));
        assert_eq!(Transfer::decode(&some.encode()[1..]), None);
        let nowhere = Transfer { to: ACCOUNTS, ..some };
        assert_eq!(Transfer::decode(&nowhere.encode()), None);
    }

    #[test]
    fn money_is_moved_and_the_order_shows() {
        let mut a = Ledger::new();
        let mut b = Ledger::new();
        for number in 0..1_000 {
            a.apply(&transfer(number));
            b.apply(&transfer(number));
        }
        assert_eq!(a.audit(), b.audit());
        assert_eq!(a.audit().sum, Ledger::sum_due());
        a.apply(&transfer(1));
        a.apply(&transfer(2));
        b.apply(&transfer(2));
        b.apply(&transfer(1));
        assert_ne!(a.digest(), b.digest());
    }

    /// Takes a whole snapshot, in parts of these lengths.
    fn take(snapshot: Snapshot, lengths: &[usize]) -> Result<Option<Ledger>, DecodeError> {
        let (mut incoming, mut lengths) = (Incoming::default(), lengths.iter().cycle());
        let mut taken = None;
        for piece in snapshot.into_pieces() {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                assert!(taken.is_none(), "it was complete before");
                let (part, after) = rest.split_at(rest.len().min(*lengths.next().expect("endless")));
                rest = after;
                taken = incoming.take(part, rest.is_empty())?;
            }
        }
        Ok(taken)
    }

    #[test]
    fn a_frozen_state_stays_and_moves_in_parts_of_any_size() {
        let mut ledger = Ledger::new();
        (0..5_000).for_each(|number| ledger.apply(&transfer(number)));
        let before = ledger.audit();
        let frozen = ledger.freeze();
        (5_000..9_000).for_each(|number| ledger.apply(&transfer(number)));
        // Sizes that split the head, balances and pages.
        let copy = take(frozen, &[1, 30, 7, 32_768, 100_003]).expect("a ledger").expect("whole");
        assert_eq!(copy.audit(), before);
        assert_ne!(copy.audit().digest, ledger.audit().digest);
    }

    /// A transfer ends if its snapshot is longer than it says, and takes the time of zeros if it is shorter.
    #[test]
    fn a_frozen_state_is_as_long_as_it_says() {
        let bytes: Vec<u64> = Ledger::new().freeze().into_pieces().map(|piece| piece.len() as u64).collect();
        assert_eq!(bytes.iter().map(|bytes| bytes + Snapshot::FRAME_BYTES).sum::<u64>(), STATE_BYTES);
    }

    #[test]
    fn an_unfinished_or_foreign_state_is_no_ledger() {
        let whole: Vec<_> = Ledger::new().freeze().into_pieces().collect();
        let short = Snapshot::pieces(STATE_BYTES, whole[..whole.len() - 1].to_vec());
        assert!(take(short, &[PAGE]).expect("a part of one").is_none());
        for pieces in [vec![whole[1].clone()], vec![whole[0].clone(), whole[1].slice(8..)], vec![whole[0].slice(1..)]] {
            assert!(take(Snapshot::pieces(STATE_BYTES, pieces), &[PAGE]).is_err());
        }
    }
}
