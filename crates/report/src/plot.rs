//! What is plotted: one plot per service, a series per variant and source.

use tailbound_distribution::{Distribution, StepCdf};
use tailbound_time::Duration;

use crate::wording::{readable, readable_option};
use crate::{RunReport, VariantResult};

/// At most so many steps of a function are drawn.
const POINTS: usize = 400;

/// A series that reaches beyond this many times the longest promise is cut.
const FAR_BEYOND_PROMISES: u64 = 5;

/// A series that reaches beyond this many times the middle one is cut, without promises.
const FAR_BEYOND_OTHERS: u64 = 8;

/// Where the longest series is so many times as long as half of the shortest one, a linear axis
/// would have that half in a hundredth of its width: two decades.
const SQUEEZED: u64 = 100;

/// A logarithmic axis begins where this share of some series lies below, and not at a stray value.
const STRAY: f64 = 0.001;

/// The most that the end of a logarithmic axis is away from its beginning, as a factor.
const WIDEST: u64 = 100_000_000;

/// What the vertical axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerticalAxis {
    /// The share of responses within a latency, linear.
    Share,
    /// The share of responses beyond a latency, logarithmic: the tail.
    Tail,
}

/// The values of a plot, in the words of its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlottedQuantity {
    /// The things that are counted, such as `responses`.
    pub counted: &'static str,
    /// The time of each with its article, such as `a latency`.
    pub time: &'static str,
}

impl PlottedQuantity {
    /// Latencies of responses.
    pub const LATENCY: Self = Self {
        counted: "responses",
        time: "a latency",
    };

    /// The title of a vertical axis.
    pub fn title(self, axis: VerticalAxis) -> String {
        let side = match axis {
            VerticalAxis::Share => "within",
            VerticalAxis::Tail => "beyond",
        };
        format!("share of {} {side} {}", self.counted, self.time)
    }
}

/// What the horizontal axis of latencies is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From nothing on; a series that lies far beyond the others is cut.
    Linear,
    /// A decade as wide as any other; everything is shown.
    Logarithmic,
}

impl Scale {
    /// The scale in a word, as the page's script has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Logarithmic => "log",
        }
    }
}

/// Where a series comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Computed, with bounds.
    Predicted,
    /// Simulated.
    Simulated,
    /// Measured.
    Measured,
}

impl SeriesKind {
    /// The kind in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Simulated => "simulated",
            Self::Measured => "measured",
        }
    }
}

/// One function, or two that enclose it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotSeries {
    /// The variant; all its series have the same colour.
    pub variant: String,
    /// The place of the variant in the report, which chooses the colour.
    pub colour: usize,
    /// Where it comes from.
    pub kind: SeriesKind,
    /// Its name in the legend.
    pub label: String,
    /// Steps of the function with the shortest possible latencies.
    pub upper: Vec<(Duration, f64)>,
    /// Steps of the function with the longest possible ones, where that is another; it may end
    /// below 1.
    pub lower: Option<Vec<(Duration, f64)>>,
}

/// A promise, as a point to mark.
#[derive(Clone, Debug, PartialEq)]
pub struct PromiseMark {
    /// The promise in words.
    pub label: String,
    /// The promised latency.
    pub latency: Duration,
    /// The share of responses that it holds for.
    pub probability: f64,
}

/// The latencies of one service under all variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// A name that stays the same and may stand in a file name: `latency-1`.
    pub id: String,
    /// The service.
    pub service: String,
    /// The values.
    pub quantity: PlottedQuantity,
    /// The series, by variant, and of each the prediction first.
    pub series: Vec<PlotSeries>,
    /// The promises on all tasks together.
    pub promises: Vec<PromiseMark>,
    /// The plot in words, for those who cannot see it.
    pub description: String,
}

/// The plots of the services of a report.
pub fn plots(report: &RunReport) -> Vec<Plot> {
    let mut variants: Vec<&str> = Vec::new();
    let mut services: Vec<&str> = Vec::new();
    for result in &report.variants {
        if !variants.contains(&result.variant.as_str()) {
            variants.push(&result.variant);
        }
        if !services.contains(&result.service.as_str()) {
            services.push(&result.service);
        }
    }
    let plots = services.iter().enumerate().map(|(index, service)| {
        let results: Vec<&VariantResult> = report
            .variants
            .iter()
            .filter(|result| result.service == *service)
            .collect();
        let series: Vec<PlotSeries> = results
            .iter()
            .flat_map(|result| {
                let colour = variants.iter().position(|name| *name == result.variant);
                series_of(result, colour.unwrap_or(0))
            })
            .collect();
        Plot {
            id: format!("latency-{}", index + 1),
            service: (*service).to_owned(),
            quantity: PlottedQuantity::LATENCY,
            promises: promises(&results),
            description: described(service, &results),
            series,
        }
    });
    plots.filter(|plot| !plot.series.is_empty()).collect()
}

fn series_of(result: &VariantResult, colour: usize) -> Vec<PlotSeries> {
    let series = |kind: SeriesKind, note: &str, distribution: &Distribution| {
        let upper = distribution.optimistic()?.decimate(POINTS);
        let lower = distribution.pessimistic()?.decimate(POINTS);
        let steps = |function: &StepCdf| function.steps().to_vec();
        let word = kind.word();
        Some(PlotSeries {
            variant: result.variant.clone(),
            colour,
            kind,
            label: match note {
                "" => format!("{}, {word}", result.variant),
                note => format!("{}, {word} ({note})", result.variant),
            },
            lower: (lower != upper).then(|| steps(&lower)),
            upper: steps(&upper),
        })
    };
    let several = result.predicted.len() > 1;
    let predicted = result.predicted.iter().filter_map(|labelled| {
        let note = if several { labelled.label.as_str() } else { "" };
        series(SeriesKind::Predicted, note, &labelled.distribution)
    });
    let simulated = result
        .simulated
        .iter()
        .filter_map(|distribution| series(SeriesKind::Simulated, "", distribution));
    let measured = result.measured_together();
    let measured = measured
        .iter()
        .filter_map(|distribution| series(SeriesKind::Measured, "", distribution));
    predicted.chain(simulated).chain(measured).collect()
}

/// The different promises on all tasks of the service; those on one task are about other
/// distributions than the ones drawn.
fn promises(results: &[&VariantResult]) -> Vec<PromiseMark> {
    let mut promises: Vec<PromiseMark> = Vec::new();
    let verdicts = results.iter().flat_map(|result| &result.verdicts);
    for slo in verdicts.map(|verdict| &verdict.slo) {
        let promise = PromiseMark {
            label: format!("{} \u{2264} {}", slo.percentile, readable(slo.latency)),
            latency: slo.latency,
            probability: slo.percentile.probability(),
        };
        if slo.task.is_none() && !promises.contains(&promise) {
            promises.push(promise);
        }
    }
    promises
}

fn described(service: &str, results: &[&VariantResult]) -> String {
    let mut text = format!("Latencies of {service}.");
    for result in results {
        let measured = result.measured_together();
        let sources = result
            .predicted
            .iter()
            .map(|labelled| ("predicted", &labelled.distribution))
            .chain(
                result
                    .simulated
                    .iter()
                    .map(|simulated| ("simulated", simulated)),
            )
            .chain(measured.iter().map(|measured| ("measured", measured)));
        for (word, distribution) in sources {
            text.push_str(&format!(
                " {}, {word}: median {}, p99 {}.",
                result.variant,
                readable_option(distribution.quantile(0.5)),
                readable_option(distribution.quantile(0.99)),
            ));
        }
    }
    text
}

impl Plot {
    /// The longest latency that the axis should show: what holds all of every series' tail, or
    /// 99.5% of it on the axis of shares, and every promise. A series that lies far beyond the
    /// promises, or beyond most others where there are none, is cut, so that it does not squeeze
    /// the rest into a corner.
    pub(crate) fn extent(&self, axis: VerticalAxis) -> Duration {
        let mut reaches: Vec<Duration> = self
            .series
            .iter()
            .map(|series| series.reach(axis))
            .collect();
        reaches.sort_unstable();
        let promised = self.promises.iter().map(|promise| promise.latency).max();
        let middle = reaches.get(reaches.len().saturating_sub(1) / 2).copied();
        let limit = match promised {
            Some(latency) => latency.as_nanos().saturating_mul(FAR_BEYOND_PROMISES),
            None => middle
                .unwrap_or_default()
                .as_nanos()
                .saturating_mul(FAR_BEYOND_OTHERS),
        };
        let near = reaches.iter().rev().find(|reach| reach.as_nanos() <= limit);
        let longest = near
            .or(reaches.first())
            .copied()
            .max(promised)
            .unwrap_or_default();
        Duration::from_nanos((longest.as_nanos() as f64 * 1.06) as u64).max(Duration::from_nanos(1))
    }

    /// The scale on which all series can be told apart: logarithmic if they span more than two
    /// decades, from what half of the shortest one's responses take to the end of the longest.
    pub fn scale(&self, axis: VerticalAxis) -> Scale {
        let shortest = self
            .series
            .iter()
            .map(|series| series.reached_at(0.5))
            .min();
        let longest = self.series.iter().map(|series| series.reach(axis)).max();
        let spans = |(shortest, longest): (Duration, Duration)| {
            longest.as_nanos() / SQUEEZED > shortest.as_nanos()
        };
        if shortest.zip(longest).is_some_and(spans) {
            Scale::Logarithmic
        } else {
            Scale::Linear
        }
    }

    /// The shortest and the longest latency that the axis should show.
    pub(crate) fn range(&self, axis: VerticalAxis, scale: Scale) -> (Duration, Duration) {
        if scale == Scale::Linear {
            return (Duration::ZERO, self.extent(axis));
        }
        let promised = self.promises.iter().map(|promise| promise.latency);
        let ends = self.series.iter().map(|series| series.reach(axis));
        let longest = ends.chain(promised.clone()).max().unwrap_or_default();
        let longest = (longest.as_nanos() as f64 * 1.06) as u64;
        let starts = self.series.iter().map(|series| series.reached_at(STRAY));
        let shortest = starts.chain(promised).min().unwrap_or_default();
        let shortest = (shortest.as_nanos() as f64 * 0.9) as u64;
        let shortest = shortest.max(longest / WIDEST).max(1);
        (
            Duration::from_nanos(shortest),
            Duration::from_nanos(longest.max(shortest.saturating_add(1))),
        )
    }

    /// The smallest tail that the logarithmic axis should show, a power of ten: below the smallest
    /// that any measurement still resolves (any series, if there is none), and below every promise.
    pub(crate) fn tail_floor(&self) -> f64 {
        let measured = |series: &&PlotSeries| series.kind == SeriesKind::Measured;
        let any_measured = self.series.iter().any(|series| measured(&series));
        let steps = self
            .series
            .iter()
            .filter(|series| !any_measured || measured(series))
            .flat_map(|series| series.upper.iter().chain(series.lower.iter().flatten()))
            .map(|(_, cumulative)| 1.0 - cumulative);
        let promises = self
            .promises
            .iter()
            .map(|promise| 1.0 - promise.probability);
        let smallest = steps
            .chain(promises)
            .filter(|tail| *tail > 1e-15)
            .fold(0.1, f64::min);
        10_f64.powf((smallest * 0.999).log10().floor()).max(1e-6)
    }
}

impl PlotSeries {
    /// The least latency at which the function with the shortest latencies has `share`.
    fn reached_at(&self, share: f64) -> Duration {
        let index = self
            .upper
            .partition_point(|(_, cumulative)| *cumulative < share);
        let index = index.min(self.upper.len().saturating_sub(1));
        self.upper.get(index).map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// Where the series ends, or has nearly ended on the axis of shares.
    pub(crate) fn reach(&self, axis: VerticalAxis) -> Duration {
        let share = match axis {
            VerticalAxis::Share => 0.995,
            VerticalAxis::Tail => 1.0,
        };
        let parts = [Some(&self.upper), self.lower.as_ref()];
        let reaches = parts.into_iter().flatten().map(|steps| {
            let index = steps.partition_point(|(_, cumulative)| *cumulative < share);
            let index = index.min(steps.len().saturating_sub(1));
            steps.get(index).map_or(Duration::ZERO, |(at, _)| *at)
        });
        reaches.max().unwrap_or_default()
    }
}
