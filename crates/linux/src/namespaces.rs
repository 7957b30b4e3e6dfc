//! Processes that see other files than this one, since they live in another mount namespace or under
//! another root.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::process::{numbered_entries, thread_name, user_of};

/// The path by which this process reaches the file that process `pid` knows as `path`.
pub fn path_as_seen_by(pid: u32, path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(format!("/proc/{pid}/root")).join(below)
}

/// The processes of root named `name` to which `directory` is another directory than to this process,
/// or none at all. Processes that this process may not look into are left out.
///
/// # Errors
/// If /proc or the directory cannot be read.
pub fn processes_with_another(directory: &Path, name: &str) -> io::Result<Vec<u32>> {
    let identity =
        |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    let ours = identity(directory)?;
    let mut others = Vec::new();
    for pid in numbered_entries("/proc")? {
        // Whoever is root only in a user namespace of its own has another user here.
        let is_named = thread_name(pid).is_ok_and(|thread| thread == name);
        if !is_named || !user_of(pid).is_ok_and(|user| user == 0) {
            continue;
        }
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let differs = match identity(&path_as_seen_by(pid, directory)) {
            Ok(theirs) => theirs != ours,
            // The process has ended, or the directory is not there.
            Err(_) => identity(&root).is_ok(),
        };
        if differs {
            others.push(pid);
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn this_process_sees_its_own_files_and_is_no_stranger() {
        let own = std::process::id();
        let program = std::env::current_exe().unwrap();
        let seen = path_as_seen_by(own, &program);
        assert_eq!(
            fs::metadata(seen).unwrap().ino(),
            fs::metadata(&program).unwrap().ino()
        );
        let name = thread_name(own).unwrap();
        let others = processes_with_another(Path::new("/"), &name).unwrap();
        assert!(!others.contains(&own));
    }
}
