//! Reservation servers among tasks, against a simulation of their budgets.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::server_interference::{
    interfering_task, response_times_below,
};
use tailbound_model::ServerKind;
use tailbound_time::Duration;

use super::{nanos, task};

/// A server in the simulation.
#[derive(Clone, Debug)]
struct Server {
    rule: ServerKind,
    budget_ticks: u64,
    period_ticks: u64,
    /// The first replenishment.
    phase: u64,
    /// When the server has work; for ever after the end.
    wants: Vec<bool>,
    left: u64,
    /// When a sporadic server regains a tick.
    regains: Vec<u64>,
}

impl Server {
    fn new(
        rule: ServerKind,
        budget_ticks: u64,
        period_ticks: u64,
        phase: u64,
        wants: Vec<bool>,
    ) -> Self {
        // A server that polls had nothing to do before the start, so that its budget is lost.
        let left = if rule == ServerKind::Polling {
            0
        } else {
            budget_ticks
        };
        Self {
            rule,
            budget_ticks,
            period_ticks,
            phase,
            wants,
            left,
            regains: Vec::new(),
        }
    }

    fn wants_at(&self, now: u64) -> bool {
        self.wants.get(now as usize).copied().unwrap_or(true)
    }

    fn replenish(&mut self, now: u64) {
        if self.rule == ServerKind::Sporadic {
            let before = self.regains.len();
            self.regains.retain(|at| *at != now);
            self.left += (before - self.regains.len()) as u64;
        } else if now >= self.phase && (now - self.phase).is_multiple_of(self.period_ticks) {
            self.left = self.budget_ticks;
        }
        if self.rule == ServerKind::Polling && !self.wants_at(now) {
            self.left = 0;
        }
    }

    /// Whether the server takes the tick, if it is its turn.
    fn takes(&mut self, now: u64) -> bool {
        if self.left == 0 {
            return false;
        }
        let wants = self.wants_at(now);
        if wants || self.rule == ServerKind::Periodic {
            self.left -= 1;
        }
        if wants && self.rule == ServerKind::Sporadic {
            self.regains.push(now + self.period_ticks);
        }
        wants
    }
}

/// What competes, by priority.
enum Contender {
    Server(Server),
    /// With all jobs at once and then as often as can be.
    Task {
        task: SporadicTask,
        open: Vec<u64>,
        rest: u64,
        longest: u64,
    },
}

fn contender(task: &SporadicTask) -> Contender {
    Contender::Task {
        task: *task,
        open: Vec::new(),
        rest: 0,
        longest: 0,
    }
}

/// When the tasks start: late enough that servers may have used their budgets before.
const START: u64 = 24;

/// The longest responses of the tasks among the contenders.
fn simulate(contenders: &mut [Contender], horizon: u64) -> Vec<u64> {
    for now in 0..horizon {
        let mut taken = false;
        for contender in contenders.iter_mut() {
            match contender {
                Contender::Server(server) => {
                    server.replenish(now);
                    taken = taken || server.takes(now);
                }
                Contender::Task {
                    task,
                    open,
                    rest,
                    longest,
                } => {
                    let since = now.checked_sub(START);
                    if since.is_some_and(|since| since.is_multiple_of(nanos(task.period()))) {
                        open.push(now);
                    }
                    if taken || open.is_empty() {
                        continue;
                    }
                    taken = true;
                    if *rest == 0 {
                        *rest = nanos(task.execution());
                    }
                    *rest -= 1;
                    if *rest == 0 {
                        *longest = (*longest).max(now + 1 - open.remove(0));
                    }
                }
            }
        }
    }
    let longest = |contender: &Contender| match contender {
        Contender::Server(_) => None,
        Contender::Task { longest, .. } => Some(*longest),
    };
    contenders.iter().filter_map(longest).collect()
}

fn above(rule: ServerKind, budget_ticks: u64, period_ticks: u64) -> SporadicTask {
    let ns = Duration::from_nanos;
    interfering_task(rule, ns(budget_ticks), ns(period_ticks)).unwrap()
}

fn rule() -> impl Strategy<Value = ServerKind> {
    use ServerKind::{Deferrable, Periodic, Polling, Sporadic};
    prop::sample::select(vec![Deferrable, Periodic, Polling, Sporadic])
}

fn budget_and_period() -> impl Strategy<Value = (u64, u64)> {
    (3_u64..12).prop_flat_map(|period| (1..=period / 2, Just(period)))
}

fn light_tasks() -> impl Strategy<Value = Vec<SporadicTask>> {
    let one =
        (1_u64..5, 12_u64..40).prop_map(|(execution, period)| task(execution, period, period, 0));
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Over all phases, with work at once: the worst is the bound, exactly.
    #[test]
    fn one_deferrable_server_above_all_reaches_the_bound(
        (budget, period) in budget_and_period(),
        tasks in light_tasks(),
    ) {
        let order = PriorityOrder::as_given(tasks.len());
        let server = above(ServerKind::Deferrable, budget, period);
        let bounds = response_times_below(&[server], &tasks, &order, &[]).unwrap();
        let mut longest = vec![0; tasks.len()];
        for phase in 0..period {
            let idle = vec![false; START as usize];
            let one = Server::new(ServerKind::Deferrable, budget, period, phase, idle);
            let mut contenders = vec![Contender::Server(one)];
            contenders.extend(tasks.iter().map(contender));
            for (longest, one) in longest.iter_mut().zip(simulate(&mut contenders, 2_000)) {
                *longest = one.max(*longest);
            }
        }
        for (bound, longest) in bounds.tasks.iter().zip(longest) {
            if let Ok(bound) = bound.response_time {
                prop_assert_eq!(nanos(bound), longest);
            }
        }
    }

    /// Servers of all rules, anywhere among the tasks, in all phases, with work at any time.
    #[test]
    fn no_phase_and_no_pattern_of_work_exceeds_the_bound(
        servers in prop::collection::vec((rule(), budget_and_period(), 0_usize..4), 1..3),
        tasks in light_tasks(),
        wants in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..60), 2),
    ) {
        let mut places: Vec<(usize, Option<usize>)> =
            (0..tasks.len()).map(|index| (index, None)).collect();
        for (index, (_, _, place)) in servers.iter().enumerate() {
            let at = places.len().min(*place);
            places.insert(at, (0, Some(index)));
        }
        let as_task = |(own, server_at): &(usize, Option<usize>)| match server_at {
            None => tasks[*own],
            Some(index) => {
                let (rule, (budget, period), _) = servers[*index];
                above(rule, budget, period)
            }
        };
        let all: Vec<_> = places.iter().map(as_task).collect();
        let result = response_times(&all, &PriorityOrder::as_given(all.len()), &[]).unwrap();
        let bounds: Vec<_> = places.iter().zip(&result.tasks)
            .filter(|((_, server), _)| server.is_none())
            .map(|(_, response)| response.response_time)
            .collect();
        let phases = |index: usize| servers.get(index).map_or(1, |(_, (_, period), _)| *period);
        for (first, second) in (0..phases(0)).flat_map(|a| (0..phases(1)).map(move |b| (a, b))) {
            let mut contenders: Vec<_> = places.iter().map(|(own, server_at)| match server_at {
                None => contender(&tasks[*own]),
                Some(index) => {
                    let (rule, (budget, period), _) = servers[*index];
                    let phase = [first, second][*index];
                    let wants = wants[*index].clone();
                    Contender::Server(Server::new(rule, budget, period, phase, wants))
                }
            }).collect();
            for (bound, longest) in bounds.iter().zip(simulate(&mut contenders, 400)) {
                if let Ok(bound) = bound {
                    prop_assert!(longest <= nanos(*bound), "{longest} > {bound}");
                }
            }
        }
    }
}
