//! A container of a real runtime, runc or crun, for tests of this host. The runtime sees pure cgroup v2 in a mount
//! namespace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tailbound_linux::HostCapabilities;
use tailbound_linux::cgroup;
use tailbound_linux::process::die_with_parent;
use tailbound_time::Duration;

const BUSYBOX: &str = "/bin/busybox";
/// Mounts cgroup v2 where runtimes look for it, and becomes the runtime.
const IN_PURE_V2: &str = "umount -lR /sys/fs/cgroup; mkdir -p /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"";

/// A busy container of one runtime.
pub struct Container {
    engine: &'static str,
    /// The name that its runtime knows it by.
    pub name: String,
    /// The directory in which its runtime keeps its state; the runtime's own if none.
    state: Option<PathBuf>,
    folder: tempfile::TempDir,
    /// The folder with its configuration, `config.json`, and the root of its file system.
    pub bundle: PathBuf,
    /// Its cgroup.
    pub group: PathBuf,
}

impl Container {
    /// `None`, said aloud, where something is missing.
    pub fn of(engine: &'static str, test: &str) -> Option<Self> {
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
            bundle,
            group,
        };
        match container.command(&["--version"]) {
            Some(output) if output.status.success() => Some(container),
            _ => lacks(engine),
        }
    }

    /// One that the host knows by its name, which no other has: its state is where its runtime puts it.
    pub fn findable(engine: &'static str, test: &str) -> Option<Self> {
        let mut container = Self::of(engine, test)?;
        container.state = None;
        let name = container.group.file_name().unwrap();
        container.name = name.to_str().unwrap().into();
        Some(container)
    }

    /// Runs a command of the runtime to its end; `None` where there is no such program.
    pub fn command(&self, arguments: &[&str]) -> Option<Output> {
        let mut command = in_pure_v2(self.engine);
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

    /// Runs a command of the runtime, which has to end well, and returns what it said.
    #[track_caller]
    pub fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).expect("the runtime is there");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{} {arguments:?}: {text}",
            self.engine
        );
        text
    }

    /// Makes it, and starts what runs in it.
    pub fn start(&self) {
        let bundle = self.bundle.to_str().unwrap();
        self.succeeds(&["run", "--detach", "--bundle", bundle, &self.name]);
    }

    /// Has its runtime make another group for it the next time.
    pub fn leave_group(&mut self) {
        let name = format!(
            "{}-again",
            self.group.file_name().unwrap().to_str().unwrap()
        );
        fs::write(self.bundle.join("config.json"), configuration(&name)).unwrap();
        self.group.set_file_name(name);
    }

    /// Ends it, and has its runtime forget it.
    pub fn delete(&self) {
        self.succeeds(&["delete", "--force", &self.name]);
        assert!(!self.group.exists(), "{} removes its group", self.engine);
    }

    /// The processes that its runtime has put into its group, or those of them that have the reservation.
    pub fn processes(&self, reserved: bool) -> Vec<u32> {
        let group = match reserved {
            true => self.group.join("tailbound"),
            false => self.group.clone(),
        };
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// CPU time that the container has used.
    pub fn used(&self) -> Duration {
        let text = cgroup::read_control(&self.group.join("cpu.stat")).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))
            .unwrap();
        Duration::from_micros(line.parse().unwrap())
    }
}

/// A program where cgroup v2 alone is mounted, in a mount namespace of its own.
pub fn in_pure_v2(program: &str) -> Command {
    let mut command = Command::new("unshare");
    let words = [
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        IN_PURE_V2,
        "sh",
    ];
    command.args(words).arg(program);
    command
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
