//! `tailbound size`: the reservation that keeps a promise.

use serde::Serialize;
use tailbound_analysis::sizing::{Choice, Promise, ServerKind, Sizing, SizingQuery, size};
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_time::Duration;

use super::calculate::queue;
use crate::arguments::{PeriodRange, ServerName, SizeArguments};
use crate::failure::Failure;
use crate::output::Output;

/// The answer, as JSON spells it.
#[derive(Serialize)]
struct Answer {
    feasible: bool,
    margin_points: f64,
    best: Option<Row>,
    rows: Vec<Row>,
    infeasible: Vec<Refusal>,
}

#[derive(Clone, Serialize)]
struct Row {
    period_ns: u64,
    budget_ns: Option<u64>,
    bandwidth: Option<f64>,
    budget_with_margin_ns: Option<u64>,
    resolution_ns: u64,
    on_front: bool,
}

/// Why a promise cannot be kept: what a CPU of its own reaches.
#[derive(Serialize)]
struct Refusal {
    p: f64,
    latency_ns: u64,
    dedicated_share_at_most: f64,
    dedicated_latency_at_least_ns: u64,
}

/// Sizes the reservation of the queue in `arguments`.
pub fn carry_out(arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let kind = match arguments.load.server {
        ServerName::Deferrable => ServerKind::Deferrable,
        ServerName::Periodic => ServerKind::Periodic,
        ServerName::ConstantBandwidth => {
            return Err(Failure::with_help(
                "a constant-bandwidth server is not sized yet",
                "use --server deferrable or periodic; `tailbound predict --server \
                 constant-bandwidth` tells what a budget of it gives",
            ));
        }
        ServerName::Dedicated => {
            return Err(Failure::with_help(
                "a dedicated CPU has no budget to size",
                "use --server deferrable or periodic; `tailbound predict --server dedicated` tells \
                 what a CPU of its own reaches",
            ));
        }
    };
    let query = SizingQuery {
        queue: queue(&arguments.load, ReservationServer::Dedicated)?,
        promises: arguments
            .slos
            .iter()
            .map(|slo| Promise {
                probability: slo.probability,
                latency: slo.latency,
            })
            .collect(),
        kind,
        periods: periods(&arguments.period, arguments.points),
        margin: PercentagePoints(arguments.margin),
    };
    let found = size(&query).map_err(Failure::from_error)?;
    render(&query, &found, arguments.all, output)?;
    if found.best.is_none() {
        return Err(Failure::Verdict(
            "no budget at any of these periods keeps every promise".into(),
        ));
    }
    Ok(())
}

/// The periods of a range: evenly spread by ratio, since what matters is the ratio to the
/// execution time; rounded to three digits.
fn periods(range: &PeriodRange, points: u32) -> Vec<Duration> {
    let (low, high) = (range.low.as_secs_f64(), range.high.as_secs_f64());
    if range.low == range.high || points < 2 {
        return vec![range.low];
    }
    let mut periods: Vec<Duration> = (0..points)
        .map(|index| {
            let share = f64::from(index) / f64::from(points - 1);
            rounded(low * (high / low).powf(share))
        })
        .collect();
    periods.dedup();
    periods
}

fn rounded(seconds: f64) -> Duration {
    let step = 10_f64.powi(seconds.log10().floor() as i32 - 2).max(1e-9);
    Duration::from_secs_f64_nearest((seconds / step).round() * step)
}

fn row(choice: &Choice) -> Row {
    Row {
        period_ns: choice.period.as_nanos(),
        budget_ns: choice.budget.map(Duration::as_nanos),
        bandwidth: choice.bandwidth(),
        budget_with_margin_ns: choice.with_margin.map(Duration::as_nanos),
        resolution_ns: choice.resolution.as_nanos(),
        on_front: choice.on_front,
    }
}

fn render(query: &SizingQuery, found: &Sizing, all: bool, output: &Output) -> Result<(), Failure> {
    let rows: Vec<Row> = found.choices.iter().map(row).collect();
    let best = found.best.and_then(|index| rows.get(index).cloned());
    let infeasible: Vec<Refusal> = found
        .infeasible
        .iter()
        .map(|refused| Refusal {
            p: refused.promise.probability,
            latency_ns: refused.promise.latency.as_nanos(),
            dedicated_share_at_most: refused.share_at_most,
            dedicated_latency_at_least_ns: refused.latency.low.as_nanos(),
        })
        .collect();
    for refused in &infeasible {
        output.note(format!(
            "not even a CPU of its own keeps p{} within {}: it reaches {:.4} at most, and {} for p{}",
            refused.p * 100.0,
            Duration::from_nanos(refused.latency_ns),
            refused.dedicated_share_at_most,
            Duration::from_nanos(refused.dedicated_latency_at_least_ns),
            refused.p * 100.0
        ));
    }
    if let Some((choice, budget)) = found
        .best
        .and_then(|index| found.choices.get(index))
        .and_then(|choice| Some((choice, choice.with_margin?)))
    {
        output.note(format!(
            "to paste into a domain, {} points of margin included:\n\n    [domains.NAME.reservation]\n    \
             budget = \"{budget}\"\n    period = \"{}\"\n",
            query.margin.0, choice.period
        ));
    }
    let text = |ns: Option<u64>| ns.map_or("-".into(), |ns| Duration::from_nanos(ns).to_string());
    let table: Vec<Vec<String>> = rows
        .iter()
        .filter(|row| all || row.on_front || best.is_none())
        .map(|row| {
            vec![
                Duration::from_nanos(row.period_ns).to_string(),
                text(row.budget_ns),
                row.bandwidth
                    .map_or("-".into(), |share| format!("{:.2} %", share * 100.0)),
                text(row.budget_with_margin_ns),
                if row.on_front {
                    "front".into()
                } else {
                    String::new()
                },
            ]
        })
        .collect();
    let answer = Answer {
        feasible: best.is_some(),
        margin_points: query.margin.0,
        best,
        rows,
        infeasible,
    };
    let header = ["period", "least budget", "bandwidth", "with margin", ""];
    output.rows(&header, &table, &answer)
}
