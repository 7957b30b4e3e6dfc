//! The means by which a domain is stopped and let go on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tailbound_linux::scheduling::{SchedulingSetting, set_scheduling};
use tailbound_time::Duration;

use super::{ServedDomain, open_control};
use crate::ds_freeze::error::ManagerError;

/// The means by which a domain is stopped and let go on.
#[derive(Debug)]
pub(in crate::ds_freeze) enum StopControl {
    /// `cgroup.freeze` of its cgroup, kept open.
    Freezer(File),
    /// The policy of its threads, which are the kernel's and cannot be frozen: without budget they are ordinary ones.
    Policy {
        /// The threads.
        threads: Vec<u32>,
        /// The policy that they have with budget.
        served: SchedulingSetting,
    },
}

impl StopControl {
    pub(super) fn open(domain: &ServedDomain) -> Result<Self, ManagerError> {
        if domain.demoted.is_empty() {
            return open_control(&domain.cgroup, "cgroup.freeze", true).map(Self::Freezer);
        }
        Ok(Self::Policy {
            threads: domain.demoted.clone(),
            served: SchedulingSetting::Fifo {
                priority: domain.priority.0,
                reset_on_fork: true,
            },
        })
    }

    /// Stops the domain, or lets it go on.
    pub(in crate::ds_freeze) fn set(&self, stopped: bool) -> io::Result<()> {
        match self {
            Self::Freezer(file) => file.write_all_at(if stopped { b"1" } else { b"0" }, 0),
            Self::Policy { threads, served } => {
                let setting = match stopped {
                    true => SchedulingSetting::Other { nice: 0 },
                    false => *served,
                };
                let mut outcome = Ok(());
                for &tid in threads {
                    // One that has ended is no reason to leave the others as they are.
                    outcome = outcome.and(set_scheduling(tid, setting));
                }
                outcome
            }
        }
    }

    /// Leaves the domain running where nobody counts its budget any more: ordinary threads keep no task waiting.
    pub(in crate::ds_freeze) fn let_go(&self) -> io::Result<()> {
        self.set(self.leaves_running())
    }

    /// Whether a stopped domain goes on in the background.
    pub(super) fn leaves_running(&self) -> bool {
        matches!(self, Self::Policy { .. })
    }
}

/// The CPU time that a domain used while it was stopped, which comes from no budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BackgroundUse {
    /// That of the times that are over.
    ended: Duration,
    /// The domain's CPU time when the present one began.
    since: Option<Duration>,
}

impl BackgroundUse {
    /// Begins such a time, when the domain has used `metered` in all.
    pub(super) fn begin(&mut self, metered: Duration) {
        self.since.get_or_insert(metered);
    }

    /// Ends it.
    pub(super) fn end(&mut self, metered: Duration) {
        self.ended = self.total(metered);
        self.since = None;
    }

    /// All of it, when the domain has used `metered` in all.
    pub(super) fn total(&self, metered: Duration) -> Duration {
        let present = self.since.map(|since| metered.saturating_sub(since));
        self.ended.saturating_add(present.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_the_background_comes_from_no_budget() {
        let ms = Duration::from_millis;
        let mut background = BackgroundUse::default();
        assert_eq!(background.total(ms(3)), ms(0));
        background.begin(ms(3));
        background.begin(ms(4));
        assert_eq!(background.total(ms(10)), ms(7));
        background.end(ms(10));
        assert_eq!(background.total(ms(15)), ms(7));
        background.begin(ms(15));
        assert_eq!(background.total(ms(16)), ms(8));
    }
}
