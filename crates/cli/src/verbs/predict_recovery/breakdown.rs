//! The file: a recovery breakdown, as our ZooKeeper server and `bench/recovery` write it.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use tailbound_analysis::recovery::Parameters;

use super::judgement::Case;
use crate::failure::Failure;

/// The version that is read.
const SCHEMA_VERSION: u32 = 1;

/// Recoveries of one or more ensembles. Fields that are not named here are left alone.
#[derive(Debug, Deserialize)]
pub struct Breakdown {
    schema_version: u32,
    /// Known upper bounds; without them half of the recoveries tell them.
    pub parameters: Option<Parameters>,
    /// The recoveries, in the order in which they were measured.
    pub recoveries: Vec<Recovery>,
}

/// One recovery as one server saw it, in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
pub struct Recovery {
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

impl Recovery {
    /// Connection, synchronisation and start: the thesis's phase 2.
    pub fn phase_2_ns(&self) -> u64 {
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
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::error(format!("cannot read {name}: {error}")))?;
        let found: Self = serde_json::from_str(&text).map_err(|error| {
            Failure::with_help(
                format!("{name} is no recovery breakdown: {error}"),
                "docs/concepts/recovery.md describes the file",
            )
        })?;
        found.check(&name.to_string())?;
        Ok(found)
    }

    fn check(&self, name: &str) -> Result<(), Failure> {
        if self.schema_version != SCHEMA_VERSION {
            return Err(Failure::error(format!(
                "{name} has schema_version {}; this program reads {SCHEMA_VERSION}",
                self.schema_version
            )));
        }
        for (index, recovery) in self.recoveries.iter().enumerate() {
            if recovery.sum() != Some(recovery.total_ns) {
                return Err(Failure::error(format!(
                    "{name}: the phases of recoveries[{index}] do not add up to its total_ns of {}",
                    recovery.total_ns
                )));
            }
            if recovery.servers < 2 {
                return Err(Failure::error(format!(
                    "{name}: recoveries[{index}] has {} servers; an ensemble that recovers has at \
                     least 2",
                    recovery.servers
                )));
            }
        }
        if self.cases().is_empty() {
            return Err(Failure::with_help(
                format!("{name} has no recovery from a failed leader"),
                "recoveries with cause \"started\" are first starts and tell nothing",
            ));
        }
        Ok(())
    }

    /// The recoveries of a variant from failures of one cause, of all sizes.
    pub fn of(&self, variant: &str, cause: &str) -> Vec<&Recovery> {
        self.recoveries
            .iter()
            .filter(|one| one.variant == variant && one.cause == cause)
            .collect()
    }

    /// The kinds of recovery in it, in order; first starts are none.
    pub fn cases(&self) -> Vec<Case> {
        let failures = self
            .recoveries
            .iter()
            .filter(|recovery| recovery.cause != "started");
        let cases: BTreeSet<Case> = failures.map(Case::of).collect();
        cases.into_iter().collect()
    }
}
