//! The threads of ours that enforce budgets, as the enforcer uses them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::host_facts::HostFacts;
use tailbound_model::{Cpu, ResourceInterface};
use tailbound_reservation::window_server::FrameWindows;
use tailbound_time::{Clock, Duration, Instant};

use crate::admission::real_time_limit;
use crate::audit::{AuditedDomain, Auditor, Bell, Notice};
use crate::ds_freeze::{
    ChangeAt, CpuManager, Heartbeat, LedgerSnapshot, ManagerError, ManagerOptions, STALL,
    ServedDomain, WindowTotals,
};
use crate::linux_kernel::LinuxKernel;
use crate::{Plan, ReservationRequest};

/// What a manager has seen of one domain since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerSummary {
    /// Periods that have ended.
    pub periods: u64,
    /// Grid points that passed unserved because the host held the manager up.
    pub skipped: u64,
    /// Periods in which the budget ran out and the domain was stopped.
    pub depletions: u64,
    /// CPU time used in the periods that have ended.
    pub consumed: Duration,
    /// The sum of the budgets of those periods and of the skipped ones.
    pub reserved: Duration,
    /// The most by which a budget was overrun.
    pub largest_overrun: Duration,
    /// A bound on half of the overruns, stalls of the host left out.
    pub overrun_p50: Option<Duration>,
    /// A bound on 99 % of the overruns, stalls of the host left out.
    pub overrun_p99: Option<Duration>,
    /// A bound on 99 % of the delays of replenishments, stalls of the host left out.
    pub lateness_p99: Option<Duration>,
    /// Periods in which the host stalled.
    pub stalled_periods: u64,
    /// Overruns while the host held a manager up, which are not paid back.
    #[serde(default)]
    pub forgiven: Duration,
    /// The longest that the kernel took to stop it, or to let it go on, in its manager's time.
    #[serde(default)]
    pub longest_switch: Duration,
    /// How often a manager woke up for it.
    pub wake_ups: u64,
    /// Freezes, thaws and readings that the kernel refused.
    pub failures: u64,
    /// How long it was stopped although it had budget, to stay clear of the kernel's real-time
    /// throttling; the longest of its CPUs.
    pub held: Duration,
    /// Whether depletion is found by polling, for want of perf events.
    pub polling: bool,
    /// How often it was boosted.
    #[serde(default)]
    pub boosts: u64,
    /// CPU time that it used under boosts, which came from no budget.
    #[serde(default)]
    pub boosted: Duration,
    /// The account of its windows, if it is a time partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowTotals>,
    /// CPU time of the managers of its CPUs, which they share with other domains there.
    pub manager_time: Duration,
}

impl LedgerSummary {
    fn add(&mut self, seen: &LedgerSnapshot) {
        self.periods += seen.periods;
        self.skipped += seen.skipped;
        self.depletions += seen.depletions;
        self.consumed = self.consumed.saturating_add(seen.used);
        self.reserved = self.reserved.saturating_add(seen.reserved);
        self.largest_overrun = self.largest_overrun.max(seen.largest_overrun);
        self.overrun_p50 = self.overrun_p50.max(seen.overrun.quantile_upper(0.5));
        self.overrun_p99 = self.overrun_p99.max(seen.overrun.quantile_upper(0.99));
        self.lateness_p99 = self.lateness_p99.max(seen.lateness.quantile_upper(0.99));
        self.stalled_periods += seen.stalled_periods;
        self.forgiven = self.forgiven.saturating_add(seen.forgiven);
        self.longest_switch = self.longest_switch.max(seen.longest_switch);
        self.wake_ups += seen.wake_ups;
        self.failures += seen.failures;
        self.held = self.held.max(seen.held);
        self.boosts += seen.boosts;
        self.boosted = self.boosted.saturating_add(seen.boosted);
        self.polling |= seen.polling;
        if let Some(windows) = &seen.windows {
            self.windows.get_or_insert_default().add(windows);
        }
    }
}

/// Why a manager did not take a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ChangeRefused {
    /// What it says.
    pub reason: String,
    /// Whether it may take it up, or has in part, all the same.
    pub may_hold: bool,
}

impl ChangeRefused {
    /// One after which everything is as before.
    pub fn certainly(reason: String) -> Self {
        let may_hold = false;
        Self { reason, may_hold }
    }

    fn by(error: &ManagerError) -> Self {
        Self {
            reason: error.to_string(),
            may_hold: matches!(error, ManagerError::Unresponsive { .. }),
        }
    }
}

/// Starts and stops the managers that plans call for.
pub trait Managers: Send {
    /// Starts what `plan.managers` lists; nothing if there is none.
    ///
    /// # Errors
    /// Why a manager did not start; then none of the plan's runs.
    fn start(&mut self, plan: &Plan) -> Result<(), String>;

    /// Goes on with the budget and period of a request instead of the `old` ones, from the first
    /// replenishment that is not before an instant; when that is on its last CPU, or `None` if its domain
    /// has no manager.
    ///
    /// # Errors
    /// Why a manager did not take them; the old ones hold then, if that is certain.
    fn change(
        &mut self,
        request: &ReservationRequest,
        old: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Option<Instant>, ChangeRefused>;

    /// Lets a domain run without budget on all of its CPUs, for so long at most; with `if_exhausted`
    /// where it stands still for want of it. Nothing if it has no manager.
    ///
    /// # Errors
    /// Why a manager was not told; then it is boosted nowhere.
    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) -> Result<(), String>;

    /// Ends a boost.
    ///
    /// # Errors
    /// Why a manager did not take that. The boost ends by itself.
    fn unboost(&mut self, domain: &str) -> Result<(), String>;

    /// Stops the managers of a domain and leaves it thawed; nothing if there are none.
    ///
    /// # Errors
    /// Why a manager did not stop.
    fn stop(&mut self, domain: &str) -> Result<(), String>;

    /// What the managers of a domain have seen, summed over its CPUs.
    fn ledger(&self, domain: &str) -> Option<LedgerSummary>;

    /// Audits the members of a domain from now on, or by other rules.
    ///
    /// # Errors
    /// Why nobody does.
    fn audit(&mut self, _audited: AuditedDomain) -> Result<(), String> {
        Ok(())
    }

    /// Who audits members, once somebody does.
    fn auditor(&self) -> Option<&Auditor> {
        None
    }
}

/// The managers of the `ds-freeze` back end: one thread per CPU, for as long as that CPU has
/// domains.
///
/// Replenishments lie at the multiples of each period on CLOCK_MONOTONIC, so that all grids of a
/// host have one origin: admission rests on that.
#[derive(Default)]
pub struct FreezeManagers {
    by_cpu: BTreeMap<Cpu, CpuManager>,
    heartbeat: Option<Heartbeat>,
    rows: BTreeMap<Cpu, usize>,
    /// Shared by the managers; made with the first of them, or of the audits.
    bell: Option<Bell>,
    auditor: Option<Auditor>,
    /// Who is told of what audits correct.
    notice: Option<Notice>,
}

impl FreezeManagers {
    /// Managers that show in `heartbeat` that they live, one row per CPU in the order of their
    /// first use.
    pub fn with_heartbeat(heartbeat: Heartbeat) -> Self {
        Self {
            heartbeat: Some(heartbeat),
            ..Self::default()
        }
    }

    /// The same, with somebody to tell what audits of members correct.
    #[must_use]
    pub fn with_notice(self, notice: Notice) -> Self {
        Self {
            notice: Some(notice),
            ..self
        }
    }

    fn bell(&mut self) -> std::io::Result<Bell> {
        match &self.bell {
            Some(bell) => Ok(bell.clone()),
            None => Ok(self.bell.insert(Bell::new()?).clone()),
        }
    }

    /// What the managers show themselves in, to hand its descriptor to a watchdog.
    pub fn heartbeat(&self) -> Option<&Heartbeat> {
        self.heartbeat.as_ref()
    }

    fn options(&mut self, cpu: Cpu) -> ManagerOptions {
        let next = self.rows.len();
        let row = *self.rows.entry(cpu).or_insert(next);
        ManagerOptions {
            real_time_limit: real_time_limit(HostFacts::of_this_host().throttling()),
            heartbeat: self.heartbeat.as_ref().and_then(|shown| shown.row(row)),
            // Without one an escape is found at the next look.
            bell: self.bell().ok(),
            ..ManagerOptions::default()
        }
    }

    /// The managers that serve a domain.
    fn serving<'a>(&'a self, domain: &'a str) -> impl Iterator<Item = &'a CpuManager> {
        let all = self.by_cpu.values();
        all.filter(move |manager| manager.serves(domain))
    }

    fn serve(&mut self, cpu: Cpu, domain: &ServedDomain) -> Result<(), String> {
        if let Some(manager) = self.by_cpu.get(&cpu) {
            return manager.add(domain).map_err(|error| error.to_string());
        }
        let options = self.options(cpu);
        let domains = std::slice::from_ref(domain);
        let manager = CpuManager::start(cpu, domains, options);
        let manager = manager.map_err(|error| error.to_string())?;
        self.by_cpu.insert(cpu, manager);
        Ok(())
    }
}

fn all_done(failures: Vec<String>) -> Result<(), String> {
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("; ")),
    }
}

/// The instant by which a reservation that was put into force by `now` has given its first budget: at the next
/// point of the grid that is common to the host, where the back end keeps one, else within a period.
pub fn first_budget(request: &ReservationRequest, now: Instant) -> Instant {
    let (traits, period) = (request.backend.traits(), request.interface.period);
    match (traits.has_budget, traits.fixed_grid) {
        (false, _) => now,
        (true, true) => next_grid_point(now, period),
        (true, false) => now.saturating_add(period),
    }
}

/// The next multiple of `period` after `now`.
fn next_grid_point(now: Instant, period: Duration) -> Instant {
    let period_ns = period.as_nanos().max(1);
    let passed = now.as_nanos() / period_ns;
    Instant::from_nanos(passed.saturating_add(1).saturating_mul(period_ns))
}

impl Managers for FreezeManagers {
    fn start(&mut self, plan: &Plan) -> Result<(), String> {
        let interface = &plan.request.interface;
        for manager in &plan.managers {
            let domain = ServedDomain {
                name: plan.request.domain.clone(),
                cgroup: manager.cgroup.clone(),
                other_cpus: manager.other_cpus.iter().copied().collect(),
                windows: interface.windows.clone(),
                slack: interface.slack.clone(),
                overrun_tolerance: (plan.request.options.overrun_tolerance).unwrap_or(STALL),
                budget: interface.budget,
                period: interface.period,
                priority: interface.priority,
                demoted: manager.demoted.clone(),
                first_replenishment: Some(next_grid_point(Monotonic.now(), interface.period)),
            };
            if let Err(reason) = self.serve(manager.cpu, &domain) {
                let cpu = manager.cpu;
                return match self.stop(&plan.request.domain) {
                    Ok(()) => Err(format!("CPU {cpu}: {reason}")),
                    Err(also) => Err(format!("CPU {cpu}: {reason}; {also}")),
                };
            }
        }
        Ok(())
    }

    fn change(
        &mut self,
        request: &ReservationRequest,
        old: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Option<Instant>, ChangeRefused> {
        let (domain, interface) = (&request.domain, &request.interface);
        let at = ChangeAt::ReplenishmentFrom(not_before);
        let set = |manager: &CpuManager, to: &ResourceInterface| match to.windows.is_empty() {
            true => manager.set_interface(domain, to.budget, to.period, at),
            false => {
                let windows = FrameWindows::with_slack(to.period, &to.windows, &to.slack);
                let windows = windows.map_err(|cause| ManagerError::Windows {
                    domain: domain.clone(),
                    cause,
                })?;
                manager.set_windows(domain, windows, not_before)
            }
        };
        let mut in_force_at = None;
        for (place, manager) in self.serving(domain).enumerate() {
            match set(manager, interface) {
                Ok(here) => in_force_at = in_force_at.max(Some(here)),
                Err(error) => {
                    let mut refused = ChangeRefused::by(&error);
                    // On those CPUs nothing that was to hold sooner than this is known any more.
                    refused.may_hold |= place > 0;
                    for before in self.serving(domain).take(place) {
                        if let Err(also) = set(before, old) {
                            refused.reason = format!("{}; {also}", refused.reason);
                        }
                    }
                    return Err(refused);
                }
            }
        }
        if let Some(auditor) = &self.auditor {
            auditor.set_budget(domain, interface.budget, interface.period);
        }
        Ok(in_force_at)
    }

    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) -> Result<(), String> {
        let here = |manager: &CpuManager| manager.boost(domain, at_most, if_exhausted);
        let outcome = self.serving(domain).try_for_each(here);
        let outcome = outcome.map_err(|error| error.to_string());
        if outcome.is_err() {
            // It ends by itself in any case.
            let _ends_by_itself = self.unboost(domain);
        }
        outcome
    }

    fn unboost(&mut self, domain: &str) -> Result<(), String> {
        let outcomes = self.serving(domain).map(|manager| manager.unboost(domain));
        let failures: Vec<String> = outcomes
            .filter_map(|outcome| outcome.err().map(|error| error.to_string()))
            .collect();
        all_done(failures)
    }

    fn stop(&mut self, domain: &str) -> Result<(), String> {
        let mut failures = Vec::new();
        let cpus: Vec<Cpu> = self.serving(domain).map(CpuManager::cpu).collect();
        for cpu in cpus {
            let Some(manager) = self.by_cpu.get(&cpu) else {
                continue;
            };
            if let Err(error) = manager.remove(domain) {
                failures.push(error.to_string());
            }
            if manager.domains().is_empty()
                && let Some(idle) = self.by_cpu.remove(&cpu)
                && let Err(error) = idle.stop()
            {
                failures.push(error.to_string());
            }
        }
        all_done(failures)
    }

    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        let mut sum: Option<LedgerSummary> = None;
        for manager in self.by_cpu.values() {
            let Some(seen) = manager.ledger(domain) else {
                continue;
            };
            let summary = sum.get_or_insert_default();
            summary.add(&seen);
            summary.manager_time += manager.summary().own_time;
        }
        sum
    }

    fn audit(&mut self, audited: AuditedDomain) -> Result<(), String> {
        if self.auditor.is_none() {
            let start = |this: &mut Self| {
                let (kernel, bell) = (LinuxKernel::new()?, this.bell()?);
                Auditor::start(Box::new(kernel), bell, this.notice.clone())
            };
            let auditor = start(self).map_err(|error| format!("no audit of members: {error}"))?;
            self.auditor = Some(auditor);
        }
        if let Some(auditor) = &self.auditor {
            auditor.audit(audited);
        }
        Ok(())
    }

    fn auditor(&self) -> Option<&Auditor> {
        self.auditor.as_ref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;
    use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Priority};

    use crate::Target;

    #[test]
    fn the_first_budget_comes_on_the_grid_where_there_is_one() {
        let now = Instant::from_nanos(1_007_000_000);
        let after = |backend| {
            let request = ReservationRequest {
                domain: "one".into(),
                target: Target::Processes(vec![1]),
                interface: ResourceInterface {
                    budget: Duration::from_millis(2),
                    period: Duration::from_millis(10),
                    priority: Priority(50),
                    cpus: [Cpu(0)].into(),
                    budget_scope: BudgetScope::EachCpu,
                    windows: Vec::new(),
                    slack: Vec::new(),
                },
                backend,
                options: BackendOptions::default(),
                interference: Default::default(),
            };
            first_budget(&request, now).saturating_since(now).as_nanos() / 1_000_000
        };
        assert_eq!(after(BackendKind::DsFreeze), 3);
        assert_eq!(after(BackendKind::CfsQuota), 10);
        assert_eq!(after(BackendKind::Weight), 0);
    }

    proptest! {
        #[test]
        fn grids_have_one_origin(now in 0..1_u64 << 60, period in 1..1_u64 << 40) {
            let period = Duration::from_nanos(period);
            let point = next_grid_point(Instant::from_nanos(now), period);
            prop_assert!(point.as_nanos() > now);
            prop_assert!(point.as_nanos() - now <= period.as_nanos());
            prop_assert_eq!(point.as_nanos() % period.as_nanos(), 0);
        }
    }
}
