//! `tailbound simulate`: response times by discrete-event simulation.

use tailbound_experiment::execution_times::execution_times;
use tailbound_experiment::forecast::{Span, simulation};
use tailbound_time::Duration;

use crate::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::output::Output;

use super::predict::{each, print};

/// Simulates every chosen service in every chosen variant that has a reservation server.
pub fn carry_out(arguments: &SimulateArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.what.export);
    let loaded = super::load(&arguments.what.file, output)?;
    let span = Span {
        warm_up: Duration::ZERO,
        duration: arguments.duration,
        seed: arguments.seed.unwrap_or(loaded.description.seed),
    };
    let percentiles = &arguments.what.percentiles;
    let from = format!("simulated {}, seed {}", span.duration, span.seed);
    let answers = each(&loaded, &arguments.what, |what| {
        let Some(server) = what.server else {
            let why = "the kernel promises this domain nothing, so there is no rule to simulate";
            return Ok(vec![what.answer(&from, Err(why.into()), percentiles)]);
        };
        let known = execution_times(what.name, what.service, what.inputs, None)
            .map_err(Failure::from_error)?;
        let simulated = simulation(what.name, what.service, &known, server, what.inputs, span)
            .map_err(Failure::from_error)?;
        Ok(vec![what.answer(&from, Ok(simulated.overall), percentiles)])
    })?;
    print(&answers, &arguments.what, output)
}
