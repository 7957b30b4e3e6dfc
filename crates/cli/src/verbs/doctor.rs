//! `tailbound doctor`: what works here, why the rest does not, and what to do about it.

mod overheads;

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_enforcement::MissingRequirement;
use tailbound_enforcement::backends;
use tailbound_linux::HostCapabilities;
use tailbound_linux::capabilities::Feature;
use tailbound_measurement::{AdviceQuery, Noise, advice, fingerprint, noise};
use tailbound_model::{BackendKind, Cpu, CpuSet};

use crate::arguments::{DoctorArguments, Format};
use crate::failure::Failure;
use crate::output::{Output, table, write_file};
use overheads::OverheadFindings;

#[derive(Serialize)]
struct Findings<'a> {
    host: BTreeMap<String, String>,
    capabilities: &'a HostCapabilities,
    backends: Vec<BackendFinding>,
    noise: Vec<NoiseFinding>,
    advice: Vec<AdviceFinding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overheads: Option<OverheadFindings>,
}

#[derive(Serialize)]
struct BackendFinding {
    backend: BackendKind,
    works: bool,
    guarantees_budget: bool,
    enforces_budget: bool,
    missing: Vec<MissingRequirement>,
}

#[derive(Serialize)]
struct NoiseFinding {
    cpu: u32,
    sampled_ns: u64,
    lost_ns: u64,
    longest_ns: u64,
    gaps: u64,
}

#[derive(Serialize)]
struct AdviceFinding {
    what: String,
    advice: String,
}

/// Looks, samples, prints. Changes nothing but its own threads.
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
        .map(|plan| overheads::find(plan, &host_facts, output))
        .transpose()?;
    if let (Some(path), Some(found)) = (&arguments.export_toml, &overheads) {
        write_file(path, &found.toml)?;
    }
    let query = AdviceQuery {
        served: cpus,
        housekeeping: CpuSet::new(),
        noise: &sampled,
        tolerated_noise: 0.01,
    };
    let findings = Findings {
        host: host_facts,
        overheads,
        backends: backend_findings(&host),
        noise: sampled.iter().map(noise_finding).collect(),
        advice: advice(&query)
            .into_iter()
            .map(|advice| AdviceFinding {
                what: advice.what,
                advice: advice.advice,
            })
            .collect(),
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

fn backend_findings(host: &HostCapabilities) -> Vec<BackendFinding> {
    backends::ALL
        .iter()
        .map(|backend| {
            let missing = backend.missing(host);
            BackendFinding {
                backend: backend.kind(),
                works: missing.is_empty(),
                guarantees_budget: backend.kind().guarantees_budget(),
                enforces_budget: backend.kind().has_budget(),
                missing,
            }
        })
        .collect()
}

fn noise_finding(noise: &Noise) -> NoiseFinding {
    NoiseFinding {
        cpu: noise.cpu.0,
        sampled_ns: noise.sampled.as_nanos(),
        lost_ns: noise.lost.as_nanos(),
        longest_ns: noise.longest.as_nanos(),
        gaps: noise.gaps.count().unwrap_or(0),
    }
}

fn feature_rows(host: &HostCapabilities) -> ([&'static str; 4], Vec<Vec<String>>) {
    let rows = Feature::ALL
        .iter()
        .map(|feature| {
            let finding = host.finding(*feature);
            vec![
                feature.to_string(),
                yes(finding.works),
                finding.found,
                finding.remedy,
            ]
        })
        .collect();
    (["feature", "works", "found", "what to do"], rows)
}

fn yes(truth: bool) -> String {
    if truth { "yes" } else { "no" }.into()
}

fn text(findings: &Findings<'_>) -> String {
    let mut parts = Vec::new();
    let host: Vec<Vec<String>> = findings
        .host
        .iter()
        .map(|(name, value)| vec![name.clone(), value.clone()])
        .collect();
    parts.push(table(&["host", ""], &host));
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
                why.join("; "),
            ]
        })
        .collect();
    parts.push(table(
        &["back end", "works", "guarantees", "caps", "what is missing"],
        &backends,
    ));
    let noise: Vec<Vec<String>> = findings
        .noise
        .iter()
        .map(|noise| {
            let share = 100.0 * noise.lost_ns as f64 / (noise.sampled_ns.max(1)) as f64;
            let longest = tailbound_time::Duration::from_nanos(noise.longest_ns);
            vec![
                noise.cpu.to_string(),
                format!("{share:.3}%"),
                longest.to_string(),
                noise.gaps.to_string(),
            ]
        })
        .collect();
    parts.push(table(
        &["noise of CPU", "time lost", "longest gap", "gaps"],
        &noise,
    ));
    if let Some(found) = &findings.overheads {
        parts.extend(found.text());
    }
    for advice in &findings.advice {
        parts.push(format!("! {}\n  help: {}", advice.what, advice.advice));
    }
    parts.join("\n\n") + "\n"
}
