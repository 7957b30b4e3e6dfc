//! `tailbound predict`: the response times that the reservations of a description will give.

use std::path::Path;

use serde::Serialize;
use tailbound_analysis::resolution::{Deployment, only_simulated};
use tailbound_distribution::{Distribution, Interval};
use tailbound_experiment::execution_times::execution_times;
use tailbound_experiment::forecast::forecast;
use tailbound_model::{
    InputFiles, LoadedDescription, Percentile, ReservationServer, Service, Variant,
};
use tailbound_time::Duration;

use crate::arguments::{FileQuestion, Format, PredictArguments, PredictWhat};
use crate::failure::Failure;
use crate::output::{Output, table};

/// A row of the answer: one distribution.
#[derive(Serialize)]
struct Answer {
    /// The service.
    pub service: String,
    /// The variant.
    pub variant: String,
    /// What was known of the execution times.
    pub from: String,
    /// Why there is no distribution.
    pub refused: Option<String>,
    /// The distribution's quantiles.
    pub quantiles: Vec<Quantile>,
    /// The distribution's provenance and values.
    pub distribution: Option<Distribution>,
}

/// One quantile of an answer.
#[derive(Serialize)]
struct Quantile {
    /// The percentile.
    pub percentile: f64,
    /// It is at least this.
    pub low_ns: Option<u64>,
    /// It is at most this, where that is known.
    pub high_ns: Option<u64>,
}

/// Predicts every chosen service in every chosen variant, or one queue without a file.
pub fn carry_out(arguments: &PredictArguments, output: &Output) -> Result<(), Failure> {
    if let Some(PredictWhat::Recovery(recovery)) = &arguments.what {
        return super::predict_recovery::carry_out(recovery, output);
    }
    let output = &output.exporting(&arguments.export);
    match arguments.of_file() {
        Some(question) => of_file(&question, output),
        None => super::calculate::carry_out(&arguments.queue, output),
    }
}

fn of_file(arguments: &FileQuestion, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(&arguments.file, output)?;
    let answers = each(&loaded, arguments, |what| {
        let known = execution_times(what.name, what.service, what.inputs, None)
            .map_err(Failure::from_error)?;
        let found =
            forecast(what.name, what.service, &known, what.server).map_err(Failure::from_error)?;
        let mut answers = Vec::new();
        if let Some(refused) = found.refused {
            answers.push(what.answer("prediction", Err(refused), &arguments.percentiles));
        }
        for labelled in found.predicted {
            let distribution = Ok(labelled.distribution);
            answers.push(what.answer(&labelled.label, distribution, &arguments.percentiles));
        }
        Ok(answers)
    })?;
    print(&answers, arguments, output)
}

/// One service in one variant.
struct Chosen<'a> {
    /// The service's name.
    name: &'a str,
    /// The service.
    service: &'a Service,
    /// The variant.
    variant: &'a Variant,
    /// The rule by which its domain gets CPU time, if there is one.
    server: Option<ReservationServer>,
    /// The files that the description names.
    inputs: &'a InputFiles,
}

impl Chosen<'_> {
    /// An answer about this service and variant.
    fn answer(
        &self,
        from: &str,
        distribution: Result<Distribution, String>,
        percentiles: &[Percentile],
    ) -> Answer {
        let quantiles = distribution
            .as_ref()
            .map(|found| quantiles(found, percentiles));
        Answer {
            service: self.name.into(),
            variant: self.variant.name.clone(),
            from: from.into(),
            quantiles: quantiles.unwrap_or_default(),
            refused: distribution.as_ref().err().cloned(),
            distribution: distribution.ok(),
        }
    }
}

/// Asks about every chosen service in every chosen variant.
fn each(
    loaded: &LoadedDescription,
    arguments: &FileQuestion,
    mut ask: impl FnMut(&Chosen<'_>) -> Result<Vec<Answer>, Failure>,
) -> Result<Vec<Answer>, Failure> {
    let description = &loaded.description;
    let inputs = tailbound_model::load_inputs(description, loaded.base()).map_err(|problems| {
        Failure::Description {
            problems,
            text: loaded.text.clone(),
        }
    })?;
    let service = match &arguments.service {
        Some(name) => Some(super::measure::chosen_service(description, Some(name))?),
        None => None,
    };
    let variants = chosen_variants(loaded, arguments.variant.as_deref())?;
    let mut answers = Vec::new();
    for variant in variants {
        let deployment = Deployment::of_run(description, variant).map_err(Failure::from_error)?;
        for (name, described) in &description.services {
            if service.as_ref().is_some_and(|chosen| chosen != name) {
                continue;
            }
            if let Some(why) = only_simulated(description, &described.domain) {
                let chosen = Chosen {
                    name,
                    service: described,
                    variant,
                    server: None,
                    inputs: &inputs,
                };
                let why = format!("not analysed: {why}; `tailbound simulate` answers for it");
                answers.push(chosen.answer("prediction", Err(why), &arguments.percentiles));
                continue;
            }
            let reserved = deployment.reserved.get(&described.domain);
            let server = reserved.and_then(|domain| domain.server());
            let chosen = Chosen {
                name,
                service: described,
                variant,
                server,
                inputs: &inputs,
            };
            answers.extend(ask(&chosen)?);
        }
    }
    Ok(answers)
}

fn chosen_variants<'a>(
    loaded: &'a LoadedDescription,
    name: Option<&str>,
) -> Result<Vec<&'a Variant>, Failure> {
    match name {
        Some(name) => Ok(vec![variant_named(loaded, name)?]),
        None => Ok(loaded.description.experiment.variants.iter().collect()),
    }
}

/// The variant of a name.
pub fn variant_named<'a>(
    loaded: &'a LoadedDescription,
    name: &str,
) -> Result<&'a Variant, Failure> {
    let all = &loaded.description.experiment.variants;
    all.iter()
        .find(|variant| variant.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|variant| variant.name.as_str()).collect();
            Failure::with_help(
                format!("there is no variant \"{name}\""),
                format!("the experiment has: {}", known.join(", ")),
            )
        })
}

fn quantiles(distribution: &Distribution, percentiles: &[Percentile]) -> Vec<Quantile> {
    percentiles
        .iter()
        .map(|percentile| {
            let found: Option<Interval> = distribution.quantile(percentile.probability());
            Quantile {
                percentile: percentile.0,
                low_ns: found.map(|interval| interval.low.as_nanos()),
                high_ns: found
                    .and_then(|interval| interval.high)
                    .map(Duration::as_nanos),
            }
        })
        .collect()
}

/// Prints the answers, and exports them where asked to.
fn print(answers: &[Answer], arguments: &FileQuestion, output: &Output) -> Result<(), Failure> {
    let labels: Vec<String> = arguments
        .percentiles
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut header = vec!["service", "variant", "from"];
    header.extend(labels.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = answers
        .iter()
        .map(|answer| row(answer, labels.len()))
        .collect();
    let mut csv_header = header.clone();
    csv_header.push("refused");
    let refused = answers.iter().map(|answer| answer.refused.clone());
    let csv_rows: Vec<Vec<String>> = rows
        .iter()
        .zip(refused)
        .map(|(row, why)| {
            row.iter()
                .cloned()
                .chain([why.unwrap_or_default()])
                .collect()
        })
        .collect();
    if output.format() != Format::Csv {
        for answer in answers {
            if let Some(why) = &answer.refused {
                let (service, variant) = (&answer.service, &answer.variant);
                output.note(format!("{service} in variant {variant}: {why}"));
            }
        }
    }
    if let Some(folder) = &arguments.export_distributions {
        export(answers, folder)?;
    }
    let data = serde_json::json!({ "answers": answers });
    let for_people = || format!("{}\n", table(&header, &rows));
    output.rows_with(for_people, &csv_header, &csv_rows, &data)
}

fn row(answer: &Answer, percentiles: usize) -> Vec<String> {
    let mut row = vec![
        answer.service.clone(),
        answer.variant.clone(),
        answer.from.clone(),
    ];
    match &answer.refused {
        Some(_) => row.resize(row.len() + percentiles, "-".into()),
        None => row.extend(
            answer
                .quantiles
                .iter()
                .map(|found| told(found.low_ns, found.high_ns)),
        ),
    }
    row
}

/// A quantile as people read it: four digits, and a range only where it shows.
pub fn told(low_ns: Option<u64>, high_ns: Option<u64>) -> String {
    let milliseconds = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    match (low_ns.map(milliseconds), high_ns.map(milliseconds)) {
        (Some(low), Some(high)) if low == high => low,
        (Some(low), Some(high)) => format!("{} .. {high}", low.trim_end_matches(" ms")),
        (Some(low), None) => format!("over {low}"),
        (None, _) => "unknown".into(),
    }
}

fn export(answers: &[Answer], folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::error(format!("cannot write to {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    for answer in answers {
        if let Some(distribution) = &answer.distribution {
            let name = format!("{}-{}-{}.csv", answer.service, answer.variant, answer.from);
            let name = name.replace([' ', '/'], "-");
            std::fs::write(folder.join(name), distribution.to_csv()).map_err(failed)?;
        }
    }
    Ok(())
}
