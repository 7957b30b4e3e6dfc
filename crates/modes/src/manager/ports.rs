//! What the host mode manager needs of the world.

use tailbound_enforcement::ReservationChange;
use tailbound_time::{Duration, Instant};

/// The reservations of a host.
pub trait Reservations {
    /// Changes follow, one soon after another. Until [`Reservations::end_changes`] nobody else on this host
    /// may change reservations, so nothing is waited for meanwhile.
    fn begin_changes(&mut self) {}

    /// For now there are no more; more may begin later, in the same transition.
    fn end_changes(&mut self) {}

    /// Gives a domain another interface; when it is in force.
    ///
    /// # Errors
    /// Why not; then the old interface holds.
    fn change(&mut self, change: ReservationChange<'_>) -> Result<Instant, String>;

    /// Whether a change can be asked for before it may hold. If not, it is asked for when it may.
    fn can_wait(&self, domain: &str) -> bool;

    /// Lets a domain run without budget for so long at most, if that can be had.
    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool);

    /// Ends a boost.
    fn unboost(&mut self, domain: &str);
}

/// What is said to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop these tasks and start those.
    Change {
        /// The number of the change: later ones are higher.
        number: u64,
        /// The local mode's name.
        mode: String,
        /// To stop, before the others start.
        stop: Vec<String>,
        /// To start.
        start: Vec<String>,
    },
    /// Go back to what held before that change, if it is not done.
    Withdraw {
        /// Its number.
        number: u64,
    },
}

/// What comes from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// An agent has switched.
    Done {
        /// Whose.
        domain: String,
        /// The number of the change.
        number: u64,
        /// When the message had come.
        received_at: Instant,
        /// When the tasks were switched.
        switched_at: Instant,
    },
    /// An agent could not.
    Failed {
        /// Whose.
        domain: String,
        /// The number of the change.
        number: u64,
        /// Why.
        reason: String,
        /// Whether the tasks are as before.
        rolled_back: bool,
    },
    /// An agent is there, again or for the first time.
    Joined {
        /// Whose.
        domain: String,
        /// The newest change that it knows of; later ones have higher numbers.
        number: u64,
    },
    /// An agent is gone.
    Left {
        /// Whose.
        domain: String,
    },
    /// Somebody wants another mode.
    Asked {
        /// Who.
        by: Asker,
        /// The global mode.
        mode: String,
    },
}

/// Who wants another mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A user, by command or API; the number finds the one who waits for the answer.
    Command(u64),
    /// The agent of a domain.
    Domain(String),
    /// A trigger of the description.
    Trigger(String),
}

/// The agents of a host's domains, and all others who want something.
pub trait Agents {
    /// Sends an order; whether the agent is there.
    fn send(&mut self, domain: &str, order: Order) -> bool;

    /// Answers are about to come, within microseconds, or no longer: being woken for each takes longer
    /// than looking for it.
    fn expect(&mut self, soon: bool);

    /// The next thing that comes from outside; `None` if nothing has by then. `None` for `until`
    /// waits for good.
    fn wait(&mut self, until: Option<Instant>) -> Option<AgentEvent>;
}
