//! Which event of a thread is the first one behind a loss.

use std::collections::HashMap;

/// The losses so far, and how many there were before the last event of each thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossMarks {
    losses: u64,
    before: HashMap<u32, u64>,
}

impl LossMarks {
    /// Notes that events of any thread were lost.
    pub(crate) fn note_loss(&mut self) {
        self.losses += 1;
    }

    /// The number of losses.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether events may be missing before this one of a thread, which is noted as its last.
    pub(crate) fn follows_loss(&mut self, thread: u32) -> bool {
        self.before.insert(thread, self.losses).unwrap_or(0) < self.losses
    }
}
