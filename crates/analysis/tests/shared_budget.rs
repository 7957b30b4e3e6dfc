//! A budget that two CPUs share: its admission against simulations slot by slot, and what is shown of the tasks on it
//! against simulations of its rule.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::admission::{AdmissionRefusal, HostLimits, Reserved, admit};
use tailbound_analysis::interfaces::{MultiprocessorPeriodic, Workload, schedulable_global_edf};
use tailbound_model::{BackendKind, BudgetScope, Cpu, Priority, ResourceInterface, ServerKind};
use tailbound_simulator::hierarchy::{
    Completion, Guest, HierarchyPlan, Job, Level, LevelMember, PlannedTask, Rank, Rule, Sink,
    VirtualCpu, simulate_plan,
};
use tailbound_time::Duration;

/// The CPUs of the simulations.
const CPUS: usize = 2;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// A reservation on one CPU, or on all that share its budget.
#[derive(Clone, Debug)]
struct Spender {
    name: String,
    backend: BackendKind,
    interface: ResourceInterface,
}

impl Spender {
    fn new(name: &str, (budget, period): (u64, u64), rank: u8, cpus: &[u32]) -> Self {
        Self {
            name: name.into(),
            backend: BackendKind::DsFreeze,
            interface: ResourceInterface {
                budget: ms(budget),
                period: ms(period),
                priority: Priority(rank),
                cpus: cpus.iter().copied().map(Cpu).collect(),
                budget_scope: BudgetScope::AllCpus,
                windows: Vec::new(),
                slack: Vec::new(),
            },
        }
    }

    fn reserved(&self) -> Reserved<'_> {
        Reserved {
            domain: &self.name,
            place: None,
            backend: self.backend,
            interface: &self.interface,
            server: (self.backend == BackendKind::DsFreeze).then_some(ServerKind::Deferrable),
            on_common_grid: true,
        }
    }

    fn slots(length: Duration) -> u64 {
        length.as_nanos() / ms(1).as_nanos()
    }

    fn is_on(&self, cpu: usize) -> bool {
        self.interface.cpus.contains(&Cpu(cpu as u32))
    }
}

fn admitted(all: &[Spender]) -> Result<(), AdmissionRefusal> {
    let all: Vec<Reserved<'_>> = all.iter().map(Spender::reserved).collect();
    admit(&[], &all, &HostLimits::default())
}

#[test]
fn alone_a_shared_budget_may_be_longer_than_its_period() {
    let of = |budget| [Spender::new("a", (budget, 100), 50, &[0, 1])];
    assert_eq!(admitted(&of(186)), Ok(()));
    let Err(AdmissionRefusal::TooMuch { fits, .. }) = admitted(&of(187)) else {
        panic!("two CPUs of 93% each do not give 187%");
    };
    assert_eq!(fits, ms(186));
}

#[test]
fn beside_others_a_shared_budget_counts_whole_on_each_cpu() {
    let beside = |shared, budget, cpu| {
        admitted(&[
            Spender::new("shared", (shared, 10), 50, &[0, 1]),
            Spender::new("beside", (budget, 10), 60, &[cpu]),
        ])
    };
    assert_eq!(beside(5, 4, 1), Ok(()));
    let Err(AdmissionRefusal::TooMuch { cpu, fits, .. }) = beside(5, 5, 1) else {
        panic!("5 ms of the shared budget may all be spent on CPU 1");
    };
    assert_eq!((cpu, fits), (Cpu(1), Duration::from_micros(4_300)));
    assert!(beside(12, 1, 0).is_err(), "one CPU may be taken whole");
}

#[test]
fn a_shared_budget_is_not_admitted_where_its_use_may_make_others_pause() {
    let pair = |period| {
        [
            Spender::new("shared", (period / 2, period), 60, &[0, 1]),
            Spender::new("beside", (period / 4, period), 50, &[1]),
        ]
    };
    assert_eq!(admitted(&pair(40)), Ok(()));
    let refused = admitted(&pair(2_000));
    assert!(
        matches!(&refused, Err(AdmissionRefusal::NotJudged { domain, reason, .. })
            if domain == "shared" && reason.contains("pause")),
        "{refused:?}"
    );
}

#[test]
fn a_cap_of_all_cpus_counts_its_part_of_each() {
    let cap = |name, budget| {
        let backend = BackendKind::CfsQuota;
        let spender = Spender::new(name, (budget, 10), 50, &[0, 1]);
        Spender { backend, ..spender }
    };
    assert_eq!(admitted(&[cap("a", 12), cap("b", 8)]), Ok(()));
    assert!(admitted(&[cap("a", 12), cap("b", 9)]).is_err());
}

/// A reservation in the course of a simulation.
struct Course<'a> {
    spender: &'a Spender,
    /// Whether it has work for a CPU in a slot.
    asks: [Vec<bool>; CPUS],
    left: u64,
    /// The time that the CPUs gave in this period.
    given: [u64; CPUS],
    /// Whether it has asked a CPU for all of its time since the period began, until the budget was used up.
    always: [bool; CPUS],
}

impl Course<'_> {
    /// Ends a period: whether it got what it was promised. All CPUs together give the budget; one of them gives as much
    /// of it as fits into a period.
    fn is_kept(&self) -> bool {
        let own = (0..CPUS).filter(|cpu| self.spender.is_on(*cpu));
        let most = Spender::slots(self.spender.interface.budget_on_one_cpu());
        let all_ask = own.clone().all(|cpu| self.always[cpu]);
        let by_one = own
            .filter(|cpu| self.always[*cpu])
            .all(|cpu| self.given[cpu] >= most);
        self.left == 0 || by_one && !all_ask
    }
}

/// Whether each reservation gets what it was promised, slot by slot, on CPUs that each run what has the highest priority.
fn promises_are_kept(courses: &mut [Course<'_>], slots: usize) -> bool {
    let mut kept = true;
    for slot in 0..slots {
        for one in courses.iter_mut() {
            let interface = &one.spender.interface;
            if (slot as u64).is_multiple_of(Spender::slots(interface.period)) {
                kept &= slot == 0 || one.is_kept();
                one.left = Spender::slots(interface.budget);
                (one.given, one.always) = ([0; CPUS], [true; CPUS]);
            }
            for cpu in 0..CPUS {
                one.always[cpu] &= one.left == 0 || one.asks[cpu][slot];
            }
        }
        for cpu in 0..CPUS {
            let ready = courses
                .iter_mut()
                .filter(|one| one.left > 0 && one.spender.is_on(cpu) && one.asks[cpu][slot]);
            if let Some(first) = ready.max_by_key(|one| one.spender.interface.priority) {
                first.left -= 1;
                first.given[cpu] += 1;
            }
        }
    }
    kept
}

/// A shared budget and up to three on one CPU each, of different priorities.
fn spenders() -> impl Strategy<Value = Vec<Spender>> {
    let length = |most: u64| (4_u64..13).prop_flat_map(move |p| (1..=p * most / 2, Just(p)));
    let others = proptest::collection::vec((length(1), 0_u32..2), 0..3);
    (length(4), others, 0_u8..4).prop_map(|(shared, others, place)| {
        let rank = |index: u8| 40 + 2 * index;
        let mut all = vec![Spender::new("shared", shared, rank(place) - 1, &[0, 1])];
        for (index, (length, cpu)) in others.into_iter().enumerate() {
            let index = index as u8;
            all.push(Spender::new(
                &format!("on-one-{index}"),
                length,
                rank(index),
                &[cpu],
            ));
        }
        all
    })
}

/// Counts the jobs that are done after their deadlines.
struct Lateness {
    deadlines: Vec<Duration>,
    late: u64,
}

impl Sink for Lateness {
    fn completed(&mut self, completion: &Completion) {
        // The others have none.
        let Some(deadline) = self.deadlines.get(completion.task) else {
            return;
        };
        let due = completion.release + deadline.as_nanos();
        self.late += u64::from(completion.end > due);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn who_is_admitted_gets_what_it_was_promised(
        set in spenders(),
        numbers in proptest::collection::vec(0_u64..1_000, 97),
    ) {
        prop_assume!(admitted(&set).is_ok());
        let mut numbers = numbers.iter().cycle();
        let mut number = |below: u64| numbers.next().unwrap() % below;
        let slots = 240;
        let mut stretches = || {
            let mut asks = Vec::new();
            let mut on = true;
            while asks.len() < slots {
                let length = if on { 1 + number(40) } else { number(12) };
                asks.extend(std::iter::repeat_n(on, length as usize));
                on = !on;
            }
            asks
        };
        let mut courses: Vec<Course<'_>> = Vec::new();
        for spender in &set {
            let asks = [stretches(), stretches()];
            let (given, always) = ([0; CPUS], [true; CPUS]);
            courses.push(Course { spender, asks, left: 0, given, always });
        }
        prop_assert!(promises_are_kept(&mut courses, slots), "{set:?}");
    }

    /// The work ahead leaves the budget at the begin of one period and at the end of the next one, on both CPUs alike:
    /// the longest time without supply.
    #[test]
    fn tasks_that_are_shown_to_be_in_time_are_in_simulations(
        tasks in proptest::collection::vec((1_u64..9, 8_u64..60), 2..6),
        (half_budget, period) in (3_u64..25).prop_flat_map(|period| (1..=period, Just(period))),
        offsets in proptest::collection::vec(0_u64..50, 6),
    ) {
        let budget = CPUS as u64 * half_budget;
        let sporadic = tasks.iter().map(|(work, gap)| SporadicTask::implicit(ms(*work), ms(*gap)));
        let workload = Workload::new(sporadic.collect::<Result<_, _>>().unwrap()).unwrap();
        let resource = MultiprocessorPeriodic::new(ms(budget), ms(period), CPUS as u32).unwrap();
        prop_assume!(schedulable_global_edf(&workload, &resource).is_ok_and(|verdict| verdict.schedulable));
        let vcpu = VirtualCpu {
            rank: Rank::Fixed(1),
            rule: Rule::Server(ServerKind::Deferrable),
            budget: ms(budget),
            period: ms(period),
            phase: Duration::ZERO,
        };
        let by_deadline = tasks.iter().map(|(_, gap)| PlannedTask::of_rank(Rank::Deadline(ms(*gap))));
        let guest = LevelMember::Guest(Guest {
            vcpus: vec![vcpu; CPUS],
            shares_budget: true,
            tasks: by_deadline.collect(),
        });
        let first = || LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(0)));
        let plan = HierarchyPlan {
            pinned: vec![0, 1, 0, 1],
            ..HierarchyPlan::global(CPUS, Level::of(vec![guest, first(), first()]))
        };
        let job = |task, release, work| Job {
            delay_ns: 0,
            task,
            number: 0,
            release: ms(release).as_nanos(),
            work: ms(work).as_nanos(),
        };
        let mut jobs = Vec::new();
        for (task, ((work, gap), offset)) in tasks.iter().zip(&offsets).enumerate() {
            let releases = (*offset..400).step_by(*gap as usize);
            jobs.extend(releases.map(|release| job(task, release, *work)));
        }
        for begin in (0..800).step_by(period as usize).filter(|_| half_budget < period) {
            let is_early = (begin / period).is_multiple_of(2);
            let release = if is_early { begin + half_budget } else { begin };
            jobs.extend([0, 1].map(|cpu| job(tasks.len() + cpu, release, period - half_budget)));
        }
        jobs.sort_by_key(|job| job.release);
        let deadlines = tasks.iter().map(|(_, gap)| ms(*gap));
        let mut late = Lateness { deadlines: deadlines.collect(), late: 0 };
        simulate_plan(&plan, &mut jobs.as_slice(), &mut late, None).unwrap();
        prop_assert_eq!(late.late, 0);
    }
}
