//! What a dry run plans is what a run then journals, for every kind of domain and every way of naming it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use tailbound_analysis::resolution::Deployment;
use tailbound_enforcement::binding::{self, StartedProcesses};

use tailbound_enforcement::{Change, ReservationRequest};
use tailbound_linux::process::own_thread;
use tailbound_linux::xen::{Vcpu, VcpuSetting};
use tailbound_model::Variant;

use super::fake_kernel::FakeKernel;
use super::stage::*;

/// The process that a run starts, and the one that stands in for it in a dry run.
const STARTED: u32 = 700;
const STAND_IN: u32 = 900;

/// The members of a reserved domain as described, with the keys of its reservation that depend on them.
const NAMED: [(&str, &str); 11] = [
    ("kind = \"process\"\ncommand = [\"a\"]", DEFERRABLE),
    ("kind = \"process\"\nbuiltin = \"cpu-hog\"", DEFERRABLE),
    ("kind = \"process\"\npids = [100, 400]", DEFERRABLE),
    (
        "kind = \"process\"\ncommand = [\"a\"]",
        "backend = \"deadline\"",
    ),
    (
        "kind = \"process\"\ncommand = [\"a\"]",
        "backend = \"rt-group\"",
    ),
    (
        "kind = \"process\"\ncommand = [\"a\"]",
        "backend = \"hcbs\"",
    ),
    (
        "kind = \"process\"\ncommand = [\"a\"]",
        "backend = \"cfs-quota\"",
    ),
    ("kind = \"container\"\ncgroup = \"machine/one\"", DEFERRABLE),
    ("kind = \"qemu-vm\"\nmachine = { pid = OWN }", DEFERRABLE),
    (
        "kind = \"qemu-vm\"\nmachine = { qmp = \"QMP\" }",
        DEFERRABLE,
    ),
    (
        "kind = \"libvirt-vm\"\nmachine = { name = \"arm-of-a-test\" }",
        DEFERRABLE,
    ),
];
const DEFERRABLE: &str = "backend = \"ds-freeze\"";
const XEN: (&str, &str) = ("kind = \"xen-vm\"", "backend = \"xen-rtds\"");

fn deployment(members: &str, reservation: &str) -> Deployment {
    let hypervisor = match (members, reservation) == XEN {
        true => {
            "hosts.here.scheduling = \"earliest-deadline-first\"\n\
             hosts.here.placement = \"global\"\n"
        }
        false => "",
    };
    let text = format!(
        "schema_version = 1\nname = \"dry\"\nhosts.here.cpus = [0, 1, 2]\nhosts.here.housekeeping = [0]\n{hypervisor}\
         [domains.arm]\n{members}\n\
         reservation = {{ {reservation}, budget = \"20ms\", period = \"100ms\", cpus = [1] }}\n"
    );
    let description = tailbound_model::parse(&text, "dry.toml").unwrap();
    Deployment::of_run(&description, &Variant::as_described()).unwrap()
}

/// A host with Xen domains, this process with its threads, and a program of one thread.
fn host_with(program: u32, own_threads: &[u32]) -> FakeKernel {
    let kernel = host();
    kernel.add_process(program, 50, &[program]);
    kernel.add_process(std::process::id(), 50, own_threads);
    kernel.alter(|state| {
        let setting = VcpuSetting {
            period_us: 10_000,
            budget_us: 4_000,
            extratime: true,
        };
        state.vcpus = vec![Vcpu {
            pool: "Pool-0".into(),
            domain: "arm".into(),
            id: 1,
            vcpu: 0,
            setting,
        }];
    });
    kernel
}

fn requests(deployment: &Deployment, process: u32) -> Vec<ReservationRequest> {
    let started: StartedProcesses = [("arm".to_owned(), vec![process])].into();
    binding::requests(deployment, &started).unwrap()
}

/// The changes that a journal says were about to be made.
fn journaled(directory: &Path) -> Vec<Change> {
    let files = std::fs::read_dir(directory).unwrap();
    let journal = files.map(|file| file.unwrap().path());
    let texts = journal.filter_map(|path| std::fs::read_to_string(path).ok());
    let text: String = texts.collect();
    let lines = text
        .lines()
        .map(|line| &line[line.find('{').unwrap_or(0)..]);
    let records = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let intents = records.filter(|record| record["record"] == "intent");
    intents
        .map(|record| serde_json::from_value(record["change"].clone()).unwrap())
        .collect()
}

/// Changes as text in which a program has no number.
fn spelled(changes: &[Change], program: u32) -> Vec<String> {
    let each = changes.iter();
    each.map(|change| {
        let text = serde_json::to_string(change).unwrap();
        text.replace(&program.to_string(), "PROGRAM")
    })
    .collect()
}

/// A monitor that says that this thread is the only virtual CPU.
fn answer_as_monitor(listener: UnixListener, vcpu: u32) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        writeln!(
            stream,
            r#"{{"QMP": {{"version": {{}}, "capabilities": []}}}}"#
        )
        .unwrap();
        while let Some(Ok(line)) = lines.next() {
            let answer = match line.contains("query-cpus-fast") {
                true => format!(r#"[{{"cpu-index": 0, "thread-id": {vcpu}}}]"#),
                false => "{}".into(),
            };
            writeln!(stream, r#"{{"return": {answer}}}"#).unwrap();
        }
    }
}

/// The folder of a `virsh` that answers for the machine of libvirt with what lies beside it.
const VIRSH: &str = "TAILBOUND_TEST_VIRSH";

/// Puts a `virsh` into `folder` that knows one machine.
fn write_virsh(folder: &Path) {
    let script = "#!/bin/sh\n[ \"$4\" = arm-of-a-test ] && cat \"$(dirname \"$0\")/answer\"\n";
    let file = folder.join("virsh");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Runs a test of this program in a process of its own, which finds our `virsh` first in PATH.
fn run_beside_virsh(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    write_virsh(folder.path());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&path));
    let test = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("PATH", std::env::join_paths(folders).unwrap())
        .env(VIRSH, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&test.stdout) + String::from_utf8_lossy(&test.stderr);
    assert!(test.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_dry_run_plans_what_a_run_journals() {
    let Some(virsh) = std::env::var_os(VIRSH).map(PathBuf::from) else {
        return run_beside_virsh("fake_host::dry_runs::a_dry_run_plans_what_a_run_journals");
    };
    let (sender, heard) = mpsc::channel();
    let (_keep, wait) = mpsc::channel::<()>();
    let vcpu = thread::Builder::new().name("CPU 0/TCG".into());
    vcpu.spawn(move || {
        sender.send(own_thread()).unwrap();
        // Ends with the test.
        let _ended = wait.recv();
    })
    .unwrap();
    let vcpu = heard.recv().unwrap();
    let answer = format!(r#"{{"return": [{{"cpu-index": 0, "thread-id": {vcpu}}}]}}"#);
    std::fs::write(virsh.join("answer"), answer).unwrap();
    let directory = state_directory();
    let socket = directory.path().join("qmp");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || answer_as_monitor(listener, vcpu));
    let own = std::process::id();
    for (members, reservation) in NAMED.into_iter().chain([XEN]) {
        let members = members.replace("OWN", &own.to_string());
        let members = members.replace("QMP", &socket.display().to_string());
        let deployed = deployment(&members, reservation);
        // Threads of tests beside this one come and go; both see the same ones.
        let requested = requests(&deployed, STAND_IN);
        let mut threads = tailbound_linux::process::threads_of(own).unwrap();
        if let tailbound_enforcement::Target::Machine(machine) = &requested[0].target {
            threads = [&machine.emulator[..], &machine.vcpus[..]].concat();
        }
        let dry = host_with(STAND_IN, &threads);
        let before = dry.snapshot();
        let plans = enforcer(&dry, state_directory().path())
            .plan(&requested)
            .unwrap();
        assert_eq!(
            dry.snapshot(),
            before,
            "{members}: a dry run changed something"
        );
        let mut applied = requested.clone();
        if let tailbound_enforcement::Target::Processes(pids) = &mut applied[0].target {
            let stands_in = pids.contains(&STAND_IN);
            applied = match stands_in {
                true => requests(&deployed, STARTED),
                false => applied,
            };
        }
        let (run, state) = (host_with(STARTED, &threads), state_directory());
        let mut enforcer = enforcer(&run, state.path());
        enforcer.apply(&applied).unwrap();
        let planned: Vec<Change> = plans.into_iter().flat_map(|plan| plan.changes).collect();
        assert!(!planned.is_empty(), "{members}");
        assert_eq!(
            spelled(&planned, STAND_IN),
            spelled(&journaled(state.path()), STARTED),
            "{members} {reservation}"
        );
        enforcer.revert("arm").unwrap();
    }
}
