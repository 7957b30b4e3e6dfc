//! One server: what it has in memory, in the page cache and on disk.

use crate::history::{History, Zxid};

/// What a damaged epoch file cost a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doubt {
    /// Nothing.
    None,
    /// The current epoch: no quorum of a new leader may count the server, until it took a history.
    CurrentLost,
    /// Both epochs: it must hear a quorum that lost nothing before it takes part.
    AllLost,
}

/// How far a leader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Collects ACKEPOCH.
    Discovery,
    /// Sends its history and collects acknowledgements of NEWLEADER.
    Synchronisation,
    /// Serves clients.
    Service,
}

/// What a server does in a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Looking for a leader, or down.
    Looking,
    /// Leads, or tries to.
    Leader {
        /// Number of the term; no two attempts share one.
        term: u8,
        /// The epoch.
        epoch: u8,
        /// How far it is.
        stage: Stage,
        /// Current epoch and last zxid with which it stood.
        summary: (u8, Zxid),
        /// Who acknowledged the epoch, a bit per server.
        epoch_acks: u8,
        /// Who acknowledged the history.
        history_acks: u8,
        /// Who acknowledged the term's last transaction.
        transaction_acks: u8,
        /// Length of its history that is committed, once it serves.
        committed: u8,
    },
    /// Follows.
    Follower {
        /// Index of the leader.
        leader: u8,
        /// Number of the leader's term.
        term: u8,
        /// Whether its log holds the leader's history.
        has_history: bool,
        /// Whether it acknowledged that.
        acknowledged: bool,
    },
}

/// One server. A server that is down is one that takes no step, so there is no state for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    /// Accepted epoch, as the page cache has it.
    pub accepted: u8,
    /// Current epoch, as the page cache has it.
    pub current: u8,
    /// Epoch that counts as accepted if only the disk is left.
    pub disk_accepted: u8,
    /// Current epoch if only the disk is left.
    pub disk_current: u8,
    /// The log, synced.
    pub history: History,
    /// Zxid up to which the running process knows everything to be committed.
    pub committed_up_to: Option<Zxid>,
    /// Length of the history applied in service, while in service.
    pub applied: Option<u8>,
    /// Whether it took over transactions of a later epoch than its current one, which it acknowledges
    /// only after it noted that epoch. A restart takes the epoch from the log.
    pub log_ahead: bool,
    /// What was lost.
    pub doubt: Doubt,
    /// What it does.
    pub role: Role,
}

impl Server {
    /// A server that never did anything, on disk as its first start leaves it.
    pub(crate) fn new(reserve: u8) -> Server {
        Server {
            accepted: 0,
            current: 0,
            disk_accepted: reserve,
            disk_current: 0,
            history: History::default(),
            committed_up_to: None,
            applied: None,
            log_ahead: false,
            doubt: Doubt::None,
            role: Role::Looking,
        }
    }

    /// Everything in the page cache reaches the disk.
    pub(crate) fn sync(&mut self, reserve: u8) {
        self.disk_accepted = self
            .disk_accepted
            .max(self.accepted.saturating_add(reserve));
        self.disk_current = self.current;
    }

    /// Ends its role; what was applied in service is known to be committed.
    pub(crate) fn leave_role(&mut self) {
        if let Some(applied) = self.applied.take() {
            self.committed_up_to = Some(self.history.prefix(applied).last_zxid());
        }
        self.role = Role::Looking;
    }

    /// The process ends; page cache and log stay.
    pub(crate) fn kill(&mut self) {
        self.applied = None;
        self.committed_up_to = None;
        self.role = Role::Looking;
    }

    /// Only the disk is left. The log tells at least its own epoch.
    pub(crate) fn lose_power(&mut self) {
        self.kill();
        self.log_ahead = false;
        self.current = self.disk_current.max(self.history.last_zxid().0);
        self.accepted = self.disk_accepted.max(self.current);
    }
}
