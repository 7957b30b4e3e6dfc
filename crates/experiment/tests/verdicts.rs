//! One verdict for a description, whichever verb is asked: `check`, `analyze`, `apply` or `run`.

use std::fs;
use std::path::Path;

use tailbound_assessment::analysis::analyze;
use tailbound_experiment::host_check::{HostCheck, obstacle_of_run};
use tailbound_experiment::host_set::HostSet;
use tailbound_model::{Description, InputFiles, Variant};

/// Whether each verb lets a description pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdicts {
    check: bool,
    analyze: bool,
    apply: bool,
    run: bool,
}

impl Verdicts {
    /// The verdicts on its hosts; of `analyze` only what is said about CPUs, since the others do not ask whether tasks
    /// meet their deadlines.
    pub fn of(description: &Description, hosts: &HostSet) -> Self {
        let check = HostCheck::of(description, hosts);
        let analysis = analyze(description, &InputFiles::default());
        let first = &description.experiment.variants[0];
        let fits = |variant| matches!(obstacle_of_run(description, variant, hosts), Ok(None));
        Self {
            check: check.is_ok_and(|check| check.objections().is_empty()),
            analyze: analysis.is_ok_and(|analysis| {
                let mut cpus = analysis.modes.iter().flat_map(|mode| &mode.cpus);
                cpus.all(|cpu| cpu.admitted)
            }),
            apply: fits(&Variant::as_described()),
            run: fits(first),
        }
    }

    /// All the same.
    pub fn all(pass: bool) -> Self {
        let [check, analyze, apply, run] = [pass; 4];
        Self {
            check,
            analyze,
            apply,
            run,
        }
    }
}

fn wrong_verdicts(folder: &str, expected: bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/descriptions")
        .join(folder);
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let description = tailbound_model::parse(&text, name).unwrap();
        let verdicts = Verdicts::of(&description, &crate::admission::hosts(&description));
        count += 1;
        if verdicts != Verdicts::all(expected) {
            wrong.push(format!("{name}: {verdicts:?}"));
        }
    }
    assert!(count >= 8, "only {count} descriptions");
    wrong
}

#[test]
fn what_fits_passes_every_verb() {
    assert_eq!(wrong_verdicts("admitted", true), Vec::<String>::new());
}

#[test]
fn what_does_not_fit_passes_no_verb() {
    assert_eq!(wrong_verdicts("refused", false), Vec::<String>::new());
}
