//! From the trails of requests to distributions.

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_linux::process::own_thread;
use tailbound_time::{ClockId, Duration, Instant};

use super::generator::{Finished, RequestStage, Trail};
use crate::{Counts, LoadPlan, Measurement, RecordOutcome, RequestRecord};

/// What the method is called in provenances.
const METHOD: &str = "open-loop load, from the intended send time to the reply";

/// Puts together what was measured.
pub(super) fn summarize(
    plan: &LoadPlan,
    start: Instant,
    finished: Finished,
    remarks: Vec<String>,
) -> Measurement {
    let tasks: Vec<String> = plan.service.tasks.keys().cloned().collect();
    let records = records(plan, start, &finished.trails, &tasks);
    let overall = latencies(plan, &plan.name, records.iter());
    let per_task = tasks
        .iter()
        .enumerate()
        .map(|(index, task)| {
            let own = records
                .iter()
                .filter(|record| record.task as usize == index);
            let subject = format!("{}.{task}", plan.name);
            (task.clone(), latencies(plan, &subject, own))
        })
        .collect();
    Measurement {
        service: plan.name.clone(),
        overall,
        per_task,
        lateness: lateness(plan, &records),
        counts: counts(records.iter().filter(|record| !record.warm_up)),
        warm_up_counts: counts(records.iter().filter(|record| record.warm_up)),
        failures: finished.failures,
        remarks,
        interrupted: finished.interrupted,
        clock: ClockId::Monotonic,
        started_at: start,
        tasks,
        records,
        connections: finished.connections,
        // Whoever sums up is who drove the load.
        generator_thread: Some(own_thread()),
    }
}

fn records(
    plan: &LoadPlan,
    start: Instant,
    trails: &[Trail],
    tasks: &[String],
) -> Vec<RequestRecord> {
    let counted_from = Instant::ORIGIN + plan.warm_up;
    let pairs = plan.releases.iter().zip(trails);
    pairs
        .filter_map(|(release, trail)| {
            let outcome = match trail.stage {
                RequestStage::Planned => return None,
                RequestStage::Answered => RecordOutcome::Answered,
                RequestStage::Refused => RecordOutcome::Refused,
                RequestStage::Held | RequestStage::Open | RequestStage::Lost => {
                    RecordOutcome::Unanswered
                }
            };
            Some(RequestRecord {
                task: tasks.binary_search(&release.task).unwrap_or(usize::MAX) as u32,
                client: release.client,
                intended: start.saturating_add(release.at.saturating_since(Instant::ORIGIN)),
                taken_up: trail.taken_up,
                sent: trail.sent,
                replied: trail.ended,
                outcome,
                warm_up: release.at < counted_from,
            })
        })
        .collect()
}

fn counts<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> Counts {
    let mut counts = Counts::default();
    for record in records {
        counts.released += 1;
        counts.sent += u64::from(record.sent.is_some());
        match record.outcome {
            RecordOutcome::Answered => counts.answered += 1,
            RecordOutcome::Refused => counts.refused += 1,
            RecordOutcome::Unanswered => counts.unanswered += 1,
        }
    }
    counts
}

fn provenance(plan: &LoadPlan, subject: String, method: &str) -> Provenance {
    Provenance {
        seed: Some(plan.seed),
        clock: Some(ClockId::Monotonic),
        host: plan.host.clone(),
        warm_up: Some(plan.warm_up),
        ..Provenance::new(Evidence::Sample, subject, method)
    }
}

fn latencies<'a>(
    plan: &LoadPlan,
    subject: &str,
    records: impl Iterator<Item = &'a RequestRecord>,
) -> Distribution {
    let counted: Vec<&RequestRecord> = records.filter(|record| !record.warm_up).collect();
    let ended = |outcome| {
        counted
            .iter()
            .filter(move |one| one.outcome == outcome)
            .count()
    };
    let (unanswered, refused) = (
        ended(RecordOutcome::Unanswered),
        ended(RecordOutcome::Refused),
    );
    let mut provenance = provenance(plan, format!("latency of {subject}"), METHOD);
    provenance.assumptions = assumptions(plan, unanswered, refused as u64);
    let arrivals = counted.into_iter().filter_map(RequestRecord::arrival);
    Distribution::from_arrivals(provenance, arrivals.collect())
}

fn assumptions(plan: &LoadPlan, unanswered: usize, refused: u64) -> Vec<String> {
    let mut assumptions = vec![String::from(
        "requests are sent whether or not earlier ones were answered; one connection per task and \
         client, on which requests follow each other",
    )];
    if let Some(limit) = plan.service.max_in_flight {
        assumptions.push(format!(
            "at most {limit} requests in flight; the others wait at the client, and that wait is \
             in their latency"
        ));
    }
    if unanswered > 0 {
        assumptions.push(format!(
            "{unanswered} requests had no answer by the end; of their latencies only the time \
             waited until then is known, as a lower bound"
        ));
    }
    if refused > 0 {
        assumptions.push(format!(
            "{refused} requests were answered with an error; their latencies are left out"
        ));
    }
    assumptions
}

fn lateness(plan: &LoadPlan, records: &[RequestRecord]) -> Distribution {
    let counted = records.iter().filter(|record| !record.warm_up);
    let lateness: Vec<Duration> = counted
        .map(|record| record.taken_up.saturating_since(record.intended))
        .collect();
    let mut provenance = provenance(
        plan,
        format!("lateness of the load generator of {}", plan.name),
        "from the intended send time to the send, or to joining those that wait for a place in \
         flight",
    );
    provenance.assumptions = vec![format!("it spins for the last {}", plan.spin)];
    Distribution::from_samples(provenance, lateness)
}
