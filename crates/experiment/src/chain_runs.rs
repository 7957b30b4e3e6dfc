//! Chains of tasks in a run: the logs of jobs of the programs, cut to what was measured, and joined.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tailbound_analysis::chains::PartKind;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::analysis::analyze;
use tailbound_assessment::chain_prediction::predict_chains;
use tailbound_assessment::simulation::{SimulationQuery, simulate};
use tailbound_chains_report::{ChainRow, ChainTime, EstimateSource};
use tailbound_distribution::Evidence;
use tailbound_job_log::{ChainMeasurement, JobLog, log_file_name, measure_chain};
use tailbound_model::{Builtin, Description, InputFiles};
use tailbound_simulator::host::{HostQuery, simulate_host};
use tailbound_time::{Duration, Instant};
use tailbound_topics::{Chain, Chains, TaskName, Topics};

use crate::ExperimentError;

/// The part of a run that counts: after the warm-up of a repetition, to its end. Times are of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredSpan {
    /// The variant.
    pub variant: String,
    /// The repetition, from 1.
    pub repetition: usize,
    /// The begin.
    pub begin: Instant,
    /// The end.
    pub end: Instant,
}

/// The folder of the logs of jobs, below that of the results.
pub fn job_folder(out: &Path) -> PathBuf {
    out.join("jobs")
}

/// Removes the logs of an earlier run, to which those of the next one would be added.
///
/// # Errors
/// If they cannot be removed.
pub fn remove_job_logs(out: &Path) -> Result<(), ExperimentError> {
    let folder = job_folder(out);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ExperimentError::Write {
            file: folder.display().to_string(),
            cause: error.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Whether programs of ours log jobs in a run of this description.
pub fn has_job_logs(description: &Description) -> bool {
    let mut domains = description.domains.values();
    domains.any(|domain| domain.builtin == Some(Builtin::OwnTasks))
}

/// What the logs say of every chain in every span. Chains with a task that no program of ours carries out are left out.
///
/// # Errors
/// If a log cannot be read, or is none.
pub fn chain_rows(
    description: &Description,
    out: &Path,
    spans: &[MeasuredSpan],
) -> Result<Vec<ChainRow>, ExperimentError> {
    let topics: Topics = description.section();
    let chains: Chains = description.section();
    let mut logs = BTreeMap::new();
    let mut rows = Vec::new();
    for (name, chain) in &chains.0 {
        let tasks: Vec<TaskName> = chain.tasks().map(|(_, task)| task).collect();
        let is_ours = |task: &TaskName| {
            let domain = description.domains.get(&task.domain);
            domain.is_some_and(|domain| domain.builtin == Some(Builtin::OwnTasks))
        };
        if !tasks.iter().all(is_ours) {
            continue;
        }
        for task in &tasks {
            if !logs.contains_key(task) {
                logs.insert(task.clone(), read_log(out, task)?);
            }
        }
        for span in spans {
            let measured = measure(name, chain, &topics, (&tasks, &logs), span)?;
            rows.push(row(name, chain, span, &measured));
        }
    }
    Ok(rows)
}

/// The bounds on every chain of the description as it is, as far as there are any.
pub fn bound_rows(description: &Description, inputs: &InputFiles, variant: &str) -> Vec<ChainRow> {
    // What keeps the analysis from answering, `tailbound analyze` says.
    let Ok(analysis) = analyze(description, inputs) else {
        return Vec::new();
    };
    let bounded = analysis.chains.iter().filter_map(|verdict| {
        let answer = verdict.answer.as_ref()?;
        let mut times = vec![ChainTime::bounded(
            "data age",
            answer.bound,
            verdict.data_age,
        )];
        let reaction = verdict.reaction_bound();
        times.extend(
            reaction.map(|bound| ChainTime::bounded("reaction time", bound, verdict.reaction_time)),
        );
        let parts = answer.parts.iter();
        times.extend(parts.map(|part| {
            let name = match part.kind {
                PartKind::Wait => format!("wait for {}", part.at),
                PartKind::Response | PartKind::Transport => part.at.clone(),
            };
            ChainTime::bounded(name, part.length, None)
        }));
        Some(ChainRow {
            chain: verdict.chain.clone(),
            variant: variant.to_owned(),
            repetition: None,
            evidence: Evidence::Bound.to_string(),
            source: None,
            times,
            traced: 0,
            untraced: 0,
        })
    });
    bounded.collect()
}

/// The predictions of every chain in a variant, as far as there are any.
pub fn predicted_rows(
    description: &Description,
    inputs: &InputFiles,
    variant: &str,
) -> Vec<ChainRow> {
    // Why a chain is not predicted, `tailbound predict` says.
    let predictions = predict_chains(description, inputs, Some(variant)).unwrap_or_default();
    let answered = predictions.into_iter().filter(|one| one.refused.is_none());
    let rows = answered.map(|prediction| {
        let times = prediction.times.iter();
        let times = times.map(|one| ChainTime::plotted(one.name, &one.distribution, one.limit));
        let times = times.collect();
        estimate_row(prediction.chain, variant, EstimateSource::Prediction, times)
    });
    rows.collect()
}

/// Every chain in a simulation of a variant that is as long as its run, as far as it can be simulated.
pub fn simulated_rows(
    description: &Description,
    inputs: &InputFiles,
    variant: &str,
    (seed, duration): (u64, Duration),
) -> Vec<ChainRow> {
    let query = SimulationQuery {
        mode: None,
        variant: Some(variant),
        seed: Some(seed),
        warm_up: description.experiment.warm_up,
        duration,
    };
    let chains: Chains = description.section();
    if chains.0.is_empty() {
        return Vec::new();
    }
    let one_host =
        |query: &HostQuery<'_>| simulate_host(query).map_err(AssessmentError::Simulation);
    // `tailbound simulate` says why a host cannot be simulated.
    let Ok(answer) = simulate(description, inputs, &query, one_host) else {
        return Vec::new();
    };
    let chains = answer.chains.into_iter();
    let rows = chains.filter_map(|chain| {
        let times = chain.outcome.ok()?;
        let mut all = vec![
            ChainTime::plotted("data age", &times.data_age, chain.data_age_limit),
            ChainTime::plotted("data age at the output", &times.data_age_at_output, None),
            ChainTime::plotted(
                "reaction time",
                &times.reaction_time,
                chain.reaction_time_limit,
            ),
        ];
        let parts = times.parts.iter();
        all.extend(parts.map(|part| ChainTime::of(&part.at, &part.time, None)));
        let source = EstimateSource::Simulation;
        Some(ChainRow {
            traced: times.outputs,
            ..estimate_row(chain.chain, variant, source, all)
        })
    });
    rows.collect()
}

fn estimate_row(
    chain: String,
    variant: &str,
    source: EstimateSource,
    times: Vec<ChainTime>,
) -> ChainRow {
    ChainRow {
        chain,
        variant: variant.to_owned(),
        repetition: None,
        evidence: Evidence::Estimate.to_string(),
        source: Some(source),
        times,
        traced: 0,
        untraced: 0,
    }
}

fn read_log(out: &Path, task: &TaskName) -> Result<JobLog, ExperimentError> {
    let file = job_folder(out).join(log_file_name(&task.domain, &task.task));
    let failed = |cause: String| ExperimentError::Read {
        file: file.display().to_string(),
        cause,
    };
    let text = std::fs::read_to_string(&file).map_err(|error| failed(error.to_string()))?;
    JobLog::from_csv(&text).map_err(|error| failed(error.to_string()))
}

fn measure(
    name: &str,
    chain: &Chain,
    topics: &Topics,
    (tasks, logs): (&[TaskName], &BTreeMap<TaskName, JobLog>),
    span: &MeasuredSpan,
) -> Result<ChainMeasurement, ExperimentError> {
    let broken = |cause: String| ExperimentError::Read {
        file: format!("the logs of chain {name}"),
        cause,
    };
    let links = chain
        .links(topics)
        .map_err(|fault| broken(fault.to_string()))?;
    let names: Vec<String> = tasks.iter().map(TaskName::to_string).collect();
    let last = tasks.len().saturating_sub(1);
    // Only outputs are cut: what went into them may have begun before.
    let cut: Vec<JobLog> = tasks
        .iter()
        .enumerate()
        .map(|(place, task)| {
            let log = &logs[task];
            if place == last {
                within(log, span)
            } else {
                until(log, span)
            }
        })
        .collect();
    let pairs: Vec<(&str, &JobLog)> = names.iter().map(String::as_str).zip(&cut).collect();
    let between: Vec<&str> = links.iter().map(|link| link.topic.as_str()).collect();
    measure_chain(name, &pairs, &between).map_err(|error| broken(error.to_string()))
}

fn within(log: &JobLog, span: &MeasuredSpan) -> JobLog {
    let jobs = log
        .jobs
        .iter()
        .filter(|job| span.begin <= job.end && job.end <= span.end);
    JobLog {
        jobs: jobs.cloned().collect(),
        reads: log.reads.clone(),
        publishes: log.publishes.clone(),
    }
}

fn until(log: &JobLog, span: &MeasuredSpan) -> JobLog {
    let jobs = log.jobs.iter().filter(|job| job.end <= span.end);
    JobLog {
        jobs: jobs.cloned().collect(),
        reads: log.reads.clone(),
        publishes: log.publishes.clone(),
    }
}

fn row(name: &str, chain: &Chain, span: &MeasuredSpan, measured: &ChainMeasurement) -> ChainRow {
    let mut times = vec![
        ChainTime::plotted("data age", &measured.data_age, chain.data_age),
        ChainTime::plotted("data age at the output", &measured.data_age_at_output, None),
        ChainTime::plotted(
            "reaction time",
            &measured.reaction_time,
            chain.reaction_time,
        ),
    ];
    let parts = measured.hops.iter();
    times.extend(parts.map(|hop| ChainTime::of(&hop.name, &hop.time, None)));
    ChainRow {
        chain: name.to_owned(),
        variant: span.variant.clone(),
        repetition: Some(span.repetition),
        evidence: Evidence::Sample.to_string(),
        source: None,
        times,
        traced: measured.traced,
        untraced: measured.untraced,
    }
}
