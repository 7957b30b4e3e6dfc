//! Campaigns of `tailbound sample` on this host: short ones that end well, that are killed and go on, that are ended by
//! Ctrl-C, and that are refused.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{Bench, Ended, signal};

/// How long a campaign may take to measure a point.
const POINT_WITHIN: Duration = Duration::from_secs(120);

/// A service that works 400 us for each of 300 requests a second, and a campaign of six points.
const SHOP: &str = r#"
schema_version = 1
name = "shop"
[hosts.here]
cpus = [0, 1]
housekeeping = [1]
[domains.shop-web]
kind = "process"
builtin = "synthetic-service"
reservation = { budget = "5ms", period = "10ms", cpus = [0] }
[services.web]
domain = "shop-web"
protocol = "synthetic"
endpoint = "unix:shop.sock"
tasks.get = { arrivals = { kind = "poisson", rate = "300/s" }, execution_time = { kind = "constant", value = "400us" } }
[[services.web.slos]]
percentile = 50
latency = "10s"
[sampling]
share = "30..80/25"
period = "10ms,20ms"
control_distance = 4
warm_up = "50ms"
least_time = "500ms"
most_time = "2s"
CHANGE
"#;

fn place(test: &str, change: &str) -> Option<Bench> {
    let bench = Bench::enforcing(test)?;
    bench.write("shop.toml", &SHOP.replace("CHANGE", change));
    Some(bench)
}

fn sample(bench: &Bench, more: &[&str]) -> Ended {
    let words = ["sample", "shop.toml", "--out", "out", "--format", "json"];
    bench.run(&[&words[..], more].concat())
}

/// A campaign that measures all points; whether intervals are narrow enough for an answer is left to the host.
fn sample_to_the_end(bench: &Bench, said: &[&str]) {
    let ended = sample(bench, &[]);
    let status = ended.status.filter(|status| [0, 2].contains(status));
    ended.expect(status.unwrap_or(0), said);
}

/// The whole records of the journal.
fn records(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("out/points.journal")).unwrap_or_default();
    let lines = text.lines().skip(1);
    lines
        .map(|line| {
            // The journal has a backslash for each one, and one more.
            let record = line.splitn(3, ' ').nth(2)?.replace("\\\\", "\\");
            serde_json::from_str(&record).ok()
        })
        // The last line may be half written.
        .map_while(|record| record)
        .collect()
}

/// Waits until the journal has so many records.
fn until_measured(bench: &Bench, count: usize) {
    let deadline = Instant::now() + POINT_WITHIN;
    while records(bench.path()).len() < count {
        assert!(
            Instant::now() < deadline,
            "never measured: {}",
            bench.said()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn json_file(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The data set has what its package says: files, columns, and a row a measurement.
fn assert_data_set(folder: &Path, measurements: usize) {
    let package = json_file(&folder.join("datapackage.json"));
    let resources = package["resources"].as_array().unwrap();
    let points = &resources[0];
    let table = fs::read_to_string(folder.join(points["path"].as_str().unwrap())).unwrap();
    let fields = points["schema"]["fields"].as_array().unwrap().iter();
    let names: Vec<&str> = fields
        .map(|field| field["name"].as_str().unwrap())
        .collect();
    assert_eq!(table.lines().next().unwrap(), names.join(","));
    assert_eq!(table.lines().count(), measurements + 1);
    let raw = resources.iter().find(|one| one["name"] == "raw").unwrap();
    let raw = raw["path"].as_array().unwrap();
    assert_eq!(raw.len(), measurements);
    for path in raw {
        assert!(folder.join(path.as_str().unwrap()).is_file(), "{path}");
    }
}

/// The report has the figures of two shares and two periods, and each of them is a file, too.
fn assert_report(folder: &Path) {
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    for figure in [
        "web-1-deviation-over-period",
        "web-1-mean-over-period",
        "web-1-mean-over-share",
        "web-1-quantile-over-share",
        "web-1-surface",
    ] {
        assert!(page.contains(&format!("id=\"{figure}\"")), "no {figure}");
        let file = folder.join("figures").join(format!("{figure}.svg"));
        let svg = fs::read_to_string(&file).unwrap();
        assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
    }
    assert!(page.contains("share 30%"), "no curve of a share");
}

#[test]
fn a_short_campaign_finds_the_cheapest_reservation() {
    let Some(bench) = place("samples::short", "") else {
        return;
    };
    let ended = sample(&bench, &[]).expect(0, &[]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let answer = &document["answers"][0];
    assert_eq!(answer["outcome"], "cheapest", "{}", ended.out);
    assert_eq!(answer["share_percent"], 30.0);
    let reservation = &answer["reservations"]["shop-web"];
    let (budget, period) = (&reservation["budget_ns"], &reservation["period_ns"]);
    assert_eq!(budget.as_u64().unwrap() * 10, period.as_u64().unwrap() * 3);
    // Six points, and the control point at the beginning, after four, and at the end.
    assert_eq!(document["measurements"], 10);
    assert_data_set(&bench.path().join("out"), 10);
    assert_report(&bench.path().join("out"));
    // The folder has every point: nothing is measured again.
    let before = records(bench.path());
    sample(&bench, &[]).expect(0, &["10 points are in out already"]);
    assert_eq!(records(bench.path()), before);
    bench.write("shop.toml", &SHOP.replace("CHANGE", "repeats = 2"));
    sample(&bench, &[]).expect(1, &["the points of another description"]);
    bench.assert_clean("shop-web");
}

#[test]
fn a_killed_campaign_goes_on_where_it_was() {
    let Some(bench) = place("samples::killed", "") else {
        return;
    };
    let mut child = bench.start(&["sample", "shop.toml", "--out", "out"]);
    until_measured(&bench, 2);
    // Meanwhile the folder is taken.
    sample(&bench, &[]).expect(1, &["another campaign is writing"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = records(bench.path());
    assert!(kept.len() >= 2);
    let ended = sample(&bench, &[]).expect(0, &[]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["measurements"], 10);
    assert_eq!(records(bench.path())[..kept.len()], kept[..]);
    assert_data_set(&bench.path().join("out"), 10);
    bench.assert_clean("shop-web");
}

#[test]
fn ctrl_c_ends_a_campaign_after_the_point() {
    let Some(bench) = place("samples::stopped", "repeats = 20") else {
        return;
    };
    let mut child = bench.start(&["sample", "shop.toml", "--out", "out"]);
    until_measured(&bench, 1);
    signal(&child, "INT");
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(3), "{}", bench.said());
    let measured = records(bench.path());
    let durations = measured
        .iter()
        .map(|one| one["measured_ns"].as_u64().unwrap());
    assert!(durations.min().unwrap() >= 500_000_000, "each is whole");
    assert_data_set(&bench.path().join("out"), measured.len());
    bench.assert_clean("shop-web");
}

#[test]
fn an_adaptive_campaign_says_that_a_promise_is_unreachable() {
    let change = "design = \"adaptive\"\ntolerance_points = 5";
    let Some(bench) = place("samples::unreachable", change) else {
        return;
    };
    // No reservation answers before the work is done.
    let text = SHOP
        .replace("CHANGE", change)
        .replace("\"10s\"", "\"100us\"");
    bench.write("shop.toml", &text);
    let ended = sample(&bench, &[]).expect(2, &["no reservation that keeps the promises"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["answers"][0]["outcome"], "unreachable");
    bench.assert_clean("shop-web");
}

#[test]
fn an_application_that_does_not_start_is_reported() {
    let Some(bench) = place("samples::failing", "") else {
        return;
    };
    let text = SHOP
        .replace("CHANGE", "")
        .replace(
            "builtin = \"synthetic-service\"",
            "command = [\"no-such-program\"]",
        )
        .replace("\"synthetic\"", "\"http\"")
        .replace(
            "value = \"400us\" } }",
            "value = \"400us\" }, request = { path = \"/\" } }",
        );
    bench.write("shop.toml", &text);
    sample(&bench, &[]).expect(1, &["cannot start no-such-program"]);
    bench.assert_clean("shop-web");
}

/// The application is asked for what it says of itself; what makes no sense is said, and is no value.
#[test]
fn reports_of_the_application_are_columns_of_the_data_set() {
    let Some(bench) = place("samples::metrics", "") else {
        return;
    };
    let metrics = r#"
[sampling.metrics]
answers = { command = ["sh", "-c", "echo x >>count; wc -l <count"], counter = true }
backwards = { command = ["echo", "-5"] }
undefined = { command = ["echo", "own NaN"], prometheus = "own" }
early = { command = ["sh", "-c", "echo own 1 $(( ($(date +%s) + 60) * 1000 ))"], prometheus = "own" }
old = { command = ["echo", "<own at='5'>1</own>"], xml = "/own", stamp_ms = "/own/@at" }
missing = { command = ["echo", "<own><of name='a'>1</of></own>"], xml = "/own/of[@name='b']" }
inside = { command = ["echo", "<own><of name='a'>1</of></own>"], xml = "/own/of[@name='a']" }
"#;
    bench.write("shop.toml", &SHOP.replace("CHANGE", metrics));
    let ended = sample(&bench, &[]).expect(
        0,
        &[
            "metric \"backwards\" has no value at 10 of 10 measurements",
            "the value -5 is negative",
            "the value is NaN",
            " ms from now",
            "ms before the measurement",
            "the report has nothing at /own/of[@name='b']",
            "10 of 10 measurements are marked odd-metric",
        ],
    );
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["answers"][0]["outcome"], "cheapest");
    assert!(document["overhead"]["measuring"].as_f64().unwrap() > 0.0);
    for record in records(bench.path()) {
        // The counter is asked for before a measurement and after it.
        assert_eq!(record["metrics"]["answers"], 1.0, "{record}");
        assert_eq!(record["metrics"]["inside"], 1.0, "{record}");
        for odd in ["backwards", "undefined", "early", "old", "missing"] {
            assert!(record["metrics"].get(odd).is_none(), "{record}");
        }
    }
    assert_data_set(&bench.path().join("out"), 10);
    bench.assert_clean("shop-web");
}

/// The request `ready` is answered with an error until the application has what it needs.
#[test]
fn a_campaign_begins_when_the_application_is_ready() {
    let Some(bench) = place("samples::ready", "") else {
        return;
    };
    let server = r#"
import http.server

class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self):
        if self.path == "/ready":
            Shop.asked += 1
            status = 200 if Shop.asked > 3 else 503
        else:
            status = 200 if Shop.asked > 3 else 500
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
"#;
    let ready = "protocol = \"http\"\nready = { path = \"/ready\" }";
    serve(
        &bench,
        server,
        &[("CHANGE", ""), ("protocol = \"http\"", ready)],
    );
    let ended = sample(&bench, &[]).expect(0, &[]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        document["answers"][0]["outcome"], "cheapest",
        "{}",
        ended.out
    );
    let mut refused = records(bench.path()).into_iter();
    assert!(refused.all(|one| one["services"]["web"]["refused"] == 0));
    bench.assert_clean("shop-web");
}

/// A full disk ends the campaign with an error that names the file; with room again the same command goes on.
#[test]
fn a_full_disk_ends_a_campaign_which_goes_on_when_there_is_room() {
    let Some(bench) = place("samples::full_disk", "") else {
        return;
    };
    // The mount is gone with its namespace.
    let script = "mkdir out && mount -t tmpfs -o size=64k none out || exit 99
        $0 sample shop.toml --out out; echo status $?; cp out/points.journal kept
        mount -o remount,size=16m out
        $0 sample shop.toml --out out; echo status $?; cp out/points.journal all";
    let program = bench.tailbound(&[]).get_program().to_owned();
    let mut command = Command::new("unshare");
    let environment = bench.tailbound(&[]);
    let environment = environment
        .get_envs()
        .filter_map(|(key, value)| Some((key, value?)));
    command
        .args(["--mount", "sh", "-c", script])
        .arg(program)
        .envs(environment)
        .current_dir(bench.path());
    let ended = Ended::from(command.output().unwrap());
    if ended.status == Some(99) {
        eprintln!(
            "SKIP samples::full_disk: nothing can be mounted: {}",
            ended.err
        );
        return;
    }
    let ended = ended.expect(0, &["No space left on device", "status 1", "status 0"]);
    let error = ended
        .err
        .lines()
        .find(|line| line.contains("No space left"));
    assert!(
        error.unwrap().contains("out/"),
        "no file is named: {}",
        ended.err
    );
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(bench.path().join(name)).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let (kept, all) = (lines("kept"), lines("all"));
    let whole = kept.len() - 1;
    assert!(whole >= 2, "nothing was measured: {kept:?}");
    assert_eq!(
        all[..whole],
        kept[..whole],
        "kept points were measured again"
    );
    assert_eq!(all.len(), 11, "a title, nine points, and the answer again");
    bench.assert_clean("shop-web");
}

/// One point of a server in Python, which is asked 100 times a second; `change` goes before its last line.
fn serve_shop(bench: &Bench, change: &str, more: &str) {
    let server = r#"
import http.server, os, threading, time

class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked, kept, stuck = 0, [], False

    def do_GET(self):
        CHANGE
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
"#;
    let one_point = [
        ("CHANGE", more),
        ("rate = \"150/s\"", "rate = \"100/s\""),
        ("period = \"10ms,20ms\"", "period = \"10ms\""),
        ("control_distance = 4", "control_distance = 0"),
        ("least_time = \"500ms\"", "least_time = \"2s\""),
    ];
    serve(bench, &server.replace("CHANGE", change), &one_point);
}

/// A server in Python at the share of 80% in place of the synthetic service, with further changes of the description.
fn serve(bench: &Bench, server: &str, changes: &[(&str, &str)]) {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    bench.write("server.py", &server.replace("PORT", &port.to_string()));
    let address = format!("127.0.0.1:{port}");
    let own = [
        (
            "builtin = \"synthetic-service\"",
            "command = [\"python3\", \"server.py\"]",
        ),
        ("protocol = \"synthetic\"", "protocol = \"http\""),
        ("unix:shop.sock", &address),
        ("rate = \"300/s\"", "rate = \"150/s\""),
        (
            "value = \"400us\" } }",
            "value = \"400us\" }, request = { path = \"/\" } }",
        ),
        ("share = \"30..80/25\"", "share = \"80\""),
    ];
    let changes = own.iter().chain(changes);
    let text = changes.fold(SHOP.to_owned(), |text, (from, to)| text.replace(from, to));
    bench.write("shop.toml", &text);
}

/// An application that keeps memory of each request and becomes slower with each is said to do both.
#[test]
fn an_application_that_leaks_and_slows_down_is_said_to() {
    let Some(bench) = place("samples::leak", "") else {
        return;
    };
    let change =
        "Shop.asked += 1; Shop.kept.append(bytearray(200_000)); time.sleep(Shop.asked * 2e-4)";
    serve_shop(&bench, change, "");
    sample_to_the_end(&bench, &["marked slowing", "marked growing-memory"]);
    bench.assert_clean("shop-web");
}

/// A database that is killed within a point leaves this point without a result; the application is started anew, and the
/// campaign goes on.
#[test]
fn a_database_that_is_killed_costs_one_point() {
    let Some(bench) = place("samples::database", "") else {
        return;
    };
    let database = r#"
repeats = 3
[domains.shop-database]
kind = "process"
command = ["sh", "-c", "echo $$ >database.pid; exec sleep 600"]
cpus = [1]
"#;
    serve_shop(&bench, "pass", database);
    let mut child = bench.start(&["sample", "shop.toml", "--out", "out"]);
    until_measured(&bench, 1);
    let pid = fs::read_to_string(bench.path().join("database.pid")).unwrap();
    let killed = Command::new("kill").args(["-KILL", pid.trim()]).status();
    assert!(killed.unwrap().success());
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 2)), "{}", bench.said());
    let all = records(bench.path());
    let failures: Vec<&Value> = all
        .iter()
        .filter(|one| one.get("failure").is_some())
        .collect();
    assert_eq!(failures.len(), 1, "{all:?}");
    let why = failures[0]["failure"].as_str().unwrap();
    assert!(why.contains("shop-database"), "{why}");
    assert!(all.last().unwrap().get("failure").is_none(), "{all:?}");
    bench.assert_clean("shop-web");
}

/// Users who do not think ask again at once: a closed loop that is always full.
#[test]
fn users_without_think_time_are_sampled() {
    let Some(bench) = place("samples::think_time", "") else {
        return;
    };
    let text = SHOP
        .replace("CHANGE", "")
        .replace("kind = \"poisson\", rate = \"300/s\"", "kind = \"users\"")
        .replace(
            "[[services.web.slos]]",
            "users = { count = 3, think_time = { kind = \"constant\", value = \"0ms\" }, session = [{ task = \"get\" }] }\n\
             [[services.web.slos]]",
        )
        .replace("share = \"30..80/25\"", "share = \"40\"")
        .replace("control_distance = 4", "control_distance = 0");
    bench.write("shop.toml", &text);
    sample_to_the_end(&bench, &[]);
    for record in records(bench.path()) {
        let web = &record["services"]["web"];
        assert!(web["answered"].as_u64().unwrap() > 100, "{record}");
    }
    bench.assert_clean("shop-web");
}

/// A server that stops answering has no result at that point, and is started anew for the next one.
#[test]
fn an_application_that_gets_stuck_is_started_anew() {
    let Some(bench) = place("samples::stuck", "") else {
        return;
    };
    let change = r#"Shop.asked += 1
        if Shop.asked == 60 and not os.path.exists("was-stuck"):
            open("was-stuck", "w").close()
            Shop.stuck = True
        if Shop.stuck:
            threading.Event().wait()"#;
    let ready = "repeats = 2\n[services.web.ready]\npath = \"/ready\"";
    serve_shop(&bench, change, ready);
    sample_to_the_end(&bench, &["web is stuck"]);
    let failed: Vec<bool> = records(bench.path())
        .iter()
        .map(|record| record["flags"].to_string().contains("failed"))
        .collect();
    // The third measurement is that of an answer, if there is one.
    assert!(failed.len() >= 2, "{failed:?}");
    assert!(failed[0] && !failed[1..].contains(&true), "{failed:?}");
    bench.assert_clean("shop-web");
}
