//! What an agent does with what the host tells it: a state machine without clock or I/O.

use tailbound_time::Instant;

use crate::agent::engine::SwitchError;
use crate::wire::{AgentClock, AgentMessage, HostMessage, Name, TaskLists, Text};

/// What is to be done now. One message gives one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStep {
    /// Nothing, and why.
    Ignore(Ignored),
    /// Say this to the host.
    Send(AgentMessage),
    /// Switch these tasks, then tell [`Session::switched`] how it went.
    Switch(TaskLists),
    /// The connection has begun well.
    Begun,
    /// The host refuses a request.
    Refused {
        /// The mode that was asked for.
        mode: Name,
        /// Why not.
        reason: Text,
    },
    /// Close the connection: this host serves another domain.
    Leave {
        /// The domain that it takes us for.
        other: Name,
    },
}

/// Why a message is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// A newer change is known already.
    Stale,
    /// It came before the welcome of this connection.
    Unwelcomed,
    /// A second welcome.
    Repeated,
    /// Tasks are being switched.
    Busy,
}

/// What became of the newest change.
#[derive(Clone, Debug)]
enum ChangeOutcome {
    /// It holds. These lists take it back.
    Holds(TaskLists),
    /// It failed, and these lists are still to be carried out before all is as it was.
    Failed(TaskLists),
    /// It was withdrawn.
    Withdrawn,
}

/// The newest change that was decided, with the answer that is repeated with it.
#[derive(Clone, Debug)]
struct Decided {
    change: u64,
    /// Mode and lists; none where its withdrawal came first.
    content: Option<(Name, TaskLists)>,
    /// The mode before.
    before: Option<Name>,
    outcome: ChangeOutcome,
    answer: AgentMessage,
}

/// A switch under way.
#[derive(Clone, Debug)]
struct DomainSwitch {
    change: u64,
    received: Instant,
    /// What to change to; none for a withdrawal.
    content: Option<(Name, TaskLists)>,
}

/// The agent's side of all its connections, one after another.
#[derive(Clone, Debug)]
pub struct Session {
    domain: Name,
    agent: Text,
    clock: AgentClock,
    mode: Option<Name>,
    decided: Option<Decided>,
    pending: Option<DomainSwitch>,
    /// The newest change that this connection told of; none before its welcome.
    newest: Option<u64>,
}

impl Session {
    /// The session of an agent that serves `domain`, calls itself `agent`, and reads its times from
    /// `clock`.
    pub fn new(domain: Name, agent: Text, clock: AgentClock) -> Self {
        Self {
            domain,
            agent,
            clock,
            mode: None,
            decided: None,
            pending: None,
            newest: None,
        }
    }

    /// The mode that the domain is in, where that is known.
    pub fn mode(&self) -> Option<&Name> {
        self.mode.as_ref()
    }

    /// A connection was made: what to say first.
    pub fn connected(&mut self, tasks: Vec<Name>, started: Vec<Name>) -> AgentMessage {
        self.newest = None;
        AgentMessage::Hello {
            domain: self.domain.clone(),
            agent: self.agent.clone(),
            clock: self.clock.clone(),
            tasks,
            started,
            change: self.decided.as_ref().map_or(0, |last| last.change),
            mode: self.mode.clone(),
        }
    }

    /// Whether the host has answered the hello of this connection.
    pub fn is_welcomed(&self) -> bool {
        self.newest.is_some()
    }

    /// Something in the domain asks for the global mode `mode`: what to say; nothing while there is
    /// no connection that has begun.
    pub fn request(&self, mode: Name) -> Option<AgentMessage> {
        self.is_welcomed().then_some(AgentMessage::Request { mode })
    }

    /// Takes in a message that was received at `received`.
    pub fn receive(&mut self, message: HostMessage, received: Instant) -> SessionStep {
        if let HostMessage::Ping { nonce } = message {
            return SessionStep::Send(AgentMessage::Pong { nonce });
        }
        if self.pending.is_some() {
            return SessionStep::Ignore(Ignored::Busy);
        }
        match message {
            HostMessage::Welcome {
                domain,
                mode,
                change,
            } => self.welcome(domain, mode, change),
            HostMessage::Refused { mode, reason } => SessionStep::Refused { mode, reason },
            HostMessage::Change {
                change,
                mode,
                start,
                stop,
            } => match self.is_news(change) {
                Ok(()) => self.change(change, (mode, TaskLists { stop, start }), received),
                Err(ignored) => SessionStep::Ignore(ignored),
            },
            HostMessage::Withdraw { change } => match self.is_news(change) {
                Ok(()) => self.withdraw(change, received),
                Err(ignored) => SessionStep::Ignore(ignored),
            },
            HostMessage::Ping { nonce } => SessionStep::Send(AgentMessage::Pong { nonce }),
        }
    }

    fn welcome(&mut self, domain: Name, mode: Option<Name>, change: u64) -> SessionStep {
        if domain != self.domain {
            return SessionStep::Leave { other: domain };
        }
        if self.is_welcomed() {
            return SessionStep::Ignore(Ignored::Repeated);
        }
        self.newest = Some(change);
        if self.decided.is_none() {
            self.mode = mode;
        }
        SessionStep::Begun
    }

    fn is_news(&mut self, change: u64) -> Result<(), Ignored> {
        match self.newest {
            None => Err(Ignored::Unwelcomed),
            Some(newest) if change < newest => Err(Ignored::Stale),
            Some(_) => {
                self.newest = Some(change);
                Ok(())
            }
        }
    }

    fn change(
        &mut self,
        change: u64,
        content: (Name, TaskLists),
        received: Instant,
    ) -> SessionStep {
        if let Some(last) = self.decided.as_ref().filter(|last| last.change == change) {
            let is_same = last
                .content
                .as_ref()
                .is_none_or(|previous| *previous == content);
            return SessionStep::Send(match is_same {
                true => last.answer.clone(),
                false => AgentMessage::Failed {
                    change,
                    reason: Text::new(format_args!(
                        "change {change} was told before with another content; give every change a \
                         number of its own"
                    )),
                    rolled_back: false,
                },
            });
        }
        let lists = content.1.clone();
        self.pending = Some(DomainSwitch {
            change,
            received,
            content: Some(content),
        });
        SessionStep::Switch(lists)
    }

    fn withdraw(&mut self, change: u64, received: Instant) -> SessionStep {
        let withdrawn = AgentMessage::Withdrawn {
            change,
            received_ns: received,
            switched_ns: received,
        };
        let Some(last) = self.decided.as_mut().filter(|last| last.change == change) else {
            // It never came, and must not be carried out should it still come.
            self.decided = Some(Decided {
                change,
                content: None,
                before: self.mode.clone(),
                outcome: ChangeOutcome::Withdrawn,
                answer: withdrawn.clone(),
            });
            return SessionStep::Send(withdrawn);
        };
        match &last.outcome {
            ChangeOutcome::Withdrawn => SessionStep::Send(last.answer.clone()),
            ChangeOutcome::Failed(left) if *left == TaskLists::default() => {
                last.outcome = ChangeOutcome::Withdrawn;
                last.answer = withdrawn.clone();
                SessionStep::Send(withdrawn)
            }
            ChangeOutcome::Failed(back) | ChangeOutcome::Holds(back) => {
                self.pending = Some(DomainSwitch {
                    change,
                    received,
                    content: None,
                });
                SessionStep::Switch(back.clone())
            }
        }
    }

    /// The switch that was asked for ended at `switched`: what to say. Nothing where none was asked
    /// for.
    pub fn switched(
        &mut self,
        result: Result<TaskLists, SwitchError>,
        switched: Instant,
    ) -> Option<AgentMessage> {
        let pending = self.pending.take()?;
        Some(match pending.content {
            Some(_) => self.changed(pending, result, switched),
            None => self.withdrew(&pending, result, switched),
        })
    }

    fn changed(
        &mut self,
        pending: DomainSwitch,
        result: Result<TaskLists, SwitchError>,
        switched: Instant,
    ) -> AgentMessage {
        let change = pending.change;
        let before = self.mode.clone();
        let (outcome, answer) = match result {
            Ok(changed) => {
                self.mode = pending.content.as_ref().map(|(mode, _)| mode.clone());
                let back = TaskLists {
                    stop: changed.start,
                    start: changed.stop,
                };
                let answer = AgentMessage::Done {
                    change,
                    received_ns: pending.received,
                    switched_ns: switched,
                };
                (ChangeOutcome::Holds(back), answer)
            }
            Err(error) => {
                let answer = AgentMessage::Failed {
                    change,
                    reason: Text::new(&error),
                    rolled_back: error.is_rolled_back(),
                };
                (ChangeOutcome::Failed(error.unrestored), answer)
            }
        };
        self.decided = Some(Decided {
            change,
            content: pending.content,
            before,
            outcome,
            answer: answer.clone(),
        });
        answer
    }

    fn withdrew(
        &mut self,
        pending: &DomainSwitch,
        result: Result<TaskLists, SwitchError>,
        switched: Instant,
    ) -> AgentMessage {
        let change = pending.change;
        if let Err(error) = result {
            // Another withdrawal tries again.
            return AgentMessage::Failed {
                change,
                reason: Text::new(&error),
                rolled_back: false,
            };
        }
        let answer = AgentMessage::Withdrawn {
            change,
            received_ns: pending.received,
            switched_ns: switched,
        };
        if let Some(last) = &mut self.decided {
            self.mode.clone_from(&last.before);
            last.outcome = ChangeOutcome::Withdrawn;
            last.answer = answer.clone();
        }
        answer
    }
}
