//! The mounts of an isolated program: folders that are empty to it, and its own view of its processes.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;

use super::{IsolatedProgram, OwnNamespace, explained};
use crate::system_call::check;

/// The folders in which programs keep what passes, and memory that they share: empty to each that is isolated.
pub const PRIVATE_FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// A mount: its source, its place, and its kind.
struct NewMount<'a> {
    source: &'a Path,
    target: &'a Path,
    kind: &'a CStr,
    flags: libc::c_ulong,
    options: &'a str,
}

impl NewMount<'_> {
    fn make(&self) -> io::Result<()> {
        let source = terminated(self.source.as_os_str().as_bytes())?;
        let target = terminated(self.target.as_os_str().as_bytes())?;
        let options = terminated(self.options.as_bytes())?;
        // SAFETY: all texts end with a zero, and live through the call.
        let outcome = check(unsafe {
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                self.kind.as_ptr(),
                self.flags,
                options.as_ptr().cast(),
            )
        });
        let what = format!("mounting at {}", self.target.display());
        outcome.map(drop).map_err(|error| explained(&what, &error))
    }
}

fn terminated(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::other)
}

/// Gives this process, which has a namespace of mounts for itself, the mounts of a program.
pub(super) fn mount_all(program: &IsolatedProgram) -> io::Result<()> {
    let here = std::env::current_dir()?;
    keep_to_ourselves()?;
    let kept = kept_files(&program.kept)?;
    let size = program.memory_limit_bytes;
    let size = size.map_or_else(String::new, |bytes| format!(",size={bytes}"));
    for folder in PRIVATE_FOLDERS.map(Path::new) {
        // A link leads to a folder that is somewhere else, such as /run/shm.
        if !fs::metadata(folder).is_ok_and(|folder| folder.is_dir()) {
            continue;
        }
        let mount = NewMount {
            source: Path::new("tmpfs"),
            target: folder,
            kind: c"tmpfs",
            flags: libc::MS_NOSUID | libc::MS_NODEV,
            options: &format!("mode=1777{size}"),
        };
        mount.make()?;
    }
    let has = |namespace| program.namespaces.contains(&namespace);
    if has(OwnNamespace::Pid) {
        mount_kernel_files(c"proc", Path::new("/proc"))?;
    }
    let queues = Path::new("/dev/mqueue");
    if has(OwnNamespace::Ipc) && queues.is_dir() {
        mount_kernel_files(c"mqueue", queues)?;
    }
    for (path, file) in &kept {
        show_again(path, file)?;
    }
    // It may have been below a folder that is empty now.
    std::env::set_current_dir(&here)
        .map_err(|error| explained(&format!("going back to {}", here.display()), &error))
}

/// No mount made here is seen outside, and none made outside is seen here.
fn keep_to_ourselves() -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the path ends with a zero; the kernel reads nothing else for these flags.
    let outcome =
        check(unsafe { libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), flags, ptr::null()) });
    outcome
        .map(drop)
        .map_err(|error| explained("making the mounts private", &error))
}

fn mount_kernel_files(kind: &CStr, target: &Path) -> io::Result<()> {
    let mount = NewMount {
        source: Path::new("none"),
        target,
        kind,
        flags: libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
        options: "",
    };
    mount.make()
}

/// The files that would be hidden, with their paths, opened before they are.
fn kept_files(paths: &[PathBuf]) -> io::Result<Vec<(PathBuf, File)>> {
    let mut kept = Vec::new();
    for path in paths {
        let path = fs::canonicalize(path)
            .map_err(|error| explained(&format!("finding {}", path.display()), &error))?;
        if PRIVATE_FOLDERS
            .iter()
            .any(|folder| path == Path::new(folder))
        {
            let message = format!("{} is to be empty, and to be kept", path.display());
            return Err(io::Error::other(message));
        }
        if PRIVATE_FOLDERS
            .iter()
            .any(|folder| path.starts_with(folder))
        {
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(&path)?;
            kept.push((path, file));
        }
    }
    // A folder comes before what is in it.
    kept.sort_by(|(one, _), (other, _)| one.cmp(other));
    kept.dedup_by(|(later, _), (earlier, _)| later.starts_with(earlier));
    Ok(kept)
}

/// Shows a file or folder at its path again.
fn show_again(path: &Path, file: &File) -> io::Result<()> {
    match file.metadata()?.is_dir() {
        true => fs::create_dir_all(path)?,
        false => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            File::create(path)?;
        }
    }
    let mount = NewMount {
        source: &PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        target: path,
        kind: c"none",
        flags: libc::MS_BIND | libc::MS_REC,
        options: "",
    };
    mount.make()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn files_are_kept_once_and_whole_folders_never() {
        let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let inside = folder.path().join("inside");
        File::create(&inside).unwrap();
        let paths = [inside, folder.path().to_owned(), PathBuf::from("/usr")];
        let kept = kept_files(&paths).unwrap();
        let kept: Vec<&Path> = kept.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(kept, [folder.path()]);
        assert!(kept_files(&[PathBuf::from("/tmp")]).is_err());
        assert!(kept_files(&[PathBuf::from("/no-such-file")]).is_err());
    }
}
