//! The requests that users leave out while they wait (coordinated omission), estimated.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_distribution::{Arrival, Distribution, Provenance};
use tailbound_time::{Duration, Instant};

use crate::RequestRecord;

/// The most latencies that are added for what was left out.
const MOST_ADDED: u64 = 2_000_000;

/// The requests that users would have sent, had they not waited for replies.
///
/// A user of a closed loop sends nothing while a request is under way, so that a long latency is seen once where requests
/// at a steady pace would have met it several times. With a mean time `cycle` between the requests of a user, a latency L
/// stands for further requests with latencies L - cycle, L - 2 cycle and so on, as long as these are above zero: the
/// correction of HdrHistogram (G. Tene) with the cycle as the expected interval. It is an estimate from above where
/// users do wait, and tells how much the quantiles owe to their waiting.
#[derive(Clone, Debug, Serialize)]
pub struct OmittedRequests {
    /// The mean time between two requests of a user.
    pub cycle: Duration,
    /// The number of requests that were left out.
    pub requests: u64,
    /// The latencies with them.
    #[serde(skip)]
    pub latency: Distribution,
    /// The 99% quantiles without them and with them, for the remark.
    #[serde(skip)]
    tails: (Option<Duration>, Option<Duration>),
}

impl OmittedRequests {
    /// The estimate for these requests of users; `None` where no user sent two.
    pub fn of(provenance: Provenance, asked: &[&RequestRecord]) -> Option<Self> {
        let cycle = mean_cycle(asked)?;
        let seen: Vec<Arrival> = asked.iter().filter_map(|record| record.arrival()).collect();
        let mut all = seen.clone();
        let mut requests = 0;
        for arrival in &seen {
            let (Arrival::Known(latency) | Arrival::AtLeast(latency)) = *arrival;
            let mut rest = latency.saturating_sub(cycle);
            while !rest.is_zero() && requests < MOST_ADDED {
                requests += 1;
                all.push(match arrival {
                    Arrival::Known(_) => Arrival::Known(rest),
                    Arrival::AtLeast(_) => Arrival::AtLeast(rest),
                });
                rest = rest.saturating_sub(cycle);
            }
        }
        let tail = |of: &Distribution| of.quantile(0.99).and_then(|value| value.high);
        let without = Distribution::from_arrivals(provenance.clone(), seen);
        let latency = Distribution::from_arrivals(provenance, all);
        Some(Self {
            cycle,
            requests,
            tails: (tail(&without), tail(&latency)),
            latency,
        })
    }

    /// The remark for those who read latencies of users.
    pub fn remark(&self) -> String {
        let text = |tail: Option<Duration>| {
            tail.map_or_else(|| "unknown".into(), |tail| format!("{tail}"))
        };
        format!(
            "users wait for replies: at their pace of a request in {}, requests that do not wait would have been {} more, \
             and 99% of all latencies within {} in place of {}",
            self.cycle,
            self.requests,
            text(self.tails.1),
            text(self.tails.0)
        )
    }
}

/// The mean time between two requests of a user.
fn mean_cycle(asked: &[&RequestRecord]) -> Option<Duration> {
    let mut spans: BTreeMap<u32, (Instant, Instant, u64)> = BTreeMap::new();
    for record in asked {
        let at = record.intended;
        let span = spans.entry(record.client).or_insert((at, at, 0));
        *span = (span.0.min(at), span.1.max(at), span.2 + 1);
    }
    let (mut nanos, mut cycles) = (0_u128, 0_u128);
    for (first, last, requests) in spans.into_values() {
        nanos += u128::from(last.saturating_since(first).as_nanos());
        cycles += u128::from(requests - 1);
    }
    let mean = nanos.checked_div(cycles).filter(|mean| *mean > 0)?;
    Some(Duration::from_nanos(
        u64::try_from(mean).unwrap_or(u64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_distribution::Evidence;

    use super::*;
    use crate::RecordOutcome;

    fn record(client: u32, sent_ms: u64, latency_ms: u64) -> RequestRecord {
        let at = Instant::from_nanos(sent_ms * 1_000_000);
        RequestRecord {
            task: 0,
            client,
            intended: at,
            taken_up: at,
            sent: Some(at),
            replied: at + Duration::from_millis(latency_ms),
            outcome: RecordOutcome::Answered,
            warm_up: false,
        }
    }

    fn omitted(records: &[RequestRecord]) -> Option<OmittedRequests> {
        let provenance = Provenance::new(Evidence::Sample, "s", "m");
        OmittedRequests::of(provenance, &records.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_long_latency_stands_for_those_who_would_have_met_it() {
        // A request every 100 ms, of which the last waits for 350 ms.
        let mut records: Vec<RequestRecord> = (0..9).map(|i| record(0, i * 100, 1)).collect();
        records.push(record(0, 900, 350));
        let omitted = omitted(&records).unwrap();
        assert_eq!(omitted.cycle, Duration::from_millis(100));
        assert_eq!(omitted.requests, 3);
        let above = |limit| 1.0 - omitted.latency.cdf(Duration::from_millis(limit)).0;
        assert!((above(200) - 2.0 / 13.0).abs() < 1e-9);
        assert!(omitted.remark().contains("3 more"), "{}", omitted.remark());
    }

    #[test]
    fn users_of_one_request_have_no_pace() {
        assert!(omitted(&[record(0, 0, 5), record(1, 9, 5)]).is_none());
        assert!(omitted(&[]).is_none());
    }
}
