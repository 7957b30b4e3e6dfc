//! Campaigns of `tailbound sample` on this host: short ones that end well, that are killed and go on, that are ended by
//! Ctrl-C, and that are refused.

use std::fs;
use std::path::Path;
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
least_time = "1s"
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

/// The whole records of the journal.
fn records(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("out/points.journal")).unwrap_or_default();
    let lines = text.lines().skip(1);
    lines
        .filter_map(|line| serde_json::from_str(line.splitn(3, ' ').nth(2)?).ok())
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
    assert!(durations.min().unwrap() >= 1_000_000_000, "each is whole");
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
"#;
    bench.write("shop.toml", &SHOP.replace("CHANGE", metrics));
    let ended = sample(&bench, &[]).expect(
        0,
        &[
            "metric \"backwards\" has no value at 10 of 10 measurements",
            "the value -5 is negative",
            "10 of 10 measurements are marked odd-metric",
        ],
    );
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["answers"][0]["outcome"], "cheapest");
    assert!(document["overhead"]["measuring"].as_f64().unwrap() > 0.0);
    for record in records(bench.path()) {
        // The counter is asked for before a measurement and after it.
        assert_eq!(record["metrics"]["answers"], 1.0, "{record}");
        assert!(record["metrics"].get("backwards").is_none());
    }
    assert_data_set(&bench.path().join("out"), 10);
    bench.assert_clean("shop-web");
}

/// Writes a description of two points with a web server of its own in place of the synthetic one.
fn place_web_server(bench: &Bench, server: &str) {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    bench.write("server.py", &server.replace("PORT", &port.to_string()));
    let text = SHOP
        .replace("CHANGE", "")
        .replace(
            "builtin = \"synthetic-service\"",
            "command = [\"python3\", \"server.py\"]",
        )
        .replace(
            "protocol = \"synthetic\"",
            "protocol = \"http\"\nready = { path = \"/ready\" }",
        )
        .replace("unix:shop.sock", &format!("127.0.0.1:{port}"))
        .replace("rate = \"300/s\"", "rate = \"150/s\"")
        .replace(
            "value = \"400us\" } }",
            "value = \"400us\" }, request = { path = \"/\" } }",
        )
        .replace("share = \"30..80/25\"", "share = \"80\"");
    bench.write("shop.toml", &text);
}

/// The request `ready` is answered with an error until the application has what it needs.
#[test]
fn a_campaign_begins_when_the_application_is_ready() {
    let Some(bench) = place("samples::ready", "") else {
        return;
    };
    place_web_server(
        &bench,
        r#"
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
"#,
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

/// A server that stops answering has no result at that point, and is started anew for the next one.
#[test]
fn an_application_that_gets_stuck_is_started_anew() {
    let Some(bench) = place("samples::stuck", "") else {
        return;
    };
    place_web_server(
        &bench,
        r#"
import http.server, pathlib, threading

first_life = not pathlib.Path("lived").exists()
pathlib.Path("lived").touch()

class Shop(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self):
        Shop.asked += 1
        if first_life and Shop.asked > 60:
            threading.Event().wait()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
"#,
    );
    sample(&bench, &[]).expect(0, &["web is stuck"]);
    let records = records(bench.path());
    let flags = |record: &Value| record["flags"].to_string();
    assert!(flags(&records[0]).contains("failed"), "{}", records[0]);
    assert!(
        records[1..]
            .iter()
            .all(|record| !flags(record).contains("failed")),
        "{records:?}"
    );
    bench.assert_clean("shop-web");
}
