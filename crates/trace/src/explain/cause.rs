//! Causes of latency, and labels of what a thread does.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A cause of latency. Every nanosecond of a request has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyCause {
    /// The load generator sent or read late.
    GeneratorLate,
    /// On the way between the generator and the service, or waiting to be taken up by an idle service.
    Network,
    /// The service worked for others, or for no request.
    Queued,
    /// The reservation's budget was used up.
    BudgetUsedUp,
    /// No window of the time partition was open.
    OutsideWindow,
    /// Another thread had the CPU.
    Preempted,
    /// The service waited for a lock, a device, memory, or another program.
    Blocked,
    /// An interrupt or a softirq had the CPU.
    Interrupt,
    /// A hypervisor had the CPU.
    HostStall,
    /// A signal had stopped the service.
    Stopped,
    /// The service worked for the request.
    Execution,
    /// The service worked, and for whom cannot be told.
    Untold,
}

impl LatencyCause {
    /// Every cause, in the order in which tables and pictures have them.
    pub const ALL: [Self; 12] = [
        Self::Execution,
        Self::Queued,
        Self::BudgetUsedUp,
        Self::OutsideWindow,
        Self::Preempted,
        Self::Blocked,
        Self::Interrupt,
        Self::HostStall,
        Self::Stopped,
        Self::Network,
        Self::GeneratorLate,
        Self::Untold,
    ];

    /// The cause in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::GeneratorLate => "load generator late",
            Self::Network => "network and delivery",
            Self::Queued => "queued behind others",
            Self::BudgetUsedUp => "budget used up",
            Self::OutsideWindow => "outside its window",
            Self::Preempted => "preempted",
            Self::Blocked => "blocked",
            Self::Interrupt => "interrupts",
            Self::HostStall => "host stall",
            Self::Stopped => "stopped by a signal",
            Self::Execution => "own execution",
            Self::Untold => "service working, for whom is not known",
        }
    }
}

/// The number of a cause with a detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PartId(pub(crate) u32);

/// Causes with their details, each with a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartTable {
    parts: Vec<(LatencyCause, String)>,
    numbers: HashMap<(LatencyCause, String), PartId>,
}

impl PartTable {
    /// The number of a cause with a detail, such as the thread that preempted.
    pub(crate) fn number(&mut self, cause: LatencyCause, detail: &str) -> PartId {
        let key = (cause, detail.to_string());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = PartId(self.parts.len() as u32);
        self.parts.push(key.clone());
        self.numbers.insert(key, number);
        number
    }

    /// The cause and the detail of a number.
    pub(crate) fn part(&self, number: PartId) -> (LatencyCause, &str) {
        let (cause, detail) = &self.parts[number.0 as usize];
        (*cause, detail)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }
}
