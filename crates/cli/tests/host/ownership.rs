//! Whose reservations are taken back, and who hears of it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::bench::{Bench, Ended, daemon};

/// The user and the group `nobody`, who owns nothing.
const NOBODY: u32 = 65_534;

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
    assert_eq!(child.wait().unwrap().code(), Some(125), "{}", bench.said());
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
    // Each of them waits for the daemon before it gives up, so both do at the same time.
    let [status, revert] = [&["status"][..], &["revert", "one"]].map(|words| {
        let mut command = bench.tailbound(words);
        command.spawn().unwrap()
    });
    let ended = |child: Child| Ended::from(child.wait_with_output().unwrap());
    ended(status).expect(1, &["is stopped", "revert"]);
    ended(revert).expect(1, &["single reservations cannot be taken back"]);
    bench
        .run(&["revert", "--all"])
        .expect(0, &["the stopped daemon was ended", "taken back: one"]);
    bench.assert_clean("one");
}

/// `tailbound revert` at a terminal of its own, to which `answer` is typed.
fn revert_at_a_terminal(bench: &Bench, answer: &str) -> Ended {
    let plain = bench.tailbound(&[]);
    let mut command = Command::new("script");
    let revert = format!("{} revert", plain.get_program().to_str().unwrap());
    command.args(["--quiet", "--return", "--command", &revert, "/dev/null"]);
    let settings = plain.get_envs();
    command.envs(settings.filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(bench.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(answer.as_bytes()).unwrap();
    // The end of the input would be typed, too: it comes only when the command has ended.
    let ended = child.wait_with_output().unwrap().into();
    drop(typed);
    ended
}

#[test]
fn at_a_terminal_revert_asks_before_it_takes_back_what_others_asked_for() {
    let test = "ownership::prompt";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIP {test}: needs script (util-linux)");
        return;
    }
    let (one, two) = (Reserved::new(&bench, "one"), Reserved::new(&bench, "two"));
    bench.run(&["apply", &one.file]).expect(0, &[]);
    bench.run(&["apply", &two.file]).expect(0, &[]);
    for no in ["n\n", "\n", "perhaps\n"] {
        revert_at_a_terminal(&bench, no)
            .expect(0, &["Take all of this back?", "nothing is taken back"]);
        bench.run(&["status"]).expect(0, &["one", "two"]);
    }
    revert_at_a_terminal(&bench, "y\n").expect(0, &["taken back: "]);
    bench.assert_clean("one");
    bench.assert_clean("two");
}

#[test]
fn only_root_reserves_and_others_hear_it_at_once() {
    let bench = Bench::new();
    let one = Reserved::new(&bench, "one");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.path(), open).unwrap();
    // The programs may lie where only root comes to.
    let copy = |program: &Path| {
        let copy = bench.path().join(program.file_name().unwrap());
        fs::copy(program, &copy).unwrap();
        copy
    };
    let plain = bench.tailbound(&["apply", &one.file]);
    let (tailbound, tailboundd) = (copy(Path::new(plain.get_program())), copy(daemon()));
    let state = bench.path().join("of-nobody");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(tailbound);
    command.args(["apply", &one.file]).current_dir(bench.path());
    command.env("TAILBOUND_STATE_DIR", &state);
    command.env("TAILBOUND_TAILBOUNDD", tailboundd);
    command.uid(NOBODY).gid(NOBODY);
    Ended::from(command.output().unwrap()).expect(1, &["root"]);
    assert!(bench.client().is_none());
    bench.assert_clean("one");
}
