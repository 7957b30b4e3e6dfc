//! Has agents stop old tasks and start new ones, and keeps the two apart for as long as a protocol asks for.

use tailbound_time::Instant;

use super::{Phase, Transition};
use crate::transition::domain::{Direction, LocalMode};
use crate::transition::events::Action;
use crate::transition::outcome::Held;
use crate::transition::timeline::StepKind;

impl Transition {
    /// Tells the agent to switch, or goes on if there is nothing to switch.
    pub(super) fn ask(&mut self, place: usize, now: Instant) {
        let change = self.domains[place].change.clone();
        if !change.switches_tasks() {
            self.domains[place].settled.tasks = change.tasks_known.then_some(Held::New);
            self.tasks_are_switched(place, now);
            return;
        }
        let (stop, start) = change.switch();
        if change.offset.is_zero() || start.is_empty() {
            self.domains[place].phase = Phase::Asked(now.saturating_add(self.options.timeout));
            self.send(place, &change.to, stop, start, now);
        } else if stop.is_empty() {
            self.domains[place].phase = Phase::BeforeStart(now.saturating_add(change.offset));
        } else {
            self.domains[place].phase = Phase::Stopping(now.saturating_add(self.options.timeout));
            self.send(place, &change.to, stop, Vec::new(), now);
        }
    }

    /// Tells the agent to start new tasks, now that nothing can be left of the old ones.
    pub(super) fn start(&mut self, place: usize, now: Instant) {
        let change = self.domains[place].change.clone();
        let (_, start) = change.switch();
        self.domains[place].phase = Phase::Asked(now.saturating_add(self.options.timeout));
        self.send(place, &change.to, Vec::new(), start, now);
    }

    pub(super) fn send(
        &mut self,
        place: usize,
        mode: &LocalMode,
        stop: Vec<String>,
        start: Vec<String>,
        now: Instant,
    ) {
        self.note(place, now, StepKind::Sent);
        let domain = self.domains[place].change.domain.clone();
        let mode = mode.name.clone();
        // What is not known to run is stopped, and what is not known not to run is started.
        self.domains[place].settled.tasks = None;
        self.out.push(Action::Send {
            domain,
            mode,
            stop,
            start,
        });
    }

    pub(super) fn acknowledged(
        &mut self,
        domain: &str,
        received_at: Instant,
        switched_at: Instant,
        now: Instant,
    ) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let step = StepKind::Acknowledged {
            received_at,
            switched_at,
        };
        match self.domains[place].phase {
            Phase::Stopping(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                // From the news of it, which comes no earlier than the stop.
                let offset = self.domains[place].change.offset;
                self.domains[place].phase = Phase::BeforeStart(now.saturating_add(offset));
            }
            Phase::Asked(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                self.domains[place].settled.tasks = Some(Held::New);
                self.tasks_are_switched(place, now);
            }
            Phase::StoppingToFallBack(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                let offset = self.domains[place].change.fallback_offset;
                self.domains[place].phase = Phase::BeforeFallback(now.saturating_add(offset));
            }
            Phase::FallingBack(_) => {
                self.note(place, now, step);
                self.unboost(place, now);
                self.domains[place].settled.tasks = Some(Held::Fallback);
                self.reduce(place, now);
            }
            _ => {}
        }
    }

    fn tasks_are_switched(&mut self, place: usize, now: Instant) {
        let change = self.domains[place].change.clone();
        let shrinks = change.direction() == Direction::Shrinks;
        if shrinks && change.changes_interface() {
            self.set_interface(place, &change.to, Phase::Shrinking, now);
        } else {
            self.settle(place, now);
        }
    }
}
