//! The question to all applications at once.

use std::thread;

use tailbound_balance::{BalancePlan, BalancedApplication, HoldReason, LevelReport};
use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_time::Duration;

use crate::exchange;

/// The lowest fixed priority: above all ordinary threads, below all reservations that have a priority.
const PRIORITY: u8 = 1;
/// The stack of a thread that asks one application.
const STACK_BYTES: usize = 256 * 1024;

/// `ReportRound` asks every application of a plan for its report. It shares nothing with the manager, so that no application
/// holds up anything but the round.
#[derive(Clone, Debug)]
pub struct ReportRound {
    applications: Vec<BalancedApplication>,
    answer_within: Duration,
    stale_after: Duration,
}

impl ReportRound {
    /// The round of a plan.
    pub fn of(plan: &BalancePlan) -> Self {
        let applications = plan.applications.iter();
        Self {
            applications: applications.map(|one| one.described.clone()).collect(),
            answer_within: plan.balance.answer_within(),
            stale_after: plan.balance.stale_after(),
        }
    }

    /// The reports, in the order of the plan. It lasts as long as an application has for its answer, and no longer.
    pub fn ask(&self) -> Vec<Result<LevelReport, HoldReason>> {
        thread::scope(|scope| {
            let asked = self.applications.iter().map(|one| {
                let question = move || {
                    prefer_this_thread();
                    exchange::level_report(one, self.answer_within, self.stale_after)
                };
                let thread = thread::Builder::new()
                    .name("balance-report".to_owned())
                    .stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, question)
            });
            let asked: Vec<_> = asked.collect();
            let answers = asked.into_iter().map(|one| {
                let failed = |reason: &str| Err(HoldReason::NoAnswer(reason.to_owned()));
                match one {
                    Ok(thread) => thread
                        .join()
                        .unwrap_or_else(|_| failed("the request failed")),
                    Err(error) => failed(&format!("no thread to ask: {error}")),
                }
            });
            answers.collect()
        })
    }
}

/// Puts the calling thread above ordinary ones, so that the manager hears and changes in an overload, too. Without the privilege
/// the thread stays as it is.
pub(crate) fn prefer_this_thread() -> bool {
    make_current_thread_fifo(PRIORITY).is_ok()
}
