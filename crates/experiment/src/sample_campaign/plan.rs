//! The points of a campaign as descriptions.

use std::collections::BTreeMap;

use tailbound_analysis::FORMAT;
use tailbound_analysis::resolution::Deployment;
use tailbound_linux::HostCapabilities;
use tailbound_model::{
    InputFiles, KeyPath, LoadedDescription, Problems, Section, Severity, Variant, files_named,
    load_inputs,
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
    /// The plan of a description's campaign.
    ///
    /// # Errors
    /// The description has no campaign.
    pub(super) fn of(
        loaded: &'a LoadedDescription,
        inputs: &'a InputFiles,
    ) -> Result<Self, SampleError> {
        let campaign: SamplingCampaign = loaded.description.section();
        if !campaign.varies() {
            return Err(SampleError::NoCampaign);
        }
        let axes = campaign
            .all_axes()
            .map_err(tailbound_sweep::SweepError::from)?;
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
        let hash = hash_of(&format_args!("{version}\n{text}\n{seed}\n{inputs:?}"));
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
    use super::*;

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
