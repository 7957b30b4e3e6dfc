//! Whether hosts can hold all reservations, in every mode.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_model::{Bandwidth, Cpu, CpuSet, Priority};
use tailbound_time::Duration;

use super::demand::LONGEST;
use super::partitioned;
use crate::AnalysisError;

/// How a host chooses among reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostScheduler {
    /// Each on its CPU, by fixed priorities.
    PartitionedFixedPriority,
    /// Each on its CPU, the earliest next replenishment first.
    PartitionedEdf,
    /// On any CPU, the earliest next replenishment first (RTDS).
    GlobalEdf,
}

/// When a reservation asks for its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetRule {
    /// At any time: a deferrable server.
    Deferrable,
    /// From each replenishment on, or never with more demand than that: periodic, polling and
    /// sporadic servers, and constant-bandwidth servers under EDF.
    Periodic,
}

/// Where a reservation holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On one CPU of the host's, to be chosen.
    Any,
    /// On each of these.
    On(CpuSet),
}

/// A reservation in a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    /// Its name, unique within host and mode.
    pub name: String,
    /// CPU time per period, on each of its CPUs; at most the period.
    pub budget: Duration,
    /// The distance between replenishments; above zero.
    pub period: Duration,
    /// The fixed priority; the higher number runs first, and the same in either order.
    pub priority: Priority,
    /// When it asks for its budget.
    pub rule: BudgetRule,
    /// Where it holds.
    pub placement: Placement,
}

/// How a CPU is chosen for a reservation that may be on any, the largest bandwidth first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// The CPU with the least load on which it fits.
    WorstDecreasing,
    /// The first CPU on which it fits.
    FirstDecreasing,
}

/// A host and what is to be held on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdmissionHost {
    /// The CPUs that reservations may have.
    pub cpus: CpuSet,
    /// How it chooses among them.
    pub scheduler: HostScheduler,
    /// How CPUs are chosen; of no use under global EDF.
    pub fit: Fit,
    /// The reservations of each mode.
    pub modes: BTreeMap<String, Vec<Reservation>>,
}

/// A question: can these hosts hold all that?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdmissionQuery {
    /// The hosts by name.
    pub hosts: BTreeMap<String, AdmissionHost>,
}

/// By how much a reservation does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Excess {
    /// In a window, more CPU time is asked for than there is.
    Window {
        /// The length of the window.
        window: Duration,
        /// What is too much in it.
        shortfall: Duration,
    },
    /// The bandwidths are too large for the test.
    Bandwidth {
        /// What is too much, in CPUs.
        cpus: f64,
    },
}

/// A reservation that may not get its budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The reservation's name.
    pub reservation: String,
    /// By how much it does not fit.
    pub excess: Excess,
}

/// The answer for one CPU, or under global EDF for all of a host together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuAdmission {
    /// The CPU or CPUs.
    pub cpus: CpuSet,
    /// Whether every reservation here gets its budget in every period.
    pub admitted: bool,
    /// The sum of the bandwidths, in CPUs.
    pub load: f64,
    /// The names of the reservations here.
    pub reservations: Vec<String>,
    /// Those that do not fit.
    pub failures: Vec<Failure>,
}

/// The answer for one mode of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeAdmission {
    /// Whether every reservation gets its budget in every period.
    pub admitted: bool,
    /// By CPU, in order.
    pub cpus: Vec<CpuAdmission>,
    /// The CPUs chosen for reservations that may be on any.
    pub chosen: BTreeMap<String, Cpu>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Admission {
    /// Whether every reservation gets its budget in every period of every mode.
    pub admitted: bool,
    /// By host and mode.
    pub hosts: BTreeMap<String, BTreeMap<String, ModeAdmission>>,
    /// The tests, with their sources.
    pub methods: Vec<String>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

/// Whether every mode can be held, once it is in force; transitions between modes are not judged.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a host without CPUs, two reservations of one name, and
/// reservations that make no sense or name CPUs that are not the host's;
/// [`AnalysisError::NotAnalysed`] where EDF would have to be tested at too many points.
pub fn admit(query: &AdmissionQuery) -> Result<Admission, AnalysisError> {
    let mut hosts = BTreeMap::new();
    for (name, host) in &query.hosts {
        let mut modes = BTreeMap::new();
        for (mode, reservations) in &host.modes {
            check(name, host, mode, reservations)?;
            modes.insert(mode.clone(), admit_mode(host, reservations)?);
        }
        hosts.insert(name.clone(), modes);
    }
    let modes = hosts.values().flat_map(BTreeMap::values);
    let admitted = modes.into_iter().all(|mode: &ModeAdmission| mode.admitted);
    let (methods, assumptions) = said(query);
    Ok(Admission {
        admitted,
        hosts,
        methods,
        assumptions,
    })
}

/// The methods used and what they take for granted.
fn said(query: &AdmissionQuery) -> (Vec<String>, Vec<String>) {
    let used = |scheduler| query.hosts.values().any(|host| host.scheduler == scheduler);
    let mut methods = Vec::new();
    let mut assumptions = vec![
        "each mode is judged in force; changes between modes are not".to_owned(),
        "budgets include what switching between reservations costs".to_owned(),
    ];
    if used(HostScheduler::PartitionedFixedPriority) {
        methods.push(
            "fixed priorities per CPU by response times, deferrable servers with a jitter of \
             period - budget (Bernat and Burns 1999), sufficient"
                .into(),
        );
    }
    if used(HostScheduler::PartitionedEdf) {
        methods.push(
            "EDF per CPU by the sum of bandwidths (Liu and Layland 1973), exact; with deferrable \
             servers by processor demand with a jitter of period - budget, sufficient"
                .into(),
        );
    }
    if used(HostScheduler::GlobalEdf) {
        methods.push(
            "global EDF by the largest and the sum of the bandwidths (Goossens, Funk and Baruah \
             2003), sufficient"
                .into(),
        );
        let mut reservations = query
            .hosts
            .values()
            .filter(|host| host.scheduler == HostScheduler::GlobalEdf)
            .flat_map(|host| host.modes.values().flatten());
        if reservations.any(|one| one.rule == BudgetRule::Deferrable) {
            assumptions.push(
                "under global EDF deferrable servers ask for their budget from the replenishment \
                 on; one that waits may take it from others"
                    .into(),
            );
        }
    }
    (methods, assumptions)
}

fn check(
    name: &str,
    host: &AdmissionHost,
    mode: &str,
    reservations: &[Reservation],
) -> Result<(), AnalysisError> {
    let invalid = |what: String| Err(AnalysisError::Invalid { what });
    if host.cpus.is_empty() {
        return invalid(format!("host \"{name}\" has no CPU; give at least one"));
    }
    let mut names: Vec<&str> = reservations.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b);
    if let Some((twice, _)) = twice {
        return invalid(format!(
            "host \"{name}\" has two reservations \"{twice}\" in mode \"{mode}\"; give each a name \
             of its own"
        ));
    }
    for one in reservations {
        let place = format!(
            "reservation \"{}\" of host \"{name}\", mode \"{mode}\",",
            one.name
        );
        if one.period.is_zero() || one.period > LONGEST || one.budget > one.period {
            return invalid(format!(
                "{place} has a budget of {} per {}; the budget must be at most the period, and the \
                 period above zero and at most {LONGEST}",
                one.budget, one.period
            ));
        }
        match &one.placement {
            Placement::On(cpus) if cpus.is_empty() => {
                return invalid(format!(
                    "{place} is on no CPU; name one, or let it be on any"
                ));
            }
            Placement::On(cpus) if !cpus.is_subset(&host.cpus) => {
                return invalid(format!(
                    "{place} is on a CPU that the host does not give to reservations"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn admit_mode(
    host: &AdmissionHost,
    reservations: &[Reservation],
) -> Result<ModeAdmission, AnalysisError> {
    if host.scheduler == HostScheduler::GlobalEdf {
        return Ok(admit_globally(host, reservations));
    }
    let mut placed: BTreeMap<Cpu, Vec<&Reservation>> =
        host.cpus.iter().map(|cpu| (*cpu, Vec::new())).collect();
    let mut free = Vec::new();
    for one in reservations {
        match &one.placement {
            Placement::Any => free.push(one),
            Placement::On(cpus) => {
                for cpu in cpus {
                    placed.entry(*cpu).or_default().push(one);
                }
            }
        }
    }
    // The largest bandwidth first, and then by name.
    let share = |one: &Reservation| Bandwidth::new(one.budget, one.period);
    free.sort_by(|a, b| share(b).cmp(&share(a)).then_with(|| a.name.cmp(&b.name)));
    let mut chosen = BTreeMap::new();
    for one in free {
        if let Some(cpu) = choose(host, &placed, one)? {
            placed.entry(cpu).or_default().push(one);
            chosen.insert(one.name.clone(), cpu);
        }
    }
    let mut cpus = Vec::new();
    for (cpu, here) in &placed {
        let failures = failures(host.scheduler, here)?;
        cpus.push(CpuAdmission {
            cpus: CpuSet::from([*cpu]),
            admitted: failures.is_empty(),
            load: partitioned::load(here),
            reservations: here.iter().map(|one| one.name.clone()).collect(),
            failures,
        });
    }
    Ok(ModeAdmission {
        admitted: cpus.iter().all(|cpu| cpu.admitted),
        cpus,
        chosen,
    })
}

fn failures(
    scheduler: HostScheduler,
    here: &[&Reservation],
) -> Result<Vec<Failure>, AnalysisError> {
    match scheduler {
        HostScheduler::PartitionedFixedPriority => Ok(partitioned::fixed_priority(here)),
        HostScheduler::PartitionedEdf | HostScheduler::GlobalEdf => {
            partitioned::earliest_deadline_first(here)
        }
    }
}

/// The CPU for one more reservation: where it fits, or else the one with the least load, so that
/// the answer tells by how much it does not.
fn choose(
    host: &AdmissionHost,
    placed: &BTreeMap<Cpu, Vec<&Reservation>>,
    one: &Reservation,
) -> Result<Option<Cpu>, AnalysisError> {
    let mut by_load: Vec<(Cpu, f64)> = placed
        .iter()
        .map(|(cpu, here)| (*cpu, partitioned::load(here)))
        .collect();
    // The order of preference only; whether it fits is decided exactly.
    by_load.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    let least = by_load.first().map(|(cpu, _)| *cpu);
    if host.fit == Fit::FirstDecreasing {
        by_load.sort_by_key(|(cpu, _)| *cpu);
    }
    for (cpu, _) in by_load {
        let here = placed.get(&cpu).into_iter().flatten().copied();
        let with: Vec<&Reservation> = here.chain([one]).collect();
        if failures(host.scheduler, &with)?.is_empty() {
            return Ok(Some(cpu));
        }
    }
    Ok(least)
}

fn admit_globally(host: &AdmissionHost, reservations: &[Reservation]) -> ModeAdmission {
    // A reservation on several CPUs is as many servers.
    let servers: Vec<&Reservation> = reservations
        .iter()
        .flat_map(|one| {
            let count = match &one.placement {
                Placement::Any => 1,
                Placement::On(cpus) => cpus.len(),
            };
            std::iter::repeat_n(one, count)
        })
        .collect();
    let failure = partitioned::global_edf(&servers, host.cpus.len());
    ModeAdmission {
        admitted: failure.is_none(),
        cpus: vec![CpuAdmission {
            cpus: host.cpus.clone(),
            admitted: failure.is_none(),
            load: partitioned::load(&servers),
            reservations: reservations.iter().map(|one| one.name.clone()).collect(),
            failures: failure.into_iter().collect(),
        }],
        chosen: BTreeMap::new(),
    }
}
