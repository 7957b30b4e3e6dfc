//! An agent that says that a task is stopped, held against what the host sees: a liar is found out, and an
//! honest agent never is.

// What other tests need of them is not needed here.

use tailbound_control::Client;
use tailbound_model::{BackendKind, BudgetScope, RequestsMeanwhile};
use tailbound_modes::control::{ModesClient, ModesStatus};
use tailbound_modes::transition::{Ending, StepKind};
use tailbound_time::Duration;

use crate::modes_stage::{Manner, ModesStage, Shares};
use crate::stage::eventually;

/// Where budgets end at ticks they have to be long.
const LONG_PERIOD: Duration = Duration::from_millis(100);
const PERIOD: Duration = Duration::from_millis(20);
const MODES: [Shares; 2] = [
    Shares {
        mode: "run",
        thousandths: [400, 200],
        periods: 1,
        works: true,
    },
    Shares {
        mode: "rest",
        thousandths: [200, 400],
        periods: 1,
        works: false,
    },
];

fn set(test: &str, backend: BackendKind) -> Option<(ModesStage, Client)> {
    let period = match backend {
        BackendKind::Deadline => LONG_PERIOD,
        _ => PERIOD,
    };
    ModesStage::set(
        test,
        (backend, BudgetScope::EachCpu),
        period,
        &MODES,
        RequestsMeanwhile::Queue,
    )
}

fn modes(client: &mut Client) -> ModesStatus {
    client.modes().unwrap().unwrap()
}

/// What the metrics say of a domain's agent.
fn metric(client: &mut Client, start: &str) -> u64 {
    let text = client.metrics().unwrap();
    let line = text.lines().find(|line| line.starts_with(start));
    let value = line.unwrap().rsplit(' ').next().unwrap();
    value.parse().unwrap()
}

fn a_liar_is_named(backend: BackendKind) {
    let test = format!("a liar is named, over {backend:?}");
    let Some((stage, mut client)) = set(&test, backend) else {
        return;
    };
    let domain = stage.domain(0);
    let gauge = format!("tailbound_task_contradicts_agent{{domain=\"{domain}\",task=\"work\"}}");
    let total = format!("tailbound_agent_contradictions_total{{domain=\"{domain}\"}}");
    assert_eq!(metric(&mut client, &gauge), 0);
    stage.behave(Manner::Lies);
    let report = stage.change(&mut client, "rest");
    assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
    eventually("the liar is named", || {
        !modes(&mut client).contradictions.is_empty()
    });
    let status = modes(&mut client);
    let contradiction = &status.contradictions[0];
    assert_eq!(
        (contradiction.domain.as_str(), contradiction.task.as_str()),
        (domain.as_str(), "work")
    );
    assert!(
        contradiction.said_at < contradiction.seen_at
            && contradiction.used >= Duration::from_millis(1)
    );
    let last = status.last.unwrap();
    assert_eq!((last.to.as_str(), &last.outcome), ("rest", &report.outcome));
    let steps = last.timeline.steps.iter().filter(|step| {
        let is_it = matches!(&step.kind, StepKind::Contradicted { task, .. } if task == "work");
        is_it && step.domain == domain
    });
    assert_eq!(steps.count(), 1, "{:?}", last.timeline);
    assert_eq!(
        (metric(&mut client, &gauge), metric(&mut client, &total)),
        (1, 1)
    );
    // What is to run runs against nobody's word.
    stage.behave(Manner::Obeys);
    stage.change(&mut client, "run");
    eventually("it is named no longer", || {
        modes(&mut client).contradictions.is_empty()
    });
    assert_eq!(
        (metric(&mut client, &gauge), metric(&mut client, &total)),
        (0, 1)
    );
    stage.expect_restored(client);
}

#[test]
fn a_liar_is_named_over_ds_freeze() {
    a_liar_is_named(BackendKind::DsFreeze);
}

#[test]
fn a_liar_is_named_over_deadline() {
    a_liar_is_named(BackendKind::Deadline);
}

#[test]
fn a_liar_is_named_without_a_back_end() {
    a_liar_is_named(BackendKind::None);
}

/// Changes as fast as can be, and changes that last long enough for several looks.
fn an_honest_agent_is_never_named(backend: BackendKind) {
    let test = format!("an honest agent, over {backend:?}");
    let Some((stage, mut client)) = set(&test, backend) else {
        return;
    };
    let total = format!(
        "tailbound_agent_contradictions_total{{domain=\"{}\"}}",
        stage.domain(0)
    );
    for round in 0..40_u32 {
        for mode in ["rest", "run"] {
            let report = stage.change(&mut client, mode);
            assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
            // The host looks where a task is said to be stopped, which is in `rest`; after the first change back, too.
            if round == 0 || (round == 20 && mode == "rest") {
                std::thread::sleep(std::time::Duration::from_millis(1_500));
            }
            let contradictions = modes(&mut client).contradictions;
            assert_eq!(contradictions, [], "{test}: {round}, {mode}");
        }
    }
    assert_eq!(metric(&mut client, &total), 0);
    stage.expect_restored(client);
}

#[test]
fn an_honest_agent_is_never_named_over_ds_freeze() {
    an_honest_agent_is_never_named(BackendKind::DsFreeze);
}

#[test]
fn an_honest_agent_is_never_named_over_deadline() {
    an_honest_agent_is_never_named(BackendKind::Deadline);
}
