//! Units of a real systemd, the first process of a system of its own, with cgroup v2 alone: what their manager does to
//! them works as without reservations, and nothing is taken from others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tailbound_linux::cgroup;
use tailbound_linux::process::die_with_parent;

use crate::bench::{Bench, daemon};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/systemd");
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");

/// The groups of a test that are left in the hierarchies of cgroups.
fn groups_left() -> Vec<PathBuf> {
    let hierarchies = cgroup::hierarchies().unwrap().into_iter();
    let below = hierarchies.flat_map(|one| cgroup::cgroups_below(&one.root).unwrap_or_default());
    let is_of_test = |group: &PathBuf| {
        let name = group.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("tailbound-test-systemd-"))
    };
    below.filter(is_of_test).collect()
}

/// The findings of the script, by name.
fn findings(out: &Path) -> BTreeMap<String, Vec<String>> {
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(out.join("found"))
        .unwrap_or_default()
        .lines()
    {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        findings.entry(name.into()).or_default().push(value.into());
    }
    findings
}

#[test]
fn units_of_systemd_live_with_their_manager() {
    let test = "units_of_systemd_live_with_their_manager";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let version = Command::new("systemd-nspawn").arg("--version").output();
    if version.is_err() || !Path::new("/lib/systemd/systemd").exists() {
        eprintln!("SKIP {test}: needs systemd and systemd-nspawn (systemd-container)");
        return;
    }
    let out = bench.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut command = Command::new("sh");
    command.arg(format!("{FOLDER}/boot.sh")).arg(&out).arg("/");
    command.arg(format!("{FOLDER}/units.sh"));
    let programs = daemon().parent().unwrap().to_owned();
    command.arg(format!("--bind-ro={}:/programs", programs.display()));
    command.arg(format!("--bind-ro={UNITS}:/units"));
    command.arg("--private-network");
    let log = fs::File::create(out.join("log")).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let status = die_with_parent(&mut command).status().unwrap();
    let log = fs::read_to_string(out.join("log")).unwrap();
    assert!(status.success(), "{status}: {log}");
    assert_eq!(groups_left(), [""; 0].map(PathBuf::from));
    let findings = findings(&out);
    as_without_reservations(&findings, &log);
    as_a_unit(&findings, &log);
}

/// Makes sure that what was done to the units had the effect that it has without reservations.
fn as_without_reservations(findings: &BTreeMap<String, Vec<String>>, log: &str) {
    let values = |name: &str| findings.get(name).cloned().unwrap_or_default();
    assert_eq!(
        values("daemon"),
        ["/", "/"],
        "daemon and watchdog are of no unit: {log}"
    );
    assert_eq!(values("first-left"), ["0"]);
    let second = &values("second");
    assert!(
        second[0].starts_with("/system.slice/second.service/tailbound/run-"),
        "{second:?}"
    );
    assert_eq!(second[1..], ["reserved", "runs", "runs again"]);
    assert_eq!(values("second-frozen"), ["0"]);
    assert_eq!(values("second-left"), ["0"]);
    assert_eq!(
        values("third"),
        ["reserved", "/system.slice/third.service/tailbound/unit"]
    );
    assert_eq!(values("third-left"), ["0"]);
    for backend in ["cfs-quota", "weight"] {
        let unit = format!("/system.slice/{backend}.service");
        assert_eq!(values(backend), [unit], "{log}");
        assert_eq!(values(&format!("{backend}-left")), ["0"]);
    }
    let wanted = [
        "/tailbound.slice/tailbound-run-N.scope/tailbound/run-N",
        "active",
        "yes",
        "marked 1",
        "status 143",
        "left 0 and 0",
        "no unit is left",
    ];
    assert_eq!(values("login"), wanted, "{log}");
    let mut fourth = vec!["reserved"];
    fourth.extend(["reserved again"; 5]);
    fourth.extend(["reserved after SIGKILL", "reserved after a reload"]);
    fourth.push("reserved still");
    fourth.extend(["ordinary after SIGKILL of the daemon", "runs on"]);
    assert_eq!(values("fourth"), fourth);
    assert_eq!(values("fourth-frozen"), ["0"]);
    assert_eq!(
        values("fifth"),
        [
            "reserved",
            "/system.slice/fifth.service/tailbound",
            "reserved again",
            "shown",
            "ordinary",
            "/system.slice/fifth.service"
        ]
    );
    assert_eq!(values("left")[..1], ["nothing"]);
}

/// Makes sure that the daemon and a description live as units.
fn as_a_unit(findings: &BTreeMap<String, Vec<String>>, log: &str) {
    let values = |name: &str| findings.get(name).cloned().unwrap_or_default();
    assert_eq!(values("verify"), [""; 0], "{log}");
    let wanted = [
        "reserved by the unit",
        "the unit stays",
        "enabled",
        "reserved by a service",
        "reserved after its restart",
        "reserved after SIGKILL of the daemon",
        "reserved after SIGKILL of the holder",
        "ordinary",
        "reserved once more",
        "ordinary without the daemon",
        "stopped with the daemon",
    ];
    assert_eq!(values("sixth"), wanted, "{findings:?} {log}");
    assert_eq!(
        values("daemon-unit"),
        ["/", "/"],
        "daemon and watchdog are of no group"
    );
    let wanted = [
        "\"PRIORITY\":\"6\"",
        "\"TAILBOUND_BACK_END\":\"ds-freeze\"",
        "\"TAILBOUND_UNIT\":\"sixth\"",
        "of the unit",
    ];
    assert_eq!(values("journal"), wanted, "{log}");
    assert_eq!(
        values("metrics"),
        ["served", "CapPrm:0000000000000000CapEff:0000000000000000"],
        "{log}"
    );
    let wanted = [
        "reserved at its start",
        "reserved after a crash",
        "reserved after SIGKILL of the daemon",
        "free with its end",
    ];
    assert_eq!(values("seventh"), wanted, "{findings:?} {log}");
    let wanted = [
        "no daemon at first",
        "a call starts it",
        "the daemon is the peer",
        "answers after SIGKILL",
        "by another",
        "systemd listens on",
        "a call starts it again",
        "gone",
    ];
    assert_eq!(values("socket"), wanted, "{findings:?} {log}");
    assert_eq!(values("daemons"), ["0"]);
    assert_eq!(values("other-daemon"), ["refused: 0 restarts"]);
    assert_ne!(values("urgent"), ["0"]);
    assert_ne!(values("calm"), ["0"]);
    assert_eq!(values("left"), ["nothing", "nothing in the end"]);
}
