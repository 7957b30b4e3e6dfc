//! Triggers of this process, switched by name.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::event_sink;
use crate::pattern::fits;
use crate::site::Callback;
use crate::site_table::{SiteCopy, site_copies};
use crate::text_patch::{patch, synchronize_threads};

/// The reason why nothing was switched.
#[derive(Debug)]
pub enum TriggerError {
    /// No trigger of the program fits the pattern.
    NoTrigger(String),
    /// The text of the program cannot be changed.
    Patch {
        /// The trigger.
        name: String,
        /// The kernel's refusal.
        source: io::Error,
    },
}

impl fmt::Display for TriggerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrigger(pattern) => write!(out, "no trigger of the program fits \"{pattern}\""),
            Self::Patch { name, source } => write!(
                out,
                "trigger \"{name}\" cannot be switched, since the text of the program cannot be changed ({source}); \
                 build the program with the feature `atomic`, in C with TAILBOUND_TRIGGER_ATOMIC"
            ),
        }
    }
}

impl std::error::Error for TriggerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoTrigger(_) => None,
            Self::Patch { source, .. } => Some(source),
        }
    }
}

/// A trigger and whether it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerState {
    /// The name.
    pub name: String,
    /// Whether it is on.
    pub is_enabled: bool,
    /// Its copies in the text: places of the source, and what the compiler made of them.
    pub copies: usize,
}

/// The numbers of triggers by name, from 1, which stay for the life of the process. The lock orders switches.
static NUMBERS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

fn numbers() -> MutexGuard<'static, BTreeMap<String, u32>> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The triggers of the program and of its libraries, by name.
pub fn triggers() -> Vec<TriggerState> {
    let _order = numbers();
    let mut states: BTreeMap<&str, (bool, usize)> = BTreeMap::new();
    for copy in site_copies() {
        let state = states.entry(copy.site.name()).or_default();
        *state = (copy.site.is_enabled(), state.1 + 1);
    }
    let states = states.into_iter();
    let states = states.map(|(name, (is_enabled, copies))| TriggerState {
        name: name.into(),
        is_enabled,
        copies,
    });
    states.collect()
}

/// Switches every trigger on that fits `pattern`, in which `*` stands for any characters: their events go to the
/// recording, if there is one. Returns the number of names.
///
/// When it returns, no thread runs the text from before. A library with triggers that are on may not be unloaded.
///
/// # Errors
/// [`TriggerError`]; then every trigger is as it was.
pub fn enable(pattern: &str) -> Result<usize, TriggerError> {
    switch_on(pattern, event_sink::record)
}

/// Switches every trigger on that fits `pattern`, and has them call `callback` in place of recording.
///
/// # Errors
/// As [`enable`].
pub fn call(pattern: &str, callback: Callback) -> Result<usize, TriggerError> {
    switch_on(pattern, callback)
}

/// Switches every trigger off that fits `pattern`; returns the number of names. A thread that is in the middle of a
/// trigger finishes it.
///
/// # Errors
/// As [`enable`].
pub fn disable(pattern: &str) -> Result<usize, TriggerError> {
    let _order = numbers();
    let copies = fitting(pattern)?;
    set(&copies, false)?;
    Ok(names(&copies))
}

fn switch_on(pattern: &str, callback: Callback) -> Result<usize, TriggerError> {
    let mut numbers = numbers();
    let copies = fitting(pattern)?;
    for copy in &copies {
        let name = copy.site.name();
        let next = numbers.len() as u32 + 1;
        let number = *numbers.entry(name.into()).or_insert(next);
        event_sink::enter_name(number, name);
        copy.site.prepare(number, callback);
    }
    set(&copies, true)?;
    Ok(names(&copies))
}

fn fitting(pattern: &str) -> Result<Vec<SiteCopy>, TriggerError> {
    let mut copies = site_copies();
    copies.retain(|copy| fits(pattern, copy.site.name()));
    if copies.is_empty() {
        return Err(TriggerError::NoTrigger(pattern.into()));
    }
    Ok(copies)
}

fn names(copies: &[SiteCopy]) -> usize {
    let mut names: Vec<&str> = copies.iter().map(|copy| copy.site.name()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// Switches copies, all or none.
fn set(copies: &[SiteCopy], is_enabled: bool) -> Result<(), TriggerError> {
    for (place, copy) in copies.iter().enumerate() {
        let was_enabled = copy.site.is_enabled();
        if let Some(jump) = copy.jump
            && let Err(source) = patch(jump, is_enabled)
        {
            for undone in copies[..place].iter().filter_map(|it| it.jump) {
                // The patch before has changed the same byte, so this one can.
                let _ = patch(undone, was_enabled);
            }
            return Err(TriggerError::Patch {
                name: copy.site.name().into(),
                source,
            });
        }
    }
    for copy in copies {
        copy.site.set_enabled(is_enabled);
    }
    synchronize_threads();
    Ok(())
}

/// Begins to record the events of triggers that are on into `file`, which
/// [`RecordingLayout`](crate::layout::RecordingLayout) prepared. The memory of the recording before goes back to the
/// system, so that its reader has to be done with it.
///
/// # Errors
/// `AlreadyExists` while a recording is under way, `InvalidData` for a file that is no recording, otherwise what the
/// kernel says.
pub fn record_into(file: &File) -> io::Result<()> {
    let numbers = numbers();
    event_sink::begin(file)?;
    for (name, number) in &*numbers {
        event_sink::enter_name(*number, name);
    }
    Ok(())
}

/// Ends the recording. Triggers stay on.
pub fn stop() {
    event_sink::end();
}
