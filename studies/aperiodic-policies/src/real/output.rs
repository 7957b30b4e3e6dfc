//! Results as a table on stdout and as files: CSV, JSON, SVG, PNG.

use std::fs;
use std::path::Path;

use serde::Serialize;
use tailbound_report::{PngError, render_png};
use tailbound_time::Duration;

use super::busy::Stalls;
use super::chart;
use super::means::Means;
use super::results::{Row, Summary, ratios};
use crate::output::OutputError;

/// Everything, with the rows as in CSV.
#[derive(Serialize)]
struct File<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    rows: Vec<Line<'a>>,
}

/// A row as a line of CSV.
#[derive(Serialize)]
struct Line<'a> {
    set: u32,
    means: &'static str,
    budget_ns: Option<u64>,
    period_ns: Option<u64>,
    simulated_ns: f64,
    with_overheads_ns: f64,
    measured_ns: Option<f64>,
    simulated_ratio: Option<f64>,
    with_overheads_ratio: Option<f64>,
    measured_ratio: Option<f64>,
    hard_jobs: Option<u64>,
    deadline_misses_simulated: u64,
    deadline_misses: Option<u64>,
    soft_jobs: Option<u64>,
    soft_done: Option<u64>,
    soft_used_ns: Option<u64>,
    manager_looks: Option<u64>,
    manager_used_ns: Option<u64>,
    changes_refused: Option<u64>,
    stalls: Option<u64>,
    stalled_ns: Option<u64>,
    lost_ns: Option<u64>,
    attempts: Option<u64>,
    not_run: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(row: &'a Row, rows: &[Row]) -> Self {
        let measured = row.measured.as_ref();
        let ratios = ratios(row, rows);
        let (budget, period) = row.server.unzip();
        let done = measured.ok();
        Self {
            set: row.set,
            means: row.means.label(),
            budget_ns: budget.map(Duration::as_nanos),
            period_ns: period.map(Duration::as_nanos),
            simulated_ns: row.simulated.mean_response_time_ns,
            with_overheads_ns: row.with_overheads.mean_response_time_ns,
            measured_ns: done.map(|one| one.mean_response_time_ns),
            simulated_ratio: ratios.map(|one| one.simulated),
            with_overheads_ratio: ratios.map(|one| one.with_overheads),
            measured_ratio: ratios.map(|one| one.measured),
            hard_jobs: done.map(|one| one.hard_jobs),
            deadline_misses_simulated: row.with_overheads.deadline_misses,
            deadline_misses: done.map(|one| one.deadline_misses),
            soft_jobs: done.map(|one| one.soft_jobs),
            soft_done: done.map(|one| one.soft_done),
            soft_used_ns: done.map(|one| one.soft_used_ns),
            manager_looks: done.map(|one| one.manager_looks),
            manager_used_ns: done.map(|one| one.manager_used_ns),
            changes_refused: done.map(|one| one.refused),
            stalls: done.map(|one| one.stalls.count),
            stalled_ns: done.map(|one| one.stalls.lost_ns),
            lost_ns: done.map(|one| one.lost_ns),
            attempts: done.map(|one| one.attempts),
            not_run: measured.err().map(String::as_str),
        }
    }
}

/// Writes everything into a folder. Without fonts there is no PNG file; why is returned.
pub fn write(folder: &Path, summary: &Summary) -> Result<Option<PngError>, OutputError> {
    fs::create_dir_all(folder)?;
    let mut table = csv::Writer::from_path(folder.join("real.csv"))?;
    for row in &summary.rows {
        table.serialize(Line::of(row, &summary.rows))?;
    }
    table.flush()?;
    let rows = summary.rows.iter().map(|row| Line::of(row, &summary.rows));
    let rows = rows.collect();
    let json = serde_json::to_string_pretty(&File { summary, rows })?;
    fs::write(folder.join("real.json"), json + "\n")?;
    let svg = chart::render(&summary.overall);
    fs::write(folder.join("real.svg"), &svg)?;
    match render_png(&svg, 2.0) {
        Ok(png) => fs::write(folder.join("real.png"), png)?,
        Err(error) => return Ok(Some(error)),
    }
    Ok(None)
}

fn share(part_ns: u64, whole_ns: u64) -> String {
    percent(Some(part_ns as f64 / whole_ns.max(1) as f64))
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(String::new, |part| format!("{:.1}%", 100.0 * part))
}

/// Prints what came of it, as a table of Markdown, and what the table does not say.
pub fn print(summary: &Summary) {
    print_head(summary);
    print_table(summary);
    print_disturbances(summary);
    print_differences(summary);
    for one in &summary.overall {
        if let Some(reason) = &one.refused {
            let (label, all) = (one.means.label(), summary.sets.len());
            println!(
                "\n{label}: {} of {all} sets not run: {reason}",
                all - one.sets
            );
        }
    }
}

fn print_head(summary: &Summary) {
    let costs = &summary.costs;
    println!(
        "Mean response times of soft jobs relative to the background, of {} sets with {} soft jobs in \
         all,\neach executed for {} by each means; {} of warm-up were not counted.\nCPU {}, {}, seed {}. \
         {}",
        summary.sets.len(),
        summary.soft_jobs,
        Duration::from_nanos(summary.length_ns),
        Duration::from_nanos(summary.warm_up_ns),
        summary.cpu,
        summary.clock,
        summary.seed,
        summary.host,
    );
    println!(
        "Costs: context switch {}, wake-up of a thread {}, look of the manager {}.\n",
        costs.context_switch, costs.visit, costs.visit_with_change
    );
}

fn print_table(summary: &Summary) {
    println!(
        "| policy, means | sets | simulated | with overheads | measured | least to greatest | distance of the times | \
         hard deadlines missed | disturbed |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for one in &summary.overall {
        let (Some(mean), Some((least, greatest))) = (one.mean, one.measured_range) else {
            println!("| {} | 0 | | | | | | | |", one.means.label());
            continue;
        };
        println!(
            "| {} | {} | {:.3} | {:.3} | {:.3} | {least:.3} to {greatest:.3} | {}, {} | {} of {} | {} |",
            one.means.label(),
            one.sets,
            mean.simulated,
            mean.with_overheads,
            mean.measured,
            percent(one.distance_simulated),
            percent(one.distance_with_overheads),
            one.deadline_misses,
            one.hard_jobs,
            share(
                one.lost_ns + one.stalls.lost_ns,
                summary.length_ns * one.sets as u64
            ),
        );
    }
}

fn print_disturbances(summary: &Summary) {
    let stalls = summary.overall.iter().map(|one| one.stalls);
    let stalls = stalls.fold(Stalls::default(), Stalls::and);
    println!(
        "\nDistance of the times: how far measured mean response times are from those simulated without overheads, \
         and\nwith them."
    );
    println!(
        "Disturbed is the time in which there were jobs (of hard tasks only, where soft ones may have to \
         wait for\na budget) and something else had the CPU, or in which they stood still on it ({} times, for \
         {}).\n{} executions were repeated because of it.",
        stalls.count,
        Duration::from_nanos(stalls.lost_ns),
        summary.repeated,
    );
}

/// How far measured ratios are from simulated ones.
fn print_differences(summary: &Summary) {
    if let Some(most) = summary.largest_mean_difference_by_ranks {
        println!(
            "\nOf policies by ranks, the measured mean is at most {most:.3} from the one simulated with \
             overheads."
        );
    }
    let all = summary.overall.iter();
    for one in all.filter(|one| one.means != Means::Background) {
        let (Some(mean), Some(most)) = (one.mean_difference, one.largest_difference) else {
            continue;
        };
        print!("{}: {mean:+.3} in the mean", one.means.label());
        if let Some(set) = one.largest_difference_set {
            print!(", in set {set} by {most:.3}");
        }
        match one.largest_difference_elsewhere {
            Some(elsewhere) => println!(", elsewhere by {elsewhere:.3} at most"),
            None => println!(),
        }
    }
}
