//! How long each task's job runs: described, read from a file, or calibrated.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_measurement::Calibration;
use tailbound_model::{ExecutionTime, InputFiles, Service};
use tailbound_time::Duration;

use crate::ExperimentError;

/// What is known of a service's execution times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// By task, where the description alone does not say it exactly.
    pub measured: BTreeMap<String, Distribution>,
    /// The way from client to service and back: the median of what calibration found.
    pub dispatch_overhead: Duration,
}

impl Known {
    /// The same with every distribution replaced by one value of it.
    #[must_use]
    pub fn reduced(&self, label: &str, value: impl Fn(&Distribution) -> Option<Duration>) -> Self {
        let measured = self
            .measured
            .iter()
            .filter_map(|(task, distribution)| {
                let subject = format!("{label} of {}", distribution.provenance.subject);
                let provenance = Provenance::new(Evidence::Estimate, subject, label);
                let value = value(distribution)?;
                Some((
                    task.clone(),
                    Distribution::from_samples(provenance, vec![value]),
                ))
            })
            .collect();
        Self {
            measured,
            dispatch_overhead: self.dispatch_overhead,
        }
    }

    /// Whether any execution time varies.
    pub fn varies(&self) -> bool {
        self.measured
            .values()
            .any(|distribution| distribution.min() != distribution.max())
    }
}

/// What is known of the execution times of `service`, with what calibration found where there was
/// one.
///
/// # Errors
/// A calibrated task without a calibration and without an expected value.
pub fn execution_times(
    name: &str,
    service: &Service,
    inputs: &InputFiles,
    calibration: Option<&Calibration>,
) -> Result<Known, ExperimentError> {
    let mut known = Known::default();
    if let Some(calibration) = calibration {
        let overhead = calibration.dispatch_overhead.quantile(0.5);
        known.dispatch_overhead = overhead
            .and_then(|interval| interval.high)
            .unwrap_or(Duration::ZERO);
    }
    for (task_name, task) in &service.tasks {
        let subject = format!("execution time of {name}.{task_name}");
        let distribution = match &task.execution_time {
            ExecutionTime::Constant { .. } | ExecutionTime::Uniform { .. } => None,
            ExecutionTime::Samples { file } => {
                let counted = inputs.samples(file).unwrap_or_default();
                let values = counted
                    .iter()
                    .flat_map(|sample| std::iter::repeat_n(sample.value, sample.count as usize))
                    .collect();
                let method = format!("samples from {}", file.display());
                let provenance = Provenance::new(Evidence::Sample, subject, method);
                Some(Distribution::from_samples(provenance, values))
            }
            ExecutionTime::Calibrated { expected } => {
                let found = calibration.and_then(|found| found.execution_times.get(task_name));
                match (found, expected) {
                    (Some(found), _) => Some(found.clone()),
                    (None, Some(expected)) => {
                        let provenance =
                            Provenance::new(Evidence::Estimate, subject, "as expected");
                        Some(Distribution::from_samples(provenance, vec![*expected]))
                    }
                    (None, None) => {
                        let task = format!("{name}.{task_name}");
                        return Err(ExperimentError::NotCalibrated { task });
                    }
                }
            }
        };
        if let Some(distribution) = distribution {
            known.measured.insert(task_name.clone(), distribution);
        }
    }
    Ok(known)
}
