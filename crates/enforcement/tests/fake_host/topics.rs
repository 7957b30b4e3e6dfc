//! Contracts of topics in the kernel: a table for each domain, made with its reservations, and taken back.

use tailbound_analysis::resolution::Deployment;
use tailbound_enforcement::binding::{self, StartedProcesses};
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{EnforcementError, PlanError, ReservationRequest, Target};
use tailbound_model::Variant;

use super::fake_kernel::FakeKernel;
use super::stage::*;

/// A planner with two topics, of which the kernel guards one, and a recorder of the same topic.
const ROBOT: &str = r#"
schema_version = 1
name = "robot"
[hosts.arm]
cpus = [0, 1]
housekeeping = [0]
[domains.planner]
kind = "process"
pids = [100]
reservation = { backend = "ds-freeze", budget = "2ms", period = "10ms", cpus = [1] }
[domains.planner.tasks.plan]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "1ms" }
[domains.recorder]
kind = "process"
pids = [200]
[domains.recorder.tasks.write]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "1ms" }
[domains.camera]
kind = "process"
command = ["camera"]
[domains.camera.tasks.grab]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "1ms" }
[topics.image]
publishers = ["camera/grab"]
subscribers = ["planner/plan", "recorder/write"]
size = 1000
transport = "udp"
address = "10.0.0.2:7410"
contract = { messages = 2, interval = "20ms", bytes = 2000 }
guard = "kernel"
[topics.state]
publishers = ["camera/grab"]
subscribers = ["planner/plan"]
size = 1000
transport = "udp"
address = "10.0.0.2:7410"
contract = { messages = 2, interval = "20ms" }
"#;

fn requests() -> Vec<ReservationRequest> {
    let format = &tailbound_analysis::FORMAT;
    let description = format.load_text(ROBOT.to_owned(), "robot.toml");
    let description = description.unwrap().description;
    let deployment = Deployment::of(&description, None, &Variant::as_described()).unwrap();
    binding::requests(&deployment, &StartedProcesses::new()).unwrap()
}

fn tables(kernel: &FakeKernel) -> Vec<(String, Vec<String>)> {
    let tables = kernel.snapshot().packet_tables;
    tables.unwrap().into_iter().collect()
}

#[test]
fn each_domain_that_subscribes_gets_a_table_of_the_topics_that_the_kernel_guards() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let requests = requests();
    let names: Vec<&str> = requests.iter().map(|one| one.domain.as_str()).collect();
    assert_eq!(names, ["planner", "planner.topics", "recorder.topics"]);
    enforcer.apply(&requests).unwrap();
    let tables = tables(&kernel);
    let [(planner, rules), (recorder, same)] = &tables[..] else {
        panic!("{tables:?}");
    };
    assert_eq!(planner, "tailbound-planner.topics");
    assert_eq!(recorder, "tailbound-recorder.topics");
    assert_eq!(rules.len(), same.len());
    let text = rules.join("\n");
    let group = tailbound_pubsub_group();
    for words in [
        // Heads of message and UDP before the payload.
        "udp length > 1072 counter drop",
        // Two messages and a farewell in 20 ms, and as many that the network delayed.
        "ip saddr . udp sport limit rate over 150/second burst 6 packets } counter drop",
        // The publisher, and one sender more.
        "topic-0 limit rate over 300/second burst 12 packets counter drop",
        "limit rate over 118600 bytes/second burst 4744 bytes } counter drop",
        &format!("iifname \"eth0\" ip daddr {group} udp dport 7410 jump topic-0"),
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    assert!(!text.contains("topic-1"), "{text}");
    enforcer.revert("planner.topics").unwrap();
    assert_eq!(self::tables(&kernel).len(), 1);
    drop(enforcer);
    assert_eq!(kernel.snapshot(), before);
}

fn tailbound_pubsub_group() -> std::net::Ipv4Addr {
    let limits = requests()
        .into_iter()
        .find_map(|request| match request.target {
            Target::Topics(limits) => Some(limits),
            _ => None,
        });
    limits.unwrap()[0].group
}

#[test]
fn an_enforcer_that_dies_anywhere_leaves_no_table() {
    for killed_after in 0..60 {
        let (kernel, directory) = (host(), state_directory());
        // A table of ours without a journal, and one of somebody else.
        kernel.alter(|state| {
            let tables = state.packet_tables.as_mut().unwrap();
            tables.insert("filter".to_owned(), Vec::new());
        });
        let before = kernel.snapshot();
        let mut first = enforcer(&kernel, directory.path());
        kernel.stop_at(Some(killed_after));
        let is_complete = first.apply(&requests()).is_ok();
        std::mem::forget(first);
        kernel.stop_at(None);
        kernel.end_process(1);
        kernel.add_process(2, 0, &[2]);
        kernel.become_process(2);
        recover_with(directory.path(), &mut kernel.clone()).unwrap();
        assert_eq!(kernel.snapshot().packet_tables, before.packet_tables);
        if is_complete {
            return;
        }
    }
    panic!("it never came to the end");
}

#[test]
fn a_host_without_nftables_or_the_address_refuses_the_contract() {
    let (kernel, directory) = (host(), state_directory());
    kernel.alter(|state| state.packet_tables = None);
    let mut enforcer = enforcer(&kernel, directory.path());
    let refusal = enforcer.apply(&requests()).unwrap_err();
    assert!(matches!(
        &refusal,
        EnforcementError::Unplannable(PlanError::NoPacketTable { .. })
    ));
    let text = refusal.to_string();
    assert!(text.contains("topic `image`: cannot run nft"), "{text}");
    assert!(text.contains("leave out guard = \"kernel\""), "{text}");
    assert!(enforcer.status().domains.is_empty());
    kernel.alter(|state| state.packet_tables = Some(Default::default()));
    let mut requests = requests();
    for request in &mut requests {
        if let Target::Topics(limits) = &mut request.target {
            limits[0].interface = std::net::Ipv4Addr::new(10, 9, 9, 9);
        }
    }
    assert!(enforcer.apply(&requests).is_err());
}
