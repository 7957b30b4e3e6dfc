//! The threads of a run, where decisions meet the kernel.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use tailbound_linux::clock::{Monotonic, cpu_time_of_thread, sleep_until, thread_cpu_time};
use tailbound_linux::memory::touch_stack;
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::{SchedulingSetting, set_scheduling};
use tailbound_linux::thread::{ThreadError, make_current_thread_fifo, pin_current_thread};
use tailbound_simulator::hierarchy::{Completion, Job};
use tailbound_time::{Clock, Duration, Instant};

use super::busy::{BusyWork, Stalls, Trail};
use super::manager::{Band, Manager, Progress, Ranks};

/// The manager's, above all that it manages.
const MANAGER: u8 = 98;

/// The SCHED_FIFO priority of a band; hard tasks are told apart by their rank. There are 16 of them at
/// most.
pub fn priority(band: Band, rank: usize) -> u8 {
    let rank = rank.min(15) as u8;
    match band {
        Band::Server => 70,
        Band::Hard => 60 - rank,
        Band::Between => 40,
        Band::NotPromoted => 30 - rank,
        Band::Background => 5,
    }
}

/// What a thread has done, as the manager sees it.
#[derive(Debug, Default)]
struct Done {
    jobs: AtomicUsize,
    /// CLOCK_MONOTONIC, of the last one.
    at_ns: AtomicU64,
}

impl Done {
    fn one_more(&self, at: Instant) {
        self.at_ns.store(at.as_nanos(), Ordering::Relaxed);
        self.jobs.fetch_add(1, Ordering::Release);
    }
}

/// When a run begins and ends, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The critical instant.
    pub start: Instant,
    /// Nothing works after it.
    pub end: Instant,
}

/// What one thread has done in all.
#[derive(Clone, Debug, Default)]
pub struct Executed {
    /// Its jobs, with instants from the start of the run.
    pub completions: Vec<Completion>,
    /// CPU time.
    pub used: Duration,
    /// What held it up.
    pub stalls: Stalls,
    /// When it had the CPU, from the start of the run.
    pub on_cpu: Vec<(u64, u64)>,
}

/// Releases and executes jobs, in order, on the calling thread, whose rank is somebody else's business.
/// `around` is told before each job, and after its end.
pub fn execute(
    jobs: &[Job],
    span: Span,
    busy: &BusyWork,
    mut around: impl FnMut(&Job, Option<Instant>),
) -> Executed {
    let mut executed = Executed {
        completions: Vec::with_capacity(jobs.len()),
        ..Executed::default()
    };
    let mut trail = Trail::default();
    trail.on_cpu.reserve(4 * jobs.len());
    let before = thread_cpu_time();
    for job in jobs {
        around(job, None);
        let release = span.start + Duration::from_nanos(job.release);
        if sleep_until(release).is_err() {
            break;
        }
        let work = Duration::from_nanos(job.work);
        let Some(done) = busy.run(work, span.end, &mut trail) else {
            break;
        };
        executed.completions.push(Completion {
            task: job.task,
            number: job.number,
            release: job.release,
            end: done.saturating_since(span.start).as_nanos(),
        });
        around(job, Some(done));
    }
    executed.used = thread_cpu_time().saturating_sub(before);
    executed.stalls = trail.stalls;
    let start_ns = span.start.as_nanos();
    let since_start = |(from, until): (u64, u64)| {
        let (from, until) = (
            from.saturating_sub(start_ns),
            until.saturating_sub(start_ns),
        );
        (from, until)
    };
    executed.on_cpu = trail.on_cpu.into_iter().map(since_start).collect();
    executed
}

/// A thread that stands ready: its id, and where it waits for the start. The thread stays until this is
/// dropped, so that nobody takes another one that has got its id for it.
pub struct Ready<M> {
    /// The kernel's id of it.
    pub tid: u32,
    /// What it waits for.
    pub begin: Sender<M>,
}

/// Starts a thread at `priority` on `cpu`, ready to run `body` when it is told something. When this
/// returns it needs nobody's leave to run there but that of higher priorities.
pub fn start<'scope, 'env, M: Send + 'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    cpu: u32,
    priority: u8,
    body: impl FnOnce(M) -> T + Send + 'scope,
) -> Result<(Ready<M>, Worked<'scope, T>), ThreadError> {
    let (tell, reports) = channel::<Result<u32, ThreadError>>();
    let (begin, wait): (Sender<M>, Receiver<M>) = channel();
    let handle = scope.spawn(move || {
        // Without its priority it would have to wait on that CPU for all that have one.
        let ready = make_current_thread_fifo(priority).and_then(|()| pin_current_thread(cpu));
        touch_stack();
        let good = ready.is_ok();
        let _gone = tell.send(ready.map(|()| own_thread()));
        // Without a word something else failed, and nothing is run.
        let word = wait.recv().ok().filter(|_| good)?;
        let done = body(word);
        let _nobody_needs_this_thread = wait.recv();
        Some(done)
    });
    let tid = reports.recv().unwrap_or_else(|_| {
        Err(ThreadError::System {
            attempt: "start a thread",
            cause: std::io::Error::from(std::io::ErrorKind::BrokenPipe),
        })
    })?;
    Ok((Ready { tid, begin }, handle))
}

/// What a thread will have done; nothing if it was not told to begin.
pub type Worked<'scope, T> = ScopedJoinHandle<'scope, Option<T>>;

/// How the threads of a run are set up.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The only CPU.
    pub cpu: u32,
    /// Of each hard task its jobs.
    pub hard: &'a [Vec<Job>],
    /// The soft jobs, unless somebody else executes them.
    pub soft: Option<&'a [Job]>,
    /// From a release to the promotion, where hard jobs begin unpromoted.
    pub promotions: Option<&'a [Duration]>,
    /// Who changes ranks; nobody for the background.
    pub manager: Option<Manager>,
    /// The loop.
    pub busy: BusyWork,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Hard and soft jobs.
    pub completions: Vec<Completion>,
    /// CPU time that hard jobs took.
    pub hard_used: Duration,
    /// CPU time that soft jobs took.
    pub soft_used: Duration,
    /// When soft jobs had the CPU, from the start of the run, where they had a process of their own.
    pub soft_on_cpu: Vec<(u64, u64)>,
    /// CPU time that the manager took.
    pub manager_used: Duration,
    /// How often it looked.
    pub manager_looks: u64,
    /// What held hard and soft jobs up.
    pub stalls: Stalls,
    /// Changes of ranks that the kernel refused.
    pub refused: u64,
}

/// Runs it all; `span` is asked for once every thread stands ready, and may do more in the meantime.
pub fn run<E: From<ThreadError>>(
    setup: Setup<'_>,
    span: impl FnOnce() -> Result<Span, E>,
) -> Result<Ran, E> {
    let hard_done: Vec<Done> = setup.hard.iter().map(|_| Done::default()).collect();
    let soft_done = Done::default();
    let (hard_done, soft_done) = (&hard_done, &soft_done);
    let (cpu, busy) = (setup.cpu, setup.busy);
    std::thread::scope(|scope| {
        let (mut waiting, mut workers, mut hard_tids) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, jobs) in setup.hard.iter().enumerate() {
            let after = setup.promotions.and_then(|all| all.get(rank).copied());
            let band = after.map_or(Band::Hard, |_| Band::NotPromoted);
            let done = &hard_done[rank];
            let body = move |span| hard(jobs, rank, after, span, &busy, done);
            let (ready, handle) = start(scope, cpu, priority(band, rank), body)?;
            hard_tids.push(ready.tid);
            waiting.push(ready);
            workers.push(handle);
        }
        let mut soft_tid = 0;
        if let Some(jobs) = setup.soft {
            let body = move |span| {
                execute(jobs, span, &busy, |_, done| {
                    if let Some(at) = done {
                        soft_done.one_more(at);
                    }
                })
            };
            let (ready, handle) = start(scope, cpu, priority(Band::Background, 0), body)?;
            soft_tid = ready.tid;
            waiting.push(ready);
            workers.push(handle);
        }
        let managing = match setup.manager {
            Some(manager) => {
                let threads = Threads::new(hard_tids, soft_tid);
                let body = move |span| manage(manager, threads, hard_done, soft_done, span);
                Some(start(scope, cpu, MANAGER, body)?)
            }
            None => None,
        };
        let span = span()?;
        for ready in &waiting {
            let _ended = ready.begin.send(span);
        }
        let threads = managing.and_then(|(ready, handle)| {
            let _ended = ready.begin.send(span);
            drop(ready);
            joined(handle)
        });
        // The manager changes no rank any more.
        drop(waiting);
        let executed: Vec<Executed> = workers.into_iter().filter_map(joined).collect();
        Ok(Ran::of(setup.soft.is_some(), executed, threads))
    })
}

/// Waits for a thread's end.
pub fn joined<T>(handle: Worked<'_, T>) -> Option<T> {
    match handle.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Ran {
    fn of(with_soft: bool, executed: Vec<Executed>, threads: Option<Threads>) -> Self {
        let mut ran = Self::default();
        let used = executed.iter().map(|one| one.used);
        let all = used.fold(Duration::ZERO, Duration::saturating_add);
        if let Some(soft) = executed.last().filter(|_| with_soft) {
            ran.soft_used = soft.used;
        }
        ran.hard_used = all.saturating_sub(ran.soft_used);
        for one in executed {
            ran.completions.extend(one.completions);
            ran.stalls = ran.stalls.and(one.stalls);
        }
        if let Some(threads) = threads {
            ran.manager_used = threads.used;
            ran.manager_looks = threads.looks;
            ran.refused = threads.refused;
        }
        ran
    }
}

/// A hard task's thread. Under dual priority it leaves its promotion with every job.
fn hard(
    jobs: &[Job],
    rank: usize,
    after: Option<Duration>,
    span: Span,
    busy: &BusyWork,
    done: &Done,
) -> Executed {
    let own = own_thread();
    execute(jobs, span, busy, |job, end| match (end, after) {
        (Some(at), _) => done.one_more(at),
        (None, Some(after)) => {
            let _refused = set_fifo(own, priority(Band::NotPromoted, rank));
            // Late, it is promoted before it begins. The manager may have done so between its count
            // of our jobs and here.
            let due = span.start + Duration::from_nanos(job.release) + after;
            if Monotonic.now() >= due {
                let _refused = set_fifo(own, priority(Band::Hard, rank));
            }
        }
        (None, None) => {}
    })
}

fn set_fifo(tid: u32, priority: u8) -> std::io::Result<()> {
    let reset_on_fork = true;
    set_scheduling(
        tid,
        SchedulingSetting::Fifo {
            priority,
            reset_on_fork,
        },
    )
}

/// The threads whose ranks the manager changes, and what that took.
struct Threads {
    hard: Vec<u32>,
    soft: u32,
    refused: u64,
    looks: u64,
    used: Duration,
}

impl Threads {
    fn new(hard: Vec<u32>, soft: u32) -> Self {
        Self {
            hard,
            soft,
            refused: 0,
            looks: 0,
            used: Duration::ZERO,
        }
    }

    fn set(&mut self, tid: u32, priority: u8) {
        if set_fifo(tid, priority).is_err() {
            self.refused += 1;
        }
    }
}

impl Ranks for Threads {
    fn soft(&mut self, band: Band) {
        self.set(self.soft, priority(band, 0));
    }

    fn promote(&mut self, task: usize) {
        if let Some(tid) = self.hard.get(task).copied() {
            self.set(tid, priority(Band::Hard, task));
        }
    }
}

/// The manager's thread. It runs on the CPU that it manages, so that CPU times are exact: the threads
/// are not running while it reads them.
fn manage(
    mut manager: Manager,
    mut threads: Threads,
    hard_done: &[Done],
    soft_done: &Done,
    span: Span,
) -> Threads {
    let before = thread_cpu_time();
    let zero = cpu_time_of_thread(threads.soft).unwrap_or_default();
    let mut counts = vec![0; hard_done.len()];
    let mut next = Some(Instant::ORIGIN);
    while let Some(at) = next {
        let at = span
            .start
            .saturating_add(at.saturating_since(Instant::ORIGIN));
        if at >= span.end || sleep_until(at).is_err() {
            break;
        }
        threads.looks += 1;
        for (count, done) in counts.iter_mut().zip(hard_done) {
            *count = done.jobs.load(Ordering::Acquire);
        }
        let since_start = |at: Instant| {
            let passed = at.saturating_since(span.start);
            Instant::ORIGIN.saturating_add(passed)
        };
        let used = cpu_time_of_thread(threads.soft).unwrap_or_default();
        let jobs = soft_done.jobs.load(Ordering::Acquire);
        let progress = Progress {
            soft_used: used.saturating_sub(zero),
            soft_done: jobs,
            soft_done_at: since_start(Instant::from_nanos(soft_done.at_ns.load(Ordering::Relaxed))),
            hard_done: &counts,
        };
        next = manager.advance(since_start(Monotonic.now()), &progress, &mut threads);
    }
    threads.used = thread_cpu_time().saturating_sub(before);
    threads
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tailbound_linux::scheduling::{affinity_of, scheduling_of};

    use super::*;

    #[test]
    fn bands_do_not_overlap() {
        let bands = [
            Band::Background,
            Band::NotPromoted,
            Band::Between,
            Band::Hard,
            Band::Server,
        ];
        for pair in bands.windows(2) {
            assert!(pair[0] > pair[1]);
            assert!(priority(pair[0], 0) < priority(pair[1], 15));
        }
        assert!(priority(Band::Server, 0) < MANAGER);
    }

    #[test]
    fn a_thread_stands_ready_and_stays_until_nobody_needs_it() {
        let cpu = tailbound_linux::thread::current_cpu().unwrap();
        std::thread::scope(|scope| {
            let (tell, reports) = channel();
            let body = move |word: u32| {
                tell.send(word).unwrap();
                word + 1
            };
            let (ready, handle) = match start(scope, cpu, 5, body) {
                Err(ThreadError::FifoNotPermitted { .. }) => {
                    return eprintln!("SKIP a thread stands ready: needs CAP_SYS_NICE");
                }
                started => started.unwrap(),
            };
            let rank = SchedulingSetting::Fifo {
                priority: 5,
                reset_on_fork: true,
            };
            assert_eq!(scheduling_of(ready.tid).unwrap(), rank);
            assert_eq!(affinity_of(ready.tid).unwrap(), [cpu].into());
            ready.begin.send(7).unwrap();
            assert_eq!(reports.recv(), Ok(7));
            // Its work is done, or will be in a moment, and its id is still its own.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(set_fifo(ready.tid, 6).is_ok());
            drop(ready);
            assert_eq!(joined(handle), Some(8));
        });
    }
}
