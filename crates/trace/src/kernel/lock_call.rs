//! Functions of the kernel that take and give up locks, and the probes of them (kprobes).
//!
//! A probe's name says all that its event means, so that a recording is read without a table of its own:
//! `tb_request_mutex_mutex_lock` is a call of `mutex_lock`, and `tb_taken_spin__raw_spin_trylock` a return of
//! `_raw_spin_trylock`, which has the lock where the result is not zero.

use serde::Serialize;

/// The kind of a lock, and how it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A read-write lock, shared.
    Read,
    /// A read-write lock, exclusively.
    Write,
    /// A spin lock.
    Spin,
}

impl LockKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Mutex, Self::Read, Self::Write, Self::Spin];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read lock",
            Self::Write => "write lock",
            Self::Spin => "spin lock",
        }
    }

    /// Its name in a probe's.
    fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
            Self::Spin => "spin",
        }
    }
}

/// The result by which a function says that it took the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockResult {
    /// Anything but zero, as attempts have it.
    NonZero,
    /// Zero, as requests have it that a signal may end.
    Zero,
}

/// The step of a lock that a probe sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStep {
    /// A call that returns with the lock.
    Request,
    /// A call whose result says whether it took the lock.
    Attempt,
    /// The return of an attempt.
    Outcome {
        /// Whether the lock was taken.
        is_taken: bool,
    },
    /// A call that gives the lock up.
    Release,
}

/// The context that the kernel runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionContext {
    /// A thread.
    Thread,
    /// A softirq on top of a thread.
    SoftInterrupt,
    /// An interrupt on top of both.
    HardInterrupt,
    /// An interrupt that cannot be held off.
    Unmaskable,
}

impl ExecutionContext {
    /// The context of an event by its common flags (`TRACE_FLAG_` of the kernel).
    pub(crate) fn of_flags(flags: u8) -> Self {
        match flags {
            _ if flags & 0x40 != 0 => Self::Unmaskable,
            _ if flags & 0x08 != 0 => Self::HardInterrupt,
            _ if flags & 0x10 != 0 => Self::SoftInterrupt,
            _ => Self::Thread,
        }
    }
}

/// A step of a lock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCall {
    /// The step.
    pub step: LockStep,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The address of the lock; 0 at the return of an attempt.
    pub lock: u64,
    /// The address behind the call; 0 at the return of an attempt.
    pub caller: u64,
    /// The context of the call.
    pub context: ExecutionContext,
}

/// A function of the kernel that takes a lock or gives it up. Its first argument is the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockFunction {
    /// The name of the function.
    pub name: &'static str,
    kind: LockKind,
    role: LockRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockRole {
    Requests,
    Attempts(LockResult),
    Releases,
}

impl LockFunction {
    const fn requests(kind: LockKind, name: &'static str) -> Self {
        let role = LockRole::Requests;
        Self { name, kind, role }
    }

    const fn attempts(kind: LockKind, name: &'static str) -> Self {
        let role = LockRole::Attempts(LockResult::NonZero);
        Self { name, kind, role }
    }

    const fn may_fail(kind: LockKind, name: &'static str) -> Self {
        let role = LockRole::Attempts(LockResult::Zero);
        Self { name, kind, role }
    }

    const fn releases(kind: LockKind, name: &'static str) -> Self {
        let role = LockRole::Releases;
        Self { name, kind, role }
    }

    /// The probes of the function: their names, and whether each is of the return. Of two, the later one sees a call
    /// first: that of the call, before that of the return puts an address of its own behind the call.
    pub fn probes(&self) -> Vec<(String, bool)> {
        let name = |step: &str| format!("{PROBE_PREFIX}{step}_{}_{}", self.kind.word(), self.name);
        match self.role {
            LockRole::Requests => vec![(name("request"), false)],
            LockRole::Releases => vec![(name("release"), false)],
            LockRole::Attempts(LockResult::NonZero) => {
                vec![(name("taken"), true), (name("attempt"), false)]
            }
            LockRole::Attempts(LockResult::Zero) => {
                vec![(name("zero"), true), (name("attempt"), false)]
            }
        }
    }
}

/// The beginning of the names of probes of locks.
const PROBE_PREFIX: &str = "tb_";

/// What the event of a probe says, by the probe's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockProbe {
    /// A call.
    Call(LockStep, LockKind),
    /// The return of an attempt.
    Return(LockResult, LockKind),
}

impl LockProbe {
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix(PROBE_PREFIX)?.splitn(3, '_');
        let (step, kind, _function) = (words.next()?, words.next()?, words.next()?);
        let kind = LockKind::ALL.into_iter().find(|it| it.word() == kind)?;
        Some(match step {
            "request" => Self::Call(LockStep::Request, kind),
            "attempt" => Self::Call(LockStep::Attempt, kind),
            "release" => Self::Call(LockStep::Release, kind),
            "taken" => Self::Return(LockResult::NonZero, kind),
            "zero" => Self::Return(LockResult::Zero, kind),
            _ => return None,
        })
    }
}

/// The functions of mutexes, read-write semaphores, spin locks and read-write spin locks that are calls. Where the
/// kernel was built to have some of them within their callers, those are not seen.
pub const LOCK_FUNCTIONS: [LockFunction; 46] = {
    use LockFunction as F;
    use LockKind::{Mutex, Read, Spin, Write};
    [
        F::requests(Mutex, "mutex_lock"),
        F::requests(Mutex, "mutex_lock_io"),
        F::may_fail(Mutex, "mutex_lock_interruptible"),
        F::may_fail(Mutex, "mutex_lock_killable"),
        F::attempts(Mutex, "mutex_trylock"),
        F::releases(Mutex, "mutex_unlock"),
        F::requests(Mutex, "rt_mutex_lock"),
        F::attempts(Mutex, "rt_mutex_trylock"),
        F::releases(Mutex, "rt_mutex_unlock"),
        F::requests(Read, "down_read"),
        F::may_fail(Read, "down_read_interruptible"),
        F::may_fail(Read, "down_read_killable"),
        F::attempts(Read, "down_read_trylock"),
        F::releases(Read, "up_read"),
        F::requests(Write, "down_write"),
        F::may_fail(Write, "down_write_killable"),
        F::attempts(Write, "down_write_trylock"),
        F::releases(Write, "up_write"),
        F::requests(Spin, "_raw_spin_lock"),
        F::requests(Spin, "_raw_spin_lock_bh"),
        F::requests(Spin, "_raw_spin_lock_irq"),
        F::requests(Spin, "_raw_spin_lock_irqsave"),
        F::attempts(Spin, "_raw_spin_trylock"),
        F::attempts(Spin, "_raw_spin_trylock_bh"),
        F::releases(Spin, "_raw_spin_unlock"),
        F::releases(Spin, "_raw_spin_unlock_bh"),
        F::releases(Spin, "_raw_spin_unlock_irq"),
        F::releases(Spin, "_raw_spin_unlock_irqrestore"),
        F::requests(Read, "_raw_read_lock"),
        F::requests(Read, "_raw_read_lock_bh"),
        F::requests(Read, "_raw_read_lock_irq"),
        F::requests(Read, "_raw_read_lock_irqsave"),
        F::attempts(Read, "_raw_read_trylock"),
        F::releases(Read, "_raw_read_unlock"),
        F::releases(Read, "_raw_read_unlock_bh"),
        F::releases(Read, "_raw_read_unlock_irq"),
        F::releases(Read, "_raw_read_unlock_irqrestore"),
        F::requests(Write, "_raw_write_lock"),
        F::requests(Write, "_raw_write_lock_bh"),
        F::requests(Write, "_raw_write_lock_irq"),
        F::requests(Write, "_raw_write_lock_irqsave"),
        F::attempts(Write, "_raw_write_trylock"),
        F::releases(Write, "_raw_write_unlock"),
        F::releases(Write, "_raw_write_unlock_bh"),
        F::releases(Write, "_raw_write_unlock_irq"),
        F::releases(Write, "_raw_write_unlock_irqrestore"),
    ]
};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The longest name of an event of the kernel (MAX_EVENT_NAME_LEN), with the zero.
    const LONGEST_NAME: usize = 64;

    #[test]
    fn the_name_of_every_probe_says_what_its_event_means() {
        let mut names = std::collections::BTreeSet::new();
        for function in LOCK_FUNCTIONS {
            for (name, is_return) in function.probes() {
                assert!(name.len() < LONGEST_NAME, "{name}");
                let probe = LockProbe::of_name(&name).unwrap();
                let (LockProbe::Call(_, kind) | LockProbe::Return(_, kind)) = probe;
                assert_eq!(kind, function.kind, "{name}");
                assert_eq!(matches!(probe, LockProbe::Return(..)), is_return, "{name}");
                assert!(names.insert(name));
            }
        }
        let step = |name| LockProbe::of_name(name);
        let unlock = LockProbe::Call(LockStep::Release, LockKind::Mutex);
        assert_eq!(step("tb_release_mutex_mutex_unlock"), Some(unlock));
        let attempt = LockProbe::Return(LockResult::NonZero, LockKind::Spin);
        assert_eq!(step("tb_taken_spin__raw_spin_trylock"), Some(attempt));
        for other in [
            "sched_switch",
            "tb_",
            "tb_request_mutex",
            "tb_request_seq_lock",
            "tb_ends_mutex_lock",
        ] {
            assert_eq!(step(other), None, "{other}");
        }
    }
}
