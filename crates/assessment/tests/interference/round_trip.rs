//! A simulated schedule as a recording, and the model that is derived of the recording.

use tailbound_assessment::schedulability::judge;
use tailbound_model::kernel_trace::{
    ThreadSelection, TraceModel, TraceReader, TracedEvent, TracedEventKind, TracedInterrupt,
    TracedThread,
};
use tailbound_model::{Arrivals, Description, InputFiles, check, to_toml};
use tailbound_simulator::hierarchy::{Completion, Job, Piece, Sink};
use tailbound_simulator::host::{HostQuery, Kept, MOST_EVENTS, lay_out, simulate_layout};
use tailbound_time::Duration;

const HOST: &str = r#"
schema_version = 1
name = "host"
hosts.here.cpus = [0]
[[hosts.here.interference]]
source = "irq 24 (eth0)"
kind = "interrupt"
cpu = 0
arrivals = { kind = "minimum-distances", distances = ["150us", "600us"], mean_gap = "1ms" }
execution_time = { kind = "uniform", min = "10us", max = "100us" }
[domains.d]
kind = "process"
builtin = "synthetic-service"
reservation = { backend = "dedicated", cpus = [0] }
[services.s]
domain = "d"
protocol = "synthetic"
endpoint = "unix:s.sock"
scheduling = "rate-monotonic"
[services.s.tasks.fast]
arrivals = { kind = "periodic", period = "10ms", offset = "1ms" }
execution_time = { kind = "uniform", min = "1ms", max = "2ms" }
[services.s.tasks.slow]
arrivals = { kind = "sporadic", min_gap = "40ms", max_gap = "70ms" }
execution_time = { kind = "constant", value = "9ms" }
"#;

const NAMES: [&str; 2] = ["fast", "slow"];
const IDLE: TracedThread<'static> = TracedThread {
    pid: 0,
    comm: "swapper/0",
};
const IRQ: TracedInterrupt<'static> = TracedInterrupt {
    is_soft: false,
    number: Some(24),
    name: Some("eth0"),
};

fn thread(task: usize) -> TracedThread<'static> {
    TracedThread {
        pid: task as u32 + 1,
        comm: NAMES[task],
    }
}

/// The events that a kernel would have recorded.
#[derive(Default)]
struct Recorder {
    events: Vec<TracedEvent<'static>>,
    running: Option<usize>,
    /// Until when an interrupt runs.
    taken_until: Option<u64>,
}

impl Recorder {
    fn add(&mut self, at_ns: u64, kind: TracedEventKind<'static>) {
        self.events.push(TracedEvent {
            at_ns,
            cpu: Some(0),
            kind,
        });
    }

    /// Ends the interrupt that does not go on.
    fn end_interrupt(&mut self) {
        if let Some(until) = self.taken_until.take() {
            self.add(until, TracedEventKind::End(IRQ));
        }
    }
}

impl Sink for Recorder {
    fn released(&mut self, job: &Job) {
        self.add(job.ready(), TracedEventKind::WakeUp(thread(job.task)));
    }

    fn ran(&mut self, piece: &Piece) {
        self.end_interrupt();
        let before = self.running.replace(piece.task);
        if before != Some(piece.task) {
            let from = before.map_or(IDLE, thread);
            let to = thread(piece.task);
            self.add(
                piece.from,
                TracedEventKind::Switch {
                    from,
                    runnable: true,
                    to,
                },
            );
        }
    }

    fn completed(&mut self, completion: &Completion) {
        self.running = None;
        let from = thread(completion.task);
        self.add(
            completion.end,
            TracedEventKind::Switch {
                from,
                runnable: false,
                to: IDLE,
            },
        );
    }

    fn overhead(&mut self, _cpu: usize, from: u64, until: u64) {
        if self.taken_until != Some(from) {
            self.end_interrupt();
            self.add(from, TracedEventKind::Begin(IRQ));
        }
        self.taken_until = Some(until);
    }
}

fn query<'a>(description: &'a Description, inputs: &'a InputFiles) -> HostQuery<'a> {
    HostQuery {
        description,
        host: "here",
        inputs,
        seed: 3,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(20),
        kept: Kept::All,
        most_events: MOST_EVENTS,
    }
}

/// The longest response of each task in a simulation, by name, and what a recorder saw of it.
fn simulate(description: &Description) -> (Vec<(String, u64)>, Recorder) {
    let inputs = InputFiles::default();
    let layout = lay_out(description, "here", &inputs).unwrap();
    let mut recorders = [Recorder::default()];
    let simulation =
        simulate_layout(&query(description, &inputs), &layout, &mut recorders).unwrap();
    let tasks = simulation
        .domains
        .into_values()
        .flat_map(|domain| domain.tasks);
    let longest = tasks.map(|task| (task.name, task.longest_ns.unwrap()));
    let [recorder] = recorders;
    (longest.collect(), recorder)
}

fn bounds(description: &Description) -> Vec<u64> {
    let modes = judge(description, &InputFiles::default()).unwrap();
    let bounds = modes[0]
        .tasks
        .iter()
        .map(|task| task.response_bound.unwrap().as_nanos());
    bounds.collect()
}

#[test]
fn a_simulated_schedule_yields_the_model_that_it_was_simulated_from() {
    let described: Description = tailbound_model::parse(HOST, "host.toml").unwrap();
    let (longest, mut recorder) = simulate(&described);
    recorder.end_interrupt();
    let mut reader = TraceReader::of(&ThreadSelection::default());
    // Stable: what happens at one instant keeps its order.
    recorder.events.sort_by_key(|event| event.at_ns);
    for event in &recorder.events {
        reader.take(event);
    }
    let trace = reader.finish("simulated");
    assert!(trace.notes.is_empty(), "{:?}", trace.notes);
    let model = TraceModel::of(&trace);
    assert!(model.left_out.is_empty(), "{:?}", model.left_out);
    let [fast, slow] = &model.tasks[..] else {
        panic!("{:?}", model.tasks);
    };
    let (us, ms) = (Duration::from_micros, Duration::from_millis);
    let fit = fast.period.unwrap();
    assert_eq!((fit.period, fit.jitter, fast.jobs), (ms(10), us(0), 2_000));
    let bins = &fast.execution_times;
    assert!(
        bins[0].from >= ms(1) && bins.last().unwrap().to <= ms(2),
        "{bins:?}"
    );
    assert!(
        bins[0].from < us(1_010) && bins.last().unwrap().to > us(1_990),
        "{bins:?}"
    );
    assert_eq!(fast.autocorrelation.first_dependence(), None);
    assert_eq!(slow.period, None);
    let whole = slow.execution_times.iter();
    assert!(
        whole
            .into_iter()
            .all(|bin| (bin.from, bin.to) == (ms(9), ms(9)))
    );
    assert!(slow.task().least_gap().unwrap() >= ms(40) && slow.longest_distances[0] <= ms(70));
    let source = &model.interference[0];
    assert_eq!(source.interference.source, "irq 24 (eth0)");
    let Arrivals::MinimumDistances {
        distances,
        mean_gap,
        ..
    } = &source.interference.arrivals
    else {
        panic!("{source:?}");
    };
    assert!(
        distances[0] >= us(150) && distances[0] < us(160),
        "{distances:?}"
    );
    assert!(
        distances[1] >= us(600) && distances[1] < us(660),
        "{distances:?}"
    );
    let mean = mean_gap.unwrap().as_secs_f64();
    assert!((mean - 1e-3).abs() < 5e-5, "{mean}");
    assert!(source.interference.longest.unwrap() <= us(100));
    check_derived(&described, &model, &longest);
}

/// The derived description is one, its bounds hold what was observed, and are no more than those of the first one.
fn check_derived(described: &Description, model: &TraceModel, longest: &[(String, u64)]) {
    let derived = model.description("derived", "here");
    let text = to_toml(&derived).unwrap();
    let read = check(&text, "derived.toml");
    assert!(read.problems.is_empty(), "{}\n{text}", read.problems);
    assert_eq!(read.description.as_ref(), Some(&derived));
    let (first, second) = (bounds(described), bounds(&derived));
    for (((name, longest), first), second) in longest.iter().zip(&first).zip(&second) {
        assert!(
            longest <= second && second <= first,
            "{name}: {longest} {second} {first}"
        );
    }
    let (again, _) = simulate(&derived);
    for ((name, longest), bound) in again.iter().zip(&second) {
        assert!(longest <= bound, "{name}: {longest} {bound}");
    }
}
