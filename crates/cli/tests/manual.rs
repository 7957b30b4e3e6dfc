//! The manual pages and completions of an installation, as those who read and load them see them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A `share` folder with what `tailbound internal manual` writes.
fn share() -> TempDir {
    let share = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    command.args(["internal", "manual", "--date", "2026-11-26"]);
    let output = command.arg(share.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    share
}

/// The output of a program for a file; `None` where the program is not installed.
fn judgement(program: &str, arguments: &[&str], file: &Path) -> Option<Output> {
    match Command::new(program).args(arguments).arg(file).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIP {program} of {}: {error}", file.display());
            None
        }
    }
}

fn files(folder: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn pages_are_shown_without_a_warning() {
    let share = share();
    for section in ["man/man1", "man/man8"] {
        for page in files(share.path().join(section)) {
            let mandoc = judgement("mandoc", &["-T", "lint", "-W", "warning"], &page);
            let groff = judgement("groff", &["-man", "-Tutf8", "-ww", "-z"], &page);
            for output in [mandoc, groff].into_iter().flatten() {
                let said = [output.stdout, output.stderr].concat();
                assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
            }
        }
    }
}

#[test]
fn shells_read_their_completions() {
    let share = share();
    for (shell, option, folder) in [
        ("bash", "-n", "bash-completion/completions"),
        ("zsh", "-n", "zsh/site-functions"),
        ("fish", "--no-execute", "fish/vendor_completions.d"),
    ] {
        for file in files(share.path().join(folder)) {
            let Some(output) = judgement(shell, &[option], &file) else {
                continue;
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
    }
}

#[test]
fn bash_completes_a_verb_and_a_verb_of_a_verb() {
    let share = share();
    let completed = |words: &str, index: usize| {
        let script = format!(
            "source bash-completion/completions/tailbound\n\
             COMP_WORDS=({words}) COMP_CWORD={index}\n\
             _tailbound tailbound \"${{COMP_WORDS[{index}]}}\" \"${{COMP_WORDS[{index}-1]}}\"\n\
             echo \"${{COMPREPLY[*]}}\""
        );
        let mut bash = Command::new("bash");
        let output = bash
            .args(["-c", &script])
            .current_dir(share.path())
            .output();
        let output = output.unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed("tailbound doc", 1), "doctor");
    assert_eq!(completed("tailbound predict rec", 2), "recovery");
    assert_eq!(
        completed("tailbound inter", 1),
        "interface",
        "a hidden verb is not offered"
    );
}
