//! `tailbound run -b BUDGET -p PERIOD -- COMMAND`.

use std::time::{Duration, Instant};

use crate::bench::{Bench, signal};

const RESERVED: [&str; 6] = ["run", "-b", "2ms", "-p", "10ms", "--"];

fn words<'a>(command: &[&'a str]) -> Vec<&'a str> {
    RESERVED.iter().chain(command).copied().collect()
}

#[test]
fn a_command_that_ends_at_once_was_under_its_reservation() {
    let Some(bench) = Bench::enforcing("commands::at_once") else {
        return;
    };
    for _ in 0..5 {
        bench.run(&words(&["true"])).expect(0, &[]);
    }
    bench.assert_clean("none");
}

#[test]
fn a_command_s_own_exit_status_is_passed_on() {
    let Some(bench) = Bench::enforcing("commands::status") else {
        return;
    };
    for (script, status) in [("exit 3", 3), ("exit 125", 125), ("kill -KILL $$", 137)] {
        let ended = bench.run(&words(&["sh", "-c", script]));
        let ended = ended.expect(status, &[]);
        assert!(!ended.err.contains("error"), "{}", ended.err);
    }
    bench.assert_clean("none");
}

#[test]
fn what_a_command_forks_first_is_under_the_reservation_too() {
    let Some(bench) = Bench::enforcing("commands::forks") else {
        return;
    };
    // A child is an ordinary thread until it is adopted. The scheduling policy of proc_pid_stat(5) is its
    // 41st word, 1 is SCHED_FIFO; the name, in parentheses, has no space.
    let until_adopted =
        "until [ \"${41}\" = 1 ]; do read -r line < /proc/$$/stat; set -- $line; done";
    let ended = bench.run(&words(&["timeout", "30", "sh", "-c", until_adopted]));
    ended.expect(0, &[]);
    let ended = bench.run(&words(&["timeout", "5", "cat", "/proc/self/cgroup"]));
    let ended = ended.expect(0, &[]);
    assert!(ended.out.contains("/tailbound/run-"), "{}", ended.out);
    bench.assert_clean("none");
}

#[test]
fn a_refused_command_never_runs() {
    let Some(bench) = Bench::enforcing("commands::refused") else {
        return;
    };
    let mark = bench.path().join("mark");
    let touch = ["touch", mark.to_str().unwrap()];
    let refused = ["run", "-b", "9.99ms", "-p", "10ms", "--"];
    let refused: Vec<&str> = refused.iter().chain(&touch).copied().collect();
    bench.run(&refused).expect(125, &["asks for", "would fit"]);
    assert!(!mark.exists());
    bench.run(&words(&touch)).expect(0, &[]);
    assert!(mark.exists());
    bench.assert_clean("none");
}

#[test]
fn a_dry_run_plans_for_a_command_that_never_runs() {
    let Some(bench) = Bench::enforcing("commands::dry_run") else {
        return;
    };
    let mark = bench.path().join("mark");
    let dry = ["run", "-b", "2ms", "-p", "10ms", "--dry-run", "--", "touch"];
    let dry: Vec<&str> = dry.iter().copied().chain(mark.to_str()).collect();
    let words = ["SCHED_FIFO", "cgroup.freeze", "does not run"];
    bench.run(&dry).expect(0, &words);
    assert!(!mark.exists());
    bench.assert_clean("none");
}

#[test]
fn a_dry_run_judges_as_check_and_analyze_do() {
    let Some(bench) = Bench::enforcing("commands::dry_judged") else {
        return;
    };
    // What `check` and `analyze` say of them stands in `cases/run.trycmd`.
    bench.write("grid.toml", include_str!("../cases/run.in/grid.toml"));
    bench.write("starved.toml", include_str!("../cases/run.in/starved.toml"));
    bench
        .run(&["run", "--dry-run", "grid.toml"])
        .expect(0, &["SCHED_FIFO 60", "SCHED_FIFO 50"]);
    bench.run(&["run", "--dry-run", "starved.toml"]).expect(
        1,
        &["beneath seldom, domain \"often\" may get its 4ms only after 12ms"],
    );
    bench.assert_clean("none");
}

#[test]
fn a_file_that_the_kernel_does_not_run_is_named() {
    let Some(bench) = Bench::enforcing("commands::exec") else {
        return;
    };
    bench.write("script", "#!/no/such/interpreter\n");
    let script = bench.path().join("script");
    let mut mode = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    bench
        .run(&words(&["./script"]))
        .expect(125, &["cannot run ./script", "#!"]);
    bench.assert_clean("none");
}

#[test]
fn the_first_interrupt_ends_and_the_second_aborts() {
    let Some(bench) = Bench::enforcing("commands::interrupts") else {
        return;
    };
    let started = Instant::now();
    let mut child = bench.start(&words(&["sh", "-c", "echo up >&2; sleep 30 & sleep 30"]));
    bench.until_said("up");
    signal(&child, "INT");
    // SIGTERM has the number 15.
    assert_eq!(child.wait().unwrap().code(), Some(143), "{}", bench.said());

    let stubborn = "trap '' TERM INT; echo up >&2; while :; do sleep 1; done";
    let mut child = bench.start(&words(&["sh", "-c", stubborn]));
    bench.until_said("up");
    signal(&child, "INT");
    bench.until_said("once more to abort");
    // Those that follow at once are one wish with the first.
    let ended = loop {
        std::thread::sleep(Duration::from_millis(300));
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => signal(&child, "INT"),
        }
    };
    assert_eq!(ended.code(), Some(130));
    assert!(
        started.elapsed() < Duration::from_secs(25),
        "it was slept out"
    );
    bench.assert_clean("none");
}
