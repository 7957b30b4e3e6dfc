//! Every example parses, predicts, and runs (shortened) to a report that makes sense.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tailbound_linux::{HostCapabilities, process};
use tailbound_tests::host::{self, Need};
use tailbound_tests::{binaries, repository};

/// A shortened run of an example, and what must come of it.
struct Shortened {
    file: &'static str,
    /// Rounds of the calibration fill twice the length of a run, and a band from two or three rounds is as wide as
    /// anything on a host that others disturb.
    scale: &'static str,
    needs: &'static [Need],
    /// Every variant, with the number of its repetitions.
    variants: &'static [(&'static str, usize)],
    /// Variants in which requests may be left at the end: the queue grows without end, or would on a host whose
    /// other programs take half of a CPU that is "dedicated", where nothing outranks them.
    overloaded: &'static [&'static str],
    /// Whether a promise is made, so that there are verdicts.
    promises: bool,
    /// Pairs of variants of which the first has the smaller p90, at any length and on any host.
    faster: &'static [(&'static str, &'static str)],
}

const REDIS: &[Need] = &[Need::Root, Need::TwoCpus, Need::Redis];
const BUILT_IN: &[Need] = &[Need::Root, Need::TwoCpus];
const AS_USUAL: &[(&str, usize)] = &[("reserved", 1), ("dedicated", 2), ("unreserved", 1)];
const MARGINS: &[(&str, usize)] = &[
    ("minus-5", 1),
    ("plus-0", 1),
    ("plus-5", 1),
    ("dedicated", 2),
];

fn descriptions() -> Vec<String> {
    let files = repository::files_ending_in(".toml");
    let paths: Vec<String> = files
        .into_iter()
        .map(|file| file.path)
        .filter(|path| path.starts_with("examples/") && !belongs_to_a_program(path))
        .collect();
    assert!(paths.len() >= 5, "only {paths:?}");
    paths
}

/// Whether it lies in the folder of an example that is a program.
fn belongs_to_a_program(path: &str) -> bool {
    let mut folders = Path::new(path).ancestors().skip(1);
    folders.any(|folder| {
        let in_examples = folder.starts_with("examples");
        in_examples && repository::root().join(folder).join("Cargo.toml").is_file()
    })
}

fn tailbound(arguments: &[&str]) -> Output {
    Command::new(binaries::program("tailbound"))
        .current_dir(repository::root())
        .args(arguments)
        .output()
        .unwrap()
}

fn text_of(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn every_example_is_a_valid_description() {
    for path in descriptions() {
        let text = fs::read_to_string(repository::root().join(&path)).unwrap();
        let problems = tailbound_analysis::FORMAT.check(&text, &path).problems;
        assert!(!problems.has_errors(), "{path}: {problems}");
    }
}

/// Examples that nothing enforces.
const SIMULATED_ONLY: [&str; 2] = [
    "examples/shared-host/shared-host.toml",
    "examples/walker/walker.toml",
];

#[test]
fn every_example_checks_predicts_and_simulates() {
    for path in descriptions() {
        for verb in [
            &["check"][..],
            &["predict"],
            &["simulate", "--duration", "20s"],
        ] {
            let mut arguments = verb.to_vec();
            arguments.insert(1, &path);
            let output = tailbound(&arguments);
            // What only simulation knows is refused by `check`, with a verdict.
            let refused = verb == ["check"] && SIMULATED_ONLY.contains(&path.as_str());
            let expected = if refused { 2 } else { 0 };
            let status = output.status.code();
            assert_eq!(
                status,
                Some(expected),
                "{arguments:?}: {}",
                text_of(&output)
            );
            assert!(!output.stdout.is_empty(), "{arguments:?} prints nothing");
        }
    }
}

#[test]
fn every_example_says_how_its_results_are_read() {
    for path in descriptions() {
        let folder = Path::new(&path).parent().unwrap();
        let readme = repository::root().join(folder).join("README.md");
        let text = fs::read_to_string(&readme).unwrap_or_default();
        let headings = ["## The report", "## Results"];
        let explained = headings.iter().any(|heading| text.contains(heading));
        assert!(explained, "{}: none of {headings:?}", readme.display());
    }
}

#[test]
fn redis_slo_runs() {
    run(&Shortened {
        file: "examples/redis-slo/redis-slo.toml",
        scale: "0.2",
        needs: REDIS,
        variants: AS_USUAL,
        overloaded: &["unreserved"],
        promises: true,
        faster: &[("reserved", "unreserved"), ("dedicated", "unreserved")],
    });
}

#[test]
fn embedded_runs() {
    run(&Shortened {
        file: "examples/embedded/embedded.toml",
        scale: "0.4",
        needs: BUILT_IN,
        variants: AS_USUAL,
        overloaded: &["unreserved"],
        promises: true,
        faster: &[("reserved", "unreserved"), ("dedicated", "unreserved")],
    });
}

#[test]
fn virtualization_agnostic_gamma1_runs() {
    run(&Shortened {
        file: "examples/virtualization-agnostic/gamma1.toml",
        scale: "0.1",
        needs: BUILT_IN,
        variants: MARGINS,
        overloaded: &["minus-5", "plus-0", "dedicated"],
        promises: false,
        faster: &[],
    });
}

#[test]
fn virtualization_agnostic_gamma2_runs() {
    run(&Shortened {
        file: "examples/virtualization-agnostic/gamma2.toml",
        scale: "0.11",
        needs: BUILT_IN,
        variants: MARGINS,
        overloaded: &["minus-5", "plus-0", "dedicated"],
        promises: false,
        faster: &[],
    });
}

#[test]
fn virtualization_agnostic_redis_hset_runs() {
    run(&Shortened {
        file: "examples/virtualization-agnostic/redis-hset.toml",
        scale: "0.07",
        needs: REDIS,
        variants: AS_USUAL,
        overloaded: &["unreserved"],
        promises: true,
        faster: &[],
    });
}

/// Name of the device that the flood comes over, and its thread.
const FLOODED: &str = "tbflood0";

/// The example of flooded interrupts, with a journal folder of its own.
fn interrupt_flood(folder: &Path, arguments: &[&str]) -> Command {
    example_program("examples/interrupt-flood/run", folder, arguments)
}

/// What tells that nothing can flood a device here.
const FLOOD: &[Need] = &[Need::Root, Need::TwoCpus, Need::Python, Need::Freezer];

fn has_ip() -> bool {
    Command::new("ip").arg("-V").output().is_ok()
}

/// Whether the device is there, or a journal of what was changed for it.
fn is_flood_left(folder: &Path) -> bool {
    let device = Path::new("/sys/class/net").join(FLOODED);
    device.exists() || !journals(folder).iter().all(|path| is_log(path))
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

/// Waits until something holds, or fails.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("not in the end: {what}");
}

/// Whether the host cannot flood a device, which is printed.
fn skips_flood(test: &str) -> bool {
    if host::skip(test, FLOOD) {
        return true;
    }
    let lacks_ip = !has_ip();
    if lacks_ip {
        eprintln!("SKIP {test}: needs ip");
    }
    lacks_ip
}

#[test]
fn interrupt_flood_runs() {
    if skips_flood("interrupt_flood_runs") {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--json", "--seconds", "1", "--cases", "below,above,budget"];
    let output = interrupt_flood(folder.path(), &arguments).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let [below, above, budget] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert_eq!(below["bound_ns"], 8_000_000);
    assert_eq!(
        above["bound_ns"],
        Value::Null,
        "a priority alone bounds nothing"
    );
    assert_eq!(budget["bound_ns"], 12_000_000);
    for run in &runs {
        assert!(run["jobs"].as_u64().unwrap() > 0, "{run}");
        assert!(run["packets_per_second"].as_u64().unwrap() > 0, "{run}");
    }
    // What a command held is taken back once its connection has ended.
    eventually("nothing is left", || !is_flood_left(folder.path()));
}

#[test]
fn interrupt_flood_leaves_nothing_when_killed() {
    if skips_flood("interrupt_flood_leaves_nothing_when_killed") {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut command = interrupt_flood(folder.path(), &["--seconds", "30", "--cases", "budget"]);
    let mut child = process::die_with_parent(&mut command)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let threaded = Path::new("/sys/class/net").join(FLOODED).join("threaded");
    let is_applied = || fs::read_to_string(&threaded).is_ok_and(|text| text.trim() == "1");
    eventually("the device has a thread", is_applied);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing is left", || !is_flood_left(folder.path()));
}

/// The needs of examples that put programs into other network namespaces.
const NAMESPACES: &[Need] = &[Need::Root, Need::TwoCpus, Need::Python, Need::Freezer];

/// A program of an example, with the programs under test on its path and their state in a folder.
fn example_program(path: &str, folder: &Path, arguments: &[&str]) -> Command {
    let programs = binaries::program("tailbound");
    let programs = programs.parent().unwrap().display().to_string();
    let search = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(repository::root().join(path));
    command.args(arguments);
    command.env("PATH", format!("{programs}:{search}"));
    command.env("TAILBOUND_STATE_DIR", folder.join("state"));
    command
}

/// Whether the host has no network namespaces for an example, which is printed.
fn skips_namespaces(test: &str) -> bool {
    if host::skip(test, NAMESPACES) {
        return true;
    }
    let lacks_ip = !has_ip();
    if lacks_ip {
        eprintln!("SKIP {test}: needs ip");
    }
    lacks_ip
}

/// A program in the background, which is asked to end when the test is over.
struct BackgroundProgram(std::process::Child);

impl Drop for BackgroundProgram {
    fn drop(&mut self) {
        let pid = self.0.id().to_string();
        let _has_ended_already = Command::new("kill").args(["-TERM", &pid]).status();
        let _is_reaped = self.0.wait();
    }
}

/// What the containers of the e-learning example lack here, if anything.
fn lacks_elearning_containers() -> Option<&'static str> {
    let answers = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_there = |path: &str| repository::root().join(path).exists();
    let needs = [
        ("runc", answers("runc")),
        ("java (openjdk-17-jre-headless)", answers("java")),
        ("mariadbd (mariadb-server-core)", answers("mariadbd")),
        (
            "tomcat10-common",
            is_there("/usr/share/tomcat10/bin/bootstrap.jar"),
        ),
        (
            "java/elearning/target/elearning.war, which tools/java builds",
            is_there("java/elearning/target/elearning.war"),
        ),
    ];
    let missing = needs.into_iter().find(|(_, is_met)| !is_met);
    missing.map(|(what, _)| what)
}

/// The containers of the e-learning example at these ports, when they are ready.
fn elearning_containers(folder: &Path, ports: &[String; 2]) -> BackgroundProgram {
    let said = folder.join("said");
    let places = [
        "--port",
        &ports[0],
        "--database-port",
        &ports[1],
        "--warm-up",
        "200",
    ];
    let mut containers = example_program("examples/elearning/containers", folder, &places);
    containers
        .stdin(Stdio::null())
        .stderr(fs::File::create(&said).unwrap());
    let containers = BackgroundProgram(process::die_with_parent(&mut containers).spawn().unwrap());
    let words = || fs::read_to_string(&said).unwrap();
    // Whoever comes first makes the data of the database.
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(600);
    while !words().contains("ready on port") {
        assert!(std::time::Instant::now() < give_up, "{}", words());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    containers
}

/// The description of the containers at a port, with a campaign of two points.
fn short_elearning_campaign(port: &str) -> String {
    let file = repository::root().join("examples/elearning/containers.toml");
    let text = fs::read_to_string(file)
        .unwrap()
        .replace(":18080", &format!(":{port}"));
    let (before, _) = text.split_once("[sampling]").unwrap();
    let (_, metric) = text.split_once("[sampling.metrics").unwrap();
    let campaign = "[sampling]\nservices = [\"web\"]\nshare = \"60,90\"\nleast_time = \"1s\"\nmost_time = \"1s\"\n\
                    warm_up = \"200ms\"\ncontrol_distance = 0\n\n[sampling.metrics";
    format!("{before}{campaign}{metric}")
}

/// Two points of the application in its containers, with what the application itself reports in XML.
#[test]
fn elearning_is_sampled_in_containers() {
    let test = "elearning_is_sampled_in_containers";
    if host::skip(test, NAMESPACES) {
        return;
    }
    if let Some(what) = lacks_elearning_containers() {
        return eprintln!("SKIP {test}: needs {what}");
    }
    let folder = tempfile::tempdir().unwrap();
    let listeners = [0, 1].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.map(|one| one.local_addr().unwrap().port().to_string());
    let containers = elearning_containers(folder.path(), &ports);
    let short = folder.path().join("containers.toml");
    fs::write(&short, short_elearning_campaign(&ports[0])).unwrap();
    let output = Command::new(binaries::program("tailbound"))
        .args(["sample", "containers.toml", "--out", "samples"])
        .args(["--format", "json"])
        .current_dir(folder.path())
        .env("TAILBOUND_STATE_DIR", folder.path().join("state"))
        .output()
        .unwrap();
    // Whether a promise is kept in a second is open.
    let is_measured = [0, 2].contains(&output.status.code().unwrap_or(1));
    assert!(is_measured, "{}", text_of(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["measurements"], 2, "{document}");
    let table = fs::read_to_string(folder.path().join("samples/points.csv")).unwrap();
    let mut rows = table
        .lines()
        .map(|row| row.split(',').collect::<Vec<&str>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|own| *own == name).unwrap();
    for row in rows {
        let inside: f64 = row[column("metric_inside_position_ns")].parse().unwrap();
        assert!(inside > 0.0, "{table}");
        let answered: u64 = row[column("answered")].parse().unwrap();
        assert!(answered > 0, "{table}");
    }
    drop(containers);
    let groups = HostCapabilities::probe().cgroup_v2_root.unwrap();
    for group in ["elearning-web", "elearning-database"] {
        assert!(!groups.join(group).exists(), "{group} is left");
    }
}

#[test]
fn virtual_middleware_runs() {
    if skips_namespaces("virtual_middleware_runs") {
        return;
    }
    let missing = Command::new(repository::root().join("tools/guest"))
        .arg("missing")
        .output();
    let has_guest = missing.is_ok_and(|output| output.status.success());
    let places = match has_guest {
        true => "host,container,guest",
        false => {
            eprintln!(
                "SKIP the guest of virtual_middleware_runs: needs what `tools/guest missing` names"
            );
            "host,container"
        }
    };
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--json",
        "--seconds",
        "1",
        "--sizes",
        "64",
        "--works",
        "0",
        "--loads",
        "reserved",
        "--places",
        places,
    ];
    let program = "examples/virtual-middleware/run";
    let output = example_program(program, folder.path(), &arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    // Nobody reserves for the kernel, which answers echo requests, but in a guest.
    assert_eq!(runs.len(), if has_guest { 7 } else { 4 });
    for run in &runs {
        let answered = run["latencies_ns"].as_array().unwrap().len() as u64;
        let requests = run["requests"].as_u64().unwrap();
        // A host that stands still may lose some of the last ones.
        assert!(requests > 100 && answered * 2 > requests, "{run}");
    }
    eventually("nothing is left", || {
        journals(folder.path()).iter().all(|path| is_log(path))
    });
}

#[test]
fn brownout_divides_a_cpu_among_shops() {
    let needs = &[Need::Root, Need::TwoCpus, Need::Python];
    if host::skip("brownout_divides_a_cpu_among_shops", needs) {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let given = "--shops 4 --variants balance --phase 2 --interval 1 --results";
    let arguments: Vec<&str> = given
        .split(' ')
        .chain([results.to_str().unwrap()])
        .collect();
    let program = "examples/brownout/experiment.py";
    let output = example_program(program, folder.path(), &arguments)
        .output()
        .unwrap();
    let printed = text_of(&output);
    assert!(output.status.success(), "{printed}");
    // A row for each of four shops in each of five phases, and one for the whole.
    let rows = printed.lines().filter(|line| line.starts_with("balance  "));
    assert_eq!(rows.count(), 4 * 5 + 1, "{printed}");
    let intervals = fs::read_to_string(results.join("intervals-4.csv")).unwrap();
    let mut capacities: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in intervals.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let of_interval = capacities.entry(fields[0]).or_default();
        of_interval.push(fields[2].parse().unwrap());
    }
    assert!(!capacities.is_empty(), "{printed}");
    for (at, capacities) in capacities {
        // Of each 100 ms; the manager has one of the other ten.
        assert_eq!(capacities.len(), 4, "{at}");
        assert_eq!(capacities.iter().sum::<u64>(), 90_000_000, "{at}");
    }
    eventually("nothing is left", || {
        journals(folder.path()).iter().all(|path| is_log(path))
    });
}

/// Whether a process runs whose command line matches.
fn runs(pattern: &str) -> bool {
    let search = Command::new("pgrep")
        .args(["-f", pattern])
        .output()
        .unwrap();
    search.status.success()
}

#[test]
fn virtual_middleware_leaves_nothing_when_killed() {
    if skips_namespaces("virtual_middleware_leaves_nothing_when_killed") {
        return;
    }
    const SERVICE: &str = "synthetic-service .*udp:198[.]18[.]1[.]2:7461";
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let setting = [
        "--places",
        "container",
        "--transports",
        "udp",
        "--loads",
        "reserved",
        "--seconds",
        "30",
    ];
    let mut command = example_program("examples/virtual-middleware/run", folder.path(), &setting);
    let mut child = process::die_with_parent(&mut command)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the load comes, and so the service is reserved", || {
        runs("tailbound .*measure .*setting.toml")
    });
    assert!(runs(SERVICE));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing is left", || {
        !runs(SERVICE)
            && !runs("internal cpu-hog")
            && journals(folder.path()).iter().all(|path| is_log(path))
    });
}

#[test]
fn walker_runs_on_two_boards() {
    if skips_namespaces("walker_runs_on_two_boards") {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let arguments = [
        "two-boards",
        "--duration-scale",
        "0.1",
        "--out",
        out.to_str().unwrap(),
    ];
    let output = example_program("examples/walker/run", folder.path(), &arguments)
        .output()
        .unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 2)),
        "{}",
        text_of(&output)
    );
    let report = read(&out.join("report.json"));
    let chains = report["chains"].as_array().unwrap().iter();
    let measured: Vec<&Value> = chains
        .filter(|row| row["evidence"] == "sample" && row["chain"] == "show")
        .collect();
    // From the board with the position to the one with the picture, in both variants.
    assert_eq!(measured.len(), 2, "{report:#}");
    for row in measured {
        assert!(row["traced"].as_u64().unwrap() > 10, "{row:#}");
    }
}

/// The rows that a program of an example prints as JSON.
fn printed_rows(program: &str, folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = example_program(program, folder, arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn walker_compares_transports_and_numbers_of_subscribers() {
    if skips_namespaces("walker_compares_transports_and_numbers_of_subscribers") {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let program = "examples/walker/run";
    let study = ["transports", "--mappings", "one-board", "--scale", "0.1"];
    let study = [&study[..], &["--json"]].concat();
    let rows = printed_rows(program, folder.path(), &study);
    // Messages and the picture, in two variants.
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in &rows {
        assert!(row["count"].as_u64().unwrap() > 10, "{row}");
    }
    let study = ["fan-out", "--transports", "rtps", "--subscribers", "3"];
    let study = [&study[..], &["--sizes", "64,4096"]].concat();
    let study = [&study[..], &["--scale", "0.1", "--json"]].concat();
    let rows = printed_rows(program, folder.path(), &study);
    let sizes: Vec<u64> = rows
        .iter()
        .map(|row| row["size"].as_u64().unwrap())
        .collect();
    assert!(
        rows.len() == 2 && sizes.contains(&64) && sizes.contains(&4096),
        "{rows:?}"
    );
    for row in &rows {
        assert!(row["count"].as_u64().unwrap() > 10, "{row}");
    }
}

#[test]
fn video_partitions_compares_scenarios_and_sizes() {
    if host::skip("video_partitions_compares_scenarios_and_sizes", NAMESPACES) {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let scenarios = "network,topics,single,partitioned";
    let arguments = ["--scenarios", scenarios, "--sizes", "1024,65536"];
    let rest = ["--scale", "0.02", "--repetitions", "1", "--json", "--out"];
    let arguments = [&arguments[..], &rest, &[out.to_str().unwrap()]].concat();
    let program = "examples/video-partitions/run";
    let rows = printed_rows(program, folder.path(), &arguments);
    let measured = rows.iter().filter(|row| row["kind"] == "measured");
    let measured: Vec<&Value> = measured.collect();
    // Datagrams in one size, three other scenarios in two.
    assert_eq!(measured.len(), 7, "{rows:?}");
    for row in &measured {
        assert!(row["requests"].as_u64().unwrap() > 50, "{row}");
    }
    // Each other scenario is predicted in each size.
    assert_eq!(rows.len(), 13, "{rows:?}");
    let results = read(&out.join("results.json"));
    assert_eq!(results["rows"].as_array().unwrap().len(), rows.len());
}

/// Conclusions of the paper that hold in simulation with every seed; the example's README tells of the
/// others.
const APERIODIC_HOLDS: &[&str] = &[
    "beats-background",
    "beats-background-without-overheads",
    "servers-lose",
    "sporadic-before-deferrable",
    "dual-leads-with-overheads",
    "overheads-favour-dual",
    "gain-matters-for-slack",
    "self-gain-before-propagated",
    "slack-costs-most",
];

#[test]
fn aperiodic_policies_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = Command::new(binaries::program("aperiodic-policies"))
        .args(["--quick", "--check", "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let results = read(&out.join("results.json"));
    let findings = results["findings"].as_array().unwrap();
    for id in APERIODIC_HOLDS {
        let finding = findings.iter().find(|finding| finding["id"] == *id);
        let finding = finding.unwrap_or_else(|| panic!("no finding {id}"));
        assert_eq!(finding["holds"], true, "{finding}");
        assert_eq!(finding["robust"], true, "{finding}");
    }
    for policy in results["overall"].as_array().unwrap() {
        let free = policy["overheads"] == false;
        assert!(!free || policy["deadline_misses"] == 0, "{policy}");
    }
    let rows = fs::read_to_string(out.join("results.csv")).unwrap();
    // Every application under every policy, without and with overheads, and the heading.
    let applications = results["applications"].as_u64().unwrap();
    assert_eq!(rows.lines().count() as u64, applications * 12 * 2 + 1);
    for figure in [
        "figure-02.svg",
        "figure-17-no-overheads.svg",
        "figures.html",
    ] {
        let text = fs::read_to_string(out.join(figure)).unwrap();
        assert!(text.contains("</svg>") && !text.contains("NaN"), "{figure}");
    }
}

const REAL: &[Need] = &[Need::SysNice, Need::IpcLock];
/// What `ds-freeze` needs, which executes soft jobs of every set where it is there.
const FROZEN: &[Need] = &[Need::SysNice, Need::IpcLock, Need::Root, Need::Freezer];

/// What takes part of the study to the kernel, with a journal folder of its own.
fn real_execution(folder: &Path, seconds: &str) -> Command {
    let mut command = Command::new(binaries::program("aperiodic-policies"));
    command.args(["--real", "--sets", "1", "--seconds", seconds, "--out"]);
    command.arg(folder.join("out"));
    command.env("TAILBOUND_STATE_DIR", folder.join("state"));
    command.env_remove("TAILBOUND_WITHOUT");
    command
}

/// Where enforcement keeps the soft jobs of the study, in every cgroup v2 hierarchy.
fn reserved_groups() -> Vec<PathBuf> {
    let roots = host::unified_hierarchies().into_iter();
    let groups = roots.map(|root| root.join("tailbound/aperiodic-policies"));
    groups.filter(|group| group.is_dir()).collect()
}

/// Journals of changes that nobody has taken back.
fn journals(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder.join("state")).into_iter().flatten();
    let paths = listed.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0))
        .collect()
}

#[test]
fn aperiodic_policies_are_executed() {
    if host::skip("aperiodic policies on the kernel", REAL) {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let output = real_execution(folder.path(), "1").output().unwrap();
    let printed = text_of(&output);
    assert!(output.status.success(), "{printed}");
    let results = read(&folder.path().join("out/real.json"));
    assert_eq!(results["clock"], "CLOCK_MONOTONIC");
    let rows = results["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{printed}");
    let frozen = !host::skip("ds-freeze among the aperiodic policies", FROZEN);
    for row in rows {
        let enforced =
            !row["budget_ns"].is_null() && row["means"].as_str().unwrap().contains("hard");
        if !row["not_run"].is_null() {
            // A back end may not take the budget, or the host may lack it. Ranks always work.
            let refused = row["means"] != "hard deferrable, ds-freeze" || !frozen;
            assert!(enforced && refused, "{row}");
            continue;
        }
        assert!(row["soft_done"].as_u64().unwrap() > 0, "{row}");
        assert!(row["soft_used_ns"].as_u64().unwrap() > 0, "{row}");
        assert!(row["hard_jobs"].as_u64().unwrap() > 0, "{row}");
        let ratio = row["measured_ratio"].as_f64().unwrap();
        assert!(ratio.is_finite() && ratio > 0.0, "{row}");
        // Without overheads nothing comes before the background; what stands still without budget may.
        assert!(
            enforced || row["simulated_ratio"].as_f64().unwrap() <= 1.0,
            "{row}"
        );
        let managed = row["means"].as_str().unwrap().contains("ranks");
        assert!(!managed || row["manager_looks"] != 0, "{row}");
        assert!(!managed || row["changes_refused"] == 0, "{row}");
    }
    let table = fs::read_to_string(folder.path().join("out/real.csv")).unwrap();
    assert_eq!(table.lines().count(), rows.len() + 1);
    let chart = fs::read_to_string(folder.path().join("out/real.svg")).unwrap();
    assert!(chart.contains("</svg>") && !chart.contains("NaN"));
    assert_eq!(journals(folder.path()), Vec::<PathBuf>::new(), "{printed}");
    assert_eq!(reserved_groups(), Vec::<PathBuf>::new(), "{printed}");
}

#[test]
fn aperiodic_policies_restore_the_host_when_killed() {
    if host::skip("aperiodic policies, killed", FROZEN) {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let mut command = real_execution(folder.path(), "2");
    let log = folder.path().join("stderr");
    let said = || fs::read_to_string(&log).unwrap();
    command.stdout(Stdio::null());
    command.stderr(fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    // The soft jobs' turn under ds-freeze comes by itself.
    while reserved_groups().is_empty() {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("ended without ds-freeze ({status}): {}", said());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The process that waits for this end takes everything back; it is given up after a while.
    for _ in 0..500 {
        if reserved_groups().is_empty() && journals(folder.path()).is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!(
        "left behind: {:?}, {:?}; {}",
        reserved_groups(),
        journals(folder.path()),
        said()
    );
}

/// A killed process closes its files before it has ended, and is alive for its journal until then.
#[test]
fn aperiodic_policies_restorer_waits_for_the_end_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // The restorer's input has ended; the shell, its parent, becomes a process that has not.
    command.args(["-c", "\"$0\" --role restorer < /dev/null & exec sleep 600"]);
    command.arg(binaries::program("aperiodic-policies"));
    command.env("TAILBOUND_STATE_DIR", folder.path().join("state"));
    let journal = folder.path().join("state/owned.journal");
    fs::create_dir(folder.path().join("state")).unwrap();
    let mut parent = command.spawn().unwrap();
    let owner = serde_json::json!({
        "record": "owner",
        "version": 1,
        "pid": parent.id(),
        "started": process::process_started(parent.id()).unwrap(),
        "boot": process::boot_id().unwrap(),
    });
    fs::write(&journal, format!("{owner}\n")).unwrap();
    for _ in 0..1_000 {
        if !process::children_of(parent.id()).unwrap().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // One that does not wait has ended by then.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let waiting = process::children_of(parent.id()).unwrap();
    let kept = journal.exists();
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(kept && waiting.len() == 1, "{kept} {waiting:?}");
    for _ in 0..500 {
        if !journal.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the journal of a process that has ended is left");
}

#[test]
fn aperiodic_policies_say_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    for (feature, expected) in [
        ("sched-fifo", "needs CAP_SYS_NICE, which is missing"),
        (
            "rt-throttling",
            "the kernel's bound for real-time threads is off",
        ),
    ] {
        // What comes first in the program's own order of checks.
        if feature != "sched-fifo" && host::skip("real execution without a bound", REAL) {
            continue;
        }
        let output = real_execution(folder.path(), "1")
            .env("TAILBOUND_WITHOUT", feature)
            .output()
            .unwrap();
        let printed = text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains(expected), "{printed}");
        assert!(!folder.path().join("out").exists());
    }
}

const MULTI_MODE: &[Need] = &[Need::Root, Need::TwoCpus, Need::SysNice, Need::Freezer];

#[test]
fn multi_mode_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let execute = !host::skip("multi-mode on the kernel", MULTI_MODE);
    let _alone = host::alone();
    let mut command = Command::new(binaries::program("multi-mode"));
    command.args(["--quick", "--cases", "5", "--out"]).arg(&out);
    if !execute {
        command.arg("--analysis-only");
    }
    let output = command.output().unwrap();
    let printed = text_of(&output);
    assert!(output.status.success(), "{printed}");
    let results = read(&out.join("results.json"));
    let cases = results["cpus"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        for count in ["at_least", "partitioned", "global"] {
            let cpus = |needed: &Value| needed[count].as_u64().unwrap();
            let worst = cpus(&case["worst_case"]);
            let modes = case["modes"].as_array().unwrap().iter().map(cpus);
            assert!(modes.max().unwrap() < worst, "{case}");
        }
    }
    let chart = fs::read_to_string(out.join("cpus.svg")).unwrap();
    assert!(chart.contains("</svg>") && !chart.contains("NaN"));
    if execute {
        check_multi_mode(&results["executed"], &printed);
    }
}

/// Misses are compared within one run, never with a number: any host may stall.
fn check_multi_mode(executed: &Value, printed: &str) {
    if executed["virtual_machine"] == false {
        eprintln!("SKIP the virtual machine of multi-mode: see its output: {printed}");
    }
    for (set_up, fits) in [("worst_case", false), ("modes", true)] {
        assert_eq!(executed["checks"][set_up]["fits"], fits, "{printed}");
    }
    let said = executed["checks"]["initial_mode"]["said"].as_str().unwrap();
    assert!(said.contains("in mode `mode1`"), "{printed}");
    let runs = executed["runs"].as_array().unwrap();
    let mode1 = |set_up: &str| -> &Value {
        let run = runs.iter().find(|run| run["set_up"] == set_up).unwrap();
        let phases = run["phases"].as_array().unwrap();
        for phase in phases {
            let changed = &phase["change"];
            assert!(
                changed.is_null() || changed["completed"] == true,
                "{printed}"
            );
            assert!(sum(phase, "jobs") > 0, "{phase} {printed}");
        }
        let steady = |phase: &&Value| phase["change"].is_null() && phase["mode"] == "mode1";
        phases.iter().find(steady).unwrap()
    };
    let (fixed, changed) = (mode1("initial mode"), mode1("of each mode"));
    if [fixed, changed]
        .iter()
        .any(|phase| phase["disturbed"] == true)
    {
        eprintln!("SKIP missed deadlines of multi-mode: something else had its CPU");
        return;
    }
    let (fixed, changed) = (sum(fixed, "missed"), sum(changed, "missed"));
    assert!(changed < fixed, "{changed} of {fixed} {printed}");
}

/// Over the domains of a phase.
fn sum(phase: &Value, key: &str) -> u64 {
    let domains = phase["jobs"].as_array().unwrap().iter();
    domains.map(|domain| domain[key].as_u64().unwrap()).sum()
}

fn run(example: &Shortened) {
    let test = format!("run of {}", example.file);
    if host::skip(&test, example.needs) {
        return;
    }
    let _alone = host::alone();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let history = folder.path().join("predictions.jsonl");
    let output = tailbound(&[
        "run",
        example.file,
        "--out",
        out.to_str().unwrap(),
        "--duration-scale",
        example.scale,
        "--history",
        history.to_str().unwrap(),
    ]);
    let code = output.status.code();
    assert!(
        [Some(0), Some(2)].contains(&code),
        "{test}: {}",
        text_of(&output)
    );
    let report = read(&out.join("report.json"));
    check_report(example, &report, &text_of(&output));
    check_bands(example, &report, &text_of(&output));
    check_prediction(example, &out, &report["bands"]);
    let kept = fs::read_to_string(&history).unwrap_or_default();
    let bands = report["bands"].as_array().unwrap().iter();
    let runs: usize = bands
        .map(|band| band["runs"].as_array().unwrap().len())
        .sum();
    assert_eq!(kept.lines().count(), runs, "{test}: {kept}");
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("</html>"), "{test}: no HTML report");
    let schedule = "id=\"schedules\"";
    assert!(html.contains(schedule), "{test}: no simulated schedule");
}

/// `predict` says from the recorded calibration what the run said before it measured.
fn check_prediction(example: &Shortened, out: &Path, bands: &Value) {
    let (variant, _) = example.variants[0];
    let of_run = bands.as_array().unwrap().iter();
    let of_run: Vec<&Value> = of_run
        .filter(|band| band["variant"] == variant)
        .map(|band| &band["band"])
        .collect();
    let ns = |value: &Value| format!("{}ns", value.as_u64().unwrap());
    let output = tailbound(&[
        "predict",
        example.file,
        "--calibration",
        out.to_str().unwrap(),
        "--variant",
        variant,
        "--duration",
        &ns(&of_run[0]["duration_ns"]),
        "--warm-up",
        &ns(&of_run[0]["distribution"]["provenance"]["warm_up_ns"]),
        "--no-history",
        "--format",
        "json",
        "-q",
    ]);
    let missed = of_run
        .iter()
        .flat_map(|band| band["promises"].as_array().unwrap())
        .any(|promise| promise["forecast"] == "will-miss");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut answers = answer["answers"].as_array().unwrap().iter();
    let overloaded = answers.any(|answer| answer["overload"].is_object());
    let code = if missed || overloaded { 2 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{}", text_of(&output));
    let predicted: Vec<&Value> = answer["bands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|band| &band["band"])
        .collect();
    assert_eq!(predicted, of_run, "{}", text_of(&output));
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// A variant with a reservation has a band for each service that is alone in its domain, and every repetition is held
/// against it.
fn check_bands(example: &Shortened, report: &Value, printed: &str) {
    let bands = report["bands"].as_array().unwrap_or_else(|| {
        panic!("no bands: {printed}");
    });
    let (name, repetitions) = example.variants[0];
    let own = bands.iter().filter(|band| band["variant"] == name);
    let own: Vec<&Value> = own.collect();
    assert!(!own.is_empty(), "{name} has no band: {printed}");
    for band in own {
        let runs = band["runs"].as_array().unwrap();
        assert_eq!(runs.len(), repetitions, "{name}: {printed}");
        for quantile in band["band"]["quantiles"].as_array().unwrap() {
            let end = |key: &str| quantile[key].as_u64().unwrap();
            let ordered = end("low_ns") <= end("median_ns") && end("median_ns") <= end("high_ns");
            assert!(end("low_ns") > 0 && ordered, "{quantile}");
        }
        for run in runs {
            assert!(run["lost_share"].is_f64(), "no supply: {printed}");
            // Too many requests may be left at the end for any percentile to be known.
            let judged = !run["quantiles"].as_array().unwrap().is_empty();
            assert!(judged || example.overloaded.contains(&name), "{printed}");
        }
        check_intervals(band, report, printed);
    }
}

/// A measurement has the intervals of the queue that the band is of, or those of its batches and a warning that
/// it is another queue's.
fn check_intervals(band: &Value, report: &Value, printed: &str) {
    let mut variants = report["variants"].as_array().unwrap().iter();
    let is_it = |one: &&Value| {
        ["variant", "service"]
            .iter()
            .all(|key| one[*key] == band[*key])
    };
    let variant = variants.find(is_it).unwrap();
    let intervals = variant["intervals"].as_array().unwrap();
    assert!(!intervals.is_empty(), "no interval: {printed}");
    let refused = report["warnings"].to_string().contains(&format!(
        "no queue fits what was measured of {} of variant {}:",
        band["service"].as_str().unwrap(),
        band["variant"].as_str().unwrap()
    ));
    for interval in intervals {
        let (low, high) = (interval["low_ns"].as_u64().unwrap(), &interval["high_ns"]);
        assert!(high.as_u64().is_none_or(|high| low <= high), "{interval}");
    }
    let expected = if refused {
        "batch-means"
    } else {
        "fitted-queue"
    };
    for verdict in variant["verdicts"].as_array().unwrap() {
        assert_eq!(verdict["method"], expected, "{printed}");
    }
}

fn check_report(example: &Shortened, report: &Value, printed: &str) {
    assert_eq!(report["interrupted"], Value::Null, "{printed}");
    let variants = report["variants"].as_array().unwrap();
    for (name, repetitions) in example.variants {
        let variant = variants
            .iter()
            .find(|variant| variant["variant"] == *name)
            .unwrap_or_else(|| panic!("no variant {name}: {printed}"));
        let measured = variant["measured"].as_array().unwrap();
        assert_eq!(measured.len(), *repetitions, "{name}: {printed}");
        for run in measured {
            assert!(run["answered"].as_u64().unwrap() > 0, "{name}: {printed}");
            let overloaded = example.overloaded.contains(name);
            assert!(overloaded || run["failed"] == 0, "{name}: {printed}");
            assert!(quantile(&run["overall"], 0.5) > 0, "{name}: {printed}");
        }
        let verdicts = variant["verdicts"].as_array().unwrap();
        assert_eq!(!verdicts.is_empty(), example.promises, "{name}: {printed}");
        for verdict in verdicts {
            assert_ne!(verdict["outcome"], "not-measured", "{name}: {printed}");
        }
    }
    assert!(
        variants
            .iter()
            .any(|variant| !variant["simulated"].is_null()),
        "nothing was simulated: {printed}"
    );
    assert!(
        !report["comparisons"].as_array().unwrap().is_empty(),
        "nothing was compared: {printed}"
    );
    for (fast, slow) in example.faster {
        let p90 = |name: &str| quantile(&first_run(variants, name)["overall"], 0.9);
        assert!(
            p90(fast) < p90(slow),
            "{fast} is not faster than {slow}: {printed}"
        );
    }
}

fn first_run<'a>(variants: &'a [Value], name: &str) -> &'a Value {
    let variant = variants.iter().find(|variant| variant["variant"] == name);
    &variant.expect("the variant is there")["measured"][0]
}

fn quantile(distribution: &Value, probability: f64) -> u64 {
    let text = distribution.to_string();
    let distribution: tailbound_distribution::Distribution = serde_json::from_str(&text).unwrap();
    distribution
        .quantile(probability)
        .map_or(0, |interval| interval.low.as_nanos())
}
