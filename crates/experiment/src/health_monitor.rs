//! Health monitoring of one domain, as ARINC 653 has it for partitions: which response the events of an interval ask for.
//!
//! The monitor is a state machine without a clock and without a host: whoever drives it says which programs have ended and
//! what the ledger has counted, and carries out the response.

use std::collections::VecDeque;

use serde::Serialize;
use tailbound_enforcement::LedgerSummary;
use tailbound_model::{Health, HealthResponse};
use tailbound_time::Instant;

/// An event of a domain's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthEvent {
    /// A program has ended.
    Exit,
    /// A partition used more CPU time after a window than tolerated.
    Overrun,
    /// A window passed without being opened.
    MissedWindow,
}

/// The counts of a ledger that health monitoring compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthCounts {
    /// Windows that were overrun.
    pub overruns: u64,
    /// Windows that were missed.
    pub missed_windows: u64,
}

impl HealthCounts {
    /// Those of a ledger; none of a domain without windows.
    pub fn of(ledger: &LedgerSummary) -> Option<Self> {
        let windows = ledger.windows.as_ref()?;
        Some(Self {
            overruns: windows.overruns,
            missed_windows: ledger.skipped,
        })
    }
}

/// The events since the observation before, and the response to them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthVerdict {
    /// The events, with the number of each.
    pub events: Vec<(HealthEvent, u64)>,
    /// The strongest response that one of them asks for.
    pub response: HealthResponse,
    /// Whether that is a stop because there were too many restarts.
    pub is_exhausted: bool,
}

/// The health of one domain.
#[derive(Clone, Debug)]
pub struct HealthMonitor {
    policy: Health,
    counts: HealthCounts,
    /// The restarts of the latest interval, the oldest first.
    restarts: VecDeque<Instant>,
    is_stopped: bool,
}

impl HealthMonitor {
    /// The monitor of a domain whose ledger is empty.
    pub fn new(policy: Health) -> Self {
        Self {
            policy,
            counts: HealthCounts::default(),
            restarts: VecDeque::new(),
            is_stopped: false,
        }
    }

    /// Whether the domain is stopped for good.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Judges the programs that have ended since the observation before, and the counts of the ledger, where there are some.
    pub fn observe(
        &mut self,
        exits: u64,
        counts: Option<HealthCounts>,
        now: Instant,
    ) -> HealthVerdict {
        if self.is_stopped {
            return HealthVerdict::default();
        }
        let (overruns, missed) = counts.map_or((0, 0), |counts| self.news(counts));
        let events = [
            (HealthEvent::Exit, exits, self.policy.exit),
            (HealthEvent::Overrun, overruns, self.policy.overrun),
            (HealthEvent::MissedWindow, missed, self.policy.missed_window),
        ];
        let events = events.into_iter().filter(|(_, count, _)| *count > 0);
        let asked = events.clone().map(|(_, _, response)| response).max();
        let (response, is_exhausted) = self.bounded(asked.unwrap_or_default(), now);
        if response == HealthResponse::Restart {
            self.restarts.push_back(now);
            // The new reservation has an empty ledger.
            self.counts = HealthCounts::default();
        }
        self.is_stopped = response == HealthResponse::Stop;
        HealthVerdict {
            events: events.map(|(event, count, _)| (event, count)).collect(),
            response,
            is_exhausted,
        }
    }

    /// The counts of a ledger since it was seen last. A ledger that has counted less is a new one.
    fn news(&mut self, counts: HealthCounts) -> (u64, u64) {
        let before = std::mem::replace(&mut self.counts, counts);
        let since = |before: u64, now: u64| now.checked_sub(before).unwrap_or(now);
        (
            since(before.overruns, counts.overruns),
            since(before.missed_windows, counts.missed_windows),
        )
    }

    /// A response within the bound on restarts, and whether that made it a stop.
    fn bounded(&mut self, asked: HealthResponse, now: Instant) -> (HealthResponse, bool) {
        let interval = self.policy.interval;
        while (self.restarts.front()).is_some_and(|at| now.saturating_since(*at) >= interval) {
            self.restarts.pop_front();
        }
        let is_used_up = self.restarts.len() as u64 >= u64::from(self.policy.restarts);
        match asked {
            HealthResponse::Restart if is_used_up => (HealthResponse::Stop, true),
            asked => (asked, false),
        }
    }
}

#[cfg(test)]
mod tests;
