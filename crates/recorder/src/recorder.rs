//! A recording from its start to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tailbound_linux::clock::{Monotonic, thread_cpu_time};
use tailbound_linux::kernel_tables::{interrupt_names, replenishing_timers, symbols};
use tailbound_linux::process::{own_thread, with_descendants};
use tailbound_linux::thread::pin_current_thread;
use tailbound_linux::tracefs::{FunctionProbes, TraceFs, TraceInstance};
use tailbound_time::{Clock, Duration};
use tailbound_trace::recording::{
    ChunkKind, ChunkWriter, ClockError, RecordedDomain, RecordedLoad, RecordingEnd,
    RecordingHeader, RequestRow, SamplerDelay,
};

use crate::RecorderError;
use crate::clock_check::check_clock;
use crate::drain::PageSource;
use crate::event_cost::measure_event_cost;
use crate::inventory::{processes, socket_snapshot, threads};
use crate::setup::{enable_calls, enable_locks, enable_scheduling, event_threads, make_instance};

/// How often the buffers are emptied: at a million events a second, the buffers below hold many times as much.
const DRAIN_EVERY: std::time::Duration = std::time::Duration::from_millis(20);
/// Requests of one chunk.
const ROWS_PER_CHUNK: usize = 8192;

/// What is recorded, and how.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// When the recording begins, RFC 3339 in UTC.
    pub started_at: String,
    /// The host, for the header.
    pub host: BTreeMap<String, String>,
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// The processes whose system calls are recorded, with their children to come.
    pub call_pids: BTreeSet<u32>,
    /// The domains that are enforced.
    pub domains: Vec<RecordedDomain>,
    /// The CPU of the recorder's own thread.
    pub own_cpu: Option<u32>,
    /// KiB of buffer for each CPU.
    pub buffer_kib: u64,
    /// The distance between the looks of whoever samples stalls, for [`EventRecorder::note_delays`]; `None` where nobody does.
    pub looks_apart: Option<Duration>,
    /// What is recorded of the kernel's locks.
    pub locks: RecordedLocks,
}

/// What is recorded of the kernel's locks, of which there may be millions of events a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordedLocks {
    /// Nothing.
    #[default]
    Nothing,
    /// Waits.
    Waits,
    /// Waits, and every call that takes or gives up a lock.
    Sections,
}

/// The thread that takes the pages; its CPU time.
type DrainThread = JoinHandle<io::Result<Duration>>;
type Writer = ChunkWriter<BufWriter<File>>;

/// A recording that goes on until [`EventRecorder::stop`]. Dropping it ends it without an end chunk.
#[derive(Debug)]
pub struct EventRecorder {
    options: RecorderOptions,
    writer: Arc<Mutex<Writer>>,
    scheduling: TraceInstance,
    calls: TraceInstance,
    stop: Arc<AtomicBool>,
    drain: Option<DrainThread>,
    clock_error: Option<ClockError>,
    event_cost: Option<Duration>,
    first_pids: BTreeSet<u32>,
    call_pids: BTreeSet<u32>,
    /// Behind the instances, which have their events on and are dropped before.
    probes: Option<FunctionProbes>,
}

impl EventRecorder {
    /// Begins a recording into a file.
    ///
    /// # Errors
    /// tracefs cannot be used, or the file not be written.
    pub fn start(options: RecorderOptions, out: File) -> Result<Self, RecorderError> {
        let fs =
            TraceFs::open().map_err(|cause| RecorderError::tracefs("opening tracefs", cause))?;
        let scheduling = make_instance(&fs, options.buffer_kib)?;
        // An event of a call is a third of a switch, and only some threads have them.
        let calls = make_instance(&fs, (options.buffer_kib / 4).max(1))?;
        let mut missing = Vec::new();
        let mut call_pages = open_pages(&calls, &options.cpus)?;
        let clock_error = check_clock(&calls, &mut call_pages)
            .map_err(|cause| missing.push(format!("the error of the clock: {cause}")))
            .ok();
        let event_cost = measure_event_cost(&calls)
            .map_err(|cause| missing.push(format!("the cost of an event: {cause}")))
            .ok()
            .flatten();
        let writer = ChunkWriter::new(BufWriter::new(out)).map_err(RecorderError::Write)?;
        let mut formats = enable_scheduling(
            &scheduling,
            options.locks >= RecordedLocks::Waits,
            &mut missing,
        )?;
        let (probes, symbols) =
            lock_probes(options.locks, &fs, &scheduling, &mut formats, &mut missing)?;
        let (call_formats, call_names) =
            enable_calls(&calls, &threads(&options.call_pids), &mut missing);
        formats.extend(call_formats);
        let processes = processes();
        let first_pids = processes.iter().map(|process| process.pid).collect();
        let mut recorder = Self {
            call_pids: options.call_pids.clone(),
            writer: Arc::new(Mutex::new(writer)),
            scheduling,
            calls,
            stop: Arc::new(AtomicBool::new(false)),
            drain: None,
            clock_error,
            event_cost,
            first_pids,
            options,
            probes,
        };
        // Readers of pages keep an instance: they go before the recorder does, if something fails below.
        let mut sources = sources(ChunkKind::CallPages, call_pages);
        let pages = open_pages(&recorder.scheduling, &recorder.options.cpus)?;
        sources.extend(self::sources(ChunkKind::SchedulerPages, pages));
        let header = RecordingHeader {
            started_at: recorder.options.started_at.clone(),
            started: Monotonic.now(),
            host: recorder.options.host.clone(),
            cpus: recorder.options.cpus.clone(),
            formats,
            calls: call_names,
            // Without these tables names are missing, and nothing else.
            interrupt_lines: interrupt_names().unwrap_or_default(),
            timer_functions: replenishing_timers().unwrap_or_default(),
            symbols,
            processes,
            domains: recorder.options.domains.clone(),
            looks_apart: recorder.options.looks_apart,
            missing,
        };
        recorder.write(|writer| writer.write_json(ChunkKind::Header, &header))?;
        recorder.start_drain(sources)?;
        recorder.switch("1")?;
        Ok(recorder)
    }

    /// Records the system calls of further processes, and of their children to come.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn follow(&mut self, pids: &BTreeSet<u32>) -> Result<(), RecorderError> {
        self.call_pids.extend(pids);
        let threads = event_threads(&threads(&self.call_pids));
        let written = self.calls.write("set_event_pid", &threads);
        written.map_err(|cause| RecorderError::tracefs("choosing processes", cause))
    }

    /// Notes which sockets the processes have whose system calls are recorded, and `more`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_sockets(&self, more: &BTreeSet<u32>) -> Result<(), RecorderError> {
        let pids: BTreeSet<u32> = self.call_pids.union(more).copied().collect();
        // A process that was made for a connection has its descriptor alone.
        let pids = with_descendants(&pids).unwrap_or(pids);
        let snapshot = socket_snapshot(&pids, Monotonic.now());
        self.write(|writer| writer.write_json(ChunkKind::Sockets, &snapshot))
    }

    /// Notes a load that was measured meanwhile, and its requests.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_load(
        &self,
        load: &RecordedLoad,
        requests: &[RequestRow],
    ) -> Result<(), RecorderError> {
        self.write(|writer| {
            writer.write_json(ChunkKind::Load, load)?;
            for rows in requests.chunks(ROWS_PER_CHUNK) {
                let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
                writer.write(ChunkKind::Requests, 0, &bytes)?;
            }
            Ok(())
        })
    }

    /// Notes the late looks of a sampler of stalls, in order of when they were due.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_delays(&self, cpu: u32, delays: &[SamplerDelay]) -> Result<(), RecorderError> {
        let bytes: Vec<u8> = delays.iter().flat_map(|delay| delay.to_bytes()).collect();
        let cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
        self.write(|writer| writer.write(ChunkKind::SamplerDelays, cpu, &bytes))
    }

    /// Ends the recording: what the kernel still holds is taken, and the instances are removed. `remarks` go into it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stop(mut self, remarks: Vec<String>) -> Result<RecordingEnd, RecorderError> {
        self.switch("0")?;
        let mut end = RecordingEnd {
            ended: Monotonic.now(),
            clock_error: self.clock_error,
            event_cost: self.event_cost,
            remarks,
            ..RecordingEnd::default()
        };
        end.recorder = self.end_drain()?;
        for instance in [&self.scheduling, &self.calls] {
            for cpu in &self.options.cpus {
                let stats = instance
                    .read(&format!("per_cpu/cpu{cpu}/stats"))
                    .unwrap_or_default();
                let stat = |name: &str| stat(&stats, name);
                end.events += stat("read events") + stat("entries");
                end.lost += stat("overrun") + stat("commit overrun");
                end.dropped += stat("dropped events");
            }
        }
        let news = processes().into_iter();
        end.processes = news
            .filter(|process| !self.first_pids.contains(&process.pid))
            .collect();
        self.write(|writer| {
            writer.write_json(ChunkKind::End, &end)?;
            writer.flush()
        })?;
        Ok(end)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes()
    }

    fn switch(&self, on: &str) -> Result<(), RecorderError> {
        for instance in [&self.scheduling, &self.calls] {
            let written = instance.write("tracing_on", on);
            written
                .map_err(|cause| RecorderError::tracefs("switching recording on or off", cause))?;
        }
        Ok(())
    }

    /// Starts the thread that takes the pages.
    fn start_drain(&mut self, mut sources: Vec<PageSource>) -> Result<(), RecorderError> {
        let (stop, writer, cpu) = (self.stop.clone(), self.writer.clone(), self.options.own_cpu);
        let (sender, receiver) = channel();
        let drain = move || {
            // Nobody receives the number after an error elsewhere.
            let _is_received = sender.send(own_thread());
            if let Some(cpu) = cpu {
                // On another CPU it works as well.
                let _stays_where_it_is = pin_current_thread(cpu);
            }
            loop {
                let last = stop.load(Ordering::Relaxed);
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                let mut is_empty = true;
                for source in &mut sources {
                    is_empty &= source.drain(&mut writer)?;
                }
                if last && is_empty {
                    sources
                        .iter_mut()
                        .try_for_each(|source| source.write(&mut writer))?;
                    return Ok(thread_cpu_time());
                }
                drop(writer);
                if is_empty {
                    std::thread::sleep(DRAIN_EVERY);
                }
            }
        };
        let thread = std::thread::Builder::new().name("recorder".into());
        self.drain = Some(thread.spawn(drain).map_err(RecorderError::Thread)?);
        if let (Some(probes), Ok(thread)) = (&self.probes, receiver.recv()) {
            // The reader takes locks for every page that it reads, and would record more than anybody else.
            let left_out = probes.leave_out(thread, &self.scheduling);
            left_out.map_err(RecorderError::Probes)?;
        }
        Ok(())
    }

    /// Ends the thread that takes the pages; its CPU time.
    fn end_drain(&mut self) -> Result<Duration, RecorderError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.drain.take().map(JoinHandle::join) {
            Some(Ok(drained)) => drained.map_err(RecorderError::Write),
            _ => Ok(Duration::ZERO),
        }
    }

    fn write(
        &self,
        write: impl FnOnce(&mut Writer) -> io::Result<()>,
    ) -> Result<(), RecorderError> {
        write(&mut self.lock()).map_err(RecorderError::Write)
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EventRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(drain) = self.drain.take() {
            // A reader of pages would keep the instances.
            let _ended = drain.join();
        }
    }
}

/// The probes of locks and the symbols by which their places have names, where locks are recorded.
fn lock_probes(
    locks: RecordedLocks,
    fs: &TraceFs,
    scheduling: &TraceInstance,
    formats: &mut Vec<String>,
    missing: &mut Vec<String>,
) -> Result<(Option<FunctionProbes>, BTreeMap<u64, String>), RecorderError> {
    if locks != RecordedLocks::Sections {
        return Ok((None, BTreeMap::new()));
    }
    let (probes, lock_formats) = enable_locks(fs, scheduling, missing)?;
    formats.extend(lock_formats);
    // Without this table places are addresses, and nothing else.
    Ok((Some(probes), symbols().unwrap_or_default()))
}

fn open_pages(instance: &TraceInstance, cpus: &[u32]) -> Result<Vec<(u32, File)>, RecorderError> {
    let open = |cpu: &u32| {
        let pages = instance.open_pages(*cpu);
        let pages = pages.map_err(|cause| {
            RecorderError::tracefs(format!("reading the buffer of CPU {cpu}"), cause)
        });
        pages.map(|pages| (*cpu, pages))
    };
    cpus.iter().map(open).collect()
}

fn sources(kind: ChunkKind, pages: Vec<(u32, File)>) -> Vec<PageSource> {
    let pages = pages.into_iter();
    pages
        .map(|(cpu, pages)| PageSource::new(kind, cpu, pages))
        .collect()
}

/// A number of a buffer's `stats`.
fn stat(stats: &str, name: &str) -> u64 {
    let number = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(": ")?
            .trim()
            .parse()
            .ok()
    };
    stats.lines().find_map(number).unwrap_or(0)
}
