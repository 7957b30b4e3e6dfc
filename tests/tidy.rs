//! The house style, where no compiler looks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tailbound_tests::repository::{self, TextFile};
use tailbound_tests::tidy::{
    Finding, assert_none, back_ends, layers, licences, metric_names, modules, names, ratchet,
    sizes, source, test_programs, wording,
};
use tailbound_tests::{markdown, tidy};

fn rust() -> Vec<TextFile> {
    let files = repository::files_ending_in(".rs");
    assert!(files.len() > 20, "only {} source files found", files.len());
    files
}

/// A check of one source file.
type SourceCheck = fn(&str, &syn::File) -> Vec<Finding>;

const SOURCE_CHECKS: [(&str, SourceCheck); 7] = [
    ("function_lengths", sizes::function_lengths),
    ("unitless_times", names::unitless_times),
    ("named_in_rust", back_ends::named_in_rust),
    ("unsafe_code", source::unsafe_code),
    ("kernel_paths", source::kernel_paths),
    ("impure_calls", source::impure_calls),
    ("ignored_tests", source::ignored_tests),
];

/// What each check finds in all source files, which are parsed once for all: that takes longer than the checks.
fn source_findings() -> &'static [Vec<Finding>] {
    static FINDINGS: OnceLock<Vec<Vec<Finding>>> = OnceLock::new();
    FINDINGS.get_or_init(|| {
        let mut findings = vec![Vec::new(); SOURCE_CHECKS.len()];
        for file in rust() {
            let parsed = syn::parse_file(&file.text)
                .unwrap_or_else(|error| panic!("{}: {error}", file.path));
            for ((_, check), findings) in SOURCE_CHECKS.iter().zip(&mut findings) {
                findings.extend(check(&file.path, &parsed));
            }
        }
        findings
    })
}

/// Fails if a check finds something in a source file.
fn of_source(check: &str) {
    let place = SOURCE_CHECKS.iter().position(|(name, _)| *name == check);
    assert_none(source_findings()[place.expect("it is in the list")].clone());
}

#[test]
fn functions_are_short() {
    of_source("function_lengths");
}

#[test]
fn folders_and_modules_say_what_they_hold() {
    let folders = repository::folders();
    let files = rust().into_iter().map(|file| file.path);
    assert_none(
        folders
            .into_iter()
            .chain(files)
            .flat_map(|path| sizes::empty_names(&path))
            .collect(),
    );
}

#[test]
fn every_source_file_is_compiled() {
    let sources = rust();
    let manifests = repository::files_ending_in("Cargo.toml");
    let roots = manifests
        .iter()
        .flat_map(|manifest| modules::roots(manifest, &sources))
        .collect();
    assert_none(modules::undeclared(&sources, &roots));
}

#[test]
fn every_test_program_is_run() {
    let makefile = fs::read_to_string(repository::root().join("Makefile")).unwrap();
    let manifests = repository::files_ending_in("Cargo.toml");
    assert_none(test_programs::unlisted(&makefile, &manifests));
    let short = makefile.replace(" examples host", " examples examples");
    assert_eq!(
        test_programs::unlisted(&short, &manifests).len(),
        4,
        "three are not listed, one is twice"
    );
    let more = makefile.replace(" examples host", " examples host guests");
    assert_eq!(
        test_programs::unlisted(&more, &manifests).len(),
        1,
        "one does not exist"
    );
}

#[test]
fn old_habits_grow_rarer() {
    let counts = ratchet::counts(&rust());
    let text = fs::read_to_string(repository::root().join(ratchet::FILE)).unwrap();
    let lowered = ratchet::lowered(&text, &counts);
    if std::env::var_os(repository::WRITE).is_some() {
        fs::write(repository::root().join(ratchet::FILE), &lowered).unwrap();
    } else if lowered != text {
        eprintln!("counts have fallen: commit {}:\n{lowered}", ratchet::FILE);
    }
    assert_none(ratchet::raised(&counts, &text.parse().unwrap()));
}

#[test]
fn times_have_units() {
    of_source("unitless_times");
}

#[test]
fn every_exception_is_still_needed() {
    let files = rust();
    for (path, name, _) in names::ALLOWED.into_iter().chain(back_ends::ALLOWED) {
        let file = files.iter().find(|file| file.path == path);
        assert!(
            file.is_some_and(|file| file.text.contains(name)),
            "{path} has no `{name}` any more: strike it from the list"
        );
    }
}

#[test]
fn back_ends_are_asked_what_they_can_do() {
    of_source("named_in_rust");
    let python = repository::files_ending_in(".py");
    let package = |file: &&TextFile| file.path.starts_with("python/tailbound/");
    assert!(python.iter().any(|file| package(&file)));
    let findings = python.iter().filter(package);
    let findings = findings.flat_map(|file| back_ends::named_in_python(&file.path, &file.text));
    assert_none(findings.collect());
}

#[test]
fn only_linux_has_unsafe_code() {
    of_source("unsafe_code");
}

#[test]
fn only_linux_knows_kernel_paths() {
    of_source("kernel_paths");
}

#[test]
fn pure_crates_touch_nothing() {
    of_source("impure_calls");
}

#[test]
fn every_test_is_run() {
    of_source("ignored_tests");
}

#[test]
fn nothing_unfinished_or_boastful_is_written() {
    let suffixes = [
        ".rs", ".md", ".toml", ".sh", "Makefile", "/run", ".html", ".js", ".css",
    ];
    let findings = suffixes
        .iter()
        .flat_map(|suffix| repository::files_ending_in(suffix))
        .chain(scripts())
        .flat_map(|file| wording::forbidden_phrases(&file.path, &file.text))
        .collect();
    assert_none(findings);
}

#[test]
fn dependencies_point_down() {
    let manifests = repository::files_ending_in("Cargo.toml");
    let mut findings = Vec::new();
    let mut crates = 0;
    for file in &manifests {
        let Some(name) = file
            .path
            .strip_prefix("crates/")
            .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
            .or((file.path == "python/Cargo.toml").then_some("python"))
        else {
            continue;
        };
        crates += 1;
        findings.extend(layers::upward_dependencies(name, &file.path, &file.text));
    }
    assert!(crates > 5, "only {crates} crates found");
    assert_none(findings);
}

#[test]
fn licences_are_permissive() {
    let root = repository::root();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&root)
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let deny = fs::read_to_string(root.join("deny.toml")).unwrap();
    let packages = metadata["packages"].as_array().unwrap().len();
    assert!(packages > 20, "only {packages} packages found");
    assert_none(licences::unlisted_licences(
        &metadata,
        &licences::allowed(&deny),
    ));
}

#[test]
fn links_lead_somewhere() {
    let mut findings = Vec::new();
    for file in repository::files_ending_in(".md") {
        let folder = repository::root().join(&file.path);
        let folder = folder.parent().unwrap();
        for (line, target) in markdown::broken_links(&file.text, |path| read(folder, path)) {
            let message = format!("the link to {target} leads nowhere");
            findings.push(tidy::Finding::new(&file.path, line, message));
        }
    }
    assert_none(findings);
}

/// The text of a file, or an empty text for a folder or an image.
fn read(folder: &Path, path: &str) -> Option<String> {
    let path = folder.join(path);
    path.exists()
        .then(|| fs::read_to_string(path).unwrap_or_default())
}

/// The shell scripts.
fn scripts() -> Vec<TextFile> {
    let mut scripts = Vec::new();
    for file in repository::files_ending_in("") {
        if file.text.starts_with("#!/bin/") || file.text.starts_with("#!/usr/bin/env bash") {
            scripts.push(file);
        }
    }
    scripts
}

#[test]
fn shell_scripts_parse() {
    let scripts = scripts();
    assert!(!scripts.is_empty(), "no shell scripts found");
    for script in scripts {
        let output = Command::new("bash")
            .args(["-n", &script.path])
            .current_dir(repository::root())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            script.path,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn metrics_are_known_by_the_names_that_are_printed() {
    let only = |suffix: &str, part: &str| -> Vec<TextFile> {
        let files = repository::files_ending_in(suffix).into_iter();
        files.filter(|file| file.path.contains(part)).collect()
    };
    let sources = only("/metrics.rs", "/src/");
    let guides = [
        only(".md", "guides/observe"),
        only(".md", "guides/mode-changes"),
        only(".md", "guides/balance"),
    ]
    .concat();
    let mut readers = only(".yml", "packaging/prometheus");
    readers.extend(only(".json", "packaging/grafana"));
    readers.extend(only(".md", "guides/observe"));
    assert!(sources.len() > 2 && readers.len() > 3 && guides.len() == 3);
    assert_none(metric_names::strangers(&sources, &readers, &guides));
}
