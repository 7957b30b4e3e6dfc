//! Which source files are compiled: a test in a file that no other file declares passes for ever.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::TextFile;

/// The paths of the roots that a `Cargo.toml` names, and of those that cargo finds unasked.
pub fn roots(manifest: &TextFile, sources: &[TextFile]) -> BTreeSet<String> {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let table: toml::Table = manifest.text.parse().expect("a Cargo.toml is TOML");
    let finds_tests = table
        .get("package")
        .and_then(|package| package.get("autotests"))
        .is_none_or(|value| value.as_bool() != Some(false));
    let targets = ["lib", "bin", "test", "example", "bench"];
    let mut roots: BTreeSet<String> = targets
        .iter()
        .filter_map(|kind| table.get(*kind))
        .flat_map(|value| match value {
            toml::Value::Array(targets) => targets.clone(),
            one => vec![one.clone()],
        })
        .filter_map(|target| Some(format!("{folder}{}", target.get("path")?.as_str()?)))
        .collect();
    for source in sources {
        let Some(path) = source.path.strip_prefix(folder) else {
            continue;
        };
        let parts: Vec<&str> = path.split('/').collect();
        let is_root = match parts[..] {
            ["build.rs"] | ["src", "lib.rs" | "main.rs"] | ["src", "bin", _] => true,
            ["src", "bin", _, "main.rs"] | ["examples" | "benches", _] => true,
            ["examples" | "benches", _, "main.rs"] => true,
            ["tests", _] | ["tests", _, "main.rs"] => finds_tests,
            _ => false,
        };
        if is_root {
            roots.insert(source.path.clone());
        }
    }
    roots
}

/// Finds source files that are no root, and that no file declares as its module.
pub fn undeclared(sources: &[TextFile], roots: &BTreeSet<String>) -> Vec<Finding> {
    let is_declared = |path: &str| {
        let Some((place, name)) = place_and_name(path) else {
            return false;
        };
        let words = format!("mod {name};");
        sources.iter().any(|source| {
            module_folder(&source.path, roots) == place
                && source.text.lines().any(|line| line.ends_with(&words))
        })
    };
    sources
        .iter()
        .filter(|source| !roots.contains(&source.path) && !is_declared(&source.path))
        .map(|source| Finding::new(&source.path, 1, "no file declares this module"))
        .collect()
}

/// The folder that declares the module of a file, and the module's name there.
fn place_and_name(path: &str) -> Option<(&str, &str)> {
    let module = path
        .strip_suffix("/mod.rs")
        .or_else(|| path.strip_suffix(".rs"))?;
    module.rsplit_once('/')
}

/// The folder in which the modules are that a file declares.
fn module_folder<'a>(path: &'a str, roots: &BTreeSet<String>) -> &'a str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let own = stem.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_folder_s = path.ends_with("/mod.rs") || roots.contains(path);
    if is_folder_s { own } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_file_that_nobody_declares_is_found() {
        let manifest = "[package]\nautotests = false\n[[test]]\npath = \"tests/main.rs\"\n";
        let manifest = file("crates/x/Cargo.toml", manifest);
        let sources = [
            file("crates/x/src/lib.rs", "pub mod a;\n"),
            file("crates/x/src/a.rs", "mod inner;\n"),
            file("crates/x/src/a/inner.rs", ""),
            file("crates/x/tests/main.rs", "mod stage;\nmod one;\n"),
            file("crates/x/tests/stage/mod.rs", "mod part;\n"),
            file("crates/x/tests/stage/part.rs", ""),
            file("crates/x/tests/one.rs", ""),
            file("crates/x/tests/two.rs", ""),
        ];
        let findings = undeclared(&sources, &roots(&manifest, &sources));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].file, "crates/x/tests/two.rs");
    }

    #[test]
    fn cargo_finds_tests_where_it_may() {
        let manifest = file("crates/x/Cargo.toml", "[package]\n");
        let sources = [
            file("crates/x/src/lib.rs", ""),
            file("crates/x/tests/two.rs", ""),
            file("crates/x/examples/three/main.rs", ""),
        ];
        assert_eq!(undeclared(&sources, &roots(&manifest, &sources)), vec![]);
    }
}
