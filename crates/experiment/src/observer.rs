//! Telling whoever watches how far an experiment is.

/// One step of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentStep {
    /// What is being done.
    pub what: String,
    /// The share of the whole experiment that is done, from 0 to 1.
    pub done: f64,
    /// Whether this is the first word of the step.
    pub begins: bool,
}

/// Someone who watches an experiment.
pub trait Observer {
    /// A step begins or goes on.
    fn step(&mut self, step: &ExperimentStep);
    /// Something worth knowing, in a line.
    fn remark(&mut self, text: &str);
}
