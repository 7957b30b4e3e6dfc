//! What a plan of a host is made of, by name.

use tailbound_model::{Cpu, CriticalSection, Task};

use super::interference::LaidInterference;
use crate::aperiodic::System;
use crate::hierarchy::{
    Guest, HierarchyPlan, Level, LevelMember, LockSection, PlannedReservation, Rank, Rule,
    VirtualCpu,
};
use crate::traces::Setting;
use tailbound_time::Duration;

/// A host as plans: one for each of its CPUs, or one for all under global placement and for those that
/// guests are on.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The host's name.
    pub host: String,
    /// The plans, in the order of the CPUs. CPUs on which nothing runs have one, too.
    pub plans: Vec<LaidPlan>,
    /// What the mapping takes for granted.
    pub assumptions: Vec<String>,
}

/// A plan and the names of what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct LaidPlan {
    /// What is simulated.
    pub plan: HierarchyPlan,
    /// The CPUs, in the order of the plan.
    pub cpus: Vec<Cpu>,
    /// The tasks, in the order of the plan.
    pub tasks: Vec<LaidTask>,
    /// The reservations, in the order of the plan; the first is the host itself.
    pub reservations: Vec<LaidReservation>,
    /// The locks, in the order of the plan: their domains and names.
    pub locks: Vec<(String, String)>,
    /// What takes the CPUs from everything.
    pub interference: Vec<LaidInterference>,
    /// Where the only domain has soft tasks beside hard ones, the policy that decides in place of the
    /// ranks of the plan. Its tasks are those of the plan.
    pub aperiodic: Option<System>,
}

impl LaidPlan {
    /// The host and the CPUs of the plan in a word: `HOST.cpu0`, `HOST.cpu0-3`.
    pub fn title(&self, host: &str) -> String {
        match (self.cpus.first(), self.cpus.last()) {
            (Some(first), Some(last)) if first != last => format!("{host}.cpu{first}-{last}"),
            (Some(only), _) => format!("{host}.cpu{only}"),
            (None, _) => host.to_owned(),
        }
    }

    /// What the sinks of a trace need to know of the plan, with the names of the description.
    pub fn setting(&self) -> Setting {
        let task = |task: &LaidTask| match &task.service {
            Some(service) => format!("{service}.{}", task.name),
            None => format!("{}.{}", task.domain, task.name),
        };
        let reservation = |it: &LaidReservation| match (&it.domain, it.vcpu) {
            (Some(domain), None | Some(0)) => domain.clone(),
            (Some(domain), Some(vcpu)) => format!("{domain}, virtual CPU {vcpu}"),
            (None, _) if it.background => "background".to_owned(),
            (None, _) => "group".to_owned(),
        };
        let deadlines = self.tasks.iter();
        let deadlines = deadlines.map(|task| task.task.as_ref()?.relative_deadline());
        Setting::of(&self.plan)
            .name_tasks(self.tasks.iter().map(task))
            .name_reservations(self.reservations.iter().skip(1).map(reservation))
            .set_deadlines(deadlines)
    }

    /// The position of a lock of a domain.
    fn lock(&mut self, domain: &str, name: &str) -> usize {
        let names = self.locks.iter();
        let names = names.map(|(domain, name)| (domain.as_str(), name.as_str()));
        names
            .into_iter()
            .position(|it| it == (domain, name))
            .unwrap_or_else(|| {
                self.locks.push((domain.to_owned(), name.to_owned()));
                self.locks.len() - 1
            })
    }

    fn number_group(&mut self, group: ReservationNode, own: usize) -> (VirtualCpu, Inside, usize) {
        let number = self.reservations.len();
        self.reservations.push(LaidReservation {
            domain: group.domain,
            vcpu: group.vcpu,
            outer: Some(own),
            background: group.background || self.reservations[own].background,
        });
        let vcpu = VirtualCpu {
            rank: group.rank,
            rule: group.rule,
            budget: group.budget,
            period: group.period,
            phase: Duration::ZERO,
        };
        (vcpu, group.inside, number)
    }

    fn number_task(&mut self, node: TaskNode, own: usize) -> crate::hierarchy::PlannedTask {
        let content = node.task.as_ref();
        let numbered = crate::hierarchy::PlannedTask {
            rank: node.rank,
            sections: self.sections(&node.domain, content),
            boost: content.and_then(|task| task.boost),
        };
        self.tasks.push(LaidTask {
            domain: node.domain,
            service: node.service,
            name: node.name,
            vcpu: node.vcpu,
            task: node.task,
            reservation: own,
        });
        numbered
    }

    fn sections(&mut self, domain: &str, task: Option<&Task>) -> Vec<LockSection> {
        let sections = task.map_or([].as_slice(), |task| &task.sections);
        let section = |section: &CriticalSection| LockSection {
            lock: self.lock(domain, &section.lock),
            after: section.after,
            length: section.length,
        };
        sections.iter().map(section).collect()
    }
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct LaidTask {
    /// Its domain.
    pub domain: String,
    /// Its service; `None` for a task of the domain itself.
    pub service: Option<String>,
    /// Its name; `cpu-hog` for what uses all the CPU time that it gets.
    pub name: String,
    /// The virtual CPU of the domain, from 0; `None` where all share one queue.
    pub vcpu: Option<usize>,
    /// What it does; `None` for what uses all the CPU time that it gets.
    pub task: Option<Task>,
    /// The reservation that it runs in, by its position in the plan; of several virtual CPUs the first.
    pub reservation: usize,
}

impl LaidTask {
    /// What its random streams depend on: a task of a service has those that a load generator uses.
    pub(super) fn stream(&self) -> String {
        match self.service {
            Some(_) => self.name.clone(),
            None => format!("{}.{}", self.domain, self.name),
        }
    }
}

/// A reservation of a plan, or what else groups its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaidReservation {
    /// Whose it is; `None` for the host and its background.
    pub domain: Option<String>,
    /// Which virtual CPU of the domain it is; `None` for what only groups members.
    pub vcpu: Option<usize>,
    /// The reservation that it is inside of, by its position in the plan.
    pub outer: Option<usize>,
    /// Whether it is below all reservations.
    pub background: bool,
}

/// A part of a plan before it is numbered.
pub(super) enum PlanNode {
    Task(TaskNode),
    Group(ReservationNode),
    Guest(GuestNode),
}

/// A task before it is numbered.
pub(super) struct TaskNode {
    pub(super) rank: Rank,
    pub(super) domain: String,
    pub(super) service: Option<String>,
    pub(super) name: String,
    pub(super) vcpu: Option<usize>,
    pub(super) task: Option<Task>,
}

/// A guest before it is numbered.
pub(super) struct GuestNode {
    /// Its virtual CPUs, with nothing inside.
    pub(super) vcpus: Vec<ReservationNode>,
    /// Whether they share one budget.
    pub(super) shares_budget: bool,
    pub(super) tasks: Vec<TaskNode>,
}

/// A reservation before it is numbered.
pub(super) struct ReservationNode {
    pub(super) rank: Rank,
    pub(super) rule: Rule,
    pub(super) budget: Duration,
    pub(super) period: Duration,
    pub(super) domain: Option<String>,
    pub(super) vcpu: Option<usize>,
    pub(super) background: bool,
    pub(super) inside: Inside,
}

/// A level before it is numbered.
pub(super) struct Inside {
    pub(super) preemptive: bool,
    pub(super) quantum: Option<Duration>,
    pub(super) members: Vec<PlanNode>,
}

impl Inside {
    /// A preemptive level without turns.
    pub(super) fn of(members: Vec<PlanNode>) -> Self {
        Self {
            preemptive: true,
            quantum: None,
            members,
        }
    }

    /// A level whose members take turns.
    pub(super) fn in_turns(quantum: Duration, members: Vec<PlanNode>) -> Self {
        Self {
            preemptive: true,
            quantum: Some(quantum),
            members,
        }
    }

    /// The level with its members numbered in the order of the tree, as the plan counts them.
    pub(super) fn numbered(self, laid: &mut LaidPlan, own: usize) -> Level {
        let members = self.members.into_iter().map(|member| match member {
            PlanNode::Task(task) => LevelMember::Task(laid.number_task(task, own)),
            PlanNode::Group(group) => {
                let (vcpu, inside, number) = laid.number_group(group, own);
                LevelMember::Reservation(PlannedReservation {
                    rank: vcpu.rank,
                    rule: vcpu.rule,
                    budget: vcpu.budget,
                    period: vcpu.period,
                    phase: vcpu.phase,
                    inside: inside.numbered(laid, number),
                })
            }
            PlanNode::Guest(guest) => {
                let first = laid.reservations.len();
                let vcpus = guest.vcpus.into_iter();
                let vcpus = vcpus.map(|group| laid.number_group(group, own).0).collect();
                let tasks = guest.tasks.into_iter();
                let tasks = tasks.map(|task| laid.number_task(task, first)).collect();
                LevelMember::Guest(Guest {
                    vcpus,
                    shares_budget: guest.shares_budget,
                    tasks,
                })
            }
        });
        Level {
            preemptive: self.preemptive,
            quantum: self.quantum,
            members: members.collect(),
        }
    }
}
