//! What is done about a domain that does not switch.

use std::collections::BTreeSet;

use tailbound_time::Instant;

use super::{Phase, Transition};
use crate::transition::domain::{LocalMode, switch};
use crate::transition::events::Action;
use crate::transition::outcome::{Cause, Held};
use crate::transition::timeline::StepKind;

impl Transition {
    pub(super) fn failed(&mut self, domain: &str, reason: String, rolled_back: bool, now: Instant) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let phase = self.domains[place].phase;
        if phase.answers_by().is_none() {
            return;
        }
        self.note(
            place,
            now,
            StepKind::Failed {
                reason: reason.clone(),
                rolled_back,
            },
        );
        self.unboost(place, now);
        // What is as before the start of new tasks is without the old ones.
        let asked_once = match phase {
            Phase::Stopping(_) => true,
            Phase::Asked(_) => !self.waited(place),
            _ => false,
        };
        let old = (rolled_back && asked_once).then_some(Held::Old);
        self.domains[place].settled.tasks = old;
        let cause = Cause::Failed {
            domain: domain.to_owned(),
            reason,
        };
        match (phase, self.domains[place].change.fallback.clone()) {
            // It answers, so it is asked once more, for less.
            (Phase::Stopping(_) | Phase::Asked(_), Some(fallback)) => {
                self.without.insert(domain.to_owned(), cause);
                self.ask_for_fallback(place, &fallback, now);
            }
            (Phase::Stopping(_) | Phase::Asked(_), None) => {
                self.fail(domain, cause);
                self.settle(place, now);
            }
            _ => self.reduce(place, now),
        }
    }

    /// Whether its new tasks had to wait.
    fn waited(&self, place: usize) -> bool {
        let change = &self.domains[place].change;
        let (stop, start) = change.switch();
        !change.offset.is_zero() && !start.is_empty() && !stop.is_empty()
    }

    fn ask_for_fallback(&mut self, place: usize, fallback: &LocalMode, now: Instant) {
        let change = &self.domains[place].change;
        let either: BTreeSet<String> = change.from.tasks.union(&change.to.tasks).cloned().collect();
        let (stop, _) = switch(&either, &fallback.tasks);
        let until = now.saturating_add(self.options.timeout);
        if change.fallback_offset.is_zero() || fallback.tasks.is_empty() {
            let start = fallback.tasks.iter().cloned().collect();
            self.domains[place].phase = Phase::FallingBack(until);
            self.send(place, fallback, stop, start, now);
        } else {
            self.domains[place].phase = Phase::StoppingToFallBack(until);
            self.send(place, fallback, stop, Vec::new(), now);
        }
    }

    /// Tells the agent to start the fallback's tasks, now that nothing can be left of others.
    pub(super) fn start_fallback(&mut self, place: usize, now: Instant) {
        let Some(fallback) = self.domains[place].change.fallback.clone() else {
            return;
        };
        let start = fallback.tasks.iter().cloned().collect();
        self.domains[place].phase = Phase::FallingBack(now.saturating_add(self.options.timeout));
        self.send(place, &fallback, Vec::new(), start, now);
    }

    pub(super) fn timed_out(&mut self, place: usize, now: Instant) {
        let waited = self.options.timeout;
        let domain = self.domains[place].change.domain.clone();
        self.lose(place, Cause::NoAnswer { domain, waited }, now);
    }

    pub(super) fn disconnected(&mut self, domain: &str, now: Instant) {
        let Some(place) = self.place(domain) else {
            return;
        };
        let phase = self.domains[place].phase;
        if phase.answers_by().is_some() {
            let domain = domain.to_owned();
            self.lose(place, Cause::NoAgent { domain }, now);
        }
    }

    /// Does without the answer of an agent: the boost is over, and the domain gets no more than its
    /// fallback, whatever runs in it.
    fn lose(&mut self, place: usize, cause: Cause, now: Instant) {
        self.note(place, now, StepKind::TimedOut);
        self.unboost(place, now);
        let domain = self.domains[place].change.domain.clone();
        self.out.push(Action::Withdraw {
            domain: domain.clone(),
        });
        if self.domains[place].change.fallback.is_some() {
            self.without.entry(domain).or_insert(cause);
            self.reduce(place, now);
        } else {
            self.fail(&domain, cause);
            self.settle(place, now);
        }
    }

    /// Gives a domain the interface of its fallback, if that is less than it has.
    pub(super) fn reduce(&mut self, place: usize, now: Instant) {
        let running = &self.domains[place];
        let Some(fallback) = running.change.fallback.clone() else {
            self.settle(place, now);
            return;
        };
        let has = match running.settled.interface {
            Held::New => &running.change.to,
            _ => &running.change.from,
        };
        if fallback.bandwidth() > has.bandwidth() || fallback.interface == has.interface {
            self.settle(place, now);
            return;
        }
        self.set_interface(place, &fallback, Phase::Reducing, now);
    }
}
