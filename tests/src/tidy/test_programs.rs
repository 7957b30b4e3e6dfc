//! The test programs that `make test` runs: every one that there is, in one of its two lists.

use super::Finding;
use crate::repository::TextFile;

/// The lists of the Makefile.
const LISTS: [&str; 2] = ["WAITING_TESTS", "COMPUTING_TESTS"];

/// Finds test programs that no list names, and names in a list that no test program has, or that both have.
pub fn unlisted(makefile: &str, manifests: &[TextFile]) -> Vec<Finding> {
    let listed: Vec<String> = LISTS
        .iter()
        .flat_map(|name| words(makefile, name))
        .collect();
    let mut findings = Vec::new();
    let mut programs = Vec::new();
    for manifest in manifests {
        let parsed: toml::Table = manifest.text.parse().unwrap_or_default();
        let targets = parsed.get("test").and_then(toml::Value::as_array);
        for target in targets.into_iter().flatten() {
            let name = target.get("name").and_then(toml::Value::as_str);
            let name = name.unwrap_or_default().to_owned();
            if !listed.contains(&name) {
                let message =
                    format!("`make test` leaves out \"{name}\"; add it to a list of Makefile");
                findings.push(Finding::new(&manifest.path, 1, message));
            }
            programs.push(name);
        }
    }
    for (index, name) in listed.iter().enumerate() {
        let message = match programs.contains(name) {
            false => format!("there is no test program \"{name}\"; strike it"),
            true if listed[..index].contains(name) => format!("\"{name}\" is listed twice"),
            true => continue,
        };
        findings.push(Finding::new("Makefile", 1, message));
    }
    findings
}

/// The words of a variable, which may go on over lines that end in a backslash.
fn words(makefile: &str, variable: &str) -> Vec<String> {
    let joined = makefile.replace("\\\n", " ");
    let assigned = joined.lines().find_map(|line| {
        let (name, value) = line.split_once(":=")?;
        (name.trim() == variable).then(|| value.to_owned())
    });
    let value = assigned.unwrap_or_default();
    value.split_whitespace().map(str::to_owned).collect()
}
