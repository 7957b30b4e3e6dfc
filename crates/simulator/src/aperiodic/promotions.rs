//! When hard jobs are promoted under dual priority.

use tailbound_model::HostTick;
use tailbound_time::Duration;

use super::HardTask;

/// Of each hard task, given by rank, the time from a release to its promotion: the deadline less the
/// worst-case response time (Davis and Wellings 1995, equation 1); `None` where that is beyond the
/// deadline, so that a deadline may be missed under any policy.
///
/// The response time is the least fixed point of `R = C + sum over j before of ceil(R / T_j) C_j`
/// (Joseph and Pandya 1986), with the tick as a task before all others.
pub fn promotions(tasks: &[HardTask], tick: Option<HostTick>) -> Vec<Option<Duration>> {
    let tick = tick.filter(|tick| !tick.period.is_zero());
    let tick = tick.map(|tick| (tick.cost.as_nanos(), tick.period.as_nanos()));
    let mut before: Vec<(u64, u64)> = tick.into_iter().collect();
    let mut promotions = Vec::with_capacity(tasks.len());
    for task in tasks {
        let own = task.execution.as_nanos();
        let deadline_ns = task.deadline.as_nanos();
        let response = response_time(own, deadline_ns, &before);
        promotions.push(response.map(|response| Duration::from_nanos(deadline_ns - response)));
        before.push((own, task.period.as_nanos().max(1)));
    }
    promotions
}

/// The response time, if it is at most the deadline. It grows in every round, by at least one of a
/// finite number of jobs until the deadline.
fn response_time(own: u64, deadline_ns: u64, before: &[(u64, u64)]) -> Option<u64> {
    let mut response = own;
    while response <= deadline_ns {
        let interference = before.iter().fold(own, |sum, (execution, period)| {
            let jobs = response.div_ceil(*period);
            sum.saturating_add(jobs.saturating_mul(*execution))
        });
        if interference == response {
            return Some(response);
        }
        response = interference;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(execution_ms: u64, period_ms: u64, deadline_ms: u64) -> HardTask {
        HardTask {
            execution: Duration::from_millis(execution_ms),
            period: Duration::from_millis(period_ms),
            deadline: Duration::from_millis(deadline_ms),
            offset: Duration::ZERO,
        }
    }

    #[test]
    fn what_has_slack_is_promoted_late() {
        // Response times 2, 8, and 12: the third job waits for two jobs of the first task.
        let tasks = [task(2, 10, 10), task(6, 20, 15), task(2, 40, 20)];
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(promotions(&tasks, None), [ms(8), ms(7), ms(10)]);
        // A tick of 1 ms every 5 ms: 2 + 1, and 6 + 2 + 2 ticks = 10.
        let tick = HostTick {
            period: Duration::from_millis(5),
            cost: Duration::from_millis(1),
        };
        assert_eq!(promotions(&tasks[..2], Some(tick)), [ms(7), ms(5)]);
    }

    #[test]
    fn what_may_be_late_has_no_promotion() {
        let tasks = [task(6, 10, 10), task(5, 10, 10)];
        assert_eq!(
            promotions(&tasks, None),
            [Some(Duration::from_millis(4)), None]
        );
    }
}
