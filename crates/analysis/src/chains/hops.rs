//! Bounds that hold in any phase of the tasks to each other.

use tailbound_time::Duration;

use super::{ChainPart, ChainStage, PartKind};

/// The sum over the tasks of a chain of the longest wait for a job and its response time, with transports between; with the
/// rule of priorities where `by_priorities`. `None` without a task, where the first waits for messages, or beyond all
/// durations.
///
/// A hop from a job that arrived at r to a reader: the job publishes by r + R, the message comes by r + R + transport, the
/// reader's next arrival is no more than its longest distance later, and that job begins no sooner than it arrives. With the
/// rule of priorities, the reader's first arrival at or after r will do, since at its begin no job above it is pending.
pub(super) fn sum(
    stages: &[ChainStage],
    by_priorities: bool,
) -> Option<(Duration, Vec<ChainPart>)> {
    let mut parts = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let yields = by_priorities && index > 0 && stage.yields_to_previous;
        if index > 0 && !stage.transport.is_zero() {
            let length = stage.transport;
            parts.push(ChainPart::of(PartKind::Transport, &stage.topic, length));
        }
        match (stage.trigger.longest_gap(), index) {
            (None, 0) => return None,
            (None, _) => {}
            (Some(gap), _) => {
                let mut wait = gap;
                if yields {
                    // The response of the job in front passes within the wait.
                    let previous: &mut ChainPart = parts.last_mut()?;
                    previous.length = previous.length.min(gap);
                    wait = gap.saturating_sub(previous.length);
                }
                parts.push(ChainPart::of(PartKind::Wait, &stage.name, wait));
            }
        }
        parts.push(ChainPart::of(
            PartKind::Response,
            &stage.name,
            stage.response,
        ));
    }
    let lengths = parts.iter().map(|part| part.length);
    let sum = lengths
        .into_iter()
        .try_fold(Duration::ZERO, Duration::checked_add)?;
    (!parts.is_empty()).then_some((sum, parts))
}
