#![allow(clippy::unwrap_used)]
use tailbound_distribution::{Evidence, Provenance};
use tailbound_model::{BackendKind, Variant};
use tailbound_simulator::workload::releases;
use tailbound_simulator::{ServiceSimulationQuery, simulate};

use super::*;
use crate::execution_times::execution_times;

const TEXT: &str = r#"
    schema_version = 1
    name = "two"
    seed = 3
    hosts.here.cpus = [0]

    [domains.first]
    kind = "process"
    builtin = "synthetic-service"
    reservation = { budget = "4ms", period = "10ms", priority = 80, cpus = [0] }

    [domains.second]
    kind = "process"
    command = ["redis-server"]
    reservation = { budget = "4ms", period = "10ms", priority = 70, cpus = [0] }

    [domains.hog]
    kind = "process"
    builtin = "cpu-hog"

    [services.one]
    domain = "first"
    protocol = "synthetic"
    endpoint = "unix:one.sock"
    tasks.work = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "uniform", min = "1ms", max = "3ms" } }

    [services.two]
    domain = "second"
    protocol = "redis"
    endpoint = "unix:two.sock"
    tasks.other = { request = { command = ["PING"] }, arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "calibrated", expected = "2ms" } }
"#;

fn span() -> SimulatedSpan {
    SimulatedSpan {
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(20),
        seed: 3,
    }
}

fn service_times(description: &Description) -> BTreeMap<String, ServiceTimes> {
    let services = description.services.iter();
    let times = services.map(|(name, service)| {
        let times = execution_times(name, service, &InputFiles::default(), None).unwrap();
        (name.clone(), times)
    });
    times.collect()
}

/// In the variant with these reservations, or in one without.
fn responses(
    text: &str,
    change: impl Fn(&mut BTreeMap<String, ServiceTimes>),
    backend: Option<BackendKind>,
) -> BTreeMap<String, Distribution> {
    let description = tailbound_model::parse(text, "two.toml").unwrap();
    let mut times = service_times(&description);
    change(&mut times);
    let variant = Variant {
        backend,
        ..Variant::as_described()
    };
    let deployment = Deployment::of_run(&description, &variant).unwrap();
    simulated(
        &deployment,
        "as described",
        &times,
        &InputFiles::default(),
        span(),
    )
    .unwrap()
    .services
}

/// The simulator of one service on one reservation knows the first of two, and not the second.
#[test]
fn the_first_reservation_is_as_if_alone_and_the_second_waits_for_it() {
    let together = responses(TEXT, |_| {}, None);
    let alone = |name: &str| {
        let description = tailbound_model::parse(TEXT, "two.toml").unwrap();
        let service = &description.services[name];
        let horizon = Duration::from_secs(21);
        let mut jobs = releases(service, horizon, 3, &InputFiles::default()).unwrap();
        for job in &mut jobs {
            job.execution = job.execution.or(Some(Duration::from_millis(2)));
        }
        let query = ServiceSimulationQuery {
            name,
            service,
            server: ReservationServer::Deferrable {
                budget: Duration::from_millis(4),
                period: Duration::from_millis(10),
            },
            grid_phase: Duration::ZERO,
            warm_up: Duration::from_secs(1),
            dispatch_overhead: Duration::ZERO,
            seed: 3,
            record_jobs: false,
        };
        simulate(&query, &jobs).unwrap().overall
    };
    assert_eq!(together["one"].samples(), alone("one").samples());
    let (beside, alone) = (&together["two"], alone("two"));
    assert_eq!(beside.count(), alone.count());
    let mean = |times: &Distribution| times.mean().unwrap().low;
    assert!(mean(beside) > mean(&alone));
}

#[test]
fn calibrated_execution_times_and_the_way_there_and_back_count() {
    let plain = responses(TEXT, |_| {}, None);
    let samples = vec![Duration::from_millis(3); 5];
    let provenance = Provenance::new(Evidence::Sample, "calibration", "by hand");
    let measured = Distribution::from_samples(provenance, samples);
    let longer = responses(
        TEXT,
        |times| {
            let two = times.get_mut("two").unwrap();
            two.measured.insert("other".into(), measured.clone());
            two.dispatch_overhead = Duration::from_micros(100);
        },
        None,
    );
    assert_eq!(longer["one"], plain["one"]);
    let shortest = |services: &BTreeMap<String, Distribution>| services["two"].min().unwrap().low;
    assert_eq!(shortest(&plain), Duration::from_millis(2));
    assert_eq!(shortest(&longer), Duration::from_micros(3_100));
    let assumptions = &longer["two"].provenance.assumptions;
    assert!(
        assumptions.iter().any(|one| one.contains("100us longer")),
        "{assumptions:?}"
    );
}

/// A budget that lasts longer by the share of a trip that is no execution.
#[test]
fn round_trips_take_the_place_of_execution_times_and_stretch_the_budget() {
    let with = |trip_us, execution_us| {
        responses(
            TEXT,
            |times| {
                let one = times.get_mut("one").unwrap();
                let trip = Duration::from_micros(trip_us);
                let provenance = Provenance::new(Evidence::Sample, "trips", "by hand");
                let trips = Distribution::from_samples(provenance, vec![trip]);
                one.measured.insert("work".into(), trips);
                one.trip_and_execution = Some((trip, Duration::from_micros(execution_us)));
            },
            None,
        )
    };
    // 4 ms hold two trips of 2 ms, or four of which half is execution.
    let (all, half) = (with(2_000, 2_000), with(2_000, 1_000));
    let mean = |services: &BTreeMap<String, Distribution>| services["one"].mean().unwrap().low;
    assert!(mean(&half) < mean(&all));
    assert!(all["one"].min().unwrap().low == Duration::from_millis(2));
}

#[test]
fn what_the_kernel_promises_nothing_is_left_out() {
    let services = responses(TEXT, |_| {}, Some(BackendKind::None));
    assert!(services.is_empty());
}
