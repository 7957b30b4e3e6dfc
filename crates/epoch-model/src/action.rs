//! The steps of the protocol and of its adversary.

use crate::durability::Durability;
use crate::ensemble::{Ensemble, SERVERS, majority};
use crate::server::{Doubt, Role, Stage};

/// One step. Servers are indices from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields are the servers that take part")]
pub enum Action {
    /// The process is killed and starts again.
    Kill { server: u8 },
    /// One server loses power and starts again.
    LosePower { server: u8 },
    /// All servers lose power together and start again.
    Blackout,
    /// The process is killed, its epoch file is damaged, and it starts again.
    Damage { server: u8 },
    /// The background sync ends.
    Sync { server: u8 },
    /// A server in doubt has heard a quorum that lost nothing.
    Settle { server: u8 },
    /// A server stands for leader with an epoch above its own and the other's accepted one.
    Stand { server: u8, heard: u8 },
    /// LEADERINFO and ACKEPOCH.
    Follow { server: u8, leader: u8 },
    /// A quorum acknowledged the epoch: the leader's history becomes that of the epoch.
    Lead { server: u8 },
    /// The leader notes its current epoch and acknowledges its own history.
    LeaderAcknowledges { server: u8 },
    /// A follower's log takes over the leader's history.
    TakeHistory { server: u8 },
    /// The follower notes its current epoch and acknowledges NEWLEADER.
    AcknowledgeHistory { server: u8 },
    /// A quorum acknowledged the history: the leader serves, all of the history is committed.
    Serve { server: u8 },
    /// UPTODATE or COMMIT reaches a follower.
    Learn { server: u8 },
    /// The leader logs and proposes a transaction.
    Propose { server: u8 },
    /// A follower logs the proposal.
    Append { server: u8 },
    /// A server acknowledges what it logged.
    Acknowledge { server: u8 },
    /// A quorum acknowledged: the transaction is committed.
    Commit { server: u8 },
}

impl Ensemble {
    /// All steps that are possible.
    pub fn actions(&self, actions: &mut Vec<Action>) {
        if self.left.blackouts > 0 {
            actions.push(Action::Blackout);
        }
        for server in 0..SERVERS {
            self.faults_of(server, actions);
            self.steps_of(server, actions);
        }
    }

    fn faults_of(&self, server: u8, actions: &mut Vec<Action>) {
        if self.left.kills > 0 {
            actions.push(Action::Kill { server });
        }
        if self.left.power_losses > 0 {
            actions.push(Action::LosePower { server });
        }
        if self.left.damages > 0 && self.others_are_whole(server) {
            actions.push(Action::Damage { server });
        }
        let state = self.server(server);
        let unsynced = state.disk_current != state.current
            || state.disk_accepted < state.accepted + self.durability.reserve();
        if self.durability.syncs_in_background() && self.power_may_fail() && unsynced {
            actions.push(Action::Sync { server });
        }
    }

    fn others_are_whole(&self, server: u8) -> bool {
        (0..SERVERS).all(|other| self.server(other).doubt == Doubt::None || other == server)
    }

    fn steps_of(&self, server: u8, actions: &mut Vec<Action>) {
        let state = self.server(server);
        match state.doubt {
            Doubt::AllLost => {
                let certain = (0..SERVERS)
                    .filter(|&other| self.certain(other))
                    .fold(0, |set, other| set | 1 << other);
                if majority(certain) {
                    actions.push(Action::Settle { server });
                }
                return;
            }
            Doubt::None if self.left.terms > 0 => {
                for heard in (0..SERVERS).filter(|&other| other != server && self.certain(other)) {
                    actions.push(Action::Stand { server, heard });
                }
            }
            _ => {}
        }
        self.follow(server, actions);
        match &state.role {
            Role::Looking => {}
            Role::Leader { .. } => self.steps_of_leader(server, actions),
            Role::Follower { .. } => self.steps_of_follower(server, actions),
        }
    }

    fn follow(&self, server: u8, actions: &mut Vec<Action>) {
        let state = self.server(server);
        for leader in (0..SERVERS).filter(|&other| other != server) {
            let Role::Leader { epoch, term, .. } = self.server(leader).role else {
                continue;
            };
            let already = match state.role {
                Role::Looking => false,
                Role::Leader { epoch: own, .. } => own == epoch,
                Role::Follower { term: followed, .. } => followed == term,
            };
            if epoch >= state.accepted && !already {
                actions.push(Action::Follow { server, leader });
            }
        }
    }

    fn steps_of_leader(&self, server: u8, actions: &mut Vec<Action>) {
        let state = self.server(server);
        let Role::Leader {
            stage,
            epoch_acks,
            history_acks,
            transaction_acks,
            committed,
            ..
        } = state.role
        else {
            return;
        };
        let open = committed < state.history.length();
        match stage {
            Stage::Discovery if majority(epoch_acks) => actions.push(Action::Lead { server }),
            Stage::Discovery => {}
            Stage::Synchronisation if history_acks & 1 << server == 0 => {
                actions.push(Action::LeaderAcknowledges { server });
            }
            Stage::Synchronisation if majority(history_acks) => {
                actions.push(Action::Serve { server });
            }
            Stage::Synchronisation => {}
            Stage::Service if open => {
                if transaction_acks & 1 << server == 0 {
                    actions.push(Action::Acknowledge { server });
                }
                if majority(transaction_acks) {
                    actions.push(Action::Commit { server });
                }
            }
            Stage::Service => {
                if self.left.transactions > 0 {
                    actions.push(Action::Propose { server });
                }
            }
        }
    }

    fn steps_of_follower(&self, server: u8, actions: &mut Vec<Action>) {
        let state = self.server(server);
        let Some((leader, stage, has_history, acknowledged)) = self.following(server) else {
            return;
        };
        let Role::Leader {
            transaction_acks,
            committed,
            ..
        } = self.server(leader).role
        else {
            return;
        };
        if !has_history {
            if stage != Stage::Discovery {
                actions.push(Action::TakeHistory { server });
            }
        } else if !acknowledged {
            actions.push(Action::AcknowledgeHistory { server });
        } else if stage == Stage::Service {
            let theirs = self.server(leader).history.length();
            if state.history.length() < theirs {
                actions.push(Action::Append { server });
            } else if theirs > committed && transaction_acks & 1 << server == 0 {
                actions.push(Action::Acknowledge { server });
            }
            let applicable = committed.min(state.history.length());
            // Only the rule about the tail of a history asks what a follower knows.
            let matters = self.durability == Durability::ReserveAndTail;
            if matters && state.applied.is_none_or(|applied| applied < applicable) {
                actions.push(Action::Learn { server });
            }
        }
    }

    /// Whether the answer to an acknowledgement of a history must wait for the disk.
    pub(crate) fn history_waits(&self, server: u8) -> bool {
        let state = self.server(server);
        match self.durability {
            Durability::Synchronous => true,
            Durability::ReserveAndTail => {
                state.committed_up_to != Some(state.history.last_zxid())
                    || state.doubt != Doubt::None
            }
            _ => false,
        }
    }
}
