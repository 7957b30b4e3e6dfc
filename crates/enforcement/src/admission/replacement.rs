//! What counts of a reservation while a change of it was accepted and does not hold yet.
//!
//! A smaller interface that holds from the next replenishment on leaves the larger one in force until
//! then: who is promised the difference may not have it any sooner.

use serde::{Deserialize, Serialize};
use tailbound_linux::HostCapabilities;
use tailbound_model::ResourceInterface;
use tailbound_time::Instant;

use super::{Standing, admit};
use crate::error::AdmissionError;

/// The instant of what is not known to hold yet, or not to hold any more.
pub const UNKNOWN: Instant = Instant::from_nanos(u64::MAX);

/// What an interface replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// From when on the interface holds; [`UNKNOWN`] while its manager has not said.
    since: Instant,
    /// Those before it, and until when each may hold.
    earlier: Vec<(ResourceInterface, Instant)>,
}

impl Pending {
    /// At `now`, `old` was replaced by what holds from `since` on; it takes the place of what was to hold
    /// only then or later.
    pub(crate) fn replace(&mut self, old: &ResourceInterface, now: Instant, since: Instant) {
        for (_, until) in &mut self.earlier {
            *until = (*until).min(since);
        }
        if self.since < since || self.since == UNKNOWN {
            self.earlier.push((old.clone(), since));
        }
        self.earlier.retain(|(_, until)| *until > now);
        self.since = since;
    }

    /// Those before it that may hold at an instant or later.
    pub(crate) fn earlier_at(&self, at: Instant) -> impl Iterator<Item = &ResourceInterface> {
        let counts = self.earlier.iter().filter(move |(_, until)| *until > at);
        counts.map(|(interface, _)| interface)
    }

    /// When nothing of what was before may hold any more.
    pub(crate) fn settled_at(&self) -> Instant {
        let ends = self.earlier.iter().map(|(_, until)| *until);
        ends.max().unwrap_or(Instant::ORIGIN)
    }
}

/// A reservation with what counts on of what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// As it is, or will be.
    pub standing: Standing,
    /// What it was before.
    pub pending: Pending,
}

impl Holding {
    /// What counts from an instant on: the largest of its budgets that may hold then or later.
    fn from(&self, at: Instant) -> Standing {
        let mut counted = self.standing.clone();
        let earlier = self.pending.earlier_at(at).map(|one| one.budget);
        let own = counted.request.interface.budget;
        counted.request.interface.budget = earlier.fold(own, std::cmp::Ord::max);
        counted
    }

    /// When its period no longer changes. A budget of one period is not comparable to one of another, so
    /// nothing is promised beside both.
    fn keeps_its_period_from(&self) -> Instant {
        let period = self.standing.interface.period;
        let others = self.pending.earlier.iter();
        let others = others.filter(|(earlier, _)| earlier.period != period);
        others
            .map(|(_, until)| *until)
            .max()
            .unwrap_or(Instant::ORIGIN)
    }
}

/// From when on `requested` have room beside `held` for good: `from`, or later if what is held becomes less
/// by then.
///
/// # Errors
/// What is too much even when all that was accepted holds.
pub fn admit_from(
    held: &[Holding],
    requested: &[Standing],
    host: &HostCapabilities,
    from: Instant,
) -> Result<Instant, AdmissionError> {
    let keep = held.iter().map(Holding::keeps_its_period_from);
    let first = keep.fold(from, Instant::max);
    let counted = |at| -> Vec<Standing> { held.iter().map(|one| one.from(at)).collect() };
    let Err(too_much) = admit(&counted(first), requested, host) else {
        return Ok(first);
    };
    let settled = held.iter().map(|one| one.pending.settled_at());
    let last = settled.fold(first, Instant::max);
    if last == first || last == UNKNOWN {
        return Err(too_much);
    }
    admit(&counted(last), requested, host).map(|()| last)
}
