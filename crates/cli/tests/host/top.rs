//! `tailbound top` beside a command that uses all of its budget: on a terminal, and without one.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::{Bench, signal};

/// How long a first view may take on a busy host.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn top_shows_a_reservation_that_is_used_until_q() {
    let Some(bench) = Bench::enforcing("top::live") else {
        return;
    };
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIP top::live: needs script(1) for a pseudo terminal");
        return;
    }
    let busy = "echo begun >&2; while :; do :; done";
    let mut command = bench.start(&["run", "-b", "2ms", "-p", "10ms", "--", "sh", "-c", busy]);
    bench.until_said("begun");
    let domain = format!("run-{}", command.id());
    let once = bench.run(&["top", "--once"]);
    once.expect(0, &[&domain, "ds-freeze", "noise: managers up to"]);
    let json = bench
        .run(&["top", "--once", "--format", "json"])
        .expect(0, &[]);
    let view: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(view["reservations"][0]["domain"], domain.as_str());
    assert_eq!(view["reservations"][0]["budget_ns"], 2_000_000);
    live(&bench, &domain);
    signal(&command, "TERM");
    command.wait().unwrap();
    bench.assert_clean("none");
}

/// Looks at the view on a pseudo terminal, and ends it as a user does.
fn live(bench: &Bench, domain: &str) {
    let seen = bench.path().join("seen");
    let top = bench.tailbound(&["top"]);
    // A terminal of script(1) has the size of its own, which is none here.
    let line = format!(
        "stty rows 24 cols 120; exec {} top",
        env!("CARGO_BIN_EXE_tailbound")
    );
    let mut terminal = Command::new("script");
    terminal
        .args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &line,
            "/dev/null",
        ])
        .current_dir(bench.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(File::create(&seen).unwrap())
        .stderr(Stdio::null());
    for (name, value) in top.get_envs() {
        terminal.env(name, value.unwrap());
    }
    let mut terminal = terminal.spawn().unwrap();
    let deadline = Instant::now() + SHOWN_WITHIN;
    let shown = || String::from_utf8_lossy(&fs::read(&seen).unwrap()).into_owned();
    while !shown().contains(domain) {
        let over = terminal.try_wait().unwrap();
        assert!(over.is_none() && Instant::now() < deadline, "{}", shown());
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    assert!(terminal.wait().unwrap().success(), "{}", shown());
    // The screen of before is back.
    assert!(shown().contains("\x1b[?1049l"), "{:?}", shown());
}
