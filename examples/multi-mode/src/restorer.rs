//! A second process that takes everything back when this one ends, however it ends.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::commands::Tailbound;

/// It lives until its input ends, which our death does, too.
pub struct Restorer(Child);

impl Restorer {
    /// Starts it, in a group of its own: Ctrl-C is not for it.
    ///
    /// # Errors
    /// This program cannot be started once more.
    pub fn start(programs: &Path, folder: &Path) -> io::Result<Self> {
        Command::new(std::env::current_exe()?)
            .arg("--restore")
            .arg(folder)
            .arg("--programs")
            .arg(programs)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It says itself what it could not take back.
        let _reaped = self.0.wait();
    }
}

/// The state folder of the daemon, in the folder of this demonstration.
pub fn state_of(folder: &Path) -> PathBuf {
    folder.join("state")
}

/// The restorer's side: waits, takes back what is left, and removes the folder.
pub fn restore(programs: PathBuf, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut heard = Vec::new();
    io::stdin().read_to_end(&mut heard)?;
    let state = state_of(folder);
    if state.exists() {
        let tailbound = Tailbound::new(programs, state);
        tailbound.run(&["-q", "revert"])?;
    }
    Ok(fs::remove_dir_all(folder)?)
}
