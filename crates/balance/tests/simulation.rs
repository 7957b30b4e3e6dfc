//! The loop against modelled applications: convergence, fairness, and applications that lie or fall silent.

use tailbound_balance::simulation::{BalanceSimulationError, PlayedBalance, simulate};
use tailbound_balance::{BalancePlan, BalanceTable};
use tailbound_model::{DescriptionFormat, SectionKind};

static FORMAT: DescriptionFormat = DescriptionFormat::with(&[SectionKind::of::<BalanceTable>()]);

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

/// Requests come and take as they will, so that a burst moves capacities for a while; but they come back.
#[test]
fn an_application_in_need_gets_what_another_does_not_need() {
    let quiet = "{ length = \"800s\", rate = \"4/s\" }";
    let crowd = "{ length = \"200s\", rate = \"4/s\" }, { length = \"600s\", rate = \"18/s\" }";
    for seed in 1..9 {
        let played = played(&[quiet, crowd], seed);
        let (before, after) = (&played.phases[0], &played.phases[1]);
        assert!(
            before.ends.iter().all(|one| one.service_level > 0.95),
            "{before:?}"
        );
        assert!(shares(&played, 1)[1] > 60.0, "{after:?}");
        assert!(
            after.settled_after.is_some_and(|intervals| intervals <= 20),
            "{after:?}"
        );
        assert!(
            after.steadiness.is_some_and(|share| share > 0.75),
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

/// Four applications that begin with a load for one of them alone, and are then all short.
fn overloaded(rate: &str, seed: u64) -> PlayedBalance {
    let quiet = "{ length = \"300s\", rate = \"2/s\" }";
    let crowd = format!("{{ length = \"600s\", rate = \"{rate}\" }}");
    let late = format!("{quiet}, {crowd}");
    let early = format!("{{ length = \"300s\", rate = \"20/s\" }}, {crowd}");
    let users = format!("{quiet}, {{ length = \"600s\", users = 200, think_time = \"5s\" }}");
    played(&[&early, &users, &late, &late], seed)
}

#[test]
fn in_an_overload_capacities_are_equal() {
    for (rate, seed) in [
        ("16/s", 1),
        ("16/s", 2),
        ("20/s", 3),
        ("20/s", 4),
        ("40/s", 5),
    ] {
        let played = overloaded(rate, seed);
        assert!(shares(&played, 0)[0] > 35.0, "{:?}", played.phases[0]);
        let phase = &played.phases[1];
        assert!(
            phase.unfairness.is_some_and(|most| most < 0.01),
            "{phase:?}"
        );
        assert!(
            phase.settled_after.is_some_and(|intervals| intervals <= 20),
            "{phase:?}"
        );
    }
}

/// As the paper's second figure has it: those below the full level have equal capacities, beside one that needs less.
#[test]
fn those_that_are_short_are_equal_beside_one_that_is_not() {
    let load = |rate: &str| format!("{{ length = \"1200s\", rate = \"{rate}\" }}");
    let (quiet, some, more, most) = (load("2/s"), load("12/s"), load("16/s"), load("25/s"));
    for seed in 1..4 {
        let played = played(&[&quiet, &some, &more, &most], seed);
        let shares = shares(&played, 0);
        assert!(shares[0] < 22.0, "{shares:?}");
        let short = &shares[1..];
        assert!(
            short.iter().all(|one| (one - short[0]).abs() < 1.0),
            "{shares:?}"
        );
    }
}

/// An application that claims need without end gets its fair share and no loan, as long as others are short themselves.
#[test]
fn a_liar_takes_no_more_than_its_fair_share() {
    let liar = "{ length = \"300s\", rate = \"4/s\" }, { length = \"600s\", rate = \"4/s\", report = \"least\" }";
    for (rate, seed) in [("16/s", 1), ("16/s", 2), ("40/s", 3)] {
        let crowd = format!("{{ length = \"900s\", rate = \"{rate}\" }}");
        let played = played(&[liar, &crowd, &crowd], seed);
        for share in &shares(&played, 1)[1..] {
            assert!(
                *share > 33.0,
                "the fair share is a third: {:?}",
                played.phases[1]
            );
        }
    }
}

/// A liar takes from applications that are not short only capacity that they do not need: they keep their levels.
#[test]
fn a_liar_beside_satisfied_applications_costs_them_nothing_they_need() {
    let liar = "{ length = \"600s\", rate = \"4/s\", report = \"least\" }";
    let quiet = "{ length = \"600s\", rate = \"3/s\" }";
    for seed in 1..4 {
        let played = played(&[liar, quiet, quiet], seed);
        let others = &played.phases[0].ends[1..];
        assert!(
            others.iter().all(|one| one.service_level > 0.95),
            "{others:?}"
        );
    }
}

/// An application that dies with a loan gives the loan back once those that it was from need it.
#[test]
fn a_loan_of_an_application_that_fell_silent_is_called_back() {
    let dying = "{ length = \"300s\", rate = \"20/s\" }, { length = \"300s\", rate = \"20/s\", report = \"none\" }";
    let late = "{ length = \"300s\", rate = \"3/s\" }, { length = \"300s\", rate = \"16/s\" }";
    let played = played(&[dying, late, late], 1);
    assert!(shares(&played, 0)[0] > 45.0, "{:?}", played.phases[0]);
    let after = shares(&played, 1);
    assert!(
        after.iter().all(|one| (32.0..35.0).contains(one)),
        "{after:?}"
    );
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
        BalanceSimulationError::NoModel("shop-1".into())
    );
}

/// The report at the end of a phase is about what was in the phase, though the next one begins at the same instant.
#[test]
fn the_last_interval_of_a_phase_reports_as_the_phase_says() {
    let load =
        |report: &str| format!("{{ length = \"50s\", rate = \"4/s\", report = \"{report}\" }}");
    let silent_then_lying = format!("{}, {}", load("none"), load("least"));
    let silent = format!("{}, {}", load("true"), load("none"));
    let played = played(&[&silent_then_lying, &silent], 1);
    let values = |place: usize, intervals: std::ops::Range<usize>| {
        let intervals = &played.applications[place].intervals[intervals];
        let values = intervals.iter().map(|one| one.matching_value);
        values.collect::<Vec<_>>()
    };
    assert_eq!(values(0, 0..10), [None; 10]);
    assert_eq!(values(0, 10..20), [Some(-1.0); 10]);
    assert!(values(1, 5..10).iter().all(Option::is_some));
    assert_eq!(values(1, 10..20), [None; 10]);
}
