//! A division of CPU time among two applications, of which one lies and dies; the deaths of the command and of the daemon with
//! the manager; divisions over every back end whose budgets change while they are in force.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration as Pause, Instant};

use tailbound_linux::HostCapabilities;
use tailbound_linux::capabilities::Feature;
use tailbound_linux::process::die_with_parent;
use tailbound_time::Duration;

use crate::bench::{Bench, signal};

/// How long a state may take to come.
const COMES_WITHIN: Pause = Pause::from_secs(180);
/// The time between two looks.
const LOOK_EVERY: Pause = Pause::from_millis(50);
/// The CPU time that is divided, per 100 ms.
const WHOLE: Duration = Duration::from_millis(80);
/// The fair share of each of two.
const FAIR: Duration = Duration::from_millis(40);

/// An application whose report is the file that it is given; it writes its port beside.
const APPLICATION: &str = r#"
import http.server, os, sys

class Application(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[1], "rb") as report:
            body = report.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Application)
with open(sys.argv[1] + ".new", "w") as port:
    port.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1] + ".port")
server.serve_forever()
"#;

/// A process of the test that serves a report.
struct ReportingApplication<'a> {
    bench: &'a Bench,
    name: &'static str,
    process: Child,
    port: String,
}

impl<'a> ReportingApplication<'a> {
    fn start(bench: &'a Bench, name: &'static str) -> Self {
        bench.write("application.py", APPLICATION);
        let mut command = Command::new("python3");
        command
            .args(["application.py", name])
            .current_dir(bench.path())
            .stdin(Stdio::null());
        let process = die_with_parent(&mut command).spawn().unwrap();
        let file = bench.path().join(format!("{name}.port"));
        let port = until("the application listens", || fs::read_to_string(&file).ok());
        Self {
            bench,
            name,
            process,
            port,
        }
    }

    fn reports(&self, matching_value: f64, service_level: f64) {
        let text = format!(
            "{{\"matching_value\": {matching_value}, \"service_level\": {service_level}, \"latency_seconds\": 0.1, \
             \"deadline_seconds\": 1.0, \"requests\": 1, \"age_seconds\": 0.1}}"
        );
        self.bench.write(self.name, &text);
    }

    fn is_described(&self, backend: &str, fair: Duration) -> String {
        format!(
            "[domains.{name}]\nkind = \"process\"\npids = [{pid}]\n\
             reservation = {{ backend = \"{backend}\", budget = \"{fair}\", period = \"100ms\", cpus = [0] }}\n\n\
             [balance.applications.{name}]\ndomains = [\"{name}\"]\nsource = \"http://127.0.0.1:{port}/\"\n\
             least = \"5ms\"\n\n",
            name = self.name,
            pid = self.process.id(),
            port = self.port
        )
    }

    fn die(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for ReportingApplication<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for a state.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + COMES_WITHIN;
    loop {
        if let Some(state) = look() {
            return state;
        }
        assert!(Instant::now() < deadline, "it never comes that {what}");
        thread::sleep(LOOK_EVERY);
    }
}

/// The budget of a domain that is in force.
fn budget(bench: &Bench, domain: &str) -> Option<Duration> {
    let status = bench.client()?.status().ok()?;
    let mut reservations = status.reservations.into_iter();
    let one = reservations.find(|one| one.enforced.domain == domain)?;
    Some(one.enforced.interface.budget)
}

/// A place with python3 and quotas.
fn place(test: &str) -> Option<Bench> {
    let host = HostCapabilities::probe();
    if !host.has(Feature::QuotaV1) && !host.has(Feature::CpuV2) {
        eprintln!("SKIP {test}: needs CPU quotas of cgroups");
        return None;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIP {test}: needs python3");
        return None;
    }
    Bench::enforcing(test)
}

fn describe(bench: &Bench, applications: [&ReportingApplication<'_>; 2]) {
    describe_over(("cfs-quota", FAIR), bench, applications);
}

/// Divides twice the fair share, over a back end.
fn describe_over(
    (backend, fair): (&str, Duration),
    bench: &Bench,
    applications: [&ReportingApplication<'_>; 2],
) {
    let described = applications
        .map(|one| one.is_described(backend, fair))
        .concat();
    let whole = fair.saturating_add(fair);
    let text = format!(
        "schema_version = 1\nname = \"shops\"\n\n[hosts.here]\ncpus = [0, 1]\n\n\
         [balance]\ninterval = \"1s\"\nanswer_within = \"500ms\"\ncapacity = \"{whole}\"\nmanager = \"1ms\"\n\n{described}"
    );
    bench.write("shops.toml", &text);
}

/// The capacities of each interval of a log, and whether a measurement was missing.
fn intervals(log: &str) -> Vec<Vec<(String, u64, bool)>> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let capacity = fields[2].parse().unwrap();
        (fields[1].to_owned(), capacity, fields[3].is_empty())
    };
    let lines: Vec<_> = log.lines().skip(1).map(line).collect();
    lines.chunks_exact(2).map(<[_]>::to_vec).collect()
}

#[test]
fn a_liar_that_dies_costs_the_other_one_nothing_of_its_fair_share() {
    let Some(bench) = place("balance::liar") else {
        return;
    };
    let mut liar = ReportingApplication::start(&bench, "liar");
    let shop = ReportingApplication::start(&bench, "shop");
    describe(&bench, [&liar, &shop]);
    // The shop has more than it needs; the liar claims the least that can be claimed.
    liar.reports(-1.0, 0.0);
    shop.reports(0.9, 1.0);
    let mut manager = bench.start(&["balance", "shops.toml", "--log", "intervals.csv"]);
    until("the liar has a loan", || {
        budget(&bench, "liar").filter(|budget| *budget > Duration::from_millis(55))
    });
    // The shop needs its own, and the liar lies on.
    shop.reports(-1.0, 0.5);
    until("the shop has its fair share", || {
        budget(&bench, "shop").filter(|budget| *budget == FAIR)
    });
    assert_eq!(budget(&bench, "liar"), Some(FAIR));
    // The liar dies with a loan.
    shop.reports(0.9, 1.0);
    until("the liar has a loan again", || {
        budget(&bench, "liar").filter(|budget| *budget > FAIR)
    });
    liar.die();
    bench.until_said("liar: the capacity is held");
    shop.reports(-1.0, 0.5);
    until("the shop has its fair share again", || {
        budget(&bench, "shop").filter(|budget| *budget == FAIR)
    });
    signal(&manager, "INT");
    assert_eq!(manager.wait().unwrap().code(), Some(0), "{}", bench.said());
    assert!(
        !bench.said().contains("the budget stays"),
        "{}",
        bench.said()
    );
    let log = fs::read_to_string(bench.path().join("intervals.csv")).unwrap();
    let intervals = intervals(&log);
    assert!(intervals.len() > 3, "{log}");
    for interval in &intervals {
        let sum: u64 = interval.iter().map(|(_, capacity, _)| capacity).sum();
        assert_eq!(sum, WHOLE.as_nanos(), "{log}");
    }
    let is_held = |(name, _, is_held): &(String, u64, bool)| name == "liar" && *is_held;
    assert!(intervals.iter().flatten().any(is_held), "{log}");
    drop(shop);
    bench.assert_clean("shop");
    bench.assert_clean("liar");
}

#[test]
fn a_manager_that_is_killed_leaves_nothing_behind() {
    let Some(bench) = place("balance::killed") else {
        return;
    };
    let one = ReportingApplication::start(&bench, "one");
    let two = ReportingApplication::start(&bench, "two");
    describe(&bench, [&one, &two]);
    one.reports(-1.0, 0.2);
    two.reports(0.8, 1.0);
    let mut manager = bench.start(&["balance", "shops.toml"]);
    until("capacity has moved", || {
        budget(&bench, "one").filter(|budget| *budget > FAIR)
    });
    manager.kill().unwrap();
    manager.wait().unwrap();
    until("no reservation is in force", || {
        // A daemon that holds nothing ends.
        let Some(mut client) = bench.client() else {
            return Some(());
        };
        let status = client.status().ok()?;
        status.reservations.is_empty().then_some(())
    });
    drop((one, two));
    bench.assert_clean("one");
    bench.assert_clean("two");
}

#[test]
fn a_manager_whose_reservations_are_taken_back_says_so_and_ends() {
    let Some(bench) = place("balance::revert") else {
        return;
    };
    let one = ReportingApplication::start(&bench, "one");
    let two = ReportingApplication::start(&bench, "two");
    describe(&bench, [&one, &two]);
    one.reports(0.5, 1.0);
    two.reports(0.5, 1.0);
    let mut manager = bench.start(&["balance", "shops.toml"]);
    bench.until_said("until this command ends");
    bench.run(&["revert", "--all"]).expect(0, &["taken back"]);
    assert_eq!(manager.wait().unwrap().code(), Some(1), "{}", bench.said());
    let said = bench.said();
    assert!(
        said.contains("the reservations of all balanced domains have ended"),
        "{said}"
    );
    drop((one, two));
    bench.assert_clean("one");
}

/// Two applications, one of which is in need, among whom the daemon divides after the command has ended.
fn detached<'a>(bench: &'a Bench, needs: f64) -> [ReportingApplication<'a>; 2] {
    let one = ReportingApplication::start(bench, "one");
    let two = ReportingApplication::start(bench, "two");
    describe(bench, [&one, &two]);
    one.reports(needs, 0.2);
    two.reports(0.8, 1.0);
    let ended = bench.run(&["balance", "shops.toml", "--detach"]);
    ended.expect(
        0,
        &["80ms among one, two until `tailbound revert`, every 1s"],
    );
    [one, two]
}

#[test]
fn a_division_without_a_command_ends_by_revert() {
    let Some(bench) = place("balance::detached") else {
        return;
    };
    let applications = detached(&bench, -1.0);
    until("capacity has moved", || {
        budget(&bench, "one").filter(|budget| *budget > FAIR)
    });
    let status = bench.run(&["status"]);
    status.expect(0, &["\"shops\" divides 80ms every 1s", "one", "0.20"]);
    let metrics = bench.run(&["metrics"]);
    metrics.expect(
        0,
        &["tailbound_balance_matching_value{division=\"shops\",application=\"one\"} -1"],
    );
    // Nobody else changes what the manager divides, and no second manager comes.
    let mut client = bench.client().unwrap();
    let status = client.status().unwrap();
    let interface = status.reservations[0].enforced.interface.clone();
    let refused = client.change("one", &interface).unwrap_err().to_string();
    assert!(refused.contains("follows matching values"), "{refused}");
    let second = bench.run(&["balance", "shops.toml", "--detach"]);
    second.expect(1, &["one"]);
    drop(client);
    bench.run(&["revert", "one"]).expect(0, &["taken back"]);
    assert_eq!(budget(&bench, "one"), None);
    assert!(budget(&bench, "two").is_some_and(|budget| budget <= WHOLE));
    bench.run(&["revert", "--all"]).expect(0, &["taken back"]);
    let after = bench.client().and_then(|mut client| client.status().ok());
    assert!(after.is_none_or(|status| status.subsystems.is_empty()));
    drop(applications);
    bench.assert_clean("one");
    bench.assert_clean("two");
}

#[test]
fn a_daemon_with_a_division_that_is_killed_leaves_nothing_behind() {
    let Some(bench) = place("balance::daemon_killed") else {
        return;
    };
    let applications = detached(&bench, -1.0);
    until("capacity has moved", || {
        budget(&bench, "one").filter(|budget| *budget > FAIR)
    });
    let daemon = bench.client().unwrap().status().unwrap().pid.to_string();
    let killed = Command::new("kill").args(["-KILL", &daemon]).status();
    assert!(killed.unwrap().success());
    until("the watchdog has taken everything back", || {
        let left = tailbound_enforcement::standing_reservations(&bench.state()).ok()?;
        left.is_empty().then_some(())
    });
    assert!(bench.client().is_none(), "nothing is divided anew");
    drop(applications);
    bench.assert_clean("one");
    bench.assert_clean("two");
}

#[test]
fn capacities_are_budgets_of_every_back_end_that_changes_them_in_force() {
    let Some(bench) = place("balance::back_ends") else {
        return;
    };
    // Under fixed priorities, each gets its budget within a period however so much is divided.
    let fair = Duration::from_millis(20);
    for backend in ["ds-freeze", "deadline", "rt-group", "hcbs"] {
        let one = ReportingApplication::start(&bench, "one");
        let two = ReportingApplication::start(&bench, "two");
        describe_over((backend, fair), &bench, [&one, &two]);
        one.reports(-1.0, 0.2);
        two.reports(0.8, 1.0);
        let plan = bench.run(&["apply", "shops.toml", "--dry-run"]);
        if plan.status != Some(0) {
            eprintln!("SKIP balance::back_ends: needs {backend}: {}", plan.err);
            continue;
        }
        let mut manager = bench.start(&["balance", "shops.toml"]);
        until("capacity has moved", || {
            let ended = manager.try_wait().unwrap();
            assert!(ended.is_none(), "{backend}: {}", bench.said());
            budget(&bench, "one").filter(|budget| *budget > fair)
        });
        one.reports(0.5, 1.0);
        two.reports(-1.0, 0.5);
        until("the other one has its fair share", || {
            budget(&bench, "two").filter(|budget| *budget >= fair)
        });
        signal(&manager, "INT");
        assert_eq!(manager.wait().unwrap().code(), Some(0), "{backend}");
        let said = bench.said();
        assert!(!said.contains("the budget stays"), "{backend}: {said}");
        drop((one, two));
        bench.assert_clean("one");
        bench.assert_clean("two");
        for name in ["one", "two"] {
            fs::remove_file(bench.path().join(format!("{name}.port"))).unwrap();
        }
    }
}
