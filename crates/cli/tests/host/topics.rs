//! Contracts that the kernel enforces, against a sender that floods over a network of its own; a topic that programs of
//! `run` carry by RTPS.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tailbound_control::ReservationStatus;
use tailbound_enforcement::Target;
use tailbound_job_log::{JobLog, MessageId};
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_linux::process::send_signal;

use crate::bench::{Bench, Ended, signal};

const NAMESPACE: &str = "tbt-flood";
const OWN_END: &str = "tbt-flood0";
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 213, 7, 1);
const PORT: u16 = 7493;
const SIGKILL: i32 = 9;
/// The datagrams of a flood.
const FLOOD: usize = 2_000;
/// The datagrams that a contract of five messages a minute admits at once of each sender: the messages and a farewell, and as many
/// again that the network may have delayed. One more comes in ten seconds.
const ADMITTED: usize = 12;

const ROBOT: &str = r#"
schema_version = 1
name = "robot"
[hosts.arm]
cpus = [0, 1]
housekeeping = [0]
[domains.guarded]
kind = "process"
command = ["planner"]
NETWORK
[domains.guarded.tasks.plan]
arrivals = { kind = "periodic", period = "60s" }
execution_time = { kind = "constant", value = "1ms" }
[domains.camera]
kind = "process"
command = ["camera"]
[domains.camera.tasks.grab]
arrivals = { kind = "periodic", period = "60s" }
execution_time = { kind = "constant", value = "1ms" }
[topics.image]
publishers = ["camera/grab"]
subscribers = ["guarded/plan"]
size = 64
transport = "udp"
address = "10.213.7.1:7493"
contract = { messages = 5, interval = "60s" }
guard = "kernel"
"#;

/// A network namespace with a way to this one, or to one of the domain's own; gone with the test.
struct ForeignNetwork {
    board: Option<&'static str>,
}

impl ForeignNetwork {
    /// `None` where the kernel gives no namespace or no way.
    fn new(board: Option<&'static str>) -> Option<Self> {
        let network = Self { board };
        let (place, at) = match board {
            Some(board) => (format!("netns {board}"), format!("-n {board}")),
            None => (String::new(), String::new()),
        };
        let own = board.map(|board| format!("ip netns add {board}"));
        let commands = [
            format!("ip netns add {NAMESPACE}"),
            format!(
                "ip link add {OWN_END} {place} type veth peer name tbt-flood1 netns {NAMESPACE}"
            ),
            format!("ip {at} address add {OWN_ADDRESS}/24 dev {OWN_END}"),
            format!("ip {at} link set {OWN_END} up"),
            format!("ip -n {NAMESPACE} address add 10.213.7.2/24 dev tbt-flood1"),
            format!("ip -n {NAMESPACE} link set tbt-flood1 up"),
            format!("ip -n {NAMESPACE} route add 239.0.0.0/8 dev tbt-flood1"),
        ];
        let mut commands = own.iter().chain(&commands);
        commands.all(|command| shell(command)).then_some(network)
    }

    /// Sends datagrams of 64 bytes to the group, each burst from a port of its own.
    fn send(&self, group: Ipv4Addr, bursts: &[usize]) {
        let payload = "x".repeat(64);
        for count in bursts {
            let script = format!(
                "exec 3<>/dev/udp/{group}/{PORT}; for ((i = 0; i < {count}; i++)); do printf {payload} >&3; done"
            );
            assert!(shell(&format!(
                "ip netns exec {NAMESPACE} bash -c '{script}'"
            )));
        }
    }
}

impl Drop for ForeignNetwork {
    fn drop(&mut self) {
        shell(&format!("ip link delete {OWN_END} 2>/dev/null"));
        for namespace in [Some(NAMESPACE), self.board].into_iter().flatten() {
            shell(&format!("ip netns delete {namespace} 2>/dev/null"));
        }
    }
}

fn shell(command: &str) -> bool {
    let status = Command::new("bash").args(["-c", command]).status();
    status.is_ok_and(|status| status.success())
}

/// The command that enters a network namespace, before another one.
fn within(board: Option<&str>) -> String {
    board.map_or_else(String::new, |board| format!("ip netns exec {board} "))
}

fn has_table(board: Option<&str>) -> bool {
    let within = within(board);
    shell(&format!(
        "{within}nft list table inet tailbound-guarded.topics >/dev/null 2>&1"
    ))
}

/// The datagrams of the topic that the kernel has dropped, as status and metrics say.
fn dropped(bench: &Bench) -> u64 {
    let status = bench.run(&["status", "--format", "json"]).expect(0, &[]);
    let status: Value = serde_json::from_str(&status.out).unwrap();
    let reservations = status["reservations"].as_array().unwrap();
    let mut held = reservations.iter();
    let held = held.find(|one| one["domain"] == "guarded.topics").unwrap();
    let topic = &held["dropped"][0];
    assert_eq!(topic["topic"], "image");
    let reasons = ["too_long", "beyond_sender", "beyond_all"];
    let counts = reasons.map(|reason| topic[reason].as_u64().unwrap());
    let metric = format!(
        "tailbound_topic_datagrams_dropped_total{{domain=\"guarded.topics\",topic=\"image\",reason=\"beyond-sender\"}} {}\n",
        counts[1]
    );
    bench.run(&["metrics"]).expect(0, &[&metric]);
    bench.run(&["status"]).expect(0, &["dropped for", "image"]);
    counts.iter().sum()
}

/// The group of the topic, as a dry run says.
fn group(bench: &Bench) -> Ipv4Addr {
    let plan: Ended = bench.run(&["apply", "robot.toml", "--dry-run"]);
    let plan = plan.expect(0, &["add table inet tailbound-guarded.topics", OWN_END]);
    let group = plan.out.split("ip daddr ").nth(1).unwrap();
    group.split(' ').next().unwrap().parse().unwrap()
}

/// A bench with a foreign network; `None`, said loudly, where there can be none.
fn foreign(name: &str, board: Option<&'static str>) -> Option<(Bench, ForeignNetwork)> {
    let bench = Bench::enforcing(name)?;
    if !shell("nft list tables >/dev/null 2>&1") {
        eprintln!("SKIP {name}: needs nftables and the program nft");
        return None;
    }
    let Some(network) = ForeignNetwork::new(board) else {
        eprintln!("SKIP {name}: needs network namespaces and veth");
        return None;
    };
    Some((bench, network))
}

/// The datagrams that reach the socket, until none has come for a while.
fn received(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2_048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

#[test]
fn what_a_flood_sends_beyond_the_contract_reaches_no_socket() {
    const NAME: &str = "topics::what_a_flood_sends_beyond_the_contract_reaches_no_socket";
    let Some((bench, network)) = foreign(NAME, None) else {
        return;
    };
    bench.write("robot.toml", &ROBOT.replace("NETWORK\n", ""));
    let group = group(&bench);
    assert!(!has_table(None), "a dry run changes nothing");
    let socket = UdpSocket::bind((group, PORT)).unwrap();
    socket.join_multicast_v4(&group, &OWN_ADDRESS).unwrap();
    let silence = Some(Duration::from_millis(500));
    socket.set_read_timeout(silence).unwrap();
    network.send(group, &[50]);
    assert_eq!(received(&socket), 50, "without a contract all come");

    bench
        .run(&["apply", "robot.toml"])
        .expect(0, &["guarded.topics"]);
    assert!(has_table(None));
    network.send(group, &[FLOOD]);
    let flood = received(&socket);
    assert!((5..=ADMITTED + 6).contains(&flood), "{flood} of {FLOOD}");
    assert_eq!(flood as u64 + dropped(&bench), FLOOD as u64);
    network.send(group, &[5]);
    assert_eq!(received(&socket), 5, "another sender has its messages");
    bench.run(&["revert", "guarded.topics"]).expect(0, &[]);
    assert!(!has_table(None));
    network.send(group, &[50]);
    assert_eq!(received(&socket), 50, "nothing is left of the contract");

    bench.run(&["apply", "robot.toml"]).expect(0, &[]);
    assert!(has_table(None));
    kill_daemon(&bench);
    let deadline = Instant::now() + Duration::from_secs(60);
    while has_table(None) {
        assert!(Instant::now() < deadline, "the watchdog leaves the table");
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.assert_clean("guarded");
}

/// The network of the domain in the tests below.
const BOARD: &str = "tbt-board";

#[test]
fn a_contract_holds_in_the_network_namespace_of_the_domain() {
    const NAME: &str = "topics::a_contract_holds_in_the_network_namespace_of_the_domain";
    let Some((bench, network)) = foreign(NAME, Some(BOARD)) else {
        return;
    };
    // The link has the same name at both ends of the way, and its address is not known here.
    let keys = format!("network_namespace = \"{BOARD}\"\n");
    let robot = ROBOT.replace("NETWORK\n", &keys);
    bench.write("robot.toml", &robot.replace("10.213.7.1:", "tbt-flood0:"));
    let group = group(&bench);
    let mut listener = Listener::start(group);
    network.send(group, &[50]);
    assert_eq!(listener.received(), 50, "without a contract all come");

    bench
        .run(&["apply", "robot.toml"])
        .expect(0, &["guarded.topics"]);
    assert!(has_table(Some(BOARD)) && !has_table(None));
    network.send(group, &[FLOOD]);
    let flood = listener.received();
    assert!((5..=ADMITTED + 6).contains(&flood), "{flood} of {FLOOD}");
    assert_eq!(flood as u64 + dropped(&bench), FLOOD as u64);
    bench.run(&["revert", "guarded.topics"]).expect(0, &[]);
    assert!(!has_table(Some(BOARD)));
    network.send(group, &[50]);
    assert_eq!(listener.received(), 50, "nothing is left of the contract");

    bench.run(&["apply", "robot.toml"]).expect(0, &[]);
    assert!(has_table(Some(BOARD)));
    kill_daemon(&bench);
    let deadline = Instant::now() + Duration::from_secs(60);
    while has_table(Some(BOARD)) {
        assert!(Instant::now() < deadline, "the watchdog leaves the table");
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.run(&["apply", "robot.toml"]).expect(0, &[]);
    assert!(has_table(Some(BOARD)));
    drop((listener, network));
    // With the namespace the table is gone, and there is nothing to take back.
    bench.run(&["revert", "guarded.topics"]).expect(0, &[]);
    bench.assert_clean("guarded");
}

/// A process that receives in the network namespace of the domain; gone with the test.
struct Listener {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Listener {
    fn start(group: Ipv4Addr) -> Self {
        let mut command = Command::new("ip");
        let program = std::env::current_exe().unwrap();
        command.args(["netns", "exec", BOARD]).arg(program);
        command.args(["--ignored", "--exact", "--nocapture", "topics::listener"]);
        command.env("LISTENER_GROUP", group.to_string());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut listener = Self { process, output };
        assert_eq!(listener.said("ready"), "");
        listener
    }

    /// The datagrams that have come until there was silence.
    fn received(&mut self) -> usize {
        self.said("received ").parse().unwrap()
    }

    /// What follows on the next line that begins with a word.
    fn said(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some(rest) = line.trim_end().split_once(word) {
                return rest.1.to_owned();
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[test]
#[ignore = "a program of the test above"]
fn listener() {
    let Ok(group) = std::env::var("LISTENER_GROUP") else {
        return;
    };
    let group: Ipv4Addr = group.parse().unwrap();
    let socket = UdpSocket::bind((group, PORT)).unwrap();
    socket.join_multicast_v4(&group, &OWN_ADDRESS).unwrap();
    let silence = Some(Duration::from_millis(500));
    socket.set_read_timeout(silence).unwrap();
    println!("\nready");
    loop {
        match received(&socket) {
            0 => {}
            count => println!("\nreceived {count}"),
        }
    }
}

/// Kills the daemon, and not its watchdog.
fn kill_daemon(bench: &Bench) {
    let processes = bench.processes();
    let daemons = processes
        .iter()
        .filter(|one| one.contains("tailboundd") && !one.contains("--watchdog"));
    for daemon in daemons {
        let pid = daemon.split(['/', ' ']).nth(2).unwrap();
        assert!(shell(&format!("kill -KILL {pid}")));
    }
}

/// A partition whose tasks send each other messages within a network of its own.
const PARTITION: &str = r#"
schema_version = 1
name = "partition"
[hosts.arm]
cpus = [0, 1]
housekeeping = [0]
major_frame = "50ms"
[domains.guarded]
kind = "process"
builtin = "own-tasks"
isolation = { namespaces = ["network"] }
health = { exit = "restart", restarts = 5, interval = "1min" }
reservation = { backend = "time-partitions", cpus = [1], windows = [{ offset = "0ms", length = "20ms" }] }
[domains.guarded.tasks.speak]
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "constant", value = "200us" }
[domains.guarded.tasks.hear]
arrivals = { kind = "periodic", period = "50ms" }
execution_time = { kind = "constant", value = "200us" }
[topics.image]
publishers = ["guarded/speak"]
subscribers = ["guarded/hear"]
size = 64
transport = "udp"
address = "lo:7493"
contract = { messages = 25, interval = "1s" }
guard = "kernel"
[experiment]
duration = "10min"
warm_up = "100ms"
[[experiment.variants]]
name = "described"
"#;

/// The status of the topics that the daemon of a bench holds; `None` until it holds them.
fn held_topics(bench: &Bench) -> Option<ReservationStatus> {
    let status = bench.client()?.status().ok()?;
    let mut held = status.reservations.into_iter();
    held.find(|one| one.enforced.domain == "guarded.topics")
}

/// The process in whose network namespace the topics are held, once that is another one than before.
fn until_guarded(bench: &Bench, before: Option<u32>) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(held) = held_topics(bench)
            && let Target::Topics(topics) = held.enforced.target
            && let [NetworkPlace::OfProcess(pid)] = topics.networks[..]
            && before != Some(pid)
        {
            return pid;
        }
        assert!(Instant::now() < deadline, "{}", bench.said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Floods the group of a partition from within its network, until the kernel has dropped some of it.
fn flood_within(bench: &Bench, process: u32) {
    let held = held_topics(bench).unwrap();
    let Target::Topics(topics) = held.enforced.target else {
        panic!("{:?}", held.enforced.target);
    };
    let group = topics.limits[0].group;
    let script = format!(
        "ip route replace 239.0.0.0/8 dev lo; exec 3<>/dev/udp/{group}/{PORT}; \
         for ((i = 0; i < {FLOOD}; i++)); do printf x >&3; done"
    );
    assert!(shell(&format!(
        "nsenter --net --target {process} bash -c '{script}'"
    )));
    let dropped = held_topics(bench).unwrap().dropped;
    assert!(dropped[0].beyond_sender > 0, "{dropped:?}");
}

#[test]
fn a_contract_holds_in_the_network_of_a_partition_also_after_a_restart() {
    const NAME: &str = "topics::a_contract_holds_in_the_network_of_a_partition";
    let Some(bench) = Bench::enforcing(NAME) else {
        return;
    };
    if !shell("nft list tables >/dev/null 2>&1 && unshare --net true") {
        eprintln!("SKIP {NAME}: needs nftables, the program nft and network namespaces");
        return;
    }
    bench.write("partition.toml", PARTITION);
    let mut run = bench.start(&["run", "partition.toml", "--out", "out"]);
    let first = until_guarded(&bench, None);
    flood_within(&bench, first);
    send_signal(first, SIGKILL).unwrap();
    let second = until_guarded(&bench, Some(first));
    flood_within(&bench, second);
    assert!(!has_table(None));
    signal(&run, "INT");
    run.wait().unwrap();
    bench.assert_clean("guarded");
}

/// A sensor and an actor in domains of their own, with a reliable topic between them. The domain of DDS is one that no other test
/// has.
const RTPS_ROBOT: &str = r#"
schema_version = 1
name = "robot"
[hosts.local]
cpus = [0, 1]
housekeeping = [0]
[domains.sensor]
kind = "process"
builtin = "own-tasks"
[domains.sensor.tasks.sense]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "200us" }
[domains.actor]
kind = "process"
builtin = "own-tasks"
[domains.actor.tasks.act]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "100us" }
deadline = "20ms"
[topics.speed]
publishers = ["sensor/sense"]
released = ["actor/act"]
size = 64
transport = "rtps"
address = "127.0.0.1:97"
quality = { history = 1000, reliability = "reliable" }
delay = { most = "5ms" }
[chains.brake]
path = ["sensor/sense", "actor/act"]
data_age = "1s"
[experiment]
duration = "2s"
warm_up = "500ms"
[[experiment.variants]]
name = "unreserved"
backend = "none"
"#;

/// The messages in the log of a task.
fn logged_messages(bench: &Bench, task: &str, is_reader: bool) -> Vec<MessageId> {
    let text = std::fs::read_to_string(bench.path().join(format!("out/jobs/{task}.csv"))).unwrap();
    let jobs = JobLog::from_csv(&text).unwrap().jobs.into_iter();
    let messages = jobs.flat_map(|job| if is_reader { job.read } else { job.published });
    messages.flatten().collect()
}

#[test]
fn programs_of_a_run_exchange_messages_over_rtps() {
    let Some(bench) = Bench::enforcing("topics::programs_of_a_run_exchange_messages_over_rtps")
    else {
        return;
    };
    bench.write("robot.toml", RTPS_ROBOT);
    let ended = bench.run(&["run", "robot.toml", "--out", "out"]);
    assert!(matches!(ended.status, Some(0 | 2)), "{}", ended.err);
    let published = logged_messages(&bench, "sensor.sense", false);
    let read = logged_messages(&bench, "actor.act", true);
    assert!(!read.is_empty(), "{} were published", published.len());
    let unique: BTreeSet<_> = read.iter().map(|message| message.sequence).collect();
    assert_eq!(unique.len(), read.len(), "a message comes once");
    // The programs begin and end one after the other; between the first and the last that came, none is missing.
    let (first, last) = (read[0].sequence, read[read.len() - 1].sequence);
    let between = published.iter().map(|message| message.sequence);
    let between: BTreeSet<_> = between
        .filter(|sequence| (first..=last).contains(sequence))
        .collect();
    assert_eq!(unique, between, "{} were published", published.len());
    bench.assert_clean("sensor");
}
