//! What it costs to go on on another CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailbound_linux::clock::{MonotonicRaw, thread_cpu_time};
use tailbound_linux::thread::pin_current_thread;
use tailbound_model::Cpu;
use tailbound_time::{Clock, Duration};

use super::partner;
use super::series::Cost;
use super::turns::in_turns;
use super::working_set::WorkingSet;
use crate::MeasurementError;

/// What a move costs.
pub(super) struct MigrationCosts {
    /// CPU time of the thread for the move and the first use of the working set after it.
    pub all: Option<Cost>,
    /// Of it, the first use of the working set.
    pub refetch: Option<Cost>,
    /// What passes from the begin of the move to the end of that use, with all waiting.
    pub passed: Option<Cost>,
}

/// Moves the calling thread from `home`, where it is, to `away` and back, against telling it to stay.
/// Both CPUs are kept awake by ordinary threads, as CPUs with work are.
///
/// CPU time is that of the thread alone: until the other CPU takes it, some time passes (on virtual
/// machines up to a millisecond), in which both CPUs can do other work.
pub(super) fn to_and_fro(
    length: Duration,
    home: Cpu,
    away: Cpu,
) -> Result<MigrationCosts, MeasurementError> {
    let ended = AtomicBool::new(false);
    let keep_awake = |cpu: Cpu| {
        // Where it may not go, the CPU sleeps, and a move takes longer.
        let _stays_at_worst = pin_current_thread(cpu.0);
        while !ended.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        let outcome = (|| {
            partner::start(scope, 0, || keep_awake(home))?;
            partner::start(scope, 0, || keep_awake(away))?;
            compare(length, home, away)
        })();
        ended.store(true, Ordering::Relaxed);
        outcome
    })
}

fn compare(length: Duration, home: Cpu, away: Cpu) -> Result<MigrationCosts, MeasurementError> {
    // Each kind has a working set of its own, so that none warms another's.
    let mut sets: [WorkingSet; 6] = std::array::from_fn(|_| WorkingSet::new());
    let [
        cpu_here,
        cpu_there,
        use_here,
        use_there,
        passed_here,
        passed_there,
    ] = &mut sets;
    let here = |set: &mut WorkingSet, span| trip(home, home, set, span);
    let there = |set: &mut WorkingSet, span| trip(home, away, set, span);
    let [
        stay,
        moved,
        used_here,
        used_there,
        passes_here,
        passes_there,
    ] = in_turns(
        length,
        [
            &mut || here(cpu_here, TripSpan::CpuTime),
            &mut || there(cpu_there, TripSpan::CpuTime),
            &mut || here(use_here, TripSpan::Use),
            &mut || there(use_there, TripSpan::Use),
            &mut || here(passed_here, TripSpan::Passed),
            &mut || there(passed_there, TripSpan::Passed),
        ],
    )?;
    Ok(MigrationCosts {
        all: Cost::between(&moved, &stay),
        refetch: Cost::between(&used_there, &used_here),
        passed: Cost::between(&passes_there, &passes_here),
    })
}

/// What is timed of a trip.
#[derive(Clone, Copy)]
enum TripSpan {
    /// CPU time from its begin to the end of the first use of the working set.
    CpuTime,
    /// What passes meanwhile.
    Passed,
    /// What passes while the working set is used.
    Use,
}

/// Goes to `goal`, uses the working set there, and is back at `home` with a working set that is warm.
fn trip(
    home: Cpu,
    goal: Cpu,
    set: &mut WorkingSet,
    span: TripSpan,
) -> Result<Duration, MeasurementError> {
    let (begin, cpu_begin) = (MonotonicRaw.now(), thread_cpu_time());
    go(goal)?;
    let there = MonotonicRaw.now();
    set.use_all();
    let end = MonotonicRaw.now();
    let taken = match span {
        TripSpan::CpuTime => thread_cpu_time().saturating_sub(cpu_begin),
        TripSpan::Passed => end.saturating_since(begin),
        TripSpan::Use => end.saturating_since(there),
    };
    go(home)?;
    set.use_all();
    Ok(taken)
}

fn go(cpu: Cpu) -> Result<(), MeasurementError> {
    pin_current_thread(cpu.0).map_err(|cause| MeasurementError::BadPlan {
        what: format!("overheads: {cause}"),
        remedy: "name two online CPUs of this host".into(),
    })
}
