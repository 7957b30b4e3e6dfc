//! A sweep that is killed goes on where it was, and ends with the bytes of one that was not.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How often a sweep is started anew to be killed in its middle.
const ATTEMPTS: u32 = 20;

fn sweep(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/sweep.in/two-tasks.toml");
    command
        .arg("sweep")
        .arg(file)
        .args([
            "--vary",
            "domains.service.reservation.budget=3ms..9ms/100us",
        ])
        .args([
            "--vary",
            "services.synthetic.scheduling=fifo,rate-monotonic",
        ])
        .args(["--seeds", "3", "--duration", "20s", "--quiet", "--out"])
        .arg(out)
        .stdin(Stdio::null());
    command
}

/// Waits until the journal has a few units or the sweep is over; `true` if it still ran.
fn in_its_middle(child: &mut Child, journal: &Path) -> bool {
    loop {
        let units = std::fs::read_to_string(journal).map_or(0, |text| text.lines().count());
        match child.try_wait().unwrap() {
            Some(_) => return false,
            None if units > 4 => return true,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_killed_sweep_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (
        folder.path().join("whole.csv"),
        folder.path().join("killed.csv"),
    );
    let journal = folder.path().join("killed.csv.journal");
    assert!(sweep(&whole).status().unwrap().success());
    let mut cut_off = false;
    for _ in 0..ATTEMPTS {
        let mut child = sweep(&killed).spawn().unwrap();
        let running = in_its_middle(&mut child, &journal);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        // It may have ended between the look and the kill.
        cut_off = running && journal.exists();
        if cut_off {
            assert!(!killed.exists());
            break;
        }
        std::fs::remove_file(&killed).unwrap();
    }
    assert!(cut_off, "every sweep ended before it could be killed");
    let held = std::fs::read_to_string(&journal).unwrap().lines().count();
    assert!(held > 4);
    assert!(sweep(&killed).status().unwrap().success());
    assert_eq!(
        std::fs::read(&killed).unwrap(),
        std::fs::read(&whole).unwrap()
    );
    assert!(!journal.exists());
}
