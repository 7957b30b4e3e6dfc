//! An oracle of reservation servers on a grid, alone on their CPU and served in order of arrival, that
//! shares nothing with the rules of the product.

use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Instant};

/// A reservation server in the course of a simulation.
///
/// It is alone at the highest priority of its CPU, so that it runs whenever it has work and
/// budget.
#[derive(Clone, Debug)]
pub struct ServerState {
    rule: Rule,
    budget_ns: u64,
    period_ns: u64,
    /// What is left of the budget.
    left_ns: u64,
    /// The next replenishment; of the constant-bandwidth server the deadline, when a used-up
    /// budget comes back.
    next_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Deferrable,
    Periodic,
    Polling,
    ConstantBandwidth,
    Dedicated,
}

impl ServerState {
    /// A server at the origin of time. Replenishments lie at `grid_phase` and whole periods
    /// before and after it; the constant-bandwidth server has no such grid.
    pub fn new(server: ReservationServer, grid_phase: Duration) -> Self {
        let (rule, budget, period) = match server {
            ReservationServer::Deferrable { budget, period } => (Rule::Deferrable, budget, period),
            ReservationServer::Periodic { budget, period } => (Rule::Periodic, budget, period),
            ReservationServer::Polling { budget, period } => (Rule::Polling, budget, period),
            ReservationServer::ConstantBandwidth { budget, period } => {
                (Rule::ConstantBandwidth, budget, period)
            }
            ReservationServer::Dedicated => (
                Rule::Dedicated,
                Duration::from_nanos(1),
                Duration::from_nanos(1),
            ),
            other => panic!("{other:?} has no grid and is not served alone"),
        };
        let (budget_ns, period_ns) = (budget.as_nanos(), period.as_nanos());
        let phase = grid_phase.as_nanos() % period_ns;
        // The grid point that ends the period which holds the origin.
        let next_ns = match rule {
            Rule::ConstantBandwidth => 0,
            _ if phase == 0 => period_ns,
            _ => phase,
        };
        let mut state = Self {
            rule,
            budget_ns,
            period_ns,
            left_ns: budget_ns,
            next_ns,
        };
        if rule == Rule::Periodic {
            // The first part of the period that holds the origin has passed already.
            state.left_ns = state.unspent(0);
        }
        state
    }

    /// Tells the server that work comes to it while it is idle, at `now`.
    ///
    /// This is where SCHED_DEADLINE's wake-up rule acts: where the rest of the budget until the
    /// deadline would exceed the bandwidth, or the deadline has passed, both start anew. A polling
    /// server has lost its budget, unless a period starts right now.
    pub fn wake(&mut self, now: Instant) {
        match self.rule {
            Rule::ConstantBandwidth => self.wake_up_rule(now.as_nanos()),
            Rule::Polling => {
                self.replenish(now.as_nanos());
                let since_start = self.period_ns - (self.next_ns - now.as_nanos());
                if since_start > 0 {
                    self.left_ns = 0;
                }
            }
            _ => {}
        }
    }

    fn wake_up_rule(&mut self, now: u64) {
        let exceeds = |left: u64, until: u64| {
            u128::from(left) * u128::from(self.period_ns)
                > u128::from(until) * u128::from(self.budget_ns)
        };
        if now >= self.next_ns || exceeds(self.left_ns, self.next_ns - now) {
            self.next_ns = now.saturating_add(self.period_ns);
            self.left_ns = self.budget_ns;
        }
    }

    /// Runs `work` from `now` on, no further than to `limit`. Returns when it stopped and the
    /// work that is left: either that is zero, or the limit is reached.
    pub fn run(&mut self, now: Instant, work: Duration, limit: Instant) -> (Instant, Duration) {
        let (end, left) = match self.rule {
            Rule::Dedicated => {
                let slice = work.as_nanos().min(limit.as_nanos() - now.as_nanos());
                (now.as_nanos() + slice, work.as_nanos() - slice)
            }
            _ => self.run_within_budget(now.as_nanos(), work.as_nanos(), limit.as_nanos()),
        };
        (Instant::from_nanos(end), Duration::from_nanos(left))
    }

    fn run_within_budget(&mut self, mut now: u64, mut work: u64, limit: u64) -> (u64, u64) {
        while work > 0 && now < limit {
            self.replenish(now);
            if self.left_ns == 0 {
                now = self.next_ns.min(limit);
                continue;
            }
            let mut slice = work.min(self.left_ns).min(limit - now);
            if self.rule != Rule::ConstantBandwidth {
                slice = slice.min(self.next_ns - now);
            }
            now += slice;
            work -= slice;
            self.left_ns -= slice;
        }
        (now, work)
    }

    fn replenish(&mut self, now: u64) {
        match self.rule {
            Rule::ConstantBandwidth => {
                if self.left_ns == 0 && now >= self.next_ns {
                    self.left_ns = self.budget_ns;
                    self.next_ns = self.next_ns.saturating_add(self.period_ns);
                }
            }
            _ => {
                if now >= self.next_ns {
                    let passed = (now - self.next_ns) / self.period_ns + 1;
                    self.next_ns = self.next_ns.saturating_add(passed * self.period_ns);
                    self.left_ns = self.budget_ns;
                }
                if self.rule == Rule::Periodic {
                    self.left_ns = self.unspent(now);
                }
            }
        }
    }

    /// What is left at `now` of a budget that passes from the start of the period on.
    fn unspent(&self, now: u64) -> u64 {
        let elapsed = self.period_ns - (self.next_ns - now).min(self.period_ns);
        self.budget_ns.saturating_sub(elapsed)
    }
}

/// The response times of jobs served first come, first served, in order; for long sequences, made
/// as they go. Each job is a release, not before the one in front of it, and an execution time.
pub fn fifo_response_times(
    mut server: ServerState,
    jobs: impl IntoIterator<Item = (Instant, Duration)>,
) -> impl Iterator<Item = Duration> {
    let mut free = Instant::ORIGIN;
    jobs.into_iter().map(move |(at, work)| {
        if at >= free {
            free = at;
            server.wake(at);
        }
        (free, _) = server.run(free, work, Instant::from_nanos(u64::MAX));
        free.saturating_since(at)
    })
}
