//! The locks of the kernel in a recording of `tailbound trace record --kernel-locks`.

use std::fs::File;

use tailbound_lock_trace::{KernelLockReader, LockStudy};
use tailbound_trace::kernel::KernelEventKind;
use tailbound_trace::recording::{KernelRecording, KernelRecordingError};

use super::lock_report::{LockReport, TraceQuality};
use crate::output::Output;

/// Evaluates the locks of a recording; what the recorder could not see goes to standard error.
pub fn evaluate(
    recording: &KernelRecording<File>,
    output: &Output,
) -> Result<LockReport, Box<dyn std::error::Error>> {
    let decoder = recording.decoder()?;
    let mut events = recording.events(&decoder);
    let mut reader = KernelLockReader::default();
    let mut study = LockStudy::default();
    let mut calls = 0;
    while let Some(event) = events.next_event()? {
        calls += u64::from(matches!(event.kind, KernelEventKind::Lock(_)));
        if let Some(event) = reader.translate(&event) {
            study.take(&event);
        }
    }
    if calls == 0 {
        return Err(KernelRecordingError::NoLocks.into());
    }
    for missing in &recording.header().missing {
        output.warn(format!("not recorded: {missing}"));
    }
    let end = recording.end();
    let clock_error = end.and_then(|end| end.clock_error);
    let reading = TraceQuality {
        events: calls,
        lost: end.map_or(0, |end| end.lost + end.dropped),
        unfinished: 0,
        clock_error_ns: clock_error.map_or(0, |error| error.bound.as_nanos()),
    };
    let symbols = &recording.header().symbols;
    Ok(LockReport::of_kernel(study.finish(), reading, symbols))
}
