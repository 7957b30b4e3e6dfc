//! Servers whose period is short against the execution times, between CPUs of constant speed.
//!
//! Let R be the response time on a CPU whose speed is the bandwidth W = B / P, first come, first served, which is the
//! highest of s + work / W over all arrivals s up to the job's, with the work that comes from s on up to the job. In any
//! time t, a server with budget B in P gives at most W t + 2 B (1 - W), which two budgets back to back reach; all work
//! from s on takes that of the server from s on; hence no response is shorter than R - 2 (P - B). From the start of a
//! busy period on, it gives at least W (t - (P - B)), so that none is longer than R + P - B.

use tailbound_distribution::StepCdf;
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use super::{Enclosure, JobStream, LatticeAnswer, LatticePlan, LatticeSupply};
use crate::{AnalysisError, SearchWatch};

/// The response times under `plan`, from those on CPUs of constant speed.
///
/// # Errors
/// As of [`response_times`](super::response_times).
pub(super) fn answer(
    plan: &LatticePlan<'_>,
    watch: &dyn SearchWatch,
) -> Result<LatticeAnswer, AnalysisError> {
    let speed = plan.budget.as_secs_f64() / plan.period.as_secs_f64();
    // A time in which the CPU does a second's work is a second on a CPU of its own.
    let streams: Vec<JobStream> = plan
        .streams
        .iter()
        .map(|stream| JobStream {
            per_second: stream.per_second / speed,
            ..stream.clone()
        })
        .collect();
    let own = LatticePlan::of(&streams, ReservationServer::Dedicated, Duration::ZERO)?;
    let answer = own.answer_or_coarse_one(watch)?;
    let away = plan.period.saturating_sub(plan.budget);
    let slowed = Slowed {
        speed,
        shorter: away.saturating_add(away),
        longer: away,
        overhead: plan.overhead,
    };
    let shortest = |stream: &JobStream| Duration::from_nanos(stream.law.shortest_ns());
    let shortest: Vec<Duration> = streams.iter().map(shortest).collect();
    let of_all = shortest.iter().min().copied().unwrap_or(Duration::ZERO);
    let overall = slowed.enclosure(&answer.overall, of_all)?;
    let per_stream = answer.per_stream.iter().zip(shortest);
    Ok(LatticeAnswer {
        mean: plan.mean(&overall),
        overall,
        per_stream: per_stream
            .map(|(one, shortest)| slowed.enclosure(one, shortest))
            .collect::<Result<_, _>>()?,
        step: slowed.time(answer.step),
        supply: LatticeSupply::ConstantSpeed {
            shorter: slowed.shorter,
            longer: slowed.longer,
        },
        ..answer
    })
}

/// A CPU of a lower speed, and how much shorter and longer than on it responses are at most.
struct Slowed {
    speed: f64,
    shorter: Duration,
    longer: Duration,
    overhead: Duration,
}

impl Slowed {
    fn time(&self, on_own_cpu: Duration) -> Duration {
        Duration::from_secs_f64_nearest(on_own_cpu.as_secs_f64() / self.speed)
    }

    fn enclosure(&self, own: &Enclosure, shortest: Duration) -> Result<Enclosure, AnalysisError> {
        let rounding = Duration::from_nanos(1);
        let earlier = |at| {
            let at = self.time(at).saturating_sub(rounding);
            at.saturating_sub(self.shorter).max(shortest)
        };
        let later = |at| {
            let at = self.time(at).saturating_add(rounding);
            at.saturating_add(self.longer)
        };
        Ok(Enclosure {
            optimistic: self.moved(&own.optimistic, earlier)?,
            pessimistic: self.moved(&own.pessimistic, later)?,
        })
    }

    /// The function with its steps at other times, which follow each other as before.
    fn moved(
        &self,
        curve: &StepCdf,
        time: impl Fn(Duration) -> Duration,
    ) -> Result<StepCdf, AnalysisError> {
        let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(curve.steps().len());
        for (at, value) in curve.steps() {
            let at = time(*at).saturating_add(self.overhead);
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = *value,
                _ => steps.push((at, *value)),
            }
        }
        StepCdf::new(steps).map_err(AnalysisError::no_distribution)
    }
}
