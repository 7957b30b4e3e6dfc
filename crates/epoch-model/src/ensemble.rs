//! Three servers and what each step does to them.

use crate::action::Action;
use crate::durability::{Bounds, Durability};
use crate::history::{History, Transaction};
use crate::server::{Doubt, Role, Server, Stage};

/// How many servers there are.
pub(crate) const SERVERS: u8 = 3;

/// Whether a set of servers, a bit each, is a majority.
pub(crate) fn majority(set: u8) -> bool {
    set.count_ones() > u32::from(SERVERS) / 2
}

/// What must never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// An epoch has two leaders.
    TwoLeaders,
    /// A leader serves without a committed transaction, or commits another one in its place.
    LostCommit,
    /// Accepted epoch below the current one, or the current one below that of the last transaction.
    EpochsOutOfOrder,
}

/// Three servers, and what the invariants have to remember of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ensemble {
    pub(crate) durability: Durability,
    pub(crate) left: Bounds,
    servers: [Server; SERVERS as usize],
    /// The epochs that had a leader, a bit each.
    led: u32,
    committed: History,
    /// Latest epoch that decided anything.
    deciding: u8,
    forgot: bool,
    violation: Option<Violation>,
}

impl Ensemble {
    /// Three new servers.
    pub fn new(durability: Durability, bounds: Bounds) -> Ensemble {
        Ensemble {
            durability,
            left: bounds,
            servers: [Server::new(durability.reserve()); SERVERS as usize],
            led: 0,
            committed: History::default(),
            deciding: 0,
            forgot: false,
            violation: None,
        }
    }

    /// What went wrong, if anything did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// The committed transactions.
    pub fn committed(&self) -> &History {
        &self.committed
    }

    /// Whether a server forgot an epoch that it had accepted, other than by a damaged file.
    pub fn forgot(&self) -> bool {
        self.forgot
    }

    /// Whether the difference between page cache and disk can still matter.
    pub(crate) fn power_may_fail(&self) -> bool {
        self.left.blackouts > 0 || self.left.power_losses > 0
    }

    /// One server.
    pub fn server(&self, index: u8) -> &Server {
        &self.servers[usize::from(index)]
    }

    fn server_mut(&mut self, index: u8) -> &mut Server {
        &mut self.servers[usize::from(index)]
    }

    /// Whether a server knows what it accepted.
    pub(crate) fn certain(&self, index: u8) -> bool {
        self.server(index).doubt != Doubt::AllLost
    }

    /// Leader, its stage, and whether the server has its history and acknowledged it; nothing if its
    /// leader is no longer in the term.
    pub(crate) fn following(&self, server: u8) -> Option<(u8, Stage, bool, bool)> {
        let Role::Follower {
            leader,
            term,
            has_history,
            acknowledged,
        } = self.server(server).role
        else {
            return None;
        };
        match self.server(leader).role {
            Role::Leader {
                term: theirs,
                stage,
                ..
            } if theirs == term => Some((leader, stage, has_history, acknowledged)),
            _ => None,
        }
    }

    /// The state after a step.
    pub fn after(&self, action: Action) -> Ensemble {
        let mut next = *self;
        next.take(action);
        next.check();
        next.forget_what_cannot_matter();
        next.canonical()
    }

    /// States that differ only in what no later step can depend on become one.
    fn forget_what_cannot_matter(&mut self) {
        for server in 0..SERVERS {
            let follows = matches!(self.server(server).role, Role::Follower { .. });
            if follows && self.following(server).is_none() {
                self.server_mut(server).leave_role();
            }
        }
        let power_may_fail = self.power_may_fail();
        let knowledge = self.durability == Durability::ReserveAndTail;
        for state in &mut self.servers {
            if !power_may_fail {
                (state.disk_accepted, state.disk_current) = (0, 0);
            }
            if !knowledge || !power_may_fail {
                (state.committed_up_to, state.applied) = (None, None);
            }
        }
    }

    /// The servers are alike: of all ways to number them, the least stands for all.
    fn canonical(&self) -> Ensemble {
        const ORDERS: [[u8; 3]; 5] = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        ORDERS
            .iter()
            .map(|order| self.renumbered(order))
            .fold(*self, Ensemble::min)
    }

    /// The same with server `i` as server `order[i]`.
    fn renumbered(&self, order: &[u8; 3]) -> Ensemble {
        let set = |bits: u8| (0..3).fold(0, |out, i| out | ((bits >> i) & 1) << order[i]);
        let mut other = *self;
        for (from, &to) in self.servers.iter().zip(order) {
            let mut server = *from;
            match &mut server.role {
                Role::Looking => {}
                Role::Leader {
                    epoch_acks,
                    history_acks,
                    transaction_acks,
                    ..
                } => {
                    *epoch_acks = set(*epoch_acks);
                    *history_acks = set(*history_acks);
                    *transaction_acks = set(*transaction_acks);
                }
                Role::Follower { leader, .. } => *leader = order[usize::from(*leader)],
            }
            other.servers[usize::from(to)] = server;
        }
        other
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Kill { server } => {
                self.left.kills -= 1;
                self.server_mut(server).kill();
                self.start(server);
            }
            Action::LosePower { server } => {
                self.left.power_losses -= 1;
                self.lose_power(server);
            }
            Action::Blackout => {
                self.left.blackouts -= 1;
                (0..SERVERS).for_each(|server| self.lose_power(server));
            }
            Action::Damage { server } => {
                self.left.damages -= 1;
                self.damage(server);
            }
            Action::Sync { server } => self.sync(server),
            Action::Settle { server } => self.settle(server),
            Action::Stand { server, heard } => self.stand(server, heard),
            Action::Follow { server, leader } => self.follow_leader(server, leader),
            Action::Lead { server } => self.lead(server),
            Action::LeaderAcknowledges { server } | Action::AcknowledgeHistory { server } => {
                self.acknowledge_history(server);
            }
            Action::TakeHistory { server } => self.take_history(server),
            Action::Serve { server } => self.serve(server),
            Action::Learn { server } => self.learn(server),
            Action::Propose { server } => self.propose(server),
            Action::Append { server } => self.append(server),
            Action::Acknowledge { server } => self.acknowledge(server),
            Action::Commit { server } => self.commit_proposal(server),
        }
    }

    fn sync(&mut self, server: u8) {
        let reserve = self.durability.reserve();
        self.server_mut(server).sync(reserve);
    }

    fn lose_power(&mut self, server: u8) {
        let before = self.server(server).accepted;
        self.server_mut(server).lose_power();
        self.forgot |= self.server(server).accepted < before;
        self.start(server);
    }

    /// A start writes and syncs what it found, unless nothing is ever synced.
    fn start(&mut self, server: u8) {
        if self.durability != Durability::Memory {
            self.sync(server);
        }
    }

    fn damage(&mut self, server: u8) {
        let state = self.server_mut(server);
        state.kill();
        state.doubt = Doubt::AllLost;
        let epoch = state.history.last_zxid().0;
        (state.accepted, state.current) = (epoch, epoch);
        (state.disk_accepted, state.disk_current) = (epoch, epoch);
    }

    /// What it accepted and forgot was accepted by a quorum, of which one is in any other quorum, or it
    /// is of no account.
    fn settle(&mut self, server: u8) {
        let certain = (0..SERVERS).filter(|&other| self.certain(other));
        let accepted = certain
            .map(|other| self.server(other).accepted)
            .max()
            .unwrap_or(0);
        let state = self.server_mut(server);
        state.accepted = state.accepted.max(accepted);
        state.doubt = Doubt::CurrentLost;
        self.sync(server);
    }

    /// Writes the accepted epoch, and waits for the disk where the rule says so.
    fn accept(&mut self, server: u8, epoch: u8) {
        let waits = self.durability.waits_always()
            || (self.durability.reserve() > 0 && epoch > self.server(server).disk_accepted);
        self.server_mut(server).accepted = epoch;
        if waits {
            self.sync(server);
        }
    }

    fn stand(&mut self, server: u8, heard: u8) {
        self.left.terms -= 1;
        let term = self.left.terms;
        self.server_mut(server).leave_role();
        let epoch = 1 + self
            .server(server)
            .accepted
            .max(self.server(heard).accepted);
        self.accept(server, epoch);
        let state = self.server_mut(server);
        state.role = Role::Leader {
            term,
            epoch,
            stage: Stage::Discovery,
            summary: (state.current, state.history.last_zxid()),
            epoch_acks: 1 << server,
            history_acks: 0,
            transaction_acks: 0,
            committed: 0,
        };
    }

    fn follow_leader(&mut self, server: u8, leader: u8) {
        self.server_mut(server).leave_role();
        let Role::Leader {
            term,
            epoch,
            stage,
            summary,
            ..
        } = self.server(leader).role
        else {
            return;
        };
        let own = (
            self.server(server).current,
            self.server(server).history.last_zxid(),
        );
        if epoch > self.server(server).accepted {
            self.accept(server, epoch);
            if stage == Stage::Discovery && self.server(server).doubt == Doubt::None {
                if own > summary {
                    self.server_mut(leader).leave_role();
                    return;
                }
                if let Role::Leader { epoch_acks, .. } = &mut self.server_mut(leader).role {
                    *epoch_acks |= 1 << server;
                }
            }
        }
        self.server_mut(server).role = Role::Follower {
            leader,
            term,
            has_history: false,
            acknowledged: false,
        };
    }

    fn lead(&mut self, server: u8) {
        let Role::Leader {
            epoch,
            stage,
            epoch_acks,
            summary,
            ..
        } = &mut self.server_mut(server).role
        else {
            return;
        };
        (*stage, *epoch_acks, *summary) = (Stage::Synchronisation, 0, (0, (0, 0)));
        let led = 1 << *epoch;
        if self.led & led != 0 {
            self.violation = Some(Violation::TwoLeaders);
        }
        self.led |= led;
    }

    fn take_history(&mut self, server: u8) {
        let Some((leader, ..)) = self.following(server) else {
            return;
        };
        // All that the leader has, proposals included: a follower that comes back must not lose what
        // it acknowledged before.
        let history = self.server(leader).history;
        let state = self.server_mut(server);
        state.history = history;
        state.log_ahead = history.last_zxid().0 > state.current;
        if let Role::Follower { has_history, .. } = &mut state.role {
            *has_history = true;
        }
    }

    fn acknowledge_history(&mut self, server: u8) {
        let leader = match self.server(server).role {
            Role::Follower { leader, .. } => leader,
            Role::Leader { .. } => server,
            Role::Looking => return,
        };
        let Role::Leader { epoch, .. } = self.server(leader).role else {
            return;
        };
        let waits = self.history_waits(server);
        let state = self.server_mut(server);
        state.current = epoch;
        state.log_ahead = false;
        state.doubt = Doubt::None;
        if let Role::Follower { acknowledged, .. } = &mut state.role {
            *acknowledged = true;
        }
        if waits {
            self.sync(server);
        }
        if let Role::Leader {
            history_acks,
            stage: Stage::Synchronisation,
            ..
        } = &mut self.server_mut(leader).role
        {
            let before = *history_acks;
            *history_acks |= 1 << server;
            let decided = |acks: u8| majority(acks) && acks & 1 << leader != 0;
            if decided(*history_acks) && !decided(before) {
                self.decide(leader);
            }
        }
    }

    fn serve(&mut self, server: u8) {
        let state = self.server_mut(server);
        let length = state.history.length();
        state.applied = Some(length);
        if let Role::Leader {
            stage,
            committed,
            history_acks,
            ..
        } = &mut state.role
        {
            (*stage, *committed, *history_acks) = (Stage::Service, length, 0);
        }
    }

    /// From the moment when a quorum, the leader included, acknowledged it, a history may be served,
    /// and may not be lost. It must hold all that earlier epochs decided; an old leader that lags
    /// behind may serve less than later epochs decided, but nothing else.
    fn decide(&mut self, leader: u8) {
        let Role::Leader { epoch, .. } = self.server(leader).role else {
            return;
        };
        let history = self.server(leader).history;
        let shared = history.length().min(self.committed.length());
        let differs = history.prefix(shared) != self.committed.prefix(shared);
        if differs || (epoch >= self.deciding && history.length() < self.committed.length()) {
            self.violation = Some(Violation::LostCommit);
            return;
        }
        if history.length() > self.committed.length() {
            self.committed = history;
        }
        self.deciding = self.deciding.max(epoch);
    }

    fn learn(&mut self, server: u8) {
        let Some((leader, ..)) = self.following(server) else {
            return;
        };
        let Role::Leader { committed, .. } = self.server(leader).role else {
            return;
        };
        let state = self.server_mut(server);
        state.applied = Some(committed.min(state.history.length()));
    }

    fn propose(&mut self, server: u8) {
        self.left.transactions -= 1;
        let state = self.server_mut(server);
        if let Role::Leader {
            term,
            epoch,
            transaction_acks,
            ..
        } = &mut state.role
        {
            *transaction_acks = 0;
            state.history.push(Transaction {
                epoch: *epoch,
                term: *term,
            });
        }
    }

    fn append(&mut self, server: u8) {
        let Some((leader, ..)) = self.following(server) else {
            return;
        };
        let length = self.server(server).history.length();
        let next = self.server(leader).history.at(length);
        self.server_mut(server).history.push(next);
    }

    /// FileTxnSnapLog.commit(): the log is synced, and the epoch too except in the thesis's variant.
    fn acknowledge(&mut self, server: u8) {
        if self.durability != Durability::Memory {
            self.sync(server);
        }
        let leader = self.following(server).map_or(server, |(leader, ..)| leader);
        if let Role::Leader {
            transaction_acks, ..
        } = &mut self.server_mut(leader).role
        {
            *transaction_acks |= 1 << server;
            if majority(*transaction_acks) {
                self.decide(leader);
            }
        }
    }

    /// The leader learns that a quorum has the transaction.
    fn commit_proposal(&mut self, server: u8) {
        let state = self.server_mut(server);
        let length = state.history.length();
        state.applied = Some(length);
        if let Role::Leader {
            committed,
            transaction_acks,
            ..
        } = &mut state.role
        {
            (*committed, *transaction_acks) = (length, 0);
        }
    }

    fn check(&mut self) {
        for server in &self.servers {
            let is_sure = server.doubt == Doubt::None && !server.log_ahead;
            let behind = is_sure && server.current < server.history.last_zxid().0;
            if server.accepted < server.current || behind {
                self.violation = self.violation.or(Some(Violation::EpochsOutOfOrder));
            }
        }
    }
}
