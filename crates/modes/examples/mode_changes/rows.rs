//! What is told of the measured changes.

use serde::Serialize;
use tailbound_modes::manager::Report;
use tailbound_modes::transition::StepKind;
use tailbound_time::Instant;

use crate::Variant;

/// The changes under one variant, in nanoseconds.
#[derive(Default)]
pub struct Samples {
    latency_ns: Vec<u64>,
    /// How many of them each case has had.
    cases: Vec<usize>,
    /// From the message of the host to its receipt.
    send: Vec<u64>,
    /// From the receipt to the last task that was switched.
    signal: Vec<u64>,
    /// From then to the host's receipt of the answer.
    receive: Vec<u64>,
    /// To have an interface accepted.
    change: Vec<u64>,
    boosts: u64,
}

/// Percentiles of one thing, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SampleSummary {
    pub count: usize,
    pub median_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub domains: usize,
    /// The bandwidth of all domains together, in thousandths of the CPU.
    pub total_permille: u64,
    pub variant: &'static str,
    pub latency: SampleSummary,
    /// All latencies as measured, those of each case apart.
    pub latencies_ns: Vec<Vec<u64>>,
    pub send: SampleSummary,
    pub signal: SampleSummary,
    pub receive: SampleSummary,
    pub change: SampleSummary,
    pub boosts: u64,
}

fn summary(samples: &mut [u64]) -> SampleSummary {
    samples.sort_unstable();
    let at = |share: f64| {
        let rank = (share * samples.len() as f64).ceil() as usize;
        samples.get(rank.max(1) - 1).copied().unwrap_or(0)
    };
    SampleSummary {
        count: samples.len(),
        median_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        max_ns: at(1.0),
    }
}

impl Samples {
    /// What follows is of another case.
    pub fn begin_case(&mut self) {
        self.cases.push(0);
    }

    pub fn take(&mut self, report: &Report) {
        *self.cases.last_mut().expect("a case") += 1;
        let timeline = &report.timeline;
        let since = |later: Instant, earlier: Instant| later.saturating_since(earlier).as_nanos();
        self.latency_ns
            .push(timeline.latency().expect("ended").as_nanos());
        for (place, step) in timeline.steps.iter().enumerate() {
            let before = timeline.steps[..place].iter().rev();
            let mut before = before.filter(|other| other.domain == step.domain);
            match step.kind {
                StepKind::Boosted => self.boosts += 1,
                StepKind::InterfaceAccepted { .. } => {
                    let asked = before.find(|one| one.kind == StepKind::InterfaceAsked);
                    self.change
                        .extend(asked.map(|asked| since(step.at, asked.at)));
                }
                StepKind::Acknowledged {
                    received_at,
                    switched_at,
                } => {
                    let sent = before.find(|one| one.kind == StepKind::Sent);
                    self.send
                        .extend(sent.map(|sent| since(received_at, sent.at)));
                    self.signal.push(since(switched_at, received_at));
                    self.receive.push(since(step.at, switched_at));
                }
                _ => {}
            }
        }
    }

    pub fn row(mut self, variant: &Variant, (domains, total_permille): (usize, u64)) -> Row {
        let mut left = self.latency_ns.as_slice();
        let cases = self.cases.iter();
        let latencies_ns = cases.map(|count| left.split_off(..*count).expect("counted").to_vec());
        Row {
            domains,
            total_permille,
            variant: variant.name,
            latencies_ns: latencies_ns.collect(),
            latency: summary(&mut self.latency_ns),
            send: summary(&mut self.send),
            signal: summary(&mut self.signal),
            receive: summary(&mut self.receive),
            change: summary(&mut self.change),
            boosts: self.boosts,
        }
    }
}

pub fn print(rows: &[Row]) {
    println!(
        "{:>7} {:>5}  {:<26} {:>9} {:>9} {:>9} {:>9}   {:>8} {:>8} {:>8} {:>8}  boosts",
        "domains",
        "total",
        "policy",
        "median us",
        "p90",
        "p99",
        "max",
        "send",
        "signal",
        "receive",
        "change"
    );
    let us = |ns: u64| ns as f64 / 1e3;
    for row in rows {
        println!(
            "{:>7} {:>4.0}%  {:<26} {:>9.0} {:>9.0} {:>9.0} {:>9.0}   {:>8.1} {:>8.1} {:>8.1} {:>8.1}  {}",
            row.domains,
            row.total_permille as f64 / 10.0,
            row.variant,
            us(row.latency.median_ns),
            us(row.latency.p90_ns),
            us(row.latency.p99_ns),
            us(row.latency.max_ns),
            us(row.send.median_ns),
            us(row.signal.median_ns),
            us(row.receive.median_ns),
            us(row.change.median_ns),
            row.boosts
        );
    }
    println!("total: bandwidth of all domains, of one CPU");
    println!("send, signal, receive, change: medians of single steps in us, all domains together");
}
