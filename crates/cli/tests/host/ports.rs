//! Ports of a description: programs that `run` starts exchange messages by them, and a reader cannot write.
//!
//! The programs are ignored tests of this file.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use tailbound_linux::control_socket::receive_with_descriptors;
use tailbound_linux::memory::{ReadWords, SharedWords};
use tailbound_linux::spawn::inherited_descriptor;
use tailbound_ports::{PORTS_VARIABLE, PortError, inherited};

use crate::bench::Bench;

/// How a program of a domain is started: as one of the ignored tests.
const ARGUMENTS: [&str; 3] = ["--ignored", "--exact", "--nocapture"];
const PAUSE: Duration = Duration::from_millis(5);

fn description(program: &str) -> String {
    let domain = |name: &str| {
        let test = format!("ports::{name}");
        let command: Vec<&str> = std::iter::once(program)
            .chain(ARGUMENTS)
            .chain([test.as_str()])
            .collect();
        format!("[domains.{name}]\nkind = \"process\"\ncpus = [0]\ncommand = {command:?}\n")
    };
    let domains = ["navigator", "pilot", "witness"].map(domain).concat();
    format!(
        r#"
schema_version = 1
name = "ports"
[hosts.here]
cpus = [0, 1]
housekeeping = [1]
[domains.sensor]
kind = "process"
builtin = "own-tasks"
cpus = [0]
[domains.sensor.tasks.sense]
arrivals = {{ kind = "periodic", period = "10ms" }}
execution_time = {{ kind = "constant", value = "200us" }}
{domains}
[ports.position]
kind = "sampling"
from = "navigator"
to = ["pilot", "witness"]
size = 64
validity = "60min"
[ports.orders]
kind = "queuing"
from = "pilot"
to = ["navigator"]
size = 16
depth = 2
[experiment]
duration = "3s"
warm_up = "300ms"
[[experiment.variants]]
name = "plain"
backend = "none"
"#
    )
}

#[test]
fn programs_of_a_description_exchange_messages_and_a_reader_cannot_write() {
    let Some(bench) = Bench::enforcing("ports::exchange") else {
        return;
    };
    let program = std::env::current_exe().unwrap();
    bench.write("ports.toml", &description(&program.display().to_string()));
    let ended = bench.run(&["run", "ports.toml", "--out", "out"]);
    let logs = ["navigator", "pilot", "witness", "sensor"].map(|name| {
        let log = bench.path().join(format!("out/logs/{name}-0.log"));
        fs::read_to_string(log).unwrap_or_default()
    });
    assert!(matches!(ended.status, Some(0 | 2)), "{}{logs:?}", ended.err);
    let [navigator, pilot, witness, sensor] = logs;
    assert!(navigator.contains("orders in order"), "{navigator}");
    assert!(pilot.contains("position read, orders full"), "{pilot}");
    assert!(
        witness.contains("the kernel refuses a reader that writes"),
        "{witness}"
    );
    assert!(!sensor.contains("ports"), "{sensor}");
    bench.assert_clean("navigator");
}

/// Says a line once, and lives on: a program that ends, ends the run.
fn report(line: &str) -> ! {
    println!("{line}");
    loop {
        sleep(Duration::from_secs(3_600));
    }
}

#[test]
#[ignore = "a program of the test above"]
fn navigator() {
    let mut position = inherited("position").unwrap().sampling_writer().unwrap();
    let mut orders = inherited("orders").unwrap().queuing_receiver().unwrap();
    position.write(b"first").unwrap();
    position.write(b"12.5 7.0").unwrap();
    let mut room = [0; 16];
    let mut next = 1;
    // From the first look on the sender has a receiver, and fills the port.
    assert_eq!(orders.receive(&mut room).ok().flatten(), None);
    sleep(Duration::from_millis(500));
    while next <= 5 {
        let Some(order) = orders.receive(&mut room).unwrap() else {
            sleep(PAUSE);
            continue;
        };
        assert_eq!(order.number, next);
        assert_eq!(&room[..order.length], format!("order {next}").as_bytes());
        next += 1;
    }
    report("orders in order");
}

#[test]
#[ignore = "a program of the test above"]
fn pilot() {
    let mut position = inherited("position").unwrap().sampling_reader().unwrap();
    let mut orders = inherited("orders").unwrap().queuing_sender().unwrap();
    let mut room = [0; 64];
    loop {
        let sample = position.read(&mut room).unwrap();
        if sample.is_some_and(|sample| &room[..sample.length] == b"12.5 7.0" && sample.valid) {
            break;
        }
        sleep(PAUSE);
    }
    let mut full = 0;
    for number in 1..=5 {
        loop {
            match orders.send(format!("order {number}").as_bytes()) {
                Ok(sent) => break assert_eq!(sent, number),
                Err(PortError::Full { messages }) => full += u32::from(messages == 2),
                Err(error) => panic!("{error}"),
            }
            sleep(PAUSE);
        }
    }
    assert!(full > 0);
    report("position read, orders full");
}

/// Takes the memory of the port by hand, and tries to write it in every way that the kernel has.
#[test]
#[ignore = "a program of the test above"]
fn witness() {
    let variable = std::env::var(PORTS_VARIABLE).unwrap();
    assert!(
        variable.starts_with("position:sampling-reader:64:4:"),
        "{variable}"
    );
    let number = variable.rsplit(':').next().unwrap().parse().unwrap();
    let socket = UnixStream::from(inherited_descriptor(number).unwrap());
    let memory = loop {
        match receive_with_descriptors(&socket, &mut [0]) {
            Ok((_, descriptors)) => break descriptors.into_iter().next().unwrap(),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        sleep(PAUSE);
    };
    assert!(ReadWords::open(memory.as_fd()).is_ok());
    SharedWords::open(memory.as_fd()).unwrap_err();
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    fs::write(&path, b"written").unwrap_err();
    let again = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    SharedWords::open(again.as_fd()).unwrap_err();
    again.set_len(0).unwrap_err();
    (&again).write_all(b"written").unwrap_err();
    report("the kernel refuses a reader that writes");
}
