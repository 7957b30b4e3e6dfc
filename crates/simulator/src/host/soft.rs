//! Soft tasks beside hard ones, on a CPU that they have for themselves.

use tailbound_model::{
    Aperiodic, AperiodicPolicy, Arrivals, Bin, Cpu, Domain, ExecutionTime, HostOverheads,
    InputFiles, Scheduling, Task,
};
use tailbound_time::Duration;

use super::layout::{Inside, LaidPlan, PlanNode};
use super::mapping::{Mapping, node, unlimited};
use super::order::{by_priority, rank};
use super::problem::HostError;
use super::run::ratio;
use super::subsystems::SimulatedSubsystem;
use crate::aperiodic::{HardTask, Policy, ServerBudget, System, promotions};
use crate::hierarchy::{Completion, Job, Piece, Rank, Sink};

/// Where the domain stands among the reservations of its plan.
const DOMAIN: usize = 1;

/// A hard task with its place.
struct Placed<'a> {
    rank: u64,
    name: &'a String,
    task: &'a Task,
}

/// `SoftTasks` are the aperiodic policies of domains, each with a CPU for itself.
pub(super) struct SoftTasks;

impl SimulatedSubsystem for SoftTasks {
    fn check(&self, mapping: &Mapping<'_>) -> Result<(), HostError> {
        let description = mapping.description;
        for (name, domain) in &description.domains {
            let here = description.host_of(domain).map(|(name, _)| name);
            if here != Some(mapping.name) {
                continue;
            }
            if let Some(first) = description.aperiodic_contradictions(name).first() {
                return Err(HostError::Aperiodic {
                    place: format!("domains.{name}.{}", first.keys.join(".")),
                    message: first.message.clone(),
                    remedy: first.remedy.clone(),
                });
            }
        }
        Ok(())
    }

    fn plan_of_cpu(&self, mapping: &Mapping<'_>, cpu: Cpu) -> Result<Option<LaidPlan>, HostError> {
        for (name, domain) in mapping.directly_in(None) {
            if let Some(aperiodic) = &domain.aperiodic
                && mapping.description.cpus_of(domain).contains(&cpu)
            {
                return beside_soft(mapping, cpu, name, domain, aperiodic).map(Some);
            }
        }
        Ok(None)
    }

    fn assumptions(&self, plan: &LaidPlan) -> Option<String> {
        late_in_any_case(plan)
    }

    fn events(&self, plan: &LaidPlan, length: Duration) -> Option<(f64, String)> {
        let Policy::PriorityExchange(budget) = plan.aperiodic.as_ref()?.policy else {
            return None;
        };
        let often = ratio(length, budget.period);
        Some((often, "replenishments of priority exchange".into()))
    }
}

/// The plan of a CPU that a domain with an aperiodic policy has for itself. Its tasks are in the order of
/// the policy: hard ones by rank, then soft ones.
fn beside_soft(
    mapping: &Mapping<'_>,
    cpu: Cpu,
    name: &str,
    domain: &Domain,
    aperiodic: &Aperiodic,
) -> Result<LaidPlan, HostError> {
    let (soft, hard): (Vec<_>, Vec<_>) = domain
        .tasks
        .iter()
        .partition(|(task, _)| domain.has_soft(task));
    let place = |(name, task)| Placed {
        rank: fixed(rank(domain.scheduling, task)),
        name,
        task,
    };
    let mut hard: Vec<Placed<'_>> = hard.into_iter().map(place).collect();
    hard.sort_by_key(|placed| (placed.rank, placed.name));
    let in_order = hard.iter().map(|placed| (placed.name, placed.task));
    let members = in_order
        .chain(soft)
        .enumerate()
        .map(|(place, (task, content))| {
            let mut member = node(name, None, task, Some(0), domain.scheduling, content);
            member.rank = Rank::Fixed(place as u64);
            PlanNode::Task(member)
        });
    let mut group = unlimited(Rank::Fixed(0), Inside::of(members.collect()));
    group.domain = Some(name.to_owned());
    group.vcpu = Some(0);
    let root = Inside::of(vec![PlanNode::Group(group)]);
    let mut laid = mapping.plan(vec![cpu], root, Vec::new())?;
    let place = format!("domains.{name}");
    let system = system(aperiodic, domain, &hard, &laid, mapping.inputs, &place)?;
    laid.aperiodic = Some(system);
    Ok(laid)
}

/// Orders by deadlines of jobs are refused before.
fn fixed(rank: Rank) -> u64 {
    match rank {
        Rank::Fixed(rank) => rank,
        Rank::Deadline(deadline) => deadline.as_nanos(),
    }
}

fn system(
    aperiodic: &Aperiodic,
    domain: &Domain,
    hard: &[Placed<'_>],
    laid: &LaidPlan,
    inputs: &InputFiles,
    place: &str,
) -> Result<System, HostError> {
    let overheads = laid.plan.overheads;
    let costs = aperiodic.costs;
    let mut policy = policy(aperiodic, domain, hard);
    let allowance = policy.allowance(&overheads, &costs, hard.len());
    let hard: Vec<HardTask> = hard
        .iter()
        .map(|placed| hard_task(placed, allowance, inputs, place))
        .collect::<Result<_, _>>()?;
    if let Policy::DualPriority { promotions, .. } = &mut policy {
        *promotions = promoted(&hard, &overheads);
    }
    Ok(System {
        hard,
        policy,
        overheads,
        costs,
    })
}

/// The tasks of a plan for which dual priority has no promotion, in words.
fn late_in_any_case(laid: &LaidPlan) -> Option<String> {
    let system = laid.aperiodic.as_ref()?;
    let Policy::DualPriority { .. } = system.policy else {
        return None;
    };
    let promotions = promotions(&system.hard, system.overheads.tick).into_iter();
    let late = promotions
        .zip(&laid.tasks)
        .filter(|(promotion, _)| promotion.is_none());
    let late: Vec<String> = late
        .map(|(_, task)| format!("{}.{}", task.domain, task.name))
        .collect();
    (!late.is_empty()).then(|| {
        format!(
            "{} may miss deadlines under any policy (worst-case response time): promoted at once",
            late.join(", ")
        )
    })
}

/// What may be late under any policy is promoted at once.
fn promoted(hard: &[HardTask], overheads: &HostOverheads) -> Vec<Duration> {
    let promotions = promotions(hard, overheads.tick).into_iter();
    promotions.map(Option::unwrap_or_default).collect()
}

/// The policy, of dual priority without promotions.
fn policy(aperiodic: &Aperiodic, domain: &Domain, hard: &[Placed<'_>]) -> Policy {
    match aperiodic.policy {
        AperiodicPolicy::DualPriority => Policy::DualPriority {
            promotions: Vec::new(),
            gain: aperiodic.gain,
        },
        AperiodicPolicy::SlackStealing => Policy::SlackStealing {
            gain: aperiodic.gain,
        },
        AperiodicPolicy::PriorityExchange => {
            let period = aperiodic.period.unwrap_or_default();
            // At the same place it comes first.
            let own = match (domain.scheduling, aperiodic.priority) {
                (Scheduling::FixedPriority, None) => 0,
                (Scheduling::FixedPriority, Some(priority)) => fixed(by_priority(priority.0)),
                _ => period.as_nanos(),
            };
            Policy::PriorityExchange(ServerBudget {
                budget: aperiodic.budget.unwrap_or_default(),
                period,
                behind: hard.iter().filter(|placed| placed.rank < own).count(),
            })
        }
    }
}

fn hard_task(
    placed: &Placed<'_>,
    allowance: Duration,
    inputs: &InputFiles,
    place: &str,
) -> Result<HardTask, HostError> {
    let here = |key: &str| format!("{place}.tasks.{}.{key}", placed.name);
    let period = placed.task.least_gap().unwrap_or_default();
    let Some(longest) = longest(&placed.task.execution_time, inputs) else {
        return Err(HostError::Aperiodic {
            place: here("execution_time"),
            message: "nothing tells the longest execution time of this hard task".into(),
            remedy: "use constant, uniform, exponential, lognormal, histogram or samples, or name it in `aperiodic.tasks`"
                .into(),
        });
    };
    if longest > period {
        return Err(HostError::Aperiodic {
            place: here("execution_time"),
            message: format!("a job may run for {longest}, longer than the period {period}"),
            remedy: "shorten it, or name it in `aperiodic.tasks` if it is soft".into(),
        });
    }
    Ok(HardTask {
        execution: longest.saturating_add(allowance).min(period),
        period,
        deadline: placed.task.relative_deadline().unwrap_or(period),
        offset: match placed.task.arrivals {
            Arrivals::Periodic { offset, .. }
            | Arrivals::Sporadic { offset, .. }
            | Arrivals::SporadicExponential { offset, .. } => offset,
            _ => Duration::ZERO,
        },
    })
}

/// The longest execution time, of files too; `None` where nothing tells it.
fn longest(execution: &ExecutionTime, inputs: &InputFiles) -> Option<Duration> {
    match execution {
        ExecutionTime::Samples { file } => {
            let samples = inputs.samples(file)?.iter();
            samples.map(|sample| sample.value).max()
        }
        ExecutionTime::Histogram {
            file: Some(file), ..
        } => inputs.histogram(file)?.iter().map(|bin: &Bin| bin.to).max(),
        other => other.longest(),
    }
}

/// Tells another sink what happens under an aperiodic policy, as it is in a plan.
pub(super) struct InDomain<'a, S>(pub(super) &'a mut S);

impl<S: Sink> Sink for InDomain<'_, S> {
    fn completed(&mut self, completion: &Completion) {
        self.0.completed(completion);
    }

    fn released(&mut self, job: &Job) {
        self.0.released(job);
    }

    fn ran(&mut self, piece: &Piece) {
        self.0.ran(&Piece {
            reservation: DOMAIN,
            ..*piece
        });
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.0.overhead(cpu, from, until);
    }
}
