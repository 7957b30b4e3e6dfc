//! What crosses the border between Python and the analyses and simulations, and no logic of its own.
//!
//! Times cross as integers of nanoseconds, in names that end in `_ns`; texts, `timedelta`s and
//! arrays are turned into them, and back, by the Python modules in `python/tailbound`, which are
//! what users see. The texts are parsed here, by the parsers that the command line has, in `time` and
//! `analysis::notation`.

mod assessment;
mod chains;
mod comparison;
mod description;
mod frequency;
mod generation;
mod interfaces;
mod interruption;
mod ports;
mod refusal;
mod response;
mod simulation;
mod sizing;
mod sweep;
mod tasks;
mod texts;
mod thesis;
mod topics;

use pyo3::prelude::*;

/// The native half of the package `tailbound`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let python = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ENGINE", tailbound_simulator::ENGINE)?;
    module.add("AnalysisError", python.get_type::<refusal::AnalysisError>())?;
    module.add("PortError", python.get_type::<ports::PortError>())?;
    module.add_class::<ports::SamplingWriter>()?;
    module.add_class::<ports::SamplingReader>()?;
    module.add_class::<ports::QueuingSender>()?;
    module.add_class::<ports::QueuingReceiver>()?;
    module.add("TopicError", python.get_type::<topics::TopicError>())?;
    module.add_class::<topics::TopicSpace>()?;
    module.add_class::<topics::Publisher>()?;
    module.add_class::<topics::Subscriber>()?;
    module.add_class::<description::Description>()?;
    module.add_class::<response::Answer>()?;
    module.add_class::<thesis::Discretised>()?;
    module.add_function(wrap_pyfunction!(texts::parse_duration, module)?)?;
    module.add_function(wrap_pyfunction!(texts::parse_rate, module)?)?;
    module.add_function(wrap_pyfunction!(texts::parse_task, module)?)?;
    module.add_function(wrap_pyfunction!(texts::parse_promise, module)?)?;
    module.add_function(wrap_pyfunction!(texts::parse_period_range, module)?)?;
    module.add_function(wrap_pyfunction!(texts::parse_execution_times, module)?)?;
    module.add_function(wrap_pyfunction!(texts::format_duration, module)?)?;
    module.add_function(wrap_pyfunction!(response::predict, module)?)?;
    module.add_function(wrap_pyfunction!(assessment::predict_description, module)?)?;
    module.add_function(wrap_pyfunction!(assessment::size_description, module)?)?;
    module.add_function(wrap_pyfunction!(assessment::analyze_description, module)?)?;
    module.add_function(wrap_pyfunction!(chains::predict_chains, module)?)?;
    module.add_function(wrap_pyfunction!(chains::size_frame, module)?)?;
    module.add_function(wrap_pyfunction!(comparison::compare, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulate, module)?)?;
    module.add_class::<sweep::Sweep>()?;
    module.add_class::<sweep::Collection>()?;
    module.add_function(wrap_pyfunction!(generation::generate, module)?)?;
    module.add_function(wrap_pyfunction!(generation::generated_columns, module)?)?;
    module.add_function(wrap_pyfunction!(sizing::size, module)?)?;
    module.add_function(wrap_pyfunction!(sizing::size_periodic, module)?)?;
    module.add_function(wrap_pyfunction!(sizing::spread_periods, module)?)?;
    module.add_function(wrap_pyfunction!(sizing::limit_periods, module)?)?;
    module.add_function(wrap_pyfunction!(tasks::hyperperiod, module)?)?;
    module.add_function(wrap_pyfunction!(tasks::bandwidth_curve, module)?)?;
    module.add_function(wrap_pyfunction!(tasks::fixed_priority, module)?)?;
    module.add_function(wrap_pyfunction!(tasks::deadline_tests, module)?)?;
    module.add_function(wrap_pyfunction!(tasks::global_test, module)?)?;
    module.add_function(wrap_pyfunction!(interfaces::interface, module)?)?;
    module.add_function(wrap_pyfunction!(interfaces::bounded_delay, module)?)?;
    module.add_function(wrap_pyfunction!(interfaces::interface_description, module)?)?;
    module.add_function(wrap_pyfunction!(tasks::earliest_deadline_first, module)?)?;
    module.add_function(wrap_pyfunction!(frequency::fit_frequency_model, module)?)?;
    module.add_function(wrap_pyfunction!(frequency::slowdowns, module)?)?;
    module.add_function(wrap_pyfunction!(thesis::discretised, module)?)?;
    Ok(())
}
