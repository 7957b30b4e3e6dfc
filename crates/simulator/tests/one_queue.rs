//! Tasks that share one queue for several CPUs have an engine of their own. Its schedule is the general
//! engine's, piece by piece, whether pieces may be told late or not; a lock that nobody uses makes the
//! general one do the work.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, Guest, HierarchyError, HierarchyPlan, Job, LevelMember, LockProtocol, Piece,
    PlannedTask, Rank, Rule, SimulationEnd, Sink, VirtualCpu, simulate_plan,
};

use crate::plans::{level, ns};

/// What is told of a schedule; pieces may be whole or not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Story<const WHOLE: bool> {
    pub released: Vec<Job>,
    pub completed: Vec<Completion>,
    pub pieces: Vec<Piece>,
    /// The reservations that ran out or got budget back, and when.
    pub budgets: Vec<(&'static str, usize, u64)>,
    /// All that is told, in order.
    pub calls: Vec<String>,
}

impl<const WHOLE: bool> Sink for Story<WHOLE> {
    const WHOLE_PIECES: bool = WHOLE;

    fn completed(&mut self, completion: &Completion) {
        self.completed.push(*completion);
        self.calls.push(format!("{completion:?}"));
    }

    fn released(&mut self, job: &Job) {
        self.released.push(*job);
        self.calls.push(format!("{job:?}"));
    }

    fn ran(&mut self, piece: &Piece) {
        assert!(piece.from < piece.until, "{piece:?}");
        self.pieces.push(*piece);
        self.calls.push(format!("{piece:?}"));
    }

    fn ran_out(&mut self, reservation: usize, at: u64) {
        self.budgets.push(("ran out", reservation, at));
        self.calls.push(format!("{:?}", self.budgets.last()));
    }

    fn replenished(&mut self, reservation: usize, at: u64) {
        self.budgets.push(("replenished", reservation, at));
        self.calls.push(format!("{:?}", self.budgets.last()));
    }
}

impl<const WHOLE: bool> Story<WHOLE> {
    pub fn of(
        plan: &HierarchyPlan,
        mut jobs: &[Job],
        horizon: Option<u64>,
    ) -> (Self, Result<SimulationEnd, HierarchyError>) {
        let mut story = Self::default();
        let outcome = simulate_plan(plan, &mut jobs, &mut story, horizon.map(ns));
        story.join();
        (story, outcome)
    }

    /// Makes one piece of what a CPU did without a break.
    fn join(&mut self) {
        self.pieces.sort_by_key(|piece| (piece.cpu, piece.from));
        let mut joined: Vec<Piece> = Vec::new();
        for piece in self.pieces.drain(..) {
            let before = joined.last_mut().filter(|before| {
                let until = piece.until;
                Piece {
                    from: before.until,
                    until,
                    ..**before
                } == piece
            });
            match before {
                Some(before) => before.until = piece.until,
                None => joined.push(piece),
            }
        }
        self.pieces = joined;
    }
}

/// The plan with a lock that nobody uses.
fn in_general(plan: &HierarchyPlan) -> HierarchyPlan {
    HierarchyPlan {
        locks: vec![LockProtocol::None],
        ..plan.clone()
    }
}

/// The tasks on so many CPUs of a host, or of a guest whose virtual CPUs have every second CPU.
fn plan(ranks: &[Rank], cpus: usize, in_guest: bool) -> HierarchyPlan {
    let tasks = ranks.iter().map(|rank| PlannedTask::of_rank(*rank));
    if !in_guest {
        return HierarchyPlan::global(cpus, level(tasks.map(LevelMember::Task).collect()));
    }
    let vcpu = |_| VirtualCpu {
        rank: Rank::Fixed(0),
        rule: Rule::Unlimited,
        budget: ns(0),
        period: ns(0),
        phase: ns(0),
    };
    let guest = Guest {
        shares_budget: false,
        vcpus: (0..cpus).map(vcpu).collect(),
        tasks: tasks.collect(),
    };
    HierarchyPlan {
        pinned: (0..cpus).map(|cpu| 2 * cpu + 1).collect(),
        ..HierarchyPlan::global(2 * cpus, level(vec![LevelMember::Guest(guest)]))
    }
}

fn ranks() -> impl Strategy<Value = Vec<Rank>> {
    let fixed = (0_u64..8).prop_map(Rank::Fixed);
    let deadline = (0_u64..20).prop_map(|it| Rank::Deadline(ns(it)));
    prop_oneof![
        prop::collection::vec(fixed.clone(), 1..12),
        prop::collection::vec(deadline.clone(), 1..12),
        prop::collection::vec(prop_oneof![fixed, deadline], 1..12),
    ]
}

/// Some lists end where time does; some are out of order.
fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let start = prop_oneof![9 => Just(0), 1 => Just((1_u64 << 63) - 60)];
    let list = prop::collection::vec((0_usize..100, 0_u64..60, 0_u64..9), 0..60);
    (list, start, 0..10).prop_map(|(mut list, start, kind)| {
        if kind > 0 {
            list.sort_by_key(|(_, release, _)| *release);
        }
        let jobs = list.into_iter().zip(0..);
        jobs.map(|((task, release, work), number)| Job {
            delay_ns: 0,
            task,
            number,
            release: start + release,
            work,
        })
        .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn one_queue_runs_as_in_the_general_engine(
        ranks in ranks(), mut jobs in jobs(), cpus in 1_usize..6, in_guest: bool,
        horizon in prop::option::of(0_u64..100), valid in 0..8,
    ) {
        if valid > 0 {
            jobs.iter_mut().for_each(|job| job.task %= ranks.len());
        }
        let plan = plan(&ranks, cpus, in_guest);
        let (whole, outcome) = Story::<true>::of(&plan, &jobs, horizon);
        let (in_order, again) = Story::<false>::of(&plan, &jobs, horizon);
        let (general, expected) = Story::<false>::of(&in_general(&plan), &jobs, horizon);
        prop_assert_eq!(&outcome, &expected);
        prop_assert_eq!(&again, &expected);
        prop_assert_eq!(whole.released, general.released);
        prop_assert_eq!(whole.completed, general.completed);
        prop_assert_eq!(&in_order.calls, &general.calls);
        if outcome.is_ok() {
            prop_assert_eq!(&whole.pieces, &general.pieces);
            prop_assert_eq!(in_order.pieces, general.pieces);
        }
    }
}
