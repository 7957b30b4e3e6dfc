//! The programs under test.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::repository;

/// The folder with `tailbound` and `tailboundd`.
///
/// `make test` builds them and names the folder in `TAILBOUND_BIN_DIR`; without it they are built
/// here, so that a test never runs yesterday's program.
pub fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| match env::var_os("TAILBOUND_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => build(),
    })
}

/// One of the programs.
pub fn program(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

fn build() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("a test lies in target/PROFILE/deps")
        .to_path_buf();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(repository::root())
        .args(["build", "--quiet", "--workspace", "--bins"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the programs under test do not build");
    folder
}
