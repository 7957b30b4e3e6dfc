//! The host mode manager: carries transitions out.
//!
//! It knows what holds in every domain, makes a [`Transition`] of what a mode would change, and
//! carries its actions out over [`Reservations`] and [`Agents`]. A transition that ends before all is
//! done is rolled back by another one, from what holds to what held. RequestsMeanwhile that come meanwhile
//! wait, or replace those that wait, or end the transition, as the description says.

mod addition;
pub mod journal;
mod ports;
#[cfg(test)]
mod promises;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tailbound_model::{RequestsMeanwhile, ResourceInterface};
use tailbound_time::{Clock, Instant};

use crate::table::ModeTable;
use crate::transition::{
    Action, Cause, DomainChange, Ending, Event, Holdings, Limits, LocalMode, Options, Outcome,
    Timeline, Transition, TransitionError,
};
pub use addition::AdditionError;
pub use journal::{Journal, Record};
pub use ports::{Agents, Asker, News, Order, Reservations};
pub use state::{DomainState, State};

/// So many answers to agents are remembered until somebody takes them.
const MOST_ANSWERS: usize = 64;

/// What came of a request for a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The mode that was left.
    pub from: String,
    /// The mode that was asked for.
    pub to: String,
    /// How the transition has ended.
    pub outcome: Outcome,
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
}

/// Why a request for a mode changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// There is none of that name.
    #[error("there is no mode `{mode}`; the description has: {known}")]
    Unknown {
        /// The name.
        mode: String,
        /// Those that there are.
        known: String,
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
    #[error(transparent)]
    Transition(#[from] TransitionError),
    /// Another request has taken its place.
    #[error("a later request took the place of this one before it began")]
    Replaced,
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
    waiting: VecDeque<(Asker, String)>,
    /// RequestsMeanwhile to which there is an answer already.
    answered: VecDeque<(Asker, ModeError)>,
    /// When the last change began.
    last_begun: Option<Instant>,
    /// The number under which each domain was told what should hold, if nothing was asked of it since.
    told: BTreeMap<String, u64>,
    journal: Option<Box<dyn Journal>>,
}

/// A transition under way.
struct Course<'a> {
    transition: Transition,
    /// The number of the change that each domain was sent last.
    numbers: BTreeMap<String, u64>,
    /// Interfaces to be asked for when they may hold.
    later: Vec<(Instant, String, ResourceInterface)>,
    events: VecDeque<Event>,
    /// Domains that have answered something old.
    stale: BTreeSet<String>,
    changes: &'a [DomainChange],
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
            waiting: VecDeque::new(),
            answered: VecDeque::new(),
            last_begun: None,
            told: BTreeMap::new(),
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
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self.note_what_holds();
        self
    }

    fn note(&mut self, record: impl FnOnce() -> Record) {
        if let Some(journal) = &mut self.journal {
            journal.note(&record());
        }
    }

    fn note_what_holds(&mut self) {
        let state = self.state.clone();
        self.note(|| Record::Holds { state });
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
            if let Some((asker, error)) = self.answered.pop_front() {
                return Some((asker, Err(error)));
            }
            let now = self.clock.now();
            let gap = self.table.least_gap();
            let next = self
                .last_begun
                .map_or(now, |begun| begun.saturating_add(gap));
            if next <= now
                && let Some((asker, mode)) = self.waiting.pop_front()
            {
                let result = self.change_to(&asker, &mode);
                return Some((asker, result));
            }
            let wake = match self.waiting.is_empty() {
                true => until,
                false => Some(until.map_or(next, |until| until.min(next))),
            };
            match self.agents.wait(wake) {
                Some(news) => self.idle_news(news),
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
        let target = self.table.mode(mode).cloned().unwrap_or_default();
        self.last_begun = Some(self.clock.now());
        let from = self.state.mode.clone();
        let old = self.state.clone();
        let changes = self.state.changes_to(&self.table, mode, &target);
        let options = self.table.options();
        let transition = Transition::new(changes.clone(), self.limits.clone(), options)?;
        self.note(|| Record::begin(&old, mode, &changes));
        let mut report = self.carry_out(&from, mode, &changes, transition);
        if let Ending::GivenUp(cause) = &report.outcome.ending {
            // What was preempted goes on from where it is.
            if *cause != Cause::Preempted {
                let back = self.state.changes_back(&self.table, &old);
                let undoing = Transition::new(back.clone(), self.limits.clone(), options)?;
                self.note(|| Record::begin_back(&old));
                let undone = self.carry_out(mode, &from, &back, undoing.regardless());
                report.rolled_back = Some(Box::new(undone));
                self.tell_where_unknown();
            }
        } else {
            self.state.mode = mode.to_owned();
        }
        self.note_what_holds();
        Ok(report)
    }

    /// Whether there is such a mode, and who asks for it may.
    fn check(&self, asker: &Asker, mode: &str) -> Result<(), ModeError> {
        if self.table.mode(mode).is_none() {
            return Err(ModeError::Unknown {
                mode: mode.to_owned(),
                known: self.table.names().join(", "),
            });
        }
        let Asker::Domain(domain) = asker else {
            return Ok(());
        };
        match self.table.may_request(domain, mode) {
            true => Ok(()),
            false => Err(ModeError::NotAllowed {
                domain: domain.clone(),
                mode: mode.to_owned(),
            }),
        }
    }

    fn carry_out(
        &mut self,
        from: &str,
        to: &str,
        changes: &[DomainChange],
        transition: Transition,
    ) -> Report {
        let mut course = Course {
            transition: transition.after(&self.holdings),
            numbers: BTreeMap::new(),
            later: Vec::new(),
            events: VecDeque::new(),
            stale: BTreeSet::new(),
            changes,
        };
        self.agents.expect(true);
        self.reservations.begin_changes();
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
        self.reservations.end_changes();
        self.agents.expect(false);
        self.holdings = course.transition.holdings();
        self.state.take_over(changes, &outcome);
        for domain in &course.stale {
            self.tell(domain);
        }
        Report {
            from: from.to_owned(),
            to: to.to_owned(),
            outcome,
            timeline: course.transition.timeline().clone(),
            rolled_back: None,
        }
    }

    /// Carries actions out, those first for which somebody else works meanwhile.
    fn obey(&mut self, course: &mut Course<'_>, actions: Vec<Action>) {
        let takes_long = |action: &Action| matches!(action, Action::SetInterface { .. });
        let (long, short): (Vec<_>, Vec<_>) = actions.into_iter().partition(takes_long);
        for action in short.into_iter().chain(long) {
            match action {
                Action::SetInterface {
                    domain,
                    interface,
                    not_before,
                } => {
                    let waits = not_before > self.clock.now();
                    if waits && !self.reservations.can_wait(&domain) {
                        course.later.push((not_before, domain, interface));
                    } else {
                        self.set_interface(course, domain, &interface, not_before);
                    }
                }
                Action::Send {
                    domain,
                    mode,
                    stop,
                    start,
                } => self.send(course, domain, mode, stop, start),
                Action::Boost {
                    domain,
                    if_exhausted,
                } => {
                    let at_most = self.table.longest_boost();
                    self.reservations.boost(&domain, at_most, if_exhausted);
                }
                Action::Unboost { domain } => self.reservations.unboost(&domain),
                Action::Withdraw { domain } => {
                    if let Some(number) = course.numbers.remove(&domain) {
                        self.agents.send(&domain, Order::Withdraw { number });
                    }
                }
            }
        }
    }

    fn set_interface(
        &mut self,
        course: &mut Course<'_>,
        domain: String,
        interface: &ResourceInterface,
        not_before: Instant,
    ) {
        let (asking, asked) = (domain.clone(), interface.clone());
        self.note(|| Record::Asks {
            domain: asking,
            interface: asked,
        });
        let changed = self.reservations.change(&domain, interface, not_before);
        if changed.is_ok() {
            let domain = domain.clone();
            self.note(|| Record::Accepted { domain });
        }
        let event = match changed {
            Ok(in_force_at) => Event::InterfaceAccepted {
                domain,
                in_force_at,
            },
            Err(reason) => Event::InterfaceRefused { domain, reason },
        };
        course.events.push_back(event);
    }

    fn send(
        &mut self,
        course: &mut Course<'_>,
        domain: String,
        mode: String,
        stop: Vec<String>,
        start: Vec<String>,
    ) {
        self.number += 1;
        let number = self.number;
        let order = Order::Change {
            number,
            mode,
            stop,
            start,
        };
        course.numbers.insert(domain.clone(), number);
        self.told.remove(&domain);
        let telling = domain.clone();
        self.note(|| Record::Tells { domain: telling });
        if !self.agents.send(&domain, order) {
            course.events.push_back(Event::Disconnected { domain });
        }
    }

    /// The next event of a transition: what has happened already, or what comes from outside.
    fn next_event(&mut self, course: &mut Course<'_>) -> Event {
        loop {
            if let Some(event) = course.events.pop_front() {
                return event;
            }
            let now = self.clock.now();
            if let Some(place) = course.later.iter().position(|(at, ..)| *at <= now) {
                let (at, domain, interface) = course.later.swap_remove(place);
                self.set_interface(course, domain, &interface, at);
                continue;
            }
            let due = course.later.iter().map(|(at, ..)| *at);
            let wake = due.chain(course.transition.next_wake()).min();
            // Even where it is time already: an answer that is there is in time, however late we are.
            let Some(news) = self.agents.wait(wake) else {
                return Event::Woken;
            };
            if let Some(event) = self.news_in_transition(course, news) {
                return event;
            }
        }
    }

    /// What news mean to the transition; nothing if they are stale, or about something else.
    fn news_in_transition(&mut self, course: &mut Course<'_>, news: News) -> Option<Event> {
        let current = |course: &Course<'_>, domain: &str, number: u64| {
            course.numbers.get(domain) == Some(&number)
        };
        match news {
            News::Done {
                domain,
                number,
                received_at,
                switched_at,
            } if current(course, &domain, number) => {
                let switched = domain.clone();
                self.note(|| Record::Switched { domain: switched });
                Some(Event::Acknowledged {
                    domain,
                    received_at,
                    switched_at,
                })
            }
            News::Failed {
                domain,
                number,
                reason,
                rolled_back,
            } if current(course, &domain, number) => Some(Event::Failed {
                domain,
                reason,
                rolled_back,
            }),
            News::Left { domain } if course.numbers.contains_key(&domain) => {
                Some(Event::Disconnected { domain })
            }
            News::Joined { domain, number } => {
                self.number = self.number.max(number);
                let takes_part = course.changes.iter().any(|change| change.domain == domain);
                if !takes_part {
                    self.tell(&domain);
                }
                None
            }
            News::Asked { by, mode } => {
                let preempts = self.enqueue(by, mode);
                if preempts {
                    let actions = course.transition.give_up(self.clock.now());
                    self.obey(course, actions);
                    return Some(Event::Woken);
                }
                None
            }
            // A late answer: what runs there may not be what should.
            News::Done { domain, number, .. } | News::Failed { domain, number, .. } => {
                if self.told.get(&domain) != Some(&number) {
                    course.stale.insert(domain);
                }
                None
            }
            News::Left { .. } => None,
        }
    }

    /// What news mean when no transition is under way.
    fn idle_news(&mut self, news: News) {
        match news {
            News::Asked { by, mode } => {
                self.enqueue(by, mode);
            }
            News::Joined { domain, number } => {
                self.number = self.number.max(number);
                self.tell(&domain);
            }
            News::Done { domain, number, .. } if self.told.get(&domain) == Some(&number) => {
                self.told.remove(&domain);
                if let Some(state) = self.state.domains.get_mut(&domain) {
                    let running = state.tasks_of().clone();
                    state.tasks = Some(running);
                }
            }
            // It was told what should hold, and cannot; telling it again changes nothing.
            News::Failed { domain, number, .. } if self.told.get(&domain) == Some(&number) => {
                self.told.remove(&domain);
                if let Some(state) = self.state.domains.get_mut(&domain) {
                    state.tasks = None;
                }
            }
            // A late answer: what runs there now may not be what should.
            News::Done { domain, .. } | News::Failed { domain, .. } => self.tell(&domain),
            News::Left { .. } => {}
        }
    }

    /// Takes a request up that comes by another way than the agents' links; it is carried out by
    /// [`HostModeManager::serve_one`].
    pub fn ask(&mut self, by: Asker, mode: &str) {
        // Nothing is under way between two calls.
        let _ends_nothing = self.enqueue(by, mode.to_owned());
    }

    /// Takes a request up; whether it ends the transition that is under way.
    fn enqueue(&mut self, by: Asker, mode: String) -> bool {
        // What would be refused anyway must neither replace nor end anything.
        if let Err(error) = self.check(&by, &mode) {
            self.answer(by, error);
            return false;
        }
        let how = self.table.requests();
        let (kept, replaced): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(other, _)| {
                // An agent has one request waiting at most, however many it sends.
                how == RequestsMeanwhile::Queue && (*other != by || matches!(by, Asker::Command(_)))
            });
        self.waiting = kept;
        for (asker, _) in replaced {
            self.answer(asker, ModeError::Replaced);
        }
        self.waiting.push_back((by, mode));
        how == RequestsMeanwhile::Preempt
    }

    /// Notes an answer. A flood of requests from an agent is not remembered at length.
    fn answer(&mut self, asker: Asker, error: ModeError) {
        let flooded = self.answered.len() >= MOST_ANSWERS;
        if !flooded || matches!(asker, Asker::Command(_)) {
            self.answered.push_back((asker, error));
        }
    }

    /// Tells agents what should hold where it is not known what does: one may have stopped old tasks
    /// and not started new ones.
    fn tell_where_unknown(&mut self) {
        let domains = self.state.domains.iter();
        let unknown = domains.filter(|(_, state)| state.tasks.is_none());
        let unknown: Vec<String> = unknown.map(|(domain, _)| domain.clone()).collect();
        for domain in unknown {
            self.tell(&domain);
        }
    }

    /// Tells an agent what should hold in its domain.
    fn tell(&mut self, domain: &str) {
        let Some(state) = self.state.domains.get(domain) else {
            return;
        };
        let wanted = state.tasks_of();
        let all = self.table.all_tasks(domain);
        self.number += 1;
        let order = Order::Change {
            number: self.number,
            mode: wanted.name.clone(),
            stop: all.difference(&wanted.tasks).cloned().collect(),
            start: wanted.tasks.iter().cloned().collect(),
        };
        self.told.insert(domain.to_owned(), self.number);
        self.agents.send(domain, order);
    }

    /// The local mode that holds in a domain, or should.
    pub fn local_mode(&self, domain: &str) -> Option<&LocalMode> {
        self.state.domains.get(domain).map(DomainState::tasks_of)
    }
}
