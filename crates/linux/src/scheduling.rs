//! SchedulingSetting policies and affinity of threads, our own and others'.

use std::collections::BTreeSet;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::system_call::check;

/// SCHED_FLAG_RESET_ON_FORK: children start as SCHED_OTHER.
pub const RESET_ON_FORK: u64 = 0x01;

const SCHED_OTHER: u32 = 0;
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
const SCHED_DEADLINE: u32 = 6;
const SCHED_EXT: u32 = 7;

/// A thread's scheduling policy with its parameters (sched_setattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum SchedulingSetting {
    /// SCHED_OTHER; also told of SCHED_EXT, which threads enter by themselves.
    Other {
        /// The nice value, -20 to 19.
        nice: i8,
    },
    /// SCHED_BATCH.
    Batch {
        /// The nice value, -20 to 19.
        nice: i8,
    },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO.
    Fifo {
        /// 1 to 99.
        priority: u8,
        /// Whether children start as SCHED_OTHER.
        reset_on_fork: bool,
    },
    /// SCHED_RR.
    RoundRobin {
        /// 1 to 99.
        priority: u8,
        /// Whether children start as SCHED_OTHER.
        reset_on_fork: bool,
    },
    /// SCHED_DEADLINE, in nanoseconds.
    Deadline {
        /// sched_runtime.
        runtime_ns: u64,
        /// sched_deadline.
        deadline_ns: u64,
        /// sched_period.
        period_ns: u64,
        /// Flags as the kernel numbers them, such as [`RESET_ON_FORK`].
        flags: u64,
    },
}

impl fmt::Display for SchedulingSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reset = |reset: bool| if reset { " flags=RESET_ON_FORK" } else { "" };
        match *self {
            Self::Other { nice } => write!(out, "{{policy=SCHED_OTHER nice={nice}}}"),
            Self::Batch { nice } => write!(out, "{{policy=SCHED_BATCH nice={nice}}}"),
            Self::Idle => write!(out, "{{policy=SCHED_IDLE}}"),
            Self::Fifo {
                priority,
                reset_on_fork,
            } => write!(
                out,
                "{{policy=SCHED_FIFO priority={priority}{}}}",
                reset(reset_on_fork)
            ),
            Self::RoundRobin {
                priority,
                reset_on_fork,
            } => write!(
                out,
                "{{policy=SCHED_RR priority={priority}{}}}",
                reset(reset_on_fork)
            ),
            Self::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            } => write!(
                out,
                "{{policy=SCHED_DEADLINE runtime={runtime_ns} deadline={deadline_ns} period={period_ns}{}}}",
                reset(flags & RESET_ON_FORK != 0)
            ),
        }
    }
}

/// `struct sched_attr` of linux/sched/types.h, in its first published size of 48 bytes, which
/// every kernel with sched_setattr takes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl From<SchedulingSetting> for SchedAttr {
    fn from(setting: SchedulingSetting) -> Self {
        let flags = |reset| if reset { RESET_ON_FORK } else { 0 };
        let base = Self {
            size: size_of::<Self>() as u32,
            ..Self::default()
        };
        match setting {
            SchedulingSetting::Other { nice } => Self {
                policy: SCHED_OTHER,
                nice: nice.into(),
                ..base
            },
            SchedulingSetting::Batch { nice } => Self {
                policy: SCHED_BATCH,
                nice: nice.into(),
                ..base
            },
            SchedulingSetting::Idle => Self {
                policy: SCHED_IDLE,
                ..base
            },
            SchedulingSetting::Fifo {
                priority,
                reset_on_fork,
            } => Self {
                policy: SCHED_FIFO,
                priority: priority.into(),
                flags: flags(reset_on_fork),
                ..base
            },
            SchedulingSetting::RoundRobin {
                priority,
                reset_on_fork,
            } => Self {
                policy: SCHED_RR,
                priority: priority.into(),
                flags: flags(reset_on_fork),
                ..base
            },
            SchedulingSetting::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
                flags,
            } => Self {
                policy: SCHED_DEADLINE,
                flags,
                runtime: runtime_ns,
                deadline: deadline_ns,
                period: period_ns,
                ..base
            },
        }
    }
}

impl SchedAttr {
    fn setting(self) -> io::Result<SchedulingSetting> {
        let reset_on_fork = self.flags & RESET_ON_FORK != 0;
        let nice = self.nice.clamp(-20, 19) as i8;
        let priority = self.priority.min(99) as u8;
        Ok(match self.policy {
            SCHED_OTHER | SCHED_EXT => SchedulingSetting::Other { nice },
            SCHED_BATCH => SchedulingSetting::Batch { nice },
            SCHED_IDLE => SchedulingSetting::Idle,
            SCHED_FIFO => SchedulingSetting::Fifo {
                priority,
                reset_on_fork,
            },
            SCHED_RR => SchedulingSetting::RoundRobin {
                priority,
                reset_on_fork,
            },
            SCHED_DEADLINE => SchedulingSetting::Deadline {
                runtime_ns: self.runtime,
                deadline_ns: self.deadline,
                period_ns: self.period,
                flags: self.flags,
            },
            other => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("scheduling policy {other} is not known"),
                ));
            }
        })
    }
}

/// No such thread, as the kind of error that the rest of Tailbound looks for.
fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => io::Error::new(io::ErrorKind::NotFound, "no such thread"),
        _ => error,
    }
}

fn positive(tid: u32) -> io::Result<libc::pid_t> {
    // 0 would mean ourselves, and numbers beyond i32 no thread.
    match libc::pid_t::try_from(tid) {
        Ok(tid) if tid > 0 => Ok(tid),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such thread")),
    }
}

/// The policy of thread `tid`.
///
/// # Errors
/// `NotFound` if it has gone; else what sched_getattr says.
pub fn scheduling_of(tid: u32) -> io::Result<SchedulingSetting> {
    let tid = positive(tid)?;
    let mut attributes = SchedAttr::default();
    // SAFETY: the kernel writes at most the size passed, which is that of `attributes`.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            tid,
            &mut attributes as *mut SchedAttr,
            size_of::<SchedAttr>() as u32,
            0_u32,
        )
    };
    check(outcome).map_err(gone)?;
    attributes.setting()
}

/// Sets the policy of thread `tid`.
///
/// # Errors
/// `NotFound` if it has gone; else what sched_setattr says: `PermissionDenied` (EPERM) also where
/// the affinity of a SCHED_DEADLINE thread is narrower than its root domain, `ResourceBusy`
/// (EBUSY) where SCHED_DEADLINE bandwidth is used up.
pub fn set_scheduling(tid: u32, setting: SchedulingSetting) -> io::Result<()> {
    let tid = positive(tid)?;
    let attributes = SchedAttr::from(setting);
    // SAFETY: the kernel reads `attributes.size` bytes, the size of `attributes`.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            tid,
            &attributes as *const SchedAttr,
            0_u32,
        )
    };
    check(outcome).map(drop).map_err(gone)
}

/// Words of a CPU mask: enough for 8192 CPUs, the most that Linux can be built for on x86-64.
const MASK_WORDS: usize = 128;

/// The CPUs that thread `tid` may run on.
///
/// # Errors
/// `NotFound` if it has gone; else what sched_getaffinity says.
pub fn affinity_of(tid: u32) -> io::Result<BTreeSet<u32>> {
    let tid = positive(tid)?;
    let mut mask = [0_u64; MASK_WORDS];
    // SAFETY: the kernel writes at most the length passed, which is that of `mask`.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            tid,
            size_of_val(&mask),
            mask.as_mut_ptr(),
        )
    };
    check(outcome).map_err(gone)?;
    let cpus = (0..MASK_WORDS as u32 * 64)
        .filter(|cpu| mask[(cpu / 64) as usize] & (1 << (cpu % 64)) != 0);
    Ok(cpus.collect())
}

/// Sets the CPUs that thread `tid` may run on.
///
/// # Errors
/// `NotFound` if it has gone, `InvalidInput` if none of `cpus` may be used; else what
/// sched_setaffinity says.
pub fn set_affinity(tid: u32, cpus: &BTreeSet<u32>) -> io::Result<()> {
    set_mask(positive(tid)?, &mask_of(cpus)?).map_err(gone)
}

/// CPUs as the kernel takes them.
pub(crate) type CpuMask = [u64; MASK_WORDS];

/// The mask of CPUs.
///
/// # Errors
/// `InvalidInput` if no kernel has one of them.
pub(crate) fn mask_of(cpus: &BTreeSet<u32>) -> io::Result<CpuMask> {
    let mut mask = [0; MASK_WORDS];
    for &cpu in cpus {
        let word = mask.get_mut((cpu / 64) as usize).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("no CPU {cpu} exists"))
        })?;
        *word |= 1 << (cpu % 64);
    }
    Ok(mask)
}

/// Sets the CPUs of a thread, 0 for the calling one; allocates nothing.
pub(crate) fn set_mask(tid: libc::pid_t, mask: &CpuMask) -> io::Result<()> {
    // SAFETY: the kernel reads at most the length passed, which is that of `mask`.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            tid,
            size_of_val(mask),
            mask.as_ptr(),
        )
    };
    check(outcome).map(drop)
}

/// Reads a list of CPUs as the kernel prints it, such as `0-3,8`.
///
/// # Errors
/// What is not such a list.
pub fn parse_cpu_list(text: &str) -> Result<BTreeSet<u32>, String> {
    let number = |part: &str| {
        let cpu: u32 = part
            .trim()
            .parse()
            .map_err(|_| format!("\"{part}\" is no CPU number"))?;
        if cpu as usize >= MASK_WORDS * 64 {
            return Err(format!("no CPU {cpu} exists"));
        }
        Ok(cpu)
    };
    let mut cpus = BTreeSet::new();
    for part in text
        .trim()
        .split(',')
        .filter(|part| !part.trim().is_empty())
    {
        match part.split_once('-') {
            Some((first, last)) => cpus.extend(number(first)?..=number(last)?),
            None => _ = cpus.insert(number(part)?),
        }
    }
    Ok(cpus)
}

/// Prints a set of CPUs as the kernel does: `0-3,8`.
pub fn format_cpu_list(cpus: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus.into_iter().collect::<BTreeSet<_>>() {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_our_own_settings() {
        let own = std::process::id();
        assert!(matches!(
            scheduling_of(own).unwrap(),
            SchedulingSetting::Other { .. }
                | SchedulingSetting::Batch { .. }
                | SchedulingSetting::Idle
        ));
        assert!(!affinity_of(own).unwrap().is_empty());
    }

    #[test]
    fn setting_the_affinity_that_is_there_changes_nothing() {
        let own = crate::process::own_thread();
        let before = affinity_of(own).unwrap();
        set_affinity(own, &before).unwrap();
        assert_eq!(affinity_of(own).unwrap(), before);
    }

    #[test]
    fn nobody_is_not_found() {
        for tid in [0, u32::MAX, i32::MAX as u32] {
            let kind = scheduling_of(tid).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::NotFound, "{tid}");
            assert_eq!(
                affinity_of(tid).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
        }
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpu_list("0-3,8\n"), Ok([0, 1, 2, 3, 8].into()));
        assert_eq!(parse_cpu_list(""), Ok(BTreeSet::new()));
        assert!(parse_cpu_list("0-99999999").is_err());
        assert!(parse_cpu_list("one").is_err());
    }

    proptest! {
        #[test]
        fn settings_survive_the_kernel_structure(
            runtime_ns: u64, deadline_ns: u64, period_ns: u64, flags: u64,
            priority in 1_u8..=99, reset_on_fork: bool, nice in -20_i8..=19,
        ) {
            let settings = [
                SchedulingSetting::Other { nice },
                SchedulingSetting::Batch { nice },
                SchedulingSetting::Idle,
                SchedulingSetting::Fifo { priority, reset_on_fork },
                SchedulingSetting::RoundRobin { priority, reset_on_fork },
                SchedulingSetting::Deadline { runtime_ns, deadline_ns, period_ns, flags },
            ];
            for setting in settings {
                prop_assert_eq!(SchedAttr::from(setting).setting().unwrap(), setting);
            }
        }

        #[test]
        fn cpu_lists_round_trip(cpus in proptest::collection::btree_set(0_u32..8192, 0..40)) {
            prop_assert_eq!(parse_cpu_list(&format_cpu_list(cpus.clone())), Ok(cpus));
        }

        #[test]
        fn no_cpu_list_panics(text in "[-0-9, a\\n]{0,30}") {
            let _outcome = parse_cpu_list(&text);
        }
    }
}
