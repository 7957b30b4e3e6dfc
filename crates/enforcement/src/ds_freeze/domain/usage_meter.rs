//! The CPU time that a domain has used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tailbound_linux::perf::CgroupAlarm;
use tailbound_time::Duration;

use super::{ServedDomain, open_control};
use crate::ds_freeze::error::ManagerError;

/// So much CPU time is in nobody's way: the counters of CPUs are read, and never wait for it.
const NEVER_USED: Duration = Duration::from_secs(1 << 31);

/// The CPU time that a domain has used since it was taken up, as `cpu.stat` of its cgroup and, where several CPUs
/// share a budget, counters of each CPU tell it.
///
/// The kernel brings `cpu.stat` up to date for the CPU of the reader only, for others at their ticks. A counter is
/// asked for on its own CPU, so that it is exact; but it does not see threads that left the CPUs of the domain.
#[derive(Debug)]
pub(super) struct UsageMeter {
    file: File,
    base: Duration,
    /// One for each CPU, the manager's first; none where the manager's CPU is the only one.
    counters: Vec<CgroupAlarm>,
}

impl UsageMeter {
    /// The meter of a domain whose manager is on `cpu`.
    pub(super) fn open(domain: &ServedDomain, cpu: u32) -> Result<Self, ManagerError> {
        let mut counters = Vec::new();
        if !domain.other_cpus.is_empty() {
            let others = domain.other_cpus.iter().map(|other| other.0);
            for counted in std::iter::once(cpu).chain(others) {
                let counter = CgroupAlarm::open(&domain.cgroup, counted, NEVER_USED);
                counters.push(counter.map_err(|cause| ManagerError::Counter {
                    domain: domain.name.clone(),
                    cpu: counted,
                    cause,
                })?);
            }
        }
        let mut meter = Self {
            file: open_control(&domain.cgroup, "cpu.stat", false)?,
            base: Duration::ZERO,
            counters,
        };
        meter.base = meter.of_group().map_err(|cause| ManagerError::Cgroup {
            file: domain.cgroup.join("cpu.stat"),
            cause,
        })?;
        Ok(meter)
    }

    /// CPU time used since the domain was taken up (microsecond resolution).
    pub(super) fn used(&self) -> io::Result<Duration> {
        let of_group = self.of_group()?;
        let mut counted = Duration::ZERO;
        for counter in &self.counters {
            counted = counted.saturating_add(counter.used()?);
        }
        Ok(of_group.max(counted))
    }

    /// The part of it on the manager's CPU, where that is counted apart.
    pub(super) fn used_here(&self) -> Option<io::Result<Duration>> {
        self.counters.first().map(CgroupAlarm::used)
    }

    fn of_group(&self) -> io::Result<Duration> {
        let mut text = [0_u8; 96];
        let length = self.file.read_at(&mut text, 0)?;
        let total = parse_usage(&text[..length]).ok_or(io::ErrorKind::InvalidData)?;
        Ok(total.saturating_sub(self.base))
    }
}

/// The number in the first line of cpu.stat, `usage_usec N`.
fn parse_usage(text: &[u8]) -> Option<Duration> {
    let digits = text.strip_prefix(b"usage_usec ")?;
    let end = digits.iter().position(|byte| *byte == b'\n')?;
    let mut total: u64 = 0;
    for digit in digits.get(..end).filter(|number| !number.is_empty())? {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        total = total.checked_mul(10)?.checked_add(value)?;
    }
    Some(Duration::from_nanos(total.checked_mul(1_000)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_kernel_s_text() {
        let text = b"usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n";
        assert_eq!(parse_usage(text), Some(Duration::from_micros(1234)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..64)) {
            let _any = parse_usage(&text);
        }

        #[test]
        fn no_mutation_panics_or_invents(
            number in any::<u64>(), place in 0_usize..40, byte in any::<u8>(),
        ) {
            let mut text = format!("usage_usec {number}\nuser_usec 5\n").into_bytes();
            if let Some(target) = text.get_mut(place) {
                *target = byte;
            }
            let found = parse_usage(&text);
            if place < 10 && byte != b"usage_usec "[place] {
                prop_assert_eq!(found, None);
            }
        }
    }
}
