//! The users of a service, each of whom waits for a reply before the next request.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::description::Service;
use crate::workload::Arrivals;

/// The most requests of a session.
pub const LONGEST_SESSION: u32 = 100_000;

/// The users of a service: each sends a request, waits for the reply, thinks, and sends the next (a closed loop). They release
/// the tasks whose arrivals are of the kind `users`; tasks of other kinds are released beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// The number of users at the start of the load.
    #[schemars(range(max = 100_000))]
    pub count: u32,
    /// The time from a reply to the next request of the same user.
    pub think_time: ThinkTime,
    /// The requests of a session, in order; a user who ends a session begins another. Left out, a session is one request of
    /// each task with arrivals of the kind `users`, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session: Vec<UserStep>,
    /// The values of placeholders in requests: a CSV file whose header names them, so that a column `lat` stands for
    /// `{lat}`. The n-th request of a session takes the n-th row. Rows with the same value in a column `session` belong
    /// together: each session of a user is one of them, drawn at random. Relative paths start at the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<PathBuf>,
    /// The changes of the number of users, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<UserChange>,
}

/// The time that a user thinks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ThinkTime {
    /// Always `value`.
    Constant {
        /// The time.
        value: Duration,
    },
    /// `min` and an exponentially distributed rest.
    Exponential {
        /// No time is shorter.
        #[serde(default)]
        min: Duration,
        /// The mean, above `min`.
        mean: Duration,
    },
    /// Drawn from measured times.
    Samples {
        /// The file of times, in the format of execution times; relative paths start at the description.
        file: PathBuf,
    },
}

/// Requests of one task in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserStep {
    /// The task.
    pub task: String,
    /// The number of its requests that follow each other.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    #[schemars(range(min = 1, max = 100_000), extend("default" = 1))]
    pub times: u32,
}

fn once() -> u32 {
    1
}

// serde passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_once(times: &u32) -> bool {
    *times == 1
}

// serde passes references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_at_once(over: &Duration) -> bool {
    over.is_zero()
}

/// A change of the number of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserChange {
    /// The begin of the change, from the end of the warm-up on.
    pub at: Duration,
    /// The number of users after it.
    #[schemars(range(max = 100_000))]
    pub count: u32,
    /// The time that the change takes: users come or go one by one, evenly over it. All at once if left out.
    #[serde(default, skip_serializing_if = "is_at_once")]
    pub over: Duration,
}

impl Users {
    /// The largest number of users at any time.
    pub fn most(&self) -> u32 {
        let later = self.changes.iter().map(|change| change.count);
        later.fold(self.count, u32::max)
    }

    /// The steps of a session of the users of `service`: as described, or one request of each of their tasks.
    pub fn steps(&self, service: &Service) -> Vec<UserStep> {
        if !self.session.is_empty() {
            return self.session.clone();
        }
        let tasks = service.tasks.iter();
        let asked = tasks.filter(|(_, task)| matches!(task.arrivals, Arrivals::Users {}));
        let step = |(name, _): (&String, _)| UserStep {
            task: name.clone(),
            times: 1,
        };
        asked.map(step).collect()
    }

    /// The number of users so long after the end of the warm-up.
    pub fn count_at(&self, at: Duration) -> u32 {
        let mut before = self.count;
        for change in &self.changes {
            if at < change.at {
                return before;
            }
            let passed = at.saturating_sub(change.at);
            if passed < change.over {
                return between(before, change.count, passed, change.over);
            }
            before = change.count;
        }
        before
    }

    /// When there are more than so many users again: the first such time from `from` on, after the end of the warm-up.
    pub fn next_above(&self, number: u32, from: Duration) -> Option<Duration> {
        if self.count_at(from) > number {
            return Some(from);
        }
        let mut before = self.count;
        for change in &self.changes {
            if change.count > number {
                let since = if before > number {
                    change.at
                } else {
                    change.at.saturating_add(time_until(before, number, change))
                };
                if since >= from {
                    return Some(since);
                }
            }
            before = change.count;
        }
        None
    }
}

/// The number of users `passed` after the begin of a change that takes `over`: whole users.
fn between(before: u32, after: u32, passed: Duration, over: Duration) -> u32 {
    let part = |difference: u32| {
        let done = u128::from(difference) * u128::from(passed.as_nanos());
        (done / u128::from(over.as_nanos().max(1))) as u32
    };
    match after >= before {
        true => before + part(after - before),
        false => before - part(before - after),
    }
}

/// How long after its begin a rise has brought more than `number` users.
fn time_until(before: u32, number: u32, rise: &UserChange) -> Duration {
    let all = u128::from(rise.count.saturating_sub(before)).max(1);
    let needed = u128::from(number + 1 - before.min(number));
    let nanos = (u128::from(rise.over.as_nanos()) * needed).div_ceil(all);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl ThinkTime {
    /// The mean of a law that the description has in full.
    pub fn mean(&self) -> Option<Duration> {
        match self {
            Self::Constant { value } => Some(*value),
            Self::Exponential { mean, .. } => Some(*mean),
            Self::Samples { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn users(count: u32, changes: &[(u64, u32, u64)]) -> Users {
        let secs = Duration::from_secs;
        let change = |(at, count, over): &(u64, u32, u64)| UserChange {
            at: secs(*at),
            count: *count,
            over: secs(*over),
        };
        Users {
            count,
            think_time: ThinkTime::Constant { value: secs(1) },
            session: Vec::new(),
            parameters: None,
            changes: changes.iter().map(change).collect(),
        }
    }

    #[test]
    fn users_come_and_go_in_steps_and_ramps() {
        let users = users(10, &[(5, 20, 10), (30, 4, 0)]);
        let at = |seconds| users.count_at(Duration::from_secs(seconds));
        assert_eq!(
            [0, 4, 5, 10, 14, 15, 29, 30, 99].map(at),
            [10, 10, 10, 15, 19, 20, 20, 4, 4]
        );
        assert_eq!(users.most(), 20);
        let above = |number, from| users.next_above(number, Duration::from_secs(from));
        assert_eq!(above(9, 3), Some(Duration::from_secs(3)));
        assert_eq!(above(15, 0), Some(Duration::from_secs(11)));
        assert_eq!(above(20, 0), None);
        assert_eq!(above(4, 31), None);
    }

    proptest! {
        #[test]
        fn the_next_time_above_is_the_first_one(
            count in 0_u32..9,
            first in (0_u64..9, 0_u32..9, 0_u64..9),
            second in (0_u64..9, 0_u32..9, 0_u64..9),
            number in 0_u32..9,
            from in 0_u64..40,
        ) {
            let users = users(count, &[first, (first.0 + first.2 + second.0, second.1, second.2)]);
            let from = Duration::from_secs(from);
            // A ramp of at most nine users over whole seconds: its users come at multiples of this.
            let step = Duration::from_nanos(1_000_000_000 / 2520);
            let mut at = from;
            let mut expected = None;
            while at < Duration::from_secs(60) {
                if users.count_at(at) > number {
                    expected = Some(at);
                    break;
                }
                at = at.saturating_add(step);
            }
            let found = users.next_above(number, from);
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => {
                    prop_assert!(users.count_at(found) > number);
                    prop_assert!(found <= expected);
                    prop_assert!(expected.saturating_sub(found) <= step);
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
