//! Interference: bounds of the analysis against simulations, and hosts on which it changes nothing.

mod round_trip;
mod settings;

use tailbound_model::{Description, InputFiles, TracedJob};
use tailbound_simulator::hierarchy::{Completion, Piece, Sink};
use tailbound_simulator::host::{
    HostQuery, HostSimulation, Kept, MOST_EVENTS, lay_out, simulate_host, simulate_layout,
};
use tailbound_time::Duration;

use settings::compare;

#[test]
fn no_simulated_response_exceeds_its_bound() {
    let (mut bounded, mut met, mut close) = (0, 0, 0);
    for number in 0..150 {
        let setting = compare(number, Duration::from_millis(1_500));
        for task in &setting.tasks {
            assert!(
                !task.is_contradicted(),
                "{number}, {}, {}: {:?} > {:?}\n{}",
                setting.kind,
                task.name,
                task.longest,
                task.bound,
                setting.text
            );
            bounded += usize::from(task.bound.is_some());
            met += usize::from(task.is_met);
            let reached = task
                .bound
                .filter(|bound| task.longest.as_nanos() * 10 > bound.as_nanos() * 8);
            close += usize::from(reached.is_some());
        }
    }
    // Bounds that nothing comes near to would show nothing.
    assert!(
        bounded > 80 && met > 100 && close > 20,
        "{bounded} {met} {close}"
    );
}

const HOST: &str = r#"
schema_version = 1
name = "host"
hosts.here.cpus = [0, 1]
[domains.d]
kind = "process"
command = ["d"]
scheduling = "rate-monotonic"
reservation = { budget = "4ms", period = "10ms", cpus = [0] }
[domains.d.tasks.fast]
arrivals = { kind = "sporadic", min_gap = "10ms", max_gap = "30ms" }
execution_time = { kind = "uniform", min = "1ms", max = "2ms" }
[domains.d.tasks.slow]
arrivals = { kind = "periodic", period = "40ms" }
execution_time = { kind = "constant", value = "6ms" }
[domains.hog]
kind = "process"
builtin = "cpu-hog"
cpus = [0]
"#;

fn source(rest: &str) -> String {
    format!(
        "{HOST}\n[[hosts.here.interference]]\nsource = \"irq 1\"\nkind = \"interrupt\"\n{rest}\n"
    )
}

/// All pieces and completions.
#[derive(Default, PartialEq, Debug)]
struct Schedule {
    pieces: Vec<Piece>,
    completions: Vec<Completion>,
    taken_ns: u64,
}

impl Sink for Schedule {
    fn completed(&mut self, completion: &Completion) {
        self.completions.push(*completion);
    }

    fn ran(&mut self, piece: &Piece) {
        // One piece may come as several.
        match self.pieces.last_mut() {
            Some(last)
                if last.until == piece.from
                    && (last.task, last.number) == (piece.task, piece.number) =>
            {
                last.until = piece.until;
            }
            _ => self.pieces.push(*piece),
        }
    }

    fn overhead(&mut self, _cpu: usize, from: u64, until: u64) {
        self.taken_ns += until - from;
    }
}

fn simulate(text: &str, inputs: &InputFiles) -> (HostSimulation, Schedule) {
    let description: Description = tailbound_model::parse(text, "host.toml").unwrap();
    let query = HostQuery {
        description: &description,
        host: "here",
        inputs,
        seed: 5,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(2),
        kept: Kept::All,
        most_events: MOST_EVENTS,
    };
    let layout = lay_out(&description, "here", inputs).unwrap();
    let mut schedules: Vec<Schedule> = layout.plans.iter().map(|_| Schedule::default()).collect();
    let simulation = simulate_layout(&query, &layout, &mut schedules).unwrap();
    (simulation, schedules.remove(0))
}

#[test]
fn a_schedule_without_events_is_that_without_sources() {
    let none = InputFiles::default();
    let (_, plain) = simulate(HOST, &none);
    let later = source(
        "cpu = 0\narrivals = { kind = \"periodic\", period = \"1s\", offset = \"1000s\" }\n\
         execution_time = { kind = \"constant\", value = \"1us\" }",
    );
    let elsewhere = source(
        "cpu = 1\narrivals = { kind = \"periodic\", period = \"1ms\" }\n\
         execution_time = { kind = \"constant\", value = \"90us\" }",
    );
    for text in [later, elsewhere] {
        let (simulation, schedule) = simulate(&text, &none);
        assert_eq!(schedule, plain);
        let said = simulation.assumptions.iter();
        assert!(said.into_iter().any(|one| one.contains("irq 1 (drawn)")));
    }
}

#[test]
fn a_recording_is_repeated_and_may_not_exceed_its_bounds() {
    let us = Duration::from_micros;
    let recorded = |jobs: &[(u64, u64)]| {
        let jobs = jobs.iter().map(|(release, length)| TracedJob {
            release: us(*release),
            execution: Some(us(*length)),
        });
        let mut inputs = InputFiles::default();
        inputs.insert_trace("irq.csv", jobs.collect());
        inputs
    };
    let text = source(
        "cpu = 0\nrecorded = \"irq.csv\"\nexecution_time = { kind = \"constant\", value = \"50us\" }\n\
         arrivals = { kind = \"minimum-distances\", distances = [\"100us\", \"1ms\"] }",
    );
    // Two events 150 us apart; the repetition keeps 1 ms from the first to the one after the next.
    let (_, schedule) = simulate(&text, &recorded(&[(0, 20), (150, 30)]));
    let busy = Duration::from_secs(2);
    let expected = busy.as_nanos() / 1_000_000 * 50_000;
    assert!(
        schedule.taken_ns.abs_diff(expected) <= 100_000 * 1_000,
        "{}",
        schedule.taken_ns
    );
    let description: Description = tailbound_model::parse(&text, "host.toml").unwrap();
    for jobs in [[(0, 60), (150, 30)], [(0, 20), (90, 30)]] {
        let inputs = recorded(&jobs);
        let refused = lay_out(&description, "here", &inputs)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("interference[0].recorded"), "{refused}");
    }
}

#[test]
fn soft_tasks_with_interference_are_refused() {
    let text = source(
        "cpu = 0\narrivals = { kind = \"periodic\", period = \"1ms\" }\n\
         execution_time = { kind = \"constant\", value = \"90us\" }",
    );
    let mut description: Description = tailbound_model::parse(&text, "host.toml").unwrap();
    let soft = r#"
        schema_version = 1
        name = "soft"
        hosts.here.cpus = [0]
        [domains.d]
        kind = "process"
        command = ["d"]
        scheduling = "fixed-priority"
        reservation = { backend = "dedicated", cpus = [0] }
        aperiodic = { policy = "dual-priority", tasks = ["slow"] }
        [domains.d.tasks.fast]
        priority = 9
        arrivals = { kind = "periodic", period = "10ms" }
        execution_time = { kind = "constant", value = "1ms" }
        [domains.d.tasks.slow]
        arrivals = { kind = "poisson", rate = "10/s" }
        execution_time = { kind = "constant", value = "6ms" }
    "#;
    let beside: Description = tailbound_model::parse(soft, "soft.toml").unwrap();
    description.domains = beside.domains;
    let query = HostQuery {
        description: &description,
        host: "here",
        inputs: &InputFiles::default(),
        seed: 5,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(2),
        kept: Kept::All,
        most_events: MOST_EVENTS,
    };
    let refused = simulate_host(&query).unwrap_err().to_string();
    assert!(refused.contains("soft tasks"), "{refused}");
}
