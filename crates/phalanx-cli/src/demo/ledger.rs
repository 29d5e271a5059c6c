//! The replicated state of the demonstration: an array of balances, and transfers between them.

use std::sync::Arc;

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
        Self { pages: vec![page; ACCOUNTS as usize / PAGE], applied: 0, digest: 0 }
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

    /// Freezes the whole state. Copies only a list of pointers.
    pub(super) fn freeze(&self) -> Frozen {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&self.applied.to_le_bytes());
        head.extend_from_slice(&self.digest.to_le_bytes());
        Frozen { head, pages: self.pages.clone() }
    }
}

/// A ledger as it was at one moment.
#[derive(Debug)]
pub(super) struct Frozen {
    head: Vec<u8>,
    pages: Vec<Arc<Page>>,
}

const PAGE_BYTES: usize = PAGE * 8;

/// Length of the whole state, in bytes.
pub(super) const STATE_BYTES: usize = HEAD + ACCOUNTS as usize * 8;

impl phalanx_runtime::core::Snapshot for Frozen {
    fn len_bytes(&self) -> u64 {
        STATE_BYTES as u64
    }

    fn read(&mut self, offset: u64, max_bytes: usize, out: &mut Vec<u8>) {
        let mut at = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = at.saturating_add(max_bytes).min(STATE_BYTES);
        while at < end {
            if at < HEAD {
                let upto = end.min(HEAD);
                out.extend_from_slice(self.head.get(at..upto).unwrap_or_default());
                at = upto;
                continue;
            }
            let (page, skip) = ((at - HEAD) / PAGE_BYTES, (at - HEAD) % PAGE_BYTES);
            let Some(page) = self.pages.get(page) else { return };
            let take = (PAGE_BYTES - skip).min(end - at);
            // Offsets need not be multiples of 8 bytes.
            let (first, last) = (skip / 8, (skip + take).div_ceil(8));
            let from = out.len();
            for balance in page.get(first..last).unwrap_or_default() {
                out.extend_from_slice(&balance.to_le_bytes());
            }
            out.drain(from..from + skip % 8);
            out.truncate(from + take);
            at += take;
        }
    }
}

/// Assembles a ledger from the pieces of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    head: Vec<u8>,
    pages: Vec<Arc<Page>>,
    /// The incomplete page, and the bytes of a balance that a piece boundary split.
    page: Vec<u64>,
    cut: Vec<u8>,
}

impl Incoming {
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        if self.head.len() < HEAD {
            let (head, rest) = piece.split_at((HEAD - self.head.len()).min(piece.len()));
            self.head.extend_from_slice(head);
            piece = rest;
        }
        while !piece.is_empty() && self.pages.len() < ACCOUNTS as usize / PAGE {
            if self.cut.is_empty() && piece.len() >= 8 {
                let room = (PAGE - self.page.len()).min(piece.len() / 8);
                let (whole, rest) = piece.split_at(room * 8);
                let (balances, _) = whole.as_chunks::<8>();
                self.page.extend(balances.iter().map(|bytes| u64::from_le_bytes(*bytes)));
                piece = rest;
            } else {
                let (some, rest) = piece.split_at((8 - self.cut.len()).min(piece.len()));
                self.cut.extend_from_slice(some);
                piece = rest;
                if let Ok(bytes) = <[u8; 8]>::try_from(self.cut.as_slice()) {
                    self.page.push(u64::from_le_bytes(bytes));
                    self.cut.clear();
                }
            }
            if self.page.len() == PAGE {
                self.pages.push(Arc::new(std::mem::take(&mut self.page).into()));
            }
        }
    }

    /// Returns the ledger; `None` if pieces are missing or malformed.
    pub(super) fn finish(self) -> Option<Ledger> {
        let rest = self.head.strip_prefix(&MAGIC)?;
        let (applied, digest) = rest.split_first_chunk::<8>()?;
        let digest = digest.try_into().ok()?;
        (self.pages.len() == ACCOUNTS as usize / PAGE).then(|| Ledger {
            pages: self.pages,
            applied: u64::from_le_bytes(*applied),
            digest: u64::from_le_bytes(digest),
        })
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
    use phalanx_runtime::core::Snapshot;

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

    #[test]
    fn a_frozen_state_stays_and_moves_in_pieces_of_any_size() {
        let mut ledger = Ledger::new();
        (0..5_000).for_each(|number| ledger.apply(&transfer(number)));
        let before = ledger.audit();
        let mut frozen = ledger.freeze();
        (5_000..9_000).for_each(|number| ledger.apply(&transfer(number)));
        let mut incoming = Incoming::default();
        let mut offset = 0;
        // Sizes that split the head, balances and pages.
        for size in [1, 30, 7, 32_768, 100_003].iter().cycle() {
            let mut piece = Vec::new();
            frozen.read(offset, *size, &mut piece);
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            incoming.push(&piece);
        }
        assert_eq!(offset, frozen.len_bytes());
        let copy = incoming.finish().expect("whole");
        assert_eq!(copy.audit(), before);
        assert_ne!(copy.audit().digest, ledger.audit().digest);
    }

    #[test]
    fn an_unfinished_or_foreign_state_is_no_ledger() {
        let mut short = Incoming::default();
        let mut piece = Vec::new();
        Ledger::new().freeze().read(0, 1_000, &mut piece);
        short.push(&piece);
        assert!(short.finish().is_none());
        let mut foreign = Incoming::default();
        foreign.push(&vec![1; STATE_BYTES + 5]);
        assert!(foreign.finish().is_none());
    }
}
