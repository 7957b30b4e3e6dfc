//! A simulation that goes from tick to tick and decides anew at each of them.

use std::collections::VecDeque;

use proptest::prelude::*;
use tailbound_simulator::aperiodic::{Gain, Policy, ServerBudget, ServerKind};
use tailbound_simulator::hierarchy::{Completion, Job};

use super::properties::DUAL_GAINS;
use super::sets::{Set, a_set, ns};

/// A hard job with all that any policy knows of it.
#[derive(Clone, Copy, Debug)]
struct ActiveJob {
    job: Job,
    left: u64,
    executed: u64,
    /// Executed before it was promoted.
    early: u64,
    promoted: bool,
    /// Of a job that is done: what it has not used.
    ghost: u64,
}

struct Ticks<'a> {
    set: &'a Set,
    now: u64,
    active: Vec<ActiveJob>,
    /// Jobs that are done and left something, one per task at most.
    ghosts: Vec<Option<ActiveJob>>,
    soft: VecDeque<Job>,
    done: Vec<Completion>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// A position among the active ones.
    Hard(usize),
    Soft,
    Nobody,
}

impl<'a> Ticks<'a> {
    fn new(set: &'a Set) -> Self {
        Self {
            set,
            now: 0,
            active: Vec::new(),
            ghosts: vec![None; set.tasks.len()],
            soft: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Runs everything; `decide` is asked at every tick, `passed` told of it.
    fn run(mut self, mut decide: impl FnMut(&mut Self) -> Who) -> Vec<Completion> {
        let mut coming: VecDeque<Job> = self.set.jobs.iter().copied().collect();
        while !(coming.is_empty() && self.active.is_empty() && self.soft.is_empty()) {
            while coming.front().is_some_and(|job| job.release <= self.now) {
                let job = coming.pop_front().unwrap();
                if job.task == self.set.tasks.len() {
                    self.soft.push_back(job);
                } else {
                    self.active.push(ActiveJob {
                        job,
                        left: job.work,
                        executed: 0,
                        early: 0,
                        promoted: false,
                        ghost: 0,
                    });
                    self.active.sort_by_key(|active| active.job.task);
                }
            }
            let who = decide(&mut self);
            self.now += 1;
            self.serve(who);
        }
        self.done
    }

    fn serve(&mut self, who: Who) {
        let finished = match who {
            Who::Nobody => None,
            Who::Soft => {
                let first = self.soft.front_mut().unwrap();
                first.work -= 1;
                (first.work == 0).then(|| self.soft.pop_front().unwrap())
            }
            Who::Hard(position) => {
                let active = &mut self.active[position];
                active.left -= 1;
                active.executed += 1;
                active.early += u64::from(!active.promoted);
                let worst = self.set.tasks[active.job.task].worst;
                (active.left == 0).then(|| {
                    let mut active = self.active.remove(position);
                    active.ghost = worst - active.executed;
                    self.ghosts[active.job.task] = Some(active);
                    active.job
                })
            }
        };
        if let Some(job) = finished {
            self.done.push(Completion {
                task: job.task,
                number: job.number,
                release: job.release,
                end: self.now,
            });
        }
    }

    fn first_hard(&self) -> Who {
        if self.active.is_empty() {
            Who::Nobody
        } else {
            Who::Hard(0)
        }
    }

    fn soft_or_first_hard(&self) -> Who {
        if self.soft.is_empty() {
            self.first_hard()
        } else {
            Who::Soft
        }
    }

    fn first_hard_or_soft(&self) -> Who {
        match self.first_hard() {
            Who::Nobody if !self.soft.is_empty() => Who::Soft,
            who => who,
        }
    }
}

/// The full budget at every multiple of the period; the polling one is gone when there is no work.
fn grid_server(
    set: &Set,
    polling: bool,
    budget_ns: u64,
    period_ns: u64,
    behind: usize,
) -> Vec<Completion> {
    let mut left = 0;
    Ticks::new(set).run(|ticks| {
        if ticks.now.is_multiple_of(period_ns) {
            left = budget_ns;
        }
        if polling && ticks.soft.is_empty() {
            left = 0;
        }
        let comes_first = ticks
            .active
            .first()
            .is_none_or(|first| first.job.task >= behind);
        if !ticks.soft.is_empty() && left > 0 && comes_first {
            left -= 1;
            // Completions come before releases: this one leaves nothing behind.
            if polling && ticks.soft.len() == 1 && ticks.soft[0].work == 1 {
                left = 0;
            }
            return Who::Soft;
        }
        ticks.first_hard_or_soft()
    })
}

fn priority_exchange(set: &Set, budget_ns: u64, period_ns: u64, behind: usize) -> Vec<Completion> {
    // Stores by place: before each hard task its own, in front of that of `behind` the server's.
    let mut server = 0;
    let mut beside = vec![0_u64; set.tasks.len() + 1];
    Ticks::new(set).run(|ticks| {
        if ticks.now.is_multiple_of(period_ns) {
            server = budget_ns;
        }
        let first = ticks
            .active
            .first()
            .map_or(set.tasks.len(), |first| first.job.task);
        if !ticks.soft.is_empty() {
            if server > 0 && behind <= first {
                server -= 1;
                return Who::Soft;
            }
            if let Some(held) = beside[..=first].iter_mut().find(|held| **held > 0) {
                *held -= 1;
                return Who::Soft;
            }
            return ticks.first_hard_or_soft();
        }
        let taken = if server > 0 && behind <= first {
            server -= 1;
            true
        } else if let Some(held) = beside[..first].iter_mut().find(|held| **held > 0) {
            *held -= 1;
            true
        } else {
            false
        };
        if taken && first < set.tasks.len() {
            beside[first] += 1;
        }
        ticks.first_hard()
    })
}

fn dual_priority(set: &Set, gain: Gain) -> Vec<Completion> {
    let after = set.promotions().unwrap();
    let own = matches!(gain, Gain::Own | Gain::Both);
    let propagated = matches!(gain, Gain::Propagated | Gain::Both);
    let promotion = |active: &ActiveJob| {
        let early = if own { active.early } else { 0 };
        active.job.release + after[active.job.task].as_nanos() + early
    };
    Ticks::new(set).run(|ticks| {
        for active in &mut ticks.active {
            active.promoted |= ticks.now >= promotion(active);
        }
        for task in 0..set.tasks.len() {
            if let Some(ghost) = &mut ticks.ghosts[task]
                && propagated
                && ghost.ghost > 0
                && (ghost.promoted || ticks.now >= promotion(ghost))
            {
                ghost.ghost -= 1;
                return ticks.soft_or_first_hard();
            }
            let promoted = ticks
                .active
                .iter()
                .position(|active| active.job.task == task && active.promoted);
            if let Some(position) = promoted {
                return Who::Hard(position);
            }
        }
        ticks.soft_or_first_hard()
    })
}

/// The formula, evaluated anew at every tick, which passes on all gain at once.
fn slack_stealing(set: &Set) -> Vec<Completion> {
    let mut next: Vec<u64> = set.tasks.iter().map(|task| task.offset).collect();
    Ticks::new(set).run(|ticks| {
        let now = ticks.now;
        let mut rest = vec![None; set.tasks.len()];
        for active in &ticks.active {
            let task = &set.tasks[active.job.task];
            rest[active.job.task] = Some((active.job.release, task.worst - active.executed));
            next[active.job.task] = active.job.release + task.period_ns;
        }
        let slack = |index: usize| {
            let own = &set.tasks[index];
            let (release, work) = rest[index].unwrap_or((next[index], own.worst));
            let due = release + own.deadline_ns;
            let mut taken = work;
            for other in 0..index {
                taken += rest[other].map_or(0, |(_, work)| work);
                let mut release = next[other];
                while release < due {
                    taken += set.tasks[other].worst.min(due - release);
                    release += set.tasks[other].period_ns;
                }
            }
            (due - now).saturating_sub(taken)
        };
        match ticks.active.first() {
            Some(first) if !ticks.soft.is_empty() => {
                let least = (first.job.task..set.tasks.len()).map(slack).min().unwrap();
                if least > 0 {
                    Who::Soft
                } else {
                    ticks.first_hard()
                }
            }
            _ => ticks.first_hard_or_soft(),
        }
    })
}

/// By number: who is done at one instant may come in any order.
fn sorted(mut completions: Vec<Completion>) -> Vec<Completion> {
    completions.sort_by_key(|done| done.number);
    completions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn budgets_are_as_from_tick_to_tick(
        set in a_set(),
        period_ns in 3_u64..20,
        part in 1_u64..20,
        place in 0_usize..6,
    ) {
        let budget_ns = part.min(period_ns);
        let behind = place.min(set.tasks.len());
        let budget = ServerBudget { budget: ns(budget_ns), period: ns(period_ns), behind };
        for rule in [ServerKind::Polling, ServerKind::Deferrable] {
            let polling = rule == ServerKind::Polling;
            let ours = set.run(Policy::Server { rule, budget, spills: true });
            let theirs = grid_server(&set, polling, budget_ns, period_ns, behind);
            prop_assert_eq!(sorted(ours), sorted(theirs), "{:?}", rule);
        }
        let ours = set.run(Policy::PriorityExchange(budget));
        let theirs = priority_exchange(&set, budget_ns, period_ns, behind);
        prop_assert_eq!(sorted(ours), sorted(theirs));
    }

    #[test]
    fn promotions_are_as_from_tick_to_tick(set in a_set()) {
        for gain in DUAL_GAINS {
            let promotions = set.promotions().unwrap();
            let ours = set.run(Policy::DualPriority { promotions, gain });
            prop_assert_eq!(sorted(ours), sorted(dual_priority(&set, gain)), "{:?}", gain);
        }
    }

    #[test]
    fn the_counters_of_slack_are_what_the_formula_yields(set in a_set()) {
        let ours = set.run(Policy::SlackStealing { gain: Gain::Propagated });
        prop_assert_eq!(sorted(ours), sorted(slack_stealing(&set)));
    }
}
