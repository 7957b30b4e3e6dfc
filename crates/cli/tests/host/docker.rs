//! A reservation of a container of docker, by its name: what docker does to the container works as without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tailbound_linux::HostCapabilities;
use tailbound_linux::cgroup::{self, cgroups_below, processes_in};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::send_signal;
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::Bench;
use crate::container::{Container, in_pure_v2};
use crate::containers::until;

const SIGTERM: i32 = 15;
/// Where docker keeps its containers, and where they are looked up; and what its containerd leaves.
const DATA: &str = "/var/lib/docker";
const LEFT: [&str; 3] = [DATA, "/run/docker", "/run/containerd"];
/// How often somebody enters the container. Where its own freezer was used, 70 of 100 failed.
const EXECS: usize = 20;

/// A docker of the test's own, in the places where a host's is.
struct Docker<'a> {
    bench: &'a Bench,
    daemon: Child,
    /// The name of its container, and of the folder of cgroups that holds the container's.
    name: String,
    parent: PathBuf,
}

impl<'a> Docker<'a> {
    /// `None`, said aloud, where something is missing.
    fn new(bench: &'a Bench, test: &str) -> Option<Self> {
        let container = Container::of("runc", test)?;
        for program in ["dockerd", "docker", "containerd"] {
            let answer = Command::new(program).arg("--version").output();
            if !answer.is_ok_and(|output| output.status.success()) {
                eprintln!("SKIP {test}: needs {program} (on Debian: apt-get install docker.io)");
                return None;
            }
        }
        if let Some(path) = LEFT.iter().find(|path| Path::new(path).exists()) {
            eprintln!("SKIP {test}: needs a host without a docker of its own ({path} is there)");
            return None;
        }
        let name = container.group.file_name()?.to_str()?.to_owned();
        let parent = HostCapabilities::probe().cgroup_v2_root?.join(&name);
        let log = fs::File::create(bench.path().join("dockerd.log")).unwrap();
        let mut command = in_pure_v2("dockerd");
        command
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--storage-driver=vfs", "--oom-score-adjust=0", "--host"])
            .arg(address(bench))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let daemon = command.spawn().unwrap();
        let docker = Self {
            bench,
            daemon,
            name,
            parent,
        };
        until("docker answers", || {
            docker.command(&["info"]).status.success()
        });
        let rootfs = container.bundle.join("rootfs");
        let archive = docker.bench.path().join("box.tar");
        let mut archived = Command::new("tar");
        archived
            .arg("-C")
            .arg(rootfs)
            .arg("-cf")
            .arg(&archive)
            .arg(".");
        assert!(archived.status().unwrap().success());
        docker.succeeds(&["import", archive.to_str().unwrap(), "box:1"]);
        Some(docker)
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("docker");
        command
            .arg("--host")
            .arg(address(self.bench))
            .args(arguments);
        command.stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, arguments: &[&str]) {
        let output = self.command(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "docker {arguments:?}: {said}");
    }

    /// The processes of the container that have the reservation, or the others.
    fn processes(&self, reserved: bool) -> Vec<u32> {
        let groups = cgroups_below(&self.parent).unwrap_or_default().into_iter();
        let groups = groups.map(|group| match reserved {
            true => group.join("tailbound"),
            false => group,
        });
        let processes = groups.flat_map(|group| processes_in(&group).unwrap_or_default());
        processes.collect()
    }

    fn holds(&self, processes: usize) -> bool {
        let members = self.processes(true);
        let fifo = |&pid: &u32| matches!(scheduling_of(pid), Ok(SchedulingSetting::Fifo { .. }));
        members.len() == processes && members.iter().all(fifo)
    }
}

fn address(bench: &Bench) -> String {
    format!("unix://{}", bench.path().join("docker.sock").display())
}

impl Drop for Docker<'_> {
    fn drop(&mut self) {
        let _never_made = self.command(&["rm", "--force", &self.name]);
        let _ended_already = send_signal(self.daemon.id(), SIGTERM);
        let _ended = self.daemon.wait();
        let _never_made = cgroup::remove(&self.parent);
        for made in LEFT {
            let _never_made = fs::remove_dir_all(made);
        }
    }
}

/// Has docker do to the container what it does, while the reservation is in force.
fn is_operated(docker: &Docker<'_>) {
    let name = docker.name.as_str();
    for _ in 0..EXECS {
        docker.succeeds(&["exec", name, "/bin/true"]);
    }
    docker.succeeds(&[
        "exec",
        "--detach",
        name,
        "/bin/sh",
        "-c",
        "while :; do :; done",
    ]);
    until("exec is taken in", || docker.holds(2));
    docker.succeeds(&["pause", name]);
    let members = docker.processes(true);
    let used = || -> Vec<_> {
        members
            .iter()
            .map(|&pid| cpu_time_of_process(pid).unwrap())
            .collect()
    };
    let before = used();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(used(), before, "paused by docker, it stays so");
    docker.succeeds(&["unpause", name]);
    until("it goes on", || used() > before);
    docker.succeeds(&["restart", "--time=0", name]);
    until("the reservation follows a restart", || docker.holds(1));
    docker.succeeds(&["stop", "--time=0", name]);
    assert_eq!(docker.processes(true), docker.processes(false));
    docker.bench.run(&["status"]).expect(0, &[name]);
    docker.succeeds(&["start", name]);
    until("the reservation follows a start", || docker.holds(1));
    docker.succeeds(&["kill", name]);
    docker.succeeds(&["start", name]);
    until("the reservation follows a kill", || docker.holds(1));
}

#[test]
fn a_container_of_docker_lives_with_its_reservation() {
    let test = "a_container_of_docker_lives_with_its_reservation";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(docker) = Docker::new(&bench, test) else {
        return;
    };
    let name = docker.name.as_str();
    let (parent, label) = (format!("--cgroup-parent=/{name}"), format!("app={name}"));
    let run = [
        "run",
        "--detach",
        "--network=none",
        &parent,
        "--name",
        name,
        "--label",
        &label,
    ];
    let busy = ["box:1", "/bin/sh", "-c", "while :; do :; done"];
    docker.succeeds(&[&run[..], &busy].concat());
    let reservation = ["-b", "3ms", "-p", "10ms", "-c", "1", "--priority", "50"];
    let by_label = [
        &["apply", "--container-label", &label, "--dry-run"],
        &reservation[..],
    ];
    docker
        .bench
        .run(&by_label.concat())
        .expect(0, &["SCHED_FIFO"]);
    let by_name = [&["apply", "--container", name], &reservation[..]];
    docker.bench.run(&by_name.concat()).expect(0, &[name]);
    assert!(docker.holds(1));

    is_operated(&docker);
    docker.bench.run(&["revert", name]).expect(0, &[name]);
    assert!(docker.processes(true).is_empty());
    assert_eq!(docker.processes(false).len(), 1);
    docker.succeeds(&["rm", "--force", name]);
    let name = docker.name.clone();
    drop(docker);
    bench.assert_clean(&name);
}
