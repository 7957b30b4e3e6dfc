//! Requests for modes: who may ask for what, who waits, and who comes before whom.
//!
//! A request for the mode that is on its way already neither ends that change nor waits behind it. What
//! agents and triggers ask for neither ends nor replaces what a command asked for; it waits behind that.

use std::collections::VecDeque;

use tailbound_model::RequestsMeanwhile;
use tailbound_time::Clock;

use super::{Agents, Asker, HostModeManager, Reservations};
use crate::transition::TransitionError;

/// So many answers to agents are remembered until somebody takes them.
const MOST_ANSWERS: usize = 64;

/// Why a request for a mode changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// There is none of that name.
    #[error("there is no mode `{mode}`; the description has: {modes}")]
    Unknown {
        /// The name.
        mode: String,
        /// Those that there are.
        modes: String,
    },
    /// The agent of a domain may not ask for it.
    #[error(
        "domain \"{domain}\" may not ask for mode `{mode}`; add it to `may_request` of its agent in the \
         description"
    )]
    NotAllowed {
        /// The domain.
        domain: String,
        /// The mode.
        mode: String,
    },
    /// There is no such transition.
    #[error("mode `{mode}` cannot be changed to: {source}")]
    Infeasible {
        /// The mode.
        mode: String,
        /// Why not.
        source: TransitionError,
    },
    /// Another request has taken its place.
    #[error("a later request took the place of this one before it began")]
    Replaced,
}

impl<R: Reservations, A: Agents, C: Clock> HostModeManager<R, A, C> {
    /// Whether there is such a mode that can be changed to, and who asks for it may.
    pub(super) fn check(&self, asker: &Asker, mode: &str) -> Result<(), ModeError> {
        if self.table.mode(mode).is_none() {
            return Err(ModeError::Unknown {
                mode: mode.to_owned(),
                modes: self.table.names().join(", "),
            });
        }
        if let Asker::Domain(domain) = asker
            && !self.table.may_request(domain, mode)
        {
            return Err(ModeError::NotAllowed {
                domain: domain.clone(),
                mode: mode.to_owned(),
            });
        }
        // From wherever: what a mode needs does not depend on what holds.
        self.transition_to(mode).map(|_| ())
    }

    /// Takes a request up that comes by another way than the agents' links; it is carried out by
    /// [`HostModeManager::serve_one`].
    pub fn ask(&mut self, by: Asker, mode: &str) {
        // Nothing is under way between two calls.
        let _ends_nothing = self.enqueue(by, mode.to_owned(), None);
    }

    /// Who asked for the mode that the last change went to while it was under way. The answer to that one
    /// is theirs as well.
    pub fn take_joined(&mut self) -> Vec<Asker> {
        std::mem::take(&mut self.requests.joined)
    }

    /// Takes a request up; whether it ends the transition that is under way.
    pub(super) fn enqueue(
        &mut self,
        by: Asker,
        mode: String,
        under_way: Option<&mut CurrentChange>,
    ) -> bool {
        // What would be refused anyway must neither replace nor end anything.
        match self.check(&by, &mode) {
            Ok(()) => self
                .requests
                .add((by, mode), self.table.requests(), under_way),
            Err(error) => {
                self.requests.refuse(by, error);
                false
            }
        }
    }
}

/// The requests that wait for their change, and the answers to those that get none.
#[derive(Default)]
pub(super) struct RequestQueue {
    waiting: VecDeque<(Asker, String)>,
    refusals: VecDeque<(Asker, ModeError)>,
    /// Commands that asked for the mode of the last change while it was under way.
    joined: Vec<Asker>,
}

impl RequestQueue {
    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the request whose turn it is.
    pub(super) fn next(&mut self) -> Option<(Asker, String)> {
        self.waiting.pop_front()
    }

    /// Takes the oldest answer to a request that changes nothing.
    pub(super) fn next_refusal(&mut self) -> Option<(Asker, ModeError)> {
        self.refusals.pop_front()
    }

    /// Forgets who joined the change before.
    pub(super) fn begin_change(&mut self) {
        self.joined.clear();
    }

    /// Adds a request; whether it ends the change that is under way.
    fn add(
        &mut self,
        (by, mode): (Asker, String),
        how: RequestsMeanwhile,
        under_way: Option<&mut CurrentChange>,
    ) -> bool {
        self.make_way(&by, how);
        let by_command = is_command(&by);
        let Some(course) = under_way else {
            self.waiting.push_back((by, mode));
            return false;
        };
        // If others wait, the mode is left again before it would be this one's turn.
        if self.waiting.is_empty() && course.goes_to(&mode) {
            course.by_command |= by_command;
            if by_command {
                self.joined.push(by);
            }
            return false;
        }
        self.waiting.push_back((by, mode));
        let ends = how == RequestsMeanwhile::Preempt && (by_command || !course.by_command);
        course.is_given_up |= ends;
        ends
    }

    /// Ends the waiting of those whose place a request takes.
    fn make_way(&mut self, by: &Asker, how: RequestsMeanwhile) {
        let (kept, replaced): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(other, _)| match how {
                // An agent has one request waiting at most, however many it sends.
                RequestsMeanwhile::Queue => is_command(by) || other != by,
                // What somebody commands is not undone by what goes by itself.
                RequestsMeanwhile::Merge | RequestsMeanwhile::Preempt => {
                    is_command(other) && !is_command(by)
                }
            });
        self.waiting = kept;
        for (asker, _) in replaced {
            self.refuse(asker, ModeError::Replaced);
        }
    }

    /// Notes an answer. A flood of requests from an agent is not remembered at length.
    fn refuse(&mut self, asker: Asker, error: ModeError) {
        let flooded = self.refusals.len() >= MOST_ANSWERS;
        if !flooded || is_command(&asker) {
            self.refusals.push_back((asker, error));
        }
    }
}

/// Whether somebody waits for the answer who decides more than agents and triggers do.
pub(super) fn is_command(asker: &Asker) -> bool {
    matches!(asker, Asker::Command(_))
}

/// The change that is under way, as requests see it.
pub(super) struct CurrentChange {
    /// The mode that it goes to; none if it takes another one back.
    pub(super) to: Option<String>,
    /// Whether a command wants it.
    pub(super) by_command: bool,
    /// Whether another request has ended it.
    pub(super) is_given_up: bool,
}

impl CurrentChange {
    fn goes_to(&self, mode: &str) -> bool {
        !self.is_given_up && self.to.as_deref() == Some(mode)
    }
}
