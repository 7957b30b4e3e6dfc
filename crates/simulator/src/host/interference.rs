//! Interference on the CPUs of a host: drawn from its laws, or repeated from a recording.

use tailbound_model::{ArrivalCurve, InputFiles, Interference, Task, TracedJob};
use tailbound_time::Duration;

use super::layout::LaidPlan;
use super::mapping::Mapping;
use super::problem::HostError;
use super::run::{HostQuery, ratio};
use super::subsystems::SimulatedSubsystem;
use crate::hierarchy::{Job, JobSource, TakenTime};
use crate::workload::{DrawnJobs, WorkloadError};

/// `LaidInterference` is a source of interference on a CPU of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct LaidInterference {
    /// The CPU, by its position in the plan.
    pub cpu: usize,
    /// The source.
    pub source: Interference,
}

/// `InterferenceSources` are what takes CPUs from everything that is scheduled there.
pub(super) struct InterferenceSources;

impl SimulatedSubsystem for InterferenceSources {
    fn check(&self, mapping: &Mapping<'_>) -> Result<(), HostError> {
        for (index, source) in mapping.host.interference.iter().enumerate() {
            let place = format!("hosts.{}.interference[{index}]", mapping.name);
            if let Some(excess) = excess_of_recording(source, mapping.inputs) {
                let place = format!("{place}.recorded");
                return Err(HostError::Recording { place, excess });
            }
            let domains = mapping.directly_in(None);
            let mut soft = domains.filter(|(_, domain)| domain.aperiodic.is_some());
            if soft.any(|(_, domain)| mapping.description.cpus_of(domain).contains(&source.cpu)) {
                return Err(HostError::NotSimulated {
                    place,
                    why: "soft tasks have an engine of their own, which knows no interference",
                });
            }
        }
        Ok(())
    }

    fn assumptions(&self, plan: &LaidPlan) -> Option<String> {
        let sources = plan.interference.iter().map(|one| {
            let how = match one.source.recorded {
                Some(_) => "as recorded, again and again",
                None => "drawn",
            };
            format!("{} ({how})", one.source.source)
        });
        let sources: Vec<String> = sources.collect();
        (!sources.is_empty()).then(|| {
            format!(
                "interference comes before everything and uses no budget: {}",
                sources.join(", ")
            )
        })
    }

    fn events(&self, plan: &LaidPlan, length: Duration) -> Option<(f64, String)> {
        let gaps = plan
            .interference
            .iter()
            .filter_map(|one| one.source.arrivals.mean_gap());
        let events: f64 = gaps.map(|gap| ratio(length, gap)).sum();
        (events > 0.0).then(|| (events, "events of interference".into()))
    }
}

/// What of a recording is more than the source's bounds have, in words.
fn excess_of_recording(source: &Interference, inputs: &InputFiles) -> Option<String> {
    let events = inputs.trace(source.recorded.as_deref()?)?;
    let lengths = events.iter().filter_map(|event| event.execution);
    let (longest, most) = (lengths.max()?, source.longest_event());
    if let Some(most) = most.filter(|most| longest > *most) {
        return Some(format!(
            "an event takes {longest}, and the longest is described as {most}"
        ));
    }
    let curve = source.curve()?;
    let instants: Vec<u64> = events
        .iter()
        .map(|event| event.release.as_nanos())
        .collect();
    for (later, distance) in curve.points() {
        let pairs = instants.windows(*later as usize + 1);
        let least = pairs
            .filter_map(|window| Some(window.last()? - window.first()?))
            .min();
        // A recording has no more events than it has.
        let Some(least) = least.map(Duration::from_nanos) else {
            break;
        };
        if least < *distance {
            return Some(format!(
                "{} events come within {least}, and the arrivals say that they are {distance} apart at least",
                later + 1
            ));
        }
    }
    None
}

/// `InterferenceEvents` are the events of all sources of a plan, in order.
pub(super) struct InterferenceEvents<'a> {
    cpus: Vec<usize>,
    drawn: DrawnJobs<'a>,
    recorded: Vec<RecordedEvents<'a>>,
}

/// A recording that is repeated.
struct RecordedEvents<'a> {
    cpu: usize,
    events: &'a [TracedJob],
    next: usize,
    /// From the begin of the recording to that of its repetition.
    cycle_ns: u64,
    /// Since when this repetition lasts.
    since_ns: u64,
}

impl<'a> InterferenceEvents<'a> {
    /// The events up to `until`.
    pub(super) fn of(
        laid: &LaidPlan,
        until: Duration,
        query: &HostQuery<'a>,
    ) -> Result<Self, WorkloadError> {
        let inputs = query.inputs;
        let sources = laid.interference.iter().enumerate();
        let drawn = sources.filter(|(_, one)| one.source.recorded.is_none());
        let drawn: Vec<(usize, String, Task)> = drawn
            .map(|(index, one)| {
                let Interference {
                    source,
                    cpu,
                    arrivals,
                    execution_time,
                    ..
                } = &one.source;
                let stream = format!("interference/{}/{cpu}/{source}", query.host);
                let events = Task::of(arrivals.clone(), execution_time.clone());
                (index, stream, events)
            })
            .collect();
        let named = drawn.iter();
        let named = named.map(|(index, stream, events)| (*index, stream.as_str(), events));
        let recorded = laid.interference.iter().filter_map(|one| {
            let file = one.source.recorded.as_deref()?;
            let missing = || WorkloadError::InputMissing {
                task: one.source.source.clone(),
                file: file.into(),
            };
            let events = inputs.trace(file).ok_or_else(missing);
            Some(events.map(|events| RecordedEvents::of(one, events)))
        });
        Ok(Self {
            cpus: laid.interference.iter().map(|one| one.cpu).collect(),
            drawn: DrawnJobs::of_tasks(named, until, query.seed, inputs)?,
            recorded: recorded.collect::<Result<_, _>>()?,
        })
    }

    fn next(&self) -> Option<u64> {
        let recorded = self.recorded.iter().filter_map(RecordedEvents::next);
        recorded.chain(self.drawn.next_release()).min()
    }

    fn take(&mut self) -> Option<TakenTime> {
        let next = self.next()?;
        let mut recorded = self.recorded.iter_mut();
        if let Some(first) = recorded.find(|one| one.next() == Some(next)) {
            return first.take();
        }
        let Job { task, work, .. } = self.drawn.take()?;
        Some(TakenTime {
            cpu: *self.cpus.get(task)?,
            length: work,
        })
    }
}

impl<'a> RecordedEvents<'a> {
    fn of(laid: &LaidInterference, events: &'a [TracedJob]) -> Self {
        let instants: Vec<u64> = events
            .iter()
            .map(|event| event.release.as_nanos())
            .collect();
        let last = instants.last().copied().unwrap_or(0);
        let first = instants.first().copied().unwrap_or(0);
        let pause = pause(&instants, laid.source.curve().as_ref());
        Self {
            cpu: laid.cpu,
            events,
            next: 0,
            cycle_ns: (last - first).saturating_add(pause).max(1),
            since_ns: 0,
        }
    }

    fn next(&self) -> Option<u64> {
        let event = self.events.get(self.next)?;
        Some(event.release.as_nanos().saturating_add(self.since_ns))
    }

    fn take(&mut self) -> Option<TakenTime> {
        let event = self.events.get(self.next)?;
        self.next += 1;
        if self.next == self.events.len() {
            self.next = 0;
            self.since_ns = self.since_ns.saturating_add(self.cycle_ns);
        }
        Some(TakenTime {
            cpu: self.cpu,
            length: event.execution.map_or(0, Duration::as_nanos),
        })
    }
}

/// The time between the last event of a recording and the first of its repetition: the mean gap, or longer where the
/// events around it would come closer together than the curve allows.
fn pause(instants: &[u64], curve: Option<&ArrivalCurve>) -> u64 {
    let (Some(first), Some(last)) = (instants.first(), instants.last()) else {
        return 1;
    };
    let mut pause = (last - first) / (instants.len() as u64 - 1).max(1);
    if let Some((events, length)) = curve.map(ArrivalCurve::rate) {
        // Over many repetitions the rate is no higher than the curve's.
        let cycle = u128::from(length.as_nanos()) * instants.len() as u128;
        let cycle = u64::try_from(cycle.div_ceil(u128::from(events))).unwrap_or(u64::MAX);
        pause = pause.max(cycle.saturating_sub(last - first));
    }
    for (later, distance) in curve.map_or(&[][..], ArrivalCurve::points) {
        // Of so many gaps, one is the pause, some are behind it and the others ahead.
        let around = *later as usize - 1;
        for behind in 0..=around.min(instants.len() - 1) {
            let ahead = around - behind;
            let (Some(end), Some(begin)) = (
                instants.get(behind),
                instants
                    .len()
                    .checked_sub(1 + ahead)
                    .and_then(|at| instants.get(at)),
            ) else {
                continue;
            };
            let there = (end - first).saturating_add(last - begin);
            pause = pause.max(distance.as_nanos().saturating_sub(there));
        }
    }
    pause
}

/// Jobs with the interference on their CPUs.
pub(super) struct InterferedJobs<'a, S> {
    pub(super) jobs: S,
    /// None where nothing interferes.
    pub(super) events: Option<InterferenceEvents<'a>>,
}

impl<S: JobSource> JobSource for InterferedJobs<'_, S> {
    #[inline(always)]
    fn next_release(&self) -> Option<u64> {
        self.jobs.next_release()
    }

    #[inline]
    fn take(&mut self) -> Option<Job> {
        self.jobs.take()
    }

    #[inline]
    fn interferes(&self) -> bool {
        self.events.is_some()
    }

    #[inline]
    fn next_interference(&self) -> Option<u64> {
        self.events.as_ref()?.next()
    }

    #[inline]
    fn take_interference(&mut self) -> Option<TakenTime> {
        self.events.as_mut()?.take()
    }
}
