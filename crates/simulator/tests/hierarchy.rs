//! Trees of reservations and tasks on one CPU: schedules that can be followed by hand, and a simulation
//! that goes from tick to tick as an oracle.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Level, LevelMember, Piece, PlannedReservation, PlannedTask,
    Rank, Rule, ServerKind, Sink, simulate_plan,
};
use tailbound_time::Duration;

use crate::plans::{jobs, level, ns, reservation, task};

/// The end of each job, by its number.
fn ends(plan: &HierarchyPlan, list: &[(usize, u64, u64)]) -> Vec<u64> {
    let mut completions: Vec<Completion> = Vec::new();
    simulate_plan(plan, &mut jobs(list).as_slice(), &mut completions, None).unwrap();
    completions.sort_by_key(|completion| completion.number);
    completions
        .iter()
        .map(|completion| completion.end)
        .collect()
}

fn plan(members: Vec<LevelMember>) -> HierarchyPlan {
    HierarchyPlan::on_one_cpu(level(members))
}

#[test]
fn the_lower_rank_preempts() {
    let plan = plan(vec![task(2), task(1)]);
    assert_eq!(ends(&plan, &[(0, 0, 5), (1, 2, 2)]), [7, 4]);
}

#[test]
fn without_preemption_a_job_that_has_begun_ends_first() {
    let plan = HierarchyPlan::on_one_cpu(Level {
        preemptive: false,
        ..level(vec![task(2), task(1), task(0)])
    });
    assert_eq!(ends(&plan, &[(0, 0, 5), (1, 2, 2), (2, 3, 1)]), [5, 8, 6]);
}

#[test]
fn equals_take_turns() {
    let plan = HierarchyPlan::on_one_cpu(Level {
        quantum: Some(ns(2)),
        ..level(vec![task(1), task(1), task(0)])
    });
    // 0: 0-2, 1: 2-4, 0: 4-5, then the higher one 5-6, 0: 6-7 (the rest of its turn), 1: 7-9.
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 0, 4), (2, 5, 1)]), [7, 9, 6]);
}

#[test]
fn the_earliest_deadline_comes_first() {
    let by_deadline =
        |relative| LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(ns(relative))));
    let plan = plan(vec![by_deadline(20), by_deadline(5)]);
    // The second of the short ones has its deadline at 14, before that of the long one at 20; the
    // third has it at 21.
    assert_eq!(
        ends(&plan, &[(0, 0, 14), (1, 2, 2), (1, 9, 2), (1, 16, 2)]),
        [18, 4, 11, 20]
    );
}

#[test]
fn a_reservation_leaves_the_rest_to_the_background() {
    let plan = plan(vec![
        reservation(
            1,
            Rule::Server(ServerKind::Deferrable),
            3,
            10,
            vec![task(0)],
        ),
        task(9),
    ]);
    assert_eq!(ends(&plan, &[(0, 0, 5), (1, 0, 8)]), [12, 13]);
}

#[test]
fn an_inner_budget_is_spent_within_the_outer_one() {
    let inner = reservation(0, Rule::Server(ServerKind::Deferrable), 2, 5, vec![task(0)]);
    let plan = plan(vec![reservation(
        0,
        Rule::Server(ServerKind::Deferrable),
        3,
        10,
        vec![inner, task(1)],
    )]);
    // The inner one: 0-2, throttled to 5; the other task 2-3, then the outer budget is used up.
    assert_eq!(ends(&plan, &[(0, 0, 4), (1, 0, 2)]), [12, 13]);
}

#[test]
fn a_soft_server_goes_on_with_a_later_deadline() {
    let server = |rule| {
        LevelMember::Reservation(PlannedReservation {
            rank: Rank::Deadline(Duration::ZERO),
            rule,
            budget: ns(2),
            period: ns(8),
            phase: Duration::ZERO,
            inside: level(vec![task(0)]),
        })
    };
    let other = LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(ns(12))));
    let soft = plan(vec![
        server(Rule::Server(ServerKind::SoftConstantBandwidth)),
        other.clone(),
    ]);
    // Deadlines 8, then 16, which is behind the other's 12; after it the server goes on at once.
    assert_eq!(ends(&soft, &[(0, 0, 6), (1, 0, 3)]), [9, 5]);
    let hard = plan(vec![
        server(Rule::Server(ServerKind::ConstantBandwidth)),
        other,
    ]);
    assert_eq!(ends(&hard, &[(0, 0, 6), (1, 0, 3)]), [18, 5]);
}

#[test]
fn a_burstable_server_keeps_one_budget_for_later() {
    let server = |rule| plan(vec![reservation(0, rule, 2, 10, vec![task(0)])]);
    let burstable = server(Rule::Server(ServerKind::Burstable));
    // However long it was idle, two budgets are there at 35; the third comes at 40.
    assert_eq!(ends(&burstable, &[(0, 35, 6)]), [42]);
    // What is left at 10 of the first budget comes on top: 2 + 1.
    assert_eq!(ends(&burstable, &[(0, 8, 1), (0, 10, 4)]), [9, 21]);
    let deferrable = server(Rule::Server(ServerKind::Deferrable));
    assert_eq!(ends(&deferrable, &[(0, 35, 6)]), [52]);
}

#[test]
fn a_sporadic_server_gets_back_what_it_used_one_period_later() {
    let plan = plan(vec![reservation(
        0,
        Rule::Server(ServerKind::Sporadic),
        4,
        10,
        vec![task(0)],
    )]);
    // 1 used from 0 on comes back at 10, 3 used from 6 on at 16.
    assert_eq!(
        ends(&plan, &[(0, 0, 1), (0, 6, 5), (0, 30, 4)]),
        [1, 17, 34]
    );
}

/// The intervals in which tasks ran.
#[derive(Default)]
struct Usage(Vec<(u64, u64)>);

impl Sink for Usage {
    fn completed(&mut self, _completion: &Completion) {}

    fn ran(&mut self, piece: &Piece) {
        self.0.push((piece.from, piece.until));
    }
}

impl Usage {
    fn of(plan: &HierarchyPlan, list: &[(usize, u64, u64)]) -> Self {
        let mut usage = Self::default();
        simulate_plan(plan, &mut jobs(list).as_slice(), &mut usage, None).unwrap();
        usage
    }

    fn within(&self, from: u64, until: u64) -> u64 {
        let overlap = |(begin, end): &(u64, u64)| end.min(&until).saturating_sub(*begin.max(&from));
        self.0.iter().map(overlap).sum()
    }

    /// The most that was used in any window of this length.
    fn most_within(&self, length: u64) -> u64 {
        let ends = self
            .0
            .iter()
            .flat_map(|(begin, end)| [*begin, end.saturating_sub(length)]);
        ends.map(|from| self.within(from, from + length))
            .max()
            .unwrap_or(0)
    }
}

fn one_task_jobs() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    prop::collection::vec((0_u64..15, 1_u64..8), 1..40).prop_map(|list| {
        let mut now = 0;
        list.into_iter()
            .map(|(gap, work)| {
                now += gap;
                (0, now, work)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_sporadic_server_never_uses_more_than_its_budget_in_a_period(
        budget in 1_u64..8, more in 0_u64..12, list in one_task_jobs(),
    ) {
        let period = budget + more;
        let plan = plan(vec![reservation(0, Rule::Server(ServerKind::Sporadic), budget, period, vec![task(0)])]);
        let usage = Usage::of(&plan, &list);
        prop_assert!(usage.most_within(period) <= budget);
    }

    #[test]
    fn budgets_on_a_grid_hold_in_each_period(
        rule in prop::sample::select(vec![Rule::Server(ServerKind::Deferrable), Rule::Server(ServerKind::Periodic), Rule::Server(ServerKind::Polling)]),
        budget in 1_u64..8, more in 0_u64..12, list in one_task_jobs(),
    ) {
        let period = budget + more;
        let plan = plan(vec![reservation(0, rule, budget, period, vec![task(0)])]);
        let usage = Usage::of(&plan, &list);
        let last = usage.0.last().map_or(0, |(_, end)| *end);
        for start in (0..=last).step_by(period as usize) {
            prop_assert!(usage.within(start, start + period) <= budget);
        }
    }
}

// The oracle.

#[derive(Clone, Debug)]
struct Shape {
    rule: Rule,
    budget_ns: u64,
    period_ns: u64,
    tasks: usize,
}

/// A host with reservations in the order of their ranks, each with tasks in the order of theirs, and a
/// task in the background; the jobs of each task.
fn shapes() -> impl Strategy<Value = (Vec<Shape>, Vec<(usize, u64, u64)>)> {
    let rules = vec![
        Rule::Unlimited,
        Rule::Server(ServerKind::Deferrable),
        Rule::Server(ServerKind::Periodic),
        Rule::Server(ServerKind::Polling),
        Rule::Server(ServerKind::ConstantBandwidth),
        Rule::Server(ServerKind::SoftConstantBandwidth),
        Rule::Server(ServerKind::Burstable),
    ];
    let shape = (prop::sample::select(rules), 1_u64..5, 0_u64..8, 1_usize..3).prop_map(
        |(rule, budget, more, tasks)| Shape {
            rule,
            budget_ns: budget,
            period_ns: budget + more,
            tasks,
        },
    );
    prop::collection::vec(shape, 1..4).prop_flat_map(|shapes| {
        let tasks = shapes.iter().map(|shape| shape.tasks).sum::<usize>() + 1;
        let jobs = prop::collection::vec((0..tasks, 0_u64..80, 1_u64..5), 1..25);
        (Just(shapes), jobs)
    })
}

fn tree(shapes: &[Shape]) -> HierarchyPlan {
    let mut members: Vec<LevelMember> = shapes
        .iter()
        .enumerate()
        .map(|(rank, shape)| {
            let tasks = (0..shape.tasks).map(|rank| task(rank as u64)).collect();
            reservation(
                rank as u64,
                shape.rule.clone(),
                shape.budget_ns,
                shape.period_ns,
                tasks,
            )
        })
        .collect();
    members.push(task(99));
    plan(members)
}

struct TickServer {
    shape: Shape,
    left: u64,
    deadline_ns: u64,
    worked: bool,
}

impl TickServer {
    fn replenish(&mut self, now: u64, has_work: bool) {
        let grid = now.is_multiple_of(self.shape.period_ns);
        match self.shape.rule {
            Rule::Server(ServerKind::Deferrable) | Rule::Server(ServerKind::Periodic) if grid => {
                self.left = self.shape.budget_ns
            }
            Rule::Server(ServerKind::Burstable) if grid && now > 0 => {
                let budget = self.shape.budget_ns;
                self.left = (self.left + budget).min(2 * budget);
            }
            Rule::Server(ServerKind::Polling) if grid && has_work => {
                self.left = self.shape.budget_ns
            }
            Rule::Server(ServerKind::ConstantBandwidth)
                if self.left == 0 && has_work && now >= self.deadline_ns =>
            {
                self.left = self.shape.budget_ns;
                self.deadline_ns += self.shape.period_ns;
            }
            _ => {}
        }
    }

    /// Work has come to an idle server, or has gone.
    fn notice(&mut self, now: u64, has_work: bool) {
        if has_work && !self.worked {
            match self.shape.rule {
                Rule::Server(ServerKind::Polling) if now.is_multiple_of(self.shape.period_ns) => {
                    self.left = self.shape.budget_ns
                }
                Rule::Server(ServerKind::Polling) => self.left = 0,
                Rule::Server(ServerKind::ConstantBandwidth)
                | Rule::Server(ServerKind::SoftConstantBandwidth) => {
                    let stale = now >= self.deadline_ns
                        || self.left * self.shape.period_ns
                            > (self.deadline_ns - now) * self.shape.budget_ns;
                    if stale {
                        self.left = self.shape.budget_ns;
                        self.deadline_ns = now + self.shape.period_ns;
                    }
                }
                _ => {}
            }
        }
        if !has_work && self.shape.rule == Rule::Server(ServerKind::Polling) {
            self.left = 0;
        }
        self.worked = has_work;
    }

    fn may_run(&self) -> bool {
        self.shape.rule == Rule::Unlimited || self.left > 0
    }

    fn spend(&mut self) {
        if self.shape.rule == Rule::Unlimited {
            return;
        }
        self.left -= 1;
        if self.left == 0 && self.shape.rule == Rule::Server(ServerKind::SoftConstantBandwidth) {
            self.left = self.shape.budget_ns;
            self.deadline_ns += self.shape.period_ns;
        }
    }
}

/// From tick to tick, without any thought of events.
fn by_ticks(shapes: &[Shape], list: &[(usize, u64, u64)]) -> Vec<u64> {
    let jobs = jobs(list);
    let mut ends = vec![0; jobs.len()];
    let mut waiting: Vec<Job> = Vec::new();
    let mut servers: Vec<TickServer> = shapes
        .iter()
        .map(|shape| TickServer {
            left: shape.budget_ns,
            shape: shape.clone(),
            deadline_ns: 0,
            worked: false,
        })
        .collect();
    let first_task = |server: usize| shapes[..server].iter().map(|s| s.tasks).sum::<usize>();
    let of = |server: usize| first_task(server)..first_task(server + 1);
    let mut coming = jobs.iter().peekable();
    let mut now = 0;
    while coming.peek().is_some() || !waiting.is_empty() {
        let has =
            |waiting: &[Job], server| waiting.iter().any(|job| of(server).contains(&job.task));
        for (index, server) in servers.iter_mut().enumerate() {
            server.replenish(now, has(&waiting, index));
        }
        waiting.retain(|job| {
            if job.work == 0 {
                ends[job.number as usize] = now;
            }
            job.work > 0
        });
        for (index, server) in servers.iter_mut().enumerate() {
            server.notice(now, has(&waiting, index));
        }
        while let Some(job) = coming.next_if(|job| job.release <= now) {
            waiting.push(*job);
        }
        for (index, server) in servers.iter_mut().enumerate() {
            server.notice(now, has(&waiting, index));
        }
        let mut chosen = None;
        let mut passed = false;
        for (index, server) in servers.iter_mut().enumerate() {
            if has(&waiting, index) && server.may_run() {
                chosen = of(index).find(|task| waiting.iter().any(|job| job.task == *task));
                server.spend();
                break;
            }
            if !passed
                && server.shape.rule == Rule::Server(ServerKind::Periodic)
                && server.may_run()
            {
                server.spend();
                passed = true;
            }
        }
        let background = first_task(servers.len());
        if let Some(job) = waiting
            .iter_mut()
            .find(|job| job.task == chosen.unwrap_or(background))
        {
            job.work -= 1;
        }
        now += 1;
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn from_event_to_event_is_as_from_tick_to_tick((shapes, list) in shapes()) {
        prop_assert_eq!(ends(&tree(&shapes), &list), by_ticks(&shapes, &list));
    }
}
