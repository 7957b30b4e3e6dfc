//! How much of its CPU a manager may let real-time threads use at a stretch.
//!
//! The kernel keeps a part of each second from SCHED_FIFO (real-time throttling, and the fair server
//! since 6.8): whoever goes on for 950 ms of a second is put aside for the rest of it, the manager
//! with its domains. That is a tail of 50 ms that nobody accounted for, and on Linux 6.18 beside a
//! busy ordinary program now and then one of more than a second. So a manager stays clear of it: it
//! stops its domains for [`PAUSE_PER_MILLE`] thousandths of the kernel's period, early and often
//! enough. A domain that is busy for long gets nine tenths of the time in pieces of some 25 ms then,
//! instead of 95% with a hole that stops the manager too.
//!
//! The rule is a token bucket: real-time threads may use `burst + rate * length` of any stretch of
//! time, which leaves a thousandth part of a few to threads that are none of ours.

use tailbound_linux::host_facts::Throttling;
use tailbound_time::{Duration, Instant};

/// Which part of a CPU the fair server leaves where throttling leaves more, or is off.
const FAIR_SERVER_LEAVES_PER_MILLE: u64 = 950;
/// How far the rate stays below what the kernel allows.
const CLEARANCE_PER_MILLE: u64 = 20;
/// What may be used beyond the rate, in thousandths of the kernel's period; less than the clearance.
const BURST_PER_MILLE: u64 = 15;
/// How long a pause is, in thousandths of the kernel's period.
const PAUSE_PER_MILLE: u64 = 2;
/// How often a look is due at the least: between looks it is not known when who ran.
const LOOK_EVERY_PER_MILLE: u64 = 50;
/// The kernel's period where it does not tell.
const USUAL_PERIOD_US: u64 = 1_000_000;

/// What real-time threads may use of a CPU without being put aside by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTimeLimit {
    rate_per_mille: u64,
    burst: Duration,
    pause: Duration,
    look_every: Duration,
}

impl RealTimeLimit {
    /// The limit beneath the kernel's throttling; `None` stands for its default.
    pub fn beneath(throttling: Option<Throttling>) -> Self {
        let usual = Throttling {
            runtime_us: -1,
            period_us: USUAL_PERIOD_US,
        };
        let throttling = throttling.filter(|t| t.period_us > 0).unwrap_or(usual);
        let share = match u64::try_from(throttling.runtime_us) {
            Ok(runtime) => runtime.saturating_mul(1_000) / throttling.period_us,
            Err(_) => FAIR_SERVER_LEAVES_PER_MILLE,
        };
        let of_period = |thousandths| Duration::from_nanos(throttling.period_us * thousandths);
        Self {
            rate_per_mille: share
                .min(FAIR_SERVER_LEAVES_PER_MILLE)
                .saturating_sub(CLEARANCE_PER_MILLE)
                .max(1),
            burst: of_period(BURST_PER_MILLE),
            pause: of_period(PAUSE_PER_MILLE),
            look_every: of_period(LOOK_EVERY_PER_MILLE),
        }
    }

    /// The share of a CPU that can be promised for good, in thousandths.
    pub fn rate_per_mille(&self) -> u64 {
        self.rate_per_mille
    }

    /// What may be used beyond the rate.
    pub fn burst(&self) -> Duration {
        self.burst
    }

    /// How long domains are stopped at a time.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Whether deferrable servers (budget, period) on one CPU can never run into it.
    ///
    /// In a stretch t they run for at most min(t, U t + 2 B), where U is their bandwidth and B the
    /// sum of their budgets; that is most above rate * t at t = 2 B / (1 - U), by (1 - rate) * t.
    /// Sufficient, not necessary.
    pub fn is_out_of_reach_of(
        &self,
        servers: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> bool {
        let (mut budgets, mut bandwidth) = (0.0, 0.0);
        for (budget, period) in servers {
            budgets += budget.as_nanos() as f64;
            bandwidth += budget.as_nanos() as f64 / period.as_nanos() as f64;
        }
        let rate = self.rate_per_mille as f64 / 1e3;
        let above = (1.0 - rate) * 2.0 * budgets;
        bandwidth < rate && above <= (1.0 - bandwidth) * self.burst.as_nanos() as f64
    }

    fn earned_in(&self, length: Duration) -> Duration {
        length.scaled_down(self.rate_per_mille, 1_000)
    }

    /// How long `tokens` last at the least: a CPU that is busy all the time earns while it spends.
    fn lasting(&self, tokens: Duration) -> Duration {
        per_mille_of(tokens, 1_000 - self.rate_per_mille)
    }

    /// How long it takes to pay `debt`, in addition to a pause.
    fn paying(&self, debt: Duration) -> Duration {
        per_mille_of(debt, self.rate_per_mille)
    }
}

/// The length of which `tokens` are so many thousandths.
fn per_mille_of(tokens: Duration, thousandths: u64) -> Duration {
    let length = u128::from(tokens.as_nanos()) * 1_000 / u128::from(thousandths);
    Duration::from_nanos(u64::try_from(length).unwrap_or(u64::MAX))
}

impl Default for RealTimeLimit {
    fn default() -> Self {
        Self::beneath(None)
    }
}

/// What is to be done with the domains of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// They may run.
    Clear,
    /// They have to stand still.
    Paused,
}

/// The account of one CPU.
#[derive(Debug)]
pub(super) struct Allowance {
    limit: RealTimeLimit,
    tokens: Duration,
    /// What was used beyond the tokens, since a look came late; at most a burst, so that a stall of
    /// the host does not become a long one of the domains.
    debt: Duration,
    at: Option<Instant>,
    next_look: Instant,
}

impl Allowance {
    pub(super) fn new(limit: RealTimeLimit) -> Self {
        Self {
            limit,
            tokens: limit.burst,
            debt: Duration::ZERO,
            at: None,
            next_look: Instant::ORIGIN,
        }
    }

    /// What it watches over.
    pub(super) fn limit(&self) -> &RealTimeLimit {
        &self.limit
    }

    /// When [`Allowance::look`] is due.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    fn settle(&mut self, earned: Duration, spent: Duration) {
        let have = self.tokens.saturating_add(earned);
        let owe = self.debt.saturating_add(spent);
        self.tokens = have.saturating_sub(owe).min(self.limit.burst);
        self.debt = owe.saturating_sub(have).min(self.limit.burst);
    }

    /// At `now` real-time threads have used `used` more than at the last look.
    pub(super) fn look(&mut self, now: Instant, used: Duration) -> Standing {
        let passed = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_since(at));
        self.at = Some(now);
        // In which order they idled and ran since the last look is not known. Idling first is the
        // careful guess: the most is lost then for want of room in the bucket.
        let busy = used.min(passed);
        self.settle(
            self.limit.earned_in(passed.saturating_sub(busy)),
            Duration::ZERO,
        );
        self.settle(self.limit.earned_in(busy), used);
        // A pause too early costs next to nothing, a look more would cost a wake-up.
        let enough = self.limit.earned_in(self.limit.pause).scaled_down(1, 4);
        if self.tokens <= enough {
            let pause = self
                .limit
                .pause
                .saturating_add(self.limit.paying(self.debt));
            self.next_look = now.saturating_add(pause);
            return Standing::Paused;
        }
        let lasting = self.limit.lasting(self.tokens).min(self.limit.look_every);
        self.next_look = now.saturating_add(lasting);
        Standing::Clear
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_rate_lies_below_what_the_kernel_leaves() {
        let rate = |runtime_us, period_us| {
            let throttling = Throttling {
                runtime_us,
                period_us,
            };
            RealTimeLimit::beneath(Some(throttling)).rate_per_mille()
        };
        assert_eq!(RealTimeLimit::default().rate_per_mille(), 930);
        assert_eq!(rate(950_000, 1_000_000), 930);
        assert_eq!(rate(800_000, 1_000_000), 780);
        assert_eq!(rate(1_000_000, 1_000_000), 930);
        assert_eq!(rate(-1, 1_000_000), 930);
        assert_eq!(rate(0, 1_000_000), 1);
        assert_eq!(rate(5, 0), 930);
    }

    /// Lets somebody run who wants the CPU in stretches of `busy` and then of `idle`, and returns
    /// for each millisecond whether real-time threads had it.
    fn history(limit: RealTimeLimit, busy: u64, idle: u64, length: u64) -> Vec<bool> {
        let mut allowance = Allowance::new(limit);
        let mut standing = Standing::Clear;
        let mut ran = Vec::new();
        let mut fresh = Duration::ZERO;
        for tick in 0..length {
            let now = Instant::ORIGIN + ms(tick);
            if now >= allowance.next_look() {
                standing = allowance.look(now, fresh);
                fresh = Duration::ZERO;
            }
            let runs = standing == Standing::Clear && tick % (busy + idle) < busy;
            if runs {
                fresh = fresh.saturating_add(ms(1));
            }
            ran.push(runs);
        }
        ran
    }

    #[test]
    fn who_is_always_busy_gets_the_rate_in_short_stretches() {
        let ran = history(RealTimeLimit::default(), 1, 0, 10_000);
        let share = ran.iter().filter(|ran| **ran).count();
        // The looks of this test come up to a millisecond late.
        assert!((9_100..=9_320).contains(&share), "{share}");
        let longest = ran.split(|ran| *ran).map(<[bool]>::len).max().unwrap();
        assert!(longest <= 4, "stopped for {longest} ms at a stretch");
    }

    #[test]
    fn who_pauses_of_his_own_accord_is_left_alone() {
        for (busy, idle) in [(9, 1), (90, 10), (180, 30)] {
            let ran = history(RealTimeLimit::default(), busy, idle, 5_000);
            let share = ran.iter().filter(|ran| **ran).count() as u64;
            let wanted = (0..5_000).filter(|t| t % (busy + idle) < busy).count() as u64;
            assert_eq!(share, wanted, "{busy} {idle}");
        }
    }

    #[test]
    fn short_busy_stretches_never_come_near() {
        let limit = RealTimeLimit::default();
        assert!(limit.is_out_of_reach_of([]));
        assert!(limit.is_out_of_reach_of([(ms(40), ms(100))]));
        assert!(limit.is_out_of_reach_of([(ms(4), ms(10)), (ms(3), ms(10))]));
        assert!(!limit.is_out_of_reach_of([(ms(1_365), ms(2_100))]));
        assert!(!limit.is_out_of_reach_of([(ms(1), ms(1))]));
    }

    proptest! {
        #[test]
        fn no_second_goes_beyond_what_the_kernel_allows(
            busy in 1_u64..3_000, idle in 0_u64..500, share in 100_i64..1_000,
        ) {
            let limit = RealTimeLimit::beneath(Some(Throttling {
                runtime_us: share * 1_000,
                period_us: 1_000_000,
            }));
            let ran = history(limit, busy, idle, 4_000);
            let most = usize::try_from(share.min(950)).unwrap();
            for second in ran.windows(1_000) {
                prop_assert!(second.iter().filter(|ran| **ran).count() <= most);
            }
        }

        #[test]
        fn any_input_is_answered(
            runtime_us in any::<i64>(), period_us in any::<u32>(),
            looks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        ) {
            let period_us = u64::from(period_us);
            let limit = RealTimeLimit::beneath(Some(Throttling { runtime_us, period_us }));
            let mut allowance = Allowance::new(limit);
            for (now, used) in looks {
                let now = Instant::from_nanos(now);
                let _standing = allowance.look(now, Duration::from_nanos(used));
                prop_assert!(allowance.next_look() >= now);
            }
        }
    }
}
