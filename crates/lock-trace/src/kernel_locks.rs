//! Lock events of a recording of the kernel.
//!
//! Interrupts run on top of threads and hold locks of their own, so that each context of a CPU counts as a thread: the
//! softirqs, the interrupts, and the idle thread of each CPU, beside the threads that have numbers.

use std::collections::{HashMap, HashSet};

use tailbound_trace::kernel::{
    ExecutionContext, InterruptContext, KernelEvent, KernelEventKind, LockCall, LockStep,
};

use crate::events::{LockEvent, LockOperation};
use crate::loss_marks::LossMarks;

/// The bit of the numbers of contexts that are no threads.
const OF_CPU: u32 = 1 << 31;

/// An attempt that has not returned.
#[derive(Clone, Copy, Debug)]
struct LockAttempt {
    lock: u64,
    caller: u64,
    begun_ns: u64,
    has_waited: bool,
}

/// The reader of a recording of the kernel, whose events come in the order of time.
#[derive(Clone, Debug, Default)]
pub struct KernelLockReader {
    attempts: HashMap<u32, Vec<LockAttempt>>,
    /// The last request on each CPU: its context and lock. A wait is of the request before it.
    requests: HashMap<u32, (u32, u64)>,
    /// The contexts of waits, by the thread of their events and the lock.
    waits: HashMap<(u32, u64), u32>,
    /// Contexts with events since they last went off their CPU, or ended.
    active: HashSet<u32>,
    losses: LossMarks,
}

impl KernelLockReader {
    /// The event of locks that comes of an event of the kernel, if there is one.
    pub fn translate(&mut self, event: &KernelEvent) -> Option<LockEvent> {
        let (thread, operation) = self.operation(event)?;
        Some(LockEvent {
            instant_ns: event.at.as_nanos(),
            thread,
            follows_loss: self.losses.follows_loss(thread),
            operation,
        })
    }

    fn operation(&mut self, event: &KernelEvent) -> Option<(u32, LockOperation)> {
        match &event.kind {
            KernelEventKind::Lock(call) => self.call(event, call),
            KernelEventKind::ContentionBegin { lock, .. } => self.wait(event, *lock),
            KernelEventKind::ContentionEnd { lock } => {
                let context = self.waits.remove(&(event.thread, *lock))?;
                Some((context, LockOperation::WaitEnded { lock: *lock }))
            }
            KernelEventKind::ThreadSwitch(switch) => {
                let context = |thread| context_of(event.cpu, thread, ExecutionContext::Thread);
                let from = context(switch.previous);
                let to = context(switch.next);
                let is_active = self.active.remove(&from);
                is_active.then_some((from, LockOperation::HandedOver { to }))
            }
            KernelEventKind::InterruptExit(interrupt) => {
                let level = match interrupt {
                    InterruptContext::Soft(_) => ExecutionContext::SoftInterrupt,
                    _ => ExecutionContext::HardInterrupt,
                };
                // No lock outlives its interrupt: what is still held was given up unseen.
                let context = context_of(event.cpu, event.thread, level);
                let is_active = self.active.remove(&context);
                is_active.then_some((context, LockOperation::Process(0)))
            }
            KernelEventKind::Lost { .. } => {
                self.losses.note_loss();
                self.attempts.clear();
                self.waits.clear();
                None
            }
            _ => None,
        }
    }

    fn call(&mut self, event: &KernelEvent, call: &LockCall) -> Option<(u32, LockOperation)> {
        let context = context_of(event.cpu, event.thread, call.context);
        let (lock, kind, site) = (call.lock, call.kind, call.caller);
        self.active.insert(context);
        let operation = match call.step {
            LockStep::Request => {
                self.requests.insert(event.cpu, (context, lock));
                let requested_ns = None;
                LockOperation::Acquired {
                    kind,
                    lock,
                    site,
                    requested_ns,
                }
            }
            LockStep::Attempt => {
                self.requests.insert(event.cpu, (context, lock));
                self.attempts.entry(context).or_default().push(LockAttempt {
                    lock,
                    caller: site,
                    begun_ns: event.at.as_nanos(),
                    has_waited: false,
                });
                return None;
            }
            LockStep::Outcome { is_taken } => {
                let attempt = self.attempts.get_mut(&context)?.pop()?;
                let operation = LockOperation::Acquired {
                    kind,
                    lock: attempt.lock,
                    site: attempt.caller,
                    requested_ns: attempt.has_waited.then_some(attempt.begun_ns),
                };
                return is_taken.then_some((context, operation));
            }
            LockStep::Release => LockOperation::Released { lock },
        };
        Some((context, operation))
    }

    /// The beginning of a wait: of a request, or of an attempt, which says at its return that it waited.
    fn wait(&mut self, event: &KernelEvent, lock: u64) -> Option<(u32, LockOperation)> {
        let last = self.requests.get(&event.cpu);
        let context = match last {
            Some((context, requested)) if *requested == lock => *context,
            _ => context_of(event.cpu, event.thread, ExecutionContext::Thread),
        };
        let attempt = self.attempts.get_mut(&context).and_then(|it| it.last_mut());
        if let Some(attempt) = attempt.filter(|attempt| attempt.lock == lock) {
            attempt.has_waited = true;
            return None;
        }
        self.waits.insert((event.thread, lock), context);
        Some((context, LockOperation::WaitBegan { lock }))
    }
}

/// The number of a context: of a thread its own, of all else one of the CPU.
fn context_of(cpu: u32, thread: u32, context: ExecutionContext) -> u32 {
    let level = match context {
        ExecutionContext::Thread if thread != 0 => return thread,
        ExecutionContext::Thread => 0,
        ExecutionContext::SoftInterrupt => 1,
        ExecutionContext::HardInterrupt => 2,
        ExecutionContext::Unmaskable => 3,
    };
    OF_CPU | cpu << 2 | level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::LockStudy;
    use tailbound_time::Instant;
    use tailbound_trace::kernel::{LockKind, OffCpuState, ThreadName, ThreadSwitch};

    struct Recording {
        reader: KernelLockReader,
        study: LockStudy,
    }

    impl Recording {
        fn new() -> Self {
            Self {
                reader: KernelLockReader::default(),
                study: LockStudy::default(),
            }
        }

        fn push(&mut self, at: u64, thread: u32, kind: KernelEventKind) {
            let event = KernelEvent {
                at: Instant::from_nanos(at),
                cpu: 0,
                thread,
                kind,
            };
            if let Some(event) = self.reader.translate(&event) {
                self.study.take(&event);
            }
        }

        fn call(&mut self, at: u64, context: ExecutionContext, step: LockStep, lock: u64) {
            let kind = LockKind::Spin;
            let caller = lock + 1;
            self.push(
                at,
                7,
                KernelEventKind::Lock(LockCall {
                    step,
                    kind,
                    lock,
                    caller,
                    context,
                }),
            );
        }
    }

    const THREAD: ExecutionContext = ExecutionContext::Thread;
    const SOFT: ExecutionContext = ExecutionContext::SoftInterrupt;

    #[test]
    fn a_softirq_nests_in_itself_and_not_in_its_thread() {
        let mut recording = Recording::new();
        recording.call(10, THREAD, LockStep::Request, 1);
        recording.call(20, SOFT, LockStep::Request, 2);
        recording.call(25, SOFT, LockStep::Request, 3);
        recording.call(26, SOFT, LockStep::Release, 3);
        // The release of lock 2 is not seen; the end of the softirq ends its section.
        recording.push(
            30,
            7,
            KernelEventKind::InterruptExit(InterruptContext::Soft(3)),
        );
        recording.call(40, THREAD, LockStep::Release, 1);
        recording.call(50, SOFT, LockStep::Request, 4);
        recording.call(60, SOFT, LockStep::Release, 4);
        let summary = recording.study.finish();
        assert_eq!((summary.depths, summary.incomplete), (vec![2, 1], 1));
    }

    #[test]
    fn attempts_hold_from_their_return_where_they_take_the_lock() {
        let outcome = |is_taken| LockStep::Outcome { is_taken };
        let mut recording = Recording::new();
        recording.call(10, THREAD, LockStep::Attempt, 1);
        recording.call(15, THREAD, outcome(false), 0);
        recording.call(20, THREAD, LockStep::Attempt, 1);
        recording.push(
            21,
            7,
            KernelEventKind::ContentionBegin { lock: 1, flags: 0 },
        );
        recording.push(28, 7, KernelEventKind::ContentionEnd { lock: 1 });
        recording.call(30, THREAD, outcome(true), 0);
        recording.call(34, THREAD, LockStep::Release, 1);
        recording.call(40, THREAD, outcome(true), 0);
        let summary = recording.study.finish();
        assert_eq!((summary.depths, summary.incomplete), (vec![1], 0));
        assert_eq!(summary.holds.longest_ns(), 4);
        assert_eq!((summary.contended, summary.waits.longest_ns()), (1, 10));
        assert_eq!(summary.sites[0].0.address, 2);
    }

    #[test]
    fn a_wait_in_a_softirq_is_of_the_softirq() {
        let mut recording = Recording::new();
        recording.call(10, THREAD, LockStep::Request, 1);
        recording.call(20, SOFT, LockStep::Request, 2);
        recording.push(
            21,
            7,
            KernelEventKind::ContentionBegin { lock: 2, flags: 1 },
        );
        recording.push(50, 7, KernelEventKind::ContentionEnd { lock: 2 });
        recording.call(55, SOFT, LockStep::Release, 2);
        recording.call(70, THREAD, LockStep::Release, 1);
        let summary = recording.study.finish();
        assert_eq!((summary.depths, summary.incomplete), (vec![2], 0));
        assert_eq!(summary.waits.longest_ns(), 30);
        assert_eq!(summary.holds.quantile_ns(0.0), 5);
    }

    #[test]
    fn the_lock_of_the_queue_goes_to_the_next_thread_and_losses_end_sections() {
        let mut recording = Recording::new();
        let name = ThreadName::from("x");
        recording.call(10, THREAD, LockStep::Request, 1);
        let switch = ThreadSwitch {
            previous: 7,
            previous_name: name,
            state: OffCpuState::Sleeping,
            next: 0,
            next_name: name,
            previous_rank: 120,
            next_rank: 120,
        };
        recording.push(20, 7, KernelEventKind::ThreadSwitch(switch));
        let release = |lock| {
            KernelEventKind::Lock(LockCall {
                step: LockStep::Release,
                kind: LockKind::Spin,
                lock,
                caller: 0,
                context: THREAD,
            })
        };
        recording.push(30, 0, release(1));
        recording.call(40, THREAD, LockStep::Request, 2);
        recording.push(45, 0, KernelEventKind::Lost { count: None });
        recording.call(50, THREAD, LockStep::Request, 3);
        recording.call(60, THREAD, LockStep::Release, 3);
        let summary = recording.study.finish();
        assert_eq!((summary.depths, summary.incomplete), (vec![2], 1));
        assert_eq!(summary.holds.longest_ns(), 20);
    }
}
