//! From the trails of requests to distributions.

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_linux::process::own_thread;
use tailbound_model::Arrivals;
use tailbound_time::{ClockId, Duration, Instant};

use super::generator::{Finished, RequestStage};
use crate::{Counts, LoadPlan, Measurement, OmittedRequests, RecordOutcome, RequestRecord};

/// What the method is called in provenances.
const METHOD: &str = "open-loop load, from the intended send time to the reply";

/// The same with users.
const USERS_METHOD: &str = "users in a closed loop, from the end of the thought, or another intended send time, to the reply";

/// The remark on connections that several requests were under way on.
const INTERLEAVED: &str = "several requests were under way on one connection of HTTP/2: a recording does not tell their work apart";

/// The method of the estimate of what users left out.
const OMITTED_METHOD: &str = "each latency again for the requests that its user would have sent meanwhile, at the mean time between requests";

/// Puts together what was measured.
pub(super) fn summarize(
    plan: &LoadPlan,
    start: Instant,
    finished: Finished,
    remarks: Vec<String>,
) -> Measurement {
    let tasks: Vec<String> = plan.service.tasks.keys().cloned().collect();
    let records = records(plan, start, &finished);
    let omitted = omitted(plan, &records, &tasks);
    let mut remarks = remarks;
    remarks.extend(omitted.as_ref().map(OmittedRequests::remark));
    remarks.extend(finished.is_interleaved.then(|| INTERLEAVED.into()));
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
        omitted,
        per_task,
        lateness: lateness(plan, &records),
        counts: counts(records.iter().filter(|record| !record.warm_up)),
        warm_up_counts: counts(records.iter().filter(|record| record.warm_up)),
        connection_counts: finished.connection_counts,
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

/// The record of every request that was due, in the order of the intended times.
fn records(plan: &LoadPlan, start: Instant, finished: &Finished) -> Vec<RequestRecord> {
    let counted_from = start.saturating_add(plan.warm_up);
    let pairs = finished.requests.iter().zip(&finished.trails);
    let records = pairs.filter_map(|((task, client, intended), trail)| {
        let outcome = match trail.stage {
            RequestStage::Planned => return None,
            RequestStage::Answered => RecordOutcome::Answered,
            RequestStage::Refused => RecordOutcome::Refused,
            RequestStage::Held | RequestStage::Open | RequestStage::Lost => {
                RecordOutcome::Unanswered
            }
        };
        Some(RequestRecord {
            task: *task,
            client: *client,
            intended: *intended,
            taken_up: trail.taken_up,
            sent: trail.sent,
            replied: trail.ended,
            outcome,
            warm_up: *intended < counted_from,
        })
    });
    let mut records: Vec<RequestRecord> = records.collect();
    // Those of users stand behind those of the plan.
    records.sort_by_key(|record| record.intended);
    records
}

/// An estimate of the requests that users left out while they waited; `None` without users.
fn omitted(
    plan: &LoadPlan,
    records: &[RequestRecord],
    tasks: &[String],
) -> Option<OmittedRequests> {
    plan.service.users.as_ref()?;
    let is_of_user = |record: &&RequestRecord| {
        let task = plan.service.tasks.get(&tasks[record.task as usize]);
        task.is_some_and(|task| matches!(task.arrivals, Arrivals::Users {}))
    };
    let counted = records.iter().filter(|record| !record.warm_up);
    let asked: Vec<&RequestRecord> = counted.filter(is_of_user).collect();
    let subject = format!(
        "latency of {}, with the requests that its users left out",
        plan.name
    );
    OmittedRequests::of(provenance(plan, subject, OMITTED_METHOD), &asked)
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
    let method = match plan.service.users {
        None => METHOD,
        Some(_) => USERS_METHOD,
    };
    let mut provenance = provenance(plan, format!("latency of {subject}"), method);
    provenance.assumptions = assumptions(plan, unanswered, refused as u64);
    let arrivals = counted.into_iter().filter_map(RequestRecord::arrival);
    Distribution::from_arrivals(provenance, arrivals.collect())
}

fn assumptions(plan: &LoadPlan, unanswered: usize, refused: u64) -> Vec<String> {
    let mut assumptions = vec![match &plan.service.users {
        None => format!(
            "requests are sent whether or not earlier ones were answered; one connection per task and \
             client, on which {}",
            match plan.service.has_streams() {
                true => "each request has a stream of its own",
                false => "requests follow each other",
            }
        ),
        Some(users) => format!(
            "up to {} users, each on a connection of its own, send a request, wait for the reply, and think before the \
             next; a service that is slow is asked less often",
            users.most()
        ),
    }];
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
