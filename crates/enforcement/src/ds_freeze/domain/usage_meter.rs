//! The CPU time that a domain has used.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tailbound_linux::perf::CgroupAlarm;
use tailbound_time::Duration;

use super::{ServedDomain, open_control};
use crate::ds_freeze::error::ManagerError;

/// A CPU time that no domain reaches: the counters of CPUs are read, and never wait for it.
const NEVER_USED: Duration = Duration::from_secs(1 << 31);

/// The lead of `cpu.stat` over counters that is no sign of threads on other CPUs: it is behind by up to a
/// tick, and both round.
const TOLERANCE: Duration = Duration::from_millis(20);

/// The use after which the two are compared anew, since they drift apart.
const COMPARED_FOR: Duration = Duration::from_millis(200);

/// The CPU time that a domain has used since it was taken up, as `cpu.stat` of its cgroup tells it; where several CPUs
/// share a budget, as counters of each CPU do.
///
/// The kernel brings `cpu.stat` up to date for the CPU of the reader only, for others at their ticks. A counter is
/// asked for on its own CPU, so that it is exact; but it does not see threads that left the CPUs of the domain, which
/// `cpu.stat` does.
#[derive(Debug)]
pub(super) struct UsageMeter {
    file: File,
    base: Duration,
    /// One for each CPU, the manager's first; none where the manager's CPU is the only one.
    counters: Vec<CgroupAlarm>,
    escape: EscapedUse,
}

/// The use that counters did not see.
#[derive(Debug, Default)]
struct EscapedUse {
    /// The use by `cpu.stat` and by counters when they were last taken to agree.
    agreed: (Duration, Duration),
    total: Duration,
}

impl EscapedUse {
    /// Compares what both tell; all that counters did not see so far.
    fn total(&mut self, of_group: Duration, counted: Duration) -> Duration {
        let group_since = of_group.saturating_sub(self.agreed.0);
        let counted_since = counted.saturating_sub(self.agreed.1);
        let beyond = group_since.saturating_sub(counted_since);
        if beyond > TOLERANCE {
            self.total = self.total.saturating_add(beyond);
        }
        if beyond > TOLERANCE || counted_since > COMPARED_FOR {
            self.agreed = (of_group, counted);
        }
        self.total
    }
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
            escape: EscapedUse::default(),
        };
        meter.base = meter.of_group().map_err(|cause| ManagerError::Cgroup {
            file: domain.cgroup.join("cpu.stat"),
            cause,
        })?;
        Ok(meter)
    }

    /// CPU time used since the domain was taken up (microsecond resolution).
    pub(super) fn used(&mut self) -> io::Result<Duration> {
        let of_group = self.of_group()?;
        if self.counters.is_empty() {
            return Ok(of_group);
        }
        let mut counted = Duration::ZERO;
        for counter in &self.counters {
            counted = counted.saturating_add(counter.used()?);
        }
        Ok(counted.saturating_add(self.escape.total(of_group, counted)))
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

    /// The charge for use that counters do not see, while they see `counted_percent` of a CPU and the group uses
    /// `group_percent`.
    fn escaped(group_percent: u64, counted_percent: u64) -> Duration {
        let mut escape = EscapedUse::default();
        let mut total = Duration::ZERO;
        for ms in 1..=2_000 {
            let of = |percent: u64| Duration::from_micros(ms * percent * 10);
            total = escape.total(of(group_percent), of(counted_percent));
        }
        total
    }

    #[test]
    fn use_of_other_cpus_is_charged_and_drift_is_not() {
        assert_eq!(escaped(120, 120), Duration::ZERO);
        assert_eq!(escaped(122, 120), Duration::ZERO, "rounding adds up");
        assert_eq!(escaped(110, 120), Duration::ZERO, "the group is behind");
        // Half of a CPU for two seconds.
        assert!(escaped(170, 120) > Duration::from_millis(900));
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
            let parsed = parse_usage(&text);
            if place < 10 && byte != b"usage_usec "[place] {
                prop_assert_eq!(parsed, None);
            }
        }
    }
}
