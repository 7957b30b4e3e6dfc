//! Threads beside the one that measures, on the same CPU.

use std::sync::mpsc;
use std::thread::{Scope, Thread};

use tailbound_linux::thread::{ThreadError, make_current_thread_fifo};

use crate::MeasurementError;

/// The FIFO priority of the thread that measures; its neighbours are one above and one below, all below
/// the highest that a domain may have.
pub(super) const FIFO_PRIORITY: u8 = 88;

/// Starts a thread at a FIFO priority (0: at none) on the CPUs of the calling one. It is there when this
/// returns.
pub(super) fn start<'scope, F: FnOnce() + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    priority: u8,
    work: F,
) -> Result<Thread, MeasurementError> {
    let (ready, is_ready) = mpsc::channel::<Result<(), ThreadError>>();
    let started = std::thread::Builder::new()
        .name("overheads".into())
        .spawn_scoped(scope, move || {
            let outcome = match priority {
                0 => Ok(()),
                _ => make_current_thread_fifo(priority),
            };
            let fine = outcome.is_ok();
            let _nobody_waits_at_worst = ready.send(outcome);
            if fine {
                work();
            }
        });
    let started = started.map_err(|cause| MeasurementError::Host {
        what: "start a thread".into(),
        cause,
        remedy: "raise the limit of threads".into(),
    })?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(started.thread().clone()),
        Ok(Err(cause)) => Err(MeasurementError::BadPlan {
            what: format!("overheads: {cause}"),
            remedy: "grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO".into(),
        }),
        Err(_) => Err(lost("a thread ended at once")),
    }
}

/// Something that the kernel's rules promise did not happen.
pub(super) fn lost(what: &str) -> MeasurementError {
    MeasurementError::BadPlan {
        what: format!("overheads: {what}"),
        remedy: "let no other thread of SCHED_FIFO or SCHED_DEADLINE run on that CPU meanwhile"
            .into(),
    }
}

/// A system call that failed.
pub(super) fn refused(what: &'static str) -> impl Fn(std::io::Error) -> MeasurementError {
    move |cause| MeasurementError::Host {
        what: what.into(),
        cause,
        remedy: "raise the limit of open files, if that is what is missing".into(),
    }
}
