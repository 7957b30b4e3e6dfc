#![allow(clippy::unwrap_used)]

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::process::process_started;

const FIRST: &str = "713f58d9551edff1c750f4ab2c1b68d53ca22a1156d85cc9184e73db63fe96f8";
const SECOND: &str = "71aad989dc888fc4df0d4dcad8a97617666752cc55eb456b342db57f7b873aaa";

/// The files of a host's runtimes, and a hierarchy.
struct RuntimeHost {
    folder: tempfile::TempDir,
}

impl RuntimeHost {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A container of crun, whose first process is this one, or one that has ended.
    fn crun(&self, id: &str, runs: bool) {
        let (pid, started) = this_process();
        let started = if runs { started } else { started + 1 };
        let status = format!(
            r#"{{"pid": {pid}, "process-start-time": {started}, "cgroup-path": "/box/{id}", "bundle": "/b"}}"#
        );
        self.write(&format!("run/crun/{id}/status"), status);
    }

    /// A container of runc in a state directory.
    fn runc(&self, root: &str, id: &str) {
        let (pid, started) = this_process();
        let state = format!(
            r#"{{"id":"{id}","init_process_pid":{pid},"init_process_start":{started},"cgroup_paths":{{"":"/sys/fs/cgroup/box/{id}"}}}}"#
        );
        self.write(&format!("{root}/{id}/state.json"), state);
    }

    /// A container of containerd in the pod `cache`, as its OCI runtime keeps it.
    fn pod_container(&self, id: &str, kind: &str, name: &str) {
        let (pid, started) = this_process();
        let key = "io.kubernetes.cri";
        let state = format!(
            r#"{{"init_process_pid":{pid},"init_process_start":{started},
                "cgroup_paths":{{"":"/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"}},
                "config":{{"labels":["{key}.container-type={kind}","{key}.sandbox-id=sandbox","{key}.container-name={name}",
                "{key}.sandbox-namespace=default","{key}.sandbox-name=cache"]}}}}"#
        );
        self.write(
            &format!("run/containerd/runc/k8s.io/{id}/state.json"),
            state,
        );
    }

    fn podman(&self, containers: &[(&str, &str)]) {
        let listed = containers.iter().map(|(id, name)| {
            format!(r#"{{"id":"{id}","names":["{name}"],"image":"","flags":{{}}}}"#)
        });
        let text = format!("[{}]", listed.collect::<Vec<_>>().join(","));
        let path = "var/lib/containers/storage/overlay-containers/containers.json";
        self.write(path, text);
    }

    /// The identifier of the container that is meant.
    fn chosen(&self, name: &str) -> Result<String, NameError> {
        let (states, names) = (oci_state::all(self.root()), engines::names(self.root()));
        chosen(&states, &names, self.root(), name).map(|state| state.id.clone())
    }
}

fn this_process() -> (u32, u64) {
    let pid = std::process::id();
    (pid, process_started(pid).unwrap())
}

#[test]
fn names_identifiers_and_their_beginnings_are_found() {
    let host = RuntimeHost::new();
    host.crun(FIRST, true);
    host.crun(SECOND, true);
    host.podman(&[(FIRST, "redis"), (SECOND, "web")]);
    assert_eq!(host.chosen("redis").unwrap(), FIRST);
    assert_eq!(host.chosen("web").unwrap(), SECOND);
    assert_eq!(host.chosen(FIRST).unwrap(), FIRST);
    assert_eq!(host.chosen("713").unwrap(), FIRST);
    let refusal = host.chosen("71").unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "container \"71\" may be any of: redis (podman 713f58d9551e), web (podman 71aad989dc88)"
    );
    let refusal = host.chosen("other").unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "there is no container \"other\" that runs; there is redis (podman 713f58d9551e), web (podman 71aad989dc88)"
    );
}

#[test]
fn every_engine_and_runtime_is_asked() {
    let host = RuntimeHost::new();
    host.runc("run/runc", "plain");
    host.runc("run/docker/runtime-runc/moby", FIRST);
    host.runc("run/containerd/runc/default", SECOND);
    let configuration = r#"{"State":{"Running":true},"Name":"/redis"}"#;
    let path = format!("var/lib/docker/containers/{FIRST}/config.v2.json");
    host.write(&path, configuration);
    host.write("var/lib/nerdctl/1935db59/names/default/web", SECOND);
    assert_eq!(host.chosen("plain").unwrap(), "plain");
    assert_eq!(host.chosen("redis").unwrap(), FIRST);
    assert_eq!(host.chosen("web").unwrap(), SECOND);
}

#[test]
fn a_label_is_that_of_one_container_that_runs() {
    let host = RuntimeHost::new();
    host.crun(FIRST, true);
    host.runc("run/docker/runtime-runc/moby", SECOND);
    host.crun("ended", false);
    let annotated = r#"{"annotations": {"app": "redis", "tier": "back"}}"#;
    for id in [FIRST, "ended"] {
        host.write(&format!("run/crun/{id}/config.json"), annotated);
    }
    let configuration = r#"{"Name": "/web", "Config": {"Labels": {"app": "web", "empty": ""}}}"#;
    let path = format!("var/lib/docker/containers/{SECOND}/config.v2.json");
    host.write(&path, configuration);
    let labelled = |label: &str| {
        let states = oci_state::all(host.root());
        labelled(&states, host.root(), label, &DatabaseLabels::default())
            .map(|state| state.id.clone())
    };
    assert_eq!(labelled("app=redis").unwrap(), FIRST);
    assert_eq!(labelled("tier").unwrap(), FIRST);
    assert_eq!(labelled("app=web").unwrap(), SECOND);
    assert_eq!(labelled("empty=").unwrap(), SECOND);
    let several = labelled("app").unwrap_err();
    assert_eq!(
        several.to_string(),
        "container with the label \"app\" may be any of: web (docker 71aad989dc88), 713f58d9551e (crun)"
    );
    assert!(several.remedy().contains("for one container"));
    let absent = labelled("app=red").unwrap_err();
    assert_eq!(
        absent.to_string(),
        "there is no container with the label \"app=red\" that runs"
    );
}

#[test]
fn the_labels_of_podman_and_of_pods_are_asked_for_once() {
    let host = RuntimeHost::new();
    host.crun(FIRST, true);
    let annotated = r#"{"annotations": {"io.container.manager": "libpod"}}"#;
    host.write(&format!("run/crun/{FIRST}/config.json"), annotated);
    host.crun("plain", true);
    for (id, kind) in [(SECOND, "container"), ("sandbox", "sandbox")] {
        host.pod_container(id, kind, "redis");
    }
    let asked = std::cell::RefCell::new(Vec::new());
    let ask = |words: &[&str]| {
        asked.borrow_mut().push(words.join(" "));
        let text = match words {
            ["podman", "ps", ..] => {
                format!(r#"[{{"Id": "{FIRST}", "Labels": {{"app": "redis"}}}}]"#)
            }
            [.., "sandbox"] => r#"{"ID": "sandbox", "Labels": {"app": "web"}}"#.to_owned(),
            _ => r#"{"Labels": {"io.cri-containerd.kind": "container"}}"#.to_owned(),
        };
        serde_json::from_str(&text).ok()
    };
    let mut databases = DatabaseLabels::default();
    let states = oci_state::all(host.root());
    for _ in 0..2 {
        databases.update(&states, &ask);
        let id = |label: &str| {
            let state = labelled(&states, host.root(), label, &databases);
            state.map(|state| state.id.clone())
        };
        assert_eq!(id("app=redis").unwrap(), FIRST);
        // The sandbox has the label of its pod, and is none of the pod's own containers.
        assert_eq!(id("app=web").unwrap(), SECOND);
        assert!(matches!(id("app"), Err(NameError::Ambiguous { .. })));
    }
    assert_eq!(
        *asked.borrow(),
        [
            "podman ps --no-trunc --format json".to_owned(),
            format!("ctr --namespace k8s.io containers info {SECOND}"),
            "ctr --namespace k8s.io containers info sandbox".to_owned(),
        ]
    );
}

#[test]
fn a_pod_of_several_containers_is_refused_with_their_names() {
    let host = RuntimeHost::new();
    host.pod_container("sandbox", "sandbox", "POD");
    for name in ["redis", "proxy"] {
        host.pod_container(name, "container", name);
    }
    let states = oci_state::all(host.root());
    let several = pods::container(&states, "default/cache").unwrap_err();
    assert_eq!(
        several.to_string(),
        "container of the pod \"default/cache\" may be any of: default/cache/proxy, default/cache/redis"
    );
    assert!(several.remedy().contains("NAMESPACE/POD/CONTAINER"));
    let absent = pods::container(&states, "default/web").unwrap_err();
    assert_eq!(
        absent.to_string(),
        "there is no container of the pod \"default/web\" that runs; there is default/cache/proxy, default/cache/redis"
    );
    // As systemd's driver of cgroups names it.
    let redis = pods::container(&states, "default/cache/redis").unwrap();
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join("kubepods.slice/kubepods-pod1.slice/cri-containerd-redis.scope");
    assert_eq!(redis.own_directory(root, &group.join("tailbound")), group);
}

#[test]
fn the_annotations_of_runc_are_labels() {
    let host = RuntimeHost::new();
    let (pid, started) = this_process();
    let state = format!(
        r#"{{"init_process_pid":{pid},"init_process_start":{started},"cgroup_paths":{{}},
            "config":{{"labels":["bundle=/b","app=redis=1"]}}}}"#
    );
    host.write("run/runc/one/state.json", state);
    let states = oci_state::all(host.root());
    assert_eq!(
        labelled(
            &states,
            host.root(),
            "app=redis=1",
            &DatabaseLabels::default()
        )
        .unwrap()
        .id,
        "one"
    );
}

#[test]
fn a_container_is_shown_by_the_name_of_its_engine() {
    let host = RuntimeHost::new();
    host.podman(&[(FIRST, "redis")]);
    assert_eq!(shown_name(host.root(), FIRST), "redis");
    assert_eq!(shown_name(host.root(), SECOND), "71aad989dc88");
    assert_eq!(shown_name(host.root(), "box"), "box");
}

#[test]
fn a_name_goes_before_the_beginning_of_an_identifier() {
    let host = RuntimeHost::new();
    host.crun(FIRST, true);
    host.crun(SECOND, true);
    host.podman(&[(FIRST, "web"), (SECOND, "713f")]);
    assert_eq!(host.chosen("713f").unwrap(), SECOND);
}

#[test]
fn a_container_that_does_not_run_is_told_from_one_that_is_not_there() {
    let host = RuntimeHost::new();
    host.crun("ended", false);
    host.podman(&[(FIRST, "stopped")]);
    let refusal = |name: &str| host.chosen(name).unwrap_err();
    assert_eq!(
        refusal("ended").to_string(),
        "container \"ended\" does not run (ended (crun))"
    );
    assert_eq!(
        refusal("stopped").to_string(),
        "container \"stopped\" does not run under runc or crun (podman knows it as 713f58d9551e)"
    );
    assert!(!refusal("nobody").remedy().contains("ordinary users"));
    fs::create_dir_all(host.root().join("run/user/1000/crun")).unwrap();
    let rootless = refusal("nobody");
    assert!(rootless.remedy().contains("ordinary users"), "{rootless}");
}

#[test]
fn a_user_s_container_of_the_same_name_is_none() {
    let host = RuntimeHost::new();
    let (pid, started) = this_process();
    let status = format!(
        r#"{{"pid": {pid}, "process-start-time": {started}, "cgroup-path": "/user.slice/mine"}}"#
    );
    host.write("run/user/1000/crun/redis/status", status);
    assert!(matches!(
        host.chosen("redis"),
        Err(NameError::Absent { .. })
    ));
}

#[test]
fn the_group_of_the_runtime_is_found_above_the_process() {
    let host = RuntimeHost::new();
    host.runc("run/runc", "one");
    let states = oci_state::all(host.root());
    let own = |below: &str| {
        let root = Path::new("/sys/fs/cgroup/unified");
        states[0].own_directory(root, &root.join(below))
    };
    let group = Path::new("/sys/fs/cgroup/unified/box/one");
    assert_eq!(own("box/one"), group);
    assert_eq!(own("box/one/tailbound"), group);
    assert_eq!(own("box/one/init.scope"), group);
    // The runtime has said nothing that is true of it.
    let elsewhere = Path::new("/sys/fs/cgroup/unified/elsewhere");
    assert_eq!(own("elsewhere"), elsewhere);
}

#[test]
fn a_cgroup_is_of_the_first_unit_below_the_slices() {
    let cases = [
        ("system.slice/redis.service", Some("redis.service")),
        ("/system.slice/a.service/tailbound/b", Some("a.service")),
        (
            "user.slice/user-0.slice/session-3.scope",
            Some("session-3.scope"),
        ),
        (
            "user.slice/user-1.slice/user@1.service/app.slice/b.scope",
            Some("user@1.service"),
        ),
        ("system.slice", None),
        ("docker/1f/own.service", None),
        ("/", None),
    ];
    for (cgroup, unit) in cases {
        assert_eq!(unit_holding(Path::new(cgroup)), unit, "{cgroup}");
    }
}

#[test]
fn a_login_is_no_service() {
    let app = "user.slice/user-1.slice/user@1.service/app.slice/term.scope";
    for login in ["user.slice/user-0.slice/session-3.scope", app, "init.scope"] {
        assert!(is_of_login(Path::new(login)), "{login}");
    }
    let service = "user.slice/user-1.slice/user@1.service/app.slice/web.service";
    for other in [
        "system.slice/a.service",
        service,
        "run-1.scope",
        "docker/session-3.scope",
        "",
    ] {
        assert!(!is_of_login(Path::new(other)), "{other}");
    }
}

#[test]
fn a_unit_is_found_below_slices_alone() {
    let host = RuntimeHost::new();
    for path in [
        "system.slice/redis.service/tailbound",
        "system.slice/system-getty.slice/getty@tty1.service",
        "user.slice/user-1000.slice/user@1000.service/app.slice/web.service",
        "machine.slice/libpod-1f.scope",
        "tailbound",
    ] {
        fs::create_dir_all(host.root().join(path)).unwrap();
    }
    let unit = |name: &str| units::directory(host.root(), name);
    let redis = host.root().join("system.slice/redis.service");
    assert_eq!(unit("redis.service").unwrap(), redis);
    assert_eq!(unit("redis").unwrap(), redis);
    let slice = host.root().join("system.slice/system-getty.slice");
    assert_eq!(unit("system-getty.slice").unwrap(), slice);
    assert_eq!(
        unit("getty@tty1").unwrap(),
        slice.join("getty@tty1.service")
    );
    unit("libpod-1f.scope").unwrap();
    // Whoever logs in may start a unit of any name.
    unit("web.service").unwrap_err();
    let refusal = unit("redis-server").unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "there is no unit \"redis-server.service\" that runs; there is redis.service"
    );
}

proptest! {
    #[test]
    fn no_state_of_a_runtime_panics(status in ".{0,80}", state in "[{}\":,0-9a-z_\\[\\]]{0,80}", listed in ".{0,80}") {
        let host = RuntimeHost::new();
        host.write("run/crun/one/status", status);
        host.write("run/runc/two/state.json", state);
        host.write("var/lib/containers/storage/overlay-containers/containers.json", &listed);
        host.write("var/lib/docker/containers/three/config.v2.json", &listed);
        let _found = host.chosen("one");
    }
}
