//! What it costs to look for another thread, and to switch to it: threads that give up the CPU.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::{self, Thread};

use tailbound_linux::clock::MonotonicRaw;
use tailbound_time::{Clock, Duration};

use super::partner::{self, FIFO_PRIORITY, lost};
use super::series::{Cost, Series};
use super::turns::{SampleSource, in_turns};
use super::working_set::WorkingSet;
use crate::MeasurementError;

/// What threads that yield tell.
pub(super) struct YieldCosts {
    /// To look for another thread and find none.
    pub look: Option<Cost>,
    /// To switch to another thread; both use hardly any memory.
    pub switch: Option<Cost>,
    /// The same with threads that use a working set each.
    pub switch_with_working_set: Option<Cost>,
}

/// Times the least system call.
fn system_call() -> Result<Duration, MeasurementError> {
    let begin = MonotonicRaw.now();
    std::hint::black_box(std::os::unix::process::parent_id());
    Ok(MonotonicRaw.now().saturating_since(begin))
}

fn lone_yield() -> Result<Duration, MeasurementError> {
    let begin = MonotonicRaw.now();
    thread::yield_now();
    Ok(MonotonicRaw.now().saturating_since(begin))
}

/// `sched_yield` of a thread that is alone on its CPU, beyond the least system call.
pub(super) fn alone(length: Duration) -> Result<YieldCosts, MeasurementError> {
    let [call, alone] = in_turns(length, [&mut system_call, &mut lone_yield])?;
    Ok(YieldCosts {
        look: Cost::between(&alone, &call),
        switch: None,
        switch_with_working_set: None,
    })
}

/// What the other thread is to do.
const PAUSED: u8 = 0;
const YIELD: u8 = 1;
const USE_AND_YIELD: u8 = 2;
const END: u8 = 3;

#[derive(Default)]
struct Orders {
    now: AtomicU8,
    turns: AtomicU64,
}

/// Yields, in turns with ours, as long as it is told to.
fn other(orders: &Orders) {
    let mut memory = WorkingSet::new();
    loop {
        match orders.now.load(Ordering::Acquire) {
            PAUSED => thread::park(),
            END => return,
            order => {
                if order == USE_AND_YIELD {
                    memory.use_all();
                }
                orders.turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        }
    }
}

/// Yields to and fro between two threads; a sample is there and back.
struct Pair<'a> {
    orders: &'a Orders,
    other: &'a Thread,
    order: u8,
    memory: WorkingSet,
}

impl SampleSource for Pair<'_> {
    fn begin(&mut self) {
        self.orders.now.store(self.order, Ordering::Release);
        self.other.unpark();
    }

    fn sample(&mut self) -> Result<Duration, MeasurementError> {
        let before = self.orders.turns.load(Ordering::Relaxed);
        let begin = MonotonicRaw.now();
        thread::yield_now();
        if self.order == USE_AND_YIELD {
            self.memory.use_all();
        }
        let taken = MonotonicRaw.now().saturating_since(begin);
        match self.orders.turns.load(Ordering::Relaxed) > before {
            true => Ok(taken),
            false => Err(lost("a thread of the same priority did not run")),
        }
    }

    fn end(&mut self) {
        self.orders.now.store(PAUSED, Ordering::Release);
        // Now it sees that, and waits.
        thread::yield_now();
    }
}

/// The same with two threads of one FIFO priority, which run in turns. The calling thread is one of
/// them.
pub(super) fn in_pairs(length: Duration) -> Result<YieldCosts, MeasurementError> {
    let orders = Orders::default();
    thread::scope(|scope| {
        let other = partner::start(scope, FIFO_PRIORITY, || other(&orders))?;
        let pair = |order| Pair {
            orders: &orders,
            other: &other,
            order,
            memory: WorkingSet::new(),
        };
        let (mut bare, mut with_memory) = (pair(YIELD), pair(USE_AND_YIELD));
        let mut memory = WorkingSet::new();
        let mut lone_with_memory = || {
            let begin = MonotonicRaw.now();
            thread::yield_now();
            memory.use_all();
            Ok(MonotonicRaw.now().saturating_since(begin))
        };
        let outcome = in_turns(
            length,
            [
                &mut system_call,
                &mut lone_yield,
                &mut bare,
                &mut lone_with_memory,
                &mut with_memory,
            ],
        );
        orders.now.store(END, Ordering::Release);
        other.unpark();
        let [
            call,
            alone,
            there_and_back,
            alone_with_memory,
            both_with_memory,
        ] = outcome?;
        let one_way = |series: Series| series.divided(2);
        Ok(YieldCosts {
            look: Cost::between(&alone, &call),
            switch: Cost::between(&one_way(there_and_back), &alone),
            switch_with_working_set: Cost::between(&one_way(both_with_memory), &alone_with_memory),
        })
    })
}
