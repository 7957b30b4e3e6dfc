//! What `tailbound predict` and `tailbound size` answer about.

use std::path::Path;

use super::{LoadArguments, PredictArguments, SizeArguments};
use crate::failure::Failure;

/// The ends of the names of manifests.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];

/// `AnswerSubject` is what is predicted or sized.
#[derive(Clone, Copy, Debug)]
pub enum AnswerSubject<'a> {
    /// The services of a description.
    Description(&'a Path),
    /// The queue of the options, under the CPU limit of a container.
    Manifest(&'a Path),
    /// The queue of the options.
    Queue,
}

/// Options by their names, and whether each is set.
type SetOptions<'a> = &'a [(&'static str, bool)];

impl PredictArguments {
    /// The subject of the answer.
    ///
    /// # Errors
    /// Options that say what the file says, or that belong to another kind of it.
    pub fn subject(&self) -> Result<AnswerSubject<'_>, Failure> {
        let load = &self.queue.load;
        let of_queue = [
            ("--rate", load.rate.is_some()),
            ("--request-log", load.request_log.is_some()),
            ("--slo", !self.slos.is_empty()),
            ("--period", self.queue.period.is_some()),
        ];
        let export = self.export_distributions.is_some();
        let of_description = [
            ("--server", load.server.is_some()),
            ("--variant", self.variant.is_some()),
            ("--calibration", self.on_host.calibration.is_some()),
            ("--export-distributions", export),
            ("--frequency-model", self.clocks.frequency_model.is_some()),
        ];
        load.subject(self.file.as_deref(), &of_queue, &of_description)
    }
}

impl SizeArguments {
    /// The subject of the answer.
    ///
    /// # Errors
    /// Options that say what the file says, or that belong to another kind of it.
    pub fn subject(&self) -> Result<AnswerSubject<'_>, Failure> {
        let load = &self.load;
        let of_queue = [
            ("--rate", load.rate.is_some()),
            ("--request-log", load.request_log.is_some()),
            ("--slo", !self.slos.is_empty()),
        ];
        let of_description = [
            ("--server", load.server.is_some()),
            ("--probability", self.probability.is_some()),
            ("--calibration", self.on_host.calibration.is_some()),
        ];
        load.subject(self.file.as_deref(), &of_queue, &of_description)
    }
}

impl LoadArguments {
    fn subject<'a>(
        &self,
        file: Option<&'a Path>,
        of_queue: SetOptions<'_>,
        of_description: SetOptions<'_>,
    ) -> Result<AnswerSubject<'a>, Failure> {
        let Some(file) = file else {
            self.check_without_file()?;
            return Ok(AnswerSubject::Queue);
        };
        let is_manifest = file
            .extension()
            .is_some_and(|end| MANIFESTS.iter().any(|one| end == *one));
        let first_of = |options: SetOptions<'_>| {
            let mut options = options.iter();
            options.find(|(_, is_set)| *is_set).map(|(name, _)| *name)
        };
        match (is_manifest, first_of(of_queue), first_of(of_description)) {
            (false, Some(option), _) => Err(Failure::with_help(
                format!("{option} is said by the description {}", file.display()),
                format!("change it there, or leave {option} out"),
            )),
            (true, _, Some(option)) => Err(Failure::with_help(
                format!(
                    "{option} is for descriptions, and {} is a manifest",
                    file.display()
                ),
                format!("leave {option} out, or describe the system in TOML"),
            )),
            (true, ..) if self.rate.is_none() && self.request_log.is_none() => {
                Err(Failure::with_help(
                    format!(
                        "the manifest {} does not say what load its container has",
                        file.display()
                    ),
                    "give it, such as --rate 3/s --execution-time 30ms or --request-log access.log",
                ))
            }
            (true, ..) => Ok(AnswerSubject::Manifest(file)),
            (false, ..) => Ok(AnswerSubject::Description(file)),
        }
    }

    fn check_without_file(&self) -> Result<(), Failure> {
        match &self.service {
            None => Ok(()),
            Some(name) => Err(Failure::with_help(
                format!("there is no file in which --service {name} could be"),
                "name the FILE that has it, or leave --service out",
            )),
        }
    }
}
