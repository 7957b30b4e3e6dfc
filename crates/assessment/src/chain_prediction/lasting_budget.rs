//! Budgets that are never used up: under one, a domain runs as under its priority alone.

use tailbound_model::{
    Arrivals, BackendKind, Builtin, Domain, HostScheduling, Precedence, ServerKind, Task,
};
use tailbound_time::Duration;
use tailbound_topics::TaskName;

use super::chain_model::{ChainModel, LONGEST_RELEASE, key};

impl ChainModel<'_> {
    /// Whether the budget of a domain lasts whatever its tasks do, or why that is not certain.
    ///
    /// In a period of the server, each task runs the jobs that come in it, and at most one that came before: no job waits for an
    /// earlier one of its own task. A deferrable server keeps what is not used until the period ends.
    pub(super) fn check_budget_lasts(&self, name: &str, domain: &Domain) -> Result<(), String> {
        let of_domain = |what: &str, key: &str| {
            Err(format!(
                "`domains.{name}.{key}`: {what}; `tailbound simulate` answers for that"
            ))
        };
        let Some(reservation) = &domain.reservation else {
            return Ok(());
        };
        let backend = reservation.backend;
        let server = reservation.server.or(backend.server_kind());
        let hosts_order = self
            .description
            .host_of(domain)
            .map(|(_, host)| host.scheduling);
        let is_by_priority = backend.precedence() == Precedence::Priority
            && hosts_order == Some(HostScheduling::FixedPriority);
        if server != Some(ServerKind::Deferrable) || !is_by_priority {
            let names = BackendKind::names(|kind| {
                kind.server_kind() == Some(ServerKind::Deferrable)
                    && kind.precedence() == Precedence::Priority
            });
            let what = format!(
                "on a budget chains are predicted under a deferrable server with a priority ({names}), where it is never used up"
            );
            return of_domain(&what, "reservation.backend");
        }
        if self.has_services(name) {
            return of_domain(
                "requests of its services use the budget, too",
                "reservation.budget",
            );
        }
        if domain.cpu_bound || domain.builtin == Some(Builtin::CpuHog) {
            return of_domain("the domain uses its budget up", "reservation.budget");
        }
        let (Some(budget), Some(period)) = (reservation.budget, reservation.period) else {
            return of_domain("the budget is not known", "reservation.budget");
        };
        let mut asked = Duration::ZERO;
        for (task_name, task) in &domain.tasks {
            let own = TaskName {
                domain: name.to_owned(),
                task: task_name.clone(),
            };
            let longest = task.execution_time.longest().ok_or_else(|| {
                format!(
                    "`{}`: nothing says how long a job takes at most, so that the budget may be used up; `tailbound simulate` \
                     answers for that",
                    key(&own, "execution_time")
                )
            })?;
            let jobs = self.most_jobs(&own, task, period, 0)?.saturating_add(1);
            let work = longest.checked_mul(jobs).unwrap_or(Duration::MAX);
            asked = asked.saturating_add(work);
        }
        if asked <= budget {
            return Ok(());
        }
        Err(format!(
            "`domains.{name}.reservation.budget`: the tasks may ask for {asked} in a period of {period}, so that {budget} may be used \
             up, and what comes of that is not predicted; raise the budget to {asked}, or `tailbound simulate`"
        ))
    }

    /// The most jobs of a task that come in an interval.
    fn most_jobs(
        &self,
        name: &TaskName,
        task: &Task,
        interval: Duration,
        depth: usize,
    ) -> Result<u64, String> {
        let no_bound = || {
            format!(
                "`{}`: nothing says how many jobs come in a period of the budget; `tailbound simulate` answers for that",
                key(name, "arrivals")
            )
        };
        if let Some((_, topic)) = self.topics.releasing(name) {
            if depth >= LONGEST_RELEASE {
                return Err(no_bound());
            }
            let publishers = topic
                .publishers
                .iter()
                .filter_map(|one| TaskName::parse(one));
            return publishers
                .map(|one| {
                    let (_, publisher) = self.task(&one)?;
                    // A message may come as late as the one behind it would come early.
                    let sent = self.most_jobs(&one, publisher, interval, depth + 1)?;
                    Ok(sent.saturating_add(1))
                })
                .sum();
        }
        let distance = match task.arrivals {
            Arrivals::Periodic { period, .. } => period,
            Arrivals::Sporadic { min_gap, .. } => min_gap,
            _ => return Err(no_bound()),
        };
        let ready_in = interval.saturating_add(task.jitter).as_nanos();
        match distance.as_nanos() {
            0 => Err(no_bound()),
            distance_ns => Ok(ready_in.div_ceil(distance_ns) * u64::from(task.clients)),
        }
    }
}
