//! The host in question where it is not the one of the breakdown: others use its CPUs.

use tailbound_analysis::recovery::{CpuShare, FairShare, ServerReservation};

use super::breakdown::{Breakdown, Recovery};
use super::judgement::Case;
use crate::arguments::BusyHostArguments;
use crate::failure::Failure;

/// What the servers get of its CPUs, and what was measured there.
pub struct BusyHost {
    /// The CPU time.
    pub share: CpuShare,
    /// Measured recoveries.
    pub against: Option<Breakdown>,
    variant: Option<String>,
}

impl BusyHost {
    /// The host that the arguments describe; none where they say nothing of CPU time.
    pub fn of_arguments(arguments: &BusyHostArguments) -> Result<Option<Self>, Failure> {
        let Some(share) = share(arguments)? else {
            return match &arguments.against {
                None => Ok(None),
                Some(file) => Err(Failure::with_help(
                    format!(
                        "nothing is said of the CPU time on the host of {}",
                        file.display()
                    ),
                    "--budget and --period of the servers' reservations, or --neighbours of ordinary \
                     servers",
                )),
            };
        };
        let against = arguments.against.as_deref().map(Breakdown::read);
        Ok(Some(Self {
            share,
            against: against.transpose()?,
            variant: arguments.against_variant.clone(),
        }))
    }

    /// The recoveries that were measured there of one kind, if any were measured.
    pub fn of(&self, case: &Case) -> Option<Vec<&Recovery>> {
        let variant = self.variant.as_ref().unwrap_or(&case.variant);
        let against = self.against.as_ref()?;
        Some(against.of(variant, &case.cause))
    }
}

fn share(arguments: &BusyHostArguments) -> Result<Option<CpuShare>, Failure> {
    if let (Some(budget), Some(period)) = (arguments.budget, arguments.period) {
        let mut reservation =
            ServerReservation::new(budget, period).map_err(Failure::from_error)?;
        reservation = reservation.held_up_by(arguments.held_up);
        if let Some(used) = arguments.used {
            reservation = reservation.with_used(used);
        }
        if let Some(work) = arguments.work {
            reservation = reservation.with_work(work);
        }
        return Ok(Some(CpuShare::Reserved(reservation)));
    }
    arguments
        .neighbours
        .map(|neighbours| {
            FairShare::beside(neighbours, arguments.weight, arguments.slice)
                .map(CpuShare::Fair)
                .map_err(Failure::from_error)
        })
        .transpose()
}
