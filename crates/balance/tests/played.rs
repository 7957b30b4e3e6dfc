//! The loop against modelled applications: convergence, fairness, and applications that lie or fall silent.

use tailbound_balance::simulation::{PlayedBalance, SimulationError, simulate};
use tailbound_balance::{Balance, BalancePlan};
use tailbound_model::{DescriptionFormat, SectionKind};

static FORMAT: DescriptionFormat = DescriptionFormat::with(&[SectionKind::of::<Balance>()]);

/// A host with so many applications, whose loads follow.
fn description(phases: &[&str]) -> String {
    let count = phases.len();
    let mut text =
        String::from("schema_version = 1\nname = \"shops\"\n\n[hosts.here]\ncpus = [0]\n");
    text += &format!("\n[balance]\ninterval = \"5s\"\ncapacity = \"{}ms\"\n", 90);
    for (index, phases) in phases.iter().enumerate() {
        text += &format!(
            "\n[domains.shop-{index}]\nkind = \"process\"\npids = [{pid}]\nreservation = {{ backend = \"cfs-quota\", budget = \"{budget}ms\", \
             period = \"100ms\", cpus = [0] }}\n\n[balance.applications.shop-{index}]\ndomains = [\"shop-{index}\"]\n\
             source = \"http://127.0.0.1:{port}\"\nleast = \"2ms\"\nsimulated = {{ deadline = \"1s\", mandatory = \"5ms\", \
             optional = \"25ms\", phases = [{phases}] }}\n",
            pid = 100 + index,
            port = 8000 + index,
            budget = 90 / count,
        );
    }
    text
}

fn played(phases: &[&str], seed: u64) -> PlayedBalance {
    simulate(&plan(&description(phases)), seed).unwrap()
}

fn plan(text: &str) -> BalancePlan {
    let checked = FORMAT.check(text, "shops.toml");
    assert!(checked.problems.is_empty(), "{}", checked.problems);
    BalancePlan::of(&checked.description.unwrap()).unwrap()
}

/// The mean capacity in the second half of a phase, in percent of the whole.
fn shares(played: &PlayedBalance, phase: usize) -> Vec<f64> {
    let ends = played.phases[phase].ends.iter();
    ends.map(|one| one.capacity_ns as f64 / played.whole_ns as f64 * 100.0)
        .collect()
}

#[test]
fn an_application_in_need_gets_what_another_does_not_need() {
    let quiet = "{ length = \"800s\", rate = \"4/s\" }";
    let crowd = "{ length = \"200s\", rate = \"4/s\" }, { length = \"600s\", rate = \"18/s\" }";
    for seed in 1..6 {
        let played = played(&[quiet, crowd], seed);
        let (before, after) = (&played.phases[0], &played.phases[1]);
        assert!(
            before.ends.iter().all(|one| one.service_level > 0.95),
            "{before:?}"
        );
        assert!(shares(&played, 1)[1] > 55.0, "{after:?}");
        assert!(
            after.settled_after.is_some_and(|intervals| intervals <= 20),
            "{after:?}"
        );
    }
}

#[test]
fn sums_hold_in_every_interval() {
    let load = "{ length = \"100s\", rate = \"30/s\" }, { length = \"100s\", users = 50, think_time = \"2s\" }";
    let played = played(&[load, "{ length = \"200s\", rate = \"2/s\" }", load], 3);
    for interval in 0..40 {
        let sum: u64 = played
            .applications
            .iter()
            .map(|one| one.intervals[interval].capacity_ns)
            .sum();
        assert_eq!(sum, played.whole_ns);
    }
}

#[test]
fn in_an_overload_capacities_are_equal() {
    let crowd = "{ length = \"900s\", rate = \"40/s\" }";
    let users = "{ length = \"900s\", users = 200, think_time = \"5s\" }";
    for seed in 1..6 {
        let played = played(&[crowd, users, crowd, crowd], seed);
        let phase = &played.phases[0];
        assert!(
            phase.unfairness.is_some_and(|most| most < 0.05),
            "{phase:?}"
        );
        assert!(
            phase.settled_after.is_some_and(|intervals| intervals <= 20),
            "{phase:?}"
        );
    }
}

#[test]
fn a_liar_gets_no_more_than_others_leave() {
    let liar = "{ length = \"300s\", rate = \"4/s\" }, { length = \"600s\", rate = \"4/s\", report = \"least\" }";
    let crowd = "{ length = \"900s\", rate = \"40/s\" }";
    for seed in 1..4 {
        let played = played(&[liar, crowd, crowd], seed);
        for share in &shares(&played, 1)[1..] {
            assert!(
                *share > 30.0,
                "the fair share is a third: {:?}",
                played.phases[1]
            );
        }
    }
}

#[test]
fn a_silent_application_keeps_its_capacity() {
    let silent = "{ length = \"100s\", rate = \"4/s\" }, { length = \"200s\", rate = \"4/s\", report = \"none\" }";
    let crowd = "{ length = \"300s\", rate = \"40/s\" }";
    let played = played(&[silent, crowd, crowd], 1);
    let held: Vec<u64> = played.applications[0].intervals[20..]
        .iter()
        .map(|one| one.capacity_ns)
        .collect();
    assert!(held.iter().all(|one| *one == held[0]), "{held:?}");
    assert!(
        played.applications[0].intervals[30]
            .matching_value
            .is_none()
    );
}

#[test]
fn one_seed_is_one_course() {
    let load = "{ length = \"100s\", rate = \"30/s\" }";
    assert_eq!(played(&[load, load], 7), played(&[load, load], 7));
    assert_ne!(played(&[load, load], 7), played(&[load, load], 8));
}

#[test]
fn an_application_without_a_model_is_named() {
    let text = description(&["{ length = \"100s\", rate = \"30/s\" }"; 2]);
    let begin = text.rfind("simulated = ").unwrap();
    let plan = plan(&text[..begin]);
    assert_eq!(
        simulate(&plan, 1).unwrap_err(),
        SimulationError::NoModel("shop-1".into())
    );
}
