//! Every command in a document is run, and its output compared with the document.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use tailbound_tests::repository::{self, TextFile};
use tailbound_tests::{binaries, console, figures, host, markdown, measurements, promises};

/// Languages of blocks that would hide a command from this test.
const SHELLS: [&str; 4] = ["sh", "bash", "shell", "text console"];

fn documents() -> Vec<TextFile> {
    let documents = repository::files_ending_in(".md");
    assert!(documents.len() > 8, "only {} documents", documents.len());
    documents
}

/// A scratch folder with the examples, which documents assume to be there.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(repository::root().join("examples"))
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(copied.success());
    folder
}

fn run_document(document: &TextFile) -> Vec<String> {
    let folder = scratch();
    let mut failures = Vec::new();
    for fence in markdown::fences(&document.text) {
        let place = format!("{}:{}", document.path, fence.line);
        if let Some(name) = fence
            .comment
            .as_deref()
            .and_then(|c| c.strip_prefix("file:"))
        {
            fs::write(folder.path().join(name.trim()), &fence.text).unwrap();
        }
        if fence.language != "console" {
            continue;
        }
        let directions = match console::directions(fence.comment.as_deref()) {
            Ok(directions) => directions,
            Err(error) => {
                failures.push(format!("{place}: {error}"));
                continue;
            }
        };
        if let Some(reason) = directions.skip {
            eprintln!("SKIP {place}: {reason}");
        } else if !host::skip(&place, &directions.needs) {
            let alone = host::alone();
            if let Err(error) = console::run(&fence, folder.path(), binaries::folder()) {
                failures.push(format!("{place}: {error}"));
            }
            drop(alone);
        }
    }
    failures
}

#[test]
fn documents_show_what_happens() {
    let failures: Vec<String> = documents().iter().flat_map(run_document).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn no_command_escapes_the_test() {
    let mut escaped = Vec::new();
    for document in documents() {
        for fence in markdown::fences(&document.text) {
            if SHELLS.contains(&fence.language.as_str()) {
                escaped.push(format!("{}:{}", document.path, fence.line));
            }
        }
    }
    assert!(
        escaped.is_empty(),
        "mark these blocks `console`: {escaped:?}"
    );
}

#[test]
fn every_guide_is_reachable_from_the_readme() {
    let readme = fs::read_to_string(repository::root().join("README.md")).unwrap();
    let linked: Vec<String> = markdown::links(&readme)
        .into_iter()
        .map(|(_, target)| target)
        .collect();
    for document in documents() {
        let guide = document.path.starts_with("docs/guides/");
        assert!(
            !guide || linked.contains(&document.path),
            "README.md does not link to {}",
            document.path
        );
    }
}

#[test]
fn every_page_is_in_the_site() {
    let summary = "docs/SUMMARY.md";
    let text = fs::read_to_string(repository::root().join(summary)).unwrap();
    let listed: Vec<String> = markdown::links(&text)
        .into_iter()
        .map(|(_, target)| match target.strip_prefix("../") {
            Some(above) => above.to_owned(),
            None => format!("docs/{target}"),
        })
        .collect();
    for document in documents() {
        let is_page = document.path.starts_with("docs/") || document.path.starts_with("examples/");
        assert!(
            !is_page || document.path == summary || listed.contains(&document.path),
            "{summary} does not list {}",
            document.path
        );
    }
}

#[test]
fn a_missing_example_folder_would_be_noticed() {
    assert!(Path::new(&scratch().path().join("examples/embedded/embedded.toml")).is_file());
}

#[test]
fn every_promise_of_the_threat_model_is_tested() {
    let path = "docs/guides/threat-model.md";
    let document = fs::read_to_string(repository::root().join(path)).unwrap();
    let promised = promises::promises(&document);
    assert!(promised.len() > 20, "only {} promises", promised.len());
    let mut failures = Vec::new();
    for promise in promised {
        let place = format!("{path}:{}: {}", promise.line, promise.number);
        if promise.tests.is_empty() {
            failures.push(format!("{place} names no test"));
        }
        for (file, test) in promise.tests {
            let source = fs::read_to_string(repository::root().join(&file)).unwrap_or_default();
            if !promises::has_test(&source, &test) {
                failures.push(format!("{place}: {file} has no test {test}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Figures of prose that no command of their page prints and no committed result has: the page, the figures, and
/// where they come from.
const OTHER_FIGURES: [(&str, &[&str], &str); 5] = [
    (
        "docs/guides/choose-a-back-end.md",
        &["100.04"],
        "a ledger of a machine that compiled meanwhile, as the page says",
    ),
    (
        "docs/guides/mode-changes.md",
        &["1.49", "2.25"],
        "figures 2.7 and 2.8 of the dissertation",
    ),
    (
        "docs/guides/mode-changes.md",
        &["7.61", "3.04", "40.1", "43.0", "62.3", "33.5", "52.0"],
        "runs of `bench/modes` that the page tells apart from the committed ones",
    ),
    (
        "docs/guides/size-a-reservation.md",
        &["99.66"],
        "all but one of 300 simulated runs",
    ),
    (
        "docs/guides/thesis-figures.md",
        &["92.1"],
        "printed in the thesis",
    ),
];

/// Whether the figures of prose in this document are checked: the others are histories, promises or rendered.
fn has_checked_figures(path: &str) -> bool {
    let folders = ["docs/guides/", "docs/concepts/"];
    folders.iter().any(|folder| path.starts_with(folder))
        || ["README.md", "python/README.md"].contains(&path)
}

#[test]
fn figures_in_prose_are_printed_by_a_command_or_measured() {
    let results: String = results().into_iter().map(|(file, _)| file.text).collect();
    let others = OTHER_FIGURES.iter();
    let others = others.flat_map(|(page, figures, _)| figures.iter().map(move |one| (*page, *one)));
    let others: Vec<(&str, &str)> = others.collect();
    let (mut shown, mut unknown) = (Vec::new(), Vec::new());
    let checked = documents().into_iter();
    for document in checked.filter(|document| has_checked_figures(&document.path)) {
        let code = figures::code(&document.text);
        for figures::Figure { line, digits } in figures::figures(&document.text) {
            let here = (document.path.as_str(), digits.as_str());
            // A committed result may have the same digits by chance.
            if let Some(other) = others.iter().find(|other| **other == here) {
                shown.push(*other);
            } else if !figures::stands_in(&digits, &code) && !figures::stands_in(&digits, &results)
            {
                unknown.push(format!("{}:{line}: {digits}", document.path));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "no command of the page and no committed result has these figures: {unknown:?}"
    );
    let gone = others.iter().filter(|other| !shown.contains(other));
    let gone: Vec<&(&str, &str)> = gone.collect();
    assert!(gone.is_empty(), "these are in no prose any more: {gone:?}");
}

/// The files of results, each with the path of the page that is rendered from it.
fn results() -> Vec<(TextFile, String)> {
    let files = repository::files_ending_in(".toml").into_iter();
    let results: Vec<(TextFile, String)> = files
        .filter_map(|file| {
            let name = file.path.strip_prefix(measurements::RESULTS)?;
            let name = name.strip_suffix(".toml")?;
            let page = format!("{}{name}.md", measurements::PAGES);
            Some((file, page))
        })
        .collect();
    assert!(
        results.len() > 10,
        "only {} files of results",
        results.len()
    );
    results
}

#[test]
fn measurements_are_rendered_from_results() {
    let write = std::env::var_os(repository::WRITE).is_some();
    let mut stale = Vec::new();
    for (file, page) in results() {
        let rendered = measurements::render(&file.path, &measurements::parse(&file.text));
        let path = repository::root().join(&page);
        if fs::read_to_string(&path).unwrap_or_default() == rendered {
            continue;
        }
        if write {
            fs::write(&path, rendered).unwrap();
        } else {
            stale.push(page);
        }
    }
    assert!(
        stale.is_empty(),
        "render these anew ({}/README.md): {stale:?}",
        measurements::PAGES
    );
}

#[test]
fn the_specification_agrees_with_the_results() {
    let text = fs::read_to_string(repository::root().join("SPECIFICATION.md")).unwrap();
    let messages: Vec<String> = results()
        .iter()
        .flat_map(|(file, page)| {
            measurements::disagreements(&text, page, &measurements::parse(&file.text))
        })
        .collect();
    assert!(messages.is_empty(), "{}", messages.join("\n"));
}
