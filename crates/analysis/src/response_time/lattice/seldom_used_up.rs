//! Deferrable servers whose budget is next to never used up, which are as good as a CPU of their own.
//!
//! Let w be the workload at the start of a period, X what comes in it, and J the job that is looked at, in period k. If
//! w + X is at most B in the period before, then the server is idle there at some moment, since B is below P. From then on
//! the workload is that of a CPU of its own, until a budget is used up. No budget is used up in period k if w + X + J
//! is at most B there; and if in the period after it w + X is, too, the job is done by its end. So the response differs
//! with no more than three times the probability of w + X + J > B, for which Chernoff's bound holds with Lundberg's
//! bound of w:
//!
//! ```text
//! Pr(w + X + J > B) <= theta0 / (theta0 - theta) E e^(theta X) E e^(theta J) e^(-theta B),   0 < theta < theta0.
//! ```

use tailbound_model::ReservationServer;

use super::{JobStream, lundberg};

/// The probability that no answer shows.
const NEGLIGIBLE: f64 = 1e-14;

/// Whether next to no response of the jobs, which come one at a time, differs from that on a CPU of its own.
pub(super) fn is_negligible(streams: &[JobStream], server: ReservationServer) -> bool {
    let ReservationServer::Deferrable { budget, period } = server.in_effect() else {
        return false;
    };
    if budget >= period || streams.iter().any(|stream| stream.batches.longest() > 1) {
        return false;
    }
    let (budget, period) = (budget.as_secs_f64(), period.as_secs_f64());
    let rate: f64 = streams.iter().map(|stream| stream.per_second).sum();
    let load: f64 = streams.iter().map(JobStream::load).sum();
    if load * period >= budget {
        return false;
    }
    let moment = |theta: f64| {
        let of_stream = |stream: &JobStream| stream.per_second / rate * stream.moments(theta).1;
        streams.iter().map(of_stream).sum::<f64>()
    };
    let longest = streams.iter().map(|stream| stream.law.longest_ns()).max();
    let longest = longest.unwrap_or(1).max(1) as f64 * 1e-9;
    let mean = load / rate;
    let first = mean / longest;
    let decay = |theta: f64| moment(theta / mean);
    let lundberg = lundberg::decay(rate * mean * period / budget, decay, (first, 64.0)) / mean;
    let exceeded = |part: f64| {
        let theta = part * lundberg;
        let moment = moment(theta);
        let log = rate * period * (moment - 1.0) + moment.ln() - theta * budget;
        3.0 / (1.0 - part) * log.exp()
    };
    (1..32).any(|part| exceeded(f64::from(part) / 32.0) < NEGLIGIBLE)
}

#[cfg(test)]
mod tests {
    use tailbound_time::Duration;

    use super::*;
    use crate::batches::BatchLaw;
    use crate::response_time::lattice::Law;

    fn is_negligible_at(per_second: f64, budget_us: u64, period_us: u64) -> bool {
        let stream = JobStream {
            per_second,
            law: Law::constant(Duration::from_micros(10)),
            batches: BatchLaw::single(),
        };
        let server = ReservationServer::Deferrable {
            budget: Duration::from_micros(budget_us),
            period: Duration::from_micros(period_us),
        };
        is_negligible(&[stream], server)
    }

    #[test]
    fn a_budget_far_above_what_comes_is_next_to_never_used_up() {
        // 3,000 jobs a period in the mean, room for 6,000; the standard deviation is 55.
        assert!(is_negligible_at(30_000.0, 60_000, 100_000));
        // Room for 3,200: four standard deviations.
        assert!(!is_negligible_at(30_000.0, 32_000, 100_000));
        // 30 jobs, room for 60.
        assert!(!is_negligible_at(3_000.0, 600, 10_000));
        assert!(!is_negligible_at(70_000.0, 60_000, 100_000));
    }
}
