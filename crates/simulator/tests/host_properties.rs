//! What holds of every host: budgets, shares, equality with the simulation of one service, and that
//! nothing hangs.

use std::fmt::Write as _;

use proptest::prelude::*;
use tailbound_model::{Description, InputFiles, ReservationServer, ServerKind, parse};
use tailbound_simulator::hierarchy::{Completion, Piece, Sink};
use tailbound_simulator::host::{Growth, HostError, Kept, lay_out, simulate_host, simulate_layout};
use tailbound_simulator::workload::releases;
use tailbound_simulator::{ServiceSimulationQuery, simulate};
use tailbound_time::Duration;

use crate::host::{query, recorded};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A service alone at the highest priority, with a hog beside it.
fn one_service(
    server: &str,
    scheduling: &str,
    (budget_us, period_us): (u64, u64),
    rate: u64,
) -> String {
    format!(
        r#"
        schema_version = 1
        name = "one"
        hosts.here.cpus = [0]
        [domains.service]
        kind = "process"
        builtin = "synthetic-service"
        reservation = {{ {server} budget = "{budget_us}us", period = "{period_us}us", cpus = [0] }}
        [domains.hog]
        kind = "process"
        builtin = "cpu-hog"
        [services.work]
        domain = "service"
        protocol = "synthetic"
        endpoint = "unix:work.sock"
        scheduling = "{scheduling}"
        [services.work.tasks.often]
        arrivals = {{ kind = "poisson", rate = "{rate}/s" }}
        deadline = "7ms"
        execution_time = {{ kind = "uniform", min = "100us", max = "900us" }}
        [services.work.tasks.steady]
        arrivals = {{ kind = "periodic", period = "20ms" }}
        execution_time = {{ kind = "constant", value = "3ms" }}
        "#
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Where a service is alone at the highest priority of its CPU, nothing else matters to it.
    #[test]
    fn a_service_that_comes_first_is_simulated_as_on_its_own(
        kind in 0..5_usize,
        order in 0..3_usize,
        period in 2_000..30_000_u64,
        share in 30..100_u64,
        rate in 1..700_u64,
        seed in any::<u32>(),
    ) {
        let budget = period * share / 100;
        let (length, whole) = (us(budget), us(period));
        let (server, rule) = [
            ("", ReservationServer::Deferrable { budget: length, period: whole }),
            (r#"server = "periodic","#, ReservationServer::Periodic { budget: length, period: whole }),
            (r#"server = "polling","#, ReservationServer::Polling { budget: length, period: whole }),
            (r#"backend = "deadline","#, ReservationServer::ConstantBandwidth { budget: length, period: whole }),
            (r#"server = "sporadic","#, ServerKind::Sporadic.with(length, whole)),
        ][kind];
        let order = ["fifo", "deadline-monotonic", "earliest-deadline-first"][order];
        let text = one_service(server, order, (budget, period), rate);
        let mut description = parse(&text, "one.toml").unwrap();
        description.seed = u64::from(seed);
        let duration = ms(500);
        let mut asked = query(&description, duration, Kept::All);
        asked.warm_up = ms(100);
        let simulation = simulate_host(&asked).unwrap();
        let service = &description.services["work"];
        let sent = releases(service, ms(600), description.seed, &InputFiles::default()).unwrap();
        let alone = simulate(
            &ServiceSimulationQuery {
                name: "work",
                service,
                server: rule,
                grid_phase: Duration::ZERO,
                warm_up: ms(100),
                dispatch_overhead: Duration::ZERO,
                seed: description.seed,
                record_jobs: true,
            },
            &sent,
        )
        .unwrap();
        // What is not done a whole duration later is left out of one and not of the other.
        let last = alone.jobs.iter().map(|job| job.completed.as_nanos()).max();
        prop_assume!(last.is_none_or(|last| last <= ms(1_200).as_nanos()));
        let shape = |responses: &tailbound_distribution::Distribution| responses.samples().to_vec();
        let whole = simulation.services["work"].as_ref().map(shape);
        prop_assert_eq!(whole, Some(shape(&alone.overall)));
        for task in &simulation.domains["service"].tasks {
            let own = task.response_times.as_ref().map(shape);
            prop_assert_eq!(own, alone.per_task.get(&task.name).map(shape));
        }
        asked.kept = Kept::Classes;
        let classes = simulate_host(&asked).unwrap();
        for (task, exact) in classes.domains["service"].tasks.iter().zip(&simulation.domains["service"].tasks) {
            prop_assert_eq!(task.longest_ns, exact.longest_ns);
            prop_assert_eq!(task.missed, exact.missed);
            let median = |result: &tailbound_simulator::host::TaskResult| {
                result.response_times.as_ref().and_then(|times| times.quantile(0.5))
            };
            if let (Some(between), Some(exact)) = (median(task), median(exact)) {
                prop_assert!(between.low <= exact.low);
                prop_assert!(between.high >= exact.high);
            }
        }
    }

    /// A virtual machine whose budgets are never used up runs as on CPUs of its own: the thesis's
    /// virtualization-agnostic systems, on RTDS (figure 3.5) and partitioned (figure 3.7).
    #[test]
    fn a_budget_that_is_never_used_up_does_not_show(
        global in any::<bool>(),
        tasks in prop::collection::vec((prop::sample::select(vec![4_u64, 8, 10, 20]), 1..30_u64, 0..4_u64), 1..6),
        cpus in 1..3_usize,
    ) {
        // Periods up to a hyperperiod of 40 ms; utilisations up to 30% of a period, scaled below.
        let machine = |reservation: &str| {
            let mut text = format!(
                "schema_version = 1\nname = \"vas\"\n[hosts.here]\ncpus = [0, 1]\n{}\
                 [domains.vm]\nkind = \"xen-vm\"\nscheduling = \"rate-monotonic\"\n\
                 reservation = {{ {reservation}, cpus = {} }}\n",
                if global { "placement = \"global\"\nscheduling = \"earliest-deadline-first\"\n" } else { "" },
                ["[0]", "[0, 1]"][cpus - 1],
            );
            for (index, (period, percent, offset)) in tasks.iter().enumerate() {
                let work = period * 10 * percent / 2;
                let _ = writeln!(
                    text,
                    "[domains.vm.tasks.t{index}]\narrivals = {{ kind = \"periodic\", period = \"{period}ms\", \
                     offset = \"{offset}ms\" }}\nexecution_time = {{ kind = \"constant\", value = \"{work}us\" }}"
                );
            }
            parse(&text, "vas.toml").map(|description| (text, description))
        };
        // Each virtual CPU may need all tasks: 5 of 15% each are below 80%.
        let (_, partial) = machine("budget = \"36ms\", period = \"40ms\"").unwrap();
        let (_, full) = machine("backend = \"dedicated\"").unwrap();
        let (kept, on_partial) = recorded(&query(&partial, ms(200), Kept::Classes)).unwrap();
        let (all, _) = recorded(&query(&full, ms(200), Kept::Classes)).unwrap();
        prop_assert_eq!(on_partial.domains["vm"].depletions, 0);
        prop_assert_eq!(kept, all);
    }

    /// Whatever is described is simulated to its end or refused, and no budget is exceeded (the
    /// recorder asserts it).
    #[test]
    fn hosts_of_all_sorts_keep_their_budgets(text in host_text(), seed in any::<u32>()) {
        let Ok(mut description) = parse(&text, "sorts.toml") else {
            return Err(TestCaseError::reject("no description"));
        };
        description.seed = u64::from(seed);
        let asked = query(&description, ms(60), Kept::Classes);
        let simulation = match recorded(&asked) {
            Ok((_, simulation)) => simulation,
            Err(HostError::GuestWithoutReservation { .. }) => return Ok(()),
            Err(error) => panic!("{error}\n{text}"),
        };
        for cpu in &simulation.cpus {
            prop_assert!(cpu.busy_share + cpu.overhead_share <= 1.0 + 1e-9, "{:?}\n{}", cpu, text);
        }
        for task in simulation.domains.values().flat_map(|domain| &domain.tasks) {
            prop_assert!(task.missed <= task.released);
            prop_assert!(task.unfinished <= task.released);
        }
        let again = simulate_host(&asked).unwrap();
        prop_assert_eq!(simulation, again);
    }
}

/// One domain as a file has it.
fn domain_text(index: usize, inside: bool) -> impl Strategy<Value = String> {
    let server = prop::sample::select(vec![
        "",
        "server = \"periodic\", ",
        "server = \"polling\", ",
        "server = \"sporadic\", ",
        "server = \"posix-sporadic\", ",
        "server = \"soft-constant-bandwidth\", ",
        "server = \"burstable\", ",
        "backend = \"deadline\", ",
        "backend = \"cfs-quota\", ",
    ]);
    let order = prop::sample::select(vec![
        "",
        "scheduling = \"earliest-deadline-first\"\n",
        "scheduling = \"rate-monotonic\"\n",
        "scheduling = \"round-robin\"\nquantum = \"300us\"\n",
        "preemptive = false\n",
        "placement = \"global\"\n",
        "placement = \"global\"\nscheduling = \"earliest-deadline-first\"\n",
    ]);
    let reservation = prop::option::of((server, 1..40_u64, 2..12_u64, 1..90_u8));
    let tasks = prop::collection::vec((1..20_u64, 1..2_000_u64, 1..4_u32, any::<bool>()), 0..3);
    (reservation, order, tasks, any::<bool>(), 0..3_usize).prop_map(
        move |(reservation, order, tasks, hog, cpus)| {
            let cpus = ["[0]", "[1]", "[0, 1]"][cpus];
            let order = if tasks.is_empty() { "" } else { order };
            let mut text = format!("[domains.d{index}]\nkind = \"xen-vm\"\n{order}");
            if inside {
                text += "inside = \"d0\"\n";
            }
            if tasks.is_empty() && hog {
                text += "cpu_bound = true\n";
            }
            // One queue is for all virtual CPUs alike, so none of them can be boosted.
            let boosts = reservation.is_some() && !order.contains("placement");
            match reservation {
                Some((server, percent, period, priority)) => {
                    let budget = period * percent * 10 / 2;
                    let _ = writeln!(
                        text,
                        "reservation = {{ {server}budget = \"{budget}us\", period = \"{period}ms\", \
                         priority = {priority}, cpus = {cpus} }}"
                    );
                }
                None => {
                    let _ = writeln!(text, "cpus = {cpus}");
                }
            }
            for (task, (period, work, clients, random)) in tasks.into_iter().enumerate() {
                let arrivals = match random {
                    true => format!("kind = \"poisson\", rate = \"{}/s\"", 1_000 / period),
                    false => format!("kind = \"periodic\", period = \"{period}ms\""),
                };
                let _ = writeln!(
                    text,
                    "[domains.d{index}.tasks.t{task}]\narrivals = {{ {arrivals} }}\nclients = {clients}\n\
                     execution_time = {{ kind = \"uniform\", min = \"1us\", max = \"{work}us\" }}"
                );
                if boosts && work % 3 == 0 {
                    text += "boost = \"700us\"\n";
                }
            }
            text
        },
    )
}

fn host_text() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec![
        "",
        "scheduling = \"earliest-deadline-first\"\n",
        "placement = \"global\"\n",
        "placement = \"global\"\nscheduling = \"earliest-deadline-first\"\n",
        "speeds = [50, 200]\n",
        "overheads = { context_switch = \"3us\", interrupt = \"1us\", scheduler_invocation = \"1us\", \
         tick = { period = \"1ms\", cost = \"5us\" } }\n",
    ]);
    let domains = (
        domain_text(0, false),
        domain_text(1, false),
        domain_text(2, true),
    );
    (host, domains).prop_map(|(host, (a, b, c))| {
        format!(
            "schema_version = 1\nname = \"sorts\"\n[hosts.here]\ncpus = [0, 1]\n{host}{a}{b}{c}"
        )
    })
}

fn loaded(own: u64, other: u64, other_is_first: bool) -> Description {
    let (high, low) = if other_is_first { (10, 20) } else { (20, 10) };
    let text = format!(
        r#"
        schema_version = 1
        name = "load"
        hosts.here.cpus = [0]
        [domains.own]
        kind = "xen-vm"
        reservation = {{ budget = "5ms", period = "10ms", priority = {high}, cpus = [0] }}
        tasks.t = {{ arrivals = {{ kind = "poisson", rate = "{own}/s" }}, execution_time = {{ kind = "constant", value = "1ms" }} }}
        [domains.other]
        kind = "xen-vm"
        reservation = {{ budget = "5ms", period = "10ms", priority = {low}, cpus = [0] }}
        tasks.t = {{ arrivals = {{ kind = "poisson", rate = "{other}/s" }}, execution_time = {{ kind = "constant", value = "1ms" }} }}
        "#
    );
    tailbound_model::check(&text, "load.toml")
        .description
        .unwrap()
}

fn growth_of(description: &Description, seed: u64, duration: Duration) -> Option<Growth> {
    let mut asked = query(description, duration, Kept::Classes);
    asked.seed = seed;
    simulate_host(&asked).unwrap().domains["own"].growth
}

#[test]
fn an_overload_is_told_from_a_load_near_saturation() {
    for seed in 0..40 {
        // 99% of what the first reservation gives.
        assert_eq!(growth_of(&loaded(495, 100, false), seed, ms(4_000)), None);
        // 98% of it behind another one that is half loaded, where nothing is proved.
        assert_eq!(growth_of(&loaded(490, 250, true), seed, ms(4_000)), None);
        let over = growth_of(&loaded(505, 100, false), seed, ms(4_000));
        assert!(matches!(over, Some(Growth::Demand { .. })), "{over:?}");
    }
}

#[test]
fn a_starved_domain_is_found_by_measuring() {
    let text = r#"
        schema_version = 1
        name = "starved"
        hosts.here.cpus = [0]
        [domains.busy]
        kind = "process"
        builtin = "cpu-hog"
        reservation = { budget = "9ms", period = "10ms", priority = 20, cpus = [0] }
        [domains.own]
        kind = "xen-vm"
        tasks.t = { arrivals = { kind = "poisson", rate = "200/s" }, execution_time = { kind = "constant", value = "1ms" } }
        "#;
    let description = parse(text, "starved.toml").unwrap();
    for seed in 0..10 {
        let growth = growth_of(&description, seed, ms(4_000));
        assert!(
            matches!(growth, Some(Growth::Measured { .. })),
            "{growth:?}"
        );
    }
}

#[test]
fn what_would_never_end_is_refused() {
    let text = r#"
        schema_version = 1
        name = "endless"
        hosts.here.cpus = [0]
        [domains.own]
        kind = "xen-vm"
        reservation = { budget = "1ns", period = "1ns", cpus = [0] }
        tasks.t = { arrivals = { kind = "periodic", period = "1ns" }, execution_time = { kind = "constant", value = "1ns" } }
        "#;
    let description = tailbound_model::check(text, "endless.toml")
        .description
        .unwrap();
    let asked = query(&description, ms(1_000_000), Kept::Classes);
    assert!(matches!(
        simulate_host(&asked),
        Err(HostError::TooMuch { .. })
    ));
    let asked = query(&description, Duration::MAX, Kept::Classes);
    assert!(matches!(
        simulate_host(&asked),
        Err(HostError::TooLong { .. })
    ));
    let asked = query(&description, Duration::ZERO, Kept::Classes);
    assert!(matches!(simulate_host(&asked), Err(HostError::NoTime)));
}

/// A description that was changed after it was checked: nothing of it may be left out without a word.
#[test]
fn a_domain_inside_of_none_is_refused() {
    let text = r#"
        schema_version = 1
        name = "nested"
        hosts.here.cpus = [0]
        [domains.machine]
        kind = "qemu-vm"
        reservation = { budget = "5ms", period = "10ms", cpus = [0] }
        [domains.box]
        kind = "container"
        inside = "machine"
        cpu_bound = true
        "#;
    let mut description = parse(text, "nested.toml").unwrap();
    let asked = query(&description, ms(100), Kept::Classes);
    assert!(simulate_host(&asked).unwrap().domains.contains_key("box"));
    description.domains.remove("machine");
    let asked = query(&description, ms(100), Kept::Classes);
    let refused = simulate_host(&asked).unwrap_err();
    assert!(matches!(refused, HostError::NoOuter { .. }), "{refused}");
    let message = refused.to_string();
    assert!(
        message.starts_with("domains.box.inside: there is no domain `machine`"),
        "{message}"
    );
}

/// How many pieces were told of each task.
#[derive(Default)]
struct Pieces(Vec<u64>);

impl Sink for Pieces {
    fn completed(&mut self, _completion: &Completion) {}

    fn ran(&mut self, piece: &Piece) {
        self.0.resize(self.0.len().max(piece.task + 1), 0);
        self.0[piece.task] += 1;
    }
}

fn pieces_of(text: &str) -> Vec<u64> {
    let description = parse(text, "pieces.toml").unwrap();
    let query = query(&description, ms(20), Kept::Classes);
    let layout = lay_out(query.description, query.host, query.inputs).unwrap();
    let mut sinks = [Pieces::default()];
    simulate_layout(&query, &layout, &mut sinks).unwrap();
    let [Pieces(pieces)] = sinks;
    pieces
}

#[test]
fn a_domain_without_a_reservation_takes_turns_with_others_only() {
    let job = |work: &str, offset: &str| {
        format!(
            "tasks.job = {{ arrivals = {{ kind = \"periodic\", period = \"1s\", offset = \"{offset}\" }}, \
             execution_time = {{ kind = \"constant\", value = \"{work}\" }} }}\n"
        )
    };
    let host = "schema_version = 1\nname = \"pieces\"\nhosts.here.cpus = [0]\n";
    let one = |name: &str, work: &str| {
        let job = job(work, "0ms");
        format!("[domains.{name}]\nkind = \"process\"\ncommand = [\"x\"]\n{job}")
    };
    let reserved = format!(
        "[domains.c]\nkind = \"process\"\ncommand = [\"x\"]\n\
         reservation = {{ budget = \"5ms\", period = \"1s\", cpus = [0] }}\n{}",
        job("1ms", "10ms")
    );
    // Alone it is left alone.
    assert_eq!(pieces_of(&format!("{host}{}", one("a", "18ms"))), [1]);
    // The reservation interrupts it once.
    let beside = format!("{host}{}{reserved}", one("a", "18ms"));
    assert_eq!(pieces_of(&beside), [1, 2]);
    // In turns of 4 ms: 4 + 4 + 1 + 3 beside 4 + 4 + 2, of which the reservation cuts one in two.
    let others = format!("{host}{}{}{reserved}", one("a", "12ms"), one("b", "10ms"));
    assert_eq!(pieces_of(&others), [1, 4, 3]);
}

#[test]
fn an_option_that_simulation_does_not_follow_is_refused() {
    let text = r#"
        schema_version = 1
        name = "bursting"
        hosts.here.cpus = [0]
        [domains.batch]
        kind = "qemu-vm"
        cpu_bound = true
        reservation = { backend = "cfs-quota", budget = "4ms", period = "10ms", cpus = [0], options = { burst = "2ms" } }
        "#;
    let mut description = parse(text, "bursting.toml").unwrap();
    let asked = query(&description, ms(100), Kept::Classes);
    let refused = simulate_host(&asked).unwrap_err().to_string();
    let place = "domains.batch.reservation.options.burst: ";
    assert!(refused.starts_with(place), "{refused}");
    let domain = description.domains.get_mut("batch").unwrap();
    domain.reservation.as_mut().unwrap().options = Default::default();
    let asked = query(&description, ms(100), Kept::Classes);
    assert!(simulate_host(&asked).is_ok());
}
