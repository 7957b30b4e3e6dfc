//! Priority exchange: the budget goes down to the rank of who runs in its stead.

use super::jobs::Jobs;
use super::policy::{On, PolicyChoice, SoftJobPolicy};

/// Where budget lies, from the highest to the lowest: at the server's own place, then beside each hard
/// task behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    Server,
    Beside(usize),
}

/// The server of Lehoczky, Sha and Strosnider 1987.
///
/// Its own store is full at every grid point. Time passes from the first store that holds any: to the
/// soft jobs that run on it, to the store beside the hard task that runs because there are no soft jobs,
/// or away when the CPU is idle. Soft jobs come before a hard task of the rank of their store.
#[derive(Clone, Debug)]
pub(super) struct PriorityExchange {
    budget_ns: u64,
    period_ns: u64,
    behind: usize,
    replenishment_ns: u64,
    boundary: u64,
    server: u64,
    beside: Vec<u64>,
    /// The store from which the time of the last choice passes.
    from: Option<Store>,
}

impl PriorityExchange {
    pub(super) fn new(
        budget_ns: u64,
        period_ns: u64,
        behind: usize,
        hard_tasks: usize,
        replenishment_ns: u64,
    ) -> Self {
        Self {
            budget_ns,
            period_ns,
            behind,
            replenishment_ns,
            boundary: period_ns,
            server: budget_ns,
            beside: vec![0; hard_tasks],
            from: None,
        }
    }

    fn held(&mut self, store: Store) -> &mut u64 {
        match store {
            Store::Server => &mut self.server,
            Store::Beside(task) => &mut self.beside[task],
        }
    }

    /// The first store that holds something, of those before the given number of hard tasks. The one
    /// beside the last of them does not count if `strictly`.
    fn first_store(&self, first_hard: Option<usize>, strictly: bool) -> Option<(Store, u64)> {
        let last = first_hard.unwrap_or(self.beside.len());
        if self.server > 0 && self.behind <= last {
            return Some((Store::Server, self.server));
        }
        let end = match first_hard {
            Some(task) if strictly => task,
            Some(task) => task + 1,
            None => self.beside.len(),
        };
        let task = self.beside[..end].iter().position(|held| *held > 0)?;
        Some((Store::Beside(task), self.beside[task]))
    }
}

impl SoftJobPolicy for PriorityExchange {
    fn next_change(&self, _jobs: &Jobs, _on: On) -> u64 {
        self.boundary
    }

    fn change(&mut self, _jobs: &Jobs, now: u64) -> u64 {
        while self.boundary <= now {
            self.boundary = self.boundary.saturating_add(self.period_ns);
        }
        self.server = self.budget_ns;
        self.replenishment_ns
    }

    fn choose(&mut self, jobs: &Jobs, _now: u64) -> PolicyChoice {
        let first = jobs.first_hard();
        let waits = jobs.soft_waits();
        let store = self.first_store(first, !waits);
        self.from = store.map(|(store, _)| store);
        let Some((_, held)) = store else {
            return PolicyChoice::background(jobs);
        };
        if waits {
            return PolicyChoice::up_to(On::Soft, held);
        }
        PolicyChoice {
            length: held,
            ..PolicyChoice::background(jobs)
        }
    }

    fn passed(&mut self, on: On, length: u64) {
        let Some(from) = self.from.filter(|_| on != On::Overhead) else {
            return;
        };
        *self.held(from) -= length;
        if let On::Hard(task) = on {
            self.beside[task] = self.beside[task].saturating_add(length);
        }
    }
}
