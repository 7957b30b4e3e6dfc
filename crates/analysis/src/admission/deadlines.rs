//! Deferrable servers by deadlines on one CPU, which descriptions may have and no back end enforces.

use tailbound_model::{Cpu, Precedence, ServerKind};
use tailbound_time::Duration;

use super::{AdmissionRefusal, Reserved};
use crate::interfaces::test_points::{demand_horizon, find_shortage};
use crate::interfaces::{DedicatedCpu, SupplyBound, Workload};
use crate::interference::{InterferedCpu, InterferenceLoad};
use crate::{AnalysisError, SporadicTask};

/// The first reservation whose budget may come after the end of its period. Constant-bandwidth servers have
/// theirs in time if the bandwidths fit; with deferrable ones: processor demand with a jitter of period -
/// budget, in windows that hold a whole period of the reservation in question. Sufficient. Interference is taken from the
/// CPU: then all budgets are held against what is left.
pub(super) fn late_budget(
    cpu: Cpu,
    held: &[&Reserved<'_>],
    interference: &InterferenceLoad,
) -> Option<AdmissionRefusal> {
    let by_deadline = held
        .iter()
        .filter(|one| one.is_guaranteed() && one.backend.precedence() == Precedence::Deadline);
    let all: Vec<&Reserved<'_>> = by_deadline.copied().collect();
    let deferrable = |one: &&&Reserved<'_>| one.server == Some(ServerKind::Deferrable);
    let counts = |one: &&&Reserved<'_>| deferrable(one) || !interference.is_empty();
    let first = all.iter().find(counts)?;
    match shortage(&all, interference) {
        Ok(None) => None,
        Ok(Some((domain, window, shortfall))) => Some(AdmissionRefusal::Shortage {
            cpu,
            domain,
            window,
            shortfall,
        }),
        Err(error) => Some(AdmissionRefusal::NotJudged {
            cpu,
            domain: first.domain.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// The reservation that lacks CPU time at the end of a window, that window, and how much it lacks.
fn shortage(
    all: &[&Reserved<'_>],
    interference: &InterferenceLoad,
) -> Result<Option<(String, Duration, Duration)>, AnalysisError> {
    let task = |one: &&Reserved<'_>| {
        let (budget, period) = (one.interface.budget, one.interface.period);
        SporadicTask::implicit(budget, period)?.with_jitter(one.jitter())
    };
    let workload = Workload::new(all.iter().map(task).collect::<Result<_, _>>()?)?;
    let left;
    let supply: &dyn SupplyBound = match interference.is_empty() {
        true => &DedicatedCpu,
        false => {
            left = InterferedCpu(interference.clone());
            &left
        }
    };
    let horizon = demand_horizon(&workload, supply)?;
    for one in all {
        // Beyond a whole repetition after the shortest window of interest, all repeats.
        let period = one.interface.period;
        let from = horizon.saturating_add(period);
        if let Some(window) = find_shortage(period, from, supply, &workload)? {
            let demand = workload.demand_bound(window);
            let shortfall = demand.saturating_sub(supply.supplied_down(window));
            return Ok(Some((one.domain.to_owned(), window, shortfall)));
        }
    }
    Ok(None)
}
