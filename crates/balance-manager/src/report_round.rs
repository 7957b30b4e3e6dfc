//! The question to all applications at once.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{io, thread};

use tailbound_balance::{BalancePlan, BalancedApplication, HoldReason, LevelReport};
use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_time::Duration;

use crate::exchange;

/// The lowest fixed priority: above all ordinary threads, below all reservations that have a priority.
const PRIORITY: u8 = 1;
/// The stack of a thread that asks one application.
const STACK_BYTES: usize = 256 * 1024;

/// A report, or why there is none.
type ReportOutcome = Result<LevelReport, HoldReason>;

/// `ReportRound` asks every application of a plan for its report. It shares nothing with the manager, so that no application
/// holds up anything but the round.
pub struct ReportRound {
    reporters: Vec<Reporter>,
}

/// A thread that asks one application whenever it is told to, and ends with this value. It stays between intervals: to make
/// a thread takes longer than to ask.
struct Reporter {
    requests: SyncSender<()>,
    answers: Receiver<ReportOutcome>,
}

impl Reporter {
    fn start(
        application: BalancedApplication,
        answer_within: Duration,
        stale_after: Duration,
    ) -> io::Result<Self> {
        let (requests, requested) = sync_channel(1);
        let (to_round, answers) = sync_channel(1);
        let ask_until_the_end = move || {
            prefer_this_thread();
            while requested.recv().is_ok() {
                let report = exchange::level_report(&application, answer_within, stale_after);
                if to_round.send(report).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("balance-report".to_owned());
        thread.stack_size(STACK_BYTES).spawn(ask_until_the_end)?;
        Ok(Self { requests, answers })
    }
}

impl ReportRound {
    /// The round of a plan.
    ///
    /// # Errors
    /// If there are too many threads.
    pub fn of(plan: &BalancePlan) -> io::Result<Self> {
        let (answer_within, stale_after) =
            (plan.balance.answer_within(), plan.balance.stale_after());
        let reporters = plan.applications.iter().map(|one| {
            let application = one.described.clone();
            Reporter::start(application, answer_within, stale_after)
        });
        let reporters = reporters.collect::<io::Result<_>>()?;
        Ok(Self { reporters })
    }

    /// The reports, in the order of the plan. It lasts as long as an application has for its answer, and no longer.
    pub fn ask(&self) -> Vec<ReportOutcome> {
        for reporter in &self.reporters {
            // One whose thread has ended gives no answer below.
            let _ended = reporter.requests.send(());
        }
        let answers = self.reporters.iter().map(|reporter| {
            let failed = |_| Err(HoldReason::NoAnswer("the request failed".to_owned()));
            reporter.answers.recv().unwrap_or_else(failed)
        });
        answers.collect()
    }
}

/// Puts the calling thread above ordinary ones, so that the manager hears and changes in an overload, too. Without the privilege
/// the thread stays as it is.
pub(crate) fn prefer_this_thread() -> bool {
    make_current_thread_fifo(PRIORITY).is_ok()
}
