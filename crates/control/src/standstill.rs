//! What is found where a daemon does not answer: who stands still, and who takes everything back.

use std::fmt;

use tailbound_linux::process::{StoppedBy, children_of, state_letter, stopped_by, thread_name};
use tailbound_time::Duration;

/// Within which time a watchdog that works has taken everything back from a stopped daemon: a second until
/// the next look, a second of looks, and the recovery.
pub const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(10);
/// The name of daemon and watchdog in /proc.
const PROGRAM: &str = "tailboundd";

/// How a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessCondition {
    /// All its threads are stopped.
    Stopped(StoppedBy),
    /// In this state, as a letter of proc(5).
    State(char),
    /// It has ended, or is not visible.
    Unknown,
}

impl ProcessCondition {
    /// That of process `pid`.
    pub fn of(pid: u32) -> Self {
        match (stopped_by(pid), state_letter(pid)) {
            (Ok(Some(by)), _) => Self::Stopped(by),
            (_, Ok(letter)) => Self::State(letter),
            _ => Self::Unknown,
        }
    }

    /// Whether it goes on no more by itself.
    pub fn is_stopped(self) -> bool {
        matches!(self, Self::Stopped(_))
    }
}

impl fmt::Display for ProcessCondition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(StoppedBy::Signal) => {
                write!(out, "is stopped (state T: SIGSTOP or a debugger)")
            }
            Self::Stopped(StoppedBy::Debugger) => write!(out, "is stopped (state t: a debugger)"),
            Self::Stopped(StoppedBy::Freezer) => write!(out, "is stopped (its cgroup is frozen)"),
            Self::State('R') => write!(out, "runs or waits for a CPU (state R)"),
            Self::State('S') => write!(out, "waits for something (state S)"),
            Self::State('D') => write!(out, "waits in the kernel (state D)"),
            Self::State(letter) => write!(out, "is in state {letter}"),
            Self::Unknown => write!(out, "is not to be seen"),
        }
    }
}

/// A daemon that does not answer, and its watchdog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// The daemon's process; 0 if it is not visible.
    pub daemon: u32,
    /// How it is.
    pub condition: ProcessCondition,
    /// The watchdog's process and how it is, if there is one.
    pub watchdog: Option<(u32, ProcessCondition)>,
    /// How long it was waited for.
    pub limit: Duration,
}

impl Standstill {
    /// What is found of the daemon `daemon` after it was waited for so long.
    pub fn find(daemon: u32, limit: Duration) -> Self {
        let children = children_of(daemon).unwrap_or_default();
        let is_watchdog = |pid: &u32| thread_name(*pid).is_ok_and(|name| name == PROGRAM);
        let watchdog = children.into_iter().find(is_watchdog);
        Self {
            daemon,
            condition: ProcessCondition::of(daemon),
            watchdog: watchdog.map(|pid| (pid, ProcessCondition::of(pid))),
            limit,
        }
    }

    /// Whether nobody will take anything back by itself.
    pub fn is_for_good(&self) -> bool {
        let guarded = self
            .watchdog
            .is_some_and(|(_, condition)| !condition.is_stopped());
        self.condition.is_stopped() && !guarded
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            daemon,
            condition,
            limit,
            ..
        } = self;
        if !condition.is_stopped() {
            return write!(
                out,
                "tailboundd (process {daemon}) has not answered for {limit}: it {condition}; it may be busy \
                 with another request: try again, and see its log"
            );
        }
        write!(
            out,
            "tailboundd (process {daemon}) {condition} and has not answered for {limit}; "
        )?;
        match &self.watchdog {
            Some((pid, condition)) if !condition.is_stopped() => write!(
                out,
                "its watchdog (process {pid}) takes everything back within {TAKEN_BACK_WITHIN}"
            ),
            Some((pid, _)) => write!(
                out,
                "its watchdog (process {pid}) is stopped, too: `tailbound revert` ends both and takes \
                 everything back"
            ),
            None => write!(
                out,
                "it has no watchdog: `tailbound revert` ends it and takes everything back"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPPED: ProcessCondition = ProcessCondition::Stopped(StoppedBy::Signal);

    fn in_words(
        condition: ProcessCondition,
        watchdog: Option<(u32, ProcessCondition)>,
    ) -> (String, bool) {
        let standstill = Standstill {
            daemon: 4711,
            condition,
            watchdog,
            limit: Duration::from_secs(10),
        };
        (standstill.to_string(), standstill.is_for_good())
    }

    #[test]
    fn what_is_found_is_said_with_what_to_do() {
        let (text, for_good) = in_words(STOPPED, Some((4712, ProcessCondition::State('S'))));
        assert!(text.contains("process 4711) is stopped (state T"), "{text}");
        assert!(
            text.contains("4712) takes everything back within"),
            "{text}"
        );
        assert!(!for_good);
        let (text, for_good) = in_words(STOPPED, Some((4712, STOPPED)));
        assert!(text.contains("`tailbound revert` ends both"), "{text}");
        assert!(for_good);
        let (text, for_good) = in_words(STOPPED, None);
        assert!(text.contains("no watchdog"), "{text}");
        assert!(for_good);
        let (text, for_good) = in_words(ProcessCondition::State('R'), None);
        assert!(text.contains("waits for a CPU"), "{text}");
        assert!(!for_good);
    }
}
