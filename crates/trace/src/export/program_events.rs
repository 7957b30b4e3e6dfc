//! Events that programs recorded of themselves, beside those of the kernel.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

/// An event of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEvent {
    /// The instant on CLOCK_MONOTONIC, which the kernel's events have, too.
    pub instant_ns: u64,
    /// The number of the thread.
    pub thread: u32,
    /// The name of the trigger.
    pub trigger: String,
    /// Its arguments.
    pub arguments: Vec<u64>,
}

impl ProgramEvent {
    /// The arguments in one text.
    pub(super) fn arguments_text(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(u64::to_string).collect();
        arguments.join(" ")
    }
}

/// The events of triggers of one or several processes, as `tailbound trace triggers PID record --format json` writes
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEvents {
    /// Events that were lost.
    pub lost: u64,
    /// How far from CLOCK_MONOTONIC an instant is at most, in nanoseconds: programs record by the counter of the
    /// processor.
    pub clock_error_ns: u64,
    /// The events.
    pub events: Vec<ProgramEvent>,
}

impl ProgramEvents {
    /// Reads what `tailbound trace triggers PID record --format json` wrote.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        read.events.sort_by_key(|event| event.instant_ns);
        Ok(read)
    }

    /// Adds the events of another process.
    pub fn add(&mut self, other: Self) {
        self.lost = self.lost.saturating_add(other.lost);
        self.clock_error_ns = self.clock_error_ns.max(other.clock_error_ns);
        self.events.extend(other.events);
        self.events.sort_by_key(|event| event.instant_ns);
    }

    /// How far from the clock of the recording an instant is at most.
    pub fn clock_error(&self) -> Duration {
        Duration::from_nanos(self.clock_error_ns)
    }
}

/// Program events that are still to come, in order of time.
pub(super) struct ComingEvents<'a>(std::iter::Peekable<std::slice::Iter<'a, ProgramEvent>>);

impl<'a> ComingEvents<'a> {
    pub(super) fn new(programs: &'a ProgramEvents) -> Self {
        Self(programs.events.iter().peekable())
    }

    /// The next event, if it comes at an instant or before it.
    pub(super) fn next_until(&mut self, at: u64) -> Option<&'a ProgramEvent> {
        self.0.next_if(|event| event.instant_ns <= at)
    }
}
