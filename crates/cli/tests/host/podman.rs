//! A podman for tests, whose containers are of runc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tailbound_linux::HostCapabilities;
use tailbound_linux::cgroup::{self, cgroups_below, processes_in};
use tailbound_linux::process::die_with_parent;

use crate::bench::Bench;
use crate::container::{Container, in_pure_v2};
use crate::oci_hooks::environment;

/// Where the podman of a host keeps its containers, and where they are looked up.
const STORAGE: &str = "/var/lib/containers/storage";

/// A podman with files and cgroups of its own, whose containers have the file system of a container of the tests.
pub struct Podman<'a> {
    bench: &'a Bench,
    rootfs: PathBuf,
    /// The directory of the cgroups of its containers.
    parent: PathBuf,
    /// Whether it has files of its own, and hooks.
    is_apart: bool,
}

impl<'a> Podman<'a> {
    /// `None`, said aloud, where there is no podman that can run a container of runc.
    pub fn with_hooks(bench: &'a Bench, container: &Container, test: &str) -> Option<Self> {
        fs::create_dir(bench.path().join("hooks.d")).unwrap();
        let file = bench
            .run(&["oci-hook", "--print-hooks-file"])
            .expect(0, &[]);
        let mut file: serde_json::Value = serde_json::from_str(&file.out).unwrap();
        file["hook"]["env"] = json!(environment(bench));
        bench.write("hooks.d/tailbound.json", &file.to_string());
        Self::new(bench, container, true, test)
    }

    /// One with the files of the host, where those are looked at; `None`, said aloud, where the host has containers of
    /// its own, or has no such podman.
    pub fn of_host(bench: &'a Bench, container: &Container, test: &str) -> Option<Self> {
        if Path::new(STORAGE).exists() {
            eprintln!(
                "SKIP {test}: needs a host whose podman has no containers ({STORAGE} is there)"
            );
            return None;
        }
        Self::new(bench, container, false, test)
    }

    fn new(bench: &'a Bench, container: &Container, is_apart: bool, test: &str) -> Option<Self> {
        let root = HostCapabilities::probe().cgroup_v2_root?;
        let podman = Self {
            bench,
            rootfs: container.bundle.join("rootfs"),
            parent: root.join(format!("{}-podman", container.name)),
            is_apart,
        };
        // What needs no more rights than tests have.
        let settings = "[containers]\npids_limit = 0\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
            [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\nruntime = \"runc\"\n";
        bench.write("containers.conf", settings);
        let (runs, said) = podman.run(&["run", "--rm"], &[], "true");
        if !runs {
            eprintln!("SKIP {test}: needs a podman that runs containers of runc: {said}");
        }
        runs.then_some(podman)
    }

    /// Runs a container to its end, or until it has been started; whether that went well, and what was said.
    pub fn run(
        &self,
        words: &[&str],
        annotations: &[(&str, &str)],
        script: &str,
    ) -> (bool, String) {
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
    pub fn command(&self, words: &[&str]) -> Command {
        let folder = |name: &str| self.bench.path().join(name);
        let mut command = in_pure_v2("podman");
        let files = [
            ("--root", "root"),
            ("--runroot", "run"),
            ("--tmpdir", "tmp"),
        ];
        for (option, name) in files.into_iter().chain([("--hooks-dir", "hooks.d")]) {
            if self.is_apart {
                command.arg(option).arg(folder(name));
            }
        }
        command.arg("--storage-driver=vfs").args(words);
        command.env("CONTAINERS_CONF", folder("containers.conf"));
        command
    }

    /// The processes that podman has put into the group of the container, or those of them that have the reservation.
    pub fn processes(&self, reserved: bool) -> Vec<u32> {
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
        if !self.is_apart {
            for made in ["/var/lib/containers", "/run/containers", "/run/libpod"] {
                let _never_made = fs::remove_dir_all(made);
            }
        }
    }
}

/// Runs a command to its end; whether that went well, and what it said.
pub fn said(command: &mut Command) -> (bool, String) {
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
