//! A domain for `bench/modes`: periodic tasks under fixed priorities in one thread, with an agent inside, and a
//! count of the jobs that miss their deadlines.
//!
//! ```text
//! protocol_tasks --connect SOCKET --answer at-once|when-done TASK,PERIOD_MS,WORK_US ...
//! ```
//!
//! Tasks are named in the order of their priorities, the deadline is the period. The thread looks at releases
//! after every tenth of a millisecond of work, so that a job of a higher priority preempts others. A stopped task
//! releases nothing more, and its last job goes on to its end: nothing is cut. The agent answers a stop either at
//! once, or when that job is done. Jobs and misses are told at the end of the input.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::process::boot_id;
use tailbound_modes::agent::callback::SwitchedByCall;
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::{Agent, Patience, TaskTable};
use tailbound_modes::wire::Name;
use tailbound_time::{Clock, Duration, Instant};

/// Between looks at releases.
const CHUNK: Duration = Duration::from_micros(100);
/// Nothing runs longer, whatever happens to who started it.
const LONGEST: Duration = Duration::from_secs(300);

/// A task as the agent and the executing thread share it.
struct Task {
    name: String,
    period: Duration,
    chunks: u64,
    is_started: AtomicBool,
    has_work: AtomicBool,
    jobs: AtomicU64,
    missed: AtomicU64,
}

/// Where a task stands in the executing thread.
#[derive(Clone, Default)]
struct Course {
    /// The next release; none while it is stopped.
    next: Option<Instant>,
    /// Deadlines and chunks left of the jobs that are not done, the oldest first.
    left: Vec<(Instant, u64)>,
}

fn burn(iterations: u64) {
    let mut value = iterations;
    for _ in 0..iterations {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
    }
}

/// Iterations of a chunk where nothing else runs: by the shortest of many timings.
fn calibrate() -> u64 {
    const ITERATIONS: u64 = 100_000;
    let timings = (0..400).map(|_| {
        let begun = Monotonic.now();
        burn(ITERATIONS);
        Monotonic.now().saturating_since(begun).as_nanos()
    });
    ITERATIONS * CHUNK.as_nanos() / timings.min().expect("timings").max(1)
}

/// Executes jobs until the end.
fn execute(tasks: &[Arc<Task>], iterations: u64, end: &AtomicBool) {
    let mut courses = vec![Course::default(); tasks.len()];
    let last = Monotonic.now() + LONGEST;
    while !end.load(Ordering::Relaxed) && Monotonic.now() < last {
        let now = Monotonic.now();
        for (task, course) in tasks.iter().zip(&mut courses) {
            release(task, course, now);
        }
        let Some(place) = courses.iter().position(|course| !course.left.is_empty()) else {
            let next = courses.iter().filter_map(|course| course.next).min();
            let soon = now + Duration::from_millis(1);
            sleep_until(next.map_or(soon, |next| next.min(soon))).expect("a timer");
            continue;
        };
        burn(iterations);
        // The agent's thread has the same priority: the reservation's.
        std::thread::yield_now();
        let (task, course) = (&tasks[place], &mut courses[place]);
        course.left[0].1 -= 1;
        if course.left[0].1 == 0 {
            let (deadline, _) = course.left.remove(0);
            task.jobs.fetch_add(1, Ordering::Relaxed);
            let is_late = Monotonic.now() > deadline;
            task.missed.fetch_add(u64::from(is_late), Ordering::Relaxed);
            task.has_work
                .store(!course.left.is_empty(), Ordering::SeqCst);
        }
    }
}

/// Releases what is due.
fn release(task: &Task, course: &mut Course, now: Instant) {
    if !task.is_started.load(Ordering::SeqCst) {
        course.next = None;
        return;
    }
    let mut next = *course.next.get_or_insert(now);
    while next <= now {
        // Before the agent looks whether there is any.
        task.has_work.store(true, Ordering::SeqCst);
        course.left.push((next + task.period, task.chunks));
        next = next + task.period;
    }
    course.next = Some(next);
}

fn task(text: &str) -> Arc<Task> {
    let parts: Vec<&str> = text.split(',').collect();
    let [name, period_ms, work_us] = parts[..] else {
        panic!("TASK,PERIOD_MS,WORK_US");
    };
    let work = Duration::from_micros(work_us.parse().expect("microseconds"));
    Arc::new(Task {
        name: name.to_owned(),
        period: Duration::from_millis(period_ms.parse().expect("milliseconds")),
        chunks: work.as_nanos() / CHUNK.as_nanos(),
        is_started: AtomicBool::default(),
        has_work: AtomicBool::default(),
        jobs: AtomicU64::default(),
        missed: AtomicU64::default(),
    })
}

/// The calls that switch the tasks.
fn table(tasks: &[Arc<Task>], waits: bool) -> TaskTable {
    let mut table = TaskTable::new();
    for task in tasks {
        let name: Name = task.name.parse().expect("a name");
        let own = Arc::clone(task);
        let call = move |starts: bool| {
            own.is_started.store(starts, Ordering::SeqCst);
            // A release that is under way is over by then.
            let mut quiet = 0;
            while waits && !starts && quiet < 2 {
                sleep_until(Monotonic.now() + CHUNK * 2).map_err(|error| error.to_string())?;
                let is_idle = !own.has_work.load(Ordering::SeqCst);
                quiet = if is_idle { quiet + 1 } else { 0 };
            }
            Ok(())
        };
        let control = SwitchedByCall::new(name.clone(), false, call);
        table.add(name, Box::new(control)).expect("another task");
    }
    table
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connect, socket, answer, how, tasks @ ..] = &arguments[..] else {
        panic!(
            "protocol_tasks --connect SOCKET --answer at-once|when-done TASK,PERIOD_MS,WORK_US ..."
        );
    };
    assert_eq!(
        (connect.as_str(), answer.as_str()),
        ("--connect", "--answer")
    );
    let tasks: Vec<Arc<Task>> = tasks.iter().map(|text| task(text)).collect();
    let iterations = calibrate();
    println!("ready");
    let end = Arc::new(AtomicBool::default());
    let (shared, ended) = (tasks.clone(), Arc::clone(&end));
    let executing = std::thread::spawn(move || execute(&shared, iterations, &ended));
    let table = table(&tasks, how == "when-done");
    let socket = std::path::PathBuf::from(socket);
    let failed = Arc::new(Mutex::new(None));
    let failure = Arc::clone(&failed);
    std::thread::spawn(move || {
        let agent = Agent::new(
            "arm".parse().expect("a name"),
            &boot_id().expect("a boot"),
            UnixConnector::new(socket),
            table,
            Monotonic,
            Patience::default(),
        );
        let ran = agent.and_then(|mut agent| agent.run(&mut |_| {}));
        *failure.lock().expect("no panic") = ran.err().map(|error| error.to_string());
    });
    let mut input = Vec::new();
    let _closed = std::io::stdin().read_to_end(&mut input);
    end.store(true, Ordering::Relaxed);
    executing.join().expect("no panic");
    if let Some(error) = failed.lock().expect("no panic").take() {
        panic!("{error}");
    }
    for task in &tasks {
        let (jobs, missed) = (&task.jobs, &task.missed);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        println!("{} {} {}", task.name, of(jobs), of(missed));
    }
}
