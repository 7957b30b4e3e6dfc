//! Reservations of real containers of runc and crun: what their managers do to them works as without one.
//!
//! Needs what the ds-freeze back end needs, one of the runtimes, busybox and root; skips aloud where something is
//! missing. The runtimes see pure cgroup v2 in a mount namespace of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tailbound_control::{Client, Lease, Presence, Selection};
use tailbound_enforcement::{
    CgroupName, KernelView, LinuxKernel, NamedCgroup, ReservationRequest, Target,
};
use tailbound_linux::HostCapabilities;
use tailbound_linux::cgroup;
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{die_with_parent, send_signal};
use tailbound_time::Duration;

use crate::stage::{Stage, eventually, request_for};

const SIGKILL: i32 = 9;
const BUSYBOX: &str = "/bin/busybox";
/// Mounts cgroup v2 where runtimes look for it, and becomes the runtime.
const IN_PURE_V2: &str = "umount -lR /sys/fs/cgroup; mkdir -p /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"";
/// How often somebody else's command enters a container. The chance that none of so many meets it while it stands
/// still is nil: 70 of 100 failed where the runtime's own freezer was used.
const EXECS: usize = 20;

/// A busy container of one runtime.
struct Container {
    engine: &'static str,
    /// The name that its runtime knows it by.
    name: String,
    /// The directory in which its runtime keeps its state; the runtime's own if none.
    state: Option<PathBuf>,
    folder: tempfile::TempDir,
    group: PathBuf,
}

impl Container {
    /// `None`, said aloud, where something is missing.
    fn of(engine: &'static str, test: &str) -> Option<Self> {
        let lacks = |what: &str| {
            eprintln!("SKIP {test}: needs {what}");
            None
        };
        let Some(root) = HostCapabilities::probe().cgroup_v2_root else {
            return lacks("cgroup v2");
        };
        if !Path::new(BUSYBOX).exists() {
            return lacks("busybox-static");
        }
        let folder = tempfile::tempdir().unwrap();
        // Tests of one runtime go side by side.
        let unique = folder.path().file_name().unwrap().to_str().unwrap();
        let name = format!("tailbound-test-{engine}-{}", unique.trim_start_matches('.'));
        let group = root.join(&name);
        let bundle = folder.path().join("bundle");
        for directory in ["bin", "proc", "dev"] {
            fs::create_dir_all(bundle.join("rootfs").join(directory)).unwrap();
        }
        let programs = bundle.join("rootfs/bin");
        fs::copy(BUSYBOX, programs.join("busybox")).unwrap();
        for program in ["sh", "sleep", "true"] {
            std::os::unix::fs::symlink("busybox", programs.join(program)).unwrap();
        }
        fs::write(bundle.join("config.json"), configuration(&name)).unwrap();
        let container = Self {
            engine,
            name: "box".into(),
            state: Some(folder.path().join("state")),
            folder,
            group,
        };
        match container.command(&["--version"]) {
            Some(output) if output.status.success() => Some(container),
            _ => lacks(engine),
        }
    }

    /// Runs a command of the runtime to its end; `None` where there is no such program.
    fn command(&self, arguments: &[&str]) -> Option<Output> {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            IN_PURE_V2,
            "sh",
        ]);
        command.arg(self.engine);
        if let Some(state) = &self.state {
            command.arg("--root").arg(state);
        }
        command.args(arguments);
        // A container keeps the streams that it was started with.
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let status = die_with_parent(&mut command).status().ok()?;
        let text = fs::read(self.folder.path().join("log")).unwrap();
        Some(Output {
            status,
            stdout: text,
            stderr: Vec::new(),
        })
    }

    #[track_caller]
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).expect("the runtime is there");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{} {arguments:?}: {text}",
            self.engine
        );
        text
    }

    fn start(&self) {
        let bundle = self.folder.path().join("bundle");
        self.succeeds(&[
            "run",
            "--detach",
            "--bundle",
            bundle.to_str().unwrap(),
            &self.name,
        ]);
    }

    /// Has its runtime make another group for it the next time.
    fn leave_group(&mut self) {
        let name = format!(
            "{}-again",
            self.group.file_name().unwrap().to_str().unwrap()
        );
        let bundle = self.folder.path().join("bundle");
        fs::write(bundle.join("config.json"), configuration(&name)).unwrap();
        self.group.set_file_name(name);
    }

    fn delete(&self) {
        self.succeeds(&["delete", "--force", &self.name]);
        assert!(!self.group.exists(), "{} removes its group", self.engine);
    }

    /// The processes that its runtime has put into its group, or those of them that have the reservation.
    fn processes(&self, reserved: bool) -> Vec<u32> {
        let group = match reserved {
            true => self.group.join("tailbound"),
            false => self.group.clone(),
        };
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// CPU time that the container has used.
    fn used(&self) -> Duration {
        let text = cgroup::read_control(&self.group.join("cpu.stat")).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))
            .unwrap();
        Duration::from_micros(line.parse().unwrap())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _deleted_already = self.command(&["delete", "--force", &self.name]);
    }
}

fn configuration(cgroup: &str) -> String {
    let namespaces = ["pid", "mount", "ipc", "uts"]
        .map(|kind| format!(r#"{{"type":"{kind}"}}"#))
        .join(",");
    format!(
        r#"{{"ociVersion":"1.0.2","root":{{"path":"rootfs","readonly":true}},"hostname":"box",
        "process":{{"terminal":false,"user":{{"uid":0,"gid":0}},"args":["/bin/sh","-c","while :; do :; done"],
            "env":["PATH=/bin"],"cwd":"/","noNewPrivileges":true}},
        "mounts":[{{"destination":"/proc","type":"proc","source":"proc"}},
            {{"destination":"/dev","type":"tmpfs","source":"tmpfs","options":["nosuid","mode=755"]}}],
        "linux":{{"cgroupsPath":"/{cgroup}","namespaces":[{namespaces}],"resources":{{}}}}}}"#
    )
}

/// Waits until the reservation holds for so many processes that the runtime has started, and `status` says so.
#[track_caller]
fn holds(
    stage: &Stage,
    client: &mut Client,
    container: &Container,
    domain: &str,
    processes: usize,
) {
    eventually("the reservation holds", || {
        let reserved = container.processes(true);
        let hold = |&pid: &u32| {
            stage
                .state_while_it_lives(pid)
                .is_some_and(|state| state.is_real_time())
        };
        let status = client.status().unwrap().reservations;
        let presence = status
            .into_iter()
            .find(|one| one.enforced.domain == domain)
            .map(|one| one.presence);
        reserved.len() == processes
            && reserved.iter().all(hold)
            && presence == Some(Presence::InForce)
    });
}

fn lives_with_its_runtime(engine: &'static str, test: &str) {
    let Some(mut stage) = Stage::set(test) else {
        return;
    };
    let Some(container) = Container::of(engine, test) else {
        return;
    };
    container.start();
    let mut request = request_for(stage.busy.id());
    let name = container.group.file_name().unwrap().to_str().unwrap();
    request.target = Target::Cgroup(name.into());
    let domain = request.domain.clone();
    let mut client = stage.client();
    client
        .apply(std::slice::from_ref(&request), Lease::Persistent)
        .unwrap();
    stage.watchdog(&mut client);
    holds(&stage, &mut client, &container, &domain, 1);

    for _ in 0..EXECS {
        container.succeeds(&["exec", "box", "true"]);
        let text = container.succeeds(&["state", "box"]);
        assert!(text.contains("running"), "{text}");
    }
    // A process that enters later is taken in, and gets its turns beside the busy one.
    container.succeeds(&["exec", "--detach", "box", "sh", "-c", "while :; do :; done"]);
    holds(&stage, &mut client, &container, &domain, 2);
    let used = |pid: &u32| cpu_time_of_process(*pid).unwrap();
    let members = container.processes(true);
    let before: Vec<Duration> = members.iter().map(used).collect();
    eventually("both run", || {
        let mut all = members.iter().zip(&before);
        all.all(|(pid, before)| used(pid) > *before)
    });
    container.succeeds(&["exec", "box", "true"]);

    container.succeeds(&["pause", "box"]);
    let before = container.used();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(
        container.used(),
        before,
        "who is paused by its runtime stays so"
    );
    let text = container.succeeds(&["state", "box"]);
    assert!(text.contains("paused"), "{text}");
    container.succeeds(&["resume", "box"]);
    eventually("it goes on", || container.used() > before);

    container.delete();
    container.start();
    holds(&stage, &mut client, &container, &domain, 1);

    is_given_back(&mut stage, client, &container, request);
}

/// All of a reserved container is as before after a revert, and after a SIGKILL of the daemon; it ends then.
fn is_given_back(
    stage: &mut Stage,
    mut client: Client,
    container: &Container,
    request: ReservationRequest,
) {
    let domain = request.domain.clone();
    let members = container.processes(true);
    let is_as_before = |stage: &Stage, members: &[u32]| {
        let ordinary = |&pid: &u32| !stage.state_of(pid).is_real_time();
        let there = container.processes(false) == members && members.iter().all(ordinary);
        there && !container.group.join("tailbound").exists()
    };
    client.revert(Selection::All).unwrap();
    assert!(is_as_before(stage, &members));
    client.apply(&[request], Lease::Persistent).unwrap();
    stage.watchdog(&mut client);
    holds(stage, &mut client, container, &domain, 1);
    container.succeeds(&["exec", "--detach", "box", "sh", "-c", "while :; do :; done"]);
    holds(stage, &mut client, container, &domain, 2);
    let members = container.processes(true);
    send_signal(client.daemon_pid(), SIGKILL).unwrap();
    eventually("the watchdog takes all of it back", || {
        is_as_before(stage, &members)
    });
    let before = container.used();
    eventually("the container runs", || container.used() > before);
    container.delete();
}

#[test]
fn a_container_of_runc_lives_with_its_runtime() {
    lives_with_its_runtime("runc", "a_container_of_runc_lives_with_its_runtime");
}

#[test]
fn a_container_of_crun_lives_with_its_runtime() {
    lives_with_its_runtime("crun", "a_container_of_crun_lives_with_its_runtime");
}

/// A container that is reserved by its name is found again in another group, as an engine makes one for each start.
fn is_found_by_its_name(engine: &'static str, test: &str) {
    let Some(mut stage) = Stage::set(test) else {
        return;
    };
    let Some(mut container) = Container::of(engine, test) else {
        return;
    };
    container.state = None;
    container.name = container
        .group
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .into();
    let name = CgroupName::Container(container.name.clone());
    let kernel = LinuxKernel::new().unwrap();
    let refusal = kernel.named_cgroup(&name).unwrap_err();
    assert!(refusal.to_string().contains(&container.name), "{refusal}");
    container.start();
    let named = NamedCgroup::of(name.clone(), &kernel).unwrap();
    assert_eq!(kernel.named_cgroup(&name).unwrap(), container.group);
    let mut request = request_for(stage.busy.id());
    request.target = Target::NamedCgroup(named);
    let domain = request.domain.clone();
    let mut client = stage.client();
    client.apply(&[request], Lease::Persistent).unwrap();
    stage.watchdog(&mut client);
    holds(&stage, &mut client, &container, &domain, 1);
    // Its first process is in a group of ours by now, and the name still that of the runtime's group.
    assert_eq!(kernel.named_cgroup(&name).unwrap(), container.group);

    container.delete();
    container.leave_group();
    container.start();
    holds(&stage, &mut client, &container, &domain, 1);
    client.revert(Selection::All).unwrap();
    let members = container.processes(false);
    assert_eq!(members.len(), 1);
    assert!(!stage.state_of(members[0]).is_real_time());
    container.delete();
}

#[test]
fn a_container_of_runc_is_found_by_its_name() {
    is_found_by_its_name("runc", "a_container_of_runc_is_found_by_its_name");
}

#[test]
fn a_container_of_crun_is_found_by_its_name() {
    is_found_by_its_name("crun", "a_container_of_crun_is_found_by_its_name");
}
