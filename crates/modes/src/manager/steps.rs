//! What a transition asks for, carried out.

use tailbound_enforcement::ReservationChange;
use tailbound_model::ResourceInterface;
use tailbound_time::{Clock, Duration, Instant};

use super::{
    ActiveTransition, AgentEvent, Agents, HostModeManager, Order, Reservations, StepRecord,
};
use crate::transition::{TransitionAction, TransitionEvent};

/// For so long the turn to change reservations is kept from one change to the next: as long as a change
/// takes whose agents answer at once. Other programs that reserve wait meanwhile.
const TURN_FOR: Duration = Duration::from_millis(2);

impl<R: Reservations, A: Agents, C: Clock> HostModeManager<R, A, C> {
    /// Carries actions out, those first for which somebody else works meanwhile: a boost is made ready on the
    /// domain's CPU while its message is written here.
    pub(super) fn obey(
        &mut self,
        course: &mut ActiveTransition,
        mut actions: Vec<TransitionAction>,
    ) {
        actions.sort_by_key(|action| match action {
            TransitionAction::Boost { .. } | TransitionAction::Unboost { .. } => 0,
            TransitionAction::Send { .. } | TransitionAction::Withdraw { .. } => 1,
            TransitionAction::SetInterface { .. } => 2,
        });
        for action in actions {
            match action {
                TransitionAction::SetInterface {
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
                TransitionAction::Send {
                    domain,
                    mode,
                    stop,
                    start,
                } => self.send(course, domain, mode, stop, start),
                TransitionAction::Boost {
                    domain,
                    if_exhausted,
                } => {
                    let settings = (self.table.longest_boost(), self.table.least_gap());
                    let left = self.boosts.begin(&domain, self.clock.now(), settings);
                    if let Some(at_most) = left {
                        self.reservations.boost(&domain, at_most, if_exhausted);
                    }
                }
                TransitionAction::Unboost { domain } => {
                    if self.boosts.end(&domain, self.clock.now()) {
                        self.reservations.unboost(&domain);
                    }
                }
                TransitionAction::Withdraw { domain } => {
                    if let Some(number) = course.numbers.remove(&domain) {
                        self.claims.doubt(&domain);
                        self.agents.send(&domain, Order::Withdraw { number });
                    }
                }
            }
        }
    }

    /// Takes the turn to change reservations, unless it is ours.
    fn take_turn(&mut self, course: &mut ActiveTransition) {
        if course.turn_until.is_none() {
            self.reservations.begin_changes();
            course.turn_until = Some(self.clock.now().saturating_add(TURN_FOR));
        }
    }

    /// Lets others change reservations.
    pub(super) fn end_turn(&mut self, course: &mut ActiveTransition) {
        if course.turn_until.take().is_some() {
            self.reservations.end_changes();
        }
    }

    /// Waits for event, with the turn only as long as it may be kept.
    fn wait(&mut self, course: &mut ActiveTransition, wake: Option<Instant>) -> Option<AgentEvent> {
        if let Some(until) = course.turn_until
            && wake.is_none_or(|wake| wake > until)
        {
            if self.clock.now() < until
                && let Some(event) = self.agents.wait(Some(until))
            {
                return Some(event);
            }
            self.end_turn(course);
        }
        self.agents.wait(wake)
    }

    fn set_interface(
        &mut self,
        course: &mut ActiveTransition,
        domain: String,
        interface: &ResourceInterface,
        not_before: Instant,
    ) {
        self.take_turn(course);
        let (asking, asked) = (domain.clone(), interface.clone());
        self.note(|| StepRecord::Asks {
            domain: asking,
            interface: asked,
        });
        let changed = self.reservations.change(ReservationChange {
            domain: &domain,
            interface,
            not_before,
        });
        if changed.is_ok() {
            let domain = domain.clone();
            self.note(|| StepRecord::Accepted { domain });
        }
        let event = match changed {
            Ok(in_force_at) => TransitionEvent::InterfaceAccepted {
                domain,
                in_force_at,
            },
            Err(reason) => TransitionEvent::InterfaceRefused { domain, reason },
        };
        course.events.push_back(event);
    }

    fn send(
        &mut self,
        course: &mut ActiveTransition,
        domain: String,
        mode: String,
        stop: Vec<String>,
        start: Vec<String>,
    ) {
        self.number += 1;
        let number = self.number;
        self.claims.note_order(&domain, number, (&stop, &start));
        let order = Order::Change {
            number,
            mode,
            stop,
            start,
        };
        let before = course.numbers.insert(domain.clone(), number);
        assert!(
            before.is_none_or(|before| before < number),
            "a later change of a domain has a higher number"
        );
        self.order_numbers.remove(&domain);
        let telling = domain.clone();
        self.note(|| StepRecord::Tells { domain: telling });
        if !self.agents.send(&domain, order) {
            course
                .events
                .push_back(TransitionEvent::Disconnected { domain });
        }
    }

    /// The next event of a transition: what has happened already, or what comes from outside.
    pub(super) fn next_event(&mut self, course: &mut ActiveTransition) -> TransitionEvent {
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
            let Some(event) = self.wait(course, wake) else {
                return TransitionEvent::Woken;
            };
            if let Some(event) = self.handle_in_transition(course, event) {
                return event;
            }
        }
    }
}
