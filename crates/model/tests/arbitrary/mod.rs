//! Arbitrary valid descriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use tailbound_model::{
    AgentDescription, AgentLink, AgentPlace, Arrivals, BackendKind, BackendOptions, Bin,
    BudgetScope, Builtin, ChangePolicy, Cpu, CpuWeight, DatabaseLogin, Description, Domain,
    DomainKind, ExecutionTime, Experiment, Gaps, Health, Host, HttpVersion, Interference,
    InterferenceKind, InterruptHandling, LaterDistance, LocalMode, Metric, Mode, ModeChanges,
    NiceValue, Percent, PercentagePoints, Percentile, Placement, PoissonState, Precedence,
    Priority, Protocol, ReceiveContext, Request, RequestsMeanwhile, Reservation, Scheduling,
    Sections, Service, ServiceTls, Slo, Task, TaskStart, ThinkTime, Trigger, UserChange, UserStep,
    Users, Variant, WhenEmpty,
};
use tailbound_time::{Duration, Rate};

const CPUS: u32 = 8;

/// A valid description of up to four domains, each with a service or without.
pub fn description() -> impl Strategy<Value = Description> {
    let parts = vec((name(), domain_and_service()), 0..4);
    let experiment = experiment();
    let modes = option::of((name(), name(), ".*"));
    (
        name(),
        ".{0,40}",
        0..=i64::MAX as u64,
        parts,
        modes,
        experiment,
    )
        .prop_map(|(name, text, seed, parts, modes, experiment)| {
            let mut described = Description {
                schema_version: 1,
                name,
                description: text,
                seed,
                hosts: BTreeMap::from([("host".into(), host(seed))]),
                domains: BTreeMap::new(),
                services: BTreeMap::new(),
                modes: BTreeMap::new(),
                initial_mode: None,
                experiment,
                sections: Sections::default(),
            };
            for (index, (domain_name, (mut domain, service))) in parts.into_iter().enumerate() {
                // A CPU for each reservation, so that their sum never matters.
                if let Some(reservation) = &mut domain.reservation {
                    reservation.cpus = BTreeSet::from([Cpu(index as u32)]);
                }
                let name = format!("{domain_name:.50}-{index}");
                if let Some(mut service) = service {
                    service.domain = name.clone();
                    service.endpoint = match service.protocol {
                        Protocol::IcmpEcho => format!("127.0.0.{}", index + 1),
                        _ => format!("unix:{name}.sock"),
                    };
                    described.services.insert(name.clone(), service);
                }
                described.domains.insert(name, domain);
            }
            if let Some((first, second, text)) = modes {
                add_modes(&mut described, &first, &second, text);
            }
            described
        })
}

fn host(seed: u64) -> Host {
    let thread = InterruptHandling {
        cpus: BTreeSet::from([Cpu(CPUS - 1)]),
        receive: ReceiveContext::Thread,
        priority: Some(Priority(1 + (seed % 90) as u8)),
        budget: Some(Duration::from_micros(100)),
        period: Some(Duration::from_millis(1 + seed % 50)),
        backend: [None, Some(BackendKind::RtGroup)][seed as usize / 2 % 2],
    };
    let softirq = InterruptHandling {
        cpus: thread.cpus.clone(),
        receive: ReceiveContext::Softirq,
        priority: None,
        budget: None,
        period: None,
        backend: None,
    };
    let both = [("eth0".to_owned(), thread), ("41".to_owned(), softirq)];
    Host {
        housekeeping: BTreeSet::from([Cpu(CPUS - 1)]),
        interference: vec![interference()],
        interrupts: both.into_iter().take(seed as usize % 3).collect(),
        ..Host::of((0..CPUS).map(Cpu).collect())
    }
}

/// A source with every key, on the housekeeping CPU.
fn interference() -> Interference {
    let us = Duration::from_micros;
    Interference {
        source: "irq 24 (virtio0)".into(),
        kind: InterferenceKind::Interrupt,
        cpu: Cpu(CPUS - 1),
        arrivals: Arrivals::MinimumDistances {
            distances: vec![us(0), us(700)],
            later: vec![LaterDistance {
                jobs: 40,
                distance: us(30_000),
            }],
            mean_gap: Some(us(900)),
        },
        execution_time: ExecutionTime::Constant { value: us(20) },
        longest: Some(us(30)),
        recorded: Some("irq.csv".into()),
    }
}

/// A first mode as described, and a second in which every reservation is half as large: every other
/// domain by a local mode.
fn add_modes(description: &mut Description, first: &str, second: &str, text: String) {
    let mut other = Mode {
        description: text,
        ..Mode::default()
    };
    let served = served(description);
    for (index, (name, domain)) in description.domains.iter_mut().enumerate() {
        let Some(reservation) = domain.reservation.as_ref().filter(|r| r.budget.is_some()) else {
            continue;
        };
        let halved = halved(reservation);
        if index % 2 == 0 {
            other.reservations.insert(name.clone(), halved);
            continue;
        }
        let own = domain.tasks.keys().cloned();
        let tasks = own.chain(served.get(name).into_iter().flatten().cloned());
        let local = LocalMode {
            description: other.description.clone(),
            reservation: Some(halved),
            tasks: (index % 4 == 1).then(|| tasks.step_by(2).collect()),
        };
        domain.modes.insert(second.to_owned(), local);
        domain.agent = agent(reservation, first, second);
        other.domains.insert(name.clone(), second.to_owned());
    }
    let local = description
        .domains
        .values()
        .flat_map(|domain| domain.modes.values());
    if local.into_iter().all(|local| local.tasks.is_none()) {
        other.tasks = Some(served.into_values().flatten().step_by(2).collect());
    }
    other.triggers = triggers(description);
    description.modes.insert(second.to_owned(), other);
    description.modes.insert(first.to_owned(), Mode::default());
    description.initial_mode = Some(first.to_owned());
    let changes = ModeChanges {
        policy: ChangePolicy::Batch,
        requests: RequestsMeanwhile::Preempt,
        start: TaskStart::Accepted,
        ..ModeChanges::default()
    };
    description.sections.set(&changes).unwrap();
}

fn halved(reservation: &Reservation) -> Reservation {
    let mut halved = reservation.clone();
    halved.period = halved.period.and_then(|period| period.checked_mul(2));
    halved
}

/// The tasks of services, by domain.
fn served(description: &Description) -> BTreeMap<String, Vec<String>> {
    let mut served: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, service) in &description.services {
        let tasks = service.tasks.keys().map(|task| format!("{name}.{task}"));
        served
            .entry(service.domain.clone())
            .or_default()
            .extend(tasks);
    }
    served
}

/// An agent where there is room for one beside the reservation.
fn agent(reservation: &Reservation, first: &str, second: &str) -> Option<AgentDescription> {
    let (budget, period) = (reservation.budget?, reservation.period?);
    (budget <= period / 2).then(|| AgentDescription {
        place: AgentPlace::Outside,
        execution_time: Duration::from_nanos(budget.as_nanos() % 1_000 + 1),
        may_request: vec![first.to_owned()],
        fallback: Some(second.to_owned()),
        link: AgentLink::default(),
        tasks: BTreeMap::new(),
    })
}

fn triggers(description: &Description) -> Vec<Trigger> {
    let mut domains = description.domains.iter();
    let counted = domains.find(|(_, domain)| {
        let reservation = domain.reservation.as_ref();
        reservation.is_some_and(|one| one.backend == BackendKind::DsFreeze)
    });
    let condition = counted.map(|(name, _)| Trigger::Condition {
        domain: name.clone(),
        metric: Metric::BudgetUsed,
        above: None,
        below: Some(Percent(12.5)),
        window: Duration::from_secs(4_000),
    });
    let schedule = Trigger::Schedule {
        every: Duration::from_secs(60),
        offset: Duration::ZERO,
    };
    condition.into_iter().chain([schedule]).collect()
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9_-]{0,62}"
}

fn length() -> impl Strategy<Value = Duration> {
    let nanoseconds = prop_oneof![1..1_000_u64, 1..1_000_000_000_000_u64, Just(5_000_000)];
    nanoseconds.prop_map(Duration::from_nanos)
}

/// Two lengths, the first at most the second.
fn ordered() -> impl Strategy<Value = (Duration, Duration)> {
    (length(), length()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

fn cpus() -> impl Strategy<Value = BTreeSet<Cpu>> {
    btree_set((0..CPUS).prop_map(Cpu), 0..4)
}

fn domain_and_service() -> impl Strategy<Value = (Domain, Option<Service>)> {
    prop_oneof![
        (best_effort(), Just(None)),
        (machine(), Just(None)),
        (
            synthetic_domain(),
            service(Protocol::Synthetic).prop_map(Some)
        ),
        (command_domain(), service(Protocol::Redis).prop_map(Some)),
        (command_domain(), service(Protocol::Http).prop_map(Some)),
        (
            command_domain(),
            service(Protocol::Postgresql).prop_map(Some)
        ),
        (command_domain(), service(Protocol::IcmpEcho).prop_map(Some)),
    ]
}

fn domain(cpus: BTreeSet<Cpu>) -> Domain {
    Domain {
        cpus,
        placement: Placement::Partitioned,
        ..Domain::of(DomainKind::Process)
    }
}

fn best_effort() -> impl Strategy<Value = Domain> {
    let pids = btree_set(1..4_194_304_u32, 1..4).prop_map(|pids| pids.into_iter().collect());
    prop_oneof![
        (cpus(), 1..1024_u32).prop_map(|(cpus, instances)| Domain {
            builtin: Some(Builtin::CpuHog),
            instances,
            host: Some("host".into()),
            ..domain(cpus)
        }),
        (cpus(), pids).prop_map(|(cpus, pids)| Domain {
            pids,
            ..domain(cpus)
        }),
        (cpus(), "[a-z.]{1,9}/[a-z]{1,9}").prop_filter_map("up", |(cpus, path)| {
            let up = path.split('/').any(|part| part == ".." || part == ".");
            let kind = DomainKind::Container;
            (!up).then(|| Domain {
                kind,
                cgroup: Some(PathBuf::from(path)),
                ..domain(cpus)
            })
        }),
        (cpus(), "[a-z]{1,9}", any::<bool>()).prop_map(|(cpus, name, is_unit)| Domain {
            kind: DomainKind::Container,
            unit: is_unit.then(|| format!("{name}.service")),
            container: (!is_unit).then_some(name),
            ..domain(cpus)
        }),
    ]
}

/// A virtual machine with tasks of its own.
fn machine() -> impl Strategy<Value = Domain> {
    let order = prop::sample::select(vec![
        Scheduling::Fifo,
        Scheduling::RoundRobin,
        Scheduling::FixedPriority,
    ]);
    let tasks = btree_map(name(), task(Protocol::Synthetic), 1..4);
    (order, tasks, length(), any::<bool>(), reservation()).prop_map(
        |(scheduling, mut tasks, quantum, preemptive, reservation)| {
            let by_priority = scheduling == Scheduling::FixedPriority;
            for task in tasks.values_mut() {
                task.priority = by_priority.then_some(Priority(7));
                task.vcpu = by_priority.then_some(0);
            }
            let turns = scheduling == Scheduling::RoundRobin;
            Domain {
                kind: DomainKind::XenVm,
                scheduling,
                placement: Placement::Partitioned,
                quantum: turns.then_some(quantum),
                preemptive: preemptive || turns,
                tasks,
                reservation: Some(reservation),
                ..domain(BTreeSet::new())
            }
        },
    )
}

fn synthetic_domain() -> impl Strategy<Value = Domain> {
    reservation().prop_map(|reservation| Domain {
        builtin: Some(Builtin::SyntheticService),
        reservation: Some(reservation),
        ..domain(BTreeSet::new())
    })
}

fn command_domain() -> impl Strategy<Value = Domain> {
    let command = vec("[^\u{0}]{1,20}", 1..4);
    (reservation(), command, option::of(health())).prop_map(|(reservation, command, health)| {
        Domain {
            command,
            reservation: Some(reservation),
            health,
            ..domain(BTreeSet::new())
        }
    })
}

/// Responses go with systems without modes; `good/host.toml` has some.
fn health() -> impl Strategy<Value = Health> {
    (1..1000_u32, length()).prop_map(|(restarts, interval)| Health {
        restarts,
        interval,
        ..Health::default()
    })
}

fn reservation() -> impl Strategy<Value = Reservation> {
    use BackendKind::{CfsQuota, Nice, Weight};
    // Windows go with the frame of a host; `good/host.toml` has some.
    let on_hosts =
        |kind: &BackendKind| kind.precedence() != Precedence::Hypervisor && !kind.has_windows();
    let backend = prop::sample::select(Vec::from_iter(
        BackendKind::ALL.into_iter().filter(on_hosts),
    ));
    (backend, ordered(), 1..=90_u8).prop_map(|(backend, (budget, period), priority)| {
        let has_budget = backend.has_budget();
        let has_options = priority % 2 == 0;
        Reservation {
            backend,
            budget: has_budget.then_some(budget),
            period: has_budget.then_some(period),
            windows: Vec::new(),
            slack: Vec::new(),
            derive: None,
            budget_scope: BudgetScope::EachCpu,
            server: None,
            margin_points: PercentagePoints(0.0),
            priority: Priority(priority),
            cpus: BTreeSet::new(),
            vcpus: None,
            when_empty: [None, Some(WhenEmpty::Release), Some(WhenEmpty::Keep)]
                [usize::from(priority % 3)],
            options: BackendOptions {
                burst: (backend == CfsQuota && has_options).then_some(budget),
                nice: (backend == Nice && has_options).then_some(NiceValue(priority as i8 % 20)),
                weight: (backend == Weight && has_options)
                    .then_some(CpuWeight(u32::from(priority) * 100)),
                idle: (backend == Weight && !has_options).then_some(priority % 3 == 0),
                // That of windows.
                overrun_tolerance: None,
            },
        }
    })
}

fn service(protocol: Protocol) -> impl Strategy<Value = Service> {
    let tasks = btree_map(name(), task(protocol), 1..4);
    let slos = btree_map(1..100_u8, length(), 0..3);
    let setup = vec(
        request(protocol),
        if protocol == Protocol::Synthetic {
            0..1
        } else {
            0..4
        },
    );
    (tasks, slos, setup, option::of(1..u32::MAX)).prop_map(
        move |(mut tasks, slos, setup, max_in_flight)| {
            let users = max_in_flight.and_then(|number| users_of(&mut tasks, number));
            let slos = slos.into_iter().map(|(percentile, latency)| Slo {
                percentile: Percentile(f64::from(percentile) + 0.125),
                latency,
                task: tasks.keys().next().filter(|_| percentile % 2 == 0).cloned(),
            });
            Service {
                domain: String::new(),
                protocol,
                endpoint: String::new(),
                login: (protocol == Protocol::Postgresql).then(|| DatabaseLogin {
                    user: "bench".into(),
                    database: max_in_flight.map(|number| format!("of {number}")),
                    password_file: max_in_flight.map(|_| "secret".into()),
                    password_variable: None,
                }),
                tls: max_in_flight
                    .filter(|_| protocol == Protocol::Http)
                    .map(|number| ServiceTls {
                        authority: "ca.pem".into(),
                        server_name: Some(format!("host-{number}.test")),
                        certificate: (number % 2 == 0).then(|| "client.pem".into()),
                        key: (number % 2 == 0).then(|| "client.key".into()),
                    }),
                http_version: match protocol {
                    Protocol::Http if max_in_flight.is_some() => HttpVersion::Two,
                    _ => HttpVersion::One,
                },
                message_size: max_in_flight
                    .filter(|_| protocol == Protocol::IcmpEcho)
                    .map(|number| 32 + number % 1000),
                scheduling: Scheduling::Fifo,
                max_in_flight,
                users,
                ready: setup
                    .iter()
                    .flatten()
                    .find(|sent| sent.repeat() == 1)
                    .cloned(),
                setup: setup.into_iter().flatten().collect(),
                slos: slos.filter(|slo| slo.percentile.0 < 100.0).collect(),
                tasks,
            }
        },
    )
}

/// Users of all of these tasks, for some numbers.
fn users_of(tasks: &mut BTreeMap<String, Task>, number: u32) -> Option<Users> {
    let is_traced = |task: &Task| matches!(task.execution_time, ExecutionTime::Trace {});
    if !number.is_multiple_of(3) || tasks.is_empty() || tasks.values().any(is_traced) {
        return None;
    }
    for task in tasks.values_mut() {
        task.arrivals = Arrivals::Users {};
        task.clients = 1;
    }
    let step = |task: &String| UserStep {
        task: task.clone(),
        times: 1 + number % 7,
    };
    let mean = Duration::from_nanos(2 + u64::from(number));
    Some(Users {
        count: 1 + number % 1000,
        think_time: match number % 2 {
            0 => ThinkTime::Constant { value: mean },
            _ => ThinkTime::Exponential {
                min: Duration::from_nanos(1),
                mean,
            },
        },
        session: tasks
            .keys()
            .filter(|_| number.is_multiple_of(5))
            .map(step)
            .collect(),
        parameters: number.is_multiple_of(4).then(|| "rows.csv".into()),
        changes: vec![UserChange {
            at: mean,
            count: number % 9,
            over: mean,
        }],
    })
}

fn task(protocol: Protocol) -> impl Strategy<Value = Task> {
    let parts = (
        arrivals(),
        execution_time(protocol),
        option::of(length()),
        1..9_u32,
    );
    (parts, request(protocol)).prop_map(
        |((arrivals, execution_time, deadline, clients), request)| Task {
            deadline,
            request: request.map(|request| match request {
                Request::Redis { command, .. } => Request::Redis { command, repeat: 1 },
                Request::Postgresql { query, .. } => Request::Postgresql { query, repeat: 1 },
                http => http,
            }),
            clients,
            ..Task::of(arrivals, execution_time)
        },
    )
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let offset = || (0..1_000_000_000_u64).prop_map(Duration::from_nanos);
    prop_oneof![
        (length(), offset()).prop_map(|(period, offset)| Arrivals::Periodic { period, offset }),
        (ordered(), offset()).prop_map(|((min_gap, max_gap), offset)| Arrivals::Sporadic {
            min_gap,
            max_gap,
            offset
        }),
        (1e-3..1e6_f64).prop_filter_map("no rate", |events| {
            Some(Arrivals::Poisson {
                rate: Rate::per_second(events)?,
            })
        }),
        vec((1e-3..1e6_f64, length(), any::<bool>()), 2..9).prop_map(|states| {
            let states = states.into_iter().enumerate();
            Arrivals::MarkovModulatedPoisson {
                states: states.map(poisson_state).collect(),
            }
        }),
        "[a-z/ é\"]{1,20}".prop_map(|file| Arrivals::Trace { file: file.into() }),
        (length(), length(), offset()).prop_map(|(min_gap, rest, offset)| {
            Arrivals::SporadicExponential {
                min_gap,
                mean_gap: min_gap.saturating_add(rest),
                offset,
            }
        }),
        (2..9_u32, offset(), gaps(), offset()).prop_map(|(jobs, spacing, gaps, offset)| {
            Arrivals::Bursts {
                jobs,
                spacing: spacing.min(gaps.least() / u64::from(jobs)),
                gaps,
                offset,
            }
        }),
    ]
}

/// A state of a process, in the first of which jobs come.
fn poisson_state((index, state): (usize, (f64, Duration, bool))) -> PoissonState {
    let (events, stay, is_quiet) = state;
    PoissonState {
        rate: Rate::per_second(events).filter(|_| index == 0 || !is_quiet),
        mean_stay: stay.max(Duration::from_micros(1)),
    }
}

fn gaps() -> impl Strategy<Value = Gaps> {
    prop_oneof![
        ordered().prop_map(|(min, max)| Gaps::Uniform { min, max }),
        (length(), length()).prop_map(|(min, rest)| Gaps::Exponential {
            min,
            mean: min.saturating_add(rest),
        }),
    ]
}

fn bins() -> impl Strategy<Value = Vec<Bin>> {
    let bin = (ordered(), 1..1_000_000_u64);
    vec(
        bin.prop_map(|((from, to), count)| Bin { from, to, count }),
        1..5,
    )
}

fn execution_time(protocol: Protocol) -> impl Strategy<Value = ExecutionTime> {
    prop_oneof![
        length().prop_map(|value| ExecutionTime::Constant { value }),
        ordered().prop_map(|(min, max)| ExecutionTime::Uniform { min, max }),
        (length(), length(), length(), option::of(length())).prop_map(|(min, rest, more, most)| {
            let mean = min.saturating_add(rest);
            let max = most.map(|most| mean.saturating_add(more).saturating_add(most));
            ExecutionTime::Exponential { min, mean, max }
        }),
        (length(), length(), length(), option::of(length())).prop_map(|(min, rest, more, most)| {
            let median = min.saturating_add(rest);
            let p99 = median.saturating_add(more);
            let max = most.map(|most| p99.saturating_add(most));
            ExecutionTime::Lognormal {
                min,
                median,
                p99,
                max,
            }
        }),
        "[a-z/.]{1,20}".prop_map(|file| ExecutionTime::Samples { file: file.into() }),
        bins().prop_map(|bins| ExecutionTime::Histogram { bins, file: None }),
        "[a-z/.]{1,20}".prop_map(|file| ExecutionTime::Histogram {
            bins: Vec::new(),
            file: Some(file.into())
        }),
        option::of(length()).prop_map(move |expected| match protocol {
            Protocol::Synthetic | Protocol::IcmpEcho => ExecutionTime::Constant {
                value: Duration::from_millis(1)
            },
            Protocol::Redis | Protocol::Http | Protocol::Postgresql =>
                ExecutionTime::Calibrated { expected },
        }),
    ]
}

fn request(protocol: Protocol) -> BoxedStrategy<Option<Request>> {
    match protocol {
        Protocol::Synthetic | Protocol::IcmpEcho => Just(None).boxed(),
        Protocol::Redis => {
            let word = prop_oneof![
                "[A-Z]{1,8}",
                "[^{]{1,12}",
                Just("{busy:2ms} {random}".into())
            ];
            (vec(word, 1..5), 1..1000_u32)
                .prop_map(|(command, repeat)| Some(Request::Redis { command, repeat }))
                .boxed()
        }
        Protocol::Postgresql => ("SELECT [^{\0]{1,12}", 1..1000_u32)
            .prop_map(|(query, repeat)| Some(Request::Postgresql { query, repeat }))
            .boxed(),
        Protocol::Http => "/[!-~]{0,20}"
            .prop_map(|path| Some(Request::Http { path }))
            .boxed(),
    }
}

fn experiment() -> impl Strategy<Value = Experiment> {
    let variant = (any::<bool>(), option::of(-100.0..100.0_f64), 1..9_u32);
    (length(), length(), btree_map(name(), variant, 1..4)).prop_map(
        |(duration, warm_up, variants)| {
            let variants = variants
                .into_iter()
                .map(|(name, (neighbours, margin, repetitions))| Variant {
                    name,
                    backend: margin.is_none().then_some(BackendKind::Dedicated),
                    neighbours,
                    margin_points: margin.map(PercentagePoints),
                    repetitions,
                });
            Experiment {
                duration,
                warm_up,
                variants: variants.collect(),
            }
        },
    )
}
