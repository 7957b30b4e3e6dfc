//! Schedules that the kernel recorded: imported, they are what the threads themselves logged, and
//! simulated, they take as long as they took.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tailbound_linux::capabilities::Feature;
use tailbound_linux::clock::{Monotonic, sleep_until, thread_cpu_time};
use tailbound_linux::process::own_thread;
use tailbound_linux::scheduling::affinity_of;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_linux::{HostCapabilities, process};
use tailbound_time::{Clock, Duration, Instant};

use crate::bench::Bench;

/// Name, FIFO priority, period, offset and execution time of each task: the lower ones are preempted.
const TASKS: [(&str, u8, u64, u64, u64); 3] = [
    ("high", 30, 10_000_000, 0, 2_000_000),
    ("mid", 20, 20_000_000, 9_000_000, 3_000_000),
    ("low", 10, 50_000_000, 4_000_000, 6_000_000),
];
/// How long they are recorded.
const LENGTH_NS: u64 = 600_000_000;
/// How often it is tried to find the host calm.
const MOST_ATTEMPTS: u32 = 5;

/// Records in a buffer of its own, in a mount namespace of its own, until its standard input ends, be
/// it that we died; then nothing of it is left.
const RECORDER: &str = r#"
set -e
mkdir -p tracefs
mount -t tracefs nodev tracefs
own=tracefs/instances/tailbound-test-$$
mkdir $own
trap 'rmdir $own' EXIT
echo mono > $own/trace_clock
echo 16384 > $own/buffer_size_kb
for event in sched_switch sched_waking sched_wakeup sched_wakeup_new; do
    echo 1 > $own/events/sched/$event/enable
done
echo ready
cat > ignored
echo 0 > $own/tracing_on
cat $own/trace > recorded.txt
rmdir $own
trap - EXIT
ls tracefs/instances > left
echo done
"#;

/// One job as its thread saw it.
#[derive(Clone, Copy)]
struct Logged {
    planned: Instant,
    /// When it ran first.
    woken: Instant,
    used: Duration,
    end: Instant,
}

/// A row of what was imported or simulated.
#[derive(Clone, Copy)]
struct Row {
    release_ns: u64,
    execution_ns: u64,
    response_ns: u64,
}

fn recorder(bench: &Bench) -> Option<(Child, BufReader<impl Read>)> {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", RECORDER])
        .current_dir(bench.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut says = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    says.read_line(&mut line).unwrap();
    if line.trim() == "ready" {
        return Some((child, says));
    }
    drop(child.stdin.take());
    let _ended = child.wait();
    None
}

/// Runs the tasks on `cpu`; the number of each thread, and its jobs.
fn run_tasks(cpu: u32) -> BTreeMap<&'static str, (u32, Vec<Logged>)> {
    let start = Monotonic.now() + Duration::from_millis(50);
    let threads = TASKS.map(|(name, priority, period_ns, offset_ns, cost_ns)| {
        let work = move || {
            pin_current_thread(cpu).unwrap();
            make_current_thread_fifo(priority).unwrap();
            let jobs = (0..LENGTH_NS / period_ns).map(|number| {
                let planned = start + Duration::from_nanos(offset_ns + number * period_ns);
                sleep_until(planned).unwrap();
                let woken = Monotonic.now();
                let before = thread_cpu_time();
                let enough = before + Duration::from_nanos(cost_ns);
                while thread_cpu_time() < enough {}
                Logged {
                    planned,
                    woken,
                    used: thread_cpu_time().saturating_sub(before),
                    end: Monotonic.now(),
                }
            });
            let jobs = jobs.collect();
            (own_thread(), jobs)
        };
        let thread = std::thread::Builder::new().name(format!("tb {name}:x"));
        (name, thread.spawn(work).unwrap())
    });
    let joined = threads.map(|(name, thread)| (name, thread.join().unwrap()));
    BTreeMap::from(joined)
}

/// The rows of a CSV file that has these columns, by the first column if that is the task.
fn rows(path: &Path) -> BTreeMap<String, Vec<Row>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| header.iter().position(|column| *column == name);
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |name: &str| place(name).map_or(0, |at| cells[at].parse().unwrap());
        let task = place("task").map_or("", |at| cells[at]);
        rows.entry(task.into()).or_default().push(Row {
            release_ns: number("release_ns"),
            execution_ns: number("execution_ns"),
            response_ns: number("response_ns"),
        });
    }
    rows
}

/// Imports the jobs of each thread, and writes `recorded.toml` in which they run together; what was
/// imported, by task.
fn import(
    bench: &Bench,
    recording: &str,
    threads: &[(&str, Vec<&str>)],
) -> BTreeMap<String, Vec<Row>> {
    let mut description = String::from(
        "schema_version = 1\nname = \"recorded\"\n\n[hosts.local]\ncpus = [0]\n\n[domains.work]\n\
         kind = \"process\"\ncpus = [0]\nscheduling = \"fixed-priority\"\n",
    );
    let mut imported = BTreeMap::new();
    for (rank, (name, selection)) in threads.iter().enumerate() {
        let out = format!("{name}.csv");
        let mut arguments = vec!["import", "kernel-trace", recording, "--out", &out];
        arguments.extend(selection);
        bench.run(&arguments).expect(0, &["Recorded by the kernel"]);
        let mut jobs = rows(&bench.path().join(&out));
        imported.insert(name.to_string(), jobs.remove("").unwrap());
        description += &format!(
            "\n[domains.work.tasks.{name}]\npriority = {}\narrivals = {{ kind = \"trace\", file = \
             \"{out}\" }}\nexecution_time = {{ kind = \"trace\" }}\n",
            30 - rank
        );
    }
    bench.write("recorded.toml", &description);
    imported
}

/// Simulates what was imported. At least 80% of all jobs must respond within 5% of what was recorded:
/// what they execute and who is before whom is known, and only interrupts, the scheduler itself and
/// the host's stalls are not.
fn simulation_agrees(bench: &Bench, imported: &BTreeMap<String, Vec<Row>>) {
    let arguments = [
        "simulate",
        "recorded.toml",
        "-d",
        "3s",
        "--export-schedule",
        "schedule",
    ];
    bench.run(&arguments).expect(0, &[]);
    let simulated = rows(&bench.path().join("schedule/local.cpu0.jobs.csv"));
    let (mut agree, mut all) = (0, 0);
    for (name, recorded) in imported {
        let simulated = &simulated[&format!("work.{name}")];
        assert_eq!(simulated.len(), recorded.len(), "{name}");
        for (ours, theirs) in simulated.iter().zip(recorded) {
            assert_eq!(ours.release_ns, theirs.release_ns, "{name}");
            let apart_ns = ours.response_ns.abs_diff(theirs.response_ns);
            agree += usize::from(apart_ns * 20 <= theirs.response_ns);
            all += 1;
        }
    }
    eprintln!("{agree} of {all} simulated response times are within 5% of the recorded ones");
    assert!(agree * 10 >= all * 8, "{agree} of {all}");
}

/// Whether the host let the thread before all others run when it was woken, nearly always. Where it did
/// not, the hypervisor or the kernel had the CPU, which no schedule of threads can tell.
fn calm(highest: &[Row]) -> bool {
    let held_up = highest
        .iter()
        .filter(|row| row.response_ns * 20 > row.execution_ns * 21)
        .count();
    held_up * 20 <= highest.len()
}

/// Records the tasks, compares with what they logged, and tells what was imported, and whether the tasks
/// kept up with their releases; `None` where nothing can be recorded.
fn record(bench: &Bench) -> Option<(BTreeMap<String, Vec<Row>>, bool)> {
    let (mut child, mut says) = recorder(bench)?;
    let cpus = affinity_of(process::own_thread()).unwrap();
    let logged = run_tasks(*cpus.last().unwrap());
    drop(child.stdin.take());
    let mut last = String::new();
    says.read_to_string(&mut last).unwrap();
    assert!(child.wait().unwrap().success() && last.trim() == "done");
    let own = format!("tailbound-test-{}", child.id());
    let left = fs::read_to_string(bench.path().join("left")).unwrap();
    assert!(!left.contains(&own), "{left}");

    let pids: Vec<String> = TASKS.map(|task| logged[task.0].0.to_string()).into();
    let threads: Vec<(&str, Vec<&str>)> = TASKS
        .iter()
        .zip(&pids)
        .map(|(task, pid)| (task.0, vec!["--pid", pid.as_str()]))
        .collect();
    let imported = import(bench, "recorded.txt", &threads);
    let text = fs::read_to_string(bench.path().join("recorded.txt")).unwrap();
    let first_ns = first_event_ns(&text);
    let mut kept_up = true;
    for (name, ..) in TASKS {
        let (rows, jobs) = (&imported[name], &logged[name].1);
        kept_up &= compare_with_log(name, first_ns, rows, jobs);
    }
    Some((imported, kept_up))
}

#[test]
fn a_recorded_schedule_is_what_its_threads_logged_and_what_simulation_makes_of_it() {
    let test = "a_recorded_schedule_is_what_its_threads_logged_and_what_simulation_makes_of_it";
    let bench = Bench::new();
    let fifo = HostCapabilities::probe().has(Feature::SchedFifo);
    for _ in 0..MOST_ATTEMPTS {
        let Some((imported, kept_up)) = fifo.then(|| record(&bench)).flatten() else {
            eprintln!("SKIP {test}: needs SCHED_FIFO, root, unshare(1), tracefs with instances");
            return;
        };
        if kept_up && calm(&imported["high"]) {
            simulation_agrees(&bench, &imported);
            return;
        }
    }
    eprintln!("SKIP part of {test}: needs a host that lets a FIFO thread run when it is woken");
}

/// When the first event happened, on the clock of the threads, less the microsecond that the text cuts.
fn first_event_ns(text: &str) -> u64 {
    let line = text.lines().find(|line| !line.starts_with('#')).unwrap();
    let (head, _) = line.split_once(": sched_").unwrap();
    let seconds = head.rsplit(' ').next().unwrap();
    seconds.replace('.', "").parse::<u64>().unwrap() * 1_000
}

/// Every job between two sleeps is in the recording, released between the expiry of its timer and its begin,
/// with the CPU time that the thread says it used. Whether most jobs were such ones.
fn compare_with_log(name: &str, first_ns: u64, imported: &[Row], logged: &[Logged]) -> bool {
    let mut late_ns = Vec::new();
    let mut off_per_mille = Vec::new();
    let mut whole = 0;
    for (number, job) in logged.iter().enumerate() {
        let slept_before = number == 0 || logged[number - 1].end < job.planned;
        let next = logged.get(number + 1);
        if !slept_before || next.is_none_or(|next| next.planned <= job.end) {
            continue;
        }
        whole += 1;
        let planned_ns = job.planned.as_nanos();
        let row = imported.iter().find(|row| {
            // The text cuts what is below a microsecond, once here and once at the first event.
            let release_ns = first_ns + row.release_ns;
            release_ns + 2_000 >= planned_ns && release_ns <= job.woken.as_nanos()
        });
        let Some(row) = row else {
            continue;
        };
        late_ns.push((first_ns + row.release_ns).saturating_sub(planned_ns));
        let used_ns = job.used.as_nanos();
        off_per_mille.push(row.execution_ns.abs_diff(used_ns) * 1_000 / used_ns);
    }
    if whole * 10 < logged.len() * 8 {
        eprintln!(
            "{name}: only {whole} of {} jobs were done before the next one",
            logged.len()
        );
        return false;
    }
    assert!(
        late_ns.len() * 10 >= whole * 8,
        "{name}: {} of {whole}",
        late_ns.len()
    );
    let median = |values: &mut Vec<u64>| {
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (late_ns, off_per_mille) = (median(&mut late_ns), median(&mut off_per_mille));
    eprintln!("{name}: released {late_ns} ns late, execution off by {off_per_mille} per mille");
    assert!(
        off_per_mille < 100,
        "{name}: execution times off by {off_per_mille} per mille"
    );
    true
}

#[test]
fn a_schedule_recorded_elsewhere_is_simulated_as_it_was() {
    let recordings =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/kernel_trace/recorded");
    for recording in ["ftrace.txt", "trace-cmd.txt", "trace-cmd-raw.txt"] {
        let bench = Bench::new();
        let path = recordings.join(recording);
        let threads = [
            ("high", vec!["--comm", "tb high:1"]),
            ("mid", vec!["--comm", "tb-mid"]),
            ("low", vec!["--comm", "tb-low:x"]),
        ];
        let imported = import(&bench, path.to_str().unwrap(), &threads);
        simulation_agrees(&bench, &imported);
        let counts = ["high", "mid", "low"].map(|name| imported[name].len());
        assert_eq!(counts, [30, 15, 6], "{recording}");
    }
}
