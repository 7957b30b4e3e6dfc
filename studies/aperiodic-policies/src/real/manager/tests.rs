//! The manager on a CPU that is only imagined: without lateness what runs is what the simulator says.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_simulator::HostOverheads;
use tailbound_simulator::aperiodic::{
    AperiodicCosts, Gain, HardTask, Policy, ServerBudget, ServerKind, System, simulate_aperiodic,
};
use tailbound_simulator::hierarchy::{Completion, Job};

use super::*;
use crate::feasibility::Feasibility;

/// All times are multiples of it, so that no budget's rest is too small to be looked at on time.
const UNIT_NS: u64 = 100_000;
const LENGTH_NS: u64 = 400_000_000;

fn units(count: u64) -> Duration {
    Duration::from_nanos(count * UNIT_NS)
}

/// A CPU with one thread per hard task and one for soft jobs, and what ran on it.
struct Cpu {
    now: u64,
    manager: Manager,
    next_look: Option<u64>,
    late_ns: u64,
    /// From release to promotion, where hard threads begin their jobs unpromoted.
    promotions: Option<Vec<u64>>,
    state: Threads,
    jobs: std::collections::VecDeque<Job>,
    waiting: Vec<std::collections::VecDeque<Job>>,
    hard_done: Vec<usize>,
    soft_used: u64,
    soft_done: usize,
    soft_done_at: u64,
    completions: Vec<Completion>,
    /// When soft jobs ran in [`Band::Server`].
    served: Vec<(u64, u64)>,
    largest_debt: Duration,
    /// Until when hard jobs were not promoted: task, release, end.
    unpromoted: Vec<(usize, u64, u64)>,
}

struct Threads {
    soft: Band,
    hard: Vec<Band>,
}

impl Ranks for Threads {
    fn soft(&mut self, band: Band) {
        self.soft = band;
    }

    fn promote(&mut self, task: usize) {
        self.hard[task] = Band::Hard;
    }
}

impl Cpu {
    fn new(hard_tasks: usize, manager: Manager, jobs: &[Job], late: Duration) -> Self {
        let promotes = matches!(manager, Manager::Promotions(_));
        let start = if promotes {
            Band::NotPromoted
        } else {
            Band::Hard
        };
        Self {
            now: 0,
            manager,
            next_look: Some(0),
            late_ns: late.as_nanos(),
            promotions: None,
            state: Threads {
                soft: Band::Background,
                hard: vec![start; hard_tasks],
            },
            jobs: jobs.iter().copied().collect(),
            waiting: vec![Default::default(); hard_tasks + 1],
            hard_done: vec![0; hard_tasks],
            soft_used: 0,
            soft_done: 0,
            soft_done_at: 0,
            completions: Vec::new(),
            served: Vec::new(),
            largest_debt: Duration::ZERO,
            unpromoted: Vec::new(),
        }
    }

    fn run(mut self) -> Self {
        while self.now < LENGTH_NS {
            while let Some(job) = self
                .jobs
                .front()
                .copied()
                .filter(|job| job.release <= self.now)
            {
                self.jobs.pop_front();
                self.waiting[job.task].push_back(job);
            }
            if self.next_look.is_some_and(|look| look <= self.now) {
                self.look();
                continue;
            }
            let release = self.jobs.front().map_or(LENGTH_NS, |job| job.release);
            let until = release
                .min(self.next_look.unwrap_or(LENGTH_NS))
                .min(LENGTH_NS);
            match self.first() {
                Some(task) => self.execute(task, until),
                None => self.now = until,
            }
        }
        self
    }

    fn look(&mut self) {
        let progress = Progress {
            soft_used: Duration::from_nanos(self.soft_used),
            soft_done: self.soft_done,
            soft_done_at: Instant::from_nanos(self.soft_done_at),
            hard_done: &self.hard_done,
        };
        let now = Instant::from_nanos(self.now);
        let next = self.manager.advance(now, &progress, &mut self.state);
        assert!(next.is_none_or(|next| next > now), "{next:?} at {now:?}");
        self.next_look = next.map(|next| next.as_nanos() + self.late_ns);
        if let Manager::Server(server) = &self.manager {
            self.largest_debt = self.largest_debt.max(server.debt());
        }
    }

    /// The thread that runs: the soft one counts behind the hard ones.
    fn first(&self) -> Option<usize> {
        let soft = self.state.hard.len();
        let band = |task: usize| {
            self.state
                .hard
                .get(task)
                .copied()
                .unwrap_or(self.state.soft)
        };
        (0..=soft)
            .filter(|task| !self.waiting[*task].is_empty())
            .min_by_key(|task| (band(*task), *task))
    }

    fn execute(&mut self, task: usize, until: u64) {
        let job = self.waiting[task].front_mut().unwrap();
        let length = job.work.min(until - self.now);
        job.work -= length;
        let from = self.now;
        self.now += length;
        let soft = self.state.hard.len();
        if task == soft {
            self.soft_used += length;
            if self.state.soft == Band::Server {
                self.served.push((from, self.now));
            }
        }
        if self.state.hard.get(task) == Some(&Band::NotPromoted) {
            self.unpromoted.push((task, job.release, self.now));
        }
        if job.work > 0 {
            return;
        }
        let done = self.waiting[task].pop_front().unwrap();
        self.completions.push(Completion {
            task,
            number: done.number,
            release: done.release,
            end: self.now,
        });
        if task == soft {
            self.soft_done += 1;
            self.soft_done_at = self.now;
        } else {
            self.hard_done[task] += 1;
            if let Some(promotions) = &self.promotions {
                // As a thread does it: a job whose promotion has passed begins promoted.
                let next = self.waiting[task].front();
                let late = next.is_some_and(|job| job.release + promotions[task] <= self.now);
                self.state.hard[task] = match late {
                    true => Band::Hard,
                    false => Band::NotPromoted,
                };
            }
        }
    }

    /// The most that soft jobs got in the band of the server within a window of that length, of those
    /// that begin at `starts`.
    fn most_served(&self, length: u64, starts: impl Iterator<Item = u64>) -> u64 {
        let within = |start: u64| -> u64 {
            let overlap = |(from, until): &(u64, u64)| {
                (*until)
                    .min(start + length)
                    .saturating_sub((*from).max(start))
            };
            self.served.iter().map(overlap).sum()
        };
        starts.map(within).max().unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
struct Set {
    tasks: Vec<SporadicTask>,
    jobs: Vec<Job>,
    feasibility: Feasibility,
}

impl Set {
    fn hard(&self) -> Vec<HardTask> {
        let hard = |task: &SporadicTask| HardTask {
            execution: task.execution(),
            period: task.period(),
            deadline: task.deadline(),
            offset: Duration::ZERO,
        };
        self.tasks.iter().map(hard).collect()
    }

    fn arrivals(&self) -> Vec<Instant> {
        let soft = self.jobs.iter().filter(|job| job.task == self.tasks.len());
        soft.map(|job| Instant::from_nanos(job.release)).collect()
    }

    fn arrivals_within(&self, from: u64, until: u64) -> u64 {
        let arrivals = self.arrivals().into_iter().map(Instant::as_nanos);
        arrivals.filter(|at| (from..=until).contains(at)).count() as u64
    }

    /// The largest bearable budget in whole units.
    fn server(&self, rule: ServerKind) -> Option<ServerBudget> {
        let budget = match rule {
            ServerKind::Deferrable => self.feasibility.deferrable_budget,
            _ => self.feasibility.periodic_budget,
        };
        let whole = budget?.as_nanos() / UNIT_NS;
        (whole > 0).then(|| ServerBudget {
            budget: units(whole),
            period: self.feasibility.server_period,
            behind: 0,
        })
    }

    fn served(&self, rule: ServerKind, late: Duration) -> Option<(ServerBudget, Cpu)> {
        let budget = self.server(rule)?;
        let account = BudgetAccount::new(rule, &budget).unwrap();
        let manager = Manager::Server(ServerManager::new(account, self.arrivals()));
        let cpu = Cpu::new(self.tasks.len(), manager, &self.jobs, late).run();
        Some((budget, cpu))
    }

    fn promoted(&self, late: Duration) -> Cpu {
        let periods = self.tasks.iter().map(SporadicTask::period);
        let promotions = self.feasibility.promotions.iter().copied();
        let manager = PromotionManager::new(periods.zip(promotions.clone()));
        let manager = Manager::Promotions(manager);
        let mut cpu = Cpu::new(self.tasks.len(), manager, &self.jobs, late);
        cpu.promotions = Some(promotions.map(Duration::as_nanos).collect());
        cpu.run()
    }

    fn simulated(&self, policy: Policy) -> Vec<Completion> {
        let system = System {
            hard: self.hard(),
            policy,
            overheads: HostOverheads::default(),
            costs: AperiodicCosts::default(),
        };
        let mut seen: Vec<Completion> = Vec::new();
        let horizon = Some(Duration::from_nanos(LENGTH_NS));
        simulate_aperiodic(&system, &mut self.jobs.as_slice(), &mut seen, horizon).unwrap();
        sorted(seen)
    }
}

fn sorted(mut completions: Vec<Completion>) -> Vec<Completion> {
    completions.sort_unstable_by_key(|done| (done.end, done.number));
    completions
}

fn any_set() -> impl Strategy<Value = Set> {
    let task = (
        prop::sample::select(vec![50_u64, 80, 100, 200, 400]),
        1_u64..40,
    );
    let soft = (0_u64..LENGTH_NS / UNIT_NS, 1_u64..60);
    let parts = (
        prop::collection::vec(task, 1..4),
        prop::collection::vec(soft, 1..40),
    );
    parts.prop_filter_map("not schedulable", |(mut tasks, soft)| {
        tasks.sort_unstable();
        let tasks: Vec<SporadicTask> = tasks
            .into_iter()
            .map(|(period, work)| SporadicTask::implicit(units(work), units(period)).unwrap())
            .collect();
        let feasibility = Feasibility::of(&tasks, Duration::ZERO).unwrap()?;
        let mut jobs: Vec<(u64, usize, u64)> = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            let period = task.period().as_nanos();
            let releases = (0..LENGTH_NS / period).map(|number| number * period);
            jobs.extend(releases.map(|release| (release, index, task.execution().as_nanos())));
        }
        let soft = soft.into_iter();
        jobs.extend(soft.map(|(at, work)| (at * UNIT_NS, tasks.len(), work * UNIT_NS)));
        jobs.sort_unstable();
        let numbered = jobs.into_iter().enumerate();
        let jobs = numbered.map(|(number, (release, task, work))| Job {
            delay_ns: 0,
            task,
            number: number as u64,
            release,
            work,
        });
        Some(Set {
            jobs: jobs.collect(),
            tasks,
            feasibility,
        })
    })
}

const RULES: [ServerKind; 3] = [
    ServerKind::Polling,
    ServerKind::Deferrable,
    ServerKind::Sporadic,
];

proptest! {
    #[test]
    fn a_manager_that_is_on_time_runs_what_the_simulator_says(set in any_set()) {
        for rule in RULES {
            let Some((budget, cpu)) = set.served(rule, Duration::ZERO) else { continue };
            let expected = set.simulated(Policy::Server { rule, budget, spills: true });
            prop_assert_eq!(sorted(cpu.completions), expected, "{:?}", rule);
            prop_assert_eq!(cpu.largest_debt, Duration::ZERO);
        }
    }

    #[test]
    fn promotions_are_those_of_the_simulator(set in any_set()) {
        let promotions = set.feasibility.promotions.clone();
        let cpu = set.promoted(Duration::ZERO);
        let gain = Gain::None;
        let expected = set.simulated(Policy::DualPriority { promotions, gain });
        prop_assert_eq!(sorted(cpu.completions), expected);
    }

    #[test]
    fn no_period_gets_more_than_its_budget(set in any_set()) {
        for rule in RULES {
            let Some((budget, cpu)) = set.served(rule, Duration::ZERO) else { continue };
            let period = budget.period.as_nanos();
            let on_grid = (0..LENGTH_NS / period).map(|number| number * period);
            prop_assert!(cpu.most_served(period, on_grid) <= budget.budget.as_nanos(), "{:?}", rule);
            if rule == ServerKind::Sporadic {
                // It has no grid: the promise holds for every window.
                let starts: Vec<u64> = cpu.served.iter().map(|(from, _)| *from).collect();
                prop_assert!(cpu.most_served(period, starts.into_iter()) <= budget.budget.as_nanos());
            }
        }
    }

    #[test]
    fn a_late_manager_overruns_by_its_lateness_and_pays_back(set in any_set(), late_us in 0_u64..400) {
        let late = Duration::from_micros(late_us);
        for rule in RULES {
            let Some((budget, cpu)) = set.served(rule, late) else { continue };
            let period = budget.period.as_nanos();
            // Late at its begin, when the budget before still pays, and late at its end.
            let most = (budget.budget + late + late + COARSENESS).as_nanos();
            let windows: Vec<u64> = match rule {
                // It has no grid.
                ServerKind::Sporadic => cpu.served.iter().map(|(from, _)| *from).collect(),
                _ => (0..LENGTH_NS / period).map(|number| number * period).collect(),
            };
            for start in windows {
                // A sporadic server's budget comes back in as many parts as there were arrivals, each of
                // them dated by a late look.
                let parts = match rule {
                    ServerKind::Sporadic => set.arrivals_within(start.saturating_sub(period), start + period),
                    _ => 0,
                };
                let got = cpu.most_served(period, [start].into_iter());
                let most = most + parts * late.as_nanos();
                prop_assert!(got <= most, "{:?}: {} {:?} {:?}", rule, got, budget, cpu.served);
            }
            prop_assert!(cpu.largest_debt <= late + COARSENESS, "{:?}: {}", rule, cpu.largest_debt);
            let served: u64 = cpu.served.iter().map(|(from, until)| until - from).sum();
            let given = budget.budget.as_nanos() * (LENGTH_NS / period + 1);
            prop_assert!(served <= given + (late + late + COARSENESS).as_nanos(), "{:?}", rule);
        }
    }

    #[test]
    fn a_late_manager_loses_no_budget_that_jobs_were_there_for(
        before_us in 1_u64..1000,
        late_us in 0_u64..1000,
        number in 1_u64..5,
    ) {
        // A job is done, which nobody has seen yet. Another one comes before a point of the grid; both are
        // seen before that point, or after.
        let (budget, period) = (units(20), units(100));
        let ran = units(1);
        let due = period * number;
        let arrival = due.saturating_sub(Duration::from_micros(before_us));
        let seen = arrival + Duration::from_micros(late_us);
        let at = |since: Duration| Instant::ORIGIN + since;
        let begun = due.saturating_sub(period);
        let progress = |done: usize| Progress {
            soft_used: ran * done as u64,
            soft_done: done,
            soft_done_at: at(begun + ran),
            hard_done: &[],
        };
        for rule in [ServerKind::Polling, ServerKind::Deferrable] {
            let account = BudgetAccount::new(rule, &ServerBudget { budget, period, behind: 0 }).unwrap();
            let mut server = ServerManager::new(account, vec![at(begun), at(arrival)]);
            let mut threads = Threads { soft: Band::Background, hard: Vec::new() };
            server.advance(at(begun), &progress(0), &mut threads);
            for look in [seen, due.max(seen)] {
                server.advance(at(look), &progress(1), &mut threads);
            }
            prop_assert_eq!((threads.soft, server.account.left()), (Band::Server, budget), "{:?}", rule);
        }
    }

    #[test]
    fn a_late_manager_promotes_no_later_than_it_is_late(set in any_set(), late_us in 0_u64..400) {
        let late = Duration::from_micros(late_us);
        let cpu = set.promoted(late);
        for (task, release, until) in cpu.unpromoted {
            let due = release + set.feasibility.promotions[task].as_nanos();
            prop_assert!(until <= due + late.as_nanos(), "task {}: {} {}", task, release, until);
        }
    }
}
