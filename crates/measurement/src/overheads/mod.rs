//! What the operating system takes of a CPU for itself, measured on this host's kernel.
//!
//! | Overhead | From |
//! | --- | --- |
//! | context switch | two FIFO threads of one priority that yield in turns, less a yield that finds nobody |
//! | scheduler invocation | half of what a wake-up and a sleep cost beyond the switch between them |
//! | interrupt | the gap in a busy thread when a timer expires that nobody waits for |
//! | tick | the gaps of a busy thread that come with one of the periods that kernels are built for |
//! | migration | CPU time of a thread that moves and uses its working set, less that of one that stays |
//!
//! The first three add up to what a periodic job costs the one that it preempts: an interrupt, and a
//! look and a switch at each of its ends. That whole is measured too, as a check.
//!
//! Every cost is the difference of two medians, with and without, measured in turns on one thread's
//! clock. All load is bounded in time, and after each stretch the CPU is left alone for a quarter as long; priorities and
//! affinities are those of threads of ours, so nothing is left of them, however we end.

mod document;
mod expiry;
mod gaps;
mod handover;
mod migration;
mod partner;
pub mod series;
pub mod tick;
mod turns;
mod working_set;
mod yields;

use serde::Serialize;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::{Cpu, HostOverheads, HostTick};
use tailbound_time::{Duration, nanoseconds};

use self::partner::FIFO_PRIORITY;
use self::series::Cost;
use self::tick::PeriodicTick;
pub use self::working_set::WORKING_SET_BYTES;
use crate::MeasurementError;

/// The longest measurement of one kind that is taken on.
const LONGEST: Duration = Duration::from_secs(60);

/// What is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverheadPlan {
    /// Where.
    pub cpu: Cpu,
    /// Where a thread moves to; without it, migration is not measured.
    pub other_cpu: Option<Cpu>,
    /// How long each of five kinds is measured, pauses (a fifth) left out.
    pub length: Duration,
}

/// What a measured cost is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// To look for another thread and find none.
    Look,
    /// To switch between threads that use hardly any memory.
    Switch,
    /// To switch between threads that use a working set each.
    SwitchWithWorkingSet,
    /// To wake another thread and sleep, with the switch.
    Handover,
    /// The interrupt of a timer.
    Interrupt,
    /// That interrupt, where it wakes a thread that does not run yet.
    InterruptWithWakeUp,
    /// All that a thread of higher priority takes that wakes and sleeps again.
    Preemption,
    /// To arm a timer: what a thread pays itself, in its execution time, to be woken at a time.
    Arming,
    /// CPU time of a thread for a move to another CPU and the first use of a working set there.
    Migration,
    /// Of it, that use.
    Refetch,
    /// What passes meanwhile, with the waiting until the other CPU takes the thread.
    MigrationPassed,
}

/// A cost that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredCost {
    /// Of what.
    pub subject: Subject,
    /// How much.
    pub cost: Cost,
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    /// What.
    pub what: &'static str,
    /// Why not.
    pub why: String,
}

/// A value for a description that measuring does not tell apart from nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NotAboveNoise {
    /// The key of the description's table.
    pub key: &'static str,
    /// Its value.
    #[serde(rename = "value_ns", with = "nanoseconds")]
    pub value: Duration,
    /// What the same measurements are off themselves.
    #[serde(rename = "noise_floor_ns", with = "nanoseconds")]
    pub floor: Duration,
}

/// A value made of costs, and how far they may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Derived {
    value: Duration,
    floor: Duration,
}

impl Derived {
    fn of(cost: Cost) -> Self {
        Self {
            value: cost.value,
            floor: cost.floor,
        }
    }

    /// Without `parts` of another one; they may be off in opposite directions.
    fn without(self, other: Self, parts: u64) -> Self {
        Self {
            value: self.value.saturating_sub(other.value.scaled_down(parts, 1)),
            floor: self.floor.saturating_add(other.floor.scaled_down(parts, 1)),
        }
    }

    fn half(self) -> Self {
        Self {
            value: self.value.scaled_down(1, 2),
            floor: self.floor.scaled_down(1, 2),
        }
    }
}

/// What was measured of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredOverheads {
    /// What was to be measured.
    pub plan: OverheadPlan,
    /// Whether it was measured at SCHED_FIFO, so that ordinary load did not disturb it.
    pub fifo: bool,
    /// What one reading of the clock takes.
    pub reading: Duration,
    /// The costs.
    pub costs: Vec<MeasuredCost>,
    /// The tick, if one was seen.
    pub tick: Option<PeriodicTick>,
    /// What was not measured.
    pub missing: Vec<NotMeasured>,
}

impl MeasuredOverheads {
    /// The cost of `subject`, if it was measured.
    pub fn cost_of(&self, subject: Subject) -> Option<Cost> {
        let entry = self.costs.iter().find(|entry| entry.subject == subject);
        entry.map(|entry| entry.cost)
    }

    fn derived_of(&self, subject: Subject) -> Option<Derived> {
        self.cost_of(subject).map(Derived::of)
    }

    /// A context switch and a look of the scheduler, if a handover was measured.
    fn scheduling(&self) -> Option<[Derived; 2]> {
        let handover = self.derived_of(Subject::Handover)?;
        if let Some(switch) = self.derived_of(Subject::Switch) {
            return Some([switch, handover.without(switch, 1).half()]);
        }
        let mut look = self.derived_of(Subject::Look).unwrap_or_default();
        look.value = look.value.min(handover.half().value);
        Some([handover.without(look, 2), look])
    }

    /// The overheads for a description. What was not measured is zero there.
    ///
    /// A wake-up and a sleep are two looks of the scheduler in simulation, with one switch between them;
    /// the sum of the three is what a handover was measured to cost. Without real-time priorities the
    /// switch cannot be told by itself: then a look is what a yield without another thread costs, and
    /// the switch is the rest.
    pub fn overheads(&self) -> HostOverheads {
        let [switch, look] = self.scheduling().unwrap_or_default();
        let value = |subject| self.derived_of(subject).unwrap_or_default().value;
        HostOverheads {
            context_switch: switch.value,
            scheduler_invocation: look.value,
            migration: value(Subject::Migration),
            interrupt: value(Subject::Interrupt),
            tick: self.tick.map(|tick| HostTick {
                period: tick.period,
                cost: tick.gaps.median.saturating_sub(self.reading),
            }),
            ..HostOverheads::default()
        }
    }

    /// The values of [`MeasuredOverheads::overheads`] that are not above their noise, zeros among
    /// them. The floor of a difference is the sum of the floors. A tick that is found is told apart:
    /// its gaps are longer than several readings of the clock, and regular.
    pub fn not_above_noise(&self) -> Vec<NotAboveNoise> {
        let scheduling = self.scheduling();
        let values = [
            ("context_switch", scheduling.map(|[switch, _]| switch)),
            ("scheduler_invocation", scheduling.map(|[_, look]| look)),
            ("migration", self.derived_of(Subject::Migration)),
            ("interrupt", self.derived_of(Subject::Interrupt)),
        ];
        let doubtful = |(key, derived): (&'static str, Option<Derived>)| {
            let Derived { value, floor } = derived?;
            (value <= floor).then_some(NotAboveNoise { key, value, floor })
        };
        values.into_iter().filter_map(doubtful).collect()
    }

    /// What a periodic job costs the one that it preempts, beside its own execution, by
    /// [`MeasuredOverheads::overheads`]: to be compared with [`Subject::Preemption`].
    pub fn preemption_of_parts(&self) -> Duration {
        let overheads = self.overheads();
        let end = overheads.scheduler_invocation + overheads.context_switch;
        overheads.interrupt + end + end
    }
}

impl OverheadPlan {
    /// Whether it can be carried out at all, to be asked before anything is begun.
    ///
    /// # Errors
    /// The length is zero or above a minute.
    pub fn check(&self) -> Result<(), MeasurementError> {
        if !self.length.is_zero() && self.length <= LONGEST {
            return Ok(());
        }
        Err(MeasurementError::BadPlan {
            what: format!("overheads cannot be measured for {} each", self.length),
            remedy: format!("choose a length above zero, up to {LONGEST}"),
        })
    }
}

/// Measures the overheads of a CPU, at SCHED_FIFO where that is allowed, for about seven times the
/// plan's length.
///
/// # Errors
/// A CPU does not exist or is not ours to run on; the length is zero or above a minute; real-time
/// threads of others disturb it.
pub fn measure_overheads(plan: OverheadPlan) -> Result<MeasuredOverheads, MeasurementError> {
    plan.check()?;
    // A thread of its own, so that pinning and priority end with it.
    let measuring = std::thread::Builder::new()
        .name("overheads".into())
        .spawn(move || measure(plan))
        .map_err(|cause| MeasurementError::Host {
            what: "start the thread that measures overheads".into(),
            cause,
            remedy: "raise the limit of threads".into(),
        })?;
    match measuring.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn measure(plan: OverheadPlan) -> Result<MeasuredOverheads, MeasurementError> {
    pin_current_thread(plan.cpu.0).map_err(|cause| MeasurementError::BadPlan {
        what: format!("overheads: {cause}"),
        remedy: "name an online CPU of this host".into(),
    })?;
    let refused = make_current_thread_fifo(FIFO_PRIORITY).err();
    let fifo = refused.is_none();
    let mut overheads = MeasuredOverheads {
        plan,
        fifo,
        reading: Duration::ZERO,
        costs: Vec::new(),
        tick: None,
        missing: Vec::new(),
    };
    let (yields, expiries) = match fifo {
        true => (
            yields::in_pairs(plan.length)?,
            expiry::with_sleepers(plan.length)?,
        ),
        false => (yields::alone(plan.length)?, expiry::alone(plan.length)?),
    };
    overheads.keep(Subject::Look, yields.look);
    overheads.keep(Subject::Switch, yields.switch);
    overheads.keep(
        Subject::SwitchWithWorkingSet,
        yields.switch_with_working_set,
    );
    let priority = if fifo { FIFO_PRIORITY } else { 0 };
    overheads.keep(Subject::Handover, handover::one_way(plan.length, priority)?);
    overheads.keep(Subject::Interrupt, expiries.interrupt);
    overheads.keep(Subject::InterruptWithWakeUp, expiries.with_wake_up);
    overheads.keep(Subject::Preemption, expiries.preemption);
    overheads.keep(Subject::Arming, expiries.arming);
    let seen = gaps::look(plan.length);
    overheads.reading = seen.reading;
    overheads.tick = tick::find_tick(&seen.stretches);
    if let Some(away) = plan.other_cpu {
        let costs = migration::to_and_fro(plan.length, plan.cpu, away)?;
        overheads.keep(Subject::Migration, costs.all);
        overheads.keep(Subject::Refetch, costs.refetch);
        overheads.keep(Subject::MigrationPassed, costs.passed);
    }
    overheads.missing = missing(&overheads, refused.map(|cause| cause.to_string()));
    Ok(overheads)
}

impl MeasuredOverheads {
    fn keep(&mut self, subject: Subject, cost: Option<Cost>) {
        self.costs
            .extend(cost.map(|cost| MeasuredCost { subject, cost }));
    }
}

fn missing(overheads: &MeasuredOverheads, refused: Option<String>) -> Vec<NotMeasured> {
    let mut missing = Vec::new();
    let mut add = |what, why: String| missing.push(NotMeasured { what, why });
    if let Some(why) = refused {
        add("switches and preemptions by themselves", why);
    }
    if overheads.tick.is_none() {
        let why = "the gaps of a busy thread have none of the periods that kernels are built for: \
                   the CPU is tickless (nohz_full), or something else hides the tick";
        add("the tick", why.into());
    }
    if overheads.plan.other_cpu.is_none() {
        add(
            "migration",
            "it takes a second CPU, without a reservation on it".into(),
        );
    }
    missing
}

#[cfg(test)]
mod tests;
