//! `tailbound predict`: the response times that the reservations of a description will give.

use std::path::Path;

use tailbound_analysis::resolution::{Deployment, only_simulated};
use tailbound_experiment::execution_times::execution_times;
use tailbound_experiment::forecast::forecast;
use tailbound_model::{InputFiles, LoadedDescription, ReservationServer, Service, Variant};

use super::predict_answer::{Answer, Responses, print};
use crate::arguments::{PredictArguments, PredictWhat};
use crate::failure::Failure;
use crate::output::Output;

/// Predicts every chosen service in every chosen variant, or one queue without a file.
pub fn carry_out(arguments: &PredictArguments, output: &Output) -> Result<(), Failure> {
    if let Some(PredictWhat::Recovery(recovery)) = &arguments.what {
        return super::predict_recovery::carry_out(recovery, output);
    }
    let output = &output.exporting(&arguments.export);
    let answers = match &arguments.file {
        Some(file) => of_file(file, arguments, output)?,
        None => vec![super::calculate::answer(arguments)?],
    };
    print(&answers, arguments, output)
}

fn of_file(
    file: &Path,
    arguments: &PredictArguments,
    output: &Output,
) -> Result<Vec<Answer>, Failure> {
    let loaded = super::load(file, output)?;
    let points = arguments.points();
    each(&loaded, arguments, |what| {
        let known = execution_times(what.name, what.service, what.inputs, None)
            .map_err(Failure::from_error)?;
        let found = forecast(what.name, what.service, &known, what.server, &points);
        let found = found.map_err(Failure::from_error)?;
        let refused = found.refused.map(|why| what.refusal(why));
        let predicted = found.predicted.into_iter().map(|(label, prediction)| {
            let responses = Responses::of(prediction, &arguments.percentiles, &points);
            what.answer(label, responses)
        });
        Ok(refused.into_iter().chain(predicted).collect())
    })
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
    /// The answer about this service and variant.
    fn answer(&self, from: &str, responses: Responses) -> Answer {
        Answer {
            service: self.name.into(),
            variant: self.variant.name.clone(),
            from: from.into(),
            refused: None,
            responses: Some(responses),
        }
    }

    /// Why there is no answer.
    fn refusal(&self, why: String) -> Answer {
        Answer {
            service: self.name.into(),
            variant: self.variant.name.clone(),
            from: "prediction".into(),
            refused: Some(why),
            responses: None,
        }
    }
}

/// Asks about every chosen service in every chosen variant.
fn each(
    loaded: &LoadedDescription,
    arguments: &PredictArguments,
    mut ask: impl FnMut(&Chosen<'_>) -> Result<Vec<Answer>, Failure>,
) -> Result<Vec<Answer>, Failure> {
    let description = &loaded.description;
    let inputs = tailbound_model::load_inputs(description, loaded.base()).map_err(|problems| {
        Failure::Description {
            problems,
            text: loaded.text.clone(),
        }
    })?;
    let service = match &arguments.queue.load.service {
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
                answers.push(chosen.refusal(why));
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
