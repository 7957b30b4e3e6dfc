//! How far a run is, on standard error: a bar on a terminal, a line a step elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use tailbound_experiment::{ExperimentStep, Observer};

use crate::output::Output;

/// Shows the steps of an experiment.
pub struct ProgressDisplay {
    output: Output,
    bar: Option<ProgressBar>,
}

impl ProgressDisplay {
    /// A display that suits `output`.
    pub fn new(output: &Output) -> Self {
        let bar = output.interactive().then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            output: output.clone(),
            bar,
        }
    }
}

impl Observer for ProgressDisplay {
    fn step(&mut self, step: &ExperimentStep) {
        match &self.bar {
            Some(bar) => {
                bar.set_position((step.done * 1000.0) as u64);
                bar.set_message(step.what.clone());
            }
            None if step.begins => self.output.note(&step.what),
            None => {}
        }
    }

    fn remark(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.output.note(text)),
            None => self.output.note(text),
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
