//! Predicted response times as tables, CSV and JSON: the same for the services of a description and for a
//! queue of the command line.

use std::path::Path;

use tailbound_analysis::CapAssumption;
use tailbound_assessment::chain_prediction::ChainPrediction;
use tailbound_assessment::prediction::{
    FAITHFUL, PredictionAnswer, PromiseAnswer, QuantileBounds, ShareBounds, TimeBounds, WITH_BURST,
};
use tailbound_distribution::{Distribution, Evidence, Interval};
use tailbound_experiment::HostPrediction;
use tailbound_model::{Percentile, Slo};
use tailbound_report::{
    BandsSection, PredictedService, PredictionPage, ServiceBand, Verdict, render_prediction_html,
};
use tailbound_time::Duration;

use super::predicted_chains;
use super::report::section_table;
use crate::arguments::{Format, PredictArguments};
use crate::failure::Failure;
use crate::output::{Output, table, write_file};

/// The mean, the percentiles and the shares, as people read them.
fn cells(mean: &TimeBounds, quantiles: &[QuantileBounds], shares: &[ShareBounds]) -> Vec<String> {
    let quantiles = quantiles.iter().map(|quantile| &quantile.bounds);
    let times = std::iter::once(mean).chain(quantiles);
    let times = times.map(as_sharp_as_known);
    let shares = shares.iter().map(|share| match share.high - share.low {
        apart if apart < 1e-7 => format!("{:.7}", share.low),
        _ => format!("{:.4} .. {:.4}", share.low, share.high),
    });
    times.chain(shares).collect()
}

/// Prints the answers, and exports them where asked to.
pub fn print(
    prediction: &HostPrediction,
    chains: &[ChainPrediction],
    arguments: &PredictArguments,
    output: &Output,
) -> Result<(), Failure> {
    let percentiles = arguments.percentiles.iter().map(ToString::to_string);
    let times = arguments.at.iter().map(|at| format!("within {at}"));
    let asked: Vec<String> = std::iter::once("mean".to_owned())
        .chain(percentiles)
        .chain(times)
        .collect();
    let mut header = vec!["service", "variant", "from", "evidence"];
    header.extend(asked.iter().map(String::as_str));
    let answers = &prediction.answers;
    let rows = rows_by_answer(prediction, arguments, asked.len());
    let csv_header: Vec<&str> = header
        .iter()
        .copied()
        .chain(["promises", "refused"])
        .collect();
    let complete = rows.iter().zip(answers).flat_map(|(rows, answer)| {
        let promises = answer.promises.iter();
        let promises = promises.map(|one| format!("{}: {}", promise(one), one.outlook));
        let promises: Vec<String> = promises.collect();
        let first = [
            promises.join("; "),
            answer.refused.clone().unwrap_or_default(),
        ];
        let ends = std::iter::once(first).chain(std::iter::repeat_with(Default::default));
        rows.iter()
            .zip(ends)
            .map(|(row, end)| [row.as_slice(), &end].concat())
    });
    let of_chains = predicted_chains::csv_rows(chains, arguments);
    let csv_rows: Vec<Vec<String>> = complete.chain(of_chains).collect();
    let rows = rows.concat();
    if output.format() != Format::Csv {
        tell(answers, output);
    }
    let responses = answers
        .iter()
        .filter_map(|answer| answer.responses.as_ref());
    tell_of_caps(responses.flat_map(|one| &one.cap_assumptions), output);
    predicted_chains::tell(chains, output);
    if let Some(folder) = &arguments.export_distributions {
        export(answers, chains, folder)?;
    }
    let data = document(prediction, chains, arguments)?;
    let for_people = || {
        // A description may have chains alone.
        let services = match rows.is_empty() && !chains.is_empty() {
            true => String::new(),
            false => format!("{}\n", table(&header, &rows)),
        };
        format!(
            "{services}{}{}{}",
            promise_table(answers),
            forecast_table(&prediction.bands),
            predicted_chains::table_of(chains, arguments)
        )
    };
    output.rows_with(for_people, &csv_header, &csv_rows, &data)
}

/// The answers as a document.
fn document(
    prediction: &HostPrediction,
    chains: &[ChainPrediction],
    arguments: &PredictArguments,
) -> Result<serde_json::Value, Failure> {
    let mut data = serde_json::json!({ "answers": prediction.answers });
    if arguments.on_host.calibration.is_some() {
        data["bands"] = serde_json::to_value(&prediction.bands).map_err(Failure::from_error)?;
    }
    if !chains.is_empty() {
        data["chains"] = serde_json::to_value(chains).map_err(Failure::from_error)?;
    }
    Ok(data)
}

/// Tells the reason of each refusal, and for the curious the method of each answer.
fn tell(answers: &[PredictionAnswer], output: &Output) {
    for answer in answers {
        let (service, variant) = (&answer.service, &answer.variant);
        if let Some(why) = &answer.refused {
            output.note(format!("{service} in variant {variant}: {why}"));
        }
        if answer.from == WITH_BURST {
            output.note(format!(
                "{service} in variant {variant}: the quota saves up a burst: responses lie between those without it and those \
                 with a {WITH_BURST}"
            ));
        }
        if let Some(responses) = &answer.responses {
            output.detail(format!(
                "{service} in variant {variant}: load {:.2} % on {:.2} % of a CPU; {}",
                responses.utilisation * 100.0,
                responses.bandwidth * 100.0,
                responses.method
            ));
        }
    }
}

/// Tells each assumption about caps once; an estimate that nobody saw resting on them would be taken for a promise.
pub fn tell_of_caps<'a>(assumptions: impl Iterator<Item = &'a CapAssumption>, output: &Output) {
    let rested_on: Vec<&CapAssumption> = assumptions.collect();
    for assumption in CapAssumption::ALL {
        if rested_on.contains(&&assumption) {
            output.note(format!("taken for granted of a quota: {assumption}"));
        }
    }
}

/// The rows of each answer, and below the most faithful one of a service that of its band.
fn rows_by_answer(
    prediction: &HostPrediction,
    arguments: &PredictArguments,
    asked: usize,
) -> Vec<Vec<Vec<String>>> {
    let rows = prediction.answers.iter().map(|answer| {
        let mut rows = rows_of(answer, asked);
        let faithful = answer.from == FAITHFUL || answer.refused.is_some();
        if let (true, Some(band)) = (faithful, prediction.band(&answer.service, &answer.variant)) {
            rows.push(band_row(band, arguments));
        }
        rows
    });
    rows.collect()
}

/// The row of an answer, and below an estimate that of what is proved.
fn rows_of(answer: &PredictionAnswer, asked: usize) -> Vec<Vec<String>> {
    let row = |evidence: String, cells: Vec<String>| {
        let place = [&answer.service, &answer.variant, &answer.from];
        let mut row: Vec<String> = place.into_iter().cloned().collect();
        row.push(evidence);
        row.extend(cells);
        row
    };
    let Some(responses) = &answer.responses else {
        return vec![row("-".into(), vec!["-".into(); asked])];
    };
    let numbers = cells(&responses.mean, &responses.quantiles, &responses.shares);
    let mut rows = vec![row(responses.evidence.to_string(), numbers)];
    if let Some(proved) = &responses.proved {
        let numbers = cells(&proved.mean, &proved.quantiles, &proved.shares);
        rows.push(row(Evidence::Bound.to_string(), numbers));
    }
    rows
}

/// The row of a band: where the percentiles of the run will lie, and the shares within some times.
fn band_row(band: &ServiceBand, arguments: &PredictArguments) -> Vec<String> {
    let content = &band.band;
    let percentiles = arguments.percentiles.iter().map(|percentile| {
        let between = content.distribution.quantile(percentile.probability());
        as_sharp_as_known(&between.into())
    });
    let shares = arguments.at.iter().map(|at| {
        let (low, high) = content.distribution.cdf(*at);
        format!("{low:.4} .. {high:.4}")
    });
    let place = [
        band.service.clone(),
        band.variant.clone(),
        format!("{} runs of {}", content.runs, content.duration),
        content.distribution.provenance.evidence.to_string(),
        "-".into(),
    ];
    place.into_iter().chain(percentiles).chain(shares).collect()
}

/// The forecasts of promises as a table of its own; nothing where there is none.
fn forecast_table(bands: &[ServiceBand]) -> String {
    let forecasts = BandsSection::forecasts(bands);
    match forecasts.rows.is_empty() {
        true => String::new(),
        false => section_table(&forecasts) + "\n",
    }
}

/// The outlook of every promise as a table of its own; nothing where nothing is promised.
fn promise_table(answers: &[PredictionAnswer]) -> String {
    let rows = answers.iter().flat_map(|answer| {
        let row = |one: &PromiseAnswer| {
            vec![
                answer.service.clone(),
                answer.variant.clone(),
                promise(one),
                as_sharp_as_known(&one.predicted),
                one.outlook.to_string(),
                one.evidence
                    .map_or_else(|| "-".into(), |evidence| evidence.to_string()),
            ]
        };
        answer.promises.iter().map(row)
    });
    let rows: Vec<Vec<String>> = rows.collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            let header = [
                "service",
                "variant",
                "promised",
                "predicted",
                "outlook",
                "evidence",
            ];
            format!("{}\n", table(&header, &rows))
        }
    }
}

/// A promise as people read it.
pub fn promise(promise: &PromiseAnswer) -> String {
    let percentile = Percentile(promise.percentile);
    let text = format!("{percentile} within {}", promise.latency);
    match &promise.task {
        None => text,
        Some(task) => format!("{text} of task {task}"),
    }
}

/// Writes the distributions as a page where that is asked for.
pub fn export_html(
    file: Option<&Path>,
    title: &str,
    answers: &[PredictionAnswer],
    chains: &[ChainPrediction],
) -> Result<(), Failure> {
    let Some(file) = file else {
        return Ok(());
    };
    let results = answers.iter().map(|answer| PredictedService {
        service: answer.service.clone(),
        variant: answer.variant.clone(),
        from: answer.from.clone(),
        responses: answer
            .responses
            .as_ref()
            .map(|answered| answered.distribution.clone()),
        verdicts: answer.promises.iter().map(verdict).collect(),
        refused: answer.refused.clone(),
    });
    let page = PredictionPage {
        title: title.into(),
        tailbound_version: env!("CARGO_PKG_VERSION").into(),
        services: results.chain(predicted_chains::on_page(chains)).collect(),
    };
    write_file(file, &render_prediction_html(&page))
}

fn verdict(promise: &PromiseAnswer) -> Verdict {
    let slo = Slo {
        percentile: Percentile(promise.percentile),
        latency: promise.latency,
        task: promise.task.clone(),
    };
    let TimeBounds { low, high } = promise.predicted;
    let predicted = low.map(|low| Interval { low, high });
    Verdict::predicted(&slo, predicted, promise.outlook)
}

/// A time as people read it: eight digits where its bounds agree to seven.
fn as_sharp_as_known(bounds: &TimeBounds) -> String {
    let ns = |time: Option<Duration>| time.map(Duration::as_nanos);
    match (ns(bounds.low), ns(bounds.high)) {
        (Some(low), Some(high)) if agree(low, high) => sharply(low, high),
        (low, high) => millisecond_range(low, high),
    }
}

/// A time as people read it: to a microsecond, and a range only where that shows.
pub fn millisecond_range(low_ns: Option<u64>, high_ns: Option<u64>) -> String {
    let milliseconds = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    match (low_ns, high_ns) {
        (Some(low), Some(high)) if milliseconds(low) == milliseconds(high) => milliseconds(low),
        (Some(low), Some(high)) => {
            let low = milliseconds(low);
            format!("{} .. {}", low.trim_end_matches(" ms"), milliseconds(high))
        }
        (Some(low), None) => format!("over {}", milliseconds(low)),
        (None, _) => "unknown".into(),
    }
}

/// Whether two bounds agree to seven digits.
fn agree(low_ns: u64, high_ns: u64) -> bool {
    (high_ns - low_ns.min(high_ns)) as f64 <= 2e-7 * high_ns as f64
}

/// The middle with eight significant digits, and no zeros that say nothing.
fn sharply(low_ns: u64, high_ns: u64) -> String {
    let middle_ms = (low_ns as f64 + high_ns as f64) / 2e6;
    let digits = (7 - middle_ms.max(1e-12).log10().floor() as i32).clamp(3, 6) as usize;
    let text = format!("{middle_ms:.digits$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let shortest = part.trim_end_matches('0');
    format!("{whole}.{shortest:0<3} ms")
}

fn export(
    answers: &[PredictionAnswer],
    chains: &[ChainPrediction],
    folder: &Path,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::error(format!("cannot write to {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let write = |name: String, distribution: &Distribution| {
        let file = folder.join(name.replace([' ', '/'], "-"));
        std::fs::write(file, distribution.to_csv()).map_err(failed)
    };
    for answer in answers {
        if let Some(responses) = &answer.responses {
            let name = format!("{}-{}-{}.csv", answer.service, answer.variant, answer.from);
            write(name, &responses.distribution)?;
        }
    }
    for (name, variant, distribution) in predicted_chains::distributions(chains) {
        write(format!("{name}-{variant}.csv"), distribution)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_as_many_digits_as_are_known() {
        let of = |low, high| {
            as_sharp_as_known(&TimeBounds {
                low: Some(Duration::from_nanos(low)),
                high: Some(Duration::from_nanos(high)),
            })
        };
        assert_eq!(of(7_963_517, 7_963_518), "7.963518 ms");
        assert_eq!(of(7_000_000, 7_000_000), "7.000 ms");
        assert_eq!(of(7_938_000, 7_984_000), "7.938 .. 7.984 ms");
        assert_eq!(millisecond_range(Some(1_500_000), None), "over 1.500 ms");
        assert_eq!(millisecond_range(None, None), "unknown");
    }
}
