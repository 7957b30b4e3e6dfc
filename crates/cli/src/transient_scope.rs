//! The transient scope of systemd in which a command runs that `tailbound run` starts at a login: a unit of its own, which
//! `systemctl status`, `stop` and `kill` know, and whose groups are ours to make (`Delegate=`).
//!
//! `systemd-run --scope` asks systemd for the scope (the call StartTransientUnit) and becomes the command once it is in
//! there, as the same process.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use tailbound_linux::cgroup;
use tailbound_linux::host_managers::runs_systemd;
use tailbound_linux::named_cgroup::{is_of_login, unit_holding};
use tailbound_linux::process::effective_uid;

/// The slice of all such scopes.
const SLICE: &str = "tailbound.slice";

/// A scope that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransientScope {
    unit: String,
}

impl TransientScope {
    /// The scope of the command of a domain that this process is about to start; `None` where the command stays with its
    /// starter: without systemd, or in a service or scope that somebody has made for it.
    pub fn of_domain(domain: &str) -> Option<Self> {
        let is_there = effective_uid() == 0 && runs_systemd(Path::new("/"));
        let is_wanted = is_there && own_cgroup().is_some_and(|cgroup| is_free(&cgroup));
        is_wanted.then(|| Self {
            unit: format!("tailbound-{domain}.scope"),
        })
    }

    /// The name of the unit.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The command that becomes `program` in the scope.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("systemd-run");
        command.args(["--scope", "--quiet", "--collect", "--no-ask-password"]);
        command.args(["--unit", &self.unit, "--slice", SLICE]);
        command.args(["--property", "Delegate=yes"]);
        command.args(["--description", "Command of tailbound run", "--"]);
        command.arg(program);
        command
    }
}

/// The path of our own cgroup from the root of cgroup v2.
fn own_cgroup() -> Option<std::path::PathBuf> {
    let hierarchies = cgroup::hierarchies().ok()?;
    let unified = hierarchies.iter().find(|one| one.unified)?;
    let own = unified.cgroup_of(std::process::id()).ok()?;
    own.strip_prefix(&unified.root).ok().map(Path::to_path_buf)
}

/// Whether nobody counts on what is started in a cgroup to stay in there.
fn is_free(cgroup: &Path) -> bool {
    is_of_login(cgroup) || unit_holding(cgroup).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_leaves_a_login_and_no_service() {
        for free in ["", "init.scope", "user.slice/user-0.slice/session-3.scope"] {
            assert!(is_free(Path::new(free)), "{free}");
        }
        for taken in ["system.slice/web.service", "run-7.scope/own"] {
            assert!(!is_free(Path::new(taken)), "{taken}");
        }
    }

    #[test]
    fn the_scope_is_called_like_the_domain() {
        let unit = "tailbound-run-7.scope".to_owned();
        let command = TransientScope { unit }.command("own program");
        let words: Vec<_> = command.get_args().collect();
        let place = words.iter().position(|word| *word == "--unit");
        assert_eq!(
            place.map(|place| words[place + 1]),
            Some(OsStr::new("tailbound-run-7.scope"))
        );
        assert_eq!(words.last(), Some(&OsStr::new("own program")));
    }
}
