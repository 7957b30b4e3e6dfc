//! `tailbound oci-hook`, run by runc and crun as they start and delete a container that has annotations, and by podman.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;
use tailbound_linux::HostCapabilities;
use tailbound_linux::cgroup::{self, cgroups_below, processes_in};
use tailbound_linux::process::die_with_parent;
use tailbound_linux::process::send_signal;
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::{Bench, daemon};
use crate::container::{Container, in_pure_v2};
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
fn environment(bench: &Bench) -> [String; 2] {
    [
        format!("TAILBOUND_STATE_DIR={}", bench.state().display()),
        format!("TAILBOUND_TAILBOUNDD={}", daemon().display()),
    ]
}

/// The domains that are in force.
fn domains(bench: &Bench) -> Vec<String> {
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

/// A podman with files and cgroups of its own, whose containers have the file system of a container of the tests.
struct Podman<'a> {
    bench: &'a Bench,
    rootfs: PathBuf,
    /// The directory of the cgroups of its containers.
    parent: PathBuf,
}

impl<'a> Podman<'a> {
    /// `None`, said aloud, where there is no podman that can run a container of runc.
    fn new(bench: &'a Bench, container: &Container, test: &str) -> Option<Self> {
        let root = HostCapabilities::probe().cgroup_v2_root?;
        let podman = Self {
            bench,
            rootfs: container.bundle.join("rootfs"),
            parent: root.join(format!("{}-podman", container.name)),
        };
        // What needs no more rights than tests have.
        let settings = "[containers]\npids_limit = 0\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
            [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\nruntime = \"runc\"\n";
        bench.write("containers.conf", settings);
        fs::create_dir(bench.path().join("hooks.d")).unwrap();
        let file = bench
            .run(&["oci-hook", "--print-hooks-file"])
            .expect(0, &[]);
        let mut file: serde_json::Value = serde_json::from_str(&file.out).unwrap();
        file["hook"]["env"] = json!(environment(bench));
        bench.write("hooks.d/tailbound.json", &file.to_string());
        let (runs, said) = podman.run(&["run", "--rm"], &[], "true");
        if !runs {
            eprintln!("SKIP {test}: needs a podman that runs containers of runc: {said}");
        }
        runs.then_some(podman)
    }

    /// Runs a container to its end, or until it has been started; whether that went well, and what was said.
    fn run(&self, words: &[&str], annotations: &[(&str, &str)], script: &str) -> (bool, String) {
        let name = self.parent.file_name().unwrap().to_str().unwrap();
        let mut command = self.command(words);
        command.args(["--network=none", "--cgroups=no-conmon", "--name=box"]);
        command.arg(format!("--cgroup-parent=/{name}"));
        for (name, value) in annotations {
            command.arg(format!("--annotation={name}={value}"));
        }
        command.arg("--rootfs").arg(&self.rootfs);
        said(command.args(["sh", "-c", script]))
    }

    /// A command of podman, up to its first words.
    fn command(&self, words: &[&str]) -> Command {
        let folder = |name: &str| self.bench.path().join(name);
        let mut command = in_pure_v2("podman");
        for (option, name) in [
            ("--root", "root"),
            ("--runroot", "run"),
            ("--tmpdir", "tmp"),
        ] {
            command.arg(option).arg(folder(name));
        }
        command
            .args(["--storage-driver=vfs", "--hooks-dir"])
            .arg(folder("hooks.d"));
        command.args(words);
        command.env("CONTAINERS_CONF", folder("containers.conf"));
        command
    }

    /// The processes that podman has put into the group of the container, or those of them that have the reservation.
    fn processes(&self, reserved: bool) -> Vec<u32> {
        let groups = cgroups_below(&self.parent).unwrap_or_default().into_iter();
        let groups = groups.map(|group| match reserved {
            true => group.join("tailbound"),
            false => group,
        });
        groups
            .flat_map(|group| processes_in(&group).unwrap_or_default())
            .collect()
    }
}

impl Drop for Podman<'_> {
    fn drop(&mut self) {
        let _never_started = said(&mut self.command(&["rm", "--force", "--time=0", "box"]));
        let _never_made = cgroup::remove(&self.parent);
    }
}

/// Runs a command to its end; whether that went well, and what it said.
fn said(command: &mut Command) -> (bool, String) {
    let output = die_with_parent(command.stdin(Stdio::null())).output();
    output.map_or_else(
        |error| (false, error.to_string()),
        |output| {
            (
                output.status.success(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        },
    )
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
    let Some(podman) = Podman::new(&bench, &container, test) else {
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
