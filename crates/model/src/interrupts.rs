//! Interrupts of a host: on which CPUs, in which context and with how much CPU time the work of devices is done.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::BackendKind;
use crate::description::{Description, Domain, DomainKind, Reservation};
use crate::interface::{CpuSet, Priority};

/// The handling of the interrupts of one device or interrupt line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterruptHandling {
    /// The CPUs of the interrupt lines, of the interrupt threads and of the received packets; one CPU with a budget.
    pub cpus: CpuSet,
    /// The context of the receive work.
    #[serde(default)]
    pub receive: ReceiveContext,
    /// The fixed priority of the threads (SCHED_FIFO); without it they are ordinary threads, below every domain (receive
    /// `thread`).
    #[serde(default)]
    pub priority: Option<Priority>,
    /// CPU time of the threads per period at their priority; without it they have no bound. Once it is used up they go
    /// on as ordinary threads where the back end allows that, and otherwise wait for the next period.
    #[serde(default)]
    pub budget: Option<Duration>,
    /// The distance between replenishments of the budget.
    #[serde(default)]
    pub period: Option<Duration>,
    /// The back end that enforces the budget; `ds-freeze` if left out.
    #[serde(default)]
    pub backend: Option<BackendKind>,
}

/// The context in which the kernel does the work of interrupts beyond their first handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveContext {
    /// Softirqs, which come before every thread and have no bound; the kernel's default.
    #[default]
    Softirq,
    /// Threads of the kernel: those of threaded NAPI for a network device, and of a threaded handler for an interrupt.
    Thread,
}

impl ReceiveContext {
    /// The name in descriptions and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Softirq => "softirq",
            Self::Thread => "thread",
        }
    }
}

/// The device or interrupt line whose work a domain is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InterruptSource {
    /// The name of the network device, or the number or name of the interrupt.
    pub name: String,
    /// The context of the receive work.
    pub receive: ReceiveContext,
    /// The CPUs of the interrupt lines.
    pub cpus: CpuSet,
}

impl InterruptHandling {
    /// The back end that puts it into force.
    pub fn enforced_by(&self) -> BackendKind {
        match (self.receive, self.priority, self.budget) {
            (ReceiveContext::Thread, Some(_), Some(_)) => {
                self.backend.unwrap_or(BackendKind::METERED)
            }
            (ReceiveContext::Thread, Some(_), None) => BackendKind::PRIORITY_ALONE,
            _ => BackendKind::UNRESERVED,
        }
    }

    /// The domain that the work of the interrupts is, as flooded as can be.
    fn as_domain(&self, host: &str, name: &str) -> Domain {
        let mut reservation = Reservation::on(self.enforced_by(), self.cpus.clone());
        reservation.priority = self.priority.unwrap_or(Priority::LOWEST);
        if reservation.backend.has_budget() {
            (reservation.budget, reservation.period) = (self.budget, self.period);
        }
        Domain {
            host: Some(host.to_owned()),
            cpu_bound: reservation.backend.enforces(),
            reservation: Some(reservation),
            interrupts: Some(InterruptSource {
                name: name.to_owned(),
                receive: self.receive,
                cpus: self.cpus.clone(),
            }),
            ..Domain::of(DomainKind::Process)
        }
    }
}

/// The name of the domain that the work of interrupts is: the place of its table in the description.
pub fn interrupt_domain(host: &str, source: &str) -> String {
    format!("{host}.interrupts.{source}")
}

impl Description {
    /// The same system with the work of described interrupts as domains, so that it is admitted, analysed, simulated and
    /// enforced like every other reservation.
    #[must_use]
    pub fn with_interrupt_domains(&self) -> Self {
        let mut described = self.clone();
        for (host, content) in &mut described.hosts {
            for (source, handling) in std::mem::take(&mut content.interrupts) {
                let domain = handling.as_domain(host, &source);
                described
                    .domains
                    .insert(interrupt_domain(host, &source), domain);
            }
        }
        described
    }

    /// The same system without what is described of interrupts.
    #[must_use]
    pub fn without_interrupts(&self) -> Self {
        let mut described = self.clone();
        for host in described.hosts.values_mut() {
            host.interrupts = BTreeMap::new();
        }
        described
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn description(handling: &str) -> Description {
        let text = format!(
            "schema_version = 1\nname = \"edge\"\n[hosts.edge]\ncpus = [0, 1]\n\
             [hosts.edge.interrupts.eth0]\n{handling}\n\
             [domains.loop]\nkind = \"process\"\ncommand = [\"a\"]\ncpus = [1]\n"
        );
        crate::parse(&text, "edge.toml").unwrap()
    }

    #[test]
    fn the_work_of_interrupts_is_a_domain_with_the_threads_budget() {
        let described = description(
            "cpus = [1]\nreceive = \"thread\"\npriority = 50\nbudget = \"2ms\"\nperiod = \"10ms\"",
        );
        let expanded = described.with_interrupt_domains();
        let domain = &expanded.domains["edge.interrupts.eth0"];
        let reservation = domain.reservation.as_ref().unwrap();
        assert_eq!(reservation.budget, Some(Duration::from_millis(2)));
        assert_eq!(reservation.priority, Priority(50));
        assert!(reservation.backend.guarantees_budget() && domain.cpu_bound);
        assert_eq!(expanded.with_interrupt_domains(), expanded);
        assert_eq!(described.without_interrupts().domains.len(), 1);
    }

    #[test]
    fn without_a_budget_nothing_is_guaranteed() {
        let backend = |handling: &str| {
            let expanded = description(handling).with_interrupt_domains();
            let domain = &expanded.domains["edge.interrupts.eth0"];
            domain.reservation.as_ref().unwrap().backend
        };
        let softirq = backend("cpus = [1]");
        assert!(!softirq.enforces());
        let unbounded = backend("cpus = [1]\nreceive = \"thread\"\npriority = 50");
        assert!(unbounded.is_real_time_without_budget());
        assert!(!backend("cpus = [1]\nreceive = \"thread\"").enforces());
    }
}
