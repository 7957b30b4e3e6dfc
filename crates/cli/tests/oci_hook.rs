//! `tailbound oci-hook` with states on standard input, as OCI runtimes give them, where nothing is reserved.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const BUDGET: &str = r#"{"tailbound.budget": "2ms", "tailbound.period": "10ms"}"#;

/// A state of a container whose first process has ended.
fn state(status: &str, annotations: &str) -> String {
    format!(
        r#"{{"ociVersion": "1.0.2", "id": "box", "status": "{status}", "pid": 0, "bundle": "/b", "annotations": {annotations}}}"#
    )
}

/// Runs a command whose last words are those of the hook, with a state on its standard input.
fn hook(mut command: Command, state: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    command.env("TAILBOUND_STATE_DIR", &directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(state.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let socket = directory.join("control.sock");
    assert!(!socket.exists(), "no daemon is started");
    output
}

fn plain(state: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    command.arg("oci-hook");
    hook(command, state)
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word} in {said}");
    }
}

#[test]
fn a_container_that_asks_for_nothing_is_left_alone() {
    for annotations in ["{}", r#"{"io.container.manager": "libpod"}"#] {
        for status in ["created", "running", "stopped"] {
            let output = plain(&state(status, annotations));
            assert!(output.status.success());
            assert!(output.stdout.is_empty() && output.stderr.is_empty());
        }
    }
    // One whose reservation was refused, or whose daemon has ended.
    for annotations in [BUDGET, r#"{"tailbound.budgets": "2ms"}"#] {
        assert!(plain(&state("stopped", annotations)).status.success());
    }
    // One that has ended before it could be reserved for.
    assert!(plain(&state("running", BUDGET)).status.success());
}

#[test]
fn an_error_says_what_is_wrong_with_the_container() {
    let budget = state("running", r#"{"tailbound.budget": "2ms"}"#);
    refused(
        &plain(&budget),
        &[
            "container box: a reservation of ds-freeze needs",
            "tailbound.budget=2ms tailbound.period=10ms",
        ],
    );
    let unknown = state("running", r#"{"tailbound.cpu": "1"}"#);
    let words = ["no annotation tailbound.cpu", "there is tailbound.budget, "];
    refused(&plain(&unknown), &words);
    refused(&plain(""), &["no state of a container", "--help"]);
    let optional = state(
        "running",
        r#"{"tailbound.cpu": "1", "tailbound.required": "false"}"#,
    );
    let output = plain(&optional);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no annotation tailbound.cpu"), "{said}");
    assert!(said.contains("runs without a reservation"), "{said}");
}

#[test]
fn the_root_of_a_user_namespace_is_told_that_it_is_none_of_the_host() {
    let mut there = Command::new("unshare");
    there.args(["--user", "--map-root-user", "true"]);
    if !there.output().is_ok_and(|output| output.status.success()) {
        eprintln!(
            "SKIP the_root_of_a_user_namespace_is_told_that_it_is_none_of_the_host: needs user namespaces"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let description = folder.path().join("own.toml");
    let text = format!(
        "schema_version = 1\nname = \"own\"\nhosts.here.cpus = [0, 1]\n[domains.own]\nkind = \"process\"\n\
         pids = [{}]\nreservation = {{ budget = \"1ms\", period = \"10ms\", cpus = [0] }}\n",
        std::process::id()
    );
    std::fs::write(&description, text).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]);
    command
        .args([env!("CARGO_BIN_EXE_tailbound"), "apply"])
        .arg(&description);
    command.env("TAILBOUND_STATE_DIR", folder.path().join("state"));
    refused(&command.output().unwrap(), &["user namespace", "rootless"]);
}

#[test]
fn a_plugin_is_told_what_is_no_connection_to_a_runtime() {
    for (number, why) in [
        ("0", "non-socket"),
        ("999", "Bad file"),
        ("x", "invalid digit"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
        command.arg("nri-plugin").env("NRI_PLUGIN_SOCKET", number);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let name = format!("NRI_PLUGIN_SOCKET={number} is no connection");
        let refused = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert_eq!(output.status.code(), Some(1));
        assert!(refused.contains(&name.to_lowercase()), "{refused}");
        assert!(refused.contains(&why.to_lowercase()), "{refused}");
    }
}

#[test]
fn a_rootless_container_is_refused() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]);
        command
    };
    let there = unshare().arg("true").output();
    if !there.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIP a_rootless_container_is_refused: needs user namespaces");
        return;
    }
    let mut command = unshare();
    command.args([env!("CARGO_BIN_EXE_tailbound"), "oci-hook"]);
    let output = hook(command, &state("running", BUDGET));
    refused(
        &output,
        &["container box: it is rootless", "run the container as root"],
    );
}
