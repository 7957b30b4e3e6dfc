//! The file: a recovery breakdown, as our ZooKeeper server and `bench/recovery` write it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tailbound_analysis::recovery::Parameters;

use super::RecoveryError;

/// The version that is read.
const SCHEMA_VERSION: u32 = 1;

/// One kind of recovery: those that are judged together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RecoveryCase {
    /// The variant of the servers.
    pub variant: String,
    /// Why the leader was given up.
    pub cause: String,
    /// Voting servers of the configuration.
    pub servers: u32,
}

/// Recoveries of one or more ensembles. Fields that are not named here are left alone.
#[derive(Debug, Deserialize)]
pub struct Breakdown {
    schema_version: u32,
    /// Known upper bounds; without them half of the recoveries estimate them.
    pub parameters: Option<Parameters>,
    /// The recoveries, in the order in which they were measured.
    pub recoveries: Vec<ServerRecovery>,
}

/// One recovery as one server saw it, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerRecovery {
    /// Voting servers of the configuration, the failed one included.
    pub servers: u32,
    /// The server's variant.
    pub variant: String,
    /// Why the leader was given up.
    pub cause: String,
    /// Last sign of life of the leader to giving it up.
    pub detection_ns: u64,
    /// To the end of the election.
    pub election_ns: u64,
    /// To the connection with the new leader.
    pub connection_ns: u64,
    /// To the acknowledged history.
    pub synchronisation_ns: u64,
    /// To accepting requests.
    pub start_ns: u64,
    /// To the first committed write; null if there was none.
    pub first_write_ns: Option<u64>,
    /// All of it.
    pub total_ns: u64,
}

impl ServerRecovery {
    /// Connection, synchronisation and start: the thesis's phase 2.
    pub(super) fn phase_2_ns(&self) -> u64 {
        // Checked when it was read.
        self.connection_ns + self.synchronisation_ns + self.start_ns
    }

    fn sum(&self) -> Option<u64> {
        [
            self.election_ns,
            self.connection_ns,
            self.synchronisation_ns,
            self.start_ns,
            self.first_write_ns.unwrap_or(0),
        ]
        .into_iter()
        .try_fold(self.detection_ns, u64::checked_add)
    }
}

impl Breakdown {
    /// Reads and checks the text of the file `name`.
    ///
    /// # Errors
    /// The text is no breakdown, or one that contradicts itself or has no failure in it.
    pub fn parse(name: &str, text: &str) -> Result<Self, RecoveryError> {
        let name = name.to_owned();
        let breakdown: Self = match serde_json::from_str(text) {
            Ok(breakdown) => breakdown,
            Err(cause) => return Err(RecoveryError::NoBreakdown { name, cause }),
        };
        if breakdown.schema_version != SCHEMA_VERSION {
            return Err(RecoveryError::Version {
                name,
                version: breakdown.schema_version,
                supported: SCHEMA_VERSION,
            });
        }
        for (index, recovery) in breakdown.recoveries.iter().enumerate() {
            let (total_ns, servers) = (recovery.total_ns, recovery.servers);
            if recovery.sum() != Some(total_ns) {
                return Err(RecoveryError::Sum {
                    name,
                    index,
                    total_ns,
                });
            }
            if servers < 2 {
                return Err(RecoveryError::TooFewServers {
                    name,
                    index,
                    servers,
                });
            }
        }
        match breakdown.cases().is_empty() {
            true => Err(RecoveryError::NoFailure { name }),
            false => Ok(breakdown),
        }
    }

    /// The recoveries of a variant from failures of one cause, of all sizes.
    pub(super) fn of(&self, variant: &str, cause: &str) -> Vec<&ServerRecovery> {
        self.recoveries
            .iter()
            .filter(|one| one.variant == variant && one.cause == cause)
            .collect()
    }

    /// The kinds of recovery in it, in order; first starts are none.
    pub(super) fn cases(&self) -> Vec<RecoveryCase> {
        let failures = self
            .recoveries
            .iter()
            .filter(|recovery| recovery.cause != "started");
        let cases: BTreeSet<RecoveryCase> = failures
            .map(|recovery| RecoveryCase {
                variant: recovery.variant.clone(),
                cause: recovery.cause.clone(),
                servers: recovery.servers,
            })
            .collect();
        cases.into_iter().collect()
    }
}
