//! What unit tests say is in force.

use tailbound_enforcement::{DomainStatus, EnforcementStatus, Target};
use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_time::Duration;

/// A reservation of one domain, `arm`, whose process is the test itself.
pub(crate) fn standing_arm() -> EnforcementStatus {
    let arm = DomainStatus {
        domain: "arm".into(),
        target: Target::Processes(vec![std::process::id()]),
        interface: ResourceInterface {
            budget: Duration::from_millis(4),
            period: Duration::from_millis(10),
            priority: Priority(50),
            cpus: [Cpu(0)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        backend: BackendKind::default(),
        options: BackendOptions::default(),
        interference: Default::default(),
        threads: 1,
        ledger: None,
        audit: None,
    };
    EnforcementStatus { domains: vec![arm] }
}
