//! The points of a campaign as descriptions.

use std::collections::BTreeMap;

use tailbound_analysis::FORMAT;
use tailbound_analysis::resolution::Deployment;
use tailbound_linux::HostCapabilities;
use tailbound_model::{
    Axis, InputFiles, KeyPath, LoadedDescription, Problems, Section, Severity, Variant,
    files_named, load_inputs,
};
use tailbound_sampling::{PERIOD, SHARE, SampleGrid, SamplingCampaign, described_bandwidth};
use tailbound_sweep::{VariedDescription, hash_of};
use tailbound_time::Duration;

use super::SampleError;
use crate::host_check::obstacle_of_run;
use crate::host_set::HostSet;

/// The version of the journal's form.
const JOURNAL_FORM: &str = "tailbound-sampling-1";

/// `CampaignPlan` is a campaign whose every point is a description that this host can enforce.
pub(super) struct CampaignPlan<'a> {
    loaded: &'a LoadedDescription,
    inputs: &'a InputFiles,
    /// The table of the description.
    pub campaign: SamplingCampaign,
    /// The points.
    pub grid: SampleGrid,
    document: VariedDescription,
    /// The part of the share that each reservation has.
    parts: BTreeMap<String, f64>,
}

/// `PlannedPoint` is a point as a description.
pub(super) struct PlannedPoint {
    /// The description, with the text of the point.
    pub loaded: LoadedDescription,
    /// The files that it names.
    pub inputs: InputFiles,
    /// The reservations.
    pub deployment: Deployment,
    /// The keys that the application was started with: another application is needed where these differ.
    pub stage: Vec<(String, String)>,
}

impl<'a> CampaignPlan<'a> {
    /// The plan of a description's campaign; of `only` these values of axes, where it has any.
    ///
    /// # Errors
    /// The description has no campaign, or no such axis or value.
    pub(super) fn of(
        loaded: &'a LoadedDescription,
        inputs: &'a InputFiles,
        only: &[(String, String)],
    ) -> Result<Self, SampleError> {
        let campaign: SamplingCampaign = loaded.description.section();
        if !campaign.varies() {
            return Err(SampleError::NoCampaign);
        }
        let mut axes = campaign
            .all_axes()
            .map_err(tailbound_sweep::SweepError::from)?;
        for (key, value) in only {
            narrow(&mut axes, key, value)?;
        }
        let file = loaded.path.display().to_string();
        Ok(Self {
            loaded,
            inputs,
            parts: campaign.parts(&loaded.description),
            grid: SampleGrid::new(axes),
            document: VariedDescription::parse(&loaded.text, &file)?,
            campaign,
        })
    }

    /// The domains whose reservations the campaign varies.
    pub(super) fn domains(&self) -> impl Iterator<Item = &String> {
        self.parts.keys()
    }

    /// The title of the journal: that of this description, its files, a seed and this version.
    pub(super) fn title(&self, seed: u64) -> String {
        let (text, inputs) = (&self.loaded.text, self.inputs);
        let version = env!("CARGO_PKG_VERSION");
        let axes = self.grid.axes();
        let hash = hash_of(&format_args!(
            "{version}\n{text}\n{seed}\n{inputs:?}\n{axes:?}"
        ));
        format!("{JOURNAL_FORM} {hash:016x}")
    }

    /// Refuses a campaign of which this host cannot enforce a point.
    ///
    /// # Errors
    /// The first such point.
    pub(super) fn check_host(&self) -> Result<(), SampleError> {
        let host = HostCapabilities::probe();
        for point in 0..self.grid.len() {
            let planned = self.point(point)?;
            let description = &planned.loaded.description;
            let hosts = HostSet::with_only_here(description, &host);
            let variant = Variant::as_described();
            if let Some(obstacle) = obstacle_of_run(description, &variant, &hosts)? {
                let what = format!("cannot be enforced here: {obstacle}");
                let remedy = match host.uid {
                    0 => {
                        "lower the highest share, or see `tailbound doctor` for what this host lacks"
                    }
                    _ => {
                        "run it as root (sudo); `tailbound doctor` tells what else this host lacks"
                    }
                };
                return Err(self.problem(point, &what, remedy));
            }
        }
        Ok(())
    }

    /// A point as a description.
    ///
    /// # Errors
    /// The values of the point make no valid description.
    pub(super) fn point(&self, point: usize) -> Result<PlannedPoint, SampleError> {
        let values = self.values(point);
        let pairs = values.iter();
        let pairs = pairs.map(|(key, value)| (key.as_str(), value.as_str()));
        let text = self.document.with_values(pairs)?;
        let checked = FORMAT.check(&text, "the point");
        let Some(description) = checked.description else {
            return Err(self.invalid(point, &checked.problems));
        };
        let deployment = Deployment::of_run(&description, &Variant::as_described());
        let deployment = deployment.map_err(crate::ExperimentError::from)?;
        let inputs = match files_named(&description) == files_named(&self.loaded.description) {
            true => self.inputs.clone(),
            false => load_inputs(&description, self.loaded.base())
                .map_err(|problems| self.invalid(point, &problems))?,
        };
        let stage = values.iter().filter(|(key, _)| !keeps_running(key));
        Ok(PlannedPoint {
            inputs,
            deployment,
            stage: stage.cloned().collect(),
            loaded: LoadedDescription {
                description,
                path: self.loaded.path.clone(),
                text,
                warnings: Problems::new(Vec::new()),
            },
        })
    }

    /// The keys of the description with their values at a point.
    fn values(&self, point: usize) -> Vec<(String, String)> {
        let own = self.grid.axes().iter().zip(self.grid.values(point));
        let others = own.filter(|(axis, _)| axis.key != SHARE && axis.key != PERIOD);
        let mut values: Vec<(String, String)> = others
            .map(|(axis, value)| (axis.key.clone(), value.to_owned()))
            .collect();
        let (share, period) = (self.grid.share(point), self.grid.period(point));
        if share.is_none() && period.is_none() {
            return values;
        }
        for (name, part) in &self.parts {
            let domain = self.loaded.description.domains.get(name);
            let Some(reservation) = domain.and_then(|domain| domain.reservation.as_ref()) else {
                continue;
            };
            let described = described_bandwidth(reservation).unwrap_or(0.0);
            let bandwidth = share.map_or(described, |share| share / 100.0 * part);
            let period = period.or(reservation.period).unwrap_or(Duration::ZERO);
            let budget = Duration::from_secs_f64_nearest(period.as_secs_f64() * bandwidth);
            let place = format!("domains.{name}.reservation");
            values.push((format!("{place}.budget"), budget.to_string()));
            values.push((format!("{place}.period"), period.to_string()));
        }
        values
    }

    fn invalid(&self, point: usize, problems: &Problems) -> SampleError {
        let error = problems.iter().find(|one| one.severity == Severity::Error);
        match error {
            Some(error) => {
                let what = format!("{}: {}", error.key, error.message);
                self.problem(point, &what, &error.remedy)
            }
            None => self.problem(point, "is no description", "leave its values out"),
        }
    }

    /// A problem with a point, at the table of the campaign.
    fn problem(&self, point: usize, what: &str, remedy: &str) -> SampleError {
        let place = KeyPath::root().key(SamplingCampaign::KEY);
        let message = format!("the point {}: {what}", self.grid.in_words(point));
        let problem = self.loaded.problem(&place, message, remedy.to_owned());
        SampleError::Point(Box::new(problem))
    }
}

/// Leaves of an axis the values that are meant: one, or several with commas.
fn narrow(axes: &mut [Axis], key: &str, values: &str) -> Result<(), SampleError> {
    let keys: Vec<String> = axes.iter().map(|axis| axis.key.clone()).collect();
    let Some(axis) = axes.iter_mut().find(|axis| axis.key == key) else {
        return Err(SampleError::Question {
            what: format!("the campaign has no axis {key}"),
            remedy: format!("write one of {}", keys.join(", ")),
        });
    };
    let wanted: Vec<&str> = values.split(',').collect();
    let is_there = |value: &&str| axis.values.iter().any(|own| own == value);
    if let Some(missing) = wanted.iter().find(|value| !is_there(value)) {
        return Err(SampleError::Question {
            what: format!("the axis {key} has no value \"{missing}\""),
            remedy: format!("write some of {}", axis.values.join(",")),
        });
    }
    axis.values.retain(|own| wanted.contains(&own.as_str()));
    Ok(())
}

/// Whether an application runs on while a key changes: loads and promises are outside of the programs, and budgets are
/// the daemon's.
fn keeps_running(key: &str) -> bool {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["domains", _, "reservation", own] => ["budget", "period", "priority"].contains(own),
        ["services", _, own, ..] => ["tasks", "users", "max_in_flight", "slos"].contains(own),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn axes_are_narrowed_to_values_that_they_have() {
        let axes = || vec!["share=20,40,60".parse().unwrap(), "a.b=x".parse().unwrap()];
        let mut some: Vec<Axis> = axes();
        narrow(&mut some, "share", "60,20").unwrap();
        assert_eq!(some[0].values, ["20", "60"]);
        let refused =
            |key: &str, value: &str| narrow(&mut axes(), key, value).unwrap_err().to_string();
        assert!(refused("period", "1ms").contains("write one of share, a.b"));
        assert!(refused("share", "20,30").contains("no value \"30\""));
    }

    #[test]
    fn loads_and_budgets_change_under_a_running_application() {
        for key in [
            "domains.web.reservation.budget",
            "services.web.tasks.get.arrivals.rate",
            "services.web.users.count",
        ] {
            assert!(keeps_running(key), "{key}");
        }
        for key in [
            "domains.web.reservation.cpus",
            "domains.web.memory_limit",
            "services.web.endpoint",
            "hosts.local.major_frame",
        ] {
            assert!(!keeps_running(key), "{key}");
        }
    }
}
