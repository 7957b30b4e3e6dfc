//! Recoveries on a host whose CPUs are used by others, too.
//!
//! A phase of a recovery that takes x with CPUs of its own is a chain of work and waits across the M
//! servers that live. While the chain waits for a CPU of a server, that CPU serves another thread of
//! the same server, or the budget of the server is used up, or a reservation above runs. Each of the
//! three is bounded for each server, whatever the chain does ([`ServerReservation`]), as in Graham's
//! argument for list schedules. An ordinary thread has no such bound; how its share stretches a phase
//! is an estimate ([`FairShare`]). docs/concepts/recovery.md has the derivation.

use tailbound_distribution::Evidence;
use tailbound_time::Duration;

use super::arithmetic::{not_analysed, sum, times};
use crate::AnalysisError;
use crate::interfaces::{BoundedDelay, PeriodicSupply, SupplyBound};

/// The weight of an ordinary thread or cgroup (`cpu.weight`).
pub const ORDINARY_WEIGHT: u32 = 100;

/// How many steps the search for the least bound makes before it gives up.
const MOST_STEPS: u32 = 100_000;

/// The reservation that each server has on one CPU: a deferrable server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerReservation {
    supply: PeriodicSupply,
    used: Duration,
    held_up: Duration,
    work: Option<Duration>,
}

impl ServerReservation {
    /// A reservation of which nothing else is above, that may be used up when the leader fails, and
    /// whose server uses no more CPU time in a phase than the phase takes on CPUs of its own.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless 0 < budget <= period.
    pub fn new(budget: Duration, period: Duration) -> Result<Self, AnalysisError> {
        if budget.is_zero() {
            return Err(AnalysisError::Invalid {
                what:
                    "a reservation without a budget bounds nothing; the budget must be above zero"
                        .to_owned(),
            });
        }
        Ok(Self {
            supply: PeriodicSupply::deferrable(budget, period, Duration::ZERO)?,
            used: budget,
            held_up: Duration::ZERO,
            work: None,
        })
    }

    /// The same where a server has used at most `used` of its budget when the leader fails.
    #[must_use]
    pub fn with_used(self, used: Duration) -> Self {
        Self {
            used: used.min(self.supply.budget()),
            ..self
        }
    }

    /// The same where reservations above take at most `held_up` of each period.
    #[must_use]
    pub fn held_up_by(self, held_up: Duration) -> Self {
        Self { held_up, ..self }
    }

    /// The same where each server uses at most `work` of CPU time from the failure to the first write.
    #[must_use]
    pub fn with_work(self, work: Duration) -> Self {
        Self {
            work: Some(work),
            ..self
        }
    }

    /// For how long a server with this work has no budget until the work is done.
    ///
    /// From the failure on each depletion takes a whole budget, but the first, which takes what is
    /// left. A depletion lasts until the next replenishment.
    fn depleted(&self, work: Duration) -> Result<Duration, AnalysisError> {
        if work.is_zero() {
            return Ok(Duration::ZERO);
        }
        let spent = sum(&[self.used, work])?;
        let until = self.supply.time_to_supply(spent);
        if until == Duration::MAX {
            return Err(not_analysed(&format!(
                "a budget of {} does not give {spent} within all durations",
                self.supply.budget()
            )));
        }
        // The supply bound counts a gap before the first budget; here that is a depletion only where
        // the budget is used up.
        Ok((until - spent) - self.supply.delay_up())
    }

    /// The bound of what takes `alone` on CPUs of its own, for this many servers that live.
    fn stretch(&self, alone: Duration, alive: u32) -> Result<Duration, AnalysisError> {
        let work = self.work.unwrap_or(alone);
        let for_one = sum(&[work, self.depleted(work)?])?;
        let without_others = sum(&[alone, times(for_one, u64::from(alive))?])?;
        // Below this the sequence converges, since each step adds a smaller multiple of the last one.
        if times(self.held_up, u64::from(alive))? >= self.supply.period() {
            return Err(not_analysed(&format!(
                "reservations above hold {alive} servers up by {} in each period of {}: no bound \
                 follows unless the servers together are held up for less than a period",
                self.held_up,
                self.supply.period()
            )));
        }
        let mut bound = without_others;
        for _ in 0..MOST_STEPS {
            // The first and the last period may be touched at an end only.
            let touched = bound.as_nanos().div_ceil(self.supply.period().as_nanos()) + 1;
            let held_up = times(times(self.held_up, touched)?, u64::from(alive))?;
            let next = sum(&[without_others, held_up])?;
            if next == bound {
                return Ok(bound);
            }
            bound = next;
        }
        Err(not_analysed(&format!(
            "reservations above leave {alive} servers next to nothing of each period of {}: the bound \
             was not found within {MOST_STEPS} steps",
            self.supply.period()
        )))
    }
}

/// The share that the kernel's fair scheduler gives a busy thread beside others on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShare {
    supply: BoundedDelay,
}

impl FairShare {
    /// The share of `weight` beside so many busy neighbours of the weight [`ORDINARY_WEIGHT`] on each
    /// CPU, where the scheduler lets a thread run for `slice` at a stretch.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a weight of zero or sums beyond all durations.
    pub fn beside(neighbours: u32, weight: u32, slice: Duration) -> Result<Self, AnalysisError> {
        if weight == 0 {
            return Err(AnalysisError::Invalid {
                what: "a weight of 0 is no share; the kernel's weights are 1 to 10000".to_owned(),
            });
        }
        let all = u64::from(neighbours) * u64::from(ORDINARY_WEIGHT) + u64::from(weight);
        // Service lags behind the fluid share by a slice at most: share (t - slice / share).
        let delay = if neighbours == 0 {
            Duration::ZERO
        } else {
            slice.scaled_up(all, u64::from(weight))
        };
        let supply = BoundedDelay::new(u64::from(weight), all, delay)?;
        Ok(Self { supply })
    }
}

/// The CPU time that the servers of an ensemble get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuShare {
    /// Each has a reservation.
    Reserved(ServerReservation),
    /// They are ordinary threads.
    Fair(FairShare),
}

impl CpuShare {
    /// How long a phase takes at most, or about, that takes `alone` on CPUs of its own, with this
    /// many servers alive.
    ///
    /// # Errors
    /// No bound follows, or it is beyond all durations.
    pub fn stretch(&self, alone: Duration, alive: u32) -> Result<Duration, AnalysisError> {
        match self {
            CpuShare::Reserved(reservation) => reservation.stretch(alone, alive),
            CpuShare::Fair(share) => match share.supply.time_to_supply(alone) {
                Duration::MAX => Err(not_analysed("the estimate is beyond all durations")),
                estimate => Ok(estimate),
            },
        }
    }

    /// The same for phases one after the other.
    ///
    /// # Errors
    /// As of [`CpuShare::stretch`].
    pub fn stretch_together(
        &self,
        alone: &[Duration],
        alive: u32,
    ) -> Result<Duration, AnalysisError> {
        match self {
            // A depletion that reaches into the next phase counts once.
            CpuShare::Reserved(reservation) => reservation.stretch(sum(alone)?, alive),
            // Each phase begins with a thread that waits for a CPU.
            CpuShare::Fair(_) => {
                let each: Result<Vec<_>, _> =
                    alone.iter().map(|one| self.stretch(*one, alive)).collect();
                sum(&each?)
            }
        }
    }

    /// The evidence of the stretch: that of reservations is a theorem, and nothing is guaranteed to ordinary threads.
    pub fn evidence(&self) -> Evidence {
        match self {
            CpuShare::Reserved(_) => Evidence::Bound,
            CpuShare::Fair(_) => Evidence::Estimate,
        }
    }

    /// By which theorem.
    pub fn method(&self) -> String {
        match self {
            CpuShare::Reserved(reservation) => format!(
                "chain over M reservations (after Graham 1969): T = x + M (W + depletions (P - B) + \
                 periods J), depletions by the supply of a {}",
                reservation.supply.name()
            ),
            CpuShare::Fair(share) => format!(
                "estimate: T = x (n w' + w) / w + slice (n w' + w) / w for each phase, the lag of \
                 EEVDF (Stoica and Abdel-Wahab 1995) as a {}",
                share.supply.name()
            ),
        }
    }

    /// The assumptions of the bound or estimate.
    pub fn assumptions(&self) -> Vec<String> {
        let assumptions: &[&str] = match self {
            CpuShare::Reserved(reservation) => &[
                "x bounds each phase while every thread of the servers has a CPU at once, and the \
                 order of events does not make the chain longer when servers are slower",
                "each server has a deferrable reservation of its own; the back end gives the budget in \
                 every period, and its own overhead and stalls of the host are not in it",
                match reservation.work {
                    Some(_) => "no server uses more CPU time in the recovery than --work says",
                    None => "no server uses more CPU time in a phase than x: one busy thread",
                },
                "detection does not depend on a timeout that grows with the load",
            ],
            CpuShare::Fair(_) => &[
                "not guaranteed: neighbours may become more, and the kernel moves threads among CPUs",
                "the servers have one busy thread on each CPU, and do not hold each other up",
            ],
        };
        assumptions.iter().map(|one| (*one).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn reserved(budget_ms: u64, period_ms: u64) -> ServerReservation {
        ServerReservation::new(ms(budget_ms), ms(period_ms)).unwrap()
    }

    #[test]
    fn a_budget_that_is_left_is_never_used_up() {
        let share = reserved(40, 100).with_work(ms(25));
        // 63 + 2 (25 + 60): the budget may be gone at the failure.
        assert_eq!(CpuShare::Reserved(share).stretch(ms(63), 2), Ok(ms(233)));
        let fresh = CpuShare::Reserved(share.with_used(ms(15)));
        assert_eq!(fresh.stretch(ms(63), 2), Ok(ms(113)));
        let short = CpuShare::Reserved(share.with_used(ms(16)));
        assert_eq!(short.stretch(ms(63), 2), Ok(ms(233)));
        // More than a budget cannot be used.
        let most = CpuShare::Reserved(share.with_used(ms(4000)));
        assert_eq!(most, CpuShare::Reserved(share));
    }

    #[test]
    fn reservations_above_count_for_each_period() {
        // 30 + (30 + 0) + J (ceil(T / 100) + 1) with one server: 60 + 2 x 10.
        let held_up = reserved(40, 100).with_used(ms(0)).held_up_by(ms(10));
        assert_eq!(CpuShare::Reserved(held_up).stretch(ms(30), 1), Ok(ms(80)));
        let too_much = CpuShare::Reserved(held_up.held_up_by(ms(100)));
        let refused = too_much.stretch(ms(30), 2).unwrap_err().to_string();
        assert!(refused.contains("no bound follows"), "{refused}");
    }

    #[test]
    fn a_share_stretches_by_its_weight() {
        let alone = CpuShare::Fair(FairShare::beside(0, 100, ms(3)).unwrap());
        assert_eq!(alone.stretch(ms(63), 2), Ok(ms(63)));
        let thirds = CpuShare::Fair(FairShare::beside(2, 100, ms(3)).unwrap());
        assert_eq!(thirds.stretch(ms(60), 2), Ok(ms(189)));
        assert_eq!(thirds.stretch_together(&[ms(30), ms(30)], 2), Ok(ms(198)));
        assert_eq!(thirds.evidence(), Evidence::Estimate);
        assert!(FairShare::beside(2, 0, ms(3)).is_err());
        assert!(ServerReservation::new(ms(0), ms(10)).is_err());
    }

    /// A chain across servers with deferrable reservations of the highest priority, nanosecond by
    /// nanosecond: each link waits, then works on its server, whose other threads come first.
    struct Host {
        budget_ns: u64,
        period_ns: u64,
        left: Vec<u64>,
        others: Vec<u64>,
        now: u64,
    }

    impl Host {
        fn tick(&mut self) {
            self.now += 1;
            if self.now.is_multiple_of(self.period_ns) {
                self.left.fill(self.budget_ns);
            }
        }

        fn serve(&mut self, server: usize, mut work: u64) {
            while work > 0 {
                if self.left[server] > 0 {
                    self.left[server] -= 1;
                    match self.others[server] {
                        0 => work -= 1,
                        _ => self.others[server] -= 1,
                    }
                }
                self.tick();
            }
        }
    }

    proptest! {
        #[test]
        fn no_chain_played_outlasts_the_bound(
            budget in 1_u64..30,
            rest in 0_u64..30,
            used in 0_u64..30,
            start in 0_u64..60,
            chain in prop::collection::vec((0_u64..40, 0_usize..3, 0_u64..20), 1..12),
            others in prop::collection::vec(0_u64..40, 3),
        ) {
            let period = budget + rest;
            let used = used.min(budget);
            let mut host = Host {
                budget_ns: budget,
                period_ns: period,
                left: vec![budget - used; 3],
                others: others.clone(),
                now: start,
            };
            let mut works = others;
            let mut alone = 0;
            for (wait, server, work) in &chain {
                (0..*wait).for_each(|_| host.tick());
                host.serve(*server, *work);
                works[*server] += work;
                alone += wait + work;
            }
            let work = *works.iter().max().unwrap();
            let share = ServerReservation::new(ns(budget), ns(period))
                .unwrap()
                .with_used(ns(used))
                .with_work(ns(work));
            let bound = CpuShare::Reserved(share).stretch(ns(alone), 3).unwrap();
            prop_assert!(host.now - start <= bound.as_nanos());
        }
    }
}
