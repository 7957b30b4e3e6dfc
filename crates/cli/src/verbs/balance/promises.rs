//! The capacities that promises of balanced applications need, by prediction.

use tailbound_analysis::Unwatched;
use tailbound_assessment::sizing::{SizingOptions, UsualHost, size_services};
use tailbound_balance::BalancePlan;
use tailbound_model::{LoadedDescription, PercentagePoints};

use crate::failure::Failure;
use crate::output::Output;

/// Puts the capacity that each named promise needs into the plan.
pub fn predict(
    plan: &mut BalancePlan,
    loaded: &LoadedDescription,
    output: &Output,
) -> Result<(), Failure> {
    if plan
        .applications
        .iter()
        .all(|one| one.described.promise.is_none())
    {
        return Ok(());
    }
    let inputs = crate::verbs::inputs(loaded)?;
    for application in &mut plan.applications {
        let Some(service) = &application.described.promise else {
            continue;
        };
        let options = SizingOptions {
            service: Some(service),
            backend: None,
            periods: Some((plan.period, plan.period)),
            points: 1,
            margin: PercentagePoints(0.0),
            server: None,
            host: &UsualHost,
            runs: None,
            watch: &Unwatched,
        };
        let sized = size_services(&loaded.description, &inputs, &options);
        let sized = sized.map_err(Failure::from_assessment)?;
        let needed = sized
            .iter()
            .filter_map(|one| one.budgets.as_ref()?.reservation.as_ref()?.budget);
        let Some(needed) = needed.max() else {
            let reasons = sized.iter().filter_map(|one| one.refused.clone());
            let reason = reasons.collect::<Vec<_>>().join("; ");
            return Err(Failure::with_help(
                format!(
                    "no capacity keeps the promise of `{service}` at a period of {}: {reason}",
                    plan.period
                ),
                format!(
                    "leave out balance.applications.{}.promise, or promise less",
                    application.name
                ),
            ));
        };
        output.note(format!(
            "{}: the promise of `{service}` needs {needed} every {} by prediction",
            application.name, plan.period
        ));
        application.promised = Some(needed);
    }
    Ok(())
}
