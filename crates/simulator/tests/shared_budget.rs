//! One budget of several CPUs: by hand, and against a simulation that knows nothing else.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, Guest, HierarchyError, HierarchyPlan, LevelMember, Piece, PlannedTask, Rank, Rule,
    ServerKind, Sink, VirtualCpu, simulate_plan,
};
use tailbound_simulator::traces::{Setting, Tee};
use tailbound_time::Duration;

use crate::plans::{jobs, level, ns, task};
use crate::traces::audit::Audit;

/// The end of each job, what ran, and when the budget was used up.
#[derive(Default)]
struct Story {
    ends: Vec<u64>,
    pieces: Vec<Piece>,
    ran_out: Vec<(usize, u64)>,
}

impl Sink for Story {
    fn completed(&mut self, completion: &Completion) {
        self.ends[completion.number as usize] = completion.end;
    }

    fn ran(&mut self, piece: &Piece) {
        self.pieces.push(*piece);
    }

    fn ran_out(&mut self, reservation: usize, at: u64) {
        self.ran_out.push((reservation, at));
    }
}

fn story(plan: &HierarchyPlan, list: &[(usize, u64, u64)]) -> Story {
    let mut story = Story {
        ends: vec![0; list.len()],
        ..Story::default()
    };
    let mut audit = Audit::new(Setting::of(plan));
    let mut sinks = Tee(&mut story, &mut audit);
    simulate_plan(plan, &mut jobs(list).as_slice(), &mut sinks, None).unwrap();
    assert_eq!(audit.verdict(), Ok(()));
    story
}

/// A guest that spends one budget on so many CPUs, with tasks of ranks from 0 on.
fn guest(cpus: usize, budget_ns: u64, period_ns: u64, tasks: u64) -> Guest {
    let vcpu = VirtualCpu {
        rank: Rank::Fixed(1),
        rule: Rule::Server(ServerKind::Deferrable),
        budget: ns(budget_ns),
        period: ns(period_ns),
        phase: Duration::ZERO,
    };
    let ranks = (0..tasks).map(|rank| PlannedTask::of_rank(Rank::Fixed(rank)));
    Guest {
        vcpus: vec![vcpu; cpus],
        shares_budget: true,
        tasks: ranks.collect(),
    }
}

/// The guest with its virtual CPUs pinned one by one, and other members of the host beside it.
fn beside(guest: Guest, others: Vec<(usize, LevelMember)>) -> HierarchyPlan {
    let cpus = guest.vcpus.len();
    let (other_cpus, members): (Vec<usize>, Vec<LevelMember>) = others.into_iter().unzip();
    let all = [LevelMember::Guest(guest)].into_iter().chain(members);
    HierarchyPlan {
        pinned: (0..cpus).chain(other_cpus).collect(),
        ..HierarchyPlan::global(cpus, level(all.collect()))
    }
}

#[test]
fn the_budget_is_spent_as_fast_as_cpus_spend_it() {
    let plan = beside(guest(2, 12, 10, 3), Vec::new());
    // Two of three run until 6, when 12 are spent; from 10 on 0 and 1 are done by 12, and 2 has one CPU.
    let seen = story(&plan, &[(0, 0, 8), (1, 0, 8), (2, 0, 5)]);
    assert_eq!(seen.ends, [12, 12, 17]);
    let at: Vec<u64> = seen.ran_out.iter().map(|(_, at)| *at).collect();
    assert_eq!(at, [6, 6]);
    // One alone never uses it up, though it is longer than its period.
    assert_eq!(story(&plan, &[(0, 0, 25)]).ends, [25]);
    assert_eq!(
        story(&beside(guest(2, 6, 10, 1), Vec::new()), &[(0, 0, 8)]).ends,
        [12]
    );
}

#[test]
fn what_comes_first_on_a_cpu_leaves_the_budget_to_the_others() {
    // CPU 0 is taken until 4, so that the budget is spent by one CPU alone, and by two until 6.
    let plan = beside(guest(2, 8, 10, 2), vec![(0, task(0))]);
    let seen = story(&plan, &[(0, 0, 6), (1, 0, 6), (2, 0, 4)]);
    assert_eq!(seen.ends, [14, 6, 4]);
}

#[test]
fn unlike_virtual_cpus_and_inner_guests_share_no_budget() {
    let refused =
        |plan: &HierarchyPlan| simulate_plan(plan, &mut [].as_slice(), &mut Vec::new(), None).err();
    let mut unlike = guest(2, 12, 10, 1);
    unlike.vcpus[1].budget = ns(11);
    let unlike = refused(&beside(unlike, Vec::new()));
    assert_eq!(
        unlike,
        Some(HierarchyError::SharedByUnlike { reservation: 2 })
    );
    let mut periodic = guest(2, 12, 10, 1);
    for vcpu in &mut periodic.vcpus {
        vcpu.rule = Rule::Server(ServerKind::Periodic);
    }
    let periodic = refused(&beside(periodic, Vec::new()));
    assert_eq!(
        periodic,
        Some(HierarchyError::SharedByUnlike { reservation: 1 })
    );
    let long = refused(&beside(guest(2, 21, 10, 1), Vec::new()));
    assert!(
        matches!(
            long,
            Some(HierarchyError::Reservation { reservation: 1, .. })
        ),
        "{long:?}"
    );
    let inner = crate::plans::reservation(
        0,
        Rule::Unlimited,
        0,
        0,
        vec![LevelMember::Guest(guest(2, 12, 10, 1))],
    );
    assert_eq!(
        refused(&HierarchyPlan::on_one_cpu(level(vec![inner]))),
        Some(HierarchyError::SharedInside)
    );
}

/// The ends of jobs (task, release, work) of a guest that has its CPUs for itself: of the tasks with work as many as CPUs
/// run, the first ones first, until the budget is used up.
fn ends_by_rule(guest: &Guest, list: &[(usize, u64, u64)]) -> Vec<u64> {
    let cpus = guest.vcpus.len() as u64;
    let (budget, period) = (
        guest.vcpus[0].budget.as_nanos(),
        guest.vcpus[0].period.as_nanos(),
    );
    let mut work: Vec<u64> = list.iter().map(|(_, _, work)| *work).collect();
    let mut ends = vec![0; list.len()];
    let (mut now, mut left) = (0, budget);
    while work.iter().any(|work| *work > 0) {
        // The first job of each task, in the order of the ranks.
        let mut first: Vec<usize> = Vec::new();
        for rank in 0..guest.tasks.len() {
            let released = |job: &usize| list[*job].0 == rank && list[*job].1 <= now;
            first.extend((0..list.len()).find(|job| released(job) && work[*job] > 0));
        }
        first.truncate(if left < cpus { 0 } else { cpus as usize });
        let releases = list.iter().map(|(_, release, _)| *release);
        let next = releases
            .filter(|release| *release > now)
            .min()
            .unwrap_or(u64::MAX);
        let next = next.min((now / period + 1) * period);
        let done = first
            .iter()
            .map(|job| now + work[*job])
            .min()
            .unwrap_or(next);
        let spent = left
            .checked_div(first.len() as u64)
            .map_or(next, |each| now + each);
        let length = next.min(done).min(spent) - now;
        now += length;
        left -= length * first.len() as u64;
        for job in first {
            work[job] -= length;
            if work[job] == 0 {
                ends[job] = now;
            }
        }
        if now.is_multiple_of(period) {
            left = budget;
        }
    }
    ends
}

fn lists(tasks: usize) -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    let job = (0..tasks, 0_u64..120, 1_u64..40);
    proptest::collection::vec(job, 1..12).prop_map(|mut list| {
        list.sort_by_key(|(_, release, _)| *release);
        list
    })
}

fn guests() -> impl Strategy<Value = Guest> {
    (1_usize..4, 3_u64..30, 1_u64..5).prop_flat_map(|(cpus, period, tasks)| {
        let most = cpus as u64 * period;
        (cpus as u64..=most).prop_map(move |budget| guest(cpus, budget, period, tasks))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn jobs_end_as_by_the_rule_alone(
        (guest, list) in guests().prop_flat_map(|guest| {
            let tasks = guest.tasks.len();
            (Just(guest), lists(tasks))
        }),
    ) {
        let expected = ends_by_rule(&guest, &list);
        let seen = story(&beside(guest.clone(), Vec::new()), &list);
        prop_assert_eq!(seen.ends, expected, "{:?} {:?}", guest, list);
    }

    #[test]
    fn no_period_gets_more_than_the_budget_and_no_job_two_cpus(
        (guest, list) in guests().prop_flat_map(|guest| {
            let tasks = guest.tasks.len() + 2;
            (Just(guest), lists(tasks))
        }),
        others in proptest::collection::vec((0_usize..4, 0_u64..3), 2),
    ) {
        let (cpus, count) = (guest.vcpus.len(), guest.tasks.len());
        let others = others.into_iter().map(|(cpu, rank)| (cpu % cpus, task(rank)));
        let plan = beside(guest.clone(), others.collect());
        let mut pieces = story(&plan, &list).pieces;
        pieces.retain(|piece| piece.task < count);
        let (budget, period) = (guest.vcpus[0].budget.as_nanos(), guest.vcpus[0].period.as_nanos());
        let end = pieces.iter().map(|piece| piece.until).max().unwrap_or(0);
        for begin in (0..=end).step_by(period as usize) {
            let within = |piece: &Piece| {
                piece.until.min(begin + period).saturating_sub(piece.from.max(begin))
            };
            let used: u64 = pieces.iter().map(within).sum();
            prop_assert!(used <= budget, "{used} of {budget} from {begin} on");
        }
        for (index, one) in pieces.iter().enumerate() {
            let meets = |other: &&Piece| other.from < one.until && one.from < other.until;
            let mut others = pieces[index + 1..].iter().filter(meets);
            prop_assert!(others.all(|other| other.cpu != one.cpu && other.task != one.task));
        }
    }
}
