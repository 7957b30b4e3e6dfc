//! What agents say, and what they are told.

use tailbound_time::Clock;

use super::{
    ActiveTransition, AgentEvent, Agents, HostModeManager, Order, Reservations, StepRecord,
};
use crate::transition::TransitionEvent;

impl<R: Reservations, A: Agents, C: Clock> HostModeManager<R, A, C> {
    /// What news mean to the transition; nothing if they are stale, or about something else.
    pub(super) fn handle_in_transition(
        &mut self,
        course: &mut ActiveTransition,
        event: AgentEvent,
    ) -> Option<TransitionEvent> {
        let current = |course: &ActiveTransition, domain: &str, number: u64| {
            course.numbers.get(domain) == Some(&number)
        };
        self.take_claims(&event);
        match event {
            AgentEvent::Done {
                domain,
                number,
                received_at,
                switched_at,
            } if current(course, &domain, number) => {
                let switched = domain.clone();
                self.note(|| StepRecord::Switched { domain: switched });
                Some(TransitionEvent::Acknowledged {
                    domain,
                    received_at,
                    switched_at,
                })
            }
            AgentEvent::Failed {
                domain,
                number,
                reason,
                rolled_back,
            } if current(course, &domain, number) => Some(TransitionEvent::Failed {
                domain,
                reason,
                rolled_back,
            }),
            AgentEvent::Left { domain } if course.numbers.contains_key(&domain) => {
                Some(TransitionEvent::Disconnected { domain })
            }
            AgentEvent::Joined { domain, number } => {
                self.number = self.number.max(number);
                // It is told when it is known what should hold: until then it might be told of the old mode
                // after the new one.
                course.stale.insert(domain);
                None
            }
            AgentEvent::Asked { by, mode } => {
                let preempts = self.enqueue(by, mode, Some(&mut course.under_way));
                if preempts {
                    let actions = course.transition.give_up(self.clock.now());
                    self.obey(course, actions);
                    return Some(TransitionEvent::Woken);
                }
                None
            }
            AgentEvent::Done { domain, number, .. }
                if self.order_numbers.get(&domain) == Some(&number) =>
            {
                None
            }
            // A late answer: what runs there may not be what should. Or it was told what should hold, and
            // cannot: it will say so again.
            AgentEvent::Done { domain, .. } | AgentEvent::Failed { domain, .. } => {
                course.stale.insert(domain);
                None
            }
            AgentEvent::Left { .. } => None,
        }
    }

    /// Takes note of what an agent says of its tasks.
    fn take_claims(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Done { domain, number, .. } => {
                let now = self.clock.now();
                self.claims.done(domain, *number, now);
            }
            AgentEvent::Failed { domain, .. }
            | AgentEvent::Joined { domain, .. }
            | AgentEvent::Left { domain } => {
                self.claims.doubt(domain);
            }
            AgentEvent::Asked { .. } => {}
        }
    }

    /// What news mean when no transition is under way.
    pub(super) fn handle_idle(&mut self, event: AgentEvent) {
        self.take_claims(&event);
        match event {
            AgentEvent::Asked { by, mode } => {
                self.ask(by, &mode);
            }
            AgentEvent::Joined { domain, number } => {
                self.number = self.number.max(number);
                self.tell(&domain);
            }
            AgentEvent::Done { domain, number, .. }
                if self.order_numbers.get(&domain) == Some(&number) =>
            {
                self.order_numbers.remove(&domain);
                if let Some(state) = self.state.domains.get_mut(&domain) {
                    let running = state.tasks_of().clone();
                    state.tasks = Some(running);
                }
            }
            // It was told what should hold, and cannot; telling it again changes nothing.
            AgentEvent::Failed { domain, number, .. }
                if self.order_numbers.get(&domain) == Some(&number) =>
            {
                self.order_numbers.remove(&domain);
                if let Some(state) = self.state.domains.get_mut(&domain) {
                    state.tasks = None;
                }
            }
            // A late answer: what runs there now may not be what should.
            AgentEvent::Done { domain, .. } | AgentEvent::Failed { domain, .. } => {
                self.tell(&domain)
            }
            AgentEvent::Left { .. } => {}
        }
    }

    /// Tells agents what should hold where it is not known what does: one may have stopped old tasks
    /// and not started new ones.
    pub(super) fn tell_where_unknown(&mut self) {
        let domains = self.state.domains.iter();
        let unknown = domains.filter(|(_, state)| state.tasks.is_none());
        let unknown: Vec<String> = unknown.map(|(domain, _)| domain.clone()).collect();
        for domain in unknown {
            self.tell(&domain);
        }
    }

    /// Tells an agent what should hold in its domain.
    pub(super) fn tell(&mut self, domain: &str) {
        let Some(state) = self.state.domains.get(domain) else {
            return;
        };
        let wanted = state.tasks_of();
        let all = self.table.all_tasks(domain);
        let stop: Vec<String> = all.difference(&wanted.tasks).cloned().collect();
        let start: Vec<String> = wanted.tasks.iter().cloned().collect();
        self.number += 1;
        self.claims.note_order(domain, self.number, (&stop, &start));
        let order = Order::Change {
            number: self.number,
            mode: wanted.name.clone(),
            stop,
            start,
        };
        self.order_numbers.insert(domain.to_owned(), self.number);
        self.agents.send(domain, order);
    }
}
