//! The journal of the modes, in the state directory: what is to be made again if the daemon dies.
//!
//! A file of lines of JSON: first what was loaded, then the steps of mode changes, each written before
//! it is done. Nothing waits for a disk: nothing of ours outlives the boot. The death of a process
//! loses no write that has returned, and cuts at most the last line, which is not read then.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use tailbound_enforcement::{EnforcementStatus, HostInterference, ReservationRequest, Target};
use tailbound_linux::process::boot_id;
use tailbound_model::{BackendKind, BackendOptions};
use tailbound_modes::control::RunningDescription;
use tailbound_modes::manager::journal::{Resumption, resumption};
use tailbound_modes::manager::{State, StepJournal, StepRecord};
use tailbound_modes::table::ModeTable;
use tailbound_subsystem::process_identity::{StartTimes, is_same, numbers_of};
use tailbound_time::{Duration, Instant};
use tracing::warn;

use crate::lock;

/// The version of the format.
const FORMAT: u32 = 2;
/// The file is written anew, without old steps, when it is longer.
const LONGEST: u64 = 256 * 1024;
/// So many restarts within [`RESTARTS_WITHIN`] are enough.
pub const RESTARTS_MAX: usize = 3;
/// And so many since the modes were loaded, for a daemon that dies again and again, but slowly.
pub const RESTARTS_IN_ALL_MAX: u32 = 10;
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
    #[serde(default, skip_serializing_if = "BackendOptions::is_empty")]
    options: BackendOptions,
    #[serde(default, skip_serializing_if = "HostInterference::is_empty")]
    interference: HostInterference,
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

impl Loaded {
    /// What is enforced of a table, for processes that were started then.
    ///
    /// # Errors
    /// If the kernel does not name its boot.
    pub fn new(
        table: ModeTable,
        standing: &EnforcementStatus,
        started: &StartTimes,
        description: Option<RunningDescription>,
        exit_when_idle: Option<Duration>,
    ) -> io::Result<Self> {
        let domains = standing.domains.iter().map(|one| {
            let applied = Applied {
                target: one.target.clone(),
                backend: one.backend,
                options: one.options,
                interference: one.interference.clone(),
                started: started.get(&one.domain).cloned().unwrap_or_default(),
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
            let numbers = numbers_of(&applied.target);
            let mut gone = numbers
                .iter()
                .filter(|pid| !is_same(**pid, &applied.started));
            if let Some(pid) = gone.next() {
                let (domain, pid) = (domain.clone(), *pid);
                return Err(Unresumable::Gone { domain, pid });
            }
            requests.push(ReservationRequest {
                domain: domain.clone(),
                target: applied.target.clone(),
                interface: held.interface.interface.clone(),
                backend: applied.backend,
                options: applied.options,
                interference: applied.interference.clone(),
            });
        }
        Ok(requests)
    }
}

impl Loaded {
    /// When the processes of the domains were started.
    pub fn start_times(&self) -> StartTimes {
        let domains = self.domains.iter();
        let starts = domains.map(|(domain, applied)| (domain.clone(), applied.started.clone()));
        starts.collect()
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
        lock(&self.0)
    }

    /// Other modes are loaded; the file follows with the next state.
    pub fn set_modes(&self, table: ModeTable, description: Option<RunningDescription>) {
        let mut inner = self.inner();
        inner.loaded.table = table;
        inner.loaded.description = description;
        inner.is_behind = true;
    }

    /// Nothing is to be made again, until [`ModesJournal::put_back`] says otherwise. What happens meanwhile
    /// is noted.
    pub fn put_aside(&self) {
        self.inner()
            .go_to(|path| path.with_extension("state-aside"));
    }

    /// What is noted is to be made again after all.
    pub fn put_back(&self) {
        self.inner().go_to(|path| path.with_extension("state"));
    }

    /// Nothing is to be made again from here on.
    pub fn remove(&self) {
        let mut inner = self.inner();
        inner.is_removed = true;
        inner.file = None;
        remove_file(&inner.path);
    }
}

impl StepJournal for ModesJournal {
    fn note(&mut self, record: &StepRecord) {
        let mut inner = self.inner();
        if inner.is_removed {
            return;
        }
        if let Err(error) = inner.write(record) {
            inner.give_up(&error);
        }
    }
}

impl Inner {
    /// What is not noted must not be half of the truth.
    fn give_up(&mut self, error: &io::Error) {
        warn!(
            "{}: {error}; if the daemon dies, the modes are not made again",
            self.path.display()
        );
        self.is_removed = true;
        self.file = None;
        remove_file(&self.path);
    }

    /// Has the file elsewhere.
    fn go_to(&mut self, place: impl FnOnce(&Path) -> PathBuf) {
        let new = place(&self.path);
        if self.file.is_some()
            && let Err(error) = fs::rename(&self.path, &new)
        {
            return self.give_up(&error);
        }
        self.path = new;
    }

    fn write(&mut self, record: &StepRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if matches!(record, StepRecord::Holds { .. }) && (self.is_behind || self.bytes > LONGEST) {
            let begun = self.begin(&line);
            if self.is_behind || begun.is_ok() {
                return begun;
            }
            // There is no room for two files; the long one says the same.
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Puts a new file in the place of the old one.
    fn begin(&mut self, state: &[u8]) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.loaded)?;
        text.push(b'\n');
        text.extend(state);
        let new = self.path.with_extension("state-new");
        let file = write_anew(&new, &text).and_then(|file| {
            fs::rename(&new, &self.path)?;
            Ok(file)
        });
        if file.is_err() {
            remove_file(&new);
        }
        assert!(state.ends_with(b"\n"), "a journal is read by whole lines");
        self.file = Some(file?);
        self.bytes = text.len() as u64;
        self.is_behind = false;
        Ok(())
    }
}

/// A file of this text alone, to be appended to.
fn write_anew(path: &Path, text: &[u8]) -> io::Result<File> {
    remove_file(path);
    let mut options = OpenOptions::new();
    let options = options.create_new(true).append(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    Ok(file)
}

fn remove_file(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!("{}: {error}", path.display());
        }
        _ => {}
    }
}

/// Takes the journal of a state directory away.
pub fn forget(directory: &Path) {
    remove_file(&path_in(directory));
    // A daemon died while it took them back.
    remove_file(&path_in(directory).with_extension("state-aside"));
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
    let resumption = resumption(records, &loaded.table).ok_or("it names no state")?;
    Ok(Some((loaded, resumption)))
}

/// The restarts of a daemon since its modes were loaded.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Restarts {
    in_all: u32,
    recent: VecDeque<Instant>,
}

/// Counts a restart of the daemon at `now`; whether there were not too many already.
pub fn count_restart(directory: &Path, now: Instant) -> bool {
    let path = restarts_path(directory);
    let counted = read_restarts(&path).and_then(|mut restarts| {
        let may = restarts.count(now);
        write_restarts(&path, &restarts).map(|()| may)
    });
    // Without a count there is no end to restarts.
    counted.unwrap_or_else(|error| {
        warn!("{}: {error}", path.display());
        false
    })
}

fn read_restarts(path: &Path) -> io::Result<Restarts> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Restarts::default()),
        Err(error) => Err(error),
    }
}

/// In one step, so that a daemon that dies meanwhile leaves one count or the other.
fn write_restarts(path: &Path, restarts: &Restarts) -> io::Result<()> {
    let new = path.with_extension("restarts-new");
    let written = write_anew(&new, &serde_json::to_vec(restarts)?);
    let renamed = written.and_then(|_| fs::rename(&new, path));
    if renamed.is_err() {
        remove_file(&new);
    }
    renamed
}

impl Restarts {
    /// Counts one at `now`, if it may be one.
    fn count(&mut self, now: Instant) -> bool {
        let is_recent = |at: &Instant| *at <= now && now.saturating_since(*at) < RESTARTS_WITHIN;
        self.recent.retain(is_recent);
        let may = self.recent.len() < RESTARTS_MAX && self.in_all < RESTARTS_IN_ALL_MAX;
        if may {
            self.recent.push_back(now);
            self.in_all += 1;
        }
        may
    }
}

/// The restarts are counted anew.
pub fn forget_restarts(directory: &Path) {
    remove_file(&restarts_path(directory));
}

#[cfg(test)]
mod tests;
