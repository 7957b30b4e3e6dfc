//! The checks of `[topics]` and `[chains]`, each by a file with its expected problems.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use tailbound_model::{DescriptionFormat, SectionKind, Severity, to_toml};
use tailbound_topics::{Chains, PortForm, Ports, ReadRule, Topics};

static FORMAT: DescriptionFormat = DescriptionFormat::with(&[
    SectionKind::of::<Topics>(),
    SectionKind::of::<Chains>(),
    SectionKind::of::<Ports>(),
]);

/// The domains that the files in `bad` add their tables to.
const ROBOT: &str = include_str!("robot.toml");

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files
}

/// Domains with programs, for ports.
const PROGRAMS: &str = r#"
[domains.navigator]
kind = "process"
host = "front"
cpus = [0]
command = ["navigate"]

[domains.pilot]
kind = "process"
host = "front"
cpus = [0]
command = ["fly"]

[domains.crowd]
kind = "process"
host = "front"
cpus = [0]
command = ["walk"]
instances = 3

[domains.hog]
kind = "process"
host = "front"
cpus = [0]
builtin = "cpu-hog"
"#;

const GOOD_PORTS: &str = r#"
[ports.position]
kind = "sampling"
from = "navigator"
to = ["pilot"]
size = 64
validity = "20ms"

[ports.orders]
kind = "queuing"
from = "pilot"
to = ["navigator"]
size = 16
depth = 1
"#;

/// `UPDATE=1` writes the expectations anew, to be read in the diff.
#[test]
fn bad_tables_yield_the_expected_problems() {
    let files = bad_files();
    assert!(files.len() >= 20, "only {} bad files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let programs = match name.starts_with("port-") {
            true => PROGRAMS,
            false => "",
        };
        let text = format!("{ROBOT}{programs}{}", fs::read_to_string(&path).unwrap());
        let problems = FORMAT.check(&text, name).problems;
        assert!(!problems.is_empty(), "{name} has no problem");
        assert!(
            problems.iter().all(|one| !one.remedy.is_empty()),
            "{problems}"
        );
        let rendered = format!("{problems}\n");
        let expected = path.with_extension("expected");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected, &rendered).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(rendered, expected, "{name}");
    }
}

const GOOD: &str = r#"
[topics.image]
publishers = ["camera/grab"]
subscribers = ["planner/plan"]
released = ["tracker/track"]
size = 4096
quality = { deadline = "20ms", lifespan = "100ms" }
contract = { messages = 1, interval = "20ms" }

[topics.people]
publishers = ["tracker/track"]
subscribers = ["planner/plan"]
size = 64

[topics.command]
publishers = ["planner/plan"]
subscribers = ["brake/drive"]
size = 16
transport = "udp"
delay = { least = "100us", most = "300us" }

[chains.avoidance]
path = ["camera/grab", "tracker/track", "people", "planner/plan", "brake/drive"]
data_age = "200ms"
reaction_time = "200ms"
"#;

#[test]
fn a_good_description_has_no_problem_and_round_trips() {
    let text = format!("{ROBOT}{GOOD}");
    let checked = FORMAT.check(&text, "good.toml");
    assert!(checked.problems.is_empty(), "{}", checked.problems);
    let description = checked.description.unwrap();
    let again = FORMAT.check(&to_toml(&description).unwrap(), "again.toml");
    assert_eq!(again.description.as_ref(), Some(&description));

    let (topics, chains): (Topics, Chains) = (description.section(), description.section());
    let links = chains.0["avoidance"].links(&topics).unwrap();
    let rules: Vec<(&str, ReadRule)> = links
        .iter()
        .map(|link| (link.topic.as_str(), link.reads))
        .collect();
    let expected = [
        ("image", ReadRule::Released),
        ("people", ReadRule::Newest),
        ("command", ReadRule::Newest),
    ];
    assert_eq!(rules, expected);
}

#[test]
fn good_ports_have_no_problem_and_round_trip() {
    let text = format!("{ROBOT}{PROGRAMS}{GOOD_PORTS}");
    let checked = FORMAT.check(&text, "ports.toml");
    assert!(checked.problems.is_empty(), "{}", checked.problems);
    let description = checked.description.unwrap();
    let again = FORMAT.check(&to_toml(&description).unwrap(), "again.toml");
    assert_eq!(again.description.as_ref(), Some(&description));
    let ports: Ports = description.section();
    assert_eq!(ports.0["position"].depth, 4);
    assert_eq!(ports.0["orders"].kind, PortForm::Queuing);
}

/// Figures that are just wide enough pass, and the next worse ones do not.
#[test]
fn figures_of_a_topic_are_judged_at_their_borders() {
    let problems = |from: &str, to: &str| {
        let good = GOOD.replace(from, to);
        assert_ne!(good, GOOD, "{from}");
        let checked = FORMAT.check(&format!("{ROBOT}{good}"), "border.toml");
        checked.problems.iter().count()
    };
    let least = "least = \"100us\"";
    assert_eq!(problems(least, "least = \"300us\""), 0);
    assert_eq!(problems(least, "least = \"301us\""), 1);
    let delay = "delay = { least = \"100us\", most = \"300us\" }";
    let with_lifespan = |lifespan: &str| {
        let quality = format!("{delay}\nquality = {{ lifespan = \"{lifespan}\" }}");
        problems(delay, &quality)
    };
    assert_eq!(with_lifespan("100us"), 0);
    assert_eq!(with_lifespan("99us"), 1);
    let contract = "contract = { messages = 1,";
    let with_bytes = |bytes: u32| problems(contract, &format!("{contract} bytes = {bytes},"));
    assert_eq!(with_bytes(4096), 0);
    // Too few for the longest message, and so for all messages.
    assert_eq!(with_bytes(4095), 2);
    let distance = |least: &str| {
        let two = format!("contract = {{ messages = 2, least_distance = \"{least}\",");
        problems(contract, &two)
    };
    assert_eq!(distance("19999us"), 0);
    assert_eq!(distance("20ms"), 1);
}

/// A promise of the released task's arrivals is judged by figures: one that is just wide enough passes.
#[test]
fn the_promise_of_a_released_task_is_judged_at_its_border() {
    let released_at = |period: &str| {
        let robot = ROBOT.replace(
            "arrivals = { kind = \"sporadic\", min_gap = \"20ms\", max_gap = \"40ms\" }",
            &format!("arrivals = {{ kind = \"periodic\", period = \"{period}\" }}"),
        );
        assert_ne!(robot, ROBOT);
        let checked = FORMAT.check(&format!("{robot}{GOOD}"), "border.toml");
        let errors = checked.problems.iter();
        errors.filter(|one| one.severity == Severity::Error).count()
    };
    assert_eq!(released_at("20ms"), 0);
    assert_eq!(released_at("20001us"), 1);
}
