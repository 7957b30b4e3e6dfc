//! Units of the system's service manager: their cgroups are called like them, below those of their slices.

use std::path::{Path, PathBuf};

use super::{NameError, file_name};
use crate::cgroup::cgroups_below;

/// The types of units that have processes, as names end.
const KINDS: [&str; 3] = [".service", ".scope", ".slice"];

/// The directory of a unit below the root of cgroup v2.
pub(super) fn directory(root: &Path, name: &str) -> Result<PathBuf, NameError> {
    let full = full_name(name);
    let mut units = Vec::new();
    collect(root, &mut units);
    let unit = units.iter().find(|path| file_name(path) == Some(&full));
    unit.cloned().ok_or_else(|| NameError::Absent {
        kind: "unit",
        candidates: similar(&full, &units),
        name: full,
        remedy: "a unit has a cgroup while it runs: start it, and write its name as `systemctl status` shows it".into(),
    })
}

/// The name of a unit with its type, which is that of a service where none is written.
pub(super) fn full_name(name: &str) -> String {
    match KINDS.iter().any(|kind| name.ends_with(kind)) {
        true => name.to_owned(),
        false => format!("{name}.service"),
    }
}

/// The units below a directory. Only slices hold units of this manager: what is below a service or scope is its own
/// affair, such as the units of a user's manager, which may have any name.
fn collect(directory: &Path, units: &mut Vec<PathBuf>) {
    for path in cgroups_below(directory).unwrap_or_default() {
        let Some(name) = file_name(&path) else {
            continue;
        };
        let (is_unit, is_slice) = (
            KINDS.iter().any(|kind| name.ends_with(kind)),
            name.ends_with(".slice"),
        );
        if is_slice {
            collect(&path, units);
        }
        if is_unit {
            units.push(path);
        }
    }
}

/// The unit that a cgroup is of: the first one below the slices, or none.
pub(super) fn holding(below_root: &Path) -> Option<&str> {
    let mut names = below_root.iter().filter_map(|part| part.to_str());
    let first = names.find(|name| *name != "/" && !name.ends_with(".slice"))?;
    KINDS
        .iter()
        .any(|kind| first.ends_with(kind))
        .then_some(first)
}

/// Whether a cgroup is that of a login: of a session, or of an application in the scope that a user's manager gave it.
pub(super) fn is_of_login(below_root: &Path) -> bool {
    let is_scope = |name: &str| name.ends_with(".scope");
    let innermost = below_root.file_name().and_then(|name| name.to_str());
    holding(below_root).is_some_and(|unit| {
        let is_of_user = unit.starts_with("user@") && innermost.is_some_and(is_scope);
        is_of_user || unit == "init.scope" || unit.starts_with("session-") && is_scope(unit)
    })
}

/// The units whose names have something in common with a name.
fn similar(name: &str, units: &[PathBuf]) -> Vec<String> {
    let stem = |name: &str| {
        let end = name.find(['.', '@', '-']).unwrap_or(name.len());
        name[..end].to_owned()
    };
    let wanted = stem(name);
    let names = units.iter().filter_map(|path| file_name(path));
    let alike = names.filter(|other| {
        let other = stem(other);
        !other.is_empty() && (other.starts_with(&wanted) || wanted.starts_with(&other))
    });
    alike.map(str::to_owned).collect()
}
