//! The host mode manager: carries transitions out.
//!
//! It knows what holds in every domain, makes a [`Transition`] of what a mode would change, and
//! carries its actions out over [`Reservations`] and [`Agents`]. A transition that ends before all is
//! done is rolled back by another one, from what holds to what held. Requests that come meanwhile wait, or
//! replace those that wait, or end the transition, as the description says.

mod addition;
mod agent_events;
mod boosts;
mod claims;
pub mod journal;
mod ports;
mod requests;
mod state;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tailbound_model::ResourceInterface;
use tailbound_time::{Clock, Instant};

use crate::table::ModeTable;
use crate::transition::{
    Cause, DomainChange, DomainMode, Ending, Holdings, Limits, Options, Timeline, Transition,
    TransitionEvent, TransitionOutcome,
};
pub use addition::AdditionError;
use boosts::Boosts;
use claims::Claims;
pub use journal::{StepJournal, StepRecord};
pub use ports::{AgentEvent, Agents, Asker, Order, Reservations};
pub use requests::ModeError;
use requests::{CurrentChange, RequestQueue, is_command};
pub use state::{DomainState, State};

/// What came of a request for a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The mode that was left.
    pub from: String,
    /// The mode that was asked for.
    pub to: String,
    /// How the transition has ended.
    pub outcome: TransitionOutcome,
    /// What happened when.
    pub timeline: Timeline,
    /// What took a transition back that was given up.
    pub rolled_back: Option<Box<Report>>,
}

impl Report {
    /// Whether the system is in the mode that was asked for, but perhaps for domains in fallbacks.
    pub fn is_there(&self) -> bool {
        !matches!(self.outcome.ending, Ending::GivenUp(_))
    }

    /// Whether the mode that was asked for held already: nothing has changed.
    pub fn changes_nothing(&self) -> bool {
        self.from == self.to && self.is_there() && self.timeline.steps.is_empty()
    }
}

/// The host mode manager.
pub struct HostModeManager<R, A, C> {
    table: ModeTable,
    limits: Limits,
    state: State,
    /// What is in force and what will be; the state knows what was accepted.
    holdings: Holdings,
    reservations: R,
    agents: A,
    clock: C,
    number: u64,
    requests: RequestQueue,
    /// When the last change began.
    last_begun: Option<Instant>,
    /// The number under which each domain was told what should hold, if nothing was asked of it since.
    order_numbers: BTreeMap<String, u64>,
    claims: Claims,
    /// After changes that were preempted: what held before them. It is what a later one is taken back
    /// to, and what is made again after our death, since a mixture of modes is none of the table.
    whole: Option<State>,
    boosts: Boosts,
    journal: Option<Box<dyn StepJournal>>,
}

/// A transition under way.
struct ActiveTransition {
    transition: Transition,
    /// The number of the change that each domain was sent last.
    numbers: BTreeMap<String, u64>,
    /// Interfaces to be asked for when they may hold.
    later: Vec<(Instant, String, ResourceInterface)>,
    events: VecDeque<TransitionEvent>,
    /// Domains that are told in the end what should hold: their agents have answered something old, or
    /// have come meanwhile.
    stale: BTreeSet<String>,
    under_way: CurrentChange,
    /// While it is our turn to change reservations: until when it is kept.
    turn_until: Option<Instant>,
}

impl<R: Reservations, A: Agents, C: Clock> HostModeManager<R, A, C> {
    /// A manager of a host that is in the initial mode of the table. `limits` are for the domains of
    /// the table together.
    pub fn new(table: ModeTable, limits: Limits, reservations: R, agents: A, clock: C) -> Self {
        Self {
            state: State::initial(&table),
            table,
            limits,
            holdings: Holdings::default(),
            reservations,
            agents,
            clock,
            number: 0,
            requests: RequestQueue::default(),
            last_begun: None,
            order_numbers: BTreeMap::new(),
            claims: Claims::default(),
            whole: None,
            boosts: Boosts::default(),
            journal: None,
        }
    }

    /// The same on a host in another state than the initial one.
    #[must_use]
    pub fn in_state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// The same with a journal. What holds is noted at once.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn StepJournal>) -> Self {
        self.journal = Some(journal);
        self.note_what_holds();
        self
    }

    fn note(&mut self, record: impl FnOnce() -> StepRecord) {
        if let Some(journal) = &mut self.journal {
            journal.note(&record());
        }
    }

    fn note_what_holds(&mut self) {
        let state = self.whole.as_ref().unwrap_or(&self.state).clone();
        self.note(|| StepRecord::Holds { state });
    }

    /// What holds.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Carries later transitions out in another way.
    pub fn set_options(&mut self, options: Options) {
        self.table.set_options(options);
    }

    /// The modes and how they are changed.
    pub fn table(&self) -> &ModeTable {
        &self.table
    }

    /// The reservations.
    pub fn reservations(&mut self) -> &mut R {
        &mut self.reservations
    }

    /// The agents.
    pub fn agents(&mut self) -> &mut A {
        &mut self.agents
    }

    /// Waits for a request and carries it out. `None` if none has come by then.
    pub fn serve_one(
        &mut self,
        until: Option<Instant>,
    ) -> Option<(Asker, Result<Report, ModeError>)> {
        loop {
            if let Some((asker, error)) = self.requests.next_refusal() {
                return Some((asker, Err(error)));
            }
            let now = self.clock.now();
            let gap = self.table.least_gap();
            let next = self
                .last_begun
                .map_or(now, |begun| begun.saturating_add(gap));
            if next <= now
                && let Some((asker, mode)) = self.requests.next()
            {
                let result = self.change_to(&asker, &mode);
                return Some((asker, result));
            }
            let wake = match self.requests.is_empty() {
                true => until,
                false => Some(until.map_or(next, |until| until.min(next))),
            };
            match self.agents.wait(wake) {
                Some(event) => self.handle_idle(event),
                None if until.is_some_and(|until| until <= self.clock.now()) => return None,
                None => {}
            }
        }
    }

    /// Changes to a mode, and back if that does not come to its end.
    ///
    /// # Errors
    /// [`ModeError`] if nothing was begun.
    pub fn change_to(&mut self, asker: &Asker, mode: &str) -> Result<Report, ModeError> {
        self.check(asker, mode)?;
        self.requests.begin_change();
        let (changes, transition) = self.transition_to(mode)?;
        if changes.iter().all(DomainChange::is_nothing) {
            return Ok(self.stay(mode, &changes, transition));
        }
        self.last_begun = Some(self.clock.now());
        let from = self.state.mode.clone();
        let old = self.whole.take().unwrap_or_else(|| self.state.clone());
        self.note(|| StepRecord::begin(&old, mode, &changes));
        let under_way = CurrentChange {
            to: Some(mode.to_owned()),
            by_command: is_command(asker),
            is_given_up: false,
        };
        let (mut report, under_way) =
            self.carry_out((&from, mode), &changes, transition, under_way);
        match &report.outcome.ending {
            // The one that has ended it goes on from where it is.
            Ending::GivenUp(Cause::Preempted) => self.whole = Some(old),
            Ending::GivenUp(_) => {
                report.rolled_back = self.take_back((mode, &from), old, under_way);
                self.tell_where_unknown();
            }
            Ending::Completed | Ending::Partly(_) => mode.clone_into(&mut self.state.mode),
        }
        self.note_what_holds();
        Ok(report)
    }

    /// What a mode would change now, and the transition that does it.
    fn transition_to(&self, mode: &str) -> Result<(Vec<DomainChange>, Transition), ModeError> {
        let target = self.table.mode(mode).cloned().unwrap_or_default();
        let changes = self.state.changes_to(&self.table, mode, &target);
        let options = self.table.options();
        let transition = Transition::new(changes.clone(), self.limits.clone(), options);
        let transition = transition.map_err(|source| ModeError::Infeasible {
            mode: mode.to_owned(),
            source,
        })?;
        Ok((changes, transition))
    }

    /// Goes to a mode in which all that holds is as it is.
    fn stay(&mut self, mode: &str, changes: &[DomainChange], mut transition: Transition) -> Report {
        let _nothing = transition.begin(self.clock.now());
        let outcome = transition.outcome().unwrap_or_else(|| TransitionOutcome {
            ending: Ending::Completed,
            domains: BTreeMap::new(),
        });
        let before = self.state.clone();
        // What is alike may be that of another mode, and is this one's now: its tasks are those that are told
        // of if ever nothing is known of them.
        self.state.take_over(changes, &outcome);
        mode.clone_into(&mut self.state.mode);
        // After a change that was preempted before it had done anything, or by a mode of another name.
        if self.whole.take().is_some() || self.state != before {
            self.note_what_holds();
        }
        Report {
            from: before.mode,
            to: mode.to_owned(),
            outcome,
            timeline: transition.timeline().clone(),
            rolled_back: None,
        }
    }

    /// Takes a transition back to what held before it; nothing if there is no way, and then what holds is
    /// a mixture.
    fn take_back(
        &mut self,
        (from, to): (&str, &str),
        old: State,
        under_way: CurrentChange,
    ) -> Option<Box<Report>> {
        let back = self.state.changes_back(&self.table, &old);
        let options = self.table.options();
        let Ok(undoing) = Transition::new(back.clone(), self.limits.clone(), options) else {
            self.whole = Some(old);
            return None;
        };
        self.note(|| StepRecord::begin_back(&old));
        let under_way = CurrentChange {
            to: None,
            ..under_way
        };
        let undoing = undoing.regardless();
        let (undone, _) = self.carry_out((from, to), &back, undoing, under_way);
        if !undone.is_there() {
            self.whole = Some(old);
        }
        Some(Box::new(undone))
    }

    fn carry_out(
        &mut self,
        (from, to): (&str, &str),
        changes: &[DomainChange],
        transition: Transition,
        under_way: CurrentChange,
    ) -> (Report, CurrentChange) {
        let mut course = ActiveTransition {
            transition: transition.after(&self.holdings),
            numbers: BTreeMap::new(),
            later: Vec::new(),
            events: VecDeque::new(),
            stale: BTreeSet::new(),
            under_way,
            turn_until: None,
        };
        self.agents.expect(true);
        let actions = course.transition.begin(self.clock.now());
        self.obey(&mut course, actions);
        let outcome = loop {
            if let Some(outcome) = course.transition.outcome() {
                break outcome;
            }
            let event = self.next_event(&mut course);
            let actions = course.transition.handle(event, self.clock.now());
            self.obey(&mut course, actions);
        };
        self.end_turn(&mut course);
        self.agents.expect(false);
        assert!(
            course.later.is_empty(),
            "no domain is settled whose reservation is still to be asked for"
        );
        self.holdings = course.transition.holdings();
        self.state.take_over(changes, &outcome);
        for domain in &course.stale {
            self.tell(domain);
        }
        let report = Report {
            from: from.to_owned(),
            to: to.to_owned(),
            outcome,
            timeline: course.transition.timeline().clone(),
            rolled_back: None,
        };
        (report, course.under_way)
    }

    /// Since when the agent of a domain says that a task is stopped; none if it does not say so, or something
    /// puts it in doubt.
    pub fn said_stopped(&self, domain: &str, task: &str) -> Option<Instant> {
        self.claims.said_stopped(domain, task)
    }

    /// The local mode that holds in a domain, or should.
    pub fn local_mode(&self, domain: &str) -> Option<&DomainMode> {
        self.state.domains.get(domain).map(DomainState::tasks_of)
    }
}
