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

use tailbound_linux::HostCapabilities;
use tailbound_linux::control_socket::PeerCredentials;
use tailbound_linux::process::{process_of, thread_name, threads_of};
use tailbound_model::{CpuSet, Machine};

pub use monitor::{Monitor, MonitorError};

use crate::backend::{MachineThreads, Plan, Target};
use crate::backends::leave_real_time_groups;
use crate::kernel::KernelView;
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
    /// A monitor names threads of others.
    #[error(
        "QMP monitor {}: it names threads of process {named} as virtual CPUs, and process {listener} of \
         user {user} listens there; a machine has its own threads alone: let QEMU listen itself \
         (`-qmp unix:PATH,server=on,wait=off`) in our process namespace, or give `pid`", .path.display()
    )]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// The process whose threads it names.
        named: u32,
        /// The process that listens.
        listener: u32,
        /// Its user.
        user: u32,
    },
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
    let (vcpus, monitor) = vcpus(machine)?;
    let unreadable = |pid| move |source| MachineError::Process { pid, source };
    let mut process = None;
    for &tid in &vcpus {
        let of = process_of(tid).map_err(unreadable(tid))?;
        if process.replace(of).is_some_and(|other| other != of) {
            return Err(MachineError::SeveralProcesses);
        }
    }
    let pid = process.ok_or(MachineError::NotTold)?;
    // A machine that was taken over may name any thread of the host, to be held back in its stead.
    if let Some((path, listener)) = monitor
        && listener.pid != pid
    {
        return Err(MachineError::Foreign {
            path,
            named: pid,
            listener: listener.pid,
            user: listener.uid,
        });
    }
    let mut emulator = threads_of(pid).map_err(unreadable(pid))?;
    emulator.retain(|tid| !vcpus.contains(tid));
    Ok(Target::Machine(MachineThreads {
        vcpus,
        emulator,
        emulator_cpus,
    }))
}

/// The threads of the virtual CPUs; and where a monitor has told them, its socket and who listens there.
type Vcpus = (Vec<u32>, Option<(PathBuf, PeerCredentials)>);

fn vcpus(machine: &Machine) -> Result<Vcpus, MachineError> {
    if let Some(path) = &machine.qmp {
        let asked = Monitor::connect(path).and_then(|mut monitor| {
            let listener = monitor.listener();
            Ok((monitor.vcpus()?, Some((path.clone(), listener))))
        });
        return asked.map_err(|source| MachineError::Monitor {
            path: path.clone(),
            source,
        });
    }
    if let Some(name) = &machine.name {
        let vcpus = libvirt::vcpus(name).map_err(|reason| MachineError::Libvirt {
            name: name.clone(),
            reason,
        })?;
        return Ok((vcpus, None));
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
        false => Ok((vcpus.into_iter().map(|(_, tid)| tid).collect(), None)),
    }
}

/// The number of the virtual CPU whose thread has this name: QEMU's `CPU 3/KVM`, `CPU 3/TCG`.
fn number_of_vcpu(name: &str) -> Option<u32> {
    let (number, _) = name.strip_prefix("CPU ")?.split_once('/')?;
    number.parse().ok()
}

/// The same plan, with the emulator's threads put where they serve the virtual CPUs promptly.
pub(crate) fn with_emulator(
    mut plan: Plan,
    host: &HostCapabilities,
    view: &dyn KernelView,
) -> Plan {
    let Target::Machine(machine) = &plan.request.target else {
        return plan;
    };
    // libvirt may keep them in one, with its own cgroup for each kind of thread.
    let leave = leave_real_time_groups(host, &machine.emulator, view);
    plan.changes.extend(leave);
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
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use tailbound_linux::process::{die_with_parent, own_thread};

    use super::*;

    /// What is made of a monitor in this process that names `thread` as its virtual CPU.
    fn told_by_a_monitor(thread: u32) -> Result<Target, MachineError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp");
        let listener = UnixListener::bind(&path).unwrap();
        let monitor = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let said = format!(
                "{{\"QMP\": {{}}}}\n{{\"return\": {{}}}}\n\
                 {{\"return\": [{{\"cpu-index\": 0, \"thread-id\": {thread}}}]}}\n"
            );
            stream.write_all(said.as_bytes()).unwrap();
            let _left = io::copy(&mut stream, &mut io::sink());
        });
        let machine = Machine {
            qmp: Some(path),
            ..Machine::default()
        };
        let answer = target(&machine, [tailbound_model::Cpu(0)].into());
        monitor.join().unwrap();
        answer
    }

    #[test]
    fn a_monitor_names_threads_of_its_own_process_alone() {
        let mut other = Command::new("sleep");
        let mut other = die_with_parent(other.arg("60")).spawn().unwrap();
        let answer = told_by_a_monitor(other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        let error = answer.unwrap_err();
        assert!(matches!(error, MachineError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("or give `pid`"), "{error}");
        let own = own_thread();
        let Ok(Target::Machine(machine)) = told_by_a_monitor(own) else {
            panic!("its own thread is refused");
        };
        assert_eq!(machine.vcpus, [own]);
    }

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
        let answer = target(&own, cpus.clone()).map_err(|error| error.to_string());
        assert!(answer.is_err_and(|text| text.contains("debug-threads=on")));
        let gone = Machine {
            qmp: Some("/nowhere/qmp.sock".into()),
            ..Machine::default()
        };
        let answer = target(&gone, cpus).map_err(|error| error.to_string());
        assert!(answer.is_err_and(|text| text.contains("/nowhere/qmp.sock")));
        let none = target(&own, CpuSet::new()).map_err(|error| error.to_string());
        assert!(none.is_err_and(|text| text.contains("emulator_cpus")));
    }
}
