//! `tailbound doctor`: what works here, why the rest does not, and what to do about it.

mod overheads;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tailbound_enforcement::backends::{self, BackendFitness};
use tailbound_linux::HostCapabilities;
use tailbound_linux::capabilities::Feature;
use tailbound_linux::cgroup::hierarchies;
use tailbound_linux::host_managers::{HostManager, managers};
use tailbound_linux::kernel_thread_trial::KernelThreadTrial;
use tailbound_measurement::{Advice, AdviceQuery, Noise, advice, fingerprint, noise};
use tailbound_model::{Cpu, CpuSet};

use crate::arguments::{DoctorArguments, Format};
use crate::failure::Failure;
use crate::output::{Output, table, write_file};
use overheads::OverheadTable;

#[derive(Serialize)]
struct Diagnosis<'a> {
    host: BTreeMap<String, String>,
    managers: Vec<HostManager>,
    capabilities: &'a HostCapabilities,
    backends: Vec<BackendFitness>,
    kernel_thread_trial: KernelThreadTrial,
    noise: &'a [Noise],
    advice: Vec<Advice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overheads: Option<OverheadTable>,
}

/// Looks, samples, prints. Changes nothing but its own threads: a thread of the kernel is asked to be as it is.
pub fn carry_out(arguments: &DoctorArguments, output: &Output) -> Result<(), Failure> {
    let host = HostCapabilities::probe();
    let cpus = chosen_cpus(arguments, &host)?;
    let plan = match arguments.measure_overheads {
        true => Some(overheads::plan(arguments, &host)?),
        false => None,
    };
    let mut sampled = Vec::new();
    for cpu in &cpus {
        output.detail(format!(
            "sampling the noise of CPU {cpu} for {}",
            arguments.duration
        ));
        sampled.push(noise(*cpu, arguments.duration).map_err(Failure::from_error)?);
    }
    let host_facts = fingerprint();
    let overheads = plan
        .map(|plan| overheads::carry_out(plan, &host_facts, output))
        .transpose()?;
    if let (Some(path), Some(overheads)) = (&arguments.export_toml, &overheads) {
        write_file(path, &overheads.toml)?;
    }
    let query = AdviceQuery {
        served: cpus,
        housekeeping: CpuSet::new(),
        noise: &sampled,
        tolerated_noise: 0.01,
    };
    let hierarchies = hierarchies().unwrap_or_default();
    let trial = KernelThreadTrial::carry_out(&hierarchies).map_err(Failure::from_error)?;
    let findings = Diagnosis {
        host: host_facts,
        managers: managers(Path::new("/"), &hierarchies),
        overheads,
        backends: backends::fitness(&host, &trial),
        kernel_thread_trial: trial,
        noise: &sampled,
        advice: advice(&query),
        capabilities: &host,
    };
    match output.format() {
        Format::Json => output.json(&findings),
        Format::Csv => {
            let (header, rows) = feature_rows(&host);
            output.rows(&header, &rows, &findings)
        }
        Format::Table => output.print(&text(&findings)),
    }
}

fn chosen_cpus(arguments: &DoctorArguments, host: &HostCapabilities) -> Result<CpuSet, Failure> {
    if arguments.cpus.is_empty() {
        return Ok(host.online_cpus.iter().map(|cpu| Cpu(*cpu)).collect());
    }
    for cpu in &arguments.cpus {
        if !host.online_cpus.contains(cpu) {
            let online: Vec<String> = host.online_cpus.iter().map(u32::to_string).collect();
            let help = format!("the online CPUs are {}", online.join(", "));
            return Err(Failure::with_help(format!("CPU {cpu} is not online"), help));
        }
    }
    Ok(arguments.cpus.iter().map(|cpu| Cpu(*cpu)).collect())
}

fn feature_rows(host: &HostCapabilities) -> ([&'static str; 4], Vec<Vec<String>>) {
    let rows = Feature::ALL
        .iter()
        .map(|feature| {
            let finding = host.finding(*feature);
            vec![
                feature.to_string(),
                yes(finding.works),
                finding.state,
                finding.remedy,
            ]
        })
        .collect();
    (["feature", "works", "found", "what to do"], rows)
}

fn yes(truth: bool) -> String {
    if truth { "yes" } else { "no" }.into()
}

fn text(findings: &Diagnosis<'_>) -> String {
    let mut parts = Vec::new();
    let host: Vec<Vec<String>> = findings
        .host
        .iter()
        .map(|(name, value)| vec![name.clone(), value.clone()])
        .collect();
    parts.push(table(&["host", ""], &host));
    let managers: Vec<Vec<String>> = findings
        .managers
        .iter()
        .map(|one| vec![one.name.clone(), one.state.clone(), one.consequence.clone()])
        .collect();
    parts.push(table(&["manager", "here", "so that"], &managers));
    let (header, rows) = feature_rows(findings.capabilities);
    parts.push(table(&header, &rows));
    let backends: Vec<Vec<String>> = findings
        .backends
        .iter()
        .map(|finding| {
            let why: Vec<String> = finding
                .missing
                .iter()
                .map(|missing| format!("needs {}: {}", missing.needed, missing.remedy))
                .collect();
            vec![
                finding.backend.to_string(),
                yes(finding.works),
                yes(finding.guarantees_budget),
                yes(finding.enforces_budget),
                yes(finding.kernel_threads),
                why.join("; "),
            ]
        })
        .collect();
    parts.push(table(
        &[
            "back end",
            "works",
            "guarantees",
            "caps",
            "interrupt threads",
            "what is missing",
        ],
        &backends,
    ));
    parts.push(in_words(&findings.kernel_thread_trial));
    parts.push(noise_table(findings.noise));
    if let Some(overheads) = &findings.overheads {
        parts.extend(overheads.text());
    }
    for advice in &findings.advice {
        parts.push(format!("! {}\n  help: {}", advice.what, advice.advice));
    }
    parts.join("\n\n") + "\n"
}

/// The trial on a thread of the kernel, in a sentence.
fn in_words(trial: &KernelThreadTrial) -> String {
    let Some(thread) = &trial.thread else {
        return "interrupt threads: no thread of the kernel is seen here, so none can have a budget".into();
    };
    let tried = [
        ("its policy and CPUs", &trial.scheduling),
        ("its group of cgroup v2", &trial.unified_group),
        ("its group of cgroup v1", &trial.cpu_group),
    ];
    let words = tried.map(|(what, refusal)| match refusal {
        None => format!("{what} can be set"),
        Some(why) => format!("{what} cannot ({why})"),
    });
    format!("interrupt threads, tried on {thread}: {}", words.join(", "))
}

fn noise_table(noise: &[Noise]) -> String {
    let row = |noise: &Noise| {
        vec![
            noise.cpu.to_string(),
            format!("{:.3}%", 100.0 * noise.share()),
            noise.longest.to_string(),
            noise.gaps.count().unwrap_or(0).to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = noise.iter().map(row).collect();
    table(&["noise of CPU", "time lost", "longest gap", "gaps"], &rows)
}
