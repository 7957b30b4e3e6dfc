//! Virtual CPUs that a hypervisor runs on any CPU of a pool, the earliest end of a period first.

use tailbound_time::{Duration, Fraction};

use crate::SporadicTask;
use crate::schedulability::global_edf::{sufficient_density, sufficient_response_times};

/// The tests, with their sources.
pub const METHOD: &str = "global EDF by the largest and the sum of the bandwidths (Goossens, Funk and Baruah 2003) or by response times \
     (Bertogna and Cirinei 2007), sufficient";

/// Why virtual CPUs do not fit into a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Together they ask for more than there is.
    TooMuch,
    /// They may fit; no test shows it.
    NotShown,
}

/// Whether virtual CPUs, each with its budget and period, get their budgets on `cpus` CPUs; and the sum of
/// their bandwidths. Under global EDF that the sum fits does not show it: one with a large share waits for
/// short ones on all CPUs (Dhall and Liu 1978). Both tests take virtual CPUs that ask from their
/// replenishment on.
pub fn fit(vcpus: &[(Duration, Duration)], cpus: u32) -> (Fraction, Result<(), Misfit>) {
    let share = |(budget, period): &(Duration, Duration)| {
        Fraction::new(budget.as_nanos(), period.as_nanos().max(1))
    };
    let sum = vcpus
        .iter()
        .fold(Fraction::new(0, 1), |sum, one| sum + share(one));
    let verdict = match sum <= Fraction::new(u64::from(cpus), 1) {
        false => Err(Misfit::TooMuch),
        true if are_in_time(vcpus, cpus) => Ok(()),
        true => Err(Misfit::NotShown),
    };
    (sum, verdict)
}

/// Why the virtual CPUs of a host do not all get their budgets on `cpus` CPUs of it, if so.
pub fn refusal(host: &str, vcpus: &[(Duration, Duration)], cpus: u32) -> Option<String> {
    let (sum, verdict) = fit(vcpus, cpus);
    let why = match verdict {
        Ok(()) => return None,
        Err(Misfit::TooMuch) => "that is more than it has",
        Err(Misfit::NotShown) => "no test of global EDF shows that all get their budgets",
    };
    Some(format!(
        "the virtual CPUs of host \"{host}\" ask for {sum} of its {cpus} CPUs: {why}; lower a budget"
    ))
}

fn are_in_time(vcpus: &[(Duration, Duration)], cpus: u32) -> bool {
    let asking: Vec<_> = vcpus
        .iter()
        .filter(|(budget, _)| !budget.is_zero())
        .collect();
    // Each finds a CPU whenever it asks.
    if asking.len() <= cpus as usize {
        return true;
    }
    let tasks = asking
        .iter()
        .map(|(budget, period)| SporadicTask::implicit(*budget, *period));
    let Ok(tasks) = tasks.collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let by_density = sufficient_density(&tasks, cpus).is_ok_and(|verdict| verdict.accepted);
    by_density || sufficient_response_times(&tasks, cpus).is_ok_and(|times| times.accepted())
}
