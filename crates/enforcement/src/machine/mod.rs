//! Virtual machines: which threads are their virtual CPUs, and how the emulator's others are kept
//! out of their way.
//!
//! The budget is that of the virtual CPUs alone. The emulator's other threads carry messages to the
//! guest: if they had to wait for other programs, a boost of the virtual CPUs would be over before
//! the message has come. So they run on CPUs of their own, before all domains.

mod libvirt;
mod monitor;

use std::io;
use std::path::PathBuf;

use tailbound_linux::process::{process_of, thread_name, threads_of};
use tailbound_model::{CpuSet, Machine};

pub use monitor::{Monitor, MonitorError};

use crate::backend::{MachineThreads, Plan, Target};
use crate::{Change, SchedulingSetting};

/// Of the emulator's threads: above all domains, below the mode manager and those of budgets.
const EMULATOR_PRIORITY: u8 = 95;

/// Why a virtual machine's threads cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Its monitor does not tell.
    #[error("QMP monitor {}: {source}", .path.display())]
    Monitor {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: MonitorError,
    },
    /// libvirt does not tell.
    #[error("machine \"{name}\" of libvirt: {reason}")]
    Libvirt {
        /// The machine.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The process cannot be looked at.
    #[error("process {pid}: {source}; is the machine running?")]
    Process {
        /// The process or thread.
        pid: u32,
        /// Why not.
        source: io::Error,
    },
    /// No thread has the name of a virtual CPU.
    #[error(
        "process {0} has no thread named \"CPU 0/KVM\" or \"CPU 0/TCG\"; start QEMU with \
         `-name NAME,debug-threads=on`, or name its `qmp` socket"
    )]
    NoNames(u32),
    /// There is nothing to ask.
    #[error("nothing tells which machine it is; give `qmp`, `pid` or `name`")]
    NotTold,
    /// The virtual CPUs are of several processes.
    #[error("its virtual CPUs are threads of several processes; one QEMU process has them all")]
    SeveralProcesses,
    /// There is no CPU for the emulator.
    #[error(
        "no CPU is left for the emulator's other threads; leave one unreserved, or name \
         `emulator_cpus`"
    )]
    NoEmulatorCpus,
}

/// The threads of a machine that runs, as a target; its emulator's other threads are to run on
/// `emulator_cpus`.
///
/// # Errors
/// Why they cannot be told.
pub fn target(machine: &Machine, emulator_cpus: CpuSet) -> Result<Target, MachineError> {
    if emulator_cpus.is_empty() {
        return Err(MachineError::NoEmulatorCpus);
    }
    let vcpus = vcpus(machine)?;
    let unreadable = |pid| move |source| MachineError::Process { pid, source };
    let mut process = None;
    for &tid in &vcpus {
        let of = process_of(tid).map_err(unreadable(tid))?;
        if process.replace(of).is_some_and(|other| other != of) {
            return Err(MachineError::SeveralProcesses);
        }
    }
    let pid = process.ok_or(MachineError::NotTold)?;
    let mut emulator = threads_of(pid).map_err(unreadable(pid))?;
    emulator.retain(|tid| !vcpus.contains(tid));
    Ok(Target::Machine(MachineThreads {
        vcpus,
        emulator,
        emulator_cpus,
    }))
}

fn vcpus(machine: &Machine) -> Result<Vec<u32>, MachineError> {
    if let Some(path) = &machine.qmp {
        let asked = Monitor::connect(path).and_then(|mut monitor| monitor.vcpus());
        return asked.map_err(|source| MachineError::Monitor {
            path: path.clone(),
            source,
        });
    }
    if let Some(name) = &machine.name {
        return libvirt::vcpus(name).map_err(|reason| MachineError::Libvirt {
            name: name.clone(),
            reason,
        });
    }
    let pid = machine.pid.ok_or(MachineError::NotTold)?;
    let threads = threads_of(pid).map_err(|source| MachineError::Process { pid, source })?;
    // A thread that ends meanwhile is no virtual CPU.
    let named = threads.iter().filter_map(|&tid| {
        let name = thread_name(tid).ok()?;
        Some((number_of_vcpu(&name)?, tid))
    });
    let mut vcpus: Vec<(u32, u32)> = named.collect();
    vcpus.sort_unstable();
    match vcpus.is_empty() {
        true => Err(MachineError::NoNames(pid)),
        false => Ok(vcpus.into_iter().map(|(_, tid)| tid).collect()),
    }
}

/// The number of the virtual CPU whose thread has this name: QEMU's `CPU 3/KVM`, `CPU 3/TCG`.
fn number_of_vcpu(name: &str) -> Option<u32> {
    let (number, _) = name.strip_prefix("CPU ")?.split_once('/')?;
    number.parse().ok()
}

/// The same plan, with the emulator's threads put where they serve the virtual CPUs promptly.
pub(crate) fn with_emulator(mut plan: Plan) -> Plan {
    let Target::Machine(machine) = &plan.request.target else {
        return plan;
    };
    // Threads that it starts later, such as those that wait for disks, are ordinary ones.
    let setting = SchedulingSetting::Fifo {
        priority: EMULATOR_PRIORITY,
        reset_on_fork: true,
    };
    for &tid in &machine.emulator {
        let cpus = machine.emulator_cpus.clone();
        plan.changes.push(Change::SetAffinity { tid, cpus });
        plan.changes.push(Change::SetScheduling { tid, setting });
    }
    let cpus: Vec<String> = machine
        .emulator_cpus
        .iter()
        .map(ToString::to_string)
        .collect();
    plan.mapping.push(format!(
        "the emulator's {} other threads -> SCHED_FIFO {EMULATOR_PRIORITY} on CPU {}, so that \
         messages reach the guest",
        machine.emulator.len(),
        cpus.join(", ")
    ));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_vcpu_threads_are_known() {
        assert_eq!(number_of_vcpu("CPU 0/TCG"), Some(0));
        assert_eq!(number_of_vcpu("CPU 12/KVM"), Some(12));
        for other in [
            "qemu-system-x86",
            "call_rcu",
            "CPU /TCG",
            "ALL CPUs/TCG",
            "IO mon_iothread",
        ] {
            assert_eq!(number_of_vcpu(other), None, "{other}");
        }
    }

    #[test]
    fn a_machine_that_is_not_there_is_told() {
        let cpus: CpuSet = [tailbound_model::Cpu(0)].into();
        let own = Machine {
            pid: Some(std::process::id()),
            ..Machine::default()
        };
        let told = target(&own, cpus.clone()).map_err(|error| error.to_string());
        assert!(told.is_err_and(|told| told.contains("debug-threads=on")));
        let gone = Machine {
            qmp: Some("/nowhere/qmp.sock".into()),
            ..Machine::default()
        };
        let told = target(&gone, cpus).map_err(|error| error.to_string());
        assert!(told.is_err_and(|told| told.contains("/nowhere/qmp.sock")));
        let none = target(&own, CpuSet::new()).map_err(|error| error.to_string());
        assert!(none.is_err_and(|told| told.contains("emulator_cpus")));
    }
}
