//! Random systems, and the response-time analysis that says which of them are schedulable.

use proptest::prelude::*;
use tailbound_simulator::HostOverheads;
use tailbound_simulator::aperiodic::{
    AperiodicCosts, HardTask, Policy, ServerBudget, System, Usage, simulate_aperiodic,
};
use tailbound_simulator::hierarchy::{Completion, Job};
use tailbound_time::Duration;

pub fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

/// A hard task in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub worst: u64,
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub offset: u64,
}

impl Task {
    pub fn new(worst: u64, period_ns: u64, deadline_ns: u64) -> Self {
        Self {
            worst,
            period_ns,
            deadline_ns,
            offset: 0,
        }
    }
}

/// Tasks by rank, and all jobs in order of release.
#[derive(Clone, Debug)]
pub struct Set {
    pub tasks: Vec<Task>,
    pub jobs: Vec<Job>,
}

impl Set {
    pub fn system(&self, policy: Policy) -> System {
        let hard = self.tasks.iter().map(|task| HardTask {
            execution: ns(task.worst),
            period: ns(task.period_ns),
            deadline: ns(task.deadline_ns),
            offset: ns(task.offset),
        });
        System {
            hard: hard.collect(),
            policy,
            overheads: HostOverheads::default(),
            costs: AperiodicCosts::default(),
        }
    }

    pub fn run(&self, policy: Policy) -> Vec<Completion> {
        run(&self.system(policy), &self.jobs).0
    }

    /// The end of every soft job, in order of release.
    pub fn soft_ends(&self, policy: Policy) -> Vec<u64> {
        let soft = self.tasks.len();
        let completions = self.run(policy);
        let soft = completions.iter().filter(|done| done.task == soft);
        soft.map(|done| done.end).collect()
    }

    /// The worst-case response times below a server of that budget, period and jitter in front;
    /// nothing if a deadline may be missed.
    pub fn response_times(&self, server: Option<(u64, u64, u64)>) -> Option<Vec<u64>> {
        let mut before: Vec<(u64, u64, u64)> = server.into_iter().collect();
        let mut responses = Vec::new();
        for task in &self.tasks {
            let mut window = task.worst;
            loop {
                let interference = before.iter().map(|(worst, period_ns, jitter_ns)| {
                    (window + jitter_ns).div_ceil(*period_ns) * worst
                });
                let next = task.worst + interference.sum::<u64>();
                if next > task.deadline_ns {
                    return None;
                }
                if next == window {
                    break;
                }
                window = next;
            }
            responses.push(window);
            before.push((task.worst, task.period_ns, 0));
        }
        Some(responses)
    }

    /// The latest promotions that are safe.
    pub fn promotions(&self) -> Option<Vec<Duration>> {
        let responses = self.response_times(None)?;
        let pairs = self.tasks.iter().zip(responses);
        Some(
            pairs
                .map(|(task, response)| ns(task.deadline_ns - response))
                .collect(),
        )
    }

    /// The first hard job that is done after its deadline.
    pub fn missed(&self, completions: &[Completion]) -> Option<Completion> {
        completions.iter().copied().find(|done| {
            let task = self.tasks.get(done.task);
            task.is_some_and(|task| done.end > done.release + task.deadline_ns)
        })
    }
}

pub fn run(system: &System, mut jobs: &[Job]) -> (Vec<Completion>, Usage) {
    let mut completions = Vec::new();
    let usage = simulate_aperiodic(system, &mut jobs, &mut completions, None).unwrap();
    (completions, usage)
}

pub fn budget(budget_ns: u64, period_ns: u64) -> ServerBudget {
    ServerBudget {
        budget: ns(budget_ns),
        period: ns(period_ns),
        behind: 0,
    }
}

/// Hard jobs up to about `until`, with what each leaves of its worst case, and soft jobs.
fn jobs(tasks: &[Task], left: &[u64], soft: &[(u64, u64)], until: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut left = left.iter().cycle();
    for (index, task) in tasks.iter().enumerate() {
        let mut release = task.offset;
        while release < until {
            let work = task.worst - left.next().unwrap_or(&0) % task.worst;
            jobs.push((release, index, work));
            release += task.period_ns;
        }
    }
    let mut at = 0;
    for (gap, work) in soft {
        at += gap;
        jobs.push((at, tasks.len(), *work));
    }
    jobs.sort_unstable();
    let numbered = jobs.iter().enumerate();
    numbered
        .map(|(number, (release, task, work))| Job {
            delay_ns: 0,
            task: *task,
            number: number as u64,
            release: *release,
            work: *work,
        })
        .collect()
}

prop_compose! {
    fn a_task()(period_ns in 4_u64..30)(
        period_ns in Just(period_ns),
        worst in 1..=(period_ns / 2).max(1),
        shorter in 0..=period_ns / 3,
        offset in prop_oneof![Just(0), 0..period_ns],
    ) -> Task {
        let deadline_ns = (period_ns - shorter).max(worst);
        Task { worst, period_ns, deadline_ns, offset }
    }
}

prop_compose! {
    /// Sets of up to five tasks that are schedulable without soft jobs; jobs leave parts of their worst
    /// case, or none.
    pub fn a_set()(
        mut tasks in prop::collection::vec(a_task(), 1..6),
        left in prop_oneof![Just(vec![0]), prop::collection::vec(0_u64..8, 1..20)],
        soft in prop::collection::vec((0_u64..25, 1_u64..9), 0..12),
    ) -> Set {
        tasks.sort_by_key(|task| task.deadline_ns);
        let mut set = Set { tasks: Vec::new(), jobs: Vec::new() };
        for task in tasks {
            set.tasks.push(task);
            if set.response_times(None).is_none() {
                set.tasks.pop();
            }
        }
        set.jobs = jobs(&set.tasks, &left, &soft, 200);
        set
    }
}
