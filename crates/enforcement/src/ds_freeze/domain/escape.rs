//! The sign, in a domain's CPU time, that its threads run elsewhere.

use tailbound_time::{Duration, Instant};

use crate::audit::Bell;

/// How much more a domain may seem to use than has passed: the kernel brings the CPU time of another CPU up
/// to date at its ticks only, which lie up to 10 ms apart.
const TOLERANCE: Duration = Duration::from_millis(11);

/// Compares what a domain uses with what one CPU can give.
#[derive(Debug)]
pub(super) struct EscapeSign {
    bell: Option<Bell>,
    /// When its use was last within bounds, and how much that was.
    base: Option<(Instant, Duration)>,
}

/// How long use is added up before it is compared anew.
const WINDOW: Duration = Duration::from_millis(200);

impl EscapeSign {
    pub(super) fn new(bell: Option<Bell>) -> Self {
        Self { bell, base: None }
    }

    /// Asks for a look at the domain's members.
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Looks at the use of the domain; rings if that is more than its CPU can have given.
    pub(super) fn look(&mut self, now: Instant, used: Duration) {
        let Some((since, used_then)) = self.base else {
            self.base = Some((now, used));
            return;
        };
        let passed = now.saturating_since(since);
        let is_sign = used.saturating_sub(used_then) > passed.saturating_add(TOLERANCE);
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

    /// How often a bell rings while a domain uses `share` of a CPU for two seconds.
    fn rings(share_percent: u64) -> usize {
        let bell = Bell::new().unwrap();
        let mut sign = EscapeSign::new(Some(bell.clone()));
        let mut rung = 0;
        for ms in 0..2_000_u64 {
            let used = Duration::from_micros(ms * share_percent * 10);
            sign.look(Instant::from_nanos(ms * 1_000_000), used);
            rung += usize::from(bell.take());
        }
        rung
    }

    #[test]
    fn only_more_than_one_cpu_is_a_sign() {
        assert_eq!(rings(20), 0);
        assert_eq!(rings(100), 0, "a domain under a boost");
        assert!(rings(120) > 0, "20% here and the whole of another CPU");
    }
}
