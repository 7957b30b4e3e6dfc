//! Tasks alone on a CPU have an engine of their own. What it tells is what the general engine tells, call
//! by call; a reservation in which nothing ever runs makes the general one do the work.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyError, HierarchyPlan, Job, JobSource, Level, LevelMember, PeriodicJobs,
    PeriodicSource, Piece, PlannedReservation, PlannedTask, Rank, Rule, SimulationEnd, Sink,
    simulate_plan,
};
use tailbound_time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Released(Job),
    Ran(Piece),
    Completed(Completion),
    Other,
}

/// All calls, in order.
#[derive(Default)]
struct Calls(Vec<Call>);

impl Sink for Calls {
    fn completed(&mut self, completion: &Completion) {
        self.0.push(Call::Completed(*completion));
    }

    fn released(&mut self, job: &Job) {
        self.0.push(Call::Released(*job));
    }

    fn ran(&mut self, piece: &Piece) {
        self.0.push(Call::Ran(*piece));
    }

    fn overhead(&mut self, _cpu: usize, _from: u64, _until: u64) {
        self.0.push(Call::Other);
    }

    fn ran_out(&mut self, _reservation: usize, _at: u64) {
        self.0.push(Call::Other);
    }

    fn replenished(&mut self, _reservation: usize, _at: u64) {
        self.0.push(Call::Other);
    }
}

/// The tasks, inside of so many reservations without a limit that take turns with nobody.
fn plan(ranks: &[Rank], depth: usize, in_general: bool) -> HierarchyPlan {
    let level = |members| Level::of(members);
    let unlimited = |inside| {
        LevelMember::Reservation(PlannedReservation {
            rank: Rank::Fixed(0),
            rule: Rule::Unlimited,
            budget: Duration::ZERO,
            period: Duration::ZERO,
            phase: Duration::ZERO,
            inside,
        })
    };
    let tasks = ranks
        .iter()
        .map(|rank| LevelMember::Task(PlannedTask::of_rank(*rank)));
    let idle = unlimited(level(Vec::new()));
    let innermost = level(tasks.chain(in_general.then_some(idle)).collect());
    let root = (0..depth).fold(innermost, |inside, _| Level {
        quantum: Some(Duration::from_nanos(2)),
        ..level(vec![unlimited(inside)])
    });
    HierarchyPlan::on_one_cpu(root)
}

type Recorded = (Result<SimulationEnd, HierarchyError>, Vec<Call>);

/// What is told, and what is left of the source.
fn calls_of<S: JobSource>(
    ranks: &[Rank],
    depth: usize,
    in_general: bool,
    mut source: S,
    horizon: Option<u64>,
) -> (Recorded, S) {
    let mut calls = Calls::default();
    let horizon = horizon.map(Duration::from_nanos);
    let plan = plan(ranks, depth, in_general);
    let outcome = simulate_plan(&plan, &mut source, &mut calls, horizon);
    ((outcome, calls.0), source)
}

fn ranks() -> impl Strategy<Value = Vec<Rank>> {
    let fixed = (0_u64..8).prop_map(Rank::Fixed);
    let deadline = (0_u64..20).prop_map(|it| Rank::Deadline(Duration::from_nanos(it)));
    let in_any_order = Just((0..6).map(Rank::Fixed).collect::<Vec<_>>()).prop_shuffle();
    prop_oneof![
        in_any_order,
        prop::collection::vec(fixed.clone(), 1..7),
        prop::collection::vec(deadline.clone(), 1..7),
        prop::collection::vec(prop_oneof![fixed, deadline], 1..7),
    ]
}

/// Jobs by task, release and work. Some lists end where time does; some are out of order, or have a task
/// that the plan does not have.
fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let start = prop_oneof![9 => Just(0), 1 => Just((1_u64 << 63) - 60)];
    let list = prop::collection::vec((0_usize..100, 0_u64..60, 0_u64..7), 0..40);
    (list, start, 0..10).prop_map(|(list, start, kind)| {
        let mut jobs: Vec<Job> = list
            .into_iter()
            .map(|(task, release, work)| Job {
                delay_ns: 0,
                task,
                number: 0,
                release: start + release,
                work,
            })
            .collect();
        if kind > 0 {
            jobs.sort_by_key(|job| job.release);
        }
        for (number, job) in jobs.iter_mut().enumerate() {
            job.number = number as u64;
            job.task %= 7;
        }
        jobs
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn tasks_alone_run_as_in_the_general_engine(
        ranks in ranks(), mut jobs in jobs(), horizon in prop::option::of(0_u64..100), valid in 0..8,
        depth in 0_usize..4,
    ) {
        if valid > 0 {
            jobs.iter_mut().for_each(|job| job.task %= ranks.len());
        }
        let flat = calls_of(&ranks, depth, false, jobs.as_slice(), horizon);
        let general = calls_of(&ranks, depth, true, jobs.as_slice(), horizon);
        prop_assert_eq!(flat, general);
    }

    #[test]
    fn periodic_tasks_alone_run_as_in_the_general_engine(
        ranks in ranks(), most in 0_u64..60, horizon in prop::option::of(0_u64..100),
        tasks in prop::collection::vec((0_u64..20, 1_u64..30, 0_u64..9), 6), depth in 0_usize..4,
    ) {
        let tasks = tasks.iter().take(ranks.len()).map(|(offset, period, work)| PeriodicSource {
            offset: *offset,
            period_ns: *period,
            work: *work,
        });
        let source = PeriodicJobs::new(tasks.collect(), most);
        let (flat, mut rest) = calls_of(&ranks, depth, false, source.clone(), horizon);
        let (general, mut general_rest) = calls_of(&ranks, depth, true, source, horizon);
        prop_assert_eq!(flat, general);
        prop_assert_eq!(rest.take(), general_rest.take());
    }
}
