//! The last step of taking a domain back: what we froze runs.

use std::io;
use std::path::Path;

use crate::Change;
use crate::executor::is_ours;
use crate::journal::{HeldDomain, Journal, Previous};
use crate::kernel::KernelState;

/// Thaws the groups that the domain's changes have frozen, should one of them still be: a service that
/// stands still is worse than anything else that could be left behind.
pub(crate) fn thaw(
    kernel: &mut dyn KernelState,
    journal: &Journal,
    held: &HeldDomain,
    failures: &mut Vec<String>,
) {
    for entry in &held.entries {
        let Change::WriteFile { file, .. } = &entry.change else {
            continue;
        };
        let froze = is_freezer(file)
            && (entry.previous == Previous::Text { text: "0".into() } || is_ours(file, held));
        let mut others = journal.history().domains.iter();
        let is_others = others.any(|other| {
            other.request.domain != held.request.domain
                && other
                    .entries
                    .iter()
                    .any(|it| it.change.same_object(&entry.change))
        });
        if !froze || is_others || !kernel.read_file(file).is_ok_and(|text| text == "1") {
            continue;
        }
        if let Err(error) = kernel.write_file(file, "0")
            && error.kind() != io::ErrorKind::NotFound
        {
            failures.push(format!("thawing {}: {error}", file.display()));
        }
    }
}

/// Whether the file stops and starts a cgroup of v2.
fn is_freezer(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "cgroup.freeze")
}
