//! The manual pages and the completions of all programs, from the definitions by which they read their arguments.
//!
//! The texts of a definition are the only source: a page has nothing that `--help` has not.

mod agent_options;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use tailbound_control::daemon_arguments::DaemonArguments;

use crate::arguments::Arguments;
use crate::subsystems;

/// Where completions lie below a `share` folder, for each shell.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// What `clap_mangen` writes for an empty line before possible values; mandoc warns of each.
const EMPTY_LINE: &str = "\n.br\n\n.br\n";

/// A file or a folder that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; name a folder that you may write to", .path.display())]
pub struct ManualError {
    path: PathBuf,
    source: io::Error,
}

/// `InstalledProgram` is a program with the section of the manual that its page belongs to.
struct InstalledProgram {
    name: &'static str,
    command: Command,
    section: &'static str,
}

/// The programs that are installed.
fn programs() -> [InstalledProgram; 3] {
    [
        InstalledProgram {
            name: "tailbound",
            command: subsystems::with_verbs(Arguments::command()),
            section: "1",
        },
        InstalledProgram {
            name: "tailboundd",
            command: DaemonArguments::command(),
            section: "8",
        },
        InstalledProgram {
            name: "tailbound-agent",
            command: agent_options::command(),
            section: "8",
        },
    ]
}

/// Writes pages and completions below a `share` folder.
pub fn write(share: &Path, date: &str) -> Result<(), ManualError> {
    for program in programs() {
        let folder = share.join(format!("man/man{}", program.section));
        create(&folder)?;
        let mut command = program.command.clone().disable_help_subcommand(true);
        command.build();
        write_pages(&command, program.section, date, &folder)?;
        write_completions(&program, share)?;
    }
    Ok(())
}

/// Writes the page of a command, and those of its verbs.
fn write_pages(
    command: &Command,
    section: &str,
    date: &str,
    folder: &Path,
) -> Result<(), ManualError> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, section, date, folder)?;
    }
    let page = Man::new(command.clone())
        .section(section)
        .date(date)
        .source(concat!("tailbound ", env!("CARGO_PKG_VERSION")))
        .manual("Tailbound");
    let path = folder.join(page.get_filename());
    let failed = |source| ManualError {
        path: path.clone(),
        source,
    };
    let mut text = Vec::new();
    page.render(&mut text).map_err(failed)?;
    let text = String::from_utf8_lossy(&text).replace(EMPTY_LINE, "\n.sp\n");
    fs::write(&path, text).map_err(failed)
}

/// Writes the completions of a program for every shell.
fn write_completions(program: &InstalledProgram, share: &Path) -> Result<(), ManualError> {
    let name = program.name;
    let mut command = visible_part(program);
    for (shell, folder) in COMPLETIONS {
        let folder = share.join(folder);
        create(&folder)?;
        let written = clap_complete::generate_to(shell, &mut command, name, &folder);
        let path = written.map_err(|source| ManualError {
            path: folder.clone(),
            source,
        })?;
        // The loader of bash-completion looks for a file that has the name of the program.
        if shell == Shell::Bash {
            let renamed = fs::rename(&path, folder.join(name));
            renamed.map_err(|source| ManualError { path, source })?;
        }
    }
    Ok(())
}

/// A program without its hidden verbs, which the completions of bash would offer.
fn visible_part(program: &InstalledProgram) -> Command {
    let command = &program.command;
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new(program.name)
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments())
        .subcommands(verbs)
}

fn create(folder: &Path) -> Result<(), ManualError> {
    fs::create_dir_all(folder).map_err(|source| ManualError {
        path: folder.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DATE: &str = "2026-11-26";

    /// The names of the pages that a command and its verbs must have.
    fn names(command: &Command, name: &str, section: &str, pages: &mut Vec<String>) {
        pages.push(format!("{name}.{section}"));
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            names(verb, &format!("{name}-{}", verb.get_name()), section, pages);
        }
    }

    #[test]
    fn every_verb_has_a_page_with_all_its_options() {
        let share = tempfile::tempdir().unwrap();
        write(share.path(), DATE).unwrap();
        let mut pages = Vec::new();
        for program in programs() {
            names(&program.command, program.name, program.section, &mut pages);
        }
        assert!(pages.contains(&"tailbound-predict-recovery.1".to_owned()));
        assert!(pages.contains(&"tailbound-mode-set.1".to_owned()));
        for page in &pages {
            let section = page.rsplit_once('.').unwrap().1;
            let text = fs::read_to_string(share.path().join(format!("man/man{section}/{page}")));
            let text = text.unwrap_or_else(|error| panic!("{page}: {error}"));
            assert!(text.contains(".SH OPTIONS"), "{page}");
        }
        let written = ["man/man1", "man/man8"].map(|folder| share.path().join(folder));
        let written = written
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap());
        assert_eq!(written.count(), pages.len(), "a hidden verb has no page");
    }

    #[test]
    fn every_shell_completes_every_program() {
        let share = tempfile::tempdir().unwrap();
        write(share.path(), DATE).unwrap();
        for program in programs() {
            let name = program.name;
            assert_eq!(name, program.command.get_name());
            for file in [
                format!("bash-completion/completions/{name}"),
                format!("zsh/site-functions/_{name}"),
                format!("fish/vendor_completions.d/{name}.fish"),
            ] {
                assert!(share.path().join(&file).is_file(), "{file}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let error = write(Path::new("/proc/none"), DATE)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot write /proc/none/man/man1: "),
            "{error}"
        );
    }
}
