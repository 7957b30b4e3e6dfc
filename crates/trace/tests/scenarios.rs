//! Every scenario of the folder `scenarios`: the text behind `---` is what comes of the text before. `UPDATE=1` writes it
//! anew.
#![allow(clippy::expect_used)]

use std::fs;
use std::path::PathBuf;

use crate::scenario::explained;

#[test]
fn every_scenario_is_explained_as_it_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder of scenarios")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 12, "scenarios are missing");
    let mut differences = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a scenario");
        let (given, expected) = text.split_once("---\n").unwrap_or((&text, ""));
        let explained = explained(given);
        if explained == expected {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, format!("{given}---\n{explained}")).expect("a scenario");
            continue;
        }
        differences.push(format!("{}:\n{explained}", file.display()));
    }
    assert!(
        differences.is_empty(),
        "UPDATE=1 writes scenarios anew:\n{}",
        differences.join("\n")
    );
}
