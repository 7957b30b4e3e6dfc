//! Descriptions and the files they name, read from a folder.

use std::fs;
use std::path::{Path, PathBuf};

use tailbound_model::{DescriptionFormat, LoadError, TracedJob, check, load_inputs};
use tailbound_time::Duration;

static FORMAT: DescriptionFormat = DescriptionFormat::with(&[]);

/// A folder with the good HTTP description, which names a trace and samples.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("good/http.toml");
    fs::write(folder.path().join("d.toml"), text).unwrap();
    folder
}

#[test]
fn inputs_are_found_beside_the_description() {
    let folder = folder();
    fs::write(folder.path().join("releases.txt"), "1ms\n2ms\n").unwrap();
    fs::write(
        folder.path().join("execution.csv"),
        "value_ns,count\n500,2\n",
    )
    .unwrap();
    let loaded = FORMAT.load(folder.path().join("d.toml")).unwrap();
    let inputs = loaded.inputs().unwrap();
    let jobs = [1, 2].map(|at| TracedJob {
        release: Duration::from_millis(at),
        execution: None,
    });
    assert_eq!(
        inputs.trace(Path::new("releases.txt")),
        Some(jobs.as_slice())
    );
    assert_eq!(
        inputs.samples(Path::new("execution.csv")).unwrap()[0].count,
        2
    );
    assert_eq!(load_inputs(&loaded.description, folder.path()), Ok(inputs));
}

#[test]
fn a_missing_file_is_told_at_the_line_that_names_it() {
    let folder = folder();
    fs::write(folder.path().join("execution.csv"), "value_ns\n500\nfast\n").unwrap();
    let loaded = FORMAT.load(folder.path().join("d.toml")).unwrap();
    let problems = loaded.inputs().unwrap_err();
    let places: Vec<(&str, usize, &str)> = problems
        .iter()
        .map(|p| (p.file.rsplit('/').next().unwrap(), p.line, p.key.as_str()))
        .collect();
    let line = loaded
        .text
        .lines()
        .position(|line| line.contains("releases.txt"))
        .unwrap()
        + 1;
    let key = "services.web.tasks.replay.arrivals.file";
    assert_eq!(places, [("d.toml", line, key), ("execution.csv", 3, "")]);
    let problems = load_inputs(&loaded.description, folder.path()).unwrap_err();
    let files: Vec<PathBuf> = problems.iter().map(|p| PathBuf::from(&p.file)).collect();
    let expected = ["execution.csv", "releases.txt"].map(|name| folder.path().join(name));
    assert_eq!(files, expected);
}

#[test]
fn an_input_that_has_no_end_is_refused() {
    let folder = folder();
    fs::create_dir(folder.path().join("releases.txt")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("execution.csv")).unwrap();
    let problems = FORMAT
        .load(folder.path().join("d.toml"))
        .unwrap()
        .inputs()
        .unwrap_err();
    assert!(
        problems.iter().all(|p| p.message.contains("no plain file")),
        "{problems}"
    );
    assert_eq!(problems.len(), 2);
}

#[test]
fn what_is_no_text_is_refused() {
    let folder = folder();
    let path = folder.path().join("d.toml");
    fs::write(&path, b"schema_version = 1\nname = \"\xff\"\n").unwrap();
    let LoadError::Problems { problems, .. } = FORMAT.load(&path).unwrap_err() else {
        panic!("no problems");
    };
    let problem = problems.iter().next().unwrap();
    assert_eq!((problem.line, problem.column), (2, 9));
    assert!(matches!(
        FORMAT.load(folder.path().join("none.toml")),
        Err(LoadError::Read { .. })
    ));
    assert!(matches!(
        FORMAT.load(folder.path()),
        Err(LoadError::Read { .. })
    ));
}

#[test]
fn a_description_has_an_end() {
    let folder = folder();
    let path = folder.path().join("d.toml");
    fs::write(&path, "#".repeat(3 << 20)).unwrap();
    let LoadError::Problems { problems, text } = FORMAT.load(&path).unwrap_err() else {
        panic!("no problems");
    };
    assert_eq!(problems.len(), 1);
    assert!(text.len() < 2 << 20);
}

#[test]
fn the_examples_are_descriptions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for example in fs::read_dir(root).unwrap() {
        let example = example.unwrap().path();
        let Ok(files) = fs::read_dir(&example) else {
            continue;
        };
        for file in files {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let is_toml = path
                .extension()
                .is_some_and(|extension| extension == "toml");
            // Tables of subsystems are not known here; tests/examples.rs checks the descriptions that have some.
            let has_sections = ["\n[topics.", "\n[sampling]"]
                .iter()
                .any(|table| text.contains(table));
            if !is_toml || !text.contains("schema_version") || has_sections {
                continue;
            }
            let checked = check(&text, &path.display().to_string());
            assert!(!checked.problems.has_errors(), "{}", checked.problems);
            let description = checked.description.unwrap();
            assert!(
                load_inputs(&description, &example).is_ok(),
                "{}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn a_trace_without_execution_times_is_refused_where_they_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("good/workloads.toml");
    fs::write(folder.path().join("d.toml"), text).unwrap();
    let histogram = "from_ns,to_ns,count\n0,500,2\n";
    fs::write(folder.path().join("histogram.csv"), histogram).unwrap();
    fs::write(folder.path().join("jobs.csv"), "release_ns\n5\n").unwrap();
    let loaded = FORMAT.load(folder.path().join("d.toml")).unwrap();
    let refusal = loaded.inputs().unwrap_err().to_string();
    assert!(
        refusal.contains("does not say how long its jobs ran"),
        "{refusal}"
    );
    fs::write(
        folder.path().join("jobs.csv"),
        "release_ns,execution_ns\n5,7\n",
    )
    .unwrap();
    let inputs = loaded.inputs().unwrap();
    assert_eq!(inputs.trace(Path::new("jobs.csv")).unwrap().len(), 1);
    assert_eq!(
        inputs.histogram(Path::new("histogram.csv")).unwrap().len(),
        1
    );
}
