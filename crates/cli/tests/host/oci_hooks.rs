//! `tailbound oci-hook`, run by runc and crun as they start and delete a container that has annotations.

use std::fs;

use serde_json::json;
use tailbound_linux::process::send_signal;
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::{Bench, daemon};
use crate::container::Container;
use crate::containers::until;

const SIGKILL: i32 = 9;
/// A reservation that fits.
const FITTING: [(&str, &str); 4] = [
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
            "env": [
                format!("TAILBOUND_STATE_DIR={}", self.bench.state().display()),
                format!("TAILBOUND_TAILBOUNDD={}", daemon().display()),
            ],
        }]);
        configuration["hooks"] = json!({ "poststart": hook, "poststop": hook });
        let pairs = annotations
            .iter()
            .map(|(name, value)| (*name, json!(value)));
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

    /// The domains that are in force.
    fn domains(&self) -> Vec<String> {
        let client = self.bench.client();
        let status = client.and_then(|mut client| client.status().ok());
        let reservations = status.map(|status| status.reservations).unwrap_or_default();
        reservations
            .into_iter()
            .map(|one| one.enforced.domain)
            .collect()
    }
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

    // Nobody runs the hook of a container that is killed and not deleted.
    hooked.start_with(&FITTING);
    assert!(hooked.holds(1));
    send_signal(hooked.container.processes(true)[0], SIGKILL).unwrap();
    until("the reservation ends", || hooked.domains().is_empty());
    hooked.container.delete();
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

fn runs_only_with_its_reservation(engine: &'static str, test: &str) {
    let Some(hooked) = Hooked::new(engine, test) else {
        return;
    };
    let name = hooked.container.name.clone();
    let of_another = |domain: &str| vec![domain.to_owned()];
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
    let mut other = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let description = format!(
        "schema_version = 1\nname = \"other\"\nhosts.here.cpus = [0, 1]\n[domains.{name}]\nkind = \"process\"\n\
         pids = [{}]\nreservation = {{ budget = \"1ms\", period = \"10ms\", cpus = [1] }}\n",
        other.id()
    );
    hooked.bench.write("other.toml", &description);
    hooked.bench.run(&["apply", "other.toml"]).expect(0, &[]);
    hooked.start_with(&FITTING);
    until("its processes end", || {
        hooked.container.processes(false).is_empty()
    });
    hooked.container.succeeds(&["delete", "--force", &name]);
    assert_eq!(hooked.domains(), of_another(&name));
    hooked.bench.run(&["revert", &name]).expect(0, &[]);
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
