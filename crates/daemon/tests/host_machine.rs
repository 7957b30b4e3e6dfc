//! A real virtual machine as a domain: its virtual CPU is a reservation, and its agent in the guest
//! changes the guest's tasks over a port.
//!
//! Needs what the ds-freeze back end needs, a second CPU, QEMU, and what `tools/guest` makes guests of;
//! skips aloud where one is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tailbound_control::{Client, Lease};
use tailbound_enforcement::{LedgerSummary, ReservationRequest, Target, virtual_machine};
use tailbound_linux::process::die_with_parent;
use tailbound_linux::scheduling::affinity_of;
use tailbound_model::{
    AgentLink, AgentListeners, AgentPlace, BackendKind, BackendOptions, ChangePolicy, Cpu, CpuSet,
    Machine, RequestsMeanwhile, ResourceInterface, TaskStart,
};
use tailbound_modes::control::ModesClient;
use tailbound_modes::manager::Report;
use tailbound_modes::table::{self, ModeTable, Settings};
use tailbound_modes::transition::{DomainMode, Ending, Options, StepKind};
use tailbound_time::Duration;

use crate::stage::{Stage, State};

/// Prints a line again and again, so that the console tells whether it runs.
const BEAT: &str = "beat=sh -c \"while :; do echo beat; usleep 20000; done\"";
/// Uses all CPU time that the machine gets.
const SPIN: &str = "spin=sh -c \"while :; do :; done\"";

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits until `holds`: a guest under emulation beside other programs takes many times what it takes
/// alone.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4_500 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("never: {what}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The agent, which is built with the daemon.
fn agent() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_tailboundd")).with_file_name("tailbound-agent")
}

fn missing() -> Option<String> {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return Some("two CPUs".into());
    }
    let asked = Command::new(repository().join("tools/guest"))
        .arg("missing")
        .output();
    let asked = asked.expect("tools/guest can be run");
    if !agent().is_file() {
        return Some(format!(
            "{}; cargo build --workspace --bins",
            agent().display()
        ));
    }
    (!asked.status.success()).then(|| {
        let packages = String::from_utf8_lossy(&asked.stdout);
        packages.split_whitespace().collect::<Vec<_>>().join(", ")
    })
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

/// A machine that runs, and is killed with this.
struct Guest {
    emulator: Child,
    console: PathBuf,
    qmp: PathBuf,
    port: PathBuf,
}

impl Guest {
    fn boot(folder: &Path, domain: &str) -> Self {
        let image = folder.join("image");
        let mut pack = Command::new(repository().join("tools/guest"));
        pack.arg("pack")
            .arg(&image)
            .args(["--domain", domain, "--task", BEAT, "--task", SPIN]);
        run(pack.arg("--agent").arg(agent()));
        let (console, qmp, port) = (
            folder.join("console"),
            folder.join("qmp"),
            folder.join("port"),
        );
        let output = fs::File::create(&console).unwrap();
        let mut boot = Command::new(repository().join("tools/guest"));
        boot.arg("boot")
            .arg(&image)
            .arg("--qmp")
            .arg(&qmp)
            .arg("--port")
            .arg(&port);
        boot.stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let guest = Self {
            emulator: die_with_parent(&mut boot).spawn().unwrap(),
            console,
            qmp,
            port,
        };
        eventually("the guest is up", || guest.said().contains("guest: up"));
        guest
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap()).into_owned()
    }

    fn beats(&self) -> usize {
        self.said().matches("beat").count()
    }

    fn expect_beating(&self) {
        let before = self.beats();
        eventually("the guest's task runs", || self.beats() > before + 2);
    }

    /// What was on its way when the task was stopped may still come; one that runs beats ten times as often.
    fn expect_no_beat(&self) {
        eventually("the guest's task has stopped", || {
            let before = self.beats();
            std::thread::sleep(std::time::Duration::from_millis(400));
            self.beats() == before
        });
    }

    fn target(&self, emulator_cpus: CpuSet) -> Target {
        let machine = Machine {
            qmp: Some(self.qmp.clone()),
            ..Machine::default()
        };
        virtual_machine::target(&machine, emulator_cpus).unwrap()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ended = self.emulator.kill();
        let _reaped = self.emulator.wait();
    }
}

fn interface(stage: &Stage, budget: Duration) -> ResourceInterface {
    ResourceInterface {
        budget,
        period: ms(20),
        ..stage.request().interface
    }
}

fn table(stage: &Stage, guest: &Guest, domain: &str) -> ModeTable {
    let local = |name: &str, budget, tasks: &[&str]| DomainMode {
        name: name.into(),
        interface: interface(stage, ms(budget)),
        tasks: tasks.iter().map(|task| (*task).to_owned()).collect(),
    };
    let mode = |name: &str, local: DomainMode| {
        let locals: BTreeMap<String, DomainMode> = [(domain.to_owned(), local)].into();
        (name.to_owned(), locals)
    };
    let modes = [
        mode("run", local("run", 12, &["beat", "spin"])),
        mode("rest", local("rest", 4, &["spin"])),
    ];
    let agent = table::AgentEntry {
        place: AgentPlace::Inside,
        may_request: BTreeSet::new(),
        fallback: Some(local("still", 2, &[])),
    };
    let settings = Settings {
        options: Options {
            policy: ChangePolicy::Boost,
            start: TaskStart::InForce,
            timeout: ms(5_000),
        },
        requests: RequestsMeanwhile::Queue,
        longest_boost: ms(5),
        least_gap: ms(1),
    };
    let link = AgentLink::VirtioSerial {
        path: guest.port.clone(),
    };
    ModeTable::new(
        "run".into(),
        modes.into(),
        [(domain.to_owned(), agent)].into(),
        settings,
    )
    .unwrap()
    .reached(
        [(domain.to_owned(), link)].into(),
        AgentListeners::default(),
    )
}

fn is_present(client: &mut Client, domain: &str) -> bool {
    let modes = client.modes().unwrap().expect("modes are loaded");
    modes.agents.iter().any(|there| there == domain)
}

/// How long the answer of the agent has taken from the message on.
fn answered_after(report: &Report) -> Duration {
    let steps = &report.timeline.steps;
    let at = |wanted: fn(&StepKind) -> bool| steps.iter().find(|one| wanted(&one.kind)).unwrap().at;
    let sent = at(|kind| matches!(kind, StepKind::Sent));
    at(|kind| matches!(kind, StepKind::Acknowledged { .. })).saturating_since(sent)
}

fn ledger(client: &mut Client, domain: &str) -> LedgerSummary {
    let held = client.status().unwrap().reservations;
    let held = held.into_iter().find(|one| one.enforced.domain == domain);
    held.unwrap().enforced.ledger.expect("a manager")
}

/// The CPU time of a period, in microseconds, from now on.
fn used_us(client: &mut Client, domain: &str) -> u64 {
    let before = ledger(client, domain);
    let mut now = before.clone();
    eventually("some periods have ended", || {
        now = ledger(client, domain);
        now.periods >= before.periods + 25
    });
    let used = now.consumed.saturating_sub(before.consumed);
    used.as_nanos() / 1_000 / (now.periods - before.periods)
}

fn expect_changes(client: &mut Client, guest: &Guest, domain: &str) {
    let report = client.set_mode("rest").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
    eprintln!("the guest has answered after {}", answered_after(&report));
    guest.expect_no_beat();
    let little = used_us(client, domain);
    let report = client.set_mode("run").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
    guest.expect_beating();
    let much = used_us(client, domain);
    eprintln!("its virtual CPU has had {little} and {much} us in 20 ms");
    assert!(little < much, "{little} {much}");
    // It spins, so no message would have reached it early without a boost.
    assert!(ledger(client, domain).boosts > 0);
}

/// Killed while its mode changes: the change comes to its end, and the domain has its fallback's
/// reservation.
fn expect_fallback_without(mut client: Client, guest: &mut Guest, domain: &str) -> Client {
    let changing = std::thread::spawn(move || (client.set_mode("rest"), client));
    guest.emulator.kill().unwrap();
    guest.emulator.wait().unwrap();
    let (report, mut client) = changing.join().unwrap();
    let report = report.unwrap();
    // It may have been quicker than the kill.
    assert!(report.is_there(), "{report:?}");
    eventually("the agent is gone", || !is_present(&mut client, domain));
    let report = client.set_mode("run").unwrap();
    let is_fallback = report.is_there() && report.outcome.ending != Ending::Completed;
    assert!(is_fallback, "{report:?}");
    let held = client.status().unwrap().reservations;
    assert_eq!(held[0].enforced.interface.budget, ms(2), "its fallback");
    client
}

#[test]
fn a_guest_changes_modes_and_may_die() {
    let test = "a_guest_changes_modes_and_may_die";
    if let Some(missing) = missing() {
        eprintln!("SKIP {test}: needs {missing}");
        return;
    }
    let Some(mut stage) = Stage::set(test) else {
        return;
    };
    let domain = format!("guest-{}", std::process::id());
    let mut guest = Guest::boot(stage.path(), &domain);
    let reserved = stage.request().interface.cpus;
    let others = affinity_of(std::process::id()).unwrap();
    let others = others.into_iter().map(Cpu);
    let target = guest.target(others.filter(|cpu| !reserved.contains(cpu)).collect());
    let Target::Machine(threads) = &target else {
        panic!("{target:?}");
    };
    let all = [threads.vcpus.clone(), threads.emulator.clone()].concat();
    let states = |stage: &Stage| {
        let states = all.iter().map(|tid| stage.state_of(*tid));
        states.collect::<Vec<State>>()
    };
    let before = states(&stage);
    let requests = [ReservationRequest {
        domain: domain.clone(),
        target: target.clone(),
        interface: interface(&stage, ms(12)),
        backend: BackendKind::DsFreeze,
        options: BackendOptions::default(),
        interference: Default::default(),
    }];
    let mut client = stage.client();
    for _ in 0..2 {
        client.apply(&requests, Lease::Persistent).unwrap();
        let now = states(&stage);
        assert!(now.iter().zip(&before).all(|(now, before)| now != before));
        client
            .load_modes(table(&stage, &guest, &domain), None)
            .unwrap();
        eventually("the agent is there", || is_present(&mut client, &domain));
        guest.expect_beating();
        expect_changes(&mut client, &guest, &domain);
        // The emulator's threads are put back, too; and the agent finds another manager.
        client.revert(tailbound_control::Selection::All).unwrap();
        assert_eq!(states(&stage), before);
    }
    client.apply(&requests, Lease::Persistent).unwrap();
    client
        .load_modes(table(&stage, &guest, &domain), None)
        .unwrap();
    eventually("the agent is there", || is_present(&mut client, &domain));
    let mut client = expect_fallback_without(client, &mut guest, &domain);
    client.revert(tailbound_control::Selection::All).unwrap();
    assert!(client.modes().unwrap().is_none());
    stage.expect_restored();
}
