//! A machine of libvirt as a domain: `tailbound` finds its virtual CPUs by `virsh`, changes its modes, and
//! leaves it as it was.
//!
//! The libvirtd is one of `tools/libvirt`, which the host's knows nothing of, with the settings that libvirt
//! has if nobody changes them: each virtual CPU is in a cgroup of its own. Skips aloud where something is
//! missing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tailbound_linux::process::send_signal;

use crate::bench::{Bench, Ended, daemon};

/// Prints a line again and again, so that the console tells whether it runs.
const BEAT: &str = "beat=sh -c \"while :; do echo beat; usleep 20000; done\"";
/// SIGKILL.
const KILL: i32 = 9;
/// Uses all CPU time that the machine gets.
const SPIN: &str = "spin=sh -c \"while :; do :; done\"";

fn tool(name: &str) -> Command {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools");
    Command::new(tools.join(name))
}

/// It is built with the daemon.
fn agent() -> PathBuf {
    daemon().with_file_name("tailbound-agent")
}

/// What is missing of what both tools need.
fn missing() -> Option<String> {
    let mut missing = String::new();
    for name in ["guest", "libvirt"] {
        let asked = tool(name).arg("missing").output().unwrap();
        missing.push_str(&String::from_utf8_lossy(&asked.stdout));
    }
    if !agent().is_file() {
        missing.push_str("tailbound-agent:cargo-build-workspace-bins");
    }
    let missing = missing.split_whitespace().collect::<Vec<_>>().join(", ");
    (!missing.is_empty()).then_some(missing)
}

/// Waits until it holds: a guest under emulation takes many times what it takes alone.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4_500 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never: {what}");
}

/// A libvirtd, which ends with this and takes its machines along.
struct Libvirt<'a> {
    server: Child,
    pid: String,
    bench: &'a Bench,
}

impl<'a> Libvirt<'a> {
    fn start(bench: &'a Bench) -> Self {
        let log = fs::File::create(bench.path().join("libvirtd.log")).unwrap();
        let mut serve = tool("libvirt");
        serve.arg("serve").stdin(Stdio::piped()).stderr(log);
        let mut server = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let said = server.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let pid = line.trim().strip_prefix("libvirtd ");
        let log = || fs::read_to_string(bench.path().join("libvirtd.log")).unwrap();
        let pid = pid.unwrap_or_else(|| panic!("{line:?} {}", log()));
        Self {
            server,
            pid: pid.to_owned(),
            bench,
        }
    }

    /// A command where this libvirtd is the system's.
    fn inside(&self, command: &Command) -> Ended {
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.pid, "--mount", "--", "sh", "-c"]);
        inside
            .arg("cd \"$0\" && exec \"$@\"")
            .arg(self.bench.path());
        inside
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            inside.env(name, value.unwrap_or(OsStr::new("")));
        }
        inside.output().unwrap().into()
    }

    fn virsh(&self, words: &[&str]) -> Ended {
        let mut virsh = Command::new("virsh");
        self.inside(virsh.args(["--connect", "qemu:///system"]).args(words))
    }

    fn tailbound(&self, words: &[&str]) -> Ended {
        self.inside(&self.bench.tailbound(words))
    }

    /// The process of a machine, as this libvirtd has noted it.
    fn process_of(&self, name: &str) -> u32 {
        let mut cat = Command::new("cat");
        let note = self.inside(cat.arg(format!("/run/libvirt/qemu/{name}.pid")));
        note.out.trim().parse().expect("libvirt has noted it")
    }
}

impl Drop for Libvirt<'_> {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _reaped = self.server.wait();
    }
}

/// A guest with an agent, as a file for `virsh create`; its console and its port lie beside.
fn guest(folder: &Path, name: &str, cpus: u32) -> PathBuf {
    let image = folder.join(format!("{name}.image"));
    let mut pack = tool("guest");
    pack.arg("pack").arg(&image);
    pack.args(["--domain", name, "--task", BEAT, "--task", SPIN]);
    pack.arg("--agent").arg(agent());
    let packed = pack.output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let mut xml = tool("guest");
    xml.arg("xml").arg(&image).args(["--name", name]);
    xml.args(["--cpus", &cpus.to_string()]);
    xml.arg("--port").arg(folder.join(format!("{name}.port")));
    xml.arg("--console")
        .arg(folder.join(format!("{name}.console")));
    let xml = xml.output().unwrap();
    assert!(xml.status.success(), "{xml:?}");
    let file = folder.join(format!("{name}.xml"));
    fs::write(&file, xml.stdout).unwrap();
    file
}

fn description(folder: &Path, name: &str) -> String {
    let port = folder.join(format!("{name}.port"));
    let task = r#"{ arrivals = { kind = "periodic", period = "100ms" }, execution_time = { kind = "constant", value = "1ms" } }"#;
    format!(
        r#"
schema_version = 1
name = "libvirt"
initial_mode = "run"
hosts.here.cpus = [0, 1]
mode_changes = {{ timeout = "10s", boost = "5ms" }}

[domains.{name}]
kind = "libvirt-vm"
machine = {{ name = "{name}", emulator_cpus = [1] }}
reservation = {{ budget = "12ms", period = "20ms", cpus = [0], priority = 50 }}
agent = {{ place = "inside", link = {{ kind = "virtio-serial", path = "{}" }} }}
tasks.beat = {task}
tasks.spin = {task}

[domains.{name}.modes.rest]
reservation = {{ budget = "4ms", period = "20ms", cpus = [0], priority = 50 }}
tasks = ["spin"]

[modes.run]

[modes.rest]
domains = {{ {name} = "rest" }}
"#,
        port.display()
    )
}

/// The cgroups, policy, priority and CPUs of all threads of a process.
fn state_of(pid: u32) -> BTreeMap<String, String> {
    let mut states = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let thread = thread.unwrap().path();
        let read = |file: &str| fs::read_to_string(thread.join(file)).unwrap_or_default();
        let status = read("status");
        let mut lines = status.lines();
        let cpus = lines.find(|line| line.starts_with("Cpus_allowed_list"));
        let stat = read("stat");
        let policy: Vec<&str> = stat.rsplit(' ').skip(11).take(2).collect();
        let state = format!("{policy:?} {cpus:?} {}", read("cgroup"));
        states.insert(thread.display().to_string(), state);
    }
    states
}

fn beats(console: &Path) -> usize {
    let said = fs::read(console).unwrap_or_default();
    String::from_utf8_lossy(&said).matches("beat").count()
}

/// A bench with a description of a machine, the machine's name, and its file for `virsh`; `None`, said aloud,
/// where something is missing.
fn prepared(test: &str, kind: &str, cpus: u32) -> Option<(Bench, String, PathBuf)> {
    if let Some(missing) = missing() {
        eprintln!("SKIP {test}: needs {missing}");
        return None;
    }
    let bench = Bench::enforcing(test)?;
    // The machine's user has to get at its files.
    fs::set_permissions(bench.path(), Permissions::from_mode(0o711)).unwrap();
    let name = format!("{kind}-{}", std::process::id());
    let file = guest(bench.path(), &name, cpus);
    bench.write("cell.toml", &description(bench.path(), &name));
    Some((bench, name, file))
}

#[test]
fn a_machine_of_libvirt_changes_modes_and_is_left_as_it_was() {
    let test = "libvirt::a_machine_of_libvirt_changes_modes_and_is_left_as_it_was";
    let Some((bench, name, file)) = prepared(test, "arm", 1) else {
        return;
    };
    let libvirt = Libvirt::start(&bench);
    let words = [&name[..], "virsh", "running"];
    libvirt
        .tailbound(&["apply", "cell.toml"])
        .expect(1, &words[..2]);
    libvirt
        .virsh(&["create", file.to_str().unwrap()])
        .expect(0, &[]);
    let console = bench.path().join(format!("{name}.console"));
    eventually("the guest runs", || beats(&console) > 0);
    let process = libvirt.process_of(&name);
    let before = state_of(process);
    for with_kill in [false, true] {
        expect_modes(&libvirt, &name, &console);
        if with_kill {
            expect_another_daemon(&libvirt, &name, &console);
        }
        libvirt
            .tailbound(&["revert"])
            .expect(0, &[&format!("taken back: {name}")]);
        let after = state_of(process);
        for (thread, state) in &before {
            let now = after.get(thread).unwrap_or(state);
            assert_eq!(
                now, state,
                "{thread}; those that wait for disks come and go"
            );
        }
    }
    expect_death(&libvirt, &name);
    drop(libvirt);
    bench.assert_clean(&name);
}

fn expect_modes(libvirt: &Libvirt<'_>, name: &str, console: &Path) {
    libvirt
        .tailbound(&["apply", "cell.toml"])
        .expect(0, &["mode run of rest, run", name]);
    libvirt
        .tailbound(&["status"])
        .expect(0, &[name, "ds-freeze", "12ms"]);
    eventually("the agent is there", || {
        let listed = libvirt.tailbound(&["mode", "list"]).expect(0, &[name]);
        !listed.out.contains("not connected")
    });
    let begun = beats(console);
    eventually("its task runs", || beats(console) > begun + 2);
    libvirt
        .tailbound(&["mode", "set", "rest"])
        .expect(0, &["run -> rest: completed", "boost"]);
    libvirt.tailbound(&["status"]).expect(0, &["4ms"]);
    // What was on its way may still come; a task that runs beats many times in each of these looks.
    let mut stopped = beats(console);
    eventually("its task has stopped", || {
        std::thread::sleep(Duration::from_millis(400));
        std::mem::replace(&mut stopped, beats(console)) == stopped
    });
    libvirt
        .tailbound(&["mode", "set", "run"])
        .expect(0, &["rest -> run: completed"]);
    eventually("its task runs again", || beats(console) > stopped + 2);
    let listed = libvirt.virsh(&["list"]);
    listed.expect(0, &[name, "running"]);
}

/// Its daemon is killed while its virtual CPU is under a budget; another one goes on.
fn expect_another_daemon(libvirt: &Libvirt<'_>, name: &str, console: &Path) {
    let daemon = libvirt.bench.client().unwrap().daemon_pid();
    send_signal(daemon, KILL).unwrap();
    eventually("another daemon knows its modes", || {
        let client = libvirt.bench.client();
        client.is_some_and(|client| client.daemon_pid() != daemon)
            && libvirt.tailbound(&["mode", "list"]).out.contains(name)
    });
    let begun = beats(console);
    eventually("it goes on", || beats(console) > begun + 2);
    libvirt
        .tailbound(&["status"])
        .expect(0, &[name, "ds-freeze", "12ms"]);
}

/// It is ended by libvirt under its reservation, and both go on.
fn expect_death(libvirt: &Libvirt<'_>, name: &str) {
    libvirt.tailbound(&["apply", "cell.toml"]).expect(0, &[]);
    libvirt.virsh(&["destroy", name]).expect(0, &[]);
    let words = ["its agent is not connected", "mode `run` holds again"];
    eventually("its agent is gone", || {
        let asked = libvirt.tailbound(&["mode", "set", "rest"]);
        words.iter().all(|words| asked.err.contains(words))
    });
    libvirt.tailbound(&["revert"]).expect(0, &[]);
    let listed = libvirt.virsh(&["list", "--all"]).expect(0, &[]);
    assert!(!listed.out.contains(name), "{}", listed.out);
}

#[test]
fn virtual_cpus_that_libvirt_keeps_apart_have_a_cpu_each() {
    let test = "libvirt::virtual_cpus_that_libvirt_keeps_apart_have_a_cpu_each";
    let Some((bench, name, file)) = prepared(test, "two", 2) else {
        return;
    };
    let libvirt = Libvirt::start(&bench);
    libvirt
        .virsh(&["create", "--paused", file.to_str().unwrap()])
        .expect(0, &[]);
    let words = ["as many CPUs as virtual CPUs", "cgroup_controllers = []"];
    libvirt
        .tailbound(&["apply", "--dry-run", "cell.toml"])
        .expect(1, &words);
    drop(libvirt);
    bench.assert_clean(&name);
}
