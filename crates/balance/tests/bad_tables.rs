//! The checks of `[balance]`, each by a file with its expected problems.

use std::fs;
use std::path::{Path, PathBuf};

use tailbound_balance::{BalancePlan, BalanceTable};
use tailbound_model::{DescriptionFormat, SectionKind, to_toml};
use tailbound_time::Duration;

static FORMAT: DescriptionFormat = DescriptionFormat::with(&[SectionKind::of::<BalanceTable>()]);

/// The domains that the files in `bad` add their tables to.
const SHOPS: &str = include_str!("shops.toml");

/// `UPDATE=1` writes the expectations anew, to be read in the diff.
#[test]
fn bad_tables_yield_the_expected_problems() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    assert!(files.len() >= 10, "only {} bad files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = format!("{SHOPS}{}", fs::read_to_string(&path).unwrap());
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
        assert_eq!(
            rendered,
            fs::read_to_string(&expected).unwrap_or_default(),
            "{name}"
        );
    }
}

const GOOD: &str = r#"
[balance]
interval = "2s"
gain = 0.5
capacity = "80ms"
manager = "1ms"
hysteresis = "500us"

[balance.applications.shop]
domains = ["web", "database"]
source = "unix:/run/shop.sock"
least = "10ms"

[balance.applications.forum]
domains = ["forum"]
source = "prometheus:http://127.0.0.1:9090"
query = "clamp(1 - forum_latency_seconds, -1, 1)"
least = "5ms"
most = "50ms"
weight = 3
"#;

#[test]
fn a_good_table_has_no_problem_and_round_trips() {
    let checked = FORMAT.check(&format!("{SHOPS}{GOOD}"), "good.toml");
    assert!(checked.problems.is_empty(), "{}", checked.problems);
    let description = checked.description.unwrap();
    let again = FORMAT.check(&to_toml(&description).unwrap(), "again.toml");
    assert_eq!(again.description.as_ref(), Some(&description));
    let plan = BalancePlan::of(&description).unwrap();
    assert_eq!(plan.balance.stale_after(), Duration::from_secs(6));
    assert_eq!(plan.balance.answer_within(), Duration::from_secs(1));
    // By name: the forum, then the shop.
    let capacities = plan.rule().unwrap().capacities().to_vec();
    assert_eq!(
        capacities,
        [Duration::from_millis(50), Duration::from_millis(30)]
    );
    let budgets = plan.applications[1].budgets(Duration::from_millis(40));
    assert_eq!(
        budgets,
        [Duration::from_millis(30), Duration::from_millis(10)]
    );
    let least = plan.applications[1].budgets(Duration::from_millis(3));
    assert_eq!(least, [Duration::from_millis(2), Duration::from_millis(1)]);
}

#[test]
fn a_description_without_the_table_has_no_plan() {
    let checked = FORMAT.check(SHOPS, "shops.toml");
    assert!(checked.problems.is_empty(), "{}", checked.problems);
    assert!(BalancePlan::of(&checked.description.unwrap()).is_none());
}
