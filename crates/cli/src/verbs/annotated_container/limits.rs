//! The limits of the requests that containers make by their annotations, whoever wrote these.

use std::collections::BTreeMap;

use tailbound_time::Duration;

use crate::arguments::{AnnotatedReservation, ContainerLimitArguments, OptionPlace};
use crate::failure::Failure;

/// `ContainerLimits` are the bounds that the command line sets for one container. The admission bounds all
/// containers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerLimits {
    /// The CPUs that may be asked for; any if empty.
    cpus: Vec<u32>,
    /// The largest budget in percent of its period.
    bandwidth_percent: Option<u64>,
    /// The highest priority.
    priority: Option<u8>,
}

impl ContainerLimits {
    /// The limits that the arguments set.
    pub fn new(arguments: &ContainerLimitArguments) -> Self {
        Self {
            cpus: arguments.allowed_cpus.clone(),
            bandwidth_percent: arguments.bandwidth_limit,
            priority: arguments.priority_limit,
        }
    }

    /// Refuses a reservation beyond the limits. One that names no CPU has the first that is allowed, and one that names
    /// no priority has the highest that is allowed.
    ///
    /// # Errors
    /// The first annotation that asks for more than the limits have.
    pub fn fit(
        &self,
        annotations: &BTreeMap<String, String>,
        annotated: &mut AnnotatedReservation,
    ) -> Result<(), Failure> {
        let reservation = &mut annotated.reservation;
        let is_asked = |option| annotations.contains_key(&OptionPlace::Annotations.spell(option));
        if let (Some(first), false) = (self.cpus.first(), is_asked("cpus")) {
            reservation.cpus = vec![*first];
        }
        let is_allowed = |cpu: &u32| self.cpus.is_empty() || self.cpus.contains(cpu);
        if let Some(cpu) = reservation.cpus.iter().find(|cpu| !is_allowed(cpu)) {
            let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
            return Err(refusal("cpus", format!("CPU {cpu}"), cpus.join(",")));
        }
        if !is_asked("priority") {
            reservation.priority = reservation.priority.min(self.priority.unwrap_or(u8::MAX));
        }
        let (priority, limit) = (reservation.priority, self.priority);
        if let Some(limit) = limit.filter(|limit| priority > *limit) {
            let limit = format!("{limit} at most");
            return Err(refusal("priority", priority.to_string(), limit));
        }
        self.check_bandwidth(annotated)
    }

    fn check_bandwidth(&self, annotated: &AnnotatedReservation) -> Result<(), Failure> {
        let Some(percent) = self.bandwidth_percent else {
            return Ok(());
        };
        let reservation = &annotated.reservation;
        let limit = format!("{percent}% of a CPU at most");
        if !reservation.backend.has_budget() {
            let asked = format!("{}, which has no budget", reservation.backend);
            return Err(refusal("backend", asked, limit));
        }
        match (reservation.budget, reservation.period) {
            (Some(budget), Some(period)) if exceeds(budget, period, percent) => {
                Err(refusal("budget", format!("{budget} in {period}"), limit))
            }
            _ => Ok(()),
        }
    }
}

fn refusal(option: &str, asked: String, limit: String) -> Failure {
    let annotation = OptionPlace::Annotations.spell(option);
    Failure::with_help(
        format!("annotation {annotation} asks for {asked}, and containers may have {limit}"),
        "ask for less, or have root change the limits where the command stands",
    )
}

/// Whether a budget is more than so many percent of a period.
fn exceeds(budget: Duration, period: Duration, percent: u64) -> bool {
    u128::from(budget.as_nanos()) * 100 > u128::from(period.as_nanos()) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn fitted(
        words: &str,
        limits: &ContainerLimitArguments,
    ) -> Result<AnnotatedReservation, Failure> {
        let pairs = words.split(' ').filter_map(|word| word.split_once('='));
        let annotations =
            pairs.map(|(name, value)| (format!("tailbound.{name}"), value.to_owned()));
        let annotations: BTreeMap<String, String> = annotations.collect();
        let mut annotated = AnnotatedReservation::of("box", &annotations)?.unwrap();
        ContainerLimits::new(limits).fit(&annotations, &mut annotated)?;
        Ok(annotated)
    }

    #[track_caller]
    fn refused(words: &str, limits: &ContainerLimitArguments) -> String {
        fitted(words, limits).unwrap_err().to_string()
    }

    #[test]
    fn without_limits_a_container_has_what_it_asks_for() {
        let none = ContainerLimitArguments::default();
        let annotated = fitted("budget=9ms period=10ms", &none).unwrap();
        assert_eq!(annotated.reservation.cpus, [0]);
        assert_eq!(annotated.reservation.priority, 90);
        fitted("backend=fifo", &none).unwrap();
    }

    #[test]
    fn limits_are_refusals_or_what_a_container_has_that_asks_for_nothing() {
        let limits = ContainerLimitArguments {
            allowed_cpus: vec![2, 3],
            bandwidth_limit: Some(50),
            priority_limit: Some(40),
        };
        let annotated = fitted("budget=5ms period=10ms", &limits).unwrap();
        assert_eq!(annotated.reservation.cpus, [2]);
        assert_eq!(annotated.reservation.priority, 40);
        assert_eq!(
            refused("budget=5001us period=10ms cpus=3", &limits),
            "annotation tailbound.budget asks for 5.001ms in 10ms, and containers may have 50% of a CPU at most"
        );
        assert_eq!(
            refused("budget=1ms period=10ms cpus=2,0", &limits),
            "annotation tailbound.cpus asks for CPU 0, and containers may have 2,3"
        );
        assert_eq!(
            refused("budget=1ms period=10ms priority=41", &limits),
            "annotation tailbound.priority asks for 41, and containers may have 40 at most"
        );
        assert_eq!(
            refused("backend=fifo", &limits),
            "annotation tailbound.backend asks for fifo, which has no budget, and containers may have 50% of a CPU at most"
        );
    }
}
