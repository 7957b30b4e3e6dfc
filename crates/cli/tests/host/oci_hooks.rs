//! `tailbound oci-hook`, run by runc and crun as they start and delete a container that has annotations, and by podman.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;
use tailbound_linux::process::die_with_parent;
use tailbound_linux::process::send_signal;
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::{Bench, daemon};
use crate::container::Container;
use crate::containers::until;
use crate::podman::{Podman, said};

const SIGKILL: i32 = 9;
/// A reservation that fits.
pub const FITTING: [(&str, &str); 4] = [
    ("tailbound.budget", "3ms"),
    ("tailbound.period", "10ms"),
    ("tailbound.cpus", "1"),
    ("tailbound.priority", "50"),
];

/// A container with the hook of a test, and the place of the test.
struct Hooked {
    bench: Bench,
    container: Container,
}

impl Hooked {
    fn new(engine: &'static str, test: &str) -> Option<Self> {
        let bench = Bench::enforcing(test)?;
        let container = Container::findable(engine, test)?;
        Some(Self { bench, container })
    }

    /// Gives the container these annotations, and the hook for its next start.
    fn annotate(&self, annotations: &[(&str, &str)]) {
        let path = self.container.bundle.join("config.json");
        let text = fs::read_to_string(&path).unwrap();
        let mut configuration: serde_json::Value = serde_json::from_str(&text).unwrap();
        let hook = json!([{
            "path": env!("CARGO_BIN_EXE_tailbound"),
            "args": ["tailbound", "oci-hook", "--priority-limit=60"],
            "env": environment(&self.bench),
        }]);
        configuration["hooks"] = json!({ "poststart": hook, "poststop": hook });
        let pairs = annotations
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)));
        configuration["annotations"] = pairs.collect::<serde_json::Map<_, _>>().into();
        fs::write(path, configuration.to_string()).unwrap();
    }

    /// Starts the container with these annotations, whether or not that ends well; returns what its runtime said.
    fn start_with(&self, annotations: &[(&str, &str)]) -> String {
        self.annotate(annotations);
        let bundle = self.container.bundle.to_str().unwrap();
        let run = ["run", "--detach", "--bundle", bundle, &self.container.name];
        let output = self.container.command(&run).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether so many processes of the container have the reservation.
    fn holds(&self, processes: usize) -> bool {
        let members = self.container.processes(true);
        let fifo = |&pid: &u32| matches!(scheduling_of(pid), Ok(SchedulingSetting::Fifo { .. }));
        members.len() == processes && members.iter().all(fifo)
    }

    fn domains(&self) -> Vec<String> {
        domains(&self.bench)
    }
}

/// The environment of a hook that asks the daemon of a test.
pub fn environment(bench: &Bench) -> [String; 2] {
    [
        format!("TAILBOUND_STATE_DIR={}", bench.state().display()),
        format!("TAILBOUND_TAILBOUNDD={}", daemon().display()),
    ]
}

/// The domains that are in force.
pub fn domains(bench: &Bench) -> Vec<String> {
    let client = bench.client();
    let status = client.and_then(|mut client| client.status().ok());
    let reservations = status.map(|status| status.reservations).unwrap_or_default();
    reservations
        .into_iter()
        .map(|one| one.enforced.domain)
        .collect()
}

fn is_reserved_from_start_to_end(engine: &'static str, test: &str) {
    let Some(hooked) = Hooked::new(engine, test) else {
        return;
    };
    let name = hooked.container.name.clone();
    let said = hooked.start_with(&FITTING);
    assert!(hooked.holds(1), "{said}");
    let used = hooked.container.used();
    until("it runs", || hooked.container.used() > used);
    let words = [name.as_str(), "3ms", "in force"];
    hooked.bench.run(&["status"]).expect(0, &words);
    let busy = ["exec", "--detach", &name, "sh", "-c", "while :; do :; done"];
    hooked.container.succeeds(&busy);
    until("exec is taken in", || hooked.holds(2));
    hooked.container.delete();
    assert_eq!(hooked.domains(), [""; 0], "poststop takes it back");

    hooked.bench.assert_clean(&name);
}

#[test]
fn annotations_of_a_container_of_runc_reserve_for_it() {
    is_reserved_from_start_to_end("runc", "annotations_of_a_container_of_runc_reserve_for_it");
}

#[test]
fn annotations_of_a_container_of_crun_reserve_for_it() {
    is_reserved_from_start_to_end("crun", "annotations_of_a_container_of_crun_reserve_for_it");
}

#[test]
fn the_reservation_of_a_container_that_nobody_deletes_ends_with_it() {
    let test = "the_reservation_of_a_container_that_nobody_deletes_ends_with_it";
    let Some(hooked) = Hooked::new("crun", test) else {
        return;
    };
    hooked.start_with(&FITTING);
    assert!(hooked.holds(1));
    send_signal(hooked.container.processes(true)[0], SIGKILL).unwrap();
    until("the reservation ends", || hooked.domains().is_empty());
    hooked.container.delete();
    hooked.bench.assert_clean(&hooked.container.name);
}

fn runs_only_with_its_reservation(engine: &'static str, test: &str) {
    let Some(hooked) = Hooked::new(engine, test) else {
        return;
    };
    let name = hooked.container.name.clone();
    let misspelt = [("tailbound.budgets", "3ms")];
    let urgent = [&FITTING[..3], &[("tailbound.priority", "61")]].concat();
    for annotations in [&misspelt[..], &urgent] {
        hooked.start_with(annotations);
        until("its processes end", || {
            hooked.container.processes(false).is_empty()
        });
        hooked.container.succeeds(&["delete", "--force", &name]);
        assert!(hooked.domains().is_empty());
    }
    let optional = [&urgent[..], &[("tailbound.required", "false")]].concat();
    let said = hooked.start_with(&optional);
    assert!(!hooked.container.processes(false).is_empty(), "{said}");
    assert!(!hooked.holds(1));
    hooked.container.delete();

    // What somebody else has under the name stays.
    let mut sleep = Command::new("sleep");
    let mut other = die_with_parent(sleep.arg("600").stdout(Stdio::null()))
        .spawn()
        .unwrap();
    let description = format!(
        "schema_version = 1\nname = \"other\"\nhosts.here.cpus = [0, 1]\n[domains.other]\nkind = \"process\"\n\
         pids = [{}]\nreservation = {{ budget = \"1ms\", period = \"10ms\", cpus = [1] }}\n",
        other.id()
    );
    hooked.bench.write("other.toml", &description);
    hooked.bench.run(&["apply", "other.toml"]).expect(0, &[]);
    let named = [&FITTING[..], &[("tailbound.name", "other")]].concat();
    hooked.start_with(&named);
    until("its processes end", || {
        hooked.container.processes(false).is_empty()
    });
    hooked.container.succeeds(&["delete", "--force", &name]);
    assert_eq!(hooked.domains(), ["other"]);
    hooked.bench.run(&["revert", "other"]).expect(0, &[]);
    other.kill().unwrap();
    other.wait().unwrap();
    hooked.bench.assert_clean(&name);
}

#[test]
fn a_container_of_runc_runs_only_with_its_reservation() {
    runs_only_with_its_reservation("runc", "a_container_of_runc_runs_only_with_its_reservation");
}

#[test]
fn a_container_of_crun_runs_only_with_its_reservation() {
    runs_only_with_its_reservation("crun", "a_container_of_crun_runs_only_with_its_reservation");
}

#[test]
fn podman_runs_the_hook_that_its_folder_has() {
    let test = "podman_runs_the_hook_that_its_folder_has";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(container) = Container::of("runc", test) else {
        return;
    };
    let Some(podman) = Podman::with_hooks(&bench, &container, test) else {
        return;
    };
    let annotations = [&FITTING[..], &[("tailbound.name", "cache")]].concat();
    let (runs, said_of_run) = podman.run(&["run", "--detach"], &annotations, "while :; do :; done");
    assert!(runs, "{said_of_run}");
    let members = podman.processes(true);
    assert_eq!(
        (members.len(), domains(&bench)),
        (1, vec!["cache".to_owned()])
    );
    assert!(matches!(
        scheduling_of(members[0]),
        Ok(SchedulingSetting::Fifo { .. })
    ));
    let (removed, said_of_rm) = said(&mut podman.command(&["rm", "--force", "--time=0", "box"]));
    assert!(removed, "{said_of_rm}");
    assert!(domains(&bench).is_empty());

    let (runs, said_of_run) = podman.run(&["run", "--rm"], &[("tailbound.budgets", "1ms")], "true");
    assert!(
        !runs && said_of_run.contains("no annotation tailbound.budgets"),
        "{said_of_run}"
    );
    assert!(podman.processes(false).is_empty());
    bench.assert_clean("cache");
}
