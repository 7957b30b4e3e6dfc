//! What scheduling costs, from a file.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_simulator::HostOverheads;
use tailbound_simulator::aperiodic::AperiodicCosts;
use tailbound_time::Duration;

use crate::feasibility::Feasibility;
use crate::variants::Variant;

/// The costs that come with the study.
const DEFAULT: &str = include_str!("../costs/rtlinux.toml");

/// What scheduling costs; see costs/rtlinux.toml.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    interrupt: Duration,
    scheduler_invocation: Duration,
    context_switch: Duration,
    slack_per_task: Duration,
    replenishment: Duration,
    promotion: Duration,
    gain: Duration,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: toml::de::Error,
    },
}

impl Settings {
    /// The settings of a file, or those that come with the study.
    pub fn read(path: Option<&Path>) -> Result<Self, SettingsError> {
        let (path, text) = match path {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|source| SettingsError::Read {
                    path: path.into(),
                    source,
                })?;
                (path.to_path_buf(), text)
            }
            None => (PathBuf::from("costs/rtlinux.toml"), DEFAULT.to_owned()),
        };
        toml::from_str(&text).map_err(|source| SettingsError::Parse { path, source })
    }

    /// Settings of a kernel where every look of the manager costs the same, and a look of the scheduler
    /// is in the switch; what slack stealing and gain cost is left out.
    pub fn of_kernel(interrupt: Duration, context_switch: Duration, manager: Duration) -> Self {
        Self {
            interrupt,
            context_switch,
            replenishment: manager,
            promotion: manager,
            ..Self::default()
        }
    }

    /// What the analysis adds to the worst case of every hard job under a policy: its interrupt, a look
    /// and a switch when it comes and when it goes, and the policy's own work. What soft jobs cost is not
    /// in it.
    pub fn allowance(&self, variant: Variant, hard_tasks: usize) -> Duration {
        let policy = variant.policy(&Feasibility::unknown());
        policy.allowance(&self.overheads(), &self.policy_costs(), hard_tasks)
    }

    /// What every policy pays.
    pub fn overheads(&self) -> HostOverheads {
        HostOverheads {
            context_switch: self.context_switch,
            scheduler_invocation: self.scheduler_invocation,
            interrupt: self.interrupt,
            ..HostOverheads::default()
        }
    }

    /// What some policies pay.
    pub fn policy_costs(&self) -> AperiodicCosts {
        AperiodicCosts {
            replenishment: self.replenishment,
            promotion: self.promotion,
            slack_per_task: self.slack_per_task,
            gain: self.gain,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_file_that_comes_along_is_understood() {
        let settings = Settings::read(None).unwrap();
        assert!(!settings.overheads().is_free());
        assert!(Settings::default().overheads().is_free());
        let allowance = |variant| settings.allowance(variant, 16);
        assert!(allowance(Variant::Slack) > allowance(Variant::Background));
    }
}
