//! Users who wait for replies, against what queueing theory says of them.

use tailbound_model::{Description, ExecutionTime, InputFiles, Service, parse_parameters};
use tailbound_simulator::host::{HostSimulation, Kept, simulate_host};
use tailbound_simulator::workload::{UserRequest, UserRequests};
use tailbound_time::Duration;

use crate::host::query;

/// A service of exponential requests of 20 ms, with this under `users`, on a CPU of its own or with a reservation.
fn described(users: &str, reservation: &str) -> Description {
    let text = format!(
        r#"
        schema_version = 1
        name = "users"
        seed = 3
        hosts.here = {{ cpus = [0] }}
        domains.front = {{ kind = "process", builtin = "synthetic-service"{reservation} }}
        [services.web]
        domain = "front"
        protocol = "synthetic"
        endpoint = "unix:web.sock"
        users = {{ {users} }}
        [services.web.tasks.look]
        arrivals = {{ kind = "users" }}
        execution_time = {{ kind = "exponential", mean = "20ms" }}
        "#
    );
    tailbound_model::parse(&text, "inline.toml").unwrap()
}

fn simulated(description: &Description, seconds: u64) -> HostSimulation {
    simulate_host(&query(description, Duration::from_secs(seconds), Kept::All)).unwrap()
}

/// Mean response time and throughput of so many users of a single server (mean value analysis; exact for exponential
/// service): M. Reiser and S. Lavenberg, "Mean-value analysis of closed multichain queuing networks", 1980.
fn mean_values(users: u32, think: f64, service: f64) -> (f64, f64) {
    let (mut queue, mut values) = (0.0, (0.0, 0.0));
    for number in 1..=users {
        let response = service * (1.0 + queue);
        let throughput = f64::from(number) / (response + think);
        queue = throughput * response;
        values = (response, throughput);
    }
    values
}

#[test]
fn response_times_and_throughput_are_those_of_a_closed_queue() {
    for users in [1, 5, 12] {
        let law =
            format!("count = {users}, think_time = {{ kind = \"exponential\", mean = \"100ms\" }}");
        let simulation = simulated(&described(&law, ""), 4000);
        let (response, throughput) = mean_values(users, 0.1, 0.02);
        let task = &simulation.domains["front"].tasks[0];
        let measured = task
            .response_times
            .as_ref()
            .unwrap()
            .mean()
            .unwrap()
            .high
            .unwrap();
        let ratio = measured.as_secs_f64() / response;
        assert!(
            (0.98..1.02).contains(&ratio),
            "{users} users: {measured} for {response} s"
        );
        let ratio = task.released as f64 / 4000.0 / throughput;
        assert!(
            (0.98..1.02).contains(&ratio),
            "{users} users: {} requests",
            task.released
        );
    }
}

#[test]
fn a_reservation_is_asked_for_no_more_than_it_gives() {
    let law = "count = 30, think_time = { kind = \"constant\", value = \"10ms\" }";
    let reservation = ", reservation = { budget = \"4ms\", period = \"10ms\", cpus = [0] }";
    let simulation = simulated(&described(law, reservation), 200);
    let front = &simulation.domains["front"];
    assert!(
        (0.399..=0.4001).contains(&front.cpu_share),
        "{}",
        front.cpu_share
    );
    // At most the users wait, so that the queue does not grow.
    assert!(front.growth.is_none());
    assert!(front.tasks[0].unfinished <= 30);
}

#[test]
fn more_users_come_and_all_of_them_go() {
    let law = "count = 0, think_time = { kind = \"constant\", value = \"100ms\" }, \
               changes = [{ at = \"10s\", count = 5, over = \"4s\" }, { at = \"20s\", count = 0 }]";
    let description = described(law, "");
    let service = &description.services["web"];
    let inputs = InputFiles::default();
    let times = sent(service, &inputs, |_| 0);
    let at = |index: usize| times[index].at.as_nanos() as f64 / 1e9;
    assert!(
        (10.8..11.0).contains(&at(0)),
        "the first user comes after 0.8 s: {}",
        at(0)
    );
    assert!(
        (19.8..20.0).contains(&at(times.len() - 1)),
        "none asks after 20 s"
    );
    let users: std::collections::BTreeSet<u32> = times.iter().map(|one| one.user).collect();
    assert_eq!(users.len(), 5);
    let within = |from: f64, until: f64| {
        let due = times.iter().map(|one| one.at.as_nanos() as f64 / 1e9);
        due.filter(|at| (from..until).contains(at)).count()
    };
    // Each asks ten times a second.
    assert_eq!(within(15.0, 16.0), 50);
}

/// All requests, each answered so many nanoseconds after it was sent.
fn sent<'a>(
    service: &'a Service,
    inputs: &'a InputFiles,
    latency_ns: impl Fn(&UserRequest<'a>) -> u64,
) -> Vec<UserRequest<'a>> {
    let span = (Duration::ZERO, Duration::from_secs(60));
    let mut requests = UserRequests::of(("web", service), span, 7, inputs)
        .unwrap()
        .unwrap();
    let mut all = Vec::new();
    while let Some(request) = requests.take() {
        requests.replied(request.user, request.at.as_nanos() + latency_ns(&request));
        all.push(request);
    }
    all
}

#[test]
fn sessions_take_the_rows_of_a_walk_in_order() {
    let law = "count = 3, think_time = { kind = \"exponential\", mean = \"1s\" }, \
               session = [{ task = \"look\", times = 4 }], parameters = \"walks.csv\"";
    let description = described(law, "");
    let mut inputs = InputFiles::default();
    let walks = "session,step\na,0\na,1\na,2\nb,10\nb,11\nb,12\nb,13\n";
    inputs.insert_parameters("walks.csv", parse_parameters(walks, "walks.csv").unwrap());
    let service = &description.services["web"];
    let all = sent(service, &inputs, |_| 1_000_000);
    let own: Vec<&str> = all
        .iter()
        .filter(|one| one.user == 1)
        .map(|one| &*one.parameters[1])
        .collect();
    let walks: std::collections::BTreeSet<String> =
        own.chunks_exact(4).map(|walk| walk.join(" ")).collect();
    let both = ["0 1 2 0", "10 11 12 13"].map(String::from);
    assert_eq!(walks, both.into());
}

#[test]
fn who_asks_what_depends_on_the_seed_alone() {
    let law = "count = 4, think_time = { kind = \"exponential\", mean = \"1s\" }";
    let description = described(law, "");
    let service = &description.services["web"];
    let inputs = InputFiles::default();
    let by_user = |latency_ns: u64| {
        let all = sent(service, &inputs, |_| latency_ns);
        let own = all.into_iter().filter(|one| one.user == 2);
        own.map(|one| one.execution).take(20).collect::<Vec<_>>()
    };
    assert_eq!(by_user(0), by_user(500_000_000));
}

#[test]
fn users_ask_for_the_expected_times_of_a_calibrated_task() {
    let law = "count = 2, think_time = { kind = \"constant\", value = \"1s\" }";
    let mut description = described(law, "");
    let service = description.services.get_mut("web").unwrap();
    let look = service.tasks.get_mut("look").unwrap();
    look.execution_time = ExecutionTime::Calibrated {
        expected: Some(Duration::from_millis(20)),
    };
    let simulation = simulated(&description, 100);
    let share = simulation.domains["front"].cpu_share;
    // Two requests of 20 ms every 1.02 s, or a little later where they wait for each other.
    assert!((0.038..0.04).contains(&share), "{share}");
}
