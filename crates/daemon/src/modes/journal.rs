//! The journal of the modes, in the state directory: what is to be made again if the daemon dies.
//!
//! A file of lines of JSON: first what was loaded, then the steps of mode changes, each written before
//! it is done. Nothing waits for a disk: nothing of ours outlives the boot. The death of a process
//! loses no write that has returned, and cuts at most the last line, which is not read then.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tailbound_enforcement::{EnforcementStatus, ReservationRequest, Target};
use tailbound_linux::process::{boot_id, process_started};
use tailbound_model::BackendKind;
use tailbound_modes::manager::journal::{Resumption, resumption};
use tailbound_modes::manager::{Journal, Record, State};
use tailbound_modes::table::ModeTable;
use tailbound_time::{Duration, Instant};

use crate::log::note;
use crate::protocol::RunningDescription;

/// The version of the format.
const FORMAT: u32 = 1;
/// The file is written anew, without old steps, when it is longer.
const LONGEST: u64 = 256 * 1024;
/// So many restarts within [`RESTARTS_WITHIN`] are enough.
pub const RESTARTS_MAX: usize = 3;
/// See [`RESTARTS_MAX`].
pub const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loaded {
    format: u32,
    /// Of what boot it is; that of another one says nothing.
    boot: String,
    /// The modes.
    pub table: ModeTable,
    domains: BTreeMap<String, Applied>,
    /// Where the modes are from.
    pub description: Option<RunningDescription>,
    /// How long the daemon may be idle.
    pub exit_when_idle: Option<Duration>,
}

/// What a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Applied {
    target: Target,
    backend: BackendKind,
    /// When its processes or threads were started, so that others with their numbers are told apart.
    started: BTreeMap<u32, u64>,
}

/// Why the domains of a journal cannot be reserved again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresumable {
    /// A process has ended.
    #[error("domain \"{domain}\": its process {pid} has ended")]
    Gone {
        /// Whose.
        domain: String,
        /// Which.
        pid: u32,
    },
    /// A domain of the state was not applied.
    #[error("domain \"{0}\" is not known")]
    Unknown(String),
}

/// The processes and threads that have to be the same for a reservation to be made again.
fn numbers_of(target: &Target) -> &[u32] {
    match target {
        Target::Processes(numbers) => numbers,
        // An emulator's other threads come and go.
        Target::Threads(_) | Target::Machine(_) => target.single_threads().unwrap_or_default(),
        Target::Cgroup(_) | Target::XenDomain(_) => &[],
    }
}

impl Loaded {
    /// What is enforced of a table.
    ///
    /// # Errors
    /// If the kernel does not name its boot.
    pub fn new(
        table: ModeTable,
        standing: &EnforcementStatus,
        description: Option<RunningDescription>,
        exit_when_idle: Option<Duration>,
    ) -> io::Result<Self> {
        let domains = standing.domains.iter().map(|one| {
            let numbers = numbers_of(&one.target);
            // One that has ended meanwhile is left out; it is missed when it is to be reserved again.
            let started = numbers
                .iter()
                .filter_map(|pid| Some((*pid, process_started(*pid).ok()?)));
            let applied = Applied {
                target: one.target.clone(),
                backend: one.backend,
                started: started.collect(),
            };
            (one.domain.clone(), applied)
        });
        Ok(Self {
            format: FORMAT,
            boot: boot_id()?,
            table,
            domains: domains.collect(),
            description,
            exit_when_idle,
        })
    }

    /// The reservations of a state.
    ///
    /// # Errors
    /// What stands against making them again.
    pub fn requests(&self, state: &State) -> Result<Vec<ReservationRequest>, Unresumable> {
        let mut requests = Vec::new();
        for (domain, held) in &state.domains {
            let applied = self.domains.get(domain);
            let applied = applied.ok_or_else(|| Unresumable::Unknown(domain.clone()))?;
            let is_same =
                |pid: &&u32| process_started(**pid).ok() == applied.started.get(*pid).copied();
            let numbers = numbers_of(&applied.target);
            if let Some(pid) = numbers.iter().find(|pid| !is_same(pid)) {
                let (domain, pid) = (domain.clone(), *pid);
                return Err(Unresumable::Gone { domain, pid });
            }
            requests.push(ReservationRequest {
                domain: domain.clone(),
                target: applied.target.clone(),
                interface: held.interface.interface.clone(),
                backend: applied.backend,
            });
        }
        Ok(requests)
    }
}

/// The file at work.
#[derive(Clone)]
pub struct ModesJournal(Arc<Mutex<Inner>>);

struct Inner {
    path: PathBuf,
    loaded: Loaded,
    /// None before the first state, and once it is removed.
    file: Option<File>,
    bytes: u64,
    /// Whether the file is behind what is loaded.
    is_behind: bool,
    is_removed: bool,
}

/// Where the journal of a state directory is.
pub fn path_in(directory: &Path) -> PathBuf {
    directory.join("modes.state")
}

/// Where it is told when the daemon was restarted.
fn restarts_path(directory: &Path) -> PathBuf {
    directory.join("modes.restarts")
}

impl ModesJournal {
    /// A journal in a state directory; it is written with the first state.
    pub fn new(directory: &Path, loaded: Loaded) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            path: path_in(directory),
            loaded,
            file: None,
            bytes: 0,
            is_behind: true,
            is_removed: false,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other modes are loaded; the file follows with the next state.
    pub fn set_modes(&self, table: ModeTable, description: Option<RunningDescription>) {
        let mut inner = self.inner();
        inner.loaded.table = table;
        inner.loaded.description = description;
        inner.is_behind = true;
    }

    /// Nothing is to be made again from here on.
    pub fn remove(&self) {
        let mut inner = self.inner();
        inner.is_removed = true;
        inner.file = None;
        remove_file(&inner.path);
    }
}

impl Journal for ModesJournal {
    fn note(&mut self, record: &Record) {
        let mut inner = self.inner();
        if inner.is_removed {
            return;
        }
        if let Err(error) = inner.write(record) {
            // What is not noted must not be half of the truth.
            note(format_args!(
                "{}: {error}; if the daemon dies, the modes are not made again",
                inner.path.display()
            ));
            inner.is_removed = true;
            inner.file = None;
            remove_file(&inner.path);
        }
    }
}

impl Inner {
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let begins_anew = self.is_behind || self.bytes > LONGEST;
        if matches!(record, Record::Holds { .. }) && begins_anew {
            return self.begin(line);
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Puts a new file in the place of the old one.
    fn begin(&mut self, state: Vec<u8>) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.loaded)?;
        text.push(b'\n');
        text.extend(state);
        let new = self.path.with_extension("state-new");
        remove_file(&new);
        let mut file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&new)?;
        file.write_all(&text)?;
        fs::rename(&new, &self.path)?;
        self.file = Some(file);
        self.bytes = text.len() as u64;
        self.is_behind = false;
        Ok(())
    }
}

fn remove_file(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            note(format_args!("{}: {error}", path.display()));
        }
        _ => {}
    }
}

/// Takes the journal of a state directory away.
pub fn forget(directory: &Path) {
    remove_file(&path_in(directory));
}

/// What a dead daemon left to be made again; nothing if it left nothing, or that is of another boot.
///
/// # Errors
/// Why what it left cannot be understood.
pub fn left(directory: &Path) -> Result<Option<(Loaded, Resumption)>, String> {
    let text = match fs::read(path_in(directory)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let boot = boot_id().map_err(|error| error.to_string())?;
    read(&text, &boot)
}

fn read(text: &[u8], boot: &str) -> Result<Option<(Loaded, Resumption)>, String> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    // A line without its end was being written when the daemon died; it was not acted on.
    let mut whole = std::iter::from_fn(|| lines.next().filter(|line| line.ends_with(b"\n")));
    let first = whole.next().ok_or("it is empty")?;
    let loaded: Loaded =
        serde_json::from_slice(first).map_err(|error| format!("line 1: {error}"))?;
    if loaded.format != FORMAT {
        return Err(format!("its format is {}, not {FORMAT}", loaded.format));
    }
    if loaded.boot != boot {
        return Ok(None);
    }
    let mut records = Vec::new();
    for (number, line) in whole.enumerate() {
        let record = serde_json::from_slice(line);
        records.push(record.map_err(|error| format!("line {}: {error}", number + 2))?);
    }
    let found = resumption(records, &loaded.table).ok_or("it names no state")?;
    Ok(Some((loaded, found)))
}

/// Counts a restart of the daemon at `now`; whether there were not too many already.
pub fn count_restart(directory: &Path, now: Instant) -> bool {
    let path = restarts_path(directory);
    // What cannot be read counts as none: the daemon is not known to have been restarted.
    let known = fs::read(&path).ok();
    let known = known.and_then(|text| serde_json::from_slice::<VecDeque<Instant>>(&text).ok());
    let (restarts, may) = restarted(known.unwrap_or_default(), now);
    let written = serde_json::to_vec(&restarts).map_err(io::Error::from);
    // Without a count there is no end to restarts.
    match written.and_then(|text| fs::write(&path, text)) {
        Ok(()) => may,
        Err(error) => {
            note(format_args!("{}: {error}", path.display()));
            false
        }
    }
}

/// The restarts that count, that of `now` among them if it may be one.
fn restarted(mut known: VecDeque<Instant>, now: Instant) -> (VecDeque<Instant>, bool) {
    known.retain(|at| *at <= now && now.saturating_since(*at) < RESTARTS_WITHIN);
    let may = known.len() < RESTARTS_MAX;
    if may {
        known.push_back(now);
    }
    (known, may)
}

/// The restarts are counted anew.
pub fn forget_restarts(directory: &Path) {
    remove_file(&restarts_path(directory));
}

#[cfg(test)]
mod tests;
