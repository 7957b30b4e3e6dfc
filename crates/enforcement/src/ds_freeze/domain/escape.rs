//! The sign, in a domain's CPU time, that its threads run elsewhere.

use tailbound_time::{Duration, Instant};

use crate::audit::Bell;

/// How much more a domain may seem to use than has passed: the kernel brings the CPU time of another CPU up
/// to date at its ticks only, which lie up to 10 ms apart.
const TOLERANCE: Duration = Duration::from_millis(11);

/// Compares what a domain uses with what its CPUs can give.
#[derive(Debug)]
pub(super) struct EscapeSign {
    bell: Option<Bell>,
    /// The number of the domain's CPUs.
    cpus: u64,
    /// When its use was last within bounds, and how much that was.
    base: Option<(Instant, Duration)>,
}

/// How long use is added up before it is compared anew.
const WINDOW: Duration = Duration::from_millis(200);

impl EscapeSign {
    pub(super) fn new(bell: Option<Bell>, cpus: u64) -> Self {
        let base = None;
        Self { bell, cpus, base }
    }

    /// Asks for a look at the domain's members.
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Looks at the use of the domain; rings if that is more than its CPUs can have given.
    pub(super) fn look(&mut self, now: Instant, used: Duration) {
        let Some((since, used_then)) = self.base else {
            self.base = Some((now, used));
            return;
        };
        let passed = now.saturating_since(since);
        let given = passed.checked_mul(self.cpus).unwrap_or(Duration::MAX);
        let is_sign = used.saturating_sub(used_then) > given.saturating_add(TOLERANCE);
        if is_sign {
            self.ring();
        }
        if is_sign || passed > WINDOW {
            self.base = Some((now, used));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The number of rings of a bell while a domain of `cpus` CPUs uses `share` of a CPU for two seconds.
    fn rings(cpus: u64, share_percent: u64) -> usize {
        let bell = Bell::new().unwrap();
        let mut sign = EscapeSign::new(Some(bell.clone()), cpus);
        let mut rung = 0;
        for ms in 0..2_000_u64 {
            let used = Duration::from_micros(ms * share_percent * 10);
            sign.look(Instant::from_nanos(ms * 1_000_000), used);
            rung += usize::from(bell.take());
        }
        rung
    }

    #[test]
    fn only_more_than_its_cpus_is_a_sign() {
        assert_eq!(rings(1, 20), 0);
        assert_eq!(rings(1, 100), 0, "a domain under a boost");
        assert!(rings(1, 120) > 0, "20% here and the whole of another CPU");
        assert_eq!(rings(2, 200), 0, "two CPUs are its own");
        assert!(rings(2, 220) > 0, "20% of a third CPU");
    }
}
