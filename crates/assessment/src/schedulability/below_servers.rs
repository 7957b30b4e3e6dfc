//! Tasks below reservation servers of higher priority, such as the budgeted threads of interrupts.

use tailbound_analysis::AnalysisError;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::interfaces::ResponseBound;
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::server_interference::{METHOD, response_times_below};
use tailbound_analysis::schedulability::unexhausted_server::{self, is_never_used_up};
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use super::order::ServiceOrder;
use super::{ClientTimes, DelayedJobs, GuaranteedSupply, ServiceQuestion, order_of};

impl ServiceQuestion<'_> {
    /// The same, or a CPU that only the servers above take time from, where the own budget is never used up.
    pub(super) fn as_seen_below_servers(
        &self,
        client_times: &[ClientTimes<'_>],
        given: GuaranteedSupply,
    ) -> Result<GuaranteedSupply, AnalysisError> {
        let ReservationServer::Deferrable { budget, period } = given.server else {
            return Ok(given);
        };
        let alone = self.mode.services_in(&self.service.domain).len() == 1;
        if given.above.is_empty() || !alone || !self.is_preemptive() {
            return Ok(given);
        }
        let responses = self.responses_below(client_times, &given.above)?;
        let fits = responses.is_some_and(|tasks| is_never_used_up(&tasks, budget, period));
        Ok(match fits {
            true => GuaranteedSupply {
                server: ReservationServer::Dedicated,
                ..given
            },
            false => given,
        })
    }

    /// Every task, once for each client, with its response time below the servers; `None` where one has no bound, or
    /// the order is not that of priorities.
    fn responses_below(
        &self,
        client_times: &[ClientTimes<'_>],
        above: &[SporadicTask],
    ) -> Result<Option<Vec<(SporadicTask, Duration)>>, AnalysisError> {
        let order = order_of(self.service);
        let is_one_stream = matches!(client_times, [only] if only.task.clients == 1);
        if !matches!(order, ServiceOrder::Priority(_)) && !is_one_stream {
            return Ok(None);
        }
        let mut responses = Vec::new();
        for one in client_times {
            let Some(own) = one.sporadic()? else {
                return Ok(None);
            };
            let (Ok(before), Ok(blocking)) = (
                self.jobs_before(one, client_times, order)?,
                self.blocking(one, client_times, order),
            ) else {
                return Ok(None);
            };
            let delayed = DelayedJobs {
                before: &before,
                own,
                blocking,
                is_preemptive: true,
            };
            let (ResponseBound::AtMost(response), _) = delayed.below_servers(above)? else {
                return Ok(None);
            };
            responses.extend((0..one.task.clients).map(|_| (own, response)));
        }
        Ok(Some(responses))
    }
}

impl DelayedJobs<'_> {
    /// The CPU less what servers of higher priority take: response-time analysis.
    pub(super) fn below_servers(
        &self,
        above: &[SporadicTask],
    ) -> Result<(ResponseBound, String), AnalysisError> {
        let tasks = self.tasks();
        let order = PriorityOrder::as_given(tasks.len());
        let mut blocking = vec![Duration::ZERO; self.before.len()];
        blocking.push(self.blocking);
        let responses = response_times_below(above, &tasks, &order, &blocking)?;
        let bound = match responses.tasks.last().map(|task| task.response_time) {
            Some(Ok(response)) => ResponseBound::AtMost(response),
            _ => ResponseBound::Overloaded,
        };
        Ok((bound, format!("{METHOD}; {}", unexhausted_server::METHOD)))
    }
}
