//! Every file in `tests/bad` yields exactly the problems in its `.expected`; every file in
//! `tests/good` yields none. `UPDATE=1` writes the expectations anew, to be read in the diff.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == extension))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn bad_files_yield_the_expected_problems() {
    let mut wrong = Vec::new();
    let files = files("bad", "toml");
    assert!(files.len() >= 60, "only {} bad files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let checked = tailbound_model::check(&text, &name(&path));
        let rendered = format!("{}\n", checked.problems);
        assert!(
            !checked.problems.is_empty(),
            "{} has no problem",
            name(&path)
        );
        let expected_path = path.with_extension("expected");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected_path, &rendered).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if rendered != expected {
            wrong.push(format!(
                "--- {}\nexpected:\n{expected}got:\n{rendered}",
                name(&path)
            ));
        }
        for problem in &checked.problems {
            assert!(
                !problem.remedy.is_empty(),
                "{}: no remedy: {problem}",
                name(&path)
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn good_files_yield_no_problem_and_round_trip() {
    let files = files("good", "toml");
    assert!(files.len() >= 5);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let checked = tailbound_model::check(&text, &name(&path));
        assert!(checked.problems.is_empty(), "{}", checked.problems);
        let description = checked.description.unwrap();
        let written = tailbound_model::to_toml(&description).unwrap();
        assert_eq!(
            tailbound_model::parse(&written, "written.toml").as_ref(),
            Ok(&description),
            "{written}"
        );
    }
}
