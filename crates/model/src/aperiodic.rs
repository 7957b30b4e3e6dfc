//! Soft tasks beside hard ones, on a CPU that they have for themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::description::{Description, Domain, Scheduling, Task};
use crate::host::{Host, Placement};
use crate::interface::{Cpu, CpuSet, Priority};
use crate::schema::is_default;

/// The policy by which soft tasks of a domain run before its other tasks, which are hard: no hard
/// task misses a deadline for it. Soft jobs wait in one queue, first come, first served, and also
/// run whenever no hard job is there. The budget of a server is described otherwise, by a domain
/// inside of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aperiodic {
    /// The policy.
    pub policy: AperiodicPolicy,
    /// The soft tasks, by name; all others of the domain are hard.
    pub tasks: Vec<String>,
    /// The use of time that hard jobs turn out not to need (dual priority, slack stealing).
    #[serde(default, skip_serializing_if = "is_default")]
    pub gain: Gain,
    /// CPU time per period (priority exchange).
    #[serde(default)]
    pub budget: Option<Duration>,
    /// The distance between replenishments, by which the budget has its place among the tasks if they
    /// have theirs by period or deadline (priority exchange).
    #[serde(default)]
    pub period: Option<Duration>,
    /// The place of the budget among tasks with priorities; before all of them if left out (priority
    /// exchange).
    #[serde(default)]
    pub priority: Option<Priority>,
    /// The costs of the policy's own work, beyond the overheads of the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub costs: AperiodicCosts,
}

/// The rules by which soft jobs come before hard ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AperiodicPolicy {
    /// Before all hard jobs that are not promoted yet: each is, its worst-case response time before its
    /// deadline (Davis and Wellings 1995).
    DualPriority,
    /// As long as a lower bound of the slack of all hard tasks is above zero (dynamic approximate slack
    /// stealing; Davis, Tindell and Burns 1993).
    SlackStealing,
    /// On a budget that sinks to the place of the hard task that runs in its stead (Lehoczky, Sha and
    /// Strosnider 1987).
    PriorityExchange,
}

/// The use of time that hard jobs turn out not to need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// Nothing.
    #[default]
    None,
    /// What a job executes before its promotion delays the promotion (dual priority).
    Own,
    /// What a job leaves of its worst case is given to soft jobs.
    Propagated,
    /// Both (dual priority).
    Both,
}

/// The costs of a policy's work; nothing if left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AperiodicCosts {
    /// The cost of a replenishment of the budget (priority exchange).
    #[serde(default, skip_serializing_if = "is_default")]
    pub replenishment: Duration,
    /// The cost of a promotion (dual priority).
    #[serde(default, skip_serializing_if = "is_default")]
    pub promotion: Duration,
    /// The cost of computing the slack of one hard task; the slack of all is computed at the end of
    /// each hard job (slack stealing).
    #[serde(default, skip_serializing_if = "is_default")]
    pub slack_per_task: Duration,
    /// The cost of passing on the time that a hard job has left (propagated gain).
    #[serde(default, skip_serializing_if = "is_default")]
    pub gain: Duration,
}

impl Aperiodic {
    /// A policy for these tasks, of which nothing else is said.
    pub fn of(policy: AperiodicPolicy, tasks: Vec<String>) -> Self {
        Self {
            policy,
            tasks,
            gain: Gain::None,
            budget: None,
            period: None,
            priority: None,
            costs: AperiodicCosts::default(),
        }
    }
}

/// Something that an aperiodic policy does not go with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConflict {
    /// The keys that lead to it from the domain.
    pub keys: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}

/// The contradictions in one domain, as they are found.
struct Search<'a> {
    description: &'a Description,
    name: &'a str,
    domain: &'a Domain,
    aperiodic: &'a Aperiodic,
    conflicts: Vec<PolicyConflict>,
}

impl Description {
    /// What in the description of a domain its aperiodic policy does not go with; nothing if it has
    /// none, or all is well.
    pub fn aperiodic_contradictions(&self, name: &str) -> Vec<PolicyConflict> {
        let Some((name, domain)) = self.domains.get_key_value(name) else {
            return Vec::new();
        };
        let Some(aperiodic) = &domain.aperiodic else {
            return Vec::new();
        };
        let mut search = Search {
            description: self,
            name,
            domain,
            aperiodic,
            conflicts: Vec::new(),
        };
        search.soft_tasks();
        search.keys_of_the_policy();
        search.order();
        search.company();
        search.cpu();
        for (task, content) in &domain.tasks {
            search.task(task, content);
        }
        search.conflicts
    }
}

impl Search<'_> {
    fn find(&mut self, keys: &[&str], message: impl Into<String>, remedy: impl Into<String>) {
        self.conflicts.push(PolicyConflict {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    fn soft_tasks(&mut self) {
        let names = &self.aperiodic.tasks;
        if names.is_empty() {
            self.find(
                &["aperiodic", "tasks"],
                "there is no soft task that the policy would be for",
                "name some of the domain's tasks, or leave `aperiodic` out",
            );
        }
        for (index, name) in names.iter().enumerate() {
            let message = if !self.domain.tasks.contains_key(name) {
                format!("the domain has no task `{name}`")
            } else if names[..index].contains(name) {
                format!("`{name}` is named twice")
            } else {
                continue;
            };
            let tasks: Vec<&str> = self.domain.tasks.keys().map(String::as_str).collect();
            let remedy = format!("name each soft task once, of: {}", tasks.join(", "));
            self.find(&["aperiodic", "tasks"], message, remedy);
        }
    }

    fn keys_of_the_policy(&mut self) {
        let Aperiodic {
            policy,
            gain,
            budget,
            period,
            priority,
            ..
        } = *self.aperiodic;
        let exchanges = policy == AperiodicPolicy::PriorityExchange;
        let fits = match policy {
            AperiodicPolicy::DualPriority => true,
            AperiodicPolicy::SlackStealing => matches!(gain, Gain::None | Gain::Propagated),
            AperiodicPolicy::PriorityExchange => gain == Gain::None,
        };
        if !fits {
            self.find(
                &["aperiodic", "gain"],
                "the policy makes nothing of this gain",
                "dual priority has own, propagated and both; slack stealing has propagated; priority \
                 exchange has none",
            );
        }
        for (key, value) in [("budget", budget), ("period", period)] {
            match value {
                None if exchanges => self.find(
                    &["aperiodic"],
                    format!("priority exchange has a budget, and `{key}` is not told"),
                    format!("add `{key}`, such as \"10ms\""),
                ),
                Some(value) if exchanges && value.is_zero() => self.find(
                    &["aperiodic", key],
                    format!("the {key} is zero"),
                    format!("the {key} is above zero, such as \"10ms\""),
                ),
                Some(_) if !exchanges => self.find(
                    &["aperiodic", key],
                    "only priority exchange has a budget",
                    "leave it out",
                ),
                _ => {}
            }
        }
        if exchanges && budget.zip(period).is_some_and(|(b, p)| b > p) {
            self.find(
                &["aperiodic", "budget"],
                "the budget is longer than its period",
                "the budget is at most the period",
            );
        }
        let by_priority = self.domain.scheduling == Scheduling::FixedPriority;
        if priority.is_some() && !(exchanges && by_priority) {
            self.find(
                &["aperiodic", "priority"],
                "it is for the budget of priority exchange among tasks with priorities",
                "leave it out",
            );
        }
    }

    /// Finds those of a list that are so: key, whether, why not, what instead.
    fn find_all(&mut self, against: &[(&str, bool, &str, &str)]) {
        for (key, _, message, remedy) in against.iter().filter(|(_, given, ..)| *given) {
            self.find(&[key], *message, *remedy);
        }
    }

    fn order(&mut self) {
        let domain = self.domain;
        let fixed = matches!(
            domain.scheduling,
            Scheduling::FixedPriority | Scheduling::RateMonotonic | Scheduling::DeadlineMonotonic
        );
        let against = [
            (
                "scheduling",
                !fixed,
                "hard tasks beside soft ones have fixed priorities",
                "write rate-monotonic, deadline-monotonic or fixed-priority",
            ),
            (
                "preemptive",
                !domain.preemptive,
                "the policy interrupts jobs, and this forbids it",
                "leave it out",
            ),
            (
                "placement",
                domain.placement == Placement::Global,
                "the policy is for one CPU",
                "leave it out",
            ),
            (
                "reservation",
                (domain.reservation.as_ref()).is_some_and(|it| it.backend.has_windows()),
                "the policy counts on a whole CPU, not on windows",
                "choose another back end",
            ),
        ];
        self.find_all(&against);
    }

    /// What else would take the time of the CPU, or be taken for its work.
    fn company(&mut self) {
        let domain = self.domain;
        let mut domains = self.description.domains.values();
        let holds = domains.any(|inner| inner.inside.as_deref() == Some(self.name));
        let mut services = self.description.services.values();
        let serves = services.any(|service| service.domain == self.name);
        let against = [
            (
                "inside",
                domain.inside.is_some(),
                "the policy counts on a whole CPU, not on the share of a domain",
                "leave it out, and give the domain a CPU of its own",
            ),
            (
                "aperiodic",
                holds,
                "domains inside of this one would take CPU time that the policy counts on",
                "put them outside, on other CPUs",
            ),
            (
                "locks",
                !domain.locks.is_empty(),
                "the policy knows no locks",
                "leave them out",
            ),
            (
                "cpu_bound",
                domain.cpu_bound,
                "what uses all CPU time leaves none to soft tasks",
                "leave it out",
            ),
            (
                "builtin",
                domain.builtin.is_some(),
                "programs of ours tell their tasks otherwise",
                "leave it out",
            ),
            (
                "aperiodic",
                serves,
                "the policy is for the domain's own tasks, and a service is in this domain, too",
                "give the service a domain of its own",
            ),
            (
                "reservation",
                domain
                    .reservation
                    .as_ref()
                    .is_some_and(|one| !one.backend.gives_whole_cpus()),
                "the policy counts on a whole CPU, not on a budget",
                "leave it out and name the CPU by `cpus`, or write backend = \"dedicated\"",
            ),
        ];
        self.find_all(&against);
    }

    fn cpu(&mut self) {
        let own = self.description.cpus_of(self.domain);
        let host = self.description.host_of(self.domain);
        if own.len() != 1 {
            let message = format!(
                "the policy is for one CPU, and the domain has {}",
                own.len()
            );
            self.find(&["cpus"], message, "name the one, such as cpus = [1]");
            return;
        }
        let Some((host_name, host)) = host else {
            return;
        };
        if host.placement == Placement::Global {
            self.find(
                &["aperiodic"],
                "the host moves its domains from CPU to CPU, and the policy is for one",
                "leave `placement` out of the host",
            );
        }
        if own.iter().any(|cpu| speed_of(host, *cpu) != 100) {
            self.find(
                &["cpus"],
                "the policy counts on a CPU of full speed",
                "choose one whose speed is 100",
            );
        }
        let others = self.description.domains.iter();
        let here = others.filter(|(other, content)| {
            let same = self.description.host_of(content).map(|(name, _)| name) == Some(host_name);
            *other != self.name && same && shares(&self.description.cpus_of(content), &own)
        });
        let here: Vec<&str> = here.map(|(other, _)| other.as_str()).collect();
        if !here.is_empty() {
            let message = format!("{} may run on this CPU, too", here.join(", "));
            self.find(
                &["cpus"],
                message,
                "give the others `cpus` of their own; the policy counts on the whole of this one",
            );
        }
    }

    fn task(&mut self, name: &str, task: &Task) {
        for (key, given) in [
            ("boost", task.boost.is_some()),
            ("sections", !task.sections.is_empty()),
        ] {
            if given {
                self.find(
                    &["tasks", name, key],
                    "tasks under an aperiodic policy have no boosts and hold no locks",
                    "leave it out",
                );
            }
        }
        if self.aperiodic.tasks.iter().any(|soft| soft == name) {
            if task.priority.is_some() {
                self.find(
                    &["tasks", name, "priority"],
                    "a soft task's place is what the policy says",
                    "leave it out, or out of `aperiodic.tasks`",
                );
            }
            return;
        }
        self.hard_task(name, task);
    }

    fn hard_task(&mut self, name: &str, task: &Task) {
        let soft = "name it in `aperiodic.tasks` if it is soft";
        if task.clients != 1 {
            self.find(
                &["tasks", name, "clients"],
                "a hard task is there once",
                format!("describe each by itself, or {soft}"),
            );
        }
        let Some(period) = task.least_gap().filter(|gap| !gap.is_zero()) else {
            self.find(
                &["tasks", name, "arrivals"],
                "a hard task's jobs come at least some time after each other, and nothing says so of these",
                format!("make it periodic or sporadic with a gap above zero, or {soft}"),
            );
            return;
        };
        if let Some(deadline) = task.deadline.filter(|deadline| *deadline > period) {
            let message = format!("the deadline {deadline} is longer than the period {period}");
            self.find(
                &["tasks", name, "deadline"],
                message,
                "a hard task's deadline is at most its period",
            );
        }
        let longest = task.execution_time.longest();
        if let Some(longest) = longest.filter(|longest| *longest > period) {
            let message = format!("a job may run for {longest}, longer than the period {period}");
            self.find(
                &["tasks", name, "execution_time"],
                message,
                format!("shorten it, or {soft}"),
            );
        }
    }
}

fn shares(one: &CpuSet, other: &CpuSet) -> bool {
    one.intersection(other).next().is_some()
}

fn speed_of(host: &Host, cpu: Cpu) -> u32 {
    let position = host.cpus.iter().position(|other| *other == cpu);
    let speed = position.and_then(|at| host.speeds.get(at));
    speed.copied().unwrap_or(100)
}
