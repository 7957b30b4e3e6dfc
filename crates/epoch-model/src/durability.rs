//! When epoch values reach the disk, and how far the checker looks.

/// When the accepted and the current epoch of a server reach its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Durability {
    /// Before every answer, as upstream does.
    Synchronous,
    /// Never: the thesis's DEVP keeps them in the memory of a majority (section 5.2.4). A killed
    /// process finds them again, a majority that loses power does not.
    Memory,
    /// In the background, with one rule: no transaction of an epoch is acknowledged before the epoch
    /// is on the acknowledging server's disk.
    CommitGate,
    /// [`Durability::CommitGate`], and epochs are promised in advance: after a crash of the operating
    /// system the whole reserve counts as accepted.
    Reserve,
    /// [`Durability::Reserve`], and the acknowledgement of a history waits for the disk unless all of
    /// the history is known to be committed. What Tailbound does.
    ReserveAndTail,
}

impl Durability {
    /// How many epochs above the accepted one a record on disk covers.
    pub(crate) fn reserve(self) -> u8 {
        match self {
            Durability::Reserve | Durability::ReserveAndTail => 1,
            _ => 0,
        }
    }

    /// Whether every change of an epoch waits for the disk.
    pub(crate) fn waits_always(self) -> bool {
        self == Durability::Synchronous
    }

    /// Whether anything reaches the disk in the background.
    pub(crate) fn syncs_in_background(self) -> bool {
        !matches!(self, Durability::Synchronous | Durability::Memory)
    }
}

/// How much may happen in one run; the checker visits every run within.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bounds {
    /// How often a server stands for leader.
    pub terms: u8,
    /// How many processes are killed one by one.
    pub kills: u8,
    /// How many servers lose power one by one.
    pub power_losses: u8,
    /// How often all servers lose power together.
    pub blackouts: u8,
    /// How many transactions are proposed.
    pub transactions: u8,
    /// How many epoch files are damaged.
    pub damages: u8,
}
