//! A contract that the kernel enforces, against a sender that floods over a network of its own.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Ended};

const NAMESPACE: &str = "tbt-flood";
const OWN_END: &str = "tbt-flood0";
const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 213, 7, 1);
const PORT: u16 = 7493;
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

/// A network namespace with a way to this one; gone with the test.
struct ForeignNetwork;

impl ForeignNetwork {
    /// `None` where the kernel gives no namespace or no way.
    fn new() -> Option<Self> {
        let network = Self;
        let commands = [
            format!("ip netns add {NAMESPACE}"),
            format!("ip link add {OWN_END} type veth peer name tbt-flood1 netns {NAMESPACE}"),
            format!("ip address add {OWN_ADDRESS}/24 dev {OWN_END}"),
            format!("ip link set {OWN_END} up"),
            format!("ip -n {NAMESPACE} address add 10.213.7.2/24 dev tbt-flood1"),
            format!("ip -n {NAMESPACE} link set tbt-flood1 up"),
            format!("ip -n {NAMESPACE} route add 239.0.0.0/8 dev tbt-flood1"),
        ];
        commands
            .iter()
            .all(|command| shell(command))
            .then_some(network)
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
        shell(&format!("ip netns delete {NAMESPACE} 2>/dev/null"));
    }
}

fn shell(command: &str) -> bool {
    let status = Command::new("bash").args(["-c", command]).status();
    status.is_ok_and(|status| status.success())
}

fn has_table() -> bool {
    shell("nft list table inet tailbound-guarded.topics >/dev/null 2>&1")
}

/// The datagrams that reach the socket, until none has come for a while.
fn received(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2_048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

#[test]
fn what_a_flood_sends_beyond_the_contract_reaches_no_socket() {
    const NAME: &str = "topics::what_a_flood_sends_beyond_the_contract_reaches_no_socket";
    let Some(bench) = Bench::enforcing(NAME) else {
        return;
    };
    if !shell("nft list tables >/dev/null 2>&1") {
        eprintln!("SKIP {NAME}: needs nftables and the program nft");
        return;
    }
    let Some(network) = ForeignNetwork::new() else {
        eprintln!("SKIP {NAME}: needs network namespaces and veth");
        return;
    };
    bench.write("robot.toml", ROBOT);
    let plan: Ended = bench.run(&["apply", "robot.toml", "--dry-run"]);
    let plan = plan.expect(0, &["add table inet tailbound-guarded.topics", OWN_END]);
    let group = plan.out.split("ip daddr ").nth(1).unwrap();
    let group: Ipv4Addr = group.split(' ').next().unwrap().parse().unwrap();
    assert!(!has_table(), "a dry run changes nothing");
    let socket = UdpSocket::bind((group, PORT)).unwrap();
    socket.join_multicast_v4(&group, &OWN_ADDRESS).unwrap();
    let silence = Some(Duration::from_millis(500));
    socket.set_read_timeout(silence).unwrap();
    network.send(group, &[50]);
    assert_eq!(received(&socket), 50, "without a contract all come");

    bench
        .run(&["apply", "robot.toml"])
        .expect(0, &["guarded.topics"]);
    assert!(has_table());
    network.send(group, &[FLOOD]);
    let flood = received(&socket);
    assert!((5..=ADMITTED + 6).contains(&flood), "{flood} of {FLOOD}");
    network.send(group, &[5]);
    assert_eq!(received(&socket), 5, "another sender has its messages");
    bench.run(&["revert", "guarded.topics"]).expect(0, &[]);
    assert!(!has_table());
    network.send(group, &[50]);
    assert_eq!(received(&socket), 50, "nothing is left of the contract");

    bench.run(&["apply", "robot.toml"]).expect(0, &[]);
    assert!(has_table());
    kill_daemon(&bench);
    let deadline = Instant::now() + Duration::from_secs(60);
    while has_table() {
        assert!(Instant::now() < deadline, "the watchdog leaves the table");
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.assert_clean("guarded");
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
