//! No domain has more than the budget in force, and no two together more than the CPU gives, by what the
//! kernel's own trace says ran: while the real daemon changes modes to and fro.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tailbound_control::Client;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_model::{BackendKind, BudgetScope, RequestsMeanwhile};
use tailbound_modes::manager::Report;
use tailbound_modes::transition::{Ending, StepKind};
use tailbound_time::{Clock, Duration};

use crate::modes_stage::{ModesStage, Shares};
use crate::stage::eventually;

const PERIOD: Duration = Duration::from_millis(10);
const PERIOD_NS: u64 = PERIOD.as_nanos();
/// Both want all they get; what one gives back the other takes up.
const MODES: [Shares; 2] = [
    Shares {
        mode: "run",
        thousandths: [500, 200],
        periods: 1,
        works: true,
    },
    Shares {
        mode: "rest",
        thousandths: [100, 400],
        periods: 1,
        works: true,
    },
];
const CHANGES: usize = 40;
/// What stopping takes, and what is paid back or made up for in the next period.
const TOLERANCE_NS: u64 = 700_000;
/// What interrupts take of a period.
const INTERRUPTS_NS: u64 = 50_000;
/// One period in so many may go further beyond: the trace counts as use what the host took, up to a stall.
const ONE_IN: usize = 20;
/// More is never in force on a CPU.
const MOST_NS: u64 = PERIOD_NS * 9 / 10;
/// So many periods have to be checked, whatever the host did meanwhile.
const LEAST_PERIODS: usize = 60;
/// With ticks on a busy CPU, nothing recorded for longer is a stall of the host.
const STALL_NS: u64 = 8_000_000;

/// Records in a buffer of its own, in a mount namespace of its own, until its standard input ends, be it
/// that we died; then nothing of it is left.
const RECORDER: &str = r#"
set -e
mkdir -p tracefs
mount -t tracefs nodev tracefs
own=tracefs/instances/tailbound-modes-$$
mkdir $own
trap 'rmdir $own' EXIT
echo mono > $own/trace_clock
echo 8192 > $own/buffer_size_kb
echo 1 > $own/events/sched/sched_switch/enable
echo 1 > $own/events/timer/hrtimer_expire_entry/enable
echo ready
cat > ignored
echo 0 > $own/tracing_on
cat $own/per_cpu/cpu$1/trace > recorded.txt
rmdir $own
trap - EXIT
echo done
"#;

fn recorder(folder: &Path, cpu: u32) -> Option<(Child, BufReader<impl Read>)> {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", RECORDER, "sh", &cpu.to_string()])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    // Not killed with us: it ends by its standard input, and tidies up.
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

/// What ran of two threads in each period of the grid, and where the host stalled.
#[derive(Default)]
struct Ran {
    by_period: BTreeMap<u64, [u64; 2]>,
    stalled: Vec<(u64, u64)>,
    first_ns: u64,
    last_ns: u64,
}

impl Ran {
    fn from_trace(text: &str, threads: [u32; 2]) -> Self {
        let mut ran = Self::default();
        let mut running: Option<(usize, u64)> = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some(at_ns) = time_of(line) else {
                continue;
            };
            if ran.last_ns == 0 {
                ran.first_ns = at_ns;
            } else if at_ns - ran.last_ns > STALL_NS {
                ran.stalled.push((ran.last_ns, at_ns));
            }
            ran.last_ns = at_ns;
            let Some((_, next)) = line.split_once("next_pid=") else {
                continue;
            };
            if let Some((which, since_ns)) = running.take() {
                ran.add(which, since_ns, at_ns);
            }
            let next: u32 = next.split_whitespace().next().unwrap().parse().unwrap();
            running = threads
                .iter()
                .position(|tid| *tid == next)
                .map(|it| (it, at_ns));
        }
        ran
    }

    fn add(&mut self, which: usize, mut from_ns: u64, to_ns: u64) {
        while from_ns < to_ns {
            let period = from_ns / PERIOD_NS;
            let end_ns = to_ns.min((period + 1) * PERIOD_NS);
            self.by_period.entry(period).or_default()[which] += end_ns - from_ns;
            from_ns = end_ns;
        }
    }

    /// Whether the host stalled in a period, or in the one before.
    fn is_stalled(&self, number: u64) -> bool {
        let (begin_ns, end_ns) = (
            number.saturating_sub(1) * PERIOD_NS,
            (number + 1) * PERIOD_NS,
        );
        let mut stalls = self.stalled.iter();
        stalls.any(|(from, to)| *from < end_ns && *to > begin_ns)
    }
}

/// `... 123.456789: sched_switch: ...`
fn time_of(line: &str) -> Option<u64> {
    let before = line.split(": ").next()?;
    let (seconds, micros) = before.split_whitespace().next_back()?.split_once('.')?;
    let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
    Some(seconds * 1_000_000_000 + micros * 1_000)
}

/// The budget of a domain from each instant on.
fn in_force(stage: &ModesStage, reports: &[Report], place: usize) -> Vec<(u64, u64)> {
    let budget = |mode: &str| {
        let mode = MODES.iter().find(|one| one.mode == mode).unwrap();
        stage.interface(mode, place).budget.as_nanos()
    };
    let mut budgets = vec![(0, budget("run"))];
    for report in reports {
        for step in &report.timeline.steps {
            if let StepKind::InterfaceAccepted { in_force_at } = step.kind
                && step.domain == stage.domain(place)
            {
                budgets.push((in_force_at.as_nanos(), budget(&report.to)));
            }
        }
    }
    budgets
}

fn at(budgets: &[(u64, u64)], instant_ns: u64) -> u64 {
    let mut before = budgets.iter().rev();
    before.find(|(from, _)| *from <= instant_ns).unwrap().1
}

/// What was checked, and what was found.
#[derive(Default)]
struct Checked {
    periods: usize,
    used_ns: u64,
    reserved_ns: u64,
    beyond: Vec<(u64, [u64; 2], [u64; 2])>,
    /// The most that each had beyond its budgets over any number of periods in a row.
    in_a_row: [Excess; 2],
}

/// What one has had beyond its budgets up to a period, and at most.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    until_ns: i64,
    most_ns: i64,
}

impl Excess {
    fn add(&mut self, used_ns: u64, has_ns: u64) {
        self.until_ns = (self.until_ns + used_ns as i64 - has_ns as i64).max(0);
        self.most_ns = self.most_ns.max(self.until_ns);
    }
}

/// Holds what ran in each whole period against the budgets in force then.
fn check(ran: &Ran, budgets: &[Vec<(u64, u64)>; 2]) -> Checked {
    let mut checked = Checked::default();
    for (number, used) in &ran.by_period {
        let (begin_ns, end_ns) = (number * PERIOD_NS, (number + 1) * PERIOD_NS);
        let whole = begin_ns >= ran.first_ns && end_ns <= ran.last_ns;
        if !whole || ran.is_stalled(*number) {
            continue;
        }
        let has = [0, 1].map(|place| at(&budgets[place], begin_ns));
        checked.periods += 1;
        checked.used_ns += used[0] + used[1];
        checked.reserved_ns += has[0] + has[1];
        assert!(has[0] + has[1] <= MOST_NS, "{has:?} of one period");
        for place in 0..2 {
            checked.in_a_row[place].add(used[place], has[place]);
        }
        if (0..2).any(|place| used[place] > has[place] + TOLERANCE_NS) {
            checked.beyond.push((*number, *used, has));
        }
    }
    checked
}

/// Changes modes while a trace is recorded: what came of the changes, and the trace. `None`, said aloud,
/// where none can be recorded.
fn recorded(test: &str, stage: &ModesStage, client: &mut Client) -> Option<(Vec<Report>, String)> {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut recording, mut says)) = recorder(folder.path(), stage.cpu) else {
        eprintln!("SKIP {test}: needs tracefs, and mount namespaces");
        return None;
    };
    let reports: Vec<Report> = (0..CHANGES)
        .map(|number| {
            let report = stage.change(client, MODES[(number + 1) % 2].mode);
            sleep_until(Monotonic.now() + PERIOD * 2).unwrap();
            report
        })
        .collect();
    let until = Monotonic.now();
    eventually("a period passes", || Monotonic.now() > until + PERIOD * 2);
    drop(recording.stdin.take());
    let mut words = String::new();
    says.read_to_string(&mut words).unwrap();
    assert!(
        recording.wait().unwrap().success() && words.trim() == "done",
        "{words}"
    );
    let text = std::fs::read_to_string(folder.path().join("recorded.txt")).unwrap();
    Some((reports, text))
}

#[test]
fn the_kernel_s_trace_shows_no_domain_beyond_its_budget() {
    let test = "the_kernel_s_trace_shows_no_domain_beyond_its_budget";
    let ds_freeze = (BackendKind::DsFreeze, BudgetScope::EachCpu);
    let set = ModesStage::set(test, ds_freeze, PERIOD, &MODES, RequestsMeanwhile::Queue);
    let Some((stage, mut client)) = set else {
        return;
    };
    let Some((reports, text)) = recorded(test, &stage, &mut client) else {
        return;
    };
    let ends = reports.iter().map(|report| &report.outcome.ending);
    assert!(
        ends.clone().all(|it| *it == Ending::Completed),
        "{:?}",
        ends.collect::<Vec<_>>()
    );

    let ran = Ran::from_trace(&text, [stage.busy[0].id(), stage.busy[1].id()]);
    if ran.by_period.is_empty() {
        eprintln!("SKIP {test}: needs the numbers of processes as the kernel's trace has them");
        return;
    }
    let budgets = [0, 1].map(|place| in_force(&stage, &reports, place));
    let checked = check(&ran, &budgets);
    // A stall that is too short to be seen in the trace is seen by the manager, which runs late then.
    let ledgers = client.ledger().unwrap();
    let late = ledgers
        .values()
        .map(|seen| seen.stalled_periods + seen.skipped);
    let (stalls, beyond) = (late.sum::<u64>(), &checked.beyond);
    eprintln!(
        "{} periods, {} beyond, {:?} ns in a row, {stalls} stalled by the ledger",
        checked.periods,
        beyond.len(),
        checked.in_a_row.map(|it| it.most_ns)
    );
    let all = ran.by_period.len();
    assert!(all >= LEAST_PERIODS, "only {all} periods are in the trace");
    if checked.periods < LEAST_PERIODS {
        eprintln!(
            "SKIP {test}: needs a host that stands still less: {} of {all} periods were whole",
            checked.periods
        );
        stage.expect_restored(client);
        return;
    }
    assert!(
        beyond.len() <= stalls as usize * 2 + checked.periods / ONE_IN,
        "{beyond:?}; {stalls} stalls"
    );
    // What was too much in one period is missing in the next ones, but for what the manager was held up
    // for. Only interrupts, which the trace counts as use and the kernel does not, add up.
    let forgiven_ns: u64 = ledgers.values().map(|it| it.forgiven.as_nanos()).sum();
    let most_ns =
        forgiven_ns + STALL_NS + stalls * PERIOD_NS + checked.periods as u64 * INTERRUPTS_NS;
    let in_a_row = &checked.in_a_row;
    assert!(
        in_a_row.iter().all(|it| it.most_ns <= most_ns as i64),
        "{in_a_row:?}; {stalls} stalls"
    );
    // Both are always busy: what is checked is not nothing.
    let (used_ns, reserved_ns) = (checked.used_ns, checked.reserved_ns);
    assert!(used_ns > reserved_ns / 2, "{used_ns} ns of {reserved_ns}");
    stage.expect_restored(client);
}
