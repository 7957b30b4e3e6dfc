//! Periods that the manager sleeps through, since nobody of the domain runs.

use tailbound_time::{Duration, Instant};

use super::{SHORTEST_ARMED, ServedState};

/// The longest rest: what others read of the domain, such as its ledger, is no older.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// A rest, which ends as soon as the domain has used a little: its alarm is armed for that. All the while it has its
/// whole budget, which every replenishment would leave as it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct DomainRest {
    /// A grid point: when it ends if nobody runs.
    pub(super) until: Instant,
    /// What the domain had used when it began.
    pub(super) used: Duration,
}

impl ServedState {
    /// Begins a rest after a period in which nothing was used, if nothing else is going on and it is worth it.
    pub(super) fn begin_rest(&mut self, now: Instant, used: Duration) {
        let Some(server) = &self.server else {
            return;
        };
        let parameters = server.parameters();
        let is_watched = self.armed && self.place.is_some() && self.next_look.is_none();
        let goes_on = self.boost.is_some() || self.standby.is_some() || self.held_since.is_some();
        // The alarm has to leave most of the budget.
        let is_small = parameters.budget < SHORTEST_ARMED * 4;
        let periods = LONGEST_REST / parameters.period;
        if !is_watched || goes_on || is_small || periods < 2 || !server.is_settled() {
            return;
        }
        let until = server.next_replenishment() + parameters.period * (periods - 1);
        let armed = self.alarm.as_ref().map(|alarm| alarm.arm(SHORTEST_ARMED));
        if matches!(armed, Some(Ok(()))) {
            self.rest = Some(DomainRest { until, used });
        } else {
            self.next_look = Some(now);
        }
    }

    /// Ends a rest, if there is one, as if the manager had served all its periods.
    pub(super) fn end_rest(&mut self, now: Instant, used: Duration) {
        if self.rest.is_some() {
            self.replenish(now, used);
        }
    }
}
