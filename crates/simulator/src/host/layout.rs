//! What a plan of a host is made of, by name.

use tailbound_model::{Cpu, CriticalSection, Task};

use crate::hierarchy::{Level, Member, Plan, Rank, Reservation, Rule, Section};
use crate::traces::Setting;
use tailbound_time::Duration;

/// A host as plans: one for each of its CPUs, or one for all under global placement.
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
    pub plan: Plan,
    /// The CPUs, in the order of the plan.
    pub cpus: Vec<Cpu>,
    /// The tasks, in the order of the plan.
    pub tasks: Vec<LaidTask>,
    /// The reservations, in the order of the plan; the first is the host itself.
    pub reservations: Vec<LaidReservation>,
    /// The locks, in the order of the plan: their domains and names.
    pub locks: Vec<(String, String)>,
}

impl LaidPlan {
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
        let known = self.locks.iter();
        let known = known.map(|(domain, name)| (domain.as_str(), name.as_str()));
        known
            .into_iter()
            .position(|it| it == (domain, name))
            .unwrap_or_else(|| {
                self.locks.push((domain.to_owned(), name.to_owned()));
                self.locks.len() - 1
            })
    }

    fn sections(&mut self, domain: &str, task: Option<&Task>) -> Vec<Section> {
        let sections = task.map_or([].as_slice(), |task| &task.sections);
        let section = |section: &CriticalSection| Section {
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
    /// The virtual CPU of the domain, from 0.
    pub vcpu: usize,
    /// What it does; `None` for what uses all the CPU time that it gets.
    pub task: Option<Task>,
    /// The reservation that it runs in, by its position in the plan.
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
pub(super) enum Node {
    Task {
        rank: Rank,
        domain: String,
        service: Option<String>,
        name: String,
        vcpu: usize,
        task: Option<Task>,
    },
    Group(Group),
}

/// A reservation before it is numbered.
pub(super) struct Group {
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
    pub(super) members: Vec<Node>,
}

impl Inside {
    /// A preemptive level without turns.
    pub(super) fn of(members: Vec<Node>) -> Self {
        Self {
            preemptive: true,
            quantum: None,
            members,
        }
    }

    /// A level whose members take turns.
    pub(super) fn in_turns(quantum: Duration, members: Vec<Node>) -> Self {
        Self {
            preemptive: true,
            quantum: Some(quantum),
            members,
        }
    }

    /// The level with its members numbered in the order of the tree, as the plan counts them.
    pub(super) fn numbered(self, laid: &mut LaidPlan, own: usize) -> Level {
        let members = self.members.into_iter().map(|member| match member {
            Node::Task {
                rank,
                domain,
                service,
                name,
                vcpu,
                task,
            } => {
                let sections = laid.sections(&domain, task.as_ref());
                laid.tasks.push(LaidTask {
                    domain,
                    service,
                    name,
                    vcpu,
                    task,
                    reservation: own,
                });
                Member::Task(crate::hierarchy::Task { rank, sections })
            }
            Node::Group(group) => {
                let number = laid.reservations.len();
                laid.reservations.push(LaidReservation {
                    domain: group.domain,
                    vcpu: group.vcpu,
                    outer: Some(own),
                    background: group.background || laid.reservations[own].background,
                });
                Member::Reservation(Reservation {
                    rank: group.rank,
                    rule: group.rule,
                    budget: group.budget,
                    period: group.period,
                    phase: Duration::ZERO,
                    inside: group.inside.numbered(laid, number),
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
