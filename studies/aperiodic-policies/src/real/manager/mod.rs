//! Who runs at which rank, decided without a clock or a kernel.
//!
//! A fixed-priority kernel has no reservation servers and no dual priorities, but threads whose rank can
//! be changed. The manager changes it: of the thread that serves soft jobs when its budget is used up and
//! when it comes back, of hard threads when they are promoted. Whoever drives it tells what has
//! happened, carries out what it says through [`Ranks`], and comes back when it says so. All instants
//! count from the start of the run.

mod budget_account;
#[cfg(test)]
mod tests;

use tailbound_time::{Duration, Instant};

pub use budget_account::BudgetAccount;

/// A budget with less left is looked at no earlier than after this: one more visit would cost about as
/// much as it is worth. What is used beyond is a debt.
const COARSENESS: Duration = Duration::from_micros(10);

/// Where a thread stands. What comes first here runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Soft jobs on a budget: before everything.
    Server,
    /// Hard jobs by their rank; under dual priority those that are promoted.
    Hard,
    /// Soft jobs under dual priority.
    Between,
    /// Hard jobs that are not promoted, by their rank.
    NotPromoted,
    /// Soft jobs behind all others.
    Background,
}

/// Changes ranks.
pub trait Ranks {
    /// Puts the thread of the soft jobs there.
    fn soft(&mut self, band: Band);
    /// Puts a hard task's thread into [`Band::Hard`].
    fn promote(&mut self, task: usize);
}

/// What can be seen of the threads.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// CPU time that soft jobs have taken so far.
    pub soft_used: Duration,
    /// Soft jobs done.
    pub soft_done: usize,
    /// When the last of them was done.
    pub soft_done_at: Instant,
    /// Of each hard task, the jobs done.
    pub hard_done: &'a [usize],
}

/// The decisions of one run.
#[derive(Clone, Debug)]
pub enum Manager {
    /// Soft jobs have a budget, and go on in the background without.
    Server(ServerManager),
    /// Hard jobs are promoted.
    Promotions(PromotionManager),
}

impl Manager {
    /// Decides at `now`, which is when it asked to be called or later. Returns when it is to be called
    /// next; never again if nothing.
    pub fn advance(
        &mut self,
        now: Instant,
        progress: &Progress<'_>,
        ranks: &mut impl Ranks,
    ) -> Option<Instant> {
        match self {
            Self::Server(server) => server.advance(now, progress, ranks),
            Self::Promotions(promotions) => promotions.advance(now, progress, ranks),
        }
    }
}

/// Moves the soft jobs' thread between [`Band::Server`] and [`Band::Background`].
#[derive(Clone, Debug)]
pub struct ServerManager {
    account: BudgetAccount,
    /// When soft jobs come, in order.
    arrivals: Vec<Instant>,
    arrived: usize,
    /// Whether there are soft jobs.
    active: bool,
    band: Option<Band>,
    /// How much of the CPU time is in the books.
    booked: Duration,
    /// Used without budget, since no look is on time to the nanosecond; later budgets pay it back.
    debt: Duration,
}

impl ServerManager {
    /// A full budget and soft jobs that will come at `arrivals`, in order of time.
    pub fn new(account: BudgetAccount, arrivals: Vec<Instant>) -> Self {
        Self {
            account,
            arrivals,
            arrived: 0,
            active: false,
            band: None,
            booked: Duration::ZERO,
            debt: Duration::ZERO,
        }
    }

    /// What was used without budget and is not paid back yet.
    #[cfg(test)]
    pub fn debt(&self) -> Duration {
        self.debt
    }

    fn advance(
        &mut self,
        now: Instant,
        progress: &Progress<'_>,
        ranks: &mut impl Ranks,
    ) -> Option<Instant> {
        if self.active {
            self.charge(progress);
        }
        self.arrive(now, progress);
        if self.active && progress.soft_done >= self.arrived {
            self.rest(progress.soft_done_at);
        }
        self.charge(progress);
        if self.active {
            self.account.update(now);
        }
        // A sporadic server's budget comes back in parts, and one may be less than the debt.
        while !self.account.left().is_zero() && !self.debt.is_zero() {
            self.debt = self.account.spend(self.debt);
            self.account.update(now);
        }
        let band = match self.account.left().is_zero() {
            true => Band::Background,
            false => Band::Server,
        };
        if self.band != Some(band) {
            self.band = Some(band);
            ranks.soft(band);
        }
        self.next(now)
    }

    /// Lets come what has come by now. A look that is late finds the end of work, arrivals and points of
    /// the grid behind it: the budget is told of them in the order in which they happened, for its rules
    /// are about order. A job that came before a point of the grid was there at that point.
    fn arrive(&mut self, now: Instant, progress: &Progress<'_>) {
        while let Some(arrival) = self.arrivals.get(self.arrived).copied() {
            if arrival > now {
                break;
            }
            let all_done = progress.soft_done >= self.arrived;
            if self.active && all_done && progress.soft_done_at <= arrival {
                self.rest(progress.soft_done_at);
            }
            self.arrived += 1;
            if !self.active {
                self.active = true;
                self.account.wake(arrival);
                // There was nothing to run before: it is the budget of now that was used.
                self.charge(progress);
            }
        }
    }

    /// There was no work from then on. What came due while there was does so before.
    fn rest(&mut self, since: Instant) {
        self.account.update(since);
        self.active = false;
        self.account.sleep(since);
    }

    /// Charges what has run since the last look.
    fn charge(&mut self, progress: &Progress<'_>) {
        let used = progress.soft_used.saturating_sub(self.booked);
        self.booked = progress.soft_used;
        if self.band == Some(Band::Server) {
            let uncovered = self.account.spend(used);
            self.debt = self.debt.saturating_add(uncovered);
        }
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        let arrival = self.arrivals.get(self.arrived).copied();
        let left = self.account.left();
        let runs = self.active && !left.is_zero();
        let used_up = runs.then(|| now.saturating_add(left.max(COARSENESS)));
        [arrival, self.account.next_change(), used_up]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Promotes the jobs of hard tasks that are not done a fixed time after their release.
///
/// A thread goes back to [`Band::NotPromoted`] by itself when it has done a job.
#[derive(Clone, Debug)]
pub struct PromotionManager {
    tasks: Vec<Promoted>,
    begun: bool,
}

#[derive(Clone, Copy, Debug)]
struct Promoted {
    period: Duration,
    /// When the next job is promoted.
    due: Instant,
    /// Its number.
    job: usize,
}

impl PromotionManager {
    /// Of each hard task its period, and from a release to the promotion.
    pub fn new(tasks: impl IntoIterator<Item = (Duration, Duration)>) -> Self {
        let promoted = |(period, after)| Promoted {
            period,
            due: Instant::ORIGIN.saturating_add(after),
            job: 0,
        };
        Self {
            tasks: tasks.into_iter().map(promoted).collect(),
            begun: false,
        }
    }

    fn advance(
        &mut self,
        now: Instant,
        progress: &Progress<'_>,
        ranks: &mut impl Ranks,
    ) -> Option<Instant> {
        if !std::mem::replace(&mut self.begun, true) {
            ranks.soft(Band::Between);
        }
        for (task, promoted) in self.tasks.iter_mut().enumerate() {
            let done = progress.hard_done.get(task).copied().unwrap_or(0);
            while promoted.due <= now {
                if done <= promoted.job {
                    ranks.promote(task);
                }
                promoted.job += 1;
                promoted.due = promoted.due.saturating_add(promoted.period);
            }
        }
        self.tasks.iter().map(|promoted| promoted.due).min()
    }
}
