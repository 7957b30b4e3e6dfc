//! Transactions and histories.

/// A transaction: its epoch, and the term in which it was proposed. Two transactions of one epoch and
/// position that differ in the term are a divergence of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transaction {
    /// Epoch of the term in which it was proposed.
    pub epoch: u8,
    /// Number of that term; no two attempts to lead share one.
    pub term: u8,
}

/// Epoch and counter of a transaction; (0, 0) stands before the first one.
pub type Zxid = (u8, u8);

/// Most transactions that a run may propose.
pub const MOST_TRANSACTIONS: usize = 3;

/// A log: transactions in order. Fixed size, so that states are copied and compared fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct History {
    length: u8,
    transactions: [Transaction; MOST_TRANSACTIONS],
}

impl History {
    /// How many transactions it has.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The transaction at a position.
    pub(crate) fn at(&self, position: u8) -> Transaction {
        self.transactions[usize::from(position)]
    }

    pub(crate) fn push(&mut self, transaction: Transaction) {
        self.transactions[usize::from(self.length)] = transaction;
        self.length += 1;
    }

    /// Its first transactions.
    pub(crate) fn prefix(&self, length: u8) -> History {
        let mut prefix = History::default();
        for position in 0..length.min(self.length) {
            prefix.push(self.at(position));
        }
        prefix
    }

    /// Zxid of the last transaction.
    pub fn last_zxid(&self) -> Zxid {
        let all = &self.transactions[..usize::from(self.length)];
        all.last().map_or((0, 0), |last| {
            let counter = all
                .iter()
                .fold(0, |n, t| n + u8::from(t.epoch == last.epoch));
            (last.epoch, counter)
        })
    }
}
