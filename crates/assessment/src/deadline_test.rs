//! Every test that fits a set of tasks, side by side: what each says, and by whom it is.

use serde::Serialize;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::schedulability::priority_assignment::{
    PriorityOrder, deadline_monotonic, rate_monotonic,
};
use tailbound_analysis::schedulability::processor_demand::quick_processor_demand;
use tailbound_analysis::schedulability::utilisation_bound::{
    sufficient_hyperbolic, sufficient_liu_layland,
};
use tailbound_analysis::schedulability::{
    compare_utilisation, global_edf, global_fixed_priority, response_time,
};

use crate::task_set::PriorityQuestion;

/// The verdict of one test on a set of tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestVerdict {
    /// The scheduling that the test is for: `fp` (in the order of the tasks), `rm`, `dm`, `audsley` (some
    /// order of fixed priorities), `edf`, or `any`.
    pub scheduling: &'static str,
    /// The test by name.
    pub test: &'static str,
    /// The verdict.
    pub outcome: TestOutcome,
    /// Why the test does not fit, or what stands against the set.
    pub why: Option<String>,
    /// The method, with its source.
    pub method: String,
    /// The assumptions of the method.
    pub assumptions: Vec<&'static str>,
}

/// What a test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestOutcome {
    /// Every job meets its deadline.
    Schedulable,
    /// The test is necessary, or exact, and some job can miss its deadline.
    Unschedulable,
    /// The test is sufficient only and does not accept, or necessary only and does not reject.
    Undecided,
    /// The set is outside the assumptions.
    NotApplicable,
}

impl TestOutcome {
    fn of(accepted: bool, is_exact: bool) -> Self {
        match (accepted, is_exact) {
            (true, _) => Self::Schedulable,
            (false, true) => Self::Unschedulable,
            (false, false) => Self::Undecided,
        }
    }

    /// The verdict in a few words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Schedulable => "schedulable",
            Self::Unschedulable => "not schedulable",
            Self::Undecided => "not shown",
            Self::NotApplicable => "does not fit",
        }
    }
}

/// The answer of a test before its name: the verdict, the method, the assumptions.
type TestAnswer = Result<(TestOutcome, String, Vec<&'static str>), AnalysisError>;

/// The verdicts of all tests for these tasks on `cpus` CPUs, where any job may run on any of several.
///
/// # Errors
/// [`AnalysisError::Invalid`] for several CPUs with blocking, with servers above or without preemption: no
/// test here is for those.
pub fn deadline_tests(
    question: &PriorityQuestion<'_>,
    cpus: u32,
) -> Result<Vec<TestVerdict>, AnalysisError> {
    if cpus > 1 {
        question.refuse_on_several_cpus()?;
    }
    let tasks = question.tasks;
    let mut verdicts = vec![named("any", "utilisation", utilisation(question, cpus))];
    if cpus > 1 {
        verdicts.extend(global(question, cpus));
        return Ok(verdicts);
    }
    if question.is_preemptive {
        let unfit = || match question.servers.is_empty() {
            true => Ok(()),
            false => Err(AnalysisError::NotAnalysed {
                reason: "utilisation bounds below reservation servers".into(),
            }),
        };
        let bound = |test: fn(_, _) -> Result<global_edf::SufficientVerdict, AnalysisError>| {
            unfit()?;
            test(tasks, question.blocking).map(sufficient)
        };
        verdicts.push(named("rm", "Liu & Layland", bound(sufficient_liu_layland)));
        verdicts.push(named("rm", "hyperbolic", bound(sufficient_hyperbolic)));
    }
    let orders = [
        ("fp", PriorityOrder::as_given(tasks.len())),
        ("rm", rate_monotonic(tasks)),
        ("dm", deadline_monotonic(tasks)),
    ];
    for (policy, order) in orders {
        verdicts.push(named(policy, "response times", by_order(question, &order)));
    }
    verdicts.push(named("audsley", "response times", by_any_order(question)));
    if question.is_preemptive {
        let density = question.refuse_under_deadlines();
        let density = density.and_then(|()| global_edf::sufficient_density(tasks, 1));
        verdicts.push(named("edf", "density", density.map(sufficient)));
        verdicts.push(named("edf", "processor demand", by_demand(question)));
    }
    Ok(verdicts)
}

fn named(scheduling: &'static str, test: &'static str, answer: TestAnswer) -> TestVerdict {
    match answer {
        Ok((outcome, method, assumptions)) => TestVerdict {
            scheduling,
            test,
            outcome,
            why: None,
            method,
            assumptions,
        },
        Err(error) => TestVerdict {
            scheduling,
            test,
            outcome: TestOutcome::NotApplicable,
            why: Some(error.to_string()),
            method: String::new(),
            assumptions: Vec::new(),
        },
    }
}

fn sufficient(verdict: global_edf::SufficientVerdict) -> (TestOutcome, String, Vec<&'static str>) {
    let outcome = TestOutcome::of(verdict.accepted, false);
    (outcome, verdict.method.into(), verdict.assumptions.to_vec())
}

/// No scheduling gives more than all of the CPUs.
fn utilisation(question: &PriorityQuestion<'_>, cpus: u32) -> TestAnswer {
    let all: Vec<_> = (question.servers.iter().chain(question.tasks).copied()).collect();
    let outcome = match compare_utilisation(&all, cpus).is_gt() {
        true => TestOutcome::Unschedulable,
        false => TestOutcome::Undecided,
    };
    let method = "utilisation at most the number of CPUs; necessary";
    Ok((outcome, method.into(), Vec::new()))
}

/// Exact without blocking, preemptive and without servers.
fn by_order(question: &PriorityQuestion<'_>, order: &PriorityOrder) -> TestAnswer {
    let responses = question.response_times(order)?;
    let is_exact = responses.method == response_time::METHOD && question.is_unblocked();
    let given_up = responses.tasks.iter().any(|task| {
        let reason = task.response_time.err();
        reason.is_some_and(|reason| reason != response_time::NoResponseTime::Overloaded)
    });
    Ok((
        TestOutcome::of(responses.schedulable(), is_exact && !given_up),
        responses.method.into(),
        responses.assumptions.to_vec(),
    ))
}

fn by_any_order(question: &PriorityQuestion<'_>) -> TestAnswer {
    let order = question.audsley()?;
    let responses = question.response_times(&PriorityOrder::as_given(question.tasks.len()))?;
    let is_exact = responses.method == response_time::METHOD && question.is_unblocked();
    let method = format!("Audsley's assignment (2001) by {}", responses.method);
    let outcome = TestOutcome::of(order.is_some(), is_exact);
    Ok((outcome, method, responses.assumptions.to_vec()))
}

fn by_demand(question: &PriorityQuestion<'_>) -> TestAnswer {
    question.refuse_under_deadlines()?;
    let verdict = quick_processor_demand(question.tasks)?;
    Ok((
        TestOutcome::of(verdict.schedulable(), true),
        verdict.method.into(),
        verdict.assumptions.to_vec(),
    ))
}

/// The tests of global scheduling, all of them sufficient.
fn global(question: &PriorityQuestion<'_>, cpus: u32) -> Vec<TestVerdict> {
    let tasks = question.tasks;
    let responses = global_edf::sufficient_response_times(tasks, cpus);
    let responses = responses.map(|bounds| {
        let outcome = TestOutcome::of(bounds.accepted(), false);
        (outcome, bounds.method.into(), bounds.assumptions.to_vec())
    });
    let density = global_edf::sufficient_density(tasks, cpus).map(sufficient);
    let interference = global_edf::sufficient_bcl(tasks, cpus).map(sufficient);
    let by_order = |order: PriorityOrder| {
        let bounds = global_fixed_priority::sufficient_response_times(tasks, &order, cpus)?;
        let outcome = TestOutcome::of(bounds.accepted(), false);
        Ok((outcome, bounds.method.into(), bounds.assumptions.to_vec()))
    };
    vec![
        named("edf", "density", density),
        named("edf", "interference", interference),
        named("edf", "response times", responses),
        named(
            "fp",
            "response times",
            by_order(PriorityOrder::as_given(tasks.len())),
        ),
        named("rm", "response times", by_order(rate_monotonic(tasks))),
        named("dm", "response times", by_order(deadline_monotonic(tasks))),
    ]
}
