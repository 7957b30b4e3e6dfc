//! Agents' word against what the host sees: tasks that are said to be stopped and run.
//!
//! A task that is stopped uses no CPU time, however it was stopped: by SIGSTOP, by the freezer, or by itself.
//! So the CPU time of what runs it is looked at while its agent says that it is stopped:
//!
//! - Not before the *grace* has passed since the agent's answer. An honest agent answers when the task is
//!   stopped; what may follow is the work of a few microseconds of processes whose signal waits until their
//!   domain has a budget again, and where tasks are stopped by the application, the end of its last jobs.
//! - From the first look after that, CPU time is counted in *windows*. A task that has used
//!   [`RUNS_FROM`] before its window's end runs: this is a contradiction. The next window begins then, or at
//!   the first look after its end.
//! - A contradiction ends with a whole window without another one, or when the task is not said to be stopped
//!   any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, Instant, nanoseconds};

/// A task that uses so much in one window runs. What is stopped uses none; this is more than the ends of
/// system calls that signals interrupt.
pub const RUNS_FROM: Duration = Duration::from_millis(1);
/// The shortest grace.
pub const GRACE: Duration = Duration::from_millis(100);
/// The shortest window.
pub const WINDOW: Duration = Duration::from_secs(1);

/// A task that its agent says is stopped, and that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradiction {
    /// Whose.
    pub domain: String,
    /// Which.
    pub task: String,
    /// Since when it is said to be stopped.
    #[serde(rename = "said_at_ns")]
    pub said_at: Instant,
    /// When it was seen last that it runs.
    #[serde(rename = "seen_at_ns")]
    pub seen_at: Instant,
    /// How much CPU time it had used then.
    #[serde(rename = "used_ns", with = "nanoseconds")]
    pub used: Duration,
    /// Within which time.
    #[serde(rename = "within_ns", with = "nanoseconds")]
    pub within: Duration,
}

/// Of a domain, how long it takes until what its agent says has to be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContradictionPatience {
    /// From the agent's answer to the first look.
    pub grace: Duration,
    /// How long CPU time is counted.
    pub window: Duration,
}

impl ContradictionPatience {
    /// For a domain with these periods in its modes, whose new tasks wait for what is left of old ones for so
    /// long at most: what waits for its budget has it after a period, and shows that it runs within two.
    pub fn of(longest_period: Duration, longest_offset: Duration) -> Self {
        let grace = GRACE.saturating_add(longest_period);
        Self {
            grace: grace.saturating_add(longest_offset),
            window: WINDOW.max(longest_period.saturating_add(longest_period)),
        }
    }
}

/// What a look has shown that was not so before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContradictionNews {
    /// A task runs.
    Runs(Contradiction),
    /// It does so no longer, or is not said to be stopped any more.
    Ends {
        /// Whose.
        domain: String,
        /// Which.
        task: String,
    },
}

/// What one look sees of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSight {
    /// Since when it is said to be stopped.
    pub said_at: Instant,
    /// The CPU time that it has used so far; none if nothing is there that could use any.
    pub used: Option<Duration>,
}

/// The contradictions of a host.
#[derive(Debug, Default)]
pub struct Contradictions {
    tasks: BTreeMap<(String, String), StoppedTask>,
}

/// What was seen of a task that is said to be stopped.
#[derive(Debug)]
struct StoppedTask {
    said_at: Instant,
    /// When this window began, and what had been used by then.
    window: Option<(Instant, Duration)>,
    contradiction: Option<Contradiction>,
}

impl Contradictions {
    /// Those that there are.
    pub fn all(&self) -> Vec<Contradiction> {
        let seen = self.tasks.values();
        seen.filter_map(|seen| seen.contradiction.clone()).collect()
    }

    /// Looks at one task; `sight` is `None` if it is not said to be stopped.
    pub fn look(
        &mut self,
        now: Instant,
        (domain, task): (&str, &str),
        patience: ContradictionPatience,
        sight: Option<TaskSight>,
    ) -> Option<ContradictionNews> {
        let key = (domain.to_owned(), task.to_owned());
        let Some(sight) = sight else {
            let seen = self.tasks.remove(&key);
            return seen.and_then(|seen| seen.contradiction).map(ended);
        };
        let seen = self
            .tasks
            .entry(key)
            .or_insert_with(|| StoppedTask::new(&sight));
        if seen.said_at != sight.said_at {
            // It is another stop that is spoken of.
            let before = std::mem::replace(seen, StoppedTask::new(&sight));
            return before.contradiction.map(ended);
        }
        seen.look(now, (domain, task), patience, &sight)
    }
}

fn ended(before: Contradiction) -> ContradictionNews {
    ContradictionNews::Ends {
        domain: before.domain,
        task: before.task,
    }
}

impl StoppedTask {
    fn new(sight: &TaskSight) -> Self {
        Self {
            said_at: sight.said_at,
            window: None,
            contradiction: None,
        }
    }

    fn look(
        &mut self,
        now: Instant,
        (domain, task): (&str, &str),
        patience: ContradictionPatience,
        sight: &TaskSight,
    ) -> Option<ContradictionNews> {
        if now.saturating_since(self.said_at) < patience.grace {
            return None;
        }
        let Some(used) = sight.used else {
            self.window = None;
            return self.contradiction.take().map(ended);
        };
        let (began_at, before) = *self.window.get_or_insert((now, used));
        // What was there is gone, and something else has its place.
        let spent = used.checked_sub(before).unwrap_or_default();
        let within = now.saturating_since(began_at);
        if spent >= RUNS_FROM {
            self.window = Some((now, used));
            let contradiction = Contradiction {
                domain: domain.to_owned(),
                task: task.to_owned(),
                said_at: self.said_at,
                seen_at: now,
                used: spent,
                within,
            };
            let is_new = self.contradiction.replace(contradiction.clone()).is_none();
            return is_new.then_some(ContradictionNews::Runs(contradiction));
        }
        if used < before || within >= patience.window {
            self.window = Some((now, used));
            return self.contradiction.take().map(ended);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const PATIENCE: ContradictionPatience = ContradictionPatience {
        grace: Duration::from_millis(110),
        window: Duration::from_secs(1),
    };
    const SAID_AT: Instant = Instant::from_nanos(1_000_000_000);

    fn after(ms: u64) -> Instant {
        SAID_AT + Duration::from_millis(ms)
    }

    /// Looks so many milliseconds after the answer, at a task that has used so many microseconds.
    fn look(seen: &mut Contradictions, after_ms: u64, used_us: u64) -> Option<ContradictionNews> {
        let sight = TaskSight {
            said_at: SAID_AT,
            used: Some(Duration::from_micros(used_us)),
        };
        seen.look(after(after_ms), ("arm", "move"), PATIENCE, Some(sight))
    }

    fn ends() -> Option<ContradictionNews> {
        Some(ContradictionNews::Ends {
            domain: "arm".into(),
            task: "move".into(),
        })
    }

    #[test]
    fn a_task_that_runs_on_is_named_once_and_until_it_stops() {
        let mut seen = Contradictions::default();
        // What it uses before the grace is over does not count, nor what it had used by the first look.
        assert_eq!(look(&mut seen, 1, 0), None);
        assert_eq!(look(&mut seen, 109, 90_000), None);
        assert_eq!(look(&mut seen, 110, 100_000), None);
        assert_eq!(look(&mut seen, 300, 100_999), None);
        let Some(ContradictionNews::Runs(contradiction)) = look(&mut seen, 500, 101_000) else {
            panic!("{seen:?}");
        };
        assert_eq!(
            (contradiction.domain.as_str(), contradiction.task.as_str()),
            ("arm", "move")
        );
        assert_eq!(
            (contradiction.said_at, contradiction.seen_at),
            (SAID_AT, after(500))
        );
        assert_eq!(contradiction.used, Duration::from_millis(1));
        assert_eq!(contradiction.within, Duration::from_millis(390));
        assert_eq!(seen.all(), [contradiction]);
        // Still so: told once, and known to be so now.
        assert_eq!(look(&mut seen, 700, 150_000), None);
        assert_eq!(seen.all()[0].seen_at, after(700));
        assert_eq!(look(&mut seen, 1_699, 150_000), None);
        assert_eq!(seen.all().len(), 1);
        assert_eq!(look(&mut seen, 1_700, 150_000), ends());
        assert_eq!(seen.all(), []);
        // And once more.
        assert!(look(&mut seen, 1_800, 152_000).is_some());
    }

    #[test]
    fn what_is_stopped_is_never_named() {
        let mut seen = Contradictions::default();
        let mut used_us = 5_000;
        for look_number in 0..10_000 {
            // A signal's end now and then, less than a thousandth of the time.
            used_us += u64::from(look_number % 3 == 0) * 150;
            assert_eq!(look(&mut seen, 150 + look_number * 200, used_us), None);
        }
    }

    #[test]
    fn what_is_gone_or_said_anew_begins_anew() {
        let mut seen = Contradictions::default();
        assert_eq!(look(&mut seen, 200, 0), None);
        // Another process in its place has used less.
        assert_eq!(look(&mut seen, 400, 90_000).map(|_| ()), Some(()));
        assert_eq!(look(&mut seen, 600, 10), ends());
        assert_eq!(look(&mut seen, 800, 100), None);
        assert!(look(&mut seen, 900, 50_000).is_some());
        let mut at = |after_ms: u64, sight: Option<TaskSight>| {
            seen.look(after(after_ms), ("arm", "move"), PATIENCE, sight)
        };
        let gone = TaskSight {
            said_at: SAID_AT,
            used: None,
        };
        assert_eq!(at(1_000, Some(gone)), ends());
        assert_eq!(at(1_100, Some(gone)), None);
        // Not said to be stopped any more, and then again: with a grace of its own.
        assert_eq!(at(1_200, None), None);
        let again = TaskSight {
            said_at: after(1_300),
            used: Some(Duration::from_secs(1)),
        };
        let later = TaskSight {
            used: Some(Duration::from_secs(2)),
            ..again
        };
        assert_eq!(at(1_300, Some(again)), None);
        assert_eq!(at(1_409, Some(later)), None);
        assert_eq!(at(1_410, Some(later)), None);
        let ran = TaskSight {
            used: Some(Duration::from_secs(3)),
            ..again
        };
        assert!(matches!(
            at(1_500, Some(ran)),
            Some(ContradictionNews::Runs(_))
        ));
        // Said again, with the same words of another answer.
        let anew = TaskSight {
            said_at: after(1_600),
            ..ran
        };
        assert_eq!(at(1_600, Some(anew)), ends());
        assert_eq!(at(1_610, None), None);
    }

    #[test]
    fn long_periods_and_waits_make_for_patience() {
        let ms = Duration::from_millis;
        let short = ContradictionPatience::of(ms(10), Duration::ZERO);
        assert_eq!((short.grace, short.window), (ms(110), ms(1_000)));
        let long = ContradictionPatience::of(ms(2_000), ms(30));
        assert_eq!((long.grace, long.window), (ms(2_130), ms(4_000)));
    }
}
