//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of built files, none of them written by people.
const NOT_OURS: [&str; 3] = ["target", ".git", "out"];

/// The environment variable under which tests write committed files anew, instead of comparing them.
pub const WRITE: &str = "TAILBOUND_WRITE_DOCUMENTS";

/// The top folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_path_buf()
}

/// A file with its text.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// The path from the top folder, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

/// Every text file whose name ends in `suffix`, by path, in order.
pub fn files_ending_in(suffix: &str) -> Vec<TextFile> {
    let mut paths = Vec::new();
    collect(&root(), &mut paths);
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .filter_map(|path| {
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let text = String::from_utf8(bytes).ok()?;
            let path = relative(&path);
            Some(TextFile { path, text })
        })
        .collect()
}

/// Every folder, by path from the top folder.
pub fn folders() -> Vec<String> {
    let mut paths = Vec::new();
    collect(&root(), &mut paths);
    let mut folders: Vec<String> = paths
        .iter()
        .filter_map(|path| path.parent().map(relative))
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The path of `path` from the top folder.
pub fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder's entry can be read");
        let kind = entry.file_type().expect("an entry has a type");
        let name = entry.file_name();
        if kind.is_dir() && !NOT_OURS.iter().any(|ours| name == *ours) {
            collect(&entry.path(), paths);
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
}
