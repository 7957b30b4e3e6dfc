//! The least budget of a described domain, against the verdicts of the analysis.

use tailbound_assessment::analysis::analyze;
use tailbound_assessment::interface::description::{
    DescriptionInterfaces, DescriptionQuery, DomainOrder, description_interfaces,
};
use tailbound_assessment::interface::{InterfaceQuery, SupplyKind};
use tailbound_assessment::schedulability::DeadlineVerdict;
use tailbound_model::{Description, InputFiles};
use tailbound_time::Duration;

const ONE_DOMAIN: &str = r#"
    schema_version = 1
    name = "one-domain"
    hosts.here.cpus = [0]

    [domains.only]
    kind = "process"
    builtin = "synthetic-service"
    reservation = { backend = "BACKEND", budget = "BUDGET", period = "10ms", priority = 90, cpus = [0] }

    [services.only]
    domain = "only"
    protocol = "synthetic"
    endpoint = "unix:/tmp/tailbound-interface-only.sock"
    scheduling = "SCHEDULING"

    [services.only.tasks.often]
    arrivals = { kind = "periodic", period = "25ms" }
    execution_time = { kind = "constant", value = "2ms" }
    deadline = "20ms"

    [services.only.tasks.seldom]
    arrivals = { kind = "sporadic", min_gap = "70ms", max_gap = "90ms" }
    execution_time = { kind = "constant", value = "7ms" }
    clients = 2
"#;

fn described(budget: Duration, backend: &str, scheduling: &str) -> Description {
    let text = ONE_DOMAIN
        .replace("BACKEND", backend)
        .replace("BUDGET", &budget.to_string())
        .replace("SCHEDULING", scheduling);
    tailbound_model::parse(&text, "one-domain.toml").unwrap()
}

fn interfaces(description: &Description, kind: SupplyKind) -> DescriptionInterfaces {
    let query = DescriptionQuery {
        query: InterfaceQuery {
            kind,
            periods: Vec::new(),
            jitter: Duration::ZERO,
            deadline: None,
            overhead: Duration::ZERO,
            cpus: 1,
        },
        domain: None,
        order: DomainOrder::EarliestDeadlineFirst,
        compose: None,
    };
    description_interfaces(description, &InputFiles::default(), &query).unwrap()
}

/// The back ends guarantee a budget somewhere in each period, or as a deferrable server alone on its CPU.
const MODELS: [(&str, SupplyKind); 2] = [
    ("deadline", SupplyKind::Periodic),
    ("ds-freeze", SupplyKind::Deferrable),
];

#[test]
fn the_analysis_says_yes_with_the_least_budget_and_not_with_a_nanosecond_less() {
    let orders = [
        "fifo",
        "rate-monotonic",
        "deadline-monotonic",
        "earliest-deadline-first",
    ];
    for scheduling in orders {
        for (backend, kind) in MODELS {
            let roomy = described(Duration::from_millis(6), backend, scheduling);
            let answer = interfaces(&roomy, kind);
            let budget = answer.modes[0].domains[0].choice().unwrap().budget.unwrap();
            let verdicts = |budget: Duration| {
                let description = described(budget, backend, scheduling);
                let analysis = analyze(&description, &InputFiles::default()).unwrap();
                let tasks = analysis.modes[0].tasks.iter();
                tasks
                    .map(|task| task.verdict)
                    .collect::<Vec<DeadlineVerdict>>()
            };
            let all_met = |budget| {
                verdicts(budget)
                    .iter()
                    .all(|one| *one == DeadlineVerdict::Met)
            };
            assert!(all_met(budget), "{scheduling} {backend} {budget}");
            let less = budget - Duration::from_nanos(1);
            assert!(!all_met(less), "{scheduling} {backend} {less}");
        }
    }
}

/// The least budget beside interference holds what may be charged to it, so the analysis agrees; without the interference
/// it is less.
#[test]
fn the_analysis_says_yes_with_the_least_budget_beside_interference() {
    let source = "
        [[hosts.here.interference]]
        source = \"irq 24\"
        kind = \"interrupt\"
        cpu = 0
        arrivals = { kind = \"minimum-distances\", distances = [\"1ms\"] }
        execution_time = { kind = \"constant\", value = \"100us\" }
    ";
    for (backend, kind) in MODELS {
        let with = |budget: Duration, interference: &str| {
            let text = ONE_DOMAIN
                .replace("BACKEND", backend)
                .replace("BUDGET", &budget.to_string())
                .replace("SCHEDULING", "rate-monotonic");
            tailbound_model::parse(&format!("{text}{interference}"), "one-domain.toml").unwrap()
        };
        let least = |interference| {
            let answer = interfaces(&with(Duration::from_millis(6), interference), kind);
            assert!(answer.objections().is_empty(), "{:?}", answer.objections());
            answer.modes[0].domains[0].choice().unwrap().budget.unwrap()
        };
        let budget = least(source);
        assert!(budget > least(""), "{backend} {budget}");
        let verdict_of = |budget| {
            let analysis = analyze(&with(budget, source), &InputFiles::default()).unwrap();
            analysis.modes[0].schedulable
        };
        assert!(verdict_of(budget), "{backend} {budget}");
        assert!(!verdict_of(least("")), "{backend}");
    }
}

#[test]
fn the_cpu_of_a_domain_alone_has_the_same_utilisation_and_no_less_bandwidth() {
    let description = described(Duration::from_millis(6), "deadline", "rate-monotonic");
    let answer = interfaces(&description, SupplyKind::ExplicitDeadline);
    let mode = &answer.modes[0];
    let domain = &mode.domains[0];
    let choice = domain.choice().unwrap();
    assert!((domain.utilisation - (2.0 / 25.0 + 2.0 * 7.0 / 70.0)).abs() < 1e-12);
    assert!(choice.bandwidth.unwrap() >= domain.utilisation);
    assert!(choice.budget <= choice.deadline && choice.deadline <= choice.period);
    assert!(mode.cpus[0].schedulable && mode.cpus[0].domains == ["only"]);
}
