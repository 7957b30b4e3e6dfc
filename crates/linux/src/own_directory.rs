//! A directory that nobody but its owner can write to.

use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use crate::process::effective_uid;

/// Why a directory is not this process's alone to write to.
#[derive(Debug, thiserror::Error)]
pub enum NotOwnDirectory {
    /// It cannot be made or looked at.
    #[error(transparent)]
    Unusable(#[from] io::Error),
    /// Others could write to it.
    #[error("{reason}")]
    Unsafe {
        /// What lets them.
        reason: String,
    },
}

/// Makes the directory if it is not there, and makes sure that nobody else can write to it.
///
/// # Errors
/// If it cannot be made, or others could write to it.
pub fn prepare(path: &Path) -> Result<(), NotOwnDirectory> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    let metadata = symlink_metadata(path)?;
    let reason = if !metadata.is_dir() {
        "it is no directory, or a symbolic link".to_owned()
    } else if metadata.uid() != effective_uid() {
        format!("it belongs to uid {}", metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        format!("its mode is {:o}", metadata.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(NotOwnDirectory::Unsafe { reason })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_is_made_once_and_used_again() {
        let base = tempfile::tempdir().unwrap();
        let nested = base.path().join("one/two");
        prepare(&nested).unwrap();
        prepare(&nested).unwrap();
        assert_eq!(symlink_metadata(&nested).unwrap().mode() & 0o022, 0);
    }

    #[test]
    fn what_others_can_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        set_permissions(base.path(), Permissions::from_mode(0o775)).unwrap();
        let refused = prepare(base.path()).unwrap_err().to_string();
        assert_eq!(refused, "its mode is 775");
    }

    #[test]
    fn a_link_to_a_directory_is_refused_and_a_file_cannot_be_made_one() {
        let base = tempfile::tempdir().unwrap();
        let (link, file) = (base.path().join("link"), base.path().join("file"));
        symlink(base.path(), &link).unwrap();
        write(&file, "").unwrap();
        let refused = prepare(&link).unwrap_err();
        assert!(
            matches!(refused, NotOwnDirectory::Unsafe { .. }),
            "{refused}"
        );
        let refused = prepare(&file).unwrap_err();
        assert!(matches!(refused, NotOwnDirectory::Unusable(_)), "{refused}");
    }
}
