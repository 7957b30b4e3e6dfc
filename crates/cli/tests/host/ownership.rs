//! Whose reservations are taken back, and who hears of it.

use std::process::{Child, Command};

use crate::bench::Bench;

/// A process of ours with a description that reserves for it.
struct Reserved {
    process: Child,
    file: String,
}

impl Reserved {
    fn new(bench: &Bench, name: &str) -> Self {
        let mut command = Command::new("sleep");
        let command = tailbound_linux::process::die_with_parent(command.arg("600"));
        let process = command.spawn().unwrap();
        let file = format!("{name}.toml");
        let text = format!(
            "schema_version = 1\nname = \"{name}\"\n[hosts.here]\ncpus = [0, 1]\n[domains.{name}]\n\
             kind = \"process\"\npids = [{}]\n\
             reservation = {{ budget = \"1ms\", period = \"10ms\", cpus = [0] }}\n",
            process.id()
        );
        bench.write(&file, &text);
        Self { process, file }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_others_asked_for_is_taken_back_only_when_that_is_said() {
    let Some(bench) = Bench::enforcing("ownership::revert") else {
        return;
    };
    let (one, two) = (Reserved::new(&bench, "one"), Reserved::new(&bench, "two"));
    bench.run(&["apply", &one.file]).expect(0, &[]);
    // All of one apply goes as ever.
    bench.run(&["revert"]).expect(0, &["taken back: one"]);
    bench.run(&["apply", &one.file]).expect(0, &[]);
    bench.run(&["apply", &two.file]).expect(0, &[]);
    bench.run(&["revert"]).expect(
        1,
        &[
            "one: from `tailbound apply one.toml`",
            "two: from `tailbound apply two.toml`",
            "--all",
        ],
    );
    let in_force = ["one", "two", "in force"];
    bench.run(&["status"]).expect(0, &in_force);
    bench
        .run(&["revert", "one"])
        .expect(0, &["taken back: one"]);
    bench.run(&["revert"]).expect(0, &["taken back: two"]);
    bench.run(&["apply", &one.file]).expect(0, &[]);
    bench.run(&["apply", &two.file]).expect(0, &[]);
    bench.run(&["revert", "--all"]).expect(0, &["one", "two"]);
    bench.assert_clean("one");
}

#[test]
fn a_command_whose_reservation_is_taken_back_says_so() {
    let Some(bench) = Bench::enforcing("ownership::loss") else {
        return;
    };
    let reserved = ["run", "-b", "2ms", "-p", "10ms"];
    let script = "echo up >&2; while [ ! -e done ]; do sleep 0.1; done";
    let command = ["--", "sh", "-c", script];
    let continues: Vec<&str> = reserved.iter().chain(&command).copied().collect();
    let mut child = bench.start(&continues);
    bench.until_said("up");
    bench
        .run(&["revert"])
        .expect(1, &["for as long as that runs"]);
    bench
        .run(&["revert", "--all"])
        .expect(0, &["taken back: run-"]);
    bench.until_said("goes on unprotected");
    let said = bench.said();
    assert!(
        said.contains("taken back by `tailbound revert --all`"),
        "{said}"
    );
    bench.write("done", "");
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", bench.said());
    std::fs::remove_file(bench.path().join("done")).unwrap();

    let stops: Vec<&str> = reserved
        .iter()
        .chain(&["--on-loss", "stop"])
        .chain(&command)
        .copied()
        .collect();
    let mut child = bench.start(&stops);
    bench.until_said("up");
    bench.run(&["revert", "--all"]).expect(0, &[]);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", bench.said());
    assert!(bench.said().contains("the command was ended"));
    bench.assert_clean("none");
}

#[test]
fn commands_say_that_daemon_and_watchdog_are_stopped_and_revert_ends_both() {
    let Some(bench) = Bench::enforcing("ownership::stopped") else {
        return;
    };
    let one = Reserved::new(&bench, "one");
    bench.run(&["apply", &one.file]).expect(0, &[]);
    let mut client = bench.client().unwrap();
    let watchdog = client.status().unwrap().watchdog.pid.unwrap();
    for process in [client.daemon_pid(), watchdog] {
        tailbound_linux::process::send_signal(process, 19).unwrap();
    }
    bench.run(&["status"]).expect(1, &["is stopped", "revert"]);
    bench
        .run(&["revert", "one"])
        .expect(1, &["single reservations cannot be taken back"]);
    bench
        .run(&["revert", "--all"])
        .expect(0, &["the stopped daemon was ended", "taken back: one"]);
    bench.assert_clean("one");
}
