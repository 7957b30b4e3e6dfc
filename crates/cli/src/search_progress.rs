//! The progress of an analysis as a line on a terminal, and Ctrl-C as the wish for its best answer so far.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Pause, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tailbound_analysis::{SearchStage, SearchWatch};

use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;

/// Nothing is shown of an analysis that takes no longer.
const SHOWN_AFTER: Pause = Pause::from_secs(1);

/// The watch over one analysis.
pub struct SearchProgress {
    began: Instant,
    stop: Arc<AtomicBool>,
    line: Option<ProgressBar>,
}

impl SearchProgress {
    /// A watch from now on: the first SIGINT or SIGTERM stops the analysis, the second ends the process.
    ///
    /// # Errors
    /// The kernel refuses a handler.
    pub fn begin(output: &Output) -> Result<Self, Failure> {
        let line = output.interactive().then(|| {
            let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
            line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            line
        });
        Ok(Self {
            began: Instant::now(),
            stop: interrupts::watch()?,
            line,
        })
    }
}

impl fmt::Debug for SearchProgress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop = self.stop.load(Ordering::Relaxed);
        out.debug_struct("SearchProgress")
            .field("stop", &stop)
            .finish_non_exhaustive()
    }
}

impl SearchWatch for SearchProgress {
    fn is_stopped(&self) -> bool {
        if let Some(line) = &self.line
            && line.is_hidden()
            && self.began.elapsed() > SHOWN_AFTER
        {
            line.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.stop.load(Ordering::Relaxed)
    }

    fn hear(&self, stage: SearchStage) {
        let Some(line) = &self.line else {
            return;
        };
        line.set_message(match stage {
            SearchStage::PeriodsSettled { settled, all } => {
                format!("{settled} of {all} periods are settled; Ctrl-C for the budgets so far")
            }
            SearchStage::PlacesSummed { summed, all } => format!(
                "response times to {}%; Ctrl-C for a wider bracket",
                summed * 100 / all.max(1)
            ),
        });
        line.tick();
    }
}

impl Drop for SearchProgress {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
