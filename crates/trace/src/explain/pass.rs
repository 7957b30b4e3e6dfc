//! The pass over the events of a recording.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use super::bands::DEFAULT_QUANTILES;
use super::conversation::Conversations;
use super::explanation::Explanation;
use super::host::HostState;
use super::jobs::{JobWatch, ThreadJob};
use super::split::{PhaseParts, RequestPhases};
use super::stalls::Stalls;
use super::subject::{ExplainedSubject, SplitRequest};
use super::thread_log::ActivitySums;
use crate::kernel::{EventDecoder, KernelEvent};
use crate::recording::{
    KernelRecording, KernelRecordingError, PositionedBytes, RecordedLoad, RequestRow, Requests,
};

/// How many events go by between two times that old segments are forgotten.
const FORGET_EVERY: u64 = 4096;

/// What is asked of a recording.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// Bounds of the bands, ascending, between 0 and 1.
    pub quantiles: Vec<f64>,
    /// Names of threads whose jobs are explained, beside the requests of loads.
    pub threads: BTreeSet<String>,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self {
            quantiles: DEFAULT_QUANTILES.to_vec(),
            threads: BTreeSet::new(),
        }
    }
}

/// Explains the requests of every load of a recording, and the jobs of the threads that are asked about.
///
/// # Errors
/// The recording cannot be read.
pub fn explain<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    options: &ExplainOptions,
) -> Result<Vec<Explanation>, KernelRecordingError> {
    let decoder = recording
        .decoder()
        .map_err(|cause| KernelRecordingError::Content {
            offset: 0,
            what: cause.to_string(),
        })?;
    let jobs = job_latencies(recording, &decoder, options)?;
    let mut pass = EventPass::new(recording, options, jobs)?;
    let apart = recording.header().looks_apart.unwrap_or_default();
    let mut stalls = Stalls::new(&all_delays(recording)?, apart);
    let mut events = recording.events(&decoder);
    while let Some(event) = events.next_event()? {
        while let Some(stall) = stalls.next(event.at, &mut events)? {
            pass.host.stall(stall.cpu, stall.start, stall.end);
        }
        pass.take(&event)?;
    }
    pass.close_until(u64::MAX)?;
    pass.open_until(u64::MAX)?;
    pass.close_until(u64::MAX)?;
    let mut remarks = recording.remarks().to_vec();
    remarks.extend(
        recording
            .header()
            .missing
            .iter()
            .map(|missing| format!("not recorded: {missing}")),
    );
    remarks.extend(
        recording
            .end()
            .into_iter()
            .flat_map(|end| end.remarks.clone()),
    );
    let loss = events.loss();
    if loss.lost + loss.uncounted + loss.unreadable > 0 {
        remarks.push(format!(
            "{} events were lost, at {} places uncounted, and {} places cannot be read: what happened then is told \
             wrongly or not at all",
            loss.lost, loss.uncounted, loss.unreadable
        ));
    }
    Ok(pass.finish(&remarks))
}

fn all_delays<B: PositionedBytes>(
    recording: &KernelRecording<B>,
) -> Result<Vec<crate::recording::SamplerDelay>, KernelRecordingError> {
    let mut delays = Vec::new();
    for cpu in &recording.header().cpus {
        delays.extend(recording.sampler_delays(*cpu)?);
    }
    Ok(delays)
}

/// The latencies of the jobs that are asked about, by the threads' names.
fn job_latencies<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    decoder: &EventDecoder,
    options: &ExplainOptions,
) -> Result<HashMap<String, Vec<u64>>, KernelRecordingError> {
    let mut latencies: HashMap<String, Vec<u64>> = HashMap::new();
    if options.threads.is_empty() {
        return Ok(latencies);
    }
    let mut host = HostState::new(recording.header(), &[]);
    let mut jobs = JobWatch::default();
    let mut events = recording.events(decoder);
    while let Some(event) = events.next_event()? {
        let wanted = |thread: u32| options.threads.contains(&host.thread_name(thread));
        if let Some(job) = jobs.take(&event, wanted) {
            let name = host.thread_name(job.thread);
            latencies
                .entry(name)
                .or_default()
                .push(job.completion - job.release);
        }
        host.take(&event);
    }
    Ok(latencies)
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    load: usize,
    number: u64,
    row: RequestRow,
    connection: Option<u32>,
}

struct LoadPass<'a, B> {
    load: RecordedLoad,
    rows: Requests<'a, B>,
    next: Option<RequestRow>,
    count: u64,
    /// The one thread of the service's domain, where it has one: it serves requests whose connection is not known.
    only_thread: Option<u32>,
    subject: ExplainedSubject,
    /// Each task by itself, where there are several.
    tasks: Vec<ExplainedSubject>,
}

struct EventPass<'a, B> {
    host: HostState<'a>,
    fixed: PhaseParts,
    conversations: Conversations,
    /// Processes that serve connections: all their threads are watched.
    serving: BTreeSet<u32>,
    loads: Vec<LoadPass<'a, B>>,
    pending: HashMap<(usize, u64), PendingRequest>,
    by_reply: BinaryHeap<Reverse<(u64, usize, u64)>>,
    jobs: JobWatch,
    job_subjects: HashMap<String, ExplainedSubject>,
    scratch: ActivitySums,
    sums: Vec<u64>,
    events: u64,
    recording: &'a KernelRecording<B>,
}

impl<'a, B: PositionedBytes> EventPass<'a, B> {
    fn new(
        recording: &'a KernelRecording<B>,
        options: &ExplainOptions,
        jobs: HashMap<String, Vec<u64>>,
    ) -> Result<Self, KernelRecordingError> {
        let later = recording
            .end()
            .map_or(&[][..], |end| end.processes.as_slice());
        let mut host = HostState::new(recording.header(), later);
        let fixed = PhaseParts::new(&mut host.parts);
        let loads = recording.loads()?;
        let described: Vec<RecordedLoad> = loads.iter().map(|(load, _)| load.clone()).collect();
        let conversations = Conversations::new(&described, &recording.socket_snapshots()?);
        let serving: BTreeSet<u32> = conversations.processes().collect();
        let mut passes = Vec::new();
        for (load, place) in loads {
            passes.push(LoadPass::new(recording, load, &place, options, &host)?);
        }
        let watched = host.threads_of(&serving).into_iter();
        let generators = passes.iter().filter_map(|pass| pass.load.generator);
        let only = passes.iter().filter_map(|pass| pass.only_thread);
        let watched: Vec<u32> = watched.chain(generators).chain(only).collect();
        watched.into_iter().for_each(|thread| host.watch(thread));
        let run = described.first().map(|load| load.run.clone());
        let subjects = jobs.into_iter().map(|(name, latencies)| {
            let explanation = Explanation {
                subject: format!("jobs of {name}"),
                run: run.clone().unwrap_or_default(),
                ..Explanation::default()
            };
            let subject = ExplainedSubject::new(
                explanation,
                vec![name.clone()],
                latencies,
                &options.quantiles,
            );
            (name, subject)
        });
        Ok(Self {
            host,
            fixed,
            conversations,
            serving,
            loads: passes,
            pending: HashMap::new(),
            by_reply: BinaryHeap::new(),
            jobs: JobWatch::default(),
            job_subjects: subjects.collect(),
            scratch: ActivitySums::default(),
            sums: Vec::new(),
            events: 0,
            recording,
        })
    }

    fn take(&mut self, event: &KernelEvent) -> Result<(), KernelRecordingError> {
        let at = event.at.as_nanos();
        self.open_until(at)?;
        self.close_until(at)?;
        let before = self.host.open_call(event.thread);
        let before = before.map(|call| (call.number, call.descriptor));
        self.watch_newcomers(event);
        let (host, subjects) = (&self.host, &self.job_subjects);
        let wanted = |thread: u32| subjects.contains_key(&host.thread_name(thread));
        let ended = match subjects.is_empty() {
            true => None,
            false => self.jobs.take(event, wanted),
        };
        self.host.take(event);
        self.conversations.take(event, before, &mut self.host);
        if let Some(job) = ended {
            self.close_job(job);
        }
        self.events += 1;
        if self.events.is_multiple_of(FORGET_EVERY) {
            let oldest = self
                .pending
                .values()
                .map(|request| request.row.intended.as_nanos());
            let oldest = oldest.chain(self.jobs.oldest()).min().unwrap_or(at).min(at);
            self.host.forget_before(oldest);
        }
        Ok(())
    }

    /// Threads that serving processes make later are watched from their beginning, and so are those with a name that is
    /// asked about.
    fn watch_newcomers(&mut self, event: &KernelEvent) {
        use crate::kernel::KernelEventKind::{NewThread, Waking};
        match &event.kind {
            NewThread {
                thread,
                same_process,
                ..
            } => {
                let parent = self.host.thread(event.thread).map(|state| state.process);
                // A process of one connection may serve where its parent does not.
                let serves = !same_process && self.serving.contains(thread);
                if serves || parent.is_some_and(|process| self.serving.contains(&process)) {
                    self.host.watch_when_known(*thread);
                    if !same_process {
                        self.serving.insert(*thread);
                    }
                }
            }
            Waking { thread, .. }
                if !self.job_subjects.is_empty()
                    && self
                        .job_subjects
                        .contains_key(&self.host.thread_name(*thread)) =>
            {
                self.host.watch(*thread);
            }
            _ => {}
        }
    }

    /// Takes up the requests that were due until an instant.
    fn open_until(&mut self, at: u64) -> Result<(), KernelRecordingError> {
        for place in 0..self.loads.len() {
            while let Some(row) = self.loads[place]
                .next
                .filter(|row| row.intended.as_nanos() <= at)
            {
                let pass = &mut self.loads[place];
                let number = pass.count;
                pass.count += 1;
                pass.next = pass.rows.next().transpose()?;
                let connection = self.conversations.of_client(place, row.task, row.client);
                let replied = row.replied.as_nanos();
                if let Some(connection) = connection {
                    let sent = row.sent.map_or(u64::MAX, |sent| sent.as_nanos());
                    self.conversations.open(connection, number, sent, replied);
                }
                self.by_reply.push(Reverse((replied, place, number)));
                let request = PendingRequest {
                    load: place,
                    number,
                    row,
                    connection,
                };
                self.pending.insert((place, number), request);
            }
        }
        Ok(())
    }

    /// Splits the requests whose replies had come before an instant.
    fn close_until(&mut self, at: u64) -> Result<(), KernelRecordingError> {
        while let Some(Reverse((replied, load, number))) = self.by_reply.peek().copied() {
            if replied >= at && at != u64::MAX {
                break;
            }
            self.by_reply.pop();
            if let Some(request) = self.pending.remove(&(load, number)) {
                self.close(&request);
            }
        }
        Ok(())
    }

    fn close(&mut self, request: &PendingRequest) {
        let (work, served_by) = match request.connection {
            Some(connection) => {
                let number = request.number;
                self.conversations.close(connection, number, &self.host)
            }
            None => (None, None),
        };
        let pass = &mut self.loads[request.load];
        let row = &request.row;
        if row.warm_up {
            return;
        }
        let serving = served_by.or(pass.only_thread);
        let generator = pass.load.generator;
        let phases = RequestPhases::new(row, request.connection, work, serving, generator);
        self.sums.iter_mut().for_each(|sum| *sum = 0);
        phases.add(&self.host, &self.fixed, &mut self.scratch, &mut self.sums);
        let (host, fixed) = (&self.host, &self.fixed);
        let split = SplitRequest {
            number: request.number,
            task: row.task,
            intended: row.intended.as_nanos(),
            latency_ns: row.latency().as_nanos(),
            parts: &self.sums,
        };
        let of_task = pass.tasks.get_mut(row.task as usize);
        for subject in std::iter::once(&mut pass.subject).chain(of_task) {
            subject.explanation.untold += u64::from(work.is_none());
            subject.explanation.together += u64::from(work.is_some_and(|work| work.together));
            subject.add(split, || phases.stretches(host, fixed));
        }
    }

    fn close_job(&mut self, job: ThreadJob) {
        let name = self.host.thread_name(job.thread);
        let Some(subject) = self.job_subjects.get_mut(&name) else {
            return;
        };
        let phases = RequestPhases::of_job(job);
        self.sums.iter_mut().for_each(|sum| *sum = 0);
        phases.add(&self.host, &self.fixed, &mut self.scratch, &mut self.sums);
        let (host, fixed) = (&self.host, &self.fixed);
        let split = SplitRequest {
            number: subject.explanation.requests,
            task: 0,
            intended: job.release,
            latency_ns: job.completion - job.release,
            parts: &self.sums,
        };
        subject.add(split, || phases.stretches(host, fixed));
    }

    fn finish(self, remarks: &[String]) -> Vec<Explanation> {
        let started = self.recording.header().started;
        let loads = self.loads.into_iter();
        let loads = loads.flat_map(|pass| std::iter::once(pass.subject).chain(pass.tasks));
        let subjects = loads.chain(self.job_subjects.into_values());
        let mut explanations: Vec<Explanation> = subjects
            .map(|subject| {
                let mut explanation = subject.finish(&self.host.parts, started);
                explanation.remarks.extend(remarks.iter().cloned());
                let not_apart = not_told_apart(&explanation);
                explanation.remarks.extend(not_apart);
                explanation
            })
            .collect();
        explanations
            .sort_by(|one, other| (&one.subject, &one.run).cmp(&(&other.subject, &other.run)));
        explanations
    }
}

impl<'a, B: PositionedBytes> LoadPass<'a, B> {
    fn new(
        recording: &'a KernelRecording<B>,
        load: RecordedLoad,
        place: &crate::recording::LoadPlace,
        options: &ExplainOptions,
        host: &HostState<'_>,
    ) -> Result<Self, KernelRecordingError> {
        let mut latencies = vec![Vec::new(); load.tasks.len()];
        let mut all = Vec::new();
        for row in recording.requests(place) {
            let row = row?;
            if !row.warm_up {
                let latency = row.latency().as_nanos();
                all.push(latency);
                latencies
                    .get_mut(row.task as usize)
                    .into_iter()
                    .for_each(|of_task| of_task.push(latency));
            }
        }
        let subject = |name: String, latencies: Vec<u64>| {
            let explanation = Explanation {
                subject: name,
                run: load.run.clone(),
                ..Explanation::default()
            };
            ExplainedSubject::new(
                explanation,
                load.tasks.clone(),
                latencies,
                &options.quantiles,
            )
        };
        let several = load
            .tasks
            .iter()
            .zip(latencies)
            .filter(|_| load.tasks.len() > 1);
        let tasks =
            several.map(|(task, latencies)| subject(format!("{}.{task}", load.service), latencies));
        let tasks: Vec<ExplainedSubject> = tasks.collect();
        let mut subject = subject(load.service.clone(), all);
        subject.explanation.calibrated = load.calibrated;
        let mut rows = recording.requests(place);
        let next = rows.next().transpose()?;
        Ok(Self {
            only_thread: host.only_thread_of(&load.domain),
            load,
            rows,
            next,
            count: 0,
            subject,
            tasks,
        })
    }
}

/// What is not known of single requests.
fn not_told_apart(explanation: &Explanation) -> Vec<String> {
    let mut remarks = Vec::new();
    let of_all = explanation.requests;
    if explanation.untold > 0 {
        remarks.push(format!(
            "of {} of {of_all} requests it is not known which thread worked on them: their connections were opened and \
             closed between two looks, or system calls were not recorded",
            explanation.untold
        ));
    }
    if explanation.together > 0 {
        remarks.push(format!(
            "{} of {of_all} requests were answered together with others of their connection, by one write: the work for \
             them is known together only",
            explanation.together
        ));
    }
    remarks
}
