//! What asks for modes without being told to: schedules, and conditions on what managers counted.
//!
//! [`Triggers`] decides and does nothing: the daemon looks at [`Triggers::next_look`], feeds it the time
//! and the counts of the domains that [`Triggers::domains`] names, and asks for the modes that it
//! returns.
//!
//! A *schedule* asks at `offset` after the start and at every `every` after it. Instants that passed
//! while nobody looked are made up for by one request, not by one each.
//!
//! A *condition* looks at the share that was counted over the last window. It asks for its mode when the
//! share has passed the threshold, and again only after it was seen not to. A window holds what was
//! counted in one mode: it begins anew at every change, since the counts of the old reservation say
//! nothing about the new one. While no period ended in a window, or none is full yet, nothing is known:
//! then it neither asks nor is it as if the share had not passed.
//!
//! A trigger of the mode that holds asks for nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use tailbound_enforcement::LedgerSummary;
use tailbound_model::{self as model, Metric};
use tailbound_time::{Duration, Instant, nanoseconds};

/// Into so many parts a window is divided: it is looked at that often.
const LOOKS_PER_WINDOW: u64 = 16;
/// No condition is looked at more often.
const LOOK_AFTER_AT_LEAST: Duration = Duration::from_millis(10);
/// A whole, in the unit of thresholds.
const WHOLE_PPM: u32 = 1_000_000;

/// What asks for a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeTrigger {
    /// Its place in the description, `MODE.triggers[NUMBER]`.
    pub name: String,
    /// The mode.
    pub mode: String,
    /// When it asks.
    #[serde(flatten)]
    pub when: When,
}

/// When a trigger asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum When {
    /// At instants.
    Schedule {
        /// From one to the next.
        #[serde(rename = "every_ns", with = "nanoseconds")]
        every: Duration,
        /// From the start to the first.
        #[serde(rename = "offset_ns", with = "nanoseconds")]
        offset: Duration,
    },
    /// When a share over a window has passed a threshold.
    Condition {
        /// Of what domain.
        domain: String,
        /// Of what.
        metric: Metric,
        /// On which side of the threshold it asks.
        side: Side,
        /// The threshold, in millionths of the whole.
        threshold_ppm: u32,
        /// The window.
        #[serde(rename = "window_ns", with = "nanoseconds")]
        window: Duration,
    },
}

/// A side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The share is larger.
    Above,
    /// The share is smaller.
    Below,
}

impl ModeTrigger {
    /// A trigger of a description, the one at `place` of a mode.
    pub fn described(mode: &str, place: usize, trigger: &model::Trigger) -> Self {
        let when = match trigger {
            model::Trigger::Schedule { every, offset } => When::Schedule {
                every: *every,
                offset: *offset,
            },
            model::Trigger::Condition {
                domain,
                metric,
                above,
                below,
                window,
            } => {
                // The description has one of them.
                let (side, share) = match (above, below) {
                    (None, Some(share)) => (Side::Below, share.0),
                    (share, _) => (Side::Above, share.map_or(100.0, |share| share.0)),
                };
                let ppm = (share * f64::from(WHOLE_PPM) / 100.0).round();
                When::Condition {
                    domain: domain.clone(),
                    metric: *metric,
                    side,
                    // Casts of floats are saturating.
                    threshold_ppm: (ppm as u32).min(WHOLE_PPM),
                    window: *window,
                }
            }
        };
        Self {
            name: format!("{mode}.triggers[{place}]"),
            mode: mode.to_owned(),
            when,
        }
    }
}

/// What was counted of a domain up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Periods that have ended.
    pub periods: u64,
    /// Those in which the budget ran out.
    pub depletions: u64,
    /// Grid points that passed unserved.
    pub skipped: u64,
    /// Periods in which the host stalled.
    pub stalled: u64,
    /// CPU time used.
    pub used_ns: u64,
    /// CPU time reserved.
    pub reserved_ns: u64,
}

impl From<&LedgerSummary> for LedgerCounts {
    fn from(ledger: &LedgerSummary) -> Self {
        Self {
            periods: ledger.periods,
            depletions: ledger.depletions,
            skipped: ledger.skipped,
            stalled: ledger.stalled_periods,
            used_ns: ledger.consumed.as_nanos(),
            reserved_ns: ledger.reserved.as_nanos(),
        }
    }
}

impl LedgerCounts {
    /// What came since `before`; nothing if counting began anew in between.
    fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            periods: self.periods.checked_sub(before.periods)?,
            depletions: self.depletions.checked_sub(before.depletions)?,
            skipped: self.skipped.checked_sub(before.skipped)?,
            stalled: self.stalled.checked_sub(before.stalled)?,
            used_ns: self.used_ns.checked_sub(before.used_ns)?,
            reserved_ns: self.reserved_ns.checked_sub(before.reserved_ns)?,
        })
    }

    /// A share as part and whole.
    fn share(&self, metric: Metric) -> (u64, u64) {
        match metric {
            Metric::Depletions => (self.depletions, self.periods),
            Metric::BudgetUsed => (self.used_ns, self.reserved_ns),
            Metric::Skipped => (self.skipped, self.periods.saturating_add(self.skipped)),
            Metric::Stalls => (self.stalled, self.periods),
        }
    }

    /// Whether a share has passed a threshold; unknown where there is no whole.
    fn has_passed(&self, metric: Metric, side: Side, threshold_ppm: u32) -> Option<bool> {
        let (part, whole) = self.share(metric);
        if whole == 0 {
            return None;
        }
        let part = u128::from(part) * u128::from(WHOLE_PPM);
        let threshold = u128::from(whole) * u128::from(threshold_ppm);
        Some(match side {
            Side::Above => part > threshold,
            Side::Below => part < threshold,
        })
    }
}

/// A trigger, and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerStatus {
    /// The trigger.
    #[serde(flatten)]
    pub trigger: ModeTrigger,
    /// How often it has asked for its mode.
    pub fired: u64,
    /// When it did so last.
    #[serde(rename = "last_fired_at_ns")]
    pub last_fired_at: Option<Instant>,
}

#[derive(Debug)]
enum TriggerProgress {
    Schedule {
        next: Instant,
    },
    Condition {
        /// Whether it may ask: not between having asked and being seen not to hold.
        armed: bool,
        /// What was counted when, the oldest first; the first one begins the window.
        samples: VecDeque<(Instant, LedgerCounts)>,
        next: Instant,
    },
}

#[derive(Debug)]
struct Watched {
    status: TriggerStatus,
    progress: TriggerProgress,
}

/// The triggers of a host, at work.
#[derive(Debug, Default)]
pub struct Triggers {
    watched: Vec<Watched>,
}

/// How long after a look at a window the next one is.
fn look_after(window: Duration) -> Duration {
    let part = Duration::from_nanos(window.as_nanos() / LOOKS_PER_WINDOW);
    part.max(LOOK_AFTER_AT_LEAST)
}

impl Watched {
    fn new(trigger: ModeTrigger, now: Instant) -> Self {
        let progress = match &trigger.when {
            When::Schedule { offset, .. } => TriggerProgress::Schedule {
                next: now.saturating_add(*offset),
            },
            When::Condition { .. } => TriggerProgress::Condition {
                armed: true,
                samples: VecDeque::new(),
                next: now,
            },
        };
        let status = TriggerStatus {
            trigger,
            fired: 0,
            last_fired_at: None,
        };
        Self { status, progress }
    }

    fn next(&self) -> Instant {
        match &self.progress {
            TriggerProgress::Schedule { next } | TriggerProgress::Condition { next, .. } => *next,
        }
    }

    /// Whether it asks now, if its mode does not hold.
    fn is_due(&mut self, now: Instant, counts: &BTreeMap<String, LedgerCounts>) -> bool {
        match (&self.status.trigger.when, &mut self.progress) {
            (When::Schedule { every, .. }, TriggerProgress::Schedule { next }) => {
                if now < *next {
                    return false;
                }
                *next = after(*next, *every, now);
                true
            }
            (
                When::Condition {
                    domain,
                    metric,
                    side,
                    threshold_ppm,
                    window,
                },
                TriggerProgress::Condition {
                    armed,
                    samples,
                    next,
                },
            ) => {
                if now < *next {
                    return false;
                }
                *next = now.saturating_add(look_after(*window));
                let Some(counts) = counts.get(domain) else {
                    samples.clear();
                    return false;
                };
                let Some(counted) = counted(samples, now, *window, counts) else {
                    return false;
                };
                match counted.has_passed(*metric, *side, *threshold_ppm) {
                    Some(true) => *armed,
                    Some(false) => {
                        *armed = true;
                        false
                    }
                    None => false,
                }
            }
            // Each is made with its own progress.
            _ => false,
        }
    }

    fn fire(&mut self, now: Instant) {
        self.status.fired += 1;
        self.status.last_fired_at = Some(now);
        if let TriggerProgress::Condition { armed, .. } = &mut self.progress {
            *armed = false;
        }
    }
}

/// The first instant of a schedule after `now`.
fn after(next: Instant, every: Duration, now: Instant) -> Instant {
    let step = every.as_nanos().max(1);
    let missed = now.saturating_since(next).as_nanos() / step;
    let ahead = step.saturating_mul(missed.saturating_add(1));
    next.saturating_add(Duration::from_nanos(ahead))
}

/// Takes a sample; what was counted over the window that ends with it, if it is full.
fn counted(
    samples: &mut VecDeque<(Instant, LedgerCounts)>,
    now: Instant,
    window: Duration,
    counts: &LedgerCounts,
) -> Option<LedgerCounts> {
    let began_anew = samples
        .back()
        .is_some_and(|(_, last)| counts.since(last).is_none());
    if began_anew {
        samples.clear();
    }
    samples.push_back((now, *counts));
    let is_whole_window = |at: Instant| now.saturating_since(at) >= window;
    // The youngest one that is old enough begins the window.
    while samples.get(1).is_some_and(|(at, _)| is_whole_window(*at)) {
        samples.pop_front();
    }
    let (at, before) = samples.front()?;
    match is_whole_window(*at) {
        true => counts.since(before),
        false => None,
    }
}

impl Triggers {
    /// Triggers that are looked after from `now` on.
    pub fn new(triggers: &[ModeTrigger], now: Instant) -> Self {
        let mut begun = Self::default();
        begun.keep(triggers, now);
        begun
    }

    /// Looks after these from now on. Those that were known already go on as they are.
    pub fn keep(&mut self, triggers: &[ModeTrigger], now: Instant) {
        let mut previous = std::mem::take(&mut self.watched);
        for trigger in triggers {
            let place = previous
                .iter()
                .position(|one| one.status.trigger == *trigger);
            self.watched.push(match place {
                Some(place) => previous.swap_remove(place),
                None => Watched::new(trigger.clone(), now),
            });
        }
    }

    /// When to look at the latest; `None` without triggers.
    pub fn next_look(&self) -> Option<Instant> {
        self.watched.iter().map(Watched::next).min()
    }

    /// The domains whose counts a look at this time needs.
    pub fn domains(&self, now: Instant) -> BTreeSet<&str> {
        let due = self.watched.iter().filter(|one| one.next() <= now);
        due.filter_map(|one| match &one.status.trigger.when {
            When::Condition { domain, .. } => Some(domain.as_str()),
            When::Schedule { .. } => None,
        })
        .collect()
    }

    /// Looks: the triggers that ask for their modes now. `holds` is the mode that holds.
    pub fn look(
        &mut self,
        now: Instant,
        holds: &str,
        counts: &BTreeMap<String, LedgerCounts>,
    ) -> Vec<ModeTrigger> {
        let mut asking = Vec::new();
        for one in &mut self.watched {
            if one.is_due(now, counts) && one.status.trigger.mode != holds {
                one.fire(now);
                asking.push(one.status.trigger.clone());
            }
        }
        asking
    }

    /// The mode has changed: windows begin anew.
    pub fn mode_has_changed(&mut self) {
        for one in &mut self.watched {
            if let TriggerProgress::Condition { samples, .. } = &mut one.progress {
                samples.clear();
            }
        }
    }

    /// All of them.
    pub fn status(&self) -> Vec<TriggerStatus> {
        self.watched.iter().map(|one| one.status.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
