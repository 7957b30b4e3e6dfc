//! Contracts of topics in the kernel: a table for each domain, made with its reservations, and taken back.

use tailbound_analysis::resolution::Deployment;
use tailbound_enforcement::binding::{self, BindingError, StartedProcesses};
use tailbound_enforcement::recovery::recover_with;
use tailbound_enforcement::{EnforcementError, PlanError, ReservationRequest, Target};
use tailbound_model::Variant;
use tailbound_topics::GuardedInterface;

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

fn deployment(text: String) -> Deployment {
    let format = &tailbound_analysis::FORMAT;
    let description = format.load_text(text, "robot.toml").unwrap().description;
    Deployment::of(&description, None, &Variant::as_described()).unwrap()
}

fn requests() -> Vec<ReservationRequest> {
    let deployment = deployment(ROBOT.to_owned());
    binding::requests(&deployment, &StartedProcesses::new()).unwrap()
}

/// The recorder in the network that a key of its domain says, and its topic from within it.
fn apart(key: &str, started: &[u32]) -> Result<Vec<ReservationRequest>, BindingError> {
    let recorder = "command = [\"recorder\"]\n";
    let text = ROBOT.replace("pids = [200]\n", &format!("{recorder}{key}\n"));
    let topics = text.find("[topics.image]").unwrap();
    let own = r#"
[domains.recorder.tasks.read]
arrivals = { kind = "periodic", period = "20ms" }
execution_time = { kind = "constant", value = "1ms" }
[topics.image]
publishers = ["recorder/read"]
subscribers = ["recorder/write"]
size = 1000
transport = "udp"
address = "lo:7410"
contract = { messages = 2, interval = "20ms" }
guard = "kernel"
"#;
    let deployment = deployment(text[..topics].to_owned() + own);
    let started = [("recorder".to_owned(), started.to_vec())].into();
    let requests = binding::requests(&deployment, &started)?;
    let of_topics = requests.into_iter();
    Ok(of_topics
        .filter(|one| one.domain.ends_with("topics"))
        .collect())
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
        "udp length > 1072 counter name \"too-long-0\" drop",
        // Two messages and a farewell in 20 ms, and as many that the network delayed.
        "ip saddr . udp sport limit rate over 150/second burst 6 packets } counter name \"beyond-sender-0\" drop",
        // The publisher, and one sender more.
        "topic-0 limit rate over 300/second burst 12 packets counter name \"beyond-all-0\" drop",
        "limit rate over 118600 bytes/second burst 4744 bytes } counter name \"beyond-sender-0\" drop",
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
            Target::Topics(topics) => Some(topics.limits),
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
        if let Target::Topics(topics) = &mut request.target {
            let address = std::net::Ipv4Addr::new(10, 9, 9, 9);
            topics.limits[0].interface = GuardedInterface::Address(address);
        }
    }
    assert!(enforcer.apply(&requests).is_err());
}

#[test]
fn a_table_is_made_in_the_network_of_the_domain_and_removed_from_it() {
    let (kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let named = apart("network_namespace = \"board\"", &[]).unwrap();
    let refusal = enforcer.apply(&named).unwrap_err().to_string();
    assert!(refusal.contains("topic `image`: "), "{refusal}");
    kernel.alter(|state| state.networks.extend(["board".to_owned()]));
    let before = kernel.snapshot();
    enforcer.apply(&named).unwrap();
    let tables = self::tables(&kernel);
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].0, "ip netns exec board tailbound-recorder.topics");
    assert!(tables[0].1.join(" ").contains("iifname \"lo\" ip daddr"));
    enforcer.revert("recorder.topics").unwrap();
    assert_eq!(kernel.snapshot(), before);
    // A namespace takes its tables with it.
    enforcer.apply(&named).unwrap();
    kernel.alter(|state| {
        state.networks.clear();
        state.packet_tables.as_mut().unwrap().clear();
    });
    enforcer.revert("recorder.topics").unwrap();
    assert!(enforcer.status().domains.is_empty());
}

#[test]
fn programs_with_networks_of_their_own_have_a_table_each() {
    let (kernel, directory) = (host(), state_directory());
    let isolation = "isolation = { namespaces = [\"network\"] }";
    let requests = apart(isolation, &[100, 200]).unwrap();
    let mut first = enforcer(&kernel, directory.path());
    first.apply(&requests).unwrap();
    let names: Vec<String> = tables(&kernel).into_iter().map(|(name, _)| name).collect();
    let in_network = |pid| format!("nsenter --net --target {pid} tailbound-recorder.topics");
    assert_eq!(names, [in_network(100), in_network(200)]);
    // One of the programs has ended, and another process has its number, when the table is taken back.
    kernel.end_process(200);
    kernel.add_process(200, 50, &[200]);
    kernel.alter(|state| {
        state.threads.get_mut(&200).unwrap().started = 1;
        let tables = state.packet_tables.as_mut().unwrap();
        tables.insert(in_network(200), Vec::new());
    });
    std::mem::forget(first);
    kernel.end_process(1);
    kernel.add_process(2, 0, &[2]);
    kernel.become_process(2);
    recover_with(directory.path(), &mut kernel.clone()).unwrap();
    assert_eq!(tables(&kernel), [(in_network(200), Vec::new())]);
}

#[test]
fn a_network_that_begins_after_the_reservations_is_refused() {
    let error = apart("isolation = {}", &[]).unwrap_err();
    assert!(matches!(error, BindingError::NoNetworkYet { .. }));
    let text = error.to_string();
    assert!(
        text.contains("\"recorder\"") && text.contains("`image`"),
        "{text}"
    );
}
