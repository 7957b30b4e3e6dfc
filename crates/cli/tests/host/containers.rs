//! `tailbound apply --container NAME` and `--container-label LABEL`, on containers of runc and crun.

use std::fs;
use std::time::{Duration, Instant};

use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::{Bench, Ended};
use crate::container::Container;
use crate::podman::Podman;

#[test]
fn a_container_is_reserved_by_its_name_alone() {
    let test = "a_container_is_reserved_by_its_name_alone";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(mut container) = Container::findable("runc", test) else {
        return;
    };
    let name = container.name.clone();
    let name = name.as_str();
    let apply = ["apply", "--container", name, "-b", "3ms", "-p", "10ms"];
    let on_its_cpu = ["--cpus", "1", "--priority", "50"];
    let apply: Vec<&str> = apply.into_iter().chain(on_its_cpu).collect();
    let absent = format!("there is no container \"{name}\" that runs");
    bench.run(&apply).expect(1, &[&absent, "podman ps"]);

    container.start();
    let dry: Vec<&str> = apply.iter().copied().chain(["--dry-run"]).collect();
    bench.run(&dry).expect(0, &["SCHED_FIFO", name]);
    assert!(
        container.processes(true).is_empty(),
        "a dry run changes nothing"
    );
    let in_force = format!("in force until `tailbound revert`: {name}");
    bench.run(&apply).expect(0, &[&in_force]);
    let is_reserved = |container: &Container| {
        let members = container.processes(true);
        let fifo = |&pid: &u32| matches!(scheduling_of(pid), Ok(SchedulingSetting::Fifo { .. }));
        members.len() == 1 && members.iter().all(fifo)
    };
    assert!(is_reserved(&container));
    let used = container.used();
    until("it runs under the reservation", || container.used() > used);
    bench.run(&["status"]).expect(0, &[name, "3ms", "in force"]);
    container.delete();
    container.leave_group();
    container.start();
    until("the reservation follows it", || is_reserved(&container));

    let taken_back = format!("taken back: {name}");
    bench.run(&["revert", name]).expect(0, &[&taken_back]);
    assert!(container.processes(true).is_empty());
    let ordinary = scheduling_of(container.processes(false)[0]).unwrap();
    assert!(matches!(ordinary, SchedulingSetting::Other { .. }));
    container.delete();
    bench.assert_clean(name);
}

fn is_reserved_by_its_label(engine: &'static str, test: &str) {
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(container) = Container::findable(engine, test) else {
        return;
    };
    let path = container.bundle.join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut configuration: serde_json::Value = serde_json::from_str(&text).unwrap();
    configuration["annotations"] = serde_json::json!({ "app": container.name });
    fs::write(path, configuration.to_string()).unwrap();
    let label = format!("app={}", container.name);
    let apply = [
        "apply",
        "--container-label",
        &label,
        "-b",
        "3ms",
        "-p",
        "10ms",
        "-c",
        "1",
    ];
    let dry: Vec<&str> = apply.into_iter().chain(["--dry-run"]).collect();
    let absent = format!("there is no container with the label \"{label}\" that runs");
    bench.run(&dry).expect(1, &[&absent]);
    container.start();
    bench.run(&dry).expect(0, &["SCHED_FIFO", &container.name]);
    container.delete();
    bench.assert_clean(&container.name);
}

#[test]
fn a_container_of_runc_is_reserved_by_its_label() {
    is_reserved_by_its_label("runc", "a_container_of_runc_is_reserved_by_its_label");
}

#[test]
fn a_container_of_crun_is_reserved_by_its_label() {
    is_reserved_by_its_label("crun", "a_container_of_crun_is_reserved_by_its_label");
}

#[test]
fn a_container_of_podman_is_reserved_by_its_label() {
    let test = "a_container_of_podman_is_reserved_by_its_label";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(container) = Container::of("runc", test) else {
        return;
    };
    let Some(podman) = Podman::of_host(&bench, &container, test) else {
        return;
    };
    let (runs, said) = podman.run(&["run", "--detach", "--label=app=redis"], &[], "sleep 600");
    assert!(runs, "{said}");
    let dry_run = |label: &str| {
        let words = [
            "apply",
            "--container-label",
            label,
            "-b",
            "3ms",
            "-p",
            "10ms",
            "-c",
            "1",
            "--dry-run",
        ];
        // The program that is asked has the settings of the test, too.
        let settings = bench.path().join("containers.conf");
        let mut command = bench.tailbound(&words);
        Ended::from(command.env("CONTAINERS_CONF", settings).output().unwrap())
    };
    dry_run("app=redis").expect(0, &["SCHED_FIFO", "app-redis"]);
    dry_run("app=web").expect(
        1,
        &["there is no container with the label \"app=web\" that runs"],
    );
    drop(podman);
    bench.assert_clean("box");
}

/// Waits until something has become true.
#[track_caller]
pub fn until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
