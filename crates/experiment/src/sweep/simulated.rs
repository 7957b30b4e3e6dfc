//! The simulation of a whole description.

use tailbound_model::{Description, InputFiles, Variant};
use tailbound_simulator::Simulation;

use crate::ExperimentError;
use crate::execution_times::execution_times;
use crate::forecast::{Span, simulation};
use crate::resolve::resolve;

/// What was simulated of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedService {
    /// Its name.
    pub name: String,
    /// What came out; `None` where the kernel promises its domain nothing, so that there is no rule
    /// to simulate.
    pub found: Option<Simulation>,
}

/// Simulates every service of a description in one of its variants, in the order of their names:
/// each on its own reservation, which has the highest priority on its CPU.
///
/// # Errors
/// The variant cannot be resolved, or arrivals or execution times cannot be drawn.
pub fn simulate_description(
    description: &Description,
    variant: &Variant,
    inputs: &InputFiles,
    span: Span,
) -> Result<Vec<SimulatedService>, ExperimentError> {
    let resolved = resolve(description, variant)?;
    let mut services = Vec::new();
    for (name, service) in &description.services {
        let server = resolved
            .get(&service.domain)
            .and_then(|domain| domain.server());
        let found = match server {
            None => None,
            Some(server) => {
                let known = execution_times(name, service, inputs, None)?;
                Some(simulation(name, service, &known, server, inputs, span)?)
            }
        };
        let name = name.clone();
        services.push(SimulatedService { name, found });
    }
    Ok(services)
}
