//! From a description to plans.

use std::collections::BTreeMap;

use tailbound_model::{
    Builtin, Cpu, Description, Domain, ExecutionTime, Host, InputFiles, Placement, Scheduling,
    Service, Task,
};
use tailbound_time::Duration;

use super::interference::LaidInterference;
use super::layout::{
    Inside, LaidPlan, LaidReservation, Layout, PlanNode, ReservationNode, TaskNode,
};
use super::order::rank;
use super::placement::placed;
use super::problem::HostError;
use super::subsystems::{self, SpreadMember};
use super::supply::Supply;
use crate::hierarchy::{HierarchyPlan, Level, Rank, Rule, Speed};

/// The length of a turn among domains without a reservation, among the copies of a CPU hog and among
/// the services of a domain: what the kernel's fair scheduler gives equals under load, about.
pub const TURN: Duration = Duration::from_millis(4);

/// The longest time that is calculated with: some nine years, so that sums stay below 2^63 ns.
pub const LONGEST: Duration = Duration::from_nanos(1 << 58);

/// Fixed ranks of the host begin here, behind all absolute deadlines: SCHED_DEADLINE comes before
/// every fixed priority.
pub(super) const BEHIND_DEADLINES: u64 = 1 << 63;

/// Ranks inside of a domain: reservations by priority, then the domain's own work, then the rest.
const OWN_WORK: Rank = Rank::Fixed(1 << 62);
const BACKGROUND: u64 = u64::MAX;

/// Lays the domains of a host out on its CPUs. The description is that of one mode, with all budgets
/// told.
///
/// # Errors
/// [`HostError`] says what of the description stands against it.
pub fn lay_out(
    description: &Description,
    host: &str,
    inputs: &InputFiles,
) -> Result<Layout, HostError> {
    if !description.modes.is_empty() {
        let modes: Vec<&str> = description.modes.keys().map(String::as_str).collect();
        return Err(HostError::SeveralModes {
            modes: modes.join(", "),
        });
    }
    let Some((name, host)) = description.hosts.get_key_value(host) else {
        let hosts: Vec<&str> = description.hosts.keys().map(String::as_str).collect();
        return Err(HostError::UnknownHost {
            host: host.into(),
            hosts: hosts.join(", "),
        });
    };
    let mapping = Mapping {
        description,
        name,
        host,
        inputs,
        placed: placed(description, inputs)?,
    };
    mapping.check_delays()?;
    mapping.check_outers()?;
    mapping.check_circles()?;
    for subsystem in subsystems::ALL {
        subsystem.check(&mapping)?;
    }
    let plans = match host.placement {
        Placement::Global => vec![mapping.global()?],
        Placement::Partitioned => mapping.partitioned()?,
    };
    Ok(Layout {
        host: name.clone(),
        assumptions: mapping.assumptions(&plans),
        plans,
    })
}

pub(super) struct Mapping<'a> {
    pub(super) description: &'a Description,
    pub(super) name: &'a str,
    pub(super) host: &'a Host,
    pub(super) inputs: &'a InputFiles,
    /// The virtual CPU of each service and each own task, by (domain, name).
    pub(super) placed: BTreeMap<(String, String), usize>,
}

/// The key of a task's blocking, if it has any.
fn blocking_key(task: &Task) -> Option<&'static str> {
    (!task.blocking.is_zero()).then_some("blocking")
}

impl<'a> Mapping<'a> {
    /// Refuses tasks of the host with a delay that only schedulability tests know: blocking, and jitter of tasks beside
    /// soft ones, whose policies count on the periods of the hard ones.
    fn check_delays(&self) -> Result<(), HostError> {
        let domains = &self.description.domains;
        let is_here = |domain: &str| {
            let domain = domains.get(domain);
            let host = domain.and_then(|domain| self.description.host_of(domain));
            host.is_some_and(|(name, _)| name == self.name)
        };
        let own = domains.iter().filter(|(name, _)| is_here(name));
        let own = own.filter_map(|(name, domain)| {
            let refused = |task: &Task| match domain.aperiodic {
                Some(_) => task.delay_key(),
                None => blocking_key(task),
            };
            let mut tasks = domain.tasks.iter();
            let (task, key) = tasks.find_map(|(task, one)| Some((task, refused(one)?)))?;
            Some(format!("domains.{name}.tasks.{task}.{key}"))
        });
        let services = self.description.services.iter();
        let served = services.filter(|(_, service)| is_here(&service.domain));
        let served = served.filter_map(|(name, service)| {
            let mut tasks = service.tasks.iter();
            let (task, key) = tasks.find_map(|(task, one)| Some((task, blocking_key(one)?)))?;
            Some(format!("services.{name}.tasks.{task}.{key}"))
        });
        match own.chain(served).next() {
            None => Ok(()),
            Some(place) => Err(HostError::DelayedTask { place }),
        }
    }

    /// Refuses a domain inside of none: nothing would come to it, and it would be missing from the
    /// results without a word.
    fn check_outers(&self) -> Result<(), HostError> {
        let domains = &self.description.domains;
        for (name, domain) in domains {
            let outer = domain.inside.as_ref();
            if let Some(outer) = outer.filter(|outer| !domains.contains_key(*outer)) {
                let others = domains.keys().filter(|other| *other != name);
                let others: Vec<&str> = others.map(String::as_str).collect();
                return Err(HostError::NoOuter {
                    domain: name.clone(),
                    outer: outer.clone(),
                    others: others.join(", "),
                });
            }
        }
        Ok(())
    }

    fn check_circles(&self) -> Result<(), HostError> {
        let domains = &self.description.domains;
        for (name, domain) in domains {
            let mut at = domain;
            for _ in 0..=domains.len() {
                match at.inside.as_ref().and_then(|outer| domains.get(outer)) {
                    Some(outer) => at = outer,
                    None => break,
                }
            }
            if at
                .inside
                .as_ref()
                .is_some_and(|outer| domains.contains_key(outer))
            {
                let domain = name.clone();
                return Err(HostError::Circle { domain });
            }
        }
        Ok(())
    }

    /// The domains of this host that are directly inside of another one, or of the host.
    pub(super) fn directly_in(
        &self,
        outer: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a str, &'a Domain)> {
        let domains = self.description.domains.iter();
        domains
            .filter(move |(_, domain)| {
                let here = self.description.host_of(domain).map(|(name, _)| name);
                here == Some(self.name) && domain.inside.as_deref() == outer
            })
            .map(|(name, domain)| (name.as_str(), domain))
    }

    /// A plan for each CPU, or one for several where a subsystem spreads members over them.
    fn partitioned(&self) -> Result<Vec<LaidPlan>, HostError> {
        let mut plans = Vec::new();
        let mut together = Vec::new();
        let spread = self.spread_members()?;
        for cpu in &self.host.cpus {
            match self.plan_of_subsystem(*cpu)? {
                Some(plan) => plans.push(plan),
                None if !spread.is_empty() => together.push(*cpu),
                None => {
                    let members = Inside::of(self.members_on(*cpu)?);
                    plans.push(self.plan(vec![*cpu], members, Vec::new())?);
                }
            }
        }
        if !together.is_empty() {
            plans.push(self.pinned(together, spread)?);
        }
        plans.sort_by_key(|plan| plan.cpus.first().copied());
        Ok(plans)
    }

    fn plan_of_subsystem(&self, cpu: Cpu) -> Result<Option<LaidPlan>, HostError> {
        let mut plans = subsystems::ALL.iter();
        let first = plans.find_map(|subsystem| subsystem.plan_of_cpu(self, cpu).transpose());
        first.transpose()
    }

    fn spread_members(&self) -> Result<Vec<SpreadMember>, HostError> {
        let mut members = Vec::new();
        for subsystem in subsystems::ALL {
            members.extend(subsystem.members(self)?);
        }
        Ok(members)
    }

    /// One plan for several CPUs, on which each member is pinned.
    fn pinned(&self, cpus: Vec<Cpu>, spread: Vec<SpreadMember>) -> Result<LaidPlan, HostError> {
        let (mut members, mut pinned) = (Vec::new(), Vec::new());
        for (index, cpu) in cpus.iter().enumerate() {
            let here = self.members_on(*cpu)?;
            pinned.resize(pinned.len() + here.len(), index);
            members.extend(here);
        }
        for member in spread {
            for cpu in member.cpus {
                let index = cpus.iter().position(|it| *it == cpu);
                pinned.push(index.ok_or_else(|| HostError::NotOfHost {
                    domain: member.domain.clone(),
                    host: self.name.to_owned(),
                    cpu: cpu.0,
                })?);
            }
            members.push(member.node);
        }
        self.plan(cpus, Inside::of(members), pinned)
    }

    fn members_on(&self, cpu: Cpu) -> Result<Vec<PlanNode>, HostError> {
        let mut members = Vec::new();
        let mut background = Vec::new();
        for (name, domain) in self.directly_in(None) {
            let vcpu = self
                .description
                .cpus_of(domain)
                .iter()
                .position(|c| *c == cpu);
            if let Some(vcpu) = vcpu {
                self.vcpu(name, domain, vcpu, None, &mut members, &mut background)?;
            }
        }
        members.extend(in_background(BACKGROUND, background));
        Ok(members)
    }

    fn global(&self) -> Result<LaidPlan, HostError> {
        let cpus: Vec<Cpu> = self.host.working_cpus().into_iter().collect();
        if cpus.is_empty() {
            let host = self.name.to_owned();
            return Err(HostError::NoCpu { host });
        }
        let mut members = Vec::new();
        let mut backgrounds: Vec<Vec<PlanNode>> = cpus.iter().map(|_| Vec::new()).collect();
        for (name, domain) in self.directly_in(None) {
            let pinned: Vec<Cpu> = self.description.cpus_of(domain).into_iter().collect();
            for vcpu in 0..self.description.vcpus_of(domain) {
                let own = pinned
                    .get(vcpu)
                    .and_then(|cpu| cpus.iter().position(|c| c == cpu));
                let at = own.unwrap_or(vcpu % cpus.len());
                let background = &mut backgrounds[at];
                self.vcpu(name, domain, vcpu, None, &mut members, background)?;
            }
        }
        // A level inside of a reservation is for one CPU, so each CPU has a background of its own.
        for (index, background) in backgrounds.into_iter().enumerate() {
            let rank = BACKGROUND - (cpus.len() - 1 - index) as u64;
            members.extend(in_background(rank, background));
        }
        members.extend(self.spread_members()?.into_iter().map(|member| member.node));
        self.plan(cpus, Inside::of(members), Vec::new())
    }

    pub(super) fn plan(
        &self,
        cpus: Vec<Cpu>,
        root: Inside,
        pinned: Vec<usize>,
    ) -> Result<LaidPlan, HostError> {
        let all: Vec<Cpu> = self.host.cpus.iter().copied().collect();
        let speed = |cpu: &Cpu| {
            let position = all.iter().position(|other| other == cpu);
            let percent = position.and_then(|at| self.host.speeds.get(at)).copied();
            let percent = percent.unwrap_or(100);
            Speed::from_permille(percent.saturating_mul(10)).ok_or_else(|| HostError::Speed {
                host: self.name.to_owned(),
                percent,
            })
        };
        let mut laid = empty();
        let root = root.numbered(&mut laid, 0);
        let domains = &self.description.domains;
        let protocol = |(domain, lock)| domains.get(domain)?.locks.get(lock).copied();
        let locks = laid.locks.iter().map(|(domain, lock)| (domain, lock));
        laid.plan = HierarchyPlan {
            cpus: cpus.iter().map(speed).collect::<Result<_, _>>()?,
            overheads: self.host.overheads,
            locks: locks
                .map(|lock| protocol(lock).unwrap_or_default())
                .collect(),
            pinned,
            root,
        };
        laid.interference = self
            .host
            .interference
            .iter()
            .filter_map(|source| {
                let cpu = cpus.iter().position(|cpu| *cpu == source.cpu)?;
                let source = source.clone();
                Some(LaidInterference { cpu, source })
            })
            .collect();
        laid.cpus = cpus;
        Ok(laid)
    }

    /// Puts a virtual CPU of a domain among the reservations, or in the background, of the level that
    /// it is in; nothing, if nothing runs on it.
    fn vcpu(
        &self,
        name: &'a str,
        domain: &'a Domain,
        vcpu: usize,
        within: Option<Scheduling>,
        members: &mut Vec<PlanNode>,
        background: &mut Vec<PlanNode>,
    ) -> Result<(), HostError> {
        if subsystems::ALL.iter().any(|it| it.lays_out(self, domain)) {
            return Ok(());
        }
        let inside = self.inside(name, domain, vcpu)?;
        if inside.members.is_empty() {
            return Ok(());
        }
        let (mut group, supply) = self.supply(name, domain, vcpu, within)?;
        group.inside = inside;
        match supply {
            Supply::Guaranteed => members.push(PlanNode::Group(group)),
            Supply::Rest => background.push(PlanNode::Group(group)),
        }
        Ok(())
    }

    /// What runs on one virtual CPU of a domain.
    fn inside(&self, name: &'a str, domain: &'a Domain, vcpu: usize) -> Result<Inside, HostError> {
        let mut members = Vec::new();
        let mut background = Vec::new();
        for (inner, content) in self.directly_in(Some(name)) {
            if let Some(own) = self.vcpu_within(content, domain, vcpu) {
                let within = Some(domain.scheduling);
                self.vcpu(inner, content, own, within, &mut members, &mut background)?;
            }
        }
        let hogs = self.hogs(name, domain, vcpu);
        let work = self.own_work(name, domain, vcpu);
        if members.is_empty() && background.is_empty() {
            return Ok(match work {
                Some(work) => work,
                None => Inside::in_turns(TURN, hogs),
            });
        }
        if let Some(work) = work {
            let shares_order = matches!(
                domain.scheduling,
                Scheduling::FixedPriority | Scheduling::EarliestDeadlineFirst
            );
            if shares_order && !domain.tasks.is_empty() {
                members.extend(work.members);
            } else {
                members.push(PlanNode::Group(unlimited(OWN_WORK, work)));
            }
        }
        background.extend(hogs);
        members.extend(in_background(BACKGROUND, background));
        Ok(Inside::of(members))
    }

    /// Which virtual CPU of `inner` runs on this one of the domain that it is inside of.
    fn vcpu_within(&self, inner: &Domain, outer: &Domain, vcpu: usize) -> Option<usize> {
        if self.host.placement == Placement::Global {
            return (vcpu < self.description.vcpus_of(inner)).then_some(vcpu);
        }
        let cpu = self.description.cpus_of(outer).iter().nth(vcpu).copied()?;
        self.description
            .cpus_of(inner)
            .iter()
            .position(|own| *own == cpu)
    }

    fn hogs(&self, name: &str, domain: &Domain, vcpu: usize) -> Vec<PlanNode> {
        if domain.builtin != Some(Builtin::CpuHog) && !domain.cpu_bound {
            return Vec::new();
        }
        let vcpus = self.description.vcpus_of(domain).max(1);
        let here = (0..domain.instances as usize).filter(|instance| instance % vcpus == vcpu);
        here.map(|_| {
            PlanNode::Task(TaskNode {
                rank: Rank::Fixed(0),
                domain: name.to_owned(),
                service: None,
                name: "cpu-hog".into(),
                vcpu: Some(vcpu),
                task: None,
            })
        })
        .collect()
    }

    /// The services and the own tasks of a domain on one of its virtual CPUs.
    fn own_work(&self, name: &str, domain: &Domain, vcpu: usize) -> Option<Inside> {
        let here = |what: &str| self.placed.get(&(name.to_owned(), what.to_owned())) == Some(&vcpu);
        let own: Vec<PlanNode> = domain
            .tasks
            .iter()
            .filter(|(task, _)| here(task))
            .map(|(task, content)| node(name, None, task, Some(vcpu), domain.scheduling, content))
            .map(PlanNode::Task)
            .collect();
        if !own.is_empty() {
            return Some(Inside {
                preemptive: domain.preemptive,
                quantum: domain
                    .quantum
                    .filter(|_| domain.scheduling == Scheduling::RoundRobin),
                members: own,
            });
        }
        let mut services: Vec<Inside> = self
            .services_in(name)
            .filter(|(service, _)| here(service))
            .map(|(service, content)| {
                let tasks = content.tasks.iter();
                let tasks = tasks.map(|(task, described)| {
                    let scheduling = content.scheduling;
                    PlanNode::Task(node(
                        name,
                        Some(service),
                        task,
                        Some(vcpu),
                        scheduling,
                        described,
                    ))
                });
                Inside::of(tasks.collect())
            })
            .collect();
        match services.len() {
            0 => None,
            1 => services.pop(),
            _ => {
                let groups = services.into_iter();
                let groups =
                    groups.map(|inside| PlanNode::Group(unlimited(Rank::Fixed(0), inside)));
                Some(Inside::in_turns(TURN, groups.collect()))
            }
        }
    }

    fn services_in(&self, domain: &str) -> impl Iterator<Item = (&'a str, &'a Service)> {
        let services = self.description.services.iter();
        services
            .filter(move |(_, service)| service.domain == domain)
            .map(|(name, service)| (name.as_str(), service))
    }

    fn assumptions(&self, plans: &[LaidPlan]) -> Vec<String> {
        let mut said = Vec::new();
        let idle: Vec<&str> = self
            .description
            .domains
            .iter()
            .filter(|(name, domain)| {
                let here = self.description.host_of(domain).map(|(name, _)| name);
                here == Some(self.name)
                    && !plans.iter().any(|plan| {
                        plan.reservations
                            .iter()
                            .any(|r| r.domain.as_ref() == Some(name))
                    })
            })
            .map(|(name, _)| name.as_str())
            .collect();
        if !idle.is_empty() {
            said.push(format!(
                "nothing tells the load of {}: taken to be idle (cpu_bound = true says otherwise)",
                idle.join(", ")
            ));
        }
        if plans
            .iter()
            .any(|plan| plan.reservations.iter().any(|r| r.background))
        {
            said.push(format!(
                "domains without a guarantee run below all reservations, in turns of {TURN}"
            ));
        }
        for plan in plans {
            let subsystems = subsystems::ALL.iter();
            said.extend(subsystems.filter_map(|subsystem| subsystem.assumptions(plan)));
        }
        if plans.iter().any(|plan| plan.plan.overheads.is_free()) {
            said.push("scheduling costs nothing".into());
        }
        said.push("replenishments lie at 0ns + k periods".into());
        if self.shares_streams() {
            said.push(
                "tasks of the same name in several services are released at the same times, as a \
                 load generator sends them"
                    .into(),
            );
        }
        said
    }

    fn shares_streams(&self) -> bool {
        let services = self.description.services.values();
        let mut names: Vec<&String> = services.flat_map(|service| service.tasks.keys()).collect();
        names.sort();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }
}

fn empty() -> LaidPlan {
    LaidPlan {
        plan: HierarchyPlan::on_one_cpu(Level::of(Vec::new())),
        cpus: Vec::new(),
        tasks: Vec::new(),
        reservations: vec![LaidReservation {
            domain: None,
            vcpu: None,
            outer: None,
            background: false,
        }],
        locks: Vec::new(),
        interference: Vec::new(),
        aperiodic: None,
    }
}

pub(super) fn unlimited(rank: Rank, inside: Inside) -> ReservationNode {
    ReservationNode {
        rank,
        rule: Rule::Unlimited,
        budget: Duration::ZERO,
        period: Duration::ZERO,
        domain: None,
        vcpu: None,
        background: false,
        inside,
    }
}

/// What runs below all reservations takes turns there.
fn in_background(rank: u64, members: Vec<PlanNode>) -> Option<PlanNode> {
    if members.is_empty() {
        return None;
    }
    let mut group = unlimited(Rank::Fixed(rank), Inside::in_turns(TURN, members));
    group.background = true;
    Some(PlanNode::Group(group))
}

pub(super) fn node(
    domain: &str,
    service: Option<&str>,
    name: &str,
    vcpu: Option<usize>,
    scheduling: Scheduling,
    task: &Task,
) -> TaskNode {
    let mut expected = task.clone();
    if let ExecutionTime::Calibrated {
        expected: Some(value),
    } = expected.execution_time
    {
        expected.execution_time = ExecutionTime::Constant { value };
    }
    TaskNode {
        rank: rank(scheduling, task),
        domain: domain.to_owned(),
        service: service.map(str::to_owned),
        name: name.to_owned(),
        vcpu,
        task: Some(expected),
    }
}
