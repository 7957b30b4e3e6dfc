//! What `tailbound predict` answers about.

use std::path::Path;

use super::{LoadArguments, PredictArguments, SizeArguments};
use crate::failure::Failure;

/// The ends of the names of manifests.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];

/// `PredictSubject` is what a prediction is about.
#[derive(Clone, Copy, Debug)]
pub enum PredictSubject<'a> {
    /// The services of a description.
    Description(&'a Path),
    /// The queue of the options, under the CPU limit of a container.
    Manifest(&'a Path),
    /// The queue of the options.
    Queue,
}

impl PredictArguments {
    /// The subject of the answer.
    ///
    /// # Errors
    /// Options that say what the file says, or that belong to another kind of it.
    pub fn subject(&self) -> Result<PredictSubject<'_>, Failure> {
        let load = &self.queue.load;
        let Some(file) = &self.file else {
            load.check_without_file()?;
            return Ok(PredictSubject::Queue);
        };
        let is_manifest = file
            .extension()
            .is_some_and(|end| MANIFESTS.iter().any(|one| end == *one));
        let of_queue = [
            ("--rate", load.rate.is_some()),
            ("--slo", !self.slos.is_empty()),
            ("--period", self.queue.period.is_some()),
        ];
        let of_description = [
            ("--server", load.server.is_some()),
            ("--variant", self.variant.is_some()),
            ("--calibration", self.on_host.calibration.is_some()),
            (
                "--export-distributions",
                self.export_distributions.is_some(),
            ),
            ("--frequency-model", self.clocks.frequency_model.is_some()),
        ];
        let first_of = |options: &[(&'static str, bool)]| {
            options
                .iter()
                .find(|(_, is_set)| *is_set)
                .map(|(name, _)| *name)
        };
        match (is_manifest, first_of(&of_queue), first_of(&of_description)) {
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
            (true, ..) if load.rate.is_none() => Err(Failure::with_help(
                format!(
                    "the manifest {} does not say what load its container has",
                    file.display()
                ),
                "give it, such as --rate 3/s --execution-time 30ms",
            )),
            (true, ..) => Ok(PredictSubject::Manifest(file)),
            (false, ..) => Ok(PredictSubject::Description(file)),
        }
    }
}

impl SizeArguments {
    /// The description, if there is one.
    ///
    /// # Errors
    /// An option that needs one.
    pub fn description(&self) -> Result<Option<&Path>, Failure> {
        if self.file.is_none() {
            self.load.check_without_file()?;
        }
        Ok(self.file.as_deref())
    }
}

impl LoadArguments {
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
