//! Results of a run as metrics of OpenTelemetry, for a collector.

mod histogram;
mod protocol;

use tailbound_distribution::Interval;
use tailbound_model::Percentile;
use tailbound_time::Duration;

use crate::{
    CONFIDENCE, LedgerTotals, MeasuredRun, Outcome, PERCENTILES, ReportError, RunReport,
    VariantResult,
};
use histogram::histogram_point;
use protocol::{
    DELTA, ExportedMetric, MetricAttribute, MetricData, MetricScope, MetricSource, MetricsExport,
    NumberPoint, PointTime, PointValue, ResourceMetrics, ScopeMetrics,
};

impl RunReport {
    /// The run as one request to a collector of OpenTelemetry (`ExportMetricsServiceRequest`, as JSON): each
    /// service is a resource, variants, tasks and repetitions are attributes, times are in seconds.
    ///
    /// # Errors
    /// [`ReportError::Started`] if the document's times are none, [`ReportError::Writing`].
    pub fn to_otlp_metrics(&self) -> Result<String, ReportError> {
        let time = self.point_time()?;
        let mut services: Vec<&str> = Vec::new();
        for result in &self.variants {
            if !services.contains(&result.service.as_str()) {
                services.push(&result.service);
            }
        }
        let of_service = |service: &str| ResourceMetrics {
            resource: self.source(service),
            scope_metrics: [ScopeMetrics {
                scope: MetricScope {
                    name: "tailbound",
                    version: self.tailbound_version.clone(),
                },
                metrics: self.service_metrics(service, time),
            }],
        };
        let export = MetricsExport {
            resource_metrics: services.into_iter().map(of_service).collect(),
        };
        serde_json::to_string(&export).map_err(ReportError::Writing)
    }

    /// The time that all data points hold for: the whole run's.
    fn point_time(&self) -> Result<PointTime, ReportError> {
        let nanoseconds = |text: &str| {
            let since = humantime::parse_rfc3339(text)
                .ok()
                .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            since
                .and_then(|since| u64::try_from(since.as_nanos()).ok())
                .ok_or_else(|| ReportError::Started(text.into()))
        };
        let start_time_unix_nano = nanoseconds(&self.started_at)?;
        let end = self.finished_at.as_deref().map(nanoseconds);
        let end = end.transpose()?.unwrap_or(start_time_unix_nano);
        Ok(PointTime {
            start_time_unix_nano,
            // An interval of no length would be no interval.
            time_unix_nano: end.max(start_time_unix_nano + 1),
        })
    }

    fn source(&self, service: &str) -> MetricSource {
        let mut attributes = vec![
            MetricAttribute::new("service.name", service),
            MetricAttribute::new("tailbound.system", self.name.as_str()),
            MetricAttribute::new("tailbound.seed", self.seed),
        ];
        let host = self.host.iter();
        attributes.extend(host.map(|(key, value)| {
            MetricAttribute::new(&format!("tailbound.host.{key}"), value.as_str())
        }));
        MetricSource { attributes }
    }

    fn service_metrics(&self, service: &str, time: PointTime) -> Vec<ExportedMetric> {
        let mut points = ServicePoints::new(time);
        for result in self
            .variants
            .iter()
            .filter(|result| result.service == service)
        {
            let of_variant = vec![
                MetricAttribute::new("tailbound.variant", result.variant.as_str()),
                MetricAttribute::new("tailbound.back_end", result.backend.to_string().as_str()),
            ];
            points.add_result(result, &of_variant);
        }
        points.into_metrics()
    }
}

/// The data points of one service, metric by metric.
struct ServicePoints {
    time: PointTime,
    latency: Vec<protocol::HistogramPoint>,
    lateness: Vec<protocol::HistogramPoint>,
    requests: Vec<NumberPoint>,
    percentiles: Vec<NumberPoint>,
    promises: Vec<NumberPoint>,
    reservations: Vec<NumberPoint>,
    cpu_time: Vec<NumberPoint>,
    periods: Vec<NumberPoint>,
}

impl ServicePoints {
    fn new(time: PointTime) -> Self {
        Self {
            time,
            latency: Vec::new(),
            lateness: Vec::new(),
            requests: Vec::new(),
            percentiles: Vec::new(),
            promises: Vec::new(),
            reservations: Vec::new(),
            cpu_time: Vec::new(),
            periods: Vec::new(),
        }
    }

    fn point(&self, value: PointValue, attributes: &[&[MetricAttribute]]) -> NumberPoint {
        NumberPoint {
            attributes: attributes.concat(),
            time: self.time,
            value,
        }
    }

    fn add_result(&mut self, result: &VariantResult, variant: &[MetricAttribute]) {
        for (index, run) in result.measured.iter().enumerate() {
            let repetition = [MetricAttribute::new(
                "tailbound.repetition",
                index as u64 + 1,
            )];
            self.add_run(run, &[variant, &repetition].concat());
        }
        self.add_percentiles(result, variant);
        self.add_promises(result, variant);
        if let Some(interface) = &result.interface {
            for (part, length) in [("budget", interface.budget), ("period", interface.period)] {
                let part = [MetricAttribute::new("tailbound.part", part)];
                let point = self.point(seconds(length), &[variant, &part]);
                self.reservations.push(point);
            }
        }
    }

    fn add_run(&mut self, run: &MeasuredRun, attributes: &[MetricAttribute]) {
        let overall = std::iter::once((None, &run.overall));
        let tasks = run.per_task.iter().map(|(task, one)| (Some(task), one));
        for (task, distribution) in overall.chain(tasks) {
            let task = task.map(|task| MetricAttribute::new("tailbound.task", task.as_str()));
            let attributes = attributes.iter().cloned().chain(task).collect();
            self.latency
                .extend(histogram_point(distribution, attributes, self.time));
        }
        let lateness = histogram_point(&run.lateness, attributes.to_vec(), self.time);
        self.lateness.extend(lateness);
        for (outcome, count) in [("answered", run.answered), ("failed", run.failed)] {
            let outcome = [MetricAttribute::new("tailbound.outcome", outcome)];
            let point = self.point(PointValue::AsInt(count), &[attributes, &outcome]);
            self.requests.push(point);
        }
        if let Some(ledger) = &run.ledger {
            self.add_ledger(ledger, attributes);
        }
    }

    fn add_ledger(&mut self, ledger: &LedgerTotals, attributes: &[MetricAttribute]) {
        let times = [
            ("reserved", ledger.reserved_ns),
            ("used", ledger.used_ns),
            ("manager", ledger.manager_ns),
        ];
        for (part, nanoseconds) in times {
            let part = [MetricAttribute::new("tailbound.part", part)];
            let length = seconds(Duration::from_nanos(nanoseconds));
            let point = self.point(length, &[attributes, &part]);
            self.cpu_time.push(point);
        }
        let within = ledger.periods.saturating_sub(ledger.depletions);
        for (outcome, count) in [("within", within), ("depleted", ledger.depletions)] {
            let outcome = [MetricAttribute::new("tailbound.outcome", outcome)];
            let point = self.point(PointValue::AsInt(count), &[attributes, &outcome]);
            self.periods.push(point);
        }
    }

    /// The percentiles of predictions, by both ends, and the intervals of the measured ones.
    fn add_percentiles(&mut self, result: &VariantResult, variant: &[MetricAttribute]) {
        for prediction in &result.predicted {
            for (_, probability) in PERCENTILES {
                if let Some(ends) = prediction.distribution.quantile(probability) {
                    let source = format!("predicted: {}", prediction.label);
                    let percentile = Percentile(probability * 100.0);
                    self.add_interval(ends, percentile, &[variant, &of_source(&source, None)]);
                }
            }
        }
        for interval in &result.intervals {
            let ends = interval.ends();
            let source = of_source("measured", interval.task.as_deref());
            self.add_interval(ends, Percentile(interval.percentile), &[variant, &source]);
        }
    }

    fn add_interval(
        &mut self,
        interval: Interval,
        percentile: Percentile,
        attributes: &[&[MetricAttribute]],
    ) {
        for (name, end) in [("low", Some(interval.low)), ("high", interval.high)] {
            let Some(end) = end else { continue };
            let own = [
                MetricAttribute::new("tailbound.percentile", percentile.0),
                MetricAttribute::new("tailbound.end", name),
            ];
            let point = self.point(seconds(end), &[&attributes.concat(), &own]);
            self.percentiles.push(point);
        }
    }

    fn add_promises(&mut self, result: &VariantResult, variant: &[MetricAttribute]) {
        for verdict in &result.verdicts {
            let outcome = match verdict.outcome {
                Outcome::Met => "met",
                Outcome::Missed => "missed",
                Outcome::Undecided => "undecided",
                Outcome::NotMeasured => "not-measured",
            };
            let mut own = vec![
                MetricAttribute::new("tailbound.percentile", verdict.slo.percentile.0),
                MetricAttribute::new("tailbound.outcome", outcome),
            ];
            let task = verdict.slo.task.as_deref();
            own.extend(task.map(|task| MetricAttribute::new("tailbound.task", task)));
            let point = self.point(seconds(verdict.slo.latency), &[variant, &own]);
            self.promises.push(point);
        }
    }

    /// The metrics that have data points.
    fn into_metrics(self) -> Vec<ExportedMetric> {
        debug_assert!((CONFIDENCE - 0.95).abs() < 1e-9, "a description says 95%");
        let metrics = [
            histogram(
                "tailbound.latency",
                "Latency of the answered requests, from the intended send time",
                self.latency,
            ),
            histogram(
                "tailbound.generator.lateness",
                "Time by which the load generator sent later than intended",
                self.lateness,
            ),
            sum(
                "tailbound.requests",
                "Requests after the warm-up, by their outcome",
                "{request}",
                self.requests,
            ),
            gauge(
                "tailbound.latency.percentile",
                "Ends of predicted percentiles, and of 95% intervals of measured ones",
                self.percentiles,
            ),
            gauge(
                "tailbound.promise.latency",
                "Promised latency, with the outcome of the promise",
                self.promises,
            ),
            gauge(
                "tailbound.reservation",
                "Budget and period of the reservation",
                self.reservations,
            ),
            sum(
                "tailbound.reservation.cpu_time",
                "CPU time that was reserved, used, and taken by the manager itself",
                "s",
                self.cpu_time,
            ),
            sum(
                "tailbound.reservation.periods",
                "Periods, by whether they used up the budget",
                "{period}",
                self.periods,
            ),
        ];
        let with_points = metrics.into_iter().filter(|metric| !metric.data.is_empty());
        with_points.collect()
    }
}

fn of_source(source: &str, task: Option<&str>) -> Vec<MetricAttribute> {
    let task = task.map(|task| MetricAttribute::new("tailbound.task", task));
    let source = MetricAttribute::new("tailbound.source", source);
    std::iter::once(source).chain(task).collect()
}

fn seconds(length: Duration) -> PointValue {
    PointValue::AsDouble(length.as_secs_f64())
}

fn histogram(
    name: &'static str,
    description: &'static str,
    data_points: Vec<protocol::HistogramPoint>,
) -> ExportedMetric {
    ExportedMetric {
        name,
        description,
        unit: "s",
        data: MetricData::ExponentialHistogram {
            data_points,
            aggregation_temporality: DELTA,
        },
    }
}

fn gauge(
    name: &'static str,
    description: &'static str,
    data_points: Vec<NumberPoint>,
) -> ExportedMetric {
    ExportedMetric {
        name,
        description,
        unit: "s",
        data: MetricData::Gauge { data_points },
    }
}

fn sum(
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    data_points: Vec<NumberPoint>,
) -> ExportedMetric {
    ExportedMetric {
        name,
        description,
        unit,
        data: MetricData::Sum {
            data_points,
            aggregation_temporality: DELTA,
            is_monotonic: true,
        },
    }
}
