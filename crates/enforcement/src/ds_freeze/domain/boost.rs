//! Times in which a domain runs whatever budget it has.

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration, Instant};

use super::ServedState;
use tailbound_reservation::metered_server::Switch;

/// No boost lasts longer, whoever asks for it, however often.
pub const LONGEST_BOOST: Duration = Duration::from_millis(10);

/// A boost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boost {
    /// When it ends by itself.
    pub(super) until: Instant,
    /// When it ends although more is asked for.
    latest: Instant,
    /// What the domain had used when it began.
    pub(super) used_at_start: Duration,
}

impl ServedState {
    /// Lets it run without budget, until [`ServedState::unboost`] or an instant; with `if_exhausted`
    /// only from when its budget is used up, if that is so or comes to be so by then. Not one that stands
    /// still for the sake of the allowance.
    pub(in crate::ds_freeze) fn boost(&mut self, until: Instant, if_exhausted: bool) {
        let used = self.used();
        self.end_rest(Monotonic.now(), used);
        let Some(server) = &self.server else {
            return;
        };
        if self.held_since.is_some() {
            return;
        }
        let exhausted = server.is_frozen();
        let now = Monotonic.now();
        match &mut self.boost {
            _ if until <= now => {}
            Some(boost) => boost.until = boost.until.max(until).min(boost.latest),
            None if if_exhausted && !exhausted => self.standby = self.standby.max(Some(until)),
            None => {
                self.begin_boost(until, now);
                self.switch(Switch::Thaw, now);
            }
        }
    }

    /// Whether it goes on under a boost, its budget being used up.
    pub(super) fn goes_on_boosted(&mut self, now: Instant) -> bool {
        match self.standby.take() {
            Some(until) if until > now => {
                self.begin_boost(until, now);
                true
            }
            _ => false,
        }
    }

    fn begin_boost(&mut self, until: Instant, now: Instant) {
        self.standby = None;
        let used_at_start = self.metered();
        let latest = now.saturating_add(LONGEST_BOOST);
        self.boost = Some(Boost {
            until: until.min(latest),
            latest,
            used_at_start,
        });
        self.stop_watching();
    }

    /// Ends a boost: the budget is as it was, whatever was used.
    pub(in crate::ds_freeze) fn unboost(&mut self, now: Instant) {
        self.standby = None;
        let Some(boost) = self.boost.take() else {
            return;
        };
        let length = self.metered().saturating_sub(boost.used_at_start);
        self.boosted = self.boosted.saturating_add(length);
        self.ledger.note_boost(length);
        self.ask_again(now);
    }
}
