//! Interrupts of a device: its lines on the CPUs of the reservation, its receive work in softirqs or threads.
//!
//! The threads come to be only when the device is moved to them. So a plan has two parts: that of the device, and once
//! its changes are made, that of the back end for the threads.

use std::io;

use tailbound_linux::interrupts::InterruptParts;
use tailbound_model::{CpuSet, ReceiveContext};

use crate::change::cpu_list;
use crate::error::PlanError;
use crate::kernel::KernelView;
use crate::{Change, Inheritance, InterruptTarget, Plan, ReservationRequest, Target};

/// The request with the threads that work for its interrupts now; others stay as they are.
///
/// # Errors
/// Nothing has the name, or the kernel cannot be read.
pub(crate) fn with_threads(
    request: &ReservationRequest,
    view: &dyn KernelView,
) -> Result<ReservationRequest, PlanError> {
    let mut request = request.clone();
    if let Target::Interrupts(interrupts) = &request.target {
        let parts = parts_of(&request, interrupts, view)?;
        let threads = match interrupts.receive {
            ReceiveContext::Thread => parts.threads,
            ReceiveContext::Softirq => Vec::new(),
        };
        request.target = Target::Interrupts(InterruptTarget {
            threads,
            ..interrupts.clone()
        });
    }
    Ok(request)
}

/// Whether the back end has nothing to plan yet: the threads come to be with the changes of the device.
pub(crate) fn has_no_threads(request: &ReservationRequest) -> bool {
    matches!(&request.target, Target::Interrupts(interrupts) if interrupts.threads.is_empty())
}

/// Whether a plan that was carried out is to be followed by one for the threads.
pub(crate) fn awaits_threads(request: &ReservationRequest) -> bool {
    let Target::Interrupts(interrupts) = &request.target else {
        return false;
    };
    interrupts.receive == ReceiveContext::Thread && interrupts.threads.is_empty()
}

/// The plan of a request without a back end's part.
pub(crate) fn plan_without_backend(request: &ReservationRequest) -> Plan {
    Plan {
        request: request.clone(),
        changes: Vec::new(),
        managers: Vec::new(),
        mapping: Vec::new(),
        inheritance: Inheritance::default(),
    }
}

/// The same plan, with the changes of the device before it.
///
/// # Errors
/// The device cannot be handled as described.
pub(crate) fn with_device(mut plan: Plan, view: &dyn KernelView) -> Result<Plan, PlanError> {
    let Target::Interrupts(interrupts) = &plan.request.target else {
        return Ok(plan);
    };
    let parts = parts_of(&plan.request, interrupts, view)?;
    let cpus = &plan.request.interface.cpus;
    let mut changes = Vec::new();
    let mut mapping = Vec::new();
    if let Some(file) = &parts.threaded {
        let value = match interrupts.receive {
            ReceiveContext::Softirq => "0",
            ReceiveContext::Thread => "1",
        };
        changes.push(write(file.clone(), value));
        mapping.push(format!(
            "receive {} -> {} {value}",
            interrupts.receive.name(),
            file.display()
        ));
    } else if interrupts.receive == ReceiveContext::Thread && parts.threads.is_empty() {
        return Err(PlanError::NoInterruptThread {
            domain: plan.request.domain.clone(),
            source_name: interrupts.source.clone(),
        });
    }
    let list = cpu_list(cpus);
    changes.extend(
        parts
            .affinities
            .iter()
            .map(|file| write(file.clone(), &list)),
    );
    if !parts.affinities.is_empty() {
        mapping.push(format!(
            "CPUs {list} -> smp_affinity_list of {} interrupt lines",
            parts.affinities.len()
        ));
    }
    // A device without interrupt lines is polled where packets are sent to it.
    if interrupts.receive == ReceiveContext::Softirq && !parts.steering.is_empty() {
        let mask = cpu_mask(cpus);
        changes.extend(parts.steering.iter().map(|file| write(file.clone(), &mask)));
        mapping.push(format!(
            "CPUs {list} -> rps_cpus {mask} of {} receive queues",
            parts.steering.len()
        ));
    }
    if awaits_threads(&plan.request) {
        mapping.push(format!(
            "priority {} -> the threads of {}, once they are there",
            plan.request.interface.priority.0, interrupts.source
        ));
    }
    if !plan.request.backend.enforces() {
        // Ordinary threads, which no back end pins.
        changes.extend(interrupts.threads.iter().map(|&tid| Change::SetAffinity {
            tid,
            cpus: cpus.clone(),
        }));
    }
    changes.append(&mut plan.changes);
    mapping.append(&mut plan.mapping);
    (plan.changes, plan.mapping) = (changes, mapping);
    Ok(plan)
}

fn write(file: std::path::PathBuf, value: &str) -> Change {
    Change::WriteFile {
        file,
        value: value.to_owned(),
    }
}

fn parts_of(
    request: &ReservationRequest,
    interrupts: &InterruptTarget,
    view: &dyn KernelView,
) -> Result<InterruptParts, PlanError> {
    let parts = view.interrupt_parts(&interrupts.source);
    parts.map_err(|error: io::Error| PlanError::Unreadable {
        domain: request.domain.clone(),
        what: format!("the interrupts of \"{}\"", interrupts.source),
        reason: error.to_string(),
    })
}

/// CPUs as a mask in groups of 32 bits, the highest first (Documentation/core-api/irq/irq-affinity.rst).
fn cpu_mask(cpus: &CpuSet) -> String {
    let groups = cpus.last().map_or(1, |cpu| cpu.0 / 32 + 1);
    let word = |group: u32| {
        let here = cpus.iter().filter(|cpu| cpu.0 / 32 == group);
        here.fold(0_u32, |word, cpu| word | 1 << (cpu.0 % 32))
    };
    let first = format!("{:x}", word(groups.saturating_sub(1)));
    let rest = (0..groups.saturating_sub(1))
        .rev()
        .map(|group| format!("{:08x}", word(group)));
    std::iter::once(first)
        .chain(rest)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use tailbound_model::Cpu;

    use super::*;

    #[test]
    fn masks_are_in_words_of_32_bits() {
        let mask = |cpus: &[u32]| cpu_mask(&cpus.iter().map(|cpu| Cpu(*cpu)).collect());
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[1, 33]), "2,00000002");
        assert_eq!(mask(&[64]), "1,00000000,00000000");
        assert_eq!(mask(&[]), "0");
    }
}
