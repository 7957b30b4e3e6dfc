//! What the kernel's throttling of real-time threads leaves to reservations that run as such.

use tailbound_time::Duration;

/// Which part of a CPU the fair server leaves where throttling leaves more, or is off.
const FAIR_SERVER_LEAVES_PER_MILLE: u64 = 950;
/// How far bandwidths that are promised for good stay below what the kernel allows.
const CLEARANCE_PER_MILLE: u64 = 20;
/// How far the use in any window stays below it: looks come late now and then.
const WINDOW_CLEARANCE_PER_MILLE: u64 = 10;
/// The kernel's period where it does not tell.
const USUAL_PERIOD_US: u64 = 1_000_000;
/// The run time by which the kernel says that it throttles nothing.
const UNTHROTTLED_US: i64 = -1;

/// What real-time threads may use of a CPU without being put aside by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTimeLimit {
    rate_per_mille: u64,
    window: Duration,
    most: Duration,
}

impl RealTimeLimit {
    /// The limit beneath the kernel's throttling of real-time threads to `allowed_us` every `period_us`; a
    /// negative run time is none, and a period of 0 stands for the kernel's default.
    pub fn beneath(allowed_us: i64, period_us: u64) -> Self {
        let (allowed_us, period_us) = match period_us {
            0 => (UNTHROTTLED_US, USUAL_PERIOD_US),
            _ => (allowed_us, period_us),
        };
        let share = match u64::try_from(allowed_us) {
            Ok(allowed_us) => allowed_us.saturating_mul(1_000) / period_us,
            Err(_) => FAIR_SERVER_LEAVES_PER_MILLE,
        };
        let share = share.min(FAIR_SERVER_LEAVES_PER_MILLE);
        let window = Duration::from_micros(period_us);
        let most = share.saturating_sub(WINDOW_CLEARANCE_PER_MILLE).max(1);
        Self {
            rate_per_mille: share.saturating_sub(CLEARANCE_PER_MILLE).max(1),
            window,
            most: window.scaled_down(most, 1_000),
        }
    }

    /// The share of a CPU that can be promised for good, in thousandths.
    pub fn rate_per_mille(&self) -> u64 {
        self.rate_per_mille
    }

    /// The kernel's period: how long it remembers who ran.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The most that may be used in any such period.
    pub fn most(&self) -> Duration {
        self.most
    }

    /// In which time, at the latest, a CPU under this limit has done `work_ns`: of every window a
    /// part is lost at most.
    pub fn time_for_ns(&self, work_ns: u128) -> u128 {
        let most = u128::from(self.most.as_nanos()).max(1);
        let lost = u128::from(self.window.saturating_sub(self.most).as_nanos());
        let windows = (work_ns / most).saturating_add(1);
        work_ns.saturating_add(windows.saturating_mul(lost))
    }

    /// Whether deferrable servers (budget, period) on one CPU can never run into it: in a window of
    /// length w each runs for at most ceil((w + P - B) / P) B (Strosnider, Lehoczky and Sha, 1995).
    /// Sufficient, not necessary.
    pub fn is_out_of_reach_of(
        &self,
        servers: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> bool {
        let mut sum = 0_u128;
        for (budget, period) in servers {
            let ns = |length: Duration| u128::from(length.as_nanos());
            let (window, period, budget) = (ns(self.window), ns(period).max(1), ns(budget));
            let budgets = (window + period.saturating_sub(budget)).div_ceil(period);
            sum += (budgets * budget).min(window);
        }
        sum <= u128::from(self.most.as_nanos())
    }

    /// The same for servers whose replenishments lie at multiples of their periods on one clock, where
    /// every period divides the longest: in a window lie whole longest periods, of which each is used
    /// for the sum of its budgets, and parts of two more. Sufficient, not necessary.
    pub fn is_out_of_reach_on_one_grid(&self, servers: &[(Duration, Duration)]) -> bool {
        let ns = |length: &Duration| u128::from(length.as_nanos());
        let longest = servers.iter().map(|(_, period)| ns(period)).max();
        let Some(longest) = longest.filter(|longest| *longest > 0) else {
            return true;
        };
        let window = ns(&self.window);
        let divides = |(_, period): &(Duration, Duration)| {
            ns(period) > 0 && longest.is_multiple_of(ns(period))
        };
        if longest > window || !servers.iter().all(divides) {
            return false;
        }
        let whole = window / longest - 1;
        let budgets = servers.iter().map(|(b, p)| ns(b) * (longest / ns(p)));
        let used = whole * budgets.sum::<u128>() + (window - whole * longest);
        used <= ns(&self.most)
    }

    /// A part of the kernel's period, in thousandths.
    pub fn part(&self, thousandths: u64) -> Duration {
        self.window.scaled_down(thousandths, 1_000)
    }
}

impl Default for RealTimeLimit {
    fn default() -> Self {
        Self::beneath(UNTHROTTLED_US, USUAL_PERIOD_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_rate_lies_below_what_the_kernel_leaves() {
        let rate =
            |allowed_us, period_us| RealTimeLimit::beneath(allowed_us, period_us).rate_per_mille();
        assert_eq!(RealTimeLimit::default().rate_per_mille(), 930);
        assert_eq!(rate(950_000, 1_000_000), 930);
        assert_eq!(rate(800_000, 1_000_000), 780);
        assert_eq!(rate(1_000_000, 1_000_000), 930);
        assert_eq!(rate(-1, 1_000_000), 930);
        assert_eq!(rate(0, 1_000_000), 1);
        assert_eq!(rate(5, 0), 930);
    }

    #[test]
    fn short_busy_stretches_never_come_near() {
        let limit = RealTimeLimit::default();
        assert!(limit.is_out_of_reach_of([]));
        assert!(limit.is_out_of_reach_of([(ms(40), ms(100))]));
        assert!(limit.is_out_of_reach_of([(ms(4), ms(10)), (ms(5), ms(10))]));
        assert!(!limit.is_out_of_reach_of([(ms(1_365), ms(2_100))]));
        assert!(!limit.is_out_of_reach_of([(ms(1), ms(1))]));
        // Without knowing the grid, each may spend two budgets in a row.
        let both = [(ms(60), ms(100)), (ms(33), ms(100))];
        assert!(!limit.is_out_of_reach_of(both));
        assert!(limit.is_out_of_reach_on_one_grid(&both));
        assert!(limit.is_out_of_reach_on_one_grid(&[(ms(9), ms(10)), (ms(3), ms(100))]));
        assert!(!limit.is_out_of_reach_on_one_grid(&[(ms(9), ms(10)), (ms(1), ms(101))]));
        assert!(!limit.is_out_of_reach_on_one_grid(&[(ms(360), ms(400))]));
        assert!(!limit.is_out_of_reach_on_one_grid(&[(ms(1), ms(1))]));
    }
}
