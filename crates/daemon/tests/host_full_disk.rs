//! The real daemon with a state directory on a file system that is full.
//!
//! The file system is a small one in memory, mounted in a mount namespace of the test's own, so that
//! nothing of it is left. Needs root and what the ds-freeze back end needs; skips aloud without.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tailbound_control::{Lease, Selection};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{die_with_parent, effective_uid, send_signal};

use crate::stage::{Stage, eventually, journals_in};

const SIGKILL: i32 = 9;
/// Set in the process that has the small file system.
const MOUNTED_VARIABLE: &str = "TAILBOUND_TEST_SMALL_FILE_SYSTEM";
const TEST: &str = "host_full_disk::a_full_disk_keeps_nothing_from_being_taken_back";

/// Takes all room of the directory's file system but so many bytes.
fn fill(directory: &Path, but_bytes: u64) {
    let mut filler = File::create(directory.join("filler")).unwrap();
    let page = [1; 4096];
    while filler.write_all(&page).is_ok() {}
    let length = filler.metadata().unwrap().len() / 4096 * 4096;
    filler
        .set_len(length.checked_sub(but_bytes).unwrap())
        .unwrap();
}

fn free(directory: &Path) {
    fs::remove_file(directory.join("filler")).unwrap();
}

fn expect_running(stage: &Stage) {
    let used = cpu_time_of_process(stage.busy.id()).unwrap();
    eventually("the domain runs", || {
        cpu_time_of_process(stage.busy.id()).unwrap() > used
    });
}

#[test]
fn a_full_disk_keeps_nothing_from_being_taken_back() {
    if let Some(mount) = std::env::var_os(MOUNTED_VARIABLE) {
        return on_a_small_file_system(Path::new(&mount));
    }
    if effective_uid() != 0 {
        eprintln!("SKIP {TEST}: needs root");
        return;
    }
    // The stage is another process's.
    let _alone = crate::alone();
    let mount = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=96k tmpfs \"$1\" || exit 77; shift; exec \"$@\"";
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(mount.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env("TMPDIR", mount.path())
        .env(MOUNTED_VARIABLE, mount.path())
        .stdin(Stdio::null());
    let Ok(output) = die_with_parent(&mut command).output() else {
        eprintln!("SKIP {TEST}: needs unshare(1)");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    if output.status.code() == Some(77) {
        eprintln!("SKIP {TEST}: needs to mount a file system");
        return;
    }
    assert!(output.status.success(), "{said}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 passed"), "{stdout}");
}

fn on_a_small_file_system(mount: &Path) {
    let Some(mut stage) = Stage::set(TEST) else {
        return;
    };
    assert!(stage.path().starts_with(mount));
    let directory = stage.path().to_owned();
    let mut client = stage.client();
    let (mut refused, mut made) = (0, 0);
    for left_bytes in [0, 4096, 8192, 16_384, 40_960] {
        fill(&directory, left_bytes);
        match client.apply(&[stage.request()], Lease::Persistent) {
            Ok(_) => {
                made += 1;
                stage.assert_reserved();
                client.revert(Selection::All).unwrap();
            }
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains(directory.to_str().unwrap()), "{text}");
                assert!(text.contains("kB"), "{text}");
            }
        }
        assert_eq!(stage.now(), stage.before, "{left_bytes} bytes left");
        expect_running(&stage);
        assert_eq!(journals_in(&directory), Vec::<std::path::PathBuf>::new());
        free(&directory);
    }
    assert!(refused >= 1 && made >= 1, "{refused} refused, {made} made");

    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    fill(&directory, 0);
    stage.assert_reserved();
    client.revert(Selection::All).unwrap();
    assert_eq!(stage.now(), stage.before);
    free(&directory);

    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let watchdog = stage.watchdog(&mut client);
    fill(&directory, 0);
    send_signal(client.daemon_pid(), SIGKILL).unwrap();
    stage.expect_restored();
    stage.expect_gone(watchdog);
    // A daemon starts on a full disk, and says why it makes nothing.
    fill(&directory, 0);
    let refused = stage.client().apply(&[stage.request()], Lease::Persistent);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("has no room"), "{text}");
    assert_eq!(stage.now(), stage.before);
    free(&directory);
}
