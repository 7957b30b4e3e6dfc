//! Soft tasks of descriptions: what holds of the policies holds of hosts that have them.

use proptest::prelude::*;
use tailbound_model::{
    Aperiodic, AperiodicCosts, AperiodicPolicy, Description, Gain, InputFiles, Priority, Scheduling,
};
use tailbound_simulator::host::{
    HostError, HostQuery, HostSimulation, Kept, MOST_EVENTS, lay_out, simulate_host,
};
use tailbound_time::Duration;

use super::sets::{Set, a_set, ns};

/// A tick of a set, in nanoseconds.
const TICK_NS: u64 = 100_000;

fn ticks(count: u64) -> Duration {
    ns(count * TICK_NS)
}

/// The hard tasks of a set by priority, and two soft tasks behind them, in the background.
fn description(set: &Set, overheads: bool) -> Description {
    let mut text = String::from(
        r#"
        schema_version = 1
        name = "soft"
        hosts.here.cpus = [0, 1]
        domains.other = { kind = "process", cpus = [1], builtin = "cpu-hog" }
        [domains.plant]
        kind = "process"
        pids = [1]
        cpus = [0]
        scheduling = "fixed-priority"
        [domains.plant.tasks.asked]
        arrivals = { kind = "poisson", rate = "150/s" }
        execution_time = { kind = "uniform", min = "100us", max = "900us" }
        priority = 1
        [domains.plant.tasks.told]
        arrivals = { kind = "periodic", period = "7ms", offset = "1ms" }
        execution_time = { kind = "constant", value = "300us" }
        priority = 1
        "#,
    );
    if overheads {
        text += "[hosts.here.overheads]\ncontext_switch = \"3us\"\nscheduler_invocation = \"1us\"\n\
                 tick = { period = \"4ms\", cost = \"5us\" }\n";
    }
    for (rank, task) in set.tasks.iter().enumerate() {
        text += &format!(
            "[domains.plant.tasks.hard{rank}]\npriority = {}\ndeadline = \"{}\"\n\
             arrivals = {{ kind = \"periodic\", period = \"{}\", offset = \"{}\" }}\n\
             execution_time = {{ kind = \"uniform\", min = \"1us\", max = \"{}\" }}\n",
            80 - rank,
            ticks(task.deadline_ns),
            ticks(task.period_ns),
            ticks(task.offset),
            ticks(task.worst),
        );
    }
    tailbound_model::parse(&text, "soft.toml").unwrap()
}

/// The same under a policy.
fn under(mut description: Description, policy: AperiodicPolicy, gain: Gain) -> Description {
    let domain = description.domains.get_mut("plant").unwrap();
    let soft = ["asked", "told"];
    for task in soft {
        domain.tasks.get_mut(task).unwrap().priority = None;
    }
    let mut aperiodic = Aperiodic::of(policy, soft.map(str::to_owned).to_vec());
    aperiodic.gain = gain;
    if policy == AperiodicPolicy::PriorityExchange {
        aperiodic.budget = Some(ticks(1));
        aperiodic.period = Some(ticks(40));
        aperiodic.priority = Some(Priority(90));
    }
    domain.aperiodic = Some(aperiodic);
    // What `check` would say of the file is said of it here.
    let text = tailbound_model::to_toml(&description).unwrap();
    tailbound_model::parse(&text, "under.toml").unwrap()
}

fn simulated(description: &Description) -> Result<HostSimulation, HostError> {
    simulate_host(&HostQuery {
        description,
        host: "here",
        inputs: &InputFiles::default(),
        seed: 3,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(300),
        kept: Kept::All,
        most_events: MOST_EVENTS,
    })
}

/// Response times of a task, in order.
fn responses(simulation: &HostSimulation, task: &str) -> Vec<Duration> {
    let mut tasks = simulation.domains["plant"].tasks.iter();
    let result = tasks.find(|result| result.name == task).unwrap();
    let times = result.response_times.as_ref().map(|times| times.samples());
    times.map(<[Duration]>::to_vec).unwrap_or_default()
}

const POLICIES: [(AperiodicPolicy, Gain); 7] = [
    (AperiodicPolicy::DualPriority, Gain::None),
    (AperiodicPolicy::DualPriority, Gain::Own),
    (AperiodicPolicy::DualPriority, Gain::Propagated),
    (AperiodicPolicy::DualPriority, Gain::Both),
    (AperiodicPolicy::SlackStealing, Gain::None),
    (AperiodicPolicy::SlackStealing, Gain::Propagated),
    (AperiodicPolicy::PriorityExchange, Gain::None),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn soft_tasks_of_a_domain_do_no_harm(set in a_set(), overheads: bool) {
        prop_assume!(!set.tasks.is_empty());
        let background = simulated(&description(&set, overheads)).unwrap();
        for (policy, gain) in POLICIES {
            let described = under(description(&set, overheads), policy, gain);
            let laid = lay_out(&described, "here", &InputFiles::default()).unwrap();
            let system = laid.plans[0].aperiodic.as_ref().unwrap();
            // With overheads not every set is schedulable any more, and a budget needs room.
            let bears = match policy {
                AperiodicPolicy::PriorityExchange => {
                    !overheads && set.response_times(Some((1, 40, 0))).is_some()
                }
                _ => super::promotions(&system.hard, system.overheads.tick)
                    .iter()
                    .all(Option::is_some),
            };
            let simulation = simulated(&described).unwrap();
            let domain = &simulation.domains["plant"];
            for task in domain.tasks.iter().filter(|task| task.name.starts_with("hard")) {
                prop_assert!(!bears || task.missed == 0, "{policy:?} {gain:?}: {task:?}");
            }
            if overheads {
                continue;
            }
            let work = |simulation: &HostSimulation| simulation.domains["plant"].used_ns;
            prop_assert_eq!(work(&simulation), work(&background));
            // Soft jobs have one queue under both, so that the n-th one ends no later.
            for task in ["asked", "told"] {
                let (ours, theirs) = (responses(&simulation, task), responses(&background, task));
                prop_assert_eq!(ours.len(), theirs.len());
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    prop_assert!(ours <= theirs, "{policy:?} {gain:?} {task}");
                }
            }
        }
    }

    #[test]
    fn promotions_are_what_the_response_times_leave(set in a_set()) {
        let system = set.system(tailbound_simulator::aperiodic::Policy::Background);
        let promotions: Option<Vec<Duration>> =
            super::promotions(&system.hard, None).into_iter().collect();
        prop_assert_eq!(promotions, set.promotions());
    }
}

#[test]
fn costs_of_a_policy_are_taken() {
    let set = Set {
        tasks: vec![super::sets::Task::new(3, 10, 10)],
        jobs: Vec::new(),
    };
    for (policy, gain) in POLICIES {
        let free = under(description(&set, false), policy, gain);
        let mut costly = free.clone();
        let domain = costly.domains.get_mut("plant").unwrap();
        let cost = Duration::from_micros(7);
        domain.aperiodic.as_mut().unwrap().costs = AperiodicCosts {
            replenishment: cost,
            promotion: cost,
            slack_per_task: cost,
            gain: cost,
        };
        let overhead = |described| {
            let simulation = simulated(described).unwrap();
            simulation.cpus[0].overhead_share
        };
        assert!(
            overhead(&free) == 0.0 && overhead(&costly) > 0.0,
            "{policy:?} {gain:?}"
        );
    }
}

#[test]
fn what_a_policy_does_not_go_with_is_refused_without_check_too() {
    let set = Set {
        tasks: vec![super::sets::Task::new(3, 10, 10)],
        jobs: Vec::new(),
    };
    let good = under(
        description(&set, false),
        AperiodicPolicy::DualPriority,
        Gain::None,
    );
    type Breaking = fn(&mut Description);
    let broken: [(Breaking, &str); 5] = [
        (
            |it| it.domains.get_mut("other").unwrap().cpus.clear(),
            "domains.plant.cpus: other may run on this CPU, too; give the others `cpus`",
        ),
        (
            |it| it.domains.get_mut("plant").unwrap().scheduling = Scheduling::Fifo,
            "domains.plant.scheduling: hard tasks beside soft ones have fixed priorities",
        ),
        (
            |it| it.hosts.get_mut("here").unwrap().speeds = vec![50, 100],
            "domains.plant.cpus: the policy counts on a CPU of full speed",
        ),
        (
            |it| it.domains.get_mut("plant").unwrap().cpus.clear(),
            "domains.plant.cpus: the policy is for one CPU, and the domain has 2",
        ),
        (
            |it| {
                let plant = it.domains.get_mut("plant").unwrap();
                plant.tasks.get_mut("hard0").unwrap().execution_time =
                    tailbound_model::ExecutionTime::Samples {
                        file: "samples.csv".into(),
                    };
            },
            "domains.plant.tasks.hard0.execution_time: nothing tells the longest execution time",
        ),
    ];
    for (breaking, expected) in broken {
        let mut description = good.clone();
        breaking(&mut description);
        let error = simulated(&description).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn what_is_late_in_any_case_is_told_and_runs() {
    let set = Set {
        tasks: vec![
            super::sets::Task::new(6, 10, 10),
            super::sets::Task::new(5, 10, 10),
        ],
        jobs: Vec::new(),
    };
    let described = under(
        description(&set, false),
        AperiodicPolicy::DualPriority,
        Gain::None,
    );
    let simulation = simulated(&described).unwrap();
    let said = "plant.hard1 may miss deadlines under any policy (worst-case response time): \
                promoted at once";
    assert!(
        simulation.assumptions.iter().any(|it| it == said),
        "{:?}",
        simulation.assumptions
    );
}
