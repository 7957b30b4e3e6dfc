//! Boosts for agents that wait for a budget.

use tailbound_model::AgentPlace;
use tailbound_time::Instant;

use super::{Running, Transition};
use crate::transition::events::Action;
use crate::transition::policy::{boosts, boosts_at_once};
use crate::transition::timeline::StepKind;

impl Transition {
    /// Boosts agents that wait for an answer: of those on one CPU, only some at a time.
    pub(super) fn boost(&mut self, now: Instant) {
        let Some(if_exhausted) = boosts(self.options.policy) else {
            return;
        };
        for place in 0..self.domains.len() {
            let running = &self.domains[place];
            let waits = running.phase.answers_by().is_some();
            let inside = running.change.agent == Some(AgentPlace::Inside);
            if !waits || running.boosted || !inside {
                continue;
            }
            let own = &running.change.from.interface.cpus;
            let here = |other: &&Running| {
                !other.change.from.interface.cpus.is_disjoint(own) && other.boosted
            };
            let boosted = self.domains.iter().filter(here).count();
            if boosted >= boosts_at_once(self.options.policy) {
                continue;
            }
            self.domains[place].boosted = true;
            self.note(place, now, StepKind::Boosted);
            let domain = self.domains[place].change.domain.clone();
            self.out.push(Action::Boost {
                domain,
                if_exhausted,
            });
        }
    }

    pub(super) fn unboost(&mut self, place: usize, now: Instant) {
        if !std::mem::take(&mut self.domains[place].boosted) {
            return;
        }
        self.note(place, now, StepKind::Unboosted);
        let domain = self.domains[place].change.domain.clone();
        self.out.push(Action::Unboost { domain });
    }
}
