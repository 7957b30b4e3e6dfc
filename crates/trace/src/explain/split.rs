//! The latency of one request, split into parts without rest.

use super::cause::{LatencyCause, PartId, PartTable};
use super::conversation::RequestWork;
use super::host::HostState;
use super::jobs::ThreadJob;
use super::thread_log::{ActivitySums, NOBODY, Segment, ThreadActivity, ThreadLog};
use crate::recording::RequestRow;

/// The parts that do not depend on threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseParts {
    generator: PartId,
    network: PartId,
    queued: PartId,
    other_work: PartId,
    place: PartId,
    execution: PartId,
    awaits: PartId,
    together: PartId,
    untold: PartId,
    uncovered: PartId,
}

impl PhaseParts {
    pub(crate) fn new(parts: &mut PartTable) -> Self {
        Self {
            generator: parts.number(LatencyCause::GeneratorLate, ""),
            network: parts.number(LatencyCause::Network, ""),
            queued: parts.number(LatencyCause::Queued, ""),
            other_work: parts.number(LatencyCause::Queued, "work of the service for no request"),
            place: parts.number(LatencyCause::Queued, "a place in flight"),
            execution: parts.number(LatencyCause::Execution, ""),
            awaits: parts.number(LatencyCause::Blocked, "waits for another program"),
            together: parts.number(LatencyCause::Untold, "answered together with others"),
            untold: parts.number(LatencyCause::Untold, ""),
            uncovered: parts.number(LatencyCause::Untold, "not in the recording"),
        }
    }
}

/// A stretch of a request's time with its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartStretch {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) part: PartId,
}

/// The phases of a request in time: each ends where the next begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestPhases {
    intended: u64,
    taken_up: u64,
    sent: u64,
    begin: u64,
    handed_over: u64,
    end: u64,
    replied: u64,
    /// The thread that it waits for, and that takes it up.
    reader: Option<u32>,
    writer: Option<u32>,
    connection: u32,
    generator: Option<u32>,
    /// Whether it is known when it was worked on.
    is_followed: bool,
    /// Whether the work is for other requests, too.
    together: bool,
}

impl RequestPhases {
    /// The phases of a request that `work` was done on, or that waits for thread `serving`.
    pub(crate) fn new(
        row: &RequestRow,
        connection: Option<u32>,
        work: Option<RequestWork>,
        serving: Option<u32>,
        generator: Option<u32>,
    ) -> Self {
        let intended = row.intended.as_nanos();
        let replied = row.replied.as_nanos().max(intended);
        let taken_up = row.taken_up.as_nanos().clamp(intended, replied);
        let within = |at: u64, from: u64| at.clamp(from, replied);
        let begin = work.map_or(replied, |work| within(work.begin, taken_up));
        let handed_over = work.map_or(replied, |work| within(work.handed_over, begin));
        let end = work.map_or(replied, |work| within(work.end, handed_over));
        Self {
            intended,
            taken_up,
            sent: row
                .sent
                .map_or(begin, |sent| within(sent.as_nanos(), taken_up).min(begin)),
            begin,
            handed_over,
            end,
            replied,
            reader: work.map(|work| work.reader).or(serving),
            writer: work.map(|work| work.writer).or(serving),
            connection: connection.unwrap_or(NOBODY),
            generator,
            is_followed: work.is_some(),
            together: work.is_some_and(|work| work.together),
        }
    }

    /// The one phase of a job: its thread works on it from its release to its completion.
    pub(crate) fn of_job(job: ThreadJob) -> Self {
        Self {
            intended: job.release,
            taken_up: job.release,
            sent: job.release,
            begin: job.release,
            handed_over: job.completion,
            end: job.completion,
            replied: job.completion,
            reader: Some(job.thread),
            writer: Some(job.thread),
            connection: NOBODY,
            generator: None,
            is_followed: true,
            together: false,
        }
    }

    /// Adds the request's nanoseconds to `sums`, by the number of the part. They add up to its latency.
    pub(crate) fn add(
        &self,
        host: &HostState<'_>,
        fixed: &PhaseParts,
        scratch: &mut ActivitySums,
        sums: &mut Vec<u64>,
    ) {
        let mut add = |part: PartId, nanos: u64| {
            let place = part.0 as usize;
            if sums.len() <= place {
                sums.resize(place + 1, 0);
            }
            sums[place] += nanos;
        };
        add(fixed.generator, self.taken_up - self.intended);
        let log_of =
            |thread: Option<u32>| thread.and_then(|thread| host.thread(thread)?.log.as_ref());
        for (from, to, idle) in self.waits(fixed) {
            let Some(log) = log_of(self.reader) else {
                add(fixed.untold, to - from);
                continue;
            };
            scratch.clear();
            log.add_sums(from, to, scratch);
            let (for_others, for_nobody) = match self.is_followed {
                true => (fixed.queued, fixed.other_work),
                false => (fixed.untold, fixed.untold),
            };
            add(for_others, scratch.running);
            add(for_nobody, scratch.running_for_nobody);
            add(idle, scratch.idle);
            let mut covered = scratch.running + scratch.running_for_nobody + scratch.idle;
            for (number, nanos) in scratch
                .kept
                .iter()
                .enumerate()
                .filter(|(_, nanos)| **nanos > 0)
            {
                add(PartId(number as u32), *nanos);
                covered += nanos;
            }
            add(fixed.uncovered, to - from - covered);
        }
        self.later_stretches(host, fixed, &mut |stretch| {
            add(stretch.part, stretch.end - stretch.start)
        });
    }

    /// The request's stretches in time, one after the other from the intended send time to the reply.
    pub(crate) fn stretches(&self, host: &HostState<'_>, fixed: &PhaseParts) -> Vec<PartStretch> {
        let mut stretches = vec![PartStretch {
            start: self.intended,
            end: self.taken_up,
            part: fixed.generator,
        }];
        let mut push = |stretch: PartStretch| stretches.push(stretch);
        let log_of =
            |thread: Option<u32>| thread.and_then(|thread| host.thread(thread)?.log.as_ref());
        let missing = self.reader.map_or(fixed.untold, |_| fixed.uncovered);
        for (from, to, idle) in self.waits(fixed) {
            let waiting = |segment: Segment| match segment.activity {
                ThreadActivity::Running if !self.is_followed => fixed.untold,
                ThreadActivity::Running if segment.owner == NOBODY => fixed.other_work,
                ThreadActivity::Running => fixed.queued,
                ThreadActivity::Idle => idle,
                ThreadActivity::Kept(part) => part,
            };
            cover(log_of(self.reader), (from, to), missing, waiting, &mut push);
        }
        self.later_stretches(host, fixed, &mut push);
        stretches.retain(|stretch| stretch.start < stretch.end);
        stretches.dedup_by(|next, stretch| {
            let same = next.part == stretch.part && next.start == stretch.end;
            if same {
                stretch.end = next.end;
            }
            same
        });
        stretches
    }

    /// The two spans in which it waits, and what the time is in which its thread is idle meanwhile: for a place in
    /// flight, and then for its way to the service.
    fn waits(&self, fixed: &PhaseParts) -> [(u64, u64, PartId); 2] {
        [
            (self.taken_up, self.sent, fixed.place),
            (self.sent, self.begin, fixed.network),
        ]
    }

    /// The stretches from when it was taken up: its own work, and the way back.
    fn later_stretches(
        &self,
        host: &HostState<'_>,
        fixed: &PhaseParts,
        push: &mut impl FnMut(PartStretch),
    ) {
        let log_of =
            |thread: Option<u32>| thread.and_then(|thread| host.thread(thread)?.log.as_ref());
        let missing = fixed.uncovered;
        // Work for no connection is for this request: it has turned to no other.
        let is_own =
            |owner: u32| [NOBODY, self.connection].contains(&owner) || self.connection == NOBODY;
        let own = match self.together {
            true => fixed.together,
            false => fixed.execution,
        };
        let working = |segment: Segment| match segment.activity {
            ThreadActivity::Running if is_own(segment.owner) => own,
            ThreadActivity::Running => fixed.queued,
            ThreadActivity::Idle => fixed.awaits,
            ThreadActivity::Kept(part) => part,
        };
        let first = (self.begin, self.handed_over);
        cover(log_of(self.reader), first, missing, working, push);
        let second = (self.handed_over, self.end);
        cover(log_of(self.writer), second, missing, working, push);
        let returning = |segment: Segment| match segment.activity {
            ThreadActivity::Running => fixed.generator,
            ThreadActivity::Idle => fixed.network,
            ThreadActivity::Kept(_) => fixed.generator,
        };
        let back = (self.end, self.replied);
        cover(log_of(self.generator), back, fixed.network, returning, push);
    }
}

/// Covers a span by what a log has, and by `missing` where it has nothing.
fn cover(
    log: Option<&ThreadLog>,
    (from, to): (u64, u64),
    missing: PartId,
    part: impl Fn(Segment) -> PartId,
    push: &mut impl FnMut(PartStretch),
) {
    let start = log
        .and_then(ThreadLog::start)
        .unwrap_or(u64::MAX)
        .clamp(from, to);
    if from < start {
        push(PartStretch {
            start: from,
            end: start,
            part: missing,
        });
    }
    for (segment, end) in log.into_iter().flat_map(|log| log.span(start, to)) {
        push(PartStretch {
            start: segment.start,
            end,
            part: part(segment),
        });
    }
}
