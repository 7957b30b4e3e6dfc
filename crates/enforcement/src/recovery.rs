//! Takes back what enforcers that died left behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ReservationRequest;
use crate::audit::record;
use crate::error::EnforcementError;
use crate::executor::take_back;
use crate::journal::{self, Journal, JournalHistory, Turn, failure, journals_in, owner_lives};
use crate::kernel::{KernelState, KernelView};
use crate::linux_kernel::LinuxKernel;
use crate::registry::{HeldElsewhere, HostRegistry};

/// What [`recover`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Domains whose reservations were taken back.
    pub reverted: Vec<String>,
    /// Journals left alone because their owner lives.
    pub alive: Vec<PathBuf>,
    /// What could not be put back, and why; the rest was. The journal stays for another try.
    pub failures: Vec<String>,
}

/// Takes back what enforcers that have died left behind, from their journals in
/// `journal_directory`. Journals whose owner lives are left alone. Doing it twice does no harm.
///
/// # Errors
/// If the directory cannot be read or the journals cannot be written; no directory means that
/// there is nothing to do.
pub fn recover(journal_directory: &Path) -> Result<Recovery, EnforcementError> {
    if journals_in(journal_directory)?.is_empty() {
        return Ok(Recovery::default());
    }
    let mut kernel = LinuxKernel::new().map_err(|e| failure(journal_directory, e))?;
    let registry = HostRegistry::of_this_host();
    recover_registered(journal_directory, &mut kernel, Some(&registry))
}

/// As [`recover`], on another kernel.
///
/// # Errors
/// As [`recover`].
pub fn recover_with(
    journal_directory: &Path,
    kernel: &mut dyn KernelState,
) -> Result<Recovery, EnforcementError> {
    recover_registered(journal_directory, kernel, None)
}

/// As [`recover_with`], where what stands is entered in a registry.
///
/// # Errors
/// As [`recover`].
pub fn recover_registered(
    journal_directory: &Path,
    kernel: &mut dyn KernelState,
    registry: Option<&HostRegistry>,
) -> Result<Recovery, EnforcementError> {
    if journals_in(journal_directory)?.is_empty() {
        return Ok(Recovery::default());
    }
    let _turn = Turn::take_to_undo(registry, journal_directory)?;
    let recovery = recover_in_turn(journal_directory, kernel)?;
    if let Some(registry) = registry {
        registry.clean(kernel);
    }
    Ok(recovery)
}

/// As [`recover_with`], for a caller that holds the turn.
pub(crate) fn recover_in_turn(
    journal_directory: &Path,
    kernel: &mut dyn KernelState,
) -> Result<Recovery, EnforcementError> {
    let mut recovery = Recovery::default();
    for path in journals_in(journal_directory)? {
        let (history, unreadable) = match fs::read(&path) {
            Ok(bytes) => JournalHistory::read(&bytes),
            Err(error) => {
                recovery
                    .failures
                    .push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        if unreadable > 0 {
            recovery.failures.push(format!(
                "{}: {unreadable} lines cannot be read; what they say is not restored",
                path.display()
            ));
        }
        let Some(owner) = history.owner.clone() else {
            // Not even its first line was written, so nothing was changed.
            remove(&path, &mut recovery);
            continue;
        };
        if owner_lives(&owner, kernel) {
            recovery.alive.push(path);
            continue;
        }
        if kernel.boot().is_ok_and(|boot| boot != owner.boot) {
            // Nothing that we change outlives a boot.
            if let Err(error) = record::remove(&path) {
                recovery.failures.push(failure(&path, error).to_string());
            }
            remove(&path, &mut recovery);
            continue;
        }
        end(kernel, Journal::adopt(&path, history, owner), &mut recovery);
    }
    Ok(recovery)
}

/// Removes a journal that tells nothing; one that stays keeps no other from being recovered.
fn remove(path: &Path, recovery: &mut Recovery) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            recovery.failures.push(failure(path, error).to_string());
        }
        _ => {}
    }
}

/// Takes back all that stands in a dead enforcer's journal.
fn end(kernel: &mut dyn KernelState, mut journal: Journal, recovery: &mut Recovery) {
    // What adopted threads had is recorded beside the journal, which goes last.
    let failures = record::recover(journal.path(), kernel);
    let is_clean = failures.is_empty();
    recovery.failures.extend(failures);
    let held = journal.history().domains.iter();
    let domains: Vec<String> = held.map(|held| held.request.domain.clone()).collect();
    for domain in domains.into_iter().rev() {
        let failures = take_back(kernel, &mut journal, None, &domain);
        match failures.is_empty() {
            true => recovery.reverted.push(domain),
            false => recovery.failures.extend(failures),
        }
    }
    // Where the record was not cleared the journal stays: the next attempt finds the record by it.
    if is_clean && let Err(error) = journal.finish() {
        recovery.failures.push(error.to_string());
    }
}

/// The reservations that stand on this host, perhaps in part, by the journals in
/// `journal_directory`: those of living enforcers, and those of dead ones that were not taken back
/// yet. Changes nothing.
///
/// # Errors
/// If the directory or a journal cannot be read; no directory means that nothing stands.
pub fn standing_reservations(
    journal_directory: &Path,
) -> Result<Vec<ReservationRequest>, EnforcementError> {
    if journals_in(journal_directory)?.is_empty() {
        return Ok(Vec::new());
    }
    let kernel = LinuxKernel::new().map_err(|e| failure(journal_directory, e))?;
    standing_reservations_with(journal_directory, &kernel)
}

/// As [`standing_reservations`], on another kernel.
///
/// # Errors
/// As [`standing_reservations`].
pub fn standing_reservations_with(
    journal_directory: &Path,
    kernel: &dyn KernelView,
) -> Result<Vec<ReservationRequest>, EnforcementError> {
    let boot = kernel.boot().map_err(|e| failure(journal_directory, e))?;
    let mut standing = Vec::new();
    for path in journals_in(journal_directory)? {
        let bytes = match fs::read(&path) {
            // It ended while we looked.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            outcome => outcome.map_err(|error| failure(&path, error))?,
        };
        let (history, _) = JournalHistory::read(&bytes);
        if history.owner.is_some_and(|owner| owner.boot == boot) {
            standing.extend(history.domains.into_iter().map(|held| held.request));
        }
    }
    Ok(standing)
}

/// The reservations that other enforcers hold: living ones with journals in `journal_directory`, and
/// all that have a journal in another directory that is in the registry.
pub(crate) fn held_by_others(
    journal_directory: &Path,
    own: &Path,
    registry: Option<&HostRegistry>,
    kernel: &dyn KernelView,
) -> Result<Vec<HeldElsewhere>, EnforcementError> {
    let mut held = match registry {
        Some(registry) => registry.held_elsewhere(journal_directory, kernel)?,
        None => Vec::new(),
    };
    for path in journal::journals_in(journal_directory)? {
        if path == own {
            continue;
        }
        // It may end while we look; then it holds nothing.
        let (history, _) = JournalHistory::read(&fs::read(&path).unwrap_or_default());
        let mut owner = history.owner.iter();
        if owner.any(|owner| owner_lives(owner, kernel)) {
            let domains = history.domains.into_iter();
            held.extend(domains.map(|held| HeldElsewhere { held, place: None }));
        }
    }
    Ok(held)
}
