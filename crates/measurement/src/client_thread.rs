//! The thread that a client of a service runs in.

use tailbound_linux::polling::wake_current_thread_on_time;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::Cpu;

use crate::MeasurementError;

/// Pins the calling thread and makes it FIFO, as asked; true if it is FIFO now. That the kernel
/// refuses FIFO is a remark, not an error: measuring goes on with more lateness.
///
/// # Errors
/// The CPU does not exist or is not ours.
pub(crate) fn enter_client_thread(
    cpu: Option<Cpu>,
    fifo_priority: Option<u8>,
    remarks: &mut Vec<String>,
) -> Result<bool, MeasurementError> {
    if let Some(cpu) = cpu {
        pin_current_thread(cpu.0).map_err(|cause| MeasurementError::BadPlan {
            what: format!("the load generator: {cause}"),
            remedy: "name an online CPU of this host for it (housekeeping)".into(),
        })?;
    }
    let fifo = match fifo_priority.map(make_current_thread_fifo) {
        None => false,
        Some(Ok(())) => true,
        Some(Err(cause)) => {
            remarks.push(format!(
                "the load generator ran without real-time priority: {cause}"
            ));
            false
        }
    };
    if !fifo && let Err(cause) = wake_current_thread_on_time() {
        remarks.push(format!("the load generator's timers have slack: {cause}"));
    }
    Ok(fifo)
}
