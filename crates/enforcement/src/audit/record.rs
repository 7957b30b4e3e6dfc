//! What adopted threads had before, in a file beside the journal, for recovery.
//!
//! The journal grows with every change, and domains fork all day; so adoptions are slots of one size that
//! are used again once their threads have ended: the file is no larger than the most threads that were
//! adopted at a time. A slot is written before its thread is changed, by one write within a page, so that
//! the death of the process leaves it whole or as it was.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tailbound_model::CpuSet;

use super::domain_audit::demote;
use crate::SchedulingSetting;
use crate::kernel::KernelState;

/// The size of a slot, its line end included; a page holds a whole number of them.
const SLOT_BYTES: usize = 256;

/// A thread that was adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The thread.
    pub tid: u32,
    /// When it started, in ticks since boot.
    pub started: u64,
    /// Its policy before, if it got another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had: Option<SchedulingSetting>,
    /// Its affinity before, if it got another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<CpuSet>,
}

impl Adoption {
    /// Gives the thread what it had, unless it has ended.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take_back(&self, kernel: &mut dyn KernelState) -> io::Result<()> {
        if kernel.started(self.tid).ok() != Some(self.started) {
            return Ok(());
        }
        if let Some(had) = self.had {
            demote(kernel, self.tid, had)?;
        }
        let Some(cpus) = &self.affinity else {
            return Ok(());
        };
        match kernel.set_affinity(self.tid, cpus) {
            // It has ended, or a cpuset confines it meanwhile.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::InvalidInput
                ) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// The slot of this adoption; without the affinity where a machine has so many CPUs that it finds no
    /// room.
    fn slot(&self) -> io::Result<[u8; SLOT_BYTES]> {
        let mut line = serde_json::to_vec(self)?;
        if line.len() >= SLOT_BYTES {
            let affinity = None;
            line = serde_json::to_vec(&Self {
                affinity,
                ..self.clone()
            })?;
        }
        let mut slot = EMPTY;
        let room = slot.get_mut(..line.len());
        let room = room.ok_or(io::ErrorKind::InvalidData)?;
        room.copy_from_slice(&line);
        Ok(slot)
    }
}

const EMPTY: [u8; SLOT_BYTES] = {
    let mut empty = [b' '; SLOT_BYTES];
    empty[SLOT_BYTES - 1] = b'\n';
    empty
};

/// The record of the adoptions of one enforcer.
#[derive(Debug)]
pub struct AdoptionRecord {
    path: PathBuf,
    file: Option<File>,
    free: Vec<usize>,
    slots: usize,
}

/// Where the adoptions of the enforcer with this journal are recorded.
pub fn beside(journal: &Path) -> PathBuf {
    journal.with_extension("adoptions")
}

impl AdoptionRecord {
    /// A record in this file, which is made with the first adoption.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            free: Vec::new(),
            slots: 0,
        }
    }

    /// Writes an adoption down; its slot.
    ///
    /// # Errors
    /// What the file system says; the thread must not be changed then.
    pub fn enter(&mut self, adoption: &Adoption) -> io::Result<usize> {
        let bytes = adoption.slot()?;
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(&self.path)?,
        };
        let file = self.file.insert(file);
        let slot = self.free.last().copied().unwrap_or(self.slots);
        file.write_all_at(&bytes, (slot * SLOT_BYTES) as u64)?;
        if self.free.pop().is_none() {
            self.slots += 1;
        }
        Ok(slot)
    }

    /// The thread of a slot has ended, or is as before.
    pub fn clear(&mut self, slot: usize) {
        debug_assert!(
            slot < self.slots && !self.free.contains(&slot),
            "a slot that is cleared holds an adoption"
        );
        // One that cannot be cleared names a thread that has ended, or is as it says.
        if let Some(file) = &self.file {
            let _harmless = file.write_all_at(&EMPTY, (slot * SLOT_BYTES) as u64);
        }
        self.free.push(slot);
    }

    /// How many adoptions stand.
    pub fn standing(&self) -> usize {
        self.slots - self.free.len()
    }

    /// Removes the file if nothing stands in it.
    pub fn finish(&mut self) {
        if self.standing() == 0 && self.file.take().is_some() {
            (self.slots, self.free) = (0, Vec::new());
            // Recovery reads an empty record as well.
            let _harmless = fs::remove_file(&self.path);
        }
    }
}

/// The adoptions in the bytes of a record. What cannot be read is passed over: of a slot that was not
/// written whole, the thread was not changed.
pub fn read(bytes: &[u8]) -> Vec<Adoption> {
    let lines = bytes.split(|&byte| byte == b'\n');
    let adoptions = lines.filter_map(|line| serde_json::from_slice(line.trim_ascii()).ok());
    adoptions.collect()
}

/// Takes back the adoptions of an enforcer that died, and removes their record; what failed.
pub(crate) fn recover(journal: &Path, kernel: &mut dyn KernelState) -> Vec<String> {
    let path = beside(journal);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![format!("{}: {error}", path.display())],
        Ok(bytes) => bytes,
    };
    let failed = read(&bytes).into_iter().filter_map(|adoption| {
        let outcome = adoption.take_back(kernel);
        let tid = adoption.tid;
        outcome
            .err()
            .map(|error| format!("taking back the adoption of thread {tid}: {error}"))
    });
    let mut failures: Vec<String> = failed.collect();
    if failures.is_empty() {
        failures.extend(
            remove(journal)
                .err()
                .map(|e| format!("{}: {e}", path.display())),
        );
    }
    failures
}

/// Removes the record beside a journal.
pub(crate) fn remove(journal: &Path) -> io::Result<()> {
    match fs::remove_file(beside(journal)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use tailbound_model::Cpu;

    use super::*;

    fn adoption(tid: u32) -> Adoption {
        Adoption {
            tid,
            started: u64::from(tid) * 10,
            had: Some(SchedulingSetting::Other { nice: 0 }),
            affinity: Some([Cpu(0), Cpu(3)].into()),
        }
    }

    #[test]
    fn slots_are_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.adoptions");
        let mut record = AdoptionRecord::new(path.clone());
        let slots: Vec<usize> = (1..4)
            .map(|tid| record.enter(&adoption(tid)).unwrap())
            .collect();
        assert_eq!(slots, [0, 1, 2]);
        for tid in 4..1_000 {
            record.clear(1);
            assert_eq!(record.enter(&adoption(tid)).unwrap(), 1);
        }
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 3 * SLOT_BYTES);
        assert_eq!(read(&bytes), [adoption(1), adoption(999), adoption(3)]);
        slots.into_iter().for_each(|slot| record.clear(slot));
        assert_eq!(read(&fs::read(&path).unwrap()), []);
        record.finish();
        assert!(!path.exists());
    }

    #[test]
    fn any_machine_s_affinity_leaves_room_for_the_policy() {
        let affinity = Some((0..4096).map(Cpu).collect());
        let large = Adoption {
            affinity,
            ..adoption(7)
        };
        let read = read(&large.slot().unwrap());
        assert_eq!(read[0].had, large.had);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _any = read(&bytes);
        }

        #[test]
        fn a_damaged_slot_spoils_no_other(at in 0..SLOT_BYTES - 1, byte: u8) {
            let mut bytes = adoption(1).slot().unwrap().to_vec();
            bytes.extend(adoption(2).slot().unwrap());
            bytes[at] = byte;
            prop_assert!(read(&bytes).contains(&adoption(2)));
        }
    }
}
