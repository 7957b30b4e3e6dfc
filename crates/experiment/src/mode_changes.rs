//! Changes of modes while something is measured.
//!
//! The daemon changes modes: when a trigger asks, an agent, or somebody with `tailbound mode set`. A run
//! makes the modes known with its reservations, looks on, and tells what was measured in each of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time;

use tailbound_control::Client;
use tailbound_distribution::Distribution;
use tailbound_measurement::Measurement;
use tailbound_modes::control::ModesClient;
use tailbound_modes::manager::Report;
use tailbound_time::{Duration, Instant};

/// How often it is looked whether a change has ended.
const LOOK_EVERY: time::Duration = time::Duration::from_millis(10);

/// A change that was made while something was measured.
#[derive(Clone, Debug)]
pub struct SeenChange {
    /// The variant.
    pub variant: String,
    /// Its repetition, from 1.
    pub repetition: usize,
    /// From the start of the load to its begin.
    pub began_after: Duration,
    /// What came of it.
    pub report: Report,
}

/// Somebody who looks on while modes change.
#[derive(Debug)]
pub struct ModeChangeWatch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Report>>,
}

impl ModeChangeWatch {
    /// Begins to look on.
    ///
    /// # Errors
    /// There is no daemon any more, or no thread.
    pub fn begin() -> Result<Self, crate::ExperimentError> {
        let mut client = Client::connect(&tailbound_enforcement::state_directory())?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            // Once more after the end, or the last change would be missed.
            while !ends.load(Ordering::Acquire) {
                look(&mut client, &mut seen);
                std::thread::sleep(LOOK_EVERY);
            }
            look(&mut client, &mut seen);
            seen
        });
        Ok(Self { over, thread })
    }

    /// The changes that have ended meanwhile.
    pub fn end(self) -> Vec<Report> {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

fn look(client: &mut Client, seen: &mut Vec<Report>) {
    // A daemon that does not answer is told of by who holds the reservations.
    let last = client.modes().ok().flatten().and_then(|status| status.last);
    let last = last.filter(|last| !last.changes_nothing());
    if let Some(last) = last.filter(|last| seen.last() != Some(last)) {
        seen.push(last);
    }
}

/// Which mode held when.
#[derive(Debug)]
pub struct ModeHistory {
    /// From each instant on a mode, or a change.
    begins: Vec<(Instant, String)>,
}

impl ModeHistory {
    /// The course from the initial mode on. A change lasts until the last reservation is in force.
    pub fn of(initial: &str, changes: &[Report]) -> Self {
        let mut begins = vec![(Instant::ORIGIN, initial.to_owned())];
        for change in changes {
            let Some(began) = change.timeline.began_at else {
                continue;
            };
            let there = match change.is_there() {
                true => &change.to,
                false => &change.from,
            };
            begins.push((began, format!("{} -> {}", change.from, change.to)));
            begins.push((settled_at(change).max(began), there.clone()));
        }
        Self { begins }
    }

    /// What held at an instant.
    pub fn at(&self, instant: Instant) -> &str {
        let before = |(begin, _): &&(Instant, String)| *begin <= instant;
        let held = self.begins.iter().rev().find(before);
        held.map_or("", |(_, what)| what)
    }

    /// The latencies of the requests that were due in each mode, and in each kind of change.
    pub fn split(&self, measured: &Measurement) -> BTreeMap<String, Distribution> {
        let all = self.begins.iter().map(|(_, what)| what.clone());
        let split = all.map(|what| {
            let subject = match what.contains(" -> ") {
                true => format!("while {what}"),
                false => format!("in mode {what}"),
            };
            let own = measured.of_instants(&subject, |due| self.at(due) == what);
            (what, own)
        });
        split.filter(|(_, own)| own.count() != Some(0)).collect()
    }
}

/// When all of a change is in force, what took it back included.
fn settled_at(change: &Report) -> Instant {
    let own = [change.timeline.ended_at, change.timeline.in_force_at()];
    let own = own.into_iter().flatten().max().unwrap_or(Instant::ORIGIN);
    let back = change.rolled_back.as_deref().map(settled_at);
    own.max(back.unwrap_or(Instant::ORIGIN))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_modes::transition::{Cause, Ending, Step, StepKind, Timeline, TransitionOutcome};

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn change(from: &str, to: &str, times: [u64; 3], ending: Ending) -> Report {
        let [began, ended, in_force] = times;
        let in_force_at = at(in_force);
        Report {
            from: from.into(),
            to: to.into(),
            outcome: TransitionOutcome {
                ending,
                domains: BTreeMap::new(),
            },
            timeline: Timeline {
                began_at: Some(at(began)),
                ended_at: Some(at(ended)),
                steps: vec![Step {
                    at: at(ended),
                    domain: "arm".into(),
                    kind: StepKind::InterfaceAccepted { in_force_at },
                }],
            },
            rolled_back: None,
        }
    }

    #[test]
    fn a_change_lasts_until_all_is_in_force() {
        let there = change("run", "rest", [100, 101, 110], Ending::Completed);
        let cause = Cause::NoAgent {
            domain: "arm".into(),
        };
        let mut given_up = change("rest", "run", [200, 250, 240], Ending::GivenUp(cause));
        let back = change("run", "rest", [250, 251, 260], Ending::Completed);
        given_up.rolled_back = Some(Box::new(back));
        let course = ModeHistory::of("run", &[there, given_up]);
        let held = |ms| course.at(at(ms));
        assert_eq!([held(0), held(99)], ["run", "run"]);
        assert_eq!([held(100), held(109)], ["run -> rest", "run -> rest"]);
        assert_eq!([held(110), held(199)], ["rest", "rest"]);
        assert_eq!([held(200), held(259)], ["rest -> run", "rest -> run"]);
        assert_eq!([held(260), held(10_000)], ["rest", "rest"]);
    }
}
