//! What theory says of every schedule, on random ones.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Level, LevelMember, Piece, PlannedReservation, PlannedTask,
    Rank, Rule, ServerKind, Sink, simulate_plan,
};

use crate::plans::{jobs, ns};

/// The stretches of time in which the CPU is busy, the longest ones that there are.
#[derive(Default)]
struct Busy(Vec<(u64, u64)>);

impl Sink for Busy {
    fn completed(&mut self, _completion: &Completion) {}

    fn ran(&mut self, piece: &Piece) {
        match self.0.last_mut() {
            Some(last) if last.1 == piece.from => last.1 = piece.until,
            _ => self.0.push((piece.from, piece.until)),
        }
    }
}

impl Busy {
    fn of(plan: &HierarchyPlan, jobs: &[Job]) -> Self {
        let mut busy = Self::default();
        simulate_plan(plan, &mut &jobs[..], &mut busy, None).unwrap();
        busy
    }

    fn before(&self, at: u64) -> u64 {
        let until = |(from, until): &(u64, u64)| (*until).min(at).saturating_sub(*from);
        self.0.iter().map(until).sum()
    }
}

const TASKS: usize = 4;

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    prop::collection::vec((0..TASKS, 0_u64..200, 1_u64..9), 1..50).prop_map(|list| jobs(&list))
}

/// Levels that never idle while there is work.
fn work_conserving() -> Vec<Level> {
    let members = |rank: &dyn Fn(u64) -> Rank| {
        let task = |index| LevelMember::Task(PlannedTask::of_rank(rank(index)));
        (0..TASKS as u64).map(task).collect::<Vec<LevelMember>>()
    };
    let level = |preemptive, quantum, members| Level {
        preemptive,
        quantum,
        members,
    };
    vec![
        level(true, None, members(&Rank::Fixed)),
        level(false, None, members(&Rank::Fixed)),
        level(true, None, members(&|_| Rank::Fixed(0))),
        level(true, Some(ns(3)), members(&|_| Rank::Fixed(0))),
        level(
            true,
            None,
            members(&|index| Rank::Deadline(ns(5 * index + 3))),
        ),
        level(
            false,
            None,
            members(&|index| Rank::Deadline(ns(5 * index + 3))),
        ),
    ]
}

fn alone(rule: Rule, budget_ns: u64, period_ns: u64, phase: u64, inside: Level) -> HierarchyPlan {
    HierarchyPlan::on_one_cpu(Level::of(vec![LevelMember::Reservation(
        PlannedReservation {
            rank: Rank::Fixed(0),
            rule,
            budget: ns(budget_ns),
            period: ns(period_ns),
            phase: ns(phase),
            inside,
        },
    )]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// All policies that never idle while there is work are busy at the same times, on a CPU of their
    /// own and inside of a deferrable reservation.
    #[test]
    fn whoever_runs_the_cpu_is_busy_at_the_same_times(
        jobs in any_jobs(), budget in 1_u64..6, more in 0_u64..6,
    ) {
        let on_cpu = work_conserving().into_iter().map(HierarchyPlan::on_one_cpu);
        let reserved = work_conserving()
            .into_iter()
            .map(|level| alone(Rule::Server(ServerKind::Deferrable), budget, budget + more, 0, level));
        for plans in [on_cpu.collect::<Vec<_>>(), reserved.collect()] {
            let all: Vec<Busy> = plans.iter().map(|plan| Busy::of(plan, &jobs)).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].0 == pair[1].0));
        }
    }

    /// Thesis, Theorem 5: what is left to do at the start of each period is the same for a deferrable
    /// reservation and for a periodic one that is on at the end of each period.
    #[test]
    fn deferrable_and_periodic_have_the_same_backlog_at_each_period(
        jobs in any_jobs(), budget in 1_u64..6, more in 0_u64..6,
    ) {
        let period = budget + more;
        let first = || work_conserving().swap_remove(0);
        let deferrable = Busy::of(&alone(Rule::Server(ServerKind::Deferrable), budget, period, 0, first()), &jobs);
        let periodic = Busy::of(&alone(Rule::Server(ServerKind::Periodic), budget, period, more, first()), &jobs);
        let end = deferrable.0.last().map_or(0, |last| last.1);
        let mut differ_between = false;
        for start in (0..=end + period).step_by(period as usize) {
            prop_assert_eq!(deferrable.before(start), periodic.before(start));
            differ_between |= deferrable.before(start + 1) != periodic.before(start + 1);
        }
        // With the whole period as budget they are one and the same.
        prop_assert!(more > 0 || !differ_between);
    }
}
