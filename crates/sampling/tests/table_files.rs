//! The checks of the table, each by a file with its expected problems.

use std::fs;
use std::path::{Path, PathBuf};

use tailbound_model::{DescriptionFormat, SectionKind, to_toml};
use tailbound_sampling::{SampleGrid, SamplingCampaign, SamplingDesign};

static FORMAT: DescriptionFormat =
    DescriptionFormat::with(&[SectionKind::of::<SamplingCampaign>()]);

/// The application that the files in `bad` add their table to.
const APPLICATION: &str = include_str!("application.toml");

const GOOD: &str = r#"
[sampling]
design = "adaptive"
services = ["web"]
share = "20..90/10"
period = "10ms,20ms,40ms"
proportions = { web = 3, database = 1 }
axes = { "services.web.tasks.get.arrivals.rate" = "30/s,60/s" }
time_budget = "5min"

[sampling.metrics]
inside_ms = { url = "http://127.0.0.1:8080/report?since_ms={since_ms}", json = "/mean_ms" }
requests = { url = "http://127.0.0.1:8080/metrics", prometheus = 'requests_total{code="200"}', counter = true }
errors = { url = "https://127.0.0.1:8443/report", xml = "/report/request[@name='get']/@errors", stamp_ms = "/report/@until_ms", tls = { authority = "shop.pem" } }
rows = { command = ["mariadb", "--batch", "--skip-column-names", "--execute", "SELECT COUNT(*) FROM shop.response"] }
"#;

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files
}

/// `UPDATE=1` writes the expectations anew, to be read in the diff.
#[test]
fn bad_tables_yield_the_expected_problems() {
    let files = bad_files();
    assert!(files.len() >= 20, "only {} bad files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let table = fs::read_to_string(&path).unwrap();
        let application = match name {
            "no-promise.toml" => APPLICATION.split("[[services.web.slos]]").next().unwrap(),
            _ => APPLICATION,
        };
        let problems = FORMAT
            .check(&format!("{application}{table}"), name)
            .problems;
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

#[test]
fn a_good_table_has_no_problem_and_round_trips() {
    let checked = FORMAT.check(&format!("{APPLICATION}{GOOD}"), "good.toml");
    assert!(checked.problems.is_empty(), "{}", checked.problems);
    let description = checked.description.unwrap();
    let again = FORMAT.check(&to_toml(&description).unwrap(), "again.toml");
    assert_eq!(again.description.as_ref(), Some(&description));
    let campaign: SamplingCampaign = description.section();
    assert_eq!(campaign.design, SamplingDesign::Adaptive);
    assert_eq!(campaign.promised(&description), ["web"]);
    let parts = campaign.parts(&description);
    assert_eq!((parts["web"], parts["database"]), (0.75, 0.25));
    let grid = SampleGrid::new(campaign.all_axes().unwrap());
    assert_eq!(grid.len(), 2 * 8 * 3);
}

/// Without proportions the parts are those of the described bandwidths: 2 ms and 6 ms of 10 ms.
#[test]
fn parts_follow_the_description_unless_they_are_given() {
    let table = "\n[sampling]\nshare = \"20..90/10\"\n";
    let checked = FORMAT.check(&format!("{APPLICATION}{table}"), "parts.toml");
    let description = checked.description.unwrap();
    let campaign: SamplingCampaign = description.section();
    let parts = campaign.parts(&description);
    assert!((parts["web"] - 0.75).abs() < 1e-12);
    assert!((parts["database"] - 0.25).abs() < 1e-12);
}

#[test]
fn a_description_without_the_table_samples_nothing() {
    let description = FORMAT.check(APPLICATION, "none.toml").description.unwrap();
    assert!(!description.section::<SamplingCampaign>().varies());
}
