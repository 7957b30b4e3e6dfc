//! `tailbound nri-plugin` under containerd, from 2.0 on, which makes pods as a kubelet has it make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::json;
use tailbound_linux::HostCapabilities;
use tailbound_linux::cgroup::{self, cgroups_below, processes_in};
use tailbound_linux::process::send_signal;
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::{Bench, Ended};
use crate::container::{Container, in_pure_v2};
use crate::containers::until;
use crate::oci_hooks::{FITTING, domains};

const SIGTERM: i32 = 15;
/// Where shims of containerd keep the states of containers, whatever it is told.
const STATES: &str = "/run/containerd";
/// The image of pods and containers.
const IMAGE: &str = "localhost/box:1";
/// Runs runc without the limits that a kubelet sets, for which hosts of tests lack the controllers.
const BARE_RUNC: &str = r#"#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
if "--bundle" in words:
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        configuration = json.load(file)
    configuration["linux"]["resources"] = {}
    with open(path, "w") as file:
        json.dump(configuration, file)
os.execvp("runc", ["runc", *words])
"#;
/// Makes an image of a folder of programs, as `docker save` writes it.
const MAKE_IMAGE: &str = r#"
tar -C "$1" -cf "$2/layer.tar" . && cd "$2"
sum=$(sha256sum layer.tar | cut -c1-64)
printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["/bin/sleep","1000000"]},
"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$sum" >config.json
chmod +x runc
printf '[{"Config":"config.json","RepoTags":["localhost/box:1"],"Layers":["layer.tar"]}]' >manifest.json
tar -cf image.tar manifest.json config.json layer.tar
"#;

/// A containerd of the test's own, with a plugin.
struct Containerd<'a> {
    bench: &'a Bench,
    daemon: Child,
    plugin: Option<Child>,
    /// The folder of cgroups that holds those of its pods.
    parent: PathBuf,
}

impl<'a> Containerd<'a> {
    /// `None`, said aloud, where something is missing.
    fn new(bench: &'a Bench, test: &str) -> Option<Self> {
        let container = Container::of("runc", test)?;
        if let Some(lacking) = lacking() {
            eprintln!("SKIP {test}: needs {lacking}");
            return None;
        }
        let group = container.group.file_name()?;
        let parent = HostCapabilities::probe().cgroup_v2_root?.join(group);
        let folder = bench.path();
        bench.write("containerd.toml", &configuration(bench));
        bench.write("crictl.yaml", "timeout: 60\n");
        bench.write("runc", BARE_RUNC);
        let mut make = Command::new("sh");
        make.args(["-ec", MAKE_IMAGE, "sh"]);
        make.arg(container.bundle.join("rootfs")).arg(folder);
        assert!(make.status().unwrap().success());
        let log = fs::File::create(folder.join("containerd.log")).unwrap();
        let mut command = in_pure_v2("containerd");
        command.arg("--config").arg(folder.join("containerd.toml"));
        command.stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut containerd = Self {
            bench,
            daemon: command.spawn().unwrap(),
            plugin: None,
            parent,
        };
        until("containerd answers", || {
            containerd.crictl(&["pods"]).status.success()
        });
        let mut import = Command::new("ctr");
        import.env("CONTAINERD_ADDRESS", folder.join("containerd.sock"));
        import.args(["--namespace", "k8s.io", "images", "import", "--local"]);
        import.args(["--snapshotter", "native"]);
        let imported = import.arg(folder.join("image.tar")).output().unwrap();
        assert!(imported.status.success(), "{imported:?}");
        let socket = folder.join("nri.sock");
        let words = ["nri-plugin", "--socket", socket.to_str()?];
        let words = [&words[..], &["--priority-limit=60"]].concat();
        containerd.plugin = Some(bench.start(&words));
        bench.until_said("has taken the plugin");
        Some(containerd)
    }

    /// What a dry run for a container says, which is named so.
    fn dry_run(&self, option: &str, name: &str) -> Ended {
        let budget = ["-b", "1ms", "-p", "10ms", "-c", "1", "--dry-run"];
        let words = [&["apply", option, name], &budget[..]].concat();
        let mut command = self.bench.tailbound(&words);
        // For `ctr`, which is asked for labels.
        command.env(
            "CONTAINERD_ADDRESS",
            self.bench.path().join("containerd.sock"),
        );
        Ended::from(command.output().unwrap())
    }

    fn crictl(&self, words: &[&str]) -> Output {
        let socket = self.bench.path().join("containerd.sock");
        let socket = format!("unix://{}", socket.display());
        let mut command = Command::new("crictl");
        command
            .arg("--config")
            .arg(self.bench.path().join("crictl.yaml"));
        command.args(["--runtime-endpoint", &socket, "--image-endpoint", &socket]);
        command.args(words).stdin(Stdio::null()).output().unwrap()
    }

    /// Makes a pod with these annotations and one container, and starts it; whether that went well, and what was said.
    fn run(&self, name: &str, annotations: &[(&str, &str)]) -> (bool, String) {
        let annotations = annotations.iter();
        let annotations: serde_json::Map<_, _> = annotations
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        let group = self.parent.file_name().unwrap().to_str().unwrap();
        let pod = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name, "attempt": 0 },
            "annotations": annotations,
            "labels": { "app": name },
            "log_directory": self.bench.path().join("logs"),
            // In the network of the host, for which no plugin of networks is needed.
            "linux": { "cgroup_parent": format!("/{group}"), "security_context": { "namespace_options": { "network": 2 } } },
        });
        let container = json!({
            "metadata": { "name": "redis" },
            "image": { "image": IMAGE },
            "command": ["/bin/sh", "-c", "while :; do :; done"],
            "log_path": "redis.log",
            "linux": {},
        });
        self.bench.write("pod.json", &pod.to_string());
        self.bench.write("container.json", &container.to_string());
        let path = |name: &str| self.bench.path().join(name).to_str().unwrap().to_owned();
        let output = self.crictl(&[
            "run",
            "--no-pull",
            &path("container.json"),
            &path("pod.json"),
        ]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said)
    }

    /// The processes of all pods that have the reservation.
    fn reserved(&self) -> Vec<u32> {
        let groups = cgroups_below(&self.parent).unwrap_or_default().into_iter();
        let processes =
            groups.flat_map(|group| processes_in(&group.join("tailbound")).unwrap_or_default());
        processes.collect()
    }
}

/// The program that is missing, or the host's own containerd that is in the way.
fn lacking() -> Option<&'static str> {
    let version = Command::new("containerd").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|text| !text.contains(" v1.") && !text.contains(" 1.")) {
        return Some("containerd from 2.0 on (tools/containerd FOLDER builds one for PATH)");
    }
    if Command::new("crictl").arg("--version").output().is_err() {
        return Some("crictl (tools/containerd FOLDER builds one for PATH)");
    }
    let is_there = Path::new(STATES).exists();
    is_there.then_some("a host without a containerd of its own (/run/containerd is there)")
}

fn configuration(bench: &Bench) -> String {
    let path = |name: &str| bench.path().join(name).display().to_string();
    format!(
        r#"version = 3
root = "{root}"
state = "{state}"
[grpc]
address = "{socket}"
[plugins.'io.containerd.nri.v1.nri']
socket_path = "{nri}"
plugin_path = "{root}"
plugin_config_path = "{root}"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "native"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{runc}"
"#,
        root = path("root"),
        state = path("containerd"),
        socket = path("containerd.sock"),
        nri = path("nri.sock"),
        runc = path("runc"),
    )
}

impl Drop for Containerd<'_> {
    fn drop(&mut self) {
        let _none_left = self.crictl(&["rmp", "--all", "--force"]);
        if let Some(plugin) = &mut self.plugin {
            let _ended_already = plugin.kill();
            let _ended = plugin.wait();
        }
        let _ended_already = send_signal(self.daemon.id(), SIGTERM);
        let _ended = self.daemon.wait();
        let _never_made = cgroup::remove(&self.parent);
        let _never_made = fs::remove_dir_all(STATES);
    }
}

#[test]
fn a_pod_of_containerd_runs_only_with_its_reservation() {
    let test = "a_pod_of_containerd_runs_only_with_its_reservation";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(containerd) = Containerd::new(&bench, test) else {
        return;
    };
    let (runs, said) = containerd.run("cache", &FITTING);
    assert!(runs, "{said}");
    let members = containerd.reserved();
    assert_eq!(members.len(), 1, "{}", bench.said());
    let fifo = scheduling_of(members[0]);
    assert!(matches!(fifo, Ok(SchedulingSetting::Fifo { .. })));
    let domain = ["default-cache-redis"];
    assert_eq!(domains(&bench), domain);

    let urgent = [&FITTING[..3], &[("tailbound.priority", "61")]].concat();
    let (runs, said) = containerd.run("urgent", &urgent);
    assert!(
        !runs && said.contains("containers may have 60 at most"),
        "{said}"
    );
    let (runs, said) = containerd.run("plain", &[]);
    assert!(runs, "{said}");
    assert_eq!(domains(&bench), domain);
    let names = [
        ("--pod", "default/plain"),
        ("--pod", "default/plain/redis"),
        ("--container-label", "app=plain"),
    ];
    for (option, name) in names {
        containerd.dry_run(option, name).expect(0, &["SCHED_FIFO"]);
    }
    let other = containerd.dry_run("--pod", "default/other");
    other.expect(
        1,
        &[
            "there is default/cache/redis, default/plain/redis",
            "kubectl",
        ],
    );

    let removed = containerd.crictl(&["rmp", "--all", "--force"]);
    assert!(removed.status.success(), "{removed:?}");
    until("the end of the pod takes it back", || {
        domains(&bench).is_empty()
    });
    drop(containerd);
    bench.assert_clean("default-cache-redis");
}
