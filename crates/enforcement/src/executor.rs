//! Carries plans out, journal first, and takes them back in reverse.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use tailbound_linux::xen::VcpuSetting;

use crate::backends::descendants;
use crate::change::is_subtree_control;
use crate::error::EnforcementError;
use crate::journal::{Entry, HeldDomain, Journal, Previous, Record};
use crate::kernel::{KernelState, KernelView};
use crate::managers::Managers;
use crate::newcomers::treat_newcomers;
use crate::thaw::thaw;
use crate::{Change, Inheritance, Plan, SchedulingSetting, Target};

/// How often the threads of a domain are listed again, since they may start others meanwhile.
pub(crate) const ROUNDS: u32 = 16;

/// Makes every change of `plan`; the caller takes back what was made if this fails.
pub(crate) fn carry_out(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    plan: &Plan,
) -> Result<(), EnforcementError> {
    journal.append(Record::Domain {
        request: plan.request.clone(),
        inheritance: plan.inheritance.clone(),
    })?;
    for change in &plan.changes {
        make(kernel, journal, &plan.request.domain, change)?;
    }
    if plan.request.target.single_threads().is_none() {
        treat_newcomers(kernel, journal, plan)?;
    }
    Ok(())
}

/// Makes one change, unless the process that it is about has gone.
pub(crate) fn make(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    domain: &str,
    change: &Change,
) -> Result<(), EnforcementError> {
    let refusal = |source: io::Error| EnforcementError::Refusal {
        domain: domain.into(),
        change: Box::new(change.clone()),
        command: change.to_string(),
        hint: hint(change, &source).into(),
        source,
    };
    let subject = change.subject();
    let vanished = |error: &io::Error| subject.is_some() && error.kind() == io::ErrorKind::NotFound;
    let looked = previous(kernel, change).and_then(|previous| {
        Ok((
            previous,
            subject.map(|tid| kernel.started(tid)).transpose()?,
        ))
    });
    let (previous, started) = match looked {
        Err(error) if vanished(&error) => return Ok(()),
        outcome => outcome.map_err(refusal)?,
    };
    let entry = Entry {
        sequence: journal.next_sequence(),
        domain: domain.into(),
        change: change.clone(),
        previous,
        started,
    };
    journal.append(Record::Intent(entry.clone()))?;
    match perform(kernel, &entry) {
        Err(error) if vanished(&error) => Ok(()),
        outcome => outcome.map_err(refusal),
    }
}

/// What the change would replace.
fn previous(kernel: &dyn KernelView, change: &Change) -> io::Result<Previous> {
    Ok(match change {
        Change::MakeCgroup { directory } => {
            match kernel.has_directory(directory) && !is_deserted(kernel, directory) {
                true => Previous::Present,
                false => Previous::Absent,
            }
        }
        Change::WriteFile { file, .. } => Previous::Text {
            text: kernel.read_file(file)?,
        },
        Change::MoveProcess {
            pid: tid,
            directory,
        }
        | Change::MoveThread { tid, directory, .. } => Previous::Cgroup {
            directory: kernel.cgroup_of(*tid, directory)?,
        },
        Change::SetScheduling { tid, .. } => Previous::Scheduling {
            setting: kernel.scheduling(*tid)?,
        },
        Change::SetAffinity { tid, .. } => Previous::Affinity {
            cpus: kernel.affinity(*tid)?,
        },
        Change::SetXenVcpu { domain, vcpu, .. } => Previous::XenVcpu {
            setting: xen_vcpu(kernel, *domain, *vcpu)?,
        },
        // A table with our name that is there already was left behind by an enforcer whose journal is lost; it is replaced, and
        // removed in the end as if it had been made now.
        Change::MakePacketTable { .. } => Previous::Absent,
    })
}

/// What a virtual CPU of Xen's has.
fn xen_vcpu(kernel: &dyn KernelView, domain: u32, vcpu: u32) -> io::Result<VcpuSetting> {
    let vcpus = kernel.xen_vcpus()?;
    let vcpu_entry = vcpus
        .iter()
        .find(|one| (one.id, one.vcpu) == (domain, vcpu));
    Ok(vcpu_entry.ok_or(io::ErrorKind::NotFound)?.setting)
}

/// Whether a cgroup is empty. One of ours that is so was left behind by an enforcer whose journal
/// is lost; it is taken over, and removed in the end as if it had been made now.
fn is_deserted(kernel: &dyn KernelView, directory: &Path) -> bool {
    let threads = kernel.threads_in(directory);
    let below = kernel.cgroups_below(directory);
    threads.is_ok_and(|threads| threads.is_empty()) && below.is_ok_and(|below| below.is_empty())
}

fn perform(kernel: &mut dyn KernelState, entry: &Entry) -> io::Result<()> {
    match (&entry.change, &entry.previous) {
        (Change::MakeCgroup { .. }, Previous::Present) => Ok(()),
        (Change::MakeCgroup { directory }, _) => match kernel.has_directory(directory) {
            true => Ok(()),
            false => kernel.make_cgroup(directory),
        },
        (Change::WriteFile { value, .. }, Previous::Text { text }) if text == value => Ok(()),
        (Change::WriteFile { file, value }, _) => kernel.write_file(file, value),
        // A process whose threads are spread over threaded groups below is in its place already;
        // writing its number again would gather them.
        (Change::MoveProcess { directory, .. }, Previous::Cgroup { directory: at })
            if at.starts_with(directory) && is_threaded_root(directory) =>
        {
            Ok(())
        }
        (Change::MoveProcess { directory, .. }, Previous::Cgroup { directory: at })
            if at == directory =>
        {
            Ok(())
        }
        (Change::MoveProcess { pid, directory }, _) => kernel.move_process(*pid, directory),
        (Change::MoveThread { tid, directory, .. }, _) => kernel.move_thread(*tid, directory),
        (Change::SetScheduling { tid, setting }, _) => kernel.set_scheduling(*tid, *setting),
        (Change::SetAffinity { tid, cpus }, _) => kernel.set_affinity(*tid, cpus),
        (Change::SetXenVcpu { setting, .. }, Previous::XenVcpu { setting: now })
            if setting == now =>
        {
            Ok(())
        }
        (
            Change::SetXenVcpu {
                domain,
                vcpu,
                setting,
            },
            _,
        ) => kernel.set_xen_vcpu(*domain, *vcpu, *setting),
        (
            Change::MakePacketTable {
                name,
                network,
                commands,
            },
            _,
        ) => kernel.make_packet_table(network.as_ref(), name, commands),
    }
}

/// Whether it is one of the groups under which we put single threads of one process.
fn is_threaded_root(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(crate::backends::THREADED_ROOT_PREFIX))
}

/// What is known about why the kernel refuses such a change.
fn hint(change: &Change, error: &io::Error) -> &'static str {
    use io::ErrorKind as K;
    match (change, error.kind()) {
        (
            Change::SetScheduling {
                setting: SchedulingSetting::Deadline { .. },
                ..
            },
            K::PermissionDenied,
        ) => {
            "SCHED_DEADLINE wants the affinity to span the whole root domain of the CPU where the thread last ran; it may be asleep since it was moved: wake it and try again"
        }
        (
            Change::SetScheduling {
                setting: SchedulingSetting::Deadline { .. },
                ..
            },
            K::ResourceBusy,
        ) => {
            "the SCHED_DEADLINE bandwidth of the root domain is used up, also after the kernel was made to count it anew; lower the budget, or end other SCHED_DEADLINE threads of that CPU"
        }
        (Change::SetScheduling { .. }, K::PermissionDenied) => {
            "it takes root or CAP_SYS_NICE, and with CONFIG_RT_GROUP_SCHED a cpu cgroup that has rt_runtime"
        }
        (Change::SetAffinity { .. }, K::InvalidInput) => "the thread's cpuset excludes those CPUs",
        (Change::WriteFile { file, .. }, K::Unsupported) if file.ends_with("threaded") => {
            "the device polls nothing that could be a thread; a veth pair does once its GRO is on: ethtool -K DEVICE gro on"
        }
        (Change::MakeCgroup { .. } | Change::WriteFile { .. }, K::PermissionDenied) => {
            "it takes root"
        }
        _ => "",
    }
}

/// The threads in a cgroup and below it.
pub(crate) fn threads_below(kernel: &dyn KernelView, group: &Path) -> Vec<u32> {
    let (mut groups, mut threads) = (vec![group.to_owned()], Vec::new());
    while let Some(group) = groups.pop() {
        threads.extend(kernel.threads_in(&group).unwrap_or_default());
        groups.extend(kernel.cgroups_below(&group).unwrap_or_default());
    }
    threads
}

/// The threads that belong to a domain now.
pub(crate) fn members(kernel: &dyn KernelView, inheritance: &Inheritance) -> BTreeSet<u32> {
    let groups = inheritance.cgroups.iter();
    let mut threads: BTreeSet<u32> = groups
        .flat_map(|group| threads_below(kernel, group))
        .collect();
    let mut pids: BTreeSet<u32> = inheritance.pids.iter().copied().collect();
    // A cgroup lists descendants by itself, orphans included.
    if inheritance.cgroups.is_empty() && !pids.is_empty() {
        let below = descendants(&inheritance.pids, kernel);
        pids.extend(below.into_iter().map(|(pid, _)| pid));
    }
    for pid in pids {
        threads.extend(kernel.threads_of(pid).unwrap_or_default());
    }
    threads
}

/// Takes a domain back: policies first, so that nothing runs unbounded at real-time priority while
/// its manager ends, then the rest in reverse. What fails stays in the journal. A journal that cannot be
/// written holds nothing up.
pub(crate) fn take_back(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    mut managers: Option<&mut (dyn Managers + '_)>,
    domain: &str,
) -> Vec<String> {
    let mut failures = Vec::new();
    let Some(held) = journal.history().domain(domain).cloned() else {
        return failures;
    };
    if matches!(held.request.target, Target::Interrupts(_)) {
        // A manager that sets policies would set them again; it leaves its threads without a priority.
        stop(managers.take(), domain, &mut failures);
    }
    let is_policy = |entry: &&Entry| matches!(entry.change, Change::SetScheduling { .. });
    for entry in held.entries.iter().rev().filter(is_policy) {
        undo(kernel, journal, entry, &held, &mut failures);
    }
    restore_newcomers(kernel, &held);
    stop(managers, domain, &mut failures);
    for entry in held.entries.iter().rev().filter(|entry| !is_policy(entry)) {
        undo(kernel, journal, entry, &held, &mut failures);
    }
    restore_newcomers(kernel, &held);
    thaw(kernel, journal, &held, &mut failures);
    if failures.is_empty() {
        let left = journal.history().domain(domain);
        debug_assert!(
            left.is_some_and(|held| held.entries.is_empty()),
            "no change of a domain stands when it ends"
        );
        journal.append_taken_back(Record::Ended {
            domain: domain.into(),
        });
    }
    failures
}

/// Stops the managers of a domain.
fn stop(managers: Option<&mut (dyn Managers + '_)>, domain: &str, failures: &mut Vec<String>) {
    if let Some(Err(reason)) = managers.map(|managers| managers.stop(domain)) {
        failures.push(format!(
            "domain \"{domain}\": its manager did not stop: {reason}"
        ));
    }
}

/// Takes back the changes of a domain that were made after number `before`.
pub(crate) fn undo_after(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    domain: &str,
    before: u64,
) -> Vec<String> {
    let mut failures = Vec::new();
    let Some(mut held) = journal.history().domain(domain).cloned() else {
        return failures;
    };
    held.entries.retain(|entry| entry.sequence > before);
    for entry in held.entries.iter().rev() {
        undo(kernel, journal, entry, &held, &mut failures);
    }
    failures
}

/// Takes one change back, or leaves that to a later change of the same thing that still stands.
fn undo(
    kernel: &mut dyn KernelState,
    journal: &mut Journal,
    entry: &Entry,
    held: &HeldDomain,
    failures: &mut Vec<String>,
) {
    debug_assert_eq!(entry.domain, held.request.domain);
    let others = journal.history().domains.iter();
    let later = others
        .filter(|other| other.request.domain != entry.domain)
        .flat_map(|other| &other.entries)
        .filter(|other| other.sequence > entry.sequence)
        .filter(|other| other.change.same_object(&entry.change))
        .min_by_key(|other| other.sequence)
        .map(|other| other.sequence);
    // Of several changes of one thing for one domain, only the first tells what was before.
    let mut own = held.entries.iter();
    let earlier =
        own.any(|own| own.sequence < entry.sequence && own.change.same_object(&entry.change));
    let undone = Record::Undone {
        sequence: entry.sequence,
    };
    if earlier {
        return journal.append_taken_back(undone);
    }
    if let Some(sequence) = later {
        journal.append_taken_back(Record::Replaces {
            sequence,
            previous: entry.previous.clone(),
        });
    } else if let Err(error) = restore(kernel, journal, entry, held) {
        failures.push(format!("undoing `{}`: {error}", entry.change));
        return;
    }
    journal.append_taken_back(undone);
}

/// Puts back what `entry` replaced; done already, or its subject gone, it does nothing.
fn restore(
    kernel: &mut dyn KernelState,
    journal: &Journal,
    entry: &Entry,
    held: &HeldDomain,
) -> io::Result<()> {
    if let (Some(subject), Some(started)) = (entry.change.subject(), entry.started)
        && kernel.started(subject).ok() != Some(started)
    {
        return Ok(());
    }
    let outcome = match (&entry.change, &entry.previous) {
        (Change::MakeCgroup { directory }, Previous::Absent) => {
            dismantle(kernel, journal, directory, held)
        }
        (Change::WriteFile { file, value }, Previous::Text { text }) => {
            restore_file(kernel, file, value, text, held)
        }
        (Change::MoveProcess { pid, directory }, Previous::Cgroup { directory: home }) => {
            let at = kernel.cgroup_of(*pid, directory)?;
            match at.starts_with(directory) && !home.starts_with(directory) {
                true => kernel.move_process(*pid, nearest(kernel, home)),
                false => Ok(()),
            }
        }
        (Change::MoveThread { tid, directory, .. }, Previous::Cgroup { directory: home }) => {
            let at = kernel.cgroup_of(*tid, directory)?;
            match at == *directory && home != directory {
                true => kernel.move_thread(*tid, nearest(kernel, home)),
                false => Ok(()),
            }
        }
        (Change::SetScheduling { tid, .. }, Previous::Scheduling { setting }) => {
            match kernel.scheduling(*tid)? == *setting {
                true => Ok(()),
                false => kernel.set_scheduling(*tid, *setting),
            }
        }
        (Change::SetAffinity { tid, .. }, Previous::Affinity { cpus }) => {
            match kernel.affinity(*tid)? == *cpus {
                true => Ok(()),
                false => kernel.set_affinity(*tid, cpus),
            }
        }
        (Change::SetXenVcpu { domain, vcpu, .. }, Previous::XenVcpu { setting }) => {
            xen_vcpu(kernel, *domain, *vcpu).and_then(|now| match now == *setting {
                true => Ok(()),
                false => kernel.set_xen_vcpu(*domain, *vcpu, *setting),
            })
        }
        (Change::MakePacketTable { name, network, .. }, _) => {
            kernel.remove_packet_table(network.as_ref(), name)
        }
        _ => Ok(()),
    };
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// The directory, or the nearest one above it that is still there.
fn nearest<'a>(kernel: &dyn KernelView, directory: &'a Path) -> &'a Path {
    let mut above = directory.ancestors();
    above
        .find(|directory| kernel.has_directory(directory))
        .unwrap_or(directory)
}

fn restore_file(
    kernel: &mut dyn KernelState,
    file: &Path,
    written: &str,
    text: &str,
    held: &HeldDomain,
) -> io::Result<()> {
    if file.file_name().is_some_and(|name| name == "cgroup.type") {
        // Making a cgroup threaded cannot be undone but by removing it, which comes next.
        return Ok(());
    }
    if is_subtree_control(file) {
        let controller = written.trim_start_matches('+');
        return match text.split_whitespace().any(|word| word == controller) {
            true => Ok(()),
            false => kernel.write_file(file, &format!("-{controller}")),
        };
    }
    if kernel.read_file(file)? == text {
        return Ok(());
    }
    match kernel.write_file(file, text) {
        // Such files do not all take back what they held when the cgroup was new; it goes anyway.
        Err(_) if is_ours(file, held) => Ok(()),
        outcome => outcome,
    }
}

/// Whether the file lies in a cgroup that was made for the domain.
pub(crate) fn is_ours(file: &Path, held: &HeldDomain) -> bool {
    held.entries.iter().any(|entry| {
        matches!(&entry.change, Change::MakeCgroup { directory }
            if Some(directory.as_path()) == file.parent() && entry.previous == Previous::Absent)
    })
}

/// Removes a cgroup of ours, after moving out whoever joined it later.
fn dismantle(
    kernel: &mut dyn KernelState,
    journal: &Journal,
    directory: &Path,
    held: &HeldDomain,
) -> io::Result<()> {
    if !kernel.has_directory(directory) {
        return Ok(());
    }
    let home =
        held.entries
            .iter()
            .find_map(|entry| match (&entry.change, &entry.previous) {
                (
                    Change::MoveProcess { directory: to, .. },
                    Previous::Cgroup { directory: home },
                ) if to == directory => Some(home.as_path()),
                _ => None,
            });
    let home = home.or(directory.parent()).unwrap_or(directory);
    let home = nearest(kernel, home).to_owned();
    for _ in 0..ROUNDS {
        if evacuate(kernel, directory, &home)? == 0 {
            break;
        }
    }
    let below = kernel.cgroups_below(directory)?;
    if !below.is_empty() && !below.iter().any(|group| is_made_by_us(group, journal)) {
        // Another enforcer's groups are below, which found this one there and so leaves it.
        return Ok(());
    }
    kernel.remove_cgroup(directory)
}

/// Whether a change of this journal that stands has made the group.
fn is_made_by_us(group: &Path, journal: &Journal) -> bool {
    let held = journal.history().domains.iter();
    held.flat_map(|held| &held.entries).any(
        |entry| matches!(&entry.change, Change::MakeCgroup { directory } if directory == group),
    )
}

/// Moves all members of a cgroup to another; how many there were.
fn evacuate(kernel: &mut dyn KernelState, directory: &Path, home: &Path) -> io::Result<usize> {
    let gone = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    // A threaded cgroup tells its threads only.
    let processes = kernel.processes_in(directory).unwrap_or_default();
    for &pid in &processes {
        gone(kernel.move_process(pid, home))?;
    }
    let threads = kernel.threads_in(directory)?;
    for &tid in &threads {
        gone(kernel.move_thread(tid, home))?;
    }
    Ok(processes.len() + threads.len())
}

/// Gives threads that the domain started later, with what they inherited, what the domain's first
/// thread had before.
fn restore_newcomers(kernel: &mut dyn KernelState, held: &HeldDomain) {
    let first_policy = held.entries.iter().find_map(|entry| match entry.previous {
        Previous::Scheduling { setting } => Some(setting),
        _ => None,
    });
    let policy = first_policy.unwrap_or(SchedulingSetting::Other { nice: 0 });
    let affinity = held.entries.iter().find_map(|entry| match &entry.previous {
        Previous::Affinity { cpus } => Some(cpus),
        _ => None,
    });
    let recorded: BTreeSet<u32> = held
        .entries
        .iter()
        .filter_map(|entry| entry.change.subject())
        .collect();
    for _ in 0..ROUNDS {
        let mut restored = false;
        for tid in members(kernel, &held.inheritance) {
            if recorded.contains(&tid) {
                continue;
            }
            let inherited = held.inheritance.scheduling;
            if inherited.is_some_and(|s| s != policy) && kernel.scheduling(tid).ok() == inherited {
                restored |= kernel.set_scheduling(tid, policy).is_ok();
            }
            let inherited = &held.inheritance.affinity;
            if let (Some(from), Some(to)) = (inherited, affinity)
                && from != to
                && kernel.affinity(tid).ok().as_ref() == Some(from)
            {
                restored |= kernel.set_affinity(tid, to).is_ok();
            }
        }
        if !restored {
            return;
        }
    }
}
