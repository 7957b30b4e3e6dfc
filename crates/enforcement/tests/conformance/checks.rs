//! The checks.

use tailbound_enforcement::{Backend, Change, Enforcer, ReservationRequest, Target, recover};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_linux::process::{children_of, run_times, threads_of};
use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of, set_affinity, set_scheduling};
use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface, Window,
};
use tailbound_time::{Clock, Duration, Instant};

use super::program::{Program, Role};
use super::runner::Outcome;
use super::snapshot::snapshot;
use super::spinner;

/// The domain that all checks use.
pub const DOMAIN: &str = "conformance";

type Check = fn(&Bench<'_>) -> Result<Outcome, String>;

/// All checks, by name.
pub const ALL: [(&str, Check); 14] = [
    ("gives_the_budget", gives_the_budget),
    ("replenishes_on_a_grid", replenishes_on_a_grid),
    ("serves_a_domain_that_blocks", serves_a_domain_that_blocks),
    ("threads_share_a_budget", threads_share_a_budget),
    ("threads_take_turns", threads_take_turns),
    ("processes_share_a_budget", processes_share_a_budget),
    ("cpus_share_a_budget", cpus_share_a_budget),
    ("reserves_a_single_thread", reserves_a_single_thread),
    ("changes_its_interface", changes_its_interface),
    ("saves_up_for_bursts", saves_up_for_bursts),
    ("comes_before_others", comes_before_others),
    ("reverting_leaves_no_trace", reverting_leaves_no_trace),
    ("gives_back_what_it_held", gives_back_what_it_held),
    (
        "a_killed_owner_is_recovered_from",
        a_killed_owner_is_recovered_from,
    ),
];

/// Shares may be off by this factor: the machine is busy with other things.
const MARGIN: f64 = 0.12;
/// Two programs that are alike get half of a CPU each.
const LEAST_SHARE_OF_FIRST: f64 = 0.7;
/// How often a timing is taken before it counts as wrong.
const ATTEMPTS: u32 = 3;

/// What a check works with.
pub struct Bench<'a> {
    back_end: &'a dyn Backend,
    host: &'a HostCapabilities,
    cpu: u32,
    budget: Duration,
    period: Duration,
}

/// Runs one check, if the host can.
pub fn run(
    back_end: &dyn Backend,
    host: &HostCapabilities,
    check: Check,
) -> Result<Outcome, String> {
    let missing = back_end.missing(host);
    if let Some(missing) = missing.first() {
        let state = &missing.state;
        return Ok(Outcome::Skipped(format!(
            "needs {}, found {state}",
            missing.needed
        )));
    }
    let affinity = back_end.kind() == BackendKind::Dedicated;
    if !affinity && !host.privileges.contains("CAP_SYS_NICE") {
        return Ok(Outcome::Skipped("needs CAP_SYS_NICE".into()));
    }
    let mut bench = Bench {
        back_end,
        host,
        cpu: host.online_cpus.last().copied().unwrap_or(0),
        budget: Duration::from_millis(8),
        period: Duration::from_millis(20),
    };
    let request = bench.request(Target::Processes(vec![]));
    if back_end.check_interface(&request, host).is_err() {
        // Where budgets end at ticks, they need to be longer.
        (bench.budget, bench.period) = (Duration::from_millis(40), Duration::from_millis(100));
    }
    check(&bench)
}

impl Bench<'_> {
    fn request(&self, target: Target) -> ReservationRequest {
        ReservationRequest {
            domain: DOMAIN.into(),
            target,
            interface: ResourceInterface {
                budget: self.budget,
                period: self.period,
                priority: Priority(50),
                cpus: [Cpu(self.cpu)].into(),
                budget_scope: BudgetScope::EachCpu,
                windows: match self.back_end.kind().has_windows() {
                    true => vec![Window {
                        offset: Duration::ZERO,
                        length: self.budget,
                    }],
                    false => Vec::new(),
                },
                slack: Vec::new(),
            },
            backend: self.back_end.kind(),
            options: BackendOptions::default(),
            interference: Default::default(),
        }
    }

    /// Gives an interface other windows of another period, or the sum of them as a budget.
    fn resize(
        &self,
        interface: &mut ResourceInterface,
        windows: &[(Duration, Duration)],
        period: Duration,
    ) {
        interface.budget = windows.iter().map(|(_, length)| *length).sum();
        interface.period = period;
        if self.back_end.kind().has_windows() {
            let windows = windows.iter().copied();
            let windows = windows.map(|(offset, length)| Window { offset, length });
            interface.windows = windows.collect();
        }
    }

    fn bandwidth(&self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    fn enforcer(&self) -> (Enforcer, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let host = self.host.clone();
        (
            Enforcer::with_host(host, directory.path().into()).unwrap(),
            directory,
        )
    }

    /// When a run that starts now has settled, and when it ends.
    fn schedule(&self) -> (Instant, Instant) {
        let start = Monotonic.now() + Duration::from_millis(250) + self.period * 2;
        let periods = (Duration::from_millis(1200) / self.period).max(15);
        (start, start + self.period * periods)
    }

    /// Something that competes for the CPU.
    fn hog(&self, end: Instant) -> Program {
        Program::start(self.spinning(1), end, &[self.cpu])
    }

    fn spinning(&self, threads: u32) -> Role {
        let gap = self.period.saturating_sub(self.budget) / 4;
        Role::Spin { threads, gap }
    }

    /// The share of the CPU that `pids` get together between two instants.
    fn share(&self, pids: &[u32], from: Instant, to: Instant) -> f64 {
        let used = |instant| {
            sleep_until(instant).unwrap();
            let now = Monotonic.now();
            let used = pids.iter().map(|&pid| cpu_time_of_process(pid).unwrap());
            (now, used.sum::<Duration>())
        };
        let (first, second) = (used(from), used(to));
        let length = second.0.saturating_since(first.0).as_secs_f64();
        (second.1 - first.1).as_secs_f64() / length
    }

    /// Compares a share with what the back end promises about it.
    fn judge(&self, share: f64) -> Result<Outcome, String> {
        self.judge_of(share, self.bandwidth())
    }

    /// The verdict where this bandwidth is promised.
    fn judge_of(&self, share: f64, bandwidth: f64) -> Result<Outcome, String> {
        let kind = self.back_end.kind();
        let relative = share / bandwidth;
        let seen = format!("share {share:.3} of {bandwidth:.3}");
        if kind.has_budget() && relative > 1.0 + MARGIN {
            return Err(format!("{seen}: more than the budget"));
        }
        if kind.guarantees_budget() && relative < 1.0 - MARGIN {
            return Err(format!("{seen}: less than the budget"));
        }
        Ok(Outcome::Holds(seen))
    }

    fn enforces(&self) -> bool {
        let kind = self.back_end.kind();
        kind.has_budget()
    }
}

const NO_BUDGET: Outcome = Outcome::Declared("it enforces no budget");

/// Takes a timing again if a stall of the host may have spoilt it.
fn patiently(mut attempt: impl FnMut() -> Result<Outcome, String>) -> Result<Outcome, String> {
    let mut outcome = attempt();
    for _ in 1..ATTEMPTS {
        let Err(why) = &outcome else {
            break;
        };
        eprintln!("once more, since: {why}");
        outcome = attempt();
    }
    outcome
}

/// Whether a program that spins in so many threads gets the budget.
fn a_program_gets_the_budget(bench: &Bench<'_>, threads: u32) -> Result<Outcome, String> {
    patiently(|| {
        let (start, end) = bench.schedule();
        let _hog = bench.hog(end);
        let busy = Program::start(bench.spinning(threads), end + bench.period * 10, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        let request = bench.request(Target::Processes(vec![busy.pid()]));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        let share = bench.share(&[busy.pid()], start, end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        bench.judge(share)
    })
}

fn gives_the_budget(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.enforces() {
        return Ok(NO_BUDGET);
    }
    a_program_gets_the_budget(bench, 1)
}

fn replenishes_on_a_grid(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.back_end.kind().traits().fixed_grid {
        return Ok(Outcome::Declared("its replenishments lie on no fixed grid"));
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let _hog = bench.hog(end);
        let mut busy = Program::start(bench.spinning(1), end, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        let request = bench.request(Target::Processes(vec![busy.pid()]));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        let bursts = spinner::within(&spinner::from_text(&busy.output()), start, end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        let period = bench.period.as_nanos();
        let near = |burst: &&spinner::Burst| {
            // The grid has its origin where the clock has it.
            let phase = burst.start.as_nanos() % period;
            phase.min(period - phase) < period / 5
        };
        let on_grid = bursts.iter().filter(near).count();
        let seen = format!("{on_grid} of {} bursts began on the grid", bursts.len());
        match bursts.len() > 10 && on_grid * 5 >= bursts.len() * 4 {
            true => Ok(Outcome::Holds(seen)),
            false => Err(seen),
        }
    })
}

fn serves_a_domain_that_blocks(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.back_end.kind().guarantees_budget() {
        return Ok(Outcome::Declared("it guarantees no budget"));
    }
    patiently(|| {
        let (_, end) = bench.schedule();
        let _hog = bench.hog(end);
        let work = Role::Work {
            work: bench.budget * 2 / 5,
            period: bench.period * 3 / 2,
        };
        let mut blocking = Program::start(work, end, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        let request = bench.request(Target::Processes(vec![blocking.pid()]));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        let output = blocking.output();
        enforcer.revert_all().map_err(|error| error.to_string())?;
        let (done, all) = output.trim().split_once(' ').ok_or("it told nothing")?;
        let (done, all): (u64, u64) = (done.parse().unwrap(), all.parse().unwrap());
        let seen = format!("{done} of {all} pieces of work were done in time");
        match all > 5 && done * 10 >= all * 8 {
            true => Ok(Outcome::Holds(seen)),
            false => Err(seen),
        }
    })
}

fn threads_share_a_budget(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.enforces() {
        return Ok(NO_BUDGET);
    }
    if !bench.back_end.kind().traits().thread_groups {
        return Ok(Outcome::Declared("it has no budget for several threads"));
    }
    a_program_gets_the_budget(bench, 4)
}

/// Busy threads of a domain all get somewhere, and none of them keeps a real-time thread of it waiting.
fn threads_take_turns(bench: &Bench<'_>) -> Result<Outcome, String> {
    const BUSY: u64 = 3;
    if !bench.back_end.kind().traits().thread_groups {
        return Ok(Outcome::Declared("it has no budget for several threads"));
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let late_end = end + bench.period * 10;
        let busy = Program::start(bench.spinning(BUSY as u32), late_end, &[]);
        let urgent = Program::start(Role::SpinFrom { instant: late_end }, late_end, &[]);
        let own = SchedulingSetting::Fifo {
            priority: 7,
            reset_on_fork: false,
        };
        let orders = bench.back_end.kind().guarantees_budget();
        if orders {
            set_scheduling(urgent.pid(), own).unwrap();
        }
        let (mut enforcer, _directory) = bench.enforcer();
        let request = bench.request(Target::Processes(vec![busy.pid(), urgent.pid()]));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        let threads = threads_of(busy.pid()).map_err(|error| error.to_string())?;
        let used = |at| {
            sleep_until(at).unwrap();
            let times = threads.iter().map(|&tid| run_times(tid).unwrap().used);
            times.collect::<Vec<Duration>>()
        };
        let (before, after) = (used(start), used(end));
        let priority = |tid| match scheduling_of(tid) {
            Ok(SchedulingSetting::Fifo { priority, .. }) => priority,
            _ => 0,
        };
        let highest = threads.iter().map(|&tid| priority(tid)).max();
        let of_urgent = priority(urgent.pid());
        enforcer.revert_all().map_err(|error| error.to_string())?;
        let gained = after.into_iter().zip(before);
        let gained: Vec<Duration> = gained.map(|(after, before)| after - before).collect();
        let all: Duration = gained.iter().copied().sum();
        let least = gained.iter().min().copied().unwrap_or(Duration::ZERO);
        let share = least.as_secs_f64() / all.as_secs_f64();
        let seen = format!("the least of {BUSY} got {share:.2} of their time");
        if orders && Some(of_urgent) <= highest {
            return Err(format!("{of_urgent} is not above {highest:?}"));
        }
        match least * BUSY * 3 >= all {
            true => Ok(Outcome::Holds(seen)),
            false => Err(seen),
        }
    })
}

fn processes_share_a_budget(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.enforces() {
        return Ok(NO_BUDGET);
    }
    if !bench.back_end.kind().traits().process_groups {
        return Ok(Outcome::Declared("it has no budget for several processes"));
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let _hog = bench.hog(end);
        let late_end = end + bench.period * 10;
        let busy = Program::start(Role::SpinFrom { instant: start }, late_end, &[]);
        // One process starts another when the reservation stands already; the second one is not
        // busy before, for SCHED_FIFO would not let the first one run beside it.
        let instant = start - Duration::from_millis(100);
        let parent = Program::start(Role::SpawnAt { instant }, late_end, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        let pids = vec![busy.pid(), parent.pid()];
        let request = bench.request(Target::Processes(pids.clone()));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        sleep_until(start).unwrap();
        let children = children_of(parent.pid()).map_err(|error| error.to_string())?;
        if children.is_empty() {
            return Err("the domain's process has started no other in time".into());
        }
        let all: Vec<u32> = pids.iter().chain(&children).copied().collect();
        let share = bench.share(&all, Monotonic.now(), end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        for pid in children {
            // It may have ended meanwhile; then there is nothing to put back.
            let left = snapshot(&[pid]).remove(&format!("thread {pid}"));
            if left
                .as_ref()
                .is_some_and(|left| left.contains("tailbound") || left.contains("Fifo"))
            {
                return Err(format!("the child was not put back: {left:?}"));
            }
        }
        bench.judge(share)
    })
}

/// Eight threads spend one budget, which is longer than its period, on two CPUs.
fn cpus_share_a_budget(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.enforces() {
        return Ok(NO_BUDGET);
    }
    if !bench.back_end.kind().traits().cpus_share_budget {
        return Ok(Outcome::Declared("its CPUs have a budget each"));
    }
    let cpus: Vec<u32> = bench.host.online_cpus.iter().copied().take(2).collect();
    if cpus.len() < 2 {
        return Ok(Outcome::Skipped("needs two CPUs".into()));
    }
    let mut request = bench.request(Target::Processes(vec![]));
    request.interface = ResourceInterface {
        budget: bench.period / 5 * 6,
        cpus: cpus.iter().copied().map(Cpu).collect(),
        budget_scope: BudgetScope::AllCpus,
        ..request.interface
    };
    if let Some(missing) = bench.back_end.missing_for(&request, bench.host).first() {
        let instead = &missing.state;
        return Ok(Outcome::Skipped(format!(
            "needs {}, found {instead}",
            missing.needed
        )));
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let hogs = cpus
            .iter()
            .map(|cpu| Program::start(bench.spinning(1), end, &[*cpu]));
        let _hogs: Vec<Program> = hogs.collect();
        let busy = Program::start(bench.spinning(8), end + bench.period * 10, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        request.target = Target::Processes(vec![busy.pid()]);
        enforcer
            .apply(std::slice::from_ref(&request))
            .map_err(|error| error.to_string())?;
        let share = bench.share(&[busy.pid()], start, end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        bench.judge_of(share, 1.2)
    })
}

fn reserves_a_single_thread(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.enforces() {
        return Ok(NO_BUDGET);
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let _hog = bench.hog(end);
        let busy = Program::start(Role::SpinBeside, end + bench.period * 10, &[]);
        let before = snapshot(&[busy.pid()]);
        let threads = threads_of(busy.pid()).map_err(|error| error.to_string())?;
        let beside = threads
            .into_iter()
            .filter(|&tid| tid != busy.pid())
            .collect();
        let (mut enforcer, _directory) = bench.enforcer();
        let request = bench.request(Target::Threads(beside));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        let share = bench.share(&[busy.pid()], start, end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        match snapshot(&[busy.pid()]) == before {
            true => bench.judge(share),
            false => Err(format!(
                "{before:#?}\nbecame\n{:#?}",
                snapshot(&[busy.pid()])
            )),
        }
    })
}

fn changes_its_interface(bench: &Bench<'_>) -> Result<Outcome, String> {
    if !bench.enforces() {
        return Ok(NO_BUDGET);
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let _hog = bench.hog(end);
        let busy = Program::start(bench.spinning(1), end + bench.period * 10, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        let mut request = bench.request(Target::Processes(vec![busy.pid()]));
        enforcer
            .apply(std::slice::from_ref(&request))
            .map_err(|error| error.to_string())?;
        let (half, whole) = (bench.budget / 2, bench.budget);
        let (windows, period) = match bench.back_end.kind().has_windows() {
            // The frame stays as it is.
            true => (
                vec![(Duration::ZERO, half), (bench.period / 2, whole)],
                bench.period,
            ),
            false => (vec![(Duration::ZERO, half * 3)], bench.period * 2),
        };
        bench.resize(&mut request.interface, &windows, period);
        let changed = enforcer.change(DOMAIN, &request.interface);
        changed.map_err(|error| error.to_string())?;
        let share = bench.share(&[busy.pid()], start, end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        let changed = Bench {
            budget: request.interface.budget,
            period: request.interface.period,
            ..*bench
        };
        changed.judge(share)
    })
}

fn saves_up_for_bursts(bench: &Bench<'_>) -> Result<Outcome, String> {
    let options = bench.back_end.kind().traits().options;
    if !options.iter().any(|option| option.key == "burst") {
        return Ok(Outcome::Declared("it saves up no budget"));
    }
    let busy = peculiar(bench);
    let mut request = bench.request(Target::Processes(vec![busy.pid()]));
    request.options.burst = Some(bench.budget / 2);
    if let Some(missing) = bench.back_end.missing_for(&request, bench.host).first() {
        let (needed, state) = (&missing.needed, &missing.state);
        return Ok(Outcome::Skipped(format!("needs {needed}, found {state}")));
    }
    let before = snapshot(&[busy.pid()]);
    let (mut enforcer, _directory) = bench.enforcer();
    let plans = enforcer
        .apply(&[request])
        .map_err(|error| error.to_string())?;
    let burst_us = (bench.budget / 2).as_nanos() / 1_000;
    let bursts = plans[0].changes.iter().filter_map(|change| match change {
        Change::WriteFile { file, .. } if file.to_string_lossy().contains("burst") => Some(file),
        _ => None,
    });
    let mut seen = Vec::new();
    for file in bursts {
        seen.push(std::fs::read_to_string(file).map_err(|error| error.to_string())?);
    }
    enforcer.revert_all().map_err(|error| error.to_string())?;
    let after = snapshot(&[busy.pid()]);
    let seen: Vec<&str> = seen.iter().map(|text| text.trim()).collect();
    match seen == [burst_us.to_string()] && after == before {
        true => Ok(Outcome::Holds(format!("the kernel has {} us", seen[0]))),
        false => Err(format!("{seen:?}, and {before:#?}\nbecame\n{after:#?}")),
    }
}

/// A domain with a priority or a share, and no budget, gets by far the larger part of a CPU beside an ordinary program.
fn comes_before_others(bench: &Bench<'_>) -> Result<Outcome, String> {
    let kind = bench.back_end.kind();
    if kind.has_budget() || kind.gives_whole_cpus() || !kind.enforces() {
        return Ok(Outcome::Declared("it ranks no domain before others"));
    }
    patiently(|| {
        let (start, end) = bench.schedule();
        let _hog = bench.hog(end);
        let busy = Program::start(bench.spinning(1), end + bench.period * 10, &[]);
        let (mut enforcer, _directory) = bench.enforcer();
        let request = bench.request(Target::Processes(vec![busy.pid()]));
        enforcer
            .apply(&[request])
            .map_err(|error| error.to_string())?;
        let share = bench.share(&[busy.pid()], start, end);
        enforcer.revert_all().map_err(|error| error.to_string())?;
        match share > LEAST_SHARE_OF_FIRST {
            true => Ok(Outcome::Holds(format!("share {share:.3}"))),
            false => Err(format!("share {share:.3}: no more than beside an equal")),
        }
    })
}

/// A process with settings that are nobody's default.
fn peculiar(bench: &Bench<'_>) -> Program {
    let end = Monotonic.now() + Duration::from_secs(60);
    let threads = if bench.back_end.kind().traits().thread_groups {
        3
    } else {
        1
    };
    let busy = Program::start(bench.spinning(threads), end, &[]);
    let pid = busy.pid();
    set_scheduling(pid, SchedulingSetting::Batch { nice: 3 }).unwrap();
    let first = bench.host.online_cpus.first().copied().unwrap_or(0);
    set_affinity(pid, &[first].into()).unwrap();
    busy
}

fn reverting_leaves_no_trace(bench: &Bench<'_>) -> Result<Outcome, String> {
    let busy = peculiar(bench);
    let before = snapshot(&[busy.pid()]);
    let (mut enforcer, directory) = bench.enforcer();
    let request = bench.request(Target::Processes(vec![busy.pid()]));
    for _ in 0..2 {
        let request = std::slice::from_ref(&request);
        enforcer.apply(request).map_err(|error| error.to_string())?;
        if snapshot(&[busy.pid()]) == before && bench.back_end.kind() != BackendKind::None {
            return Err("applying changed nothing".into());
        }
        let throttling = "real-time throttling";
        if snapshot(&[])[throttling] != before[throttling] {
            return Err("applying changed real-time throttling".into());
        }
        enforcer.revert(DOMAIN).map_err(|error| error.to_string())?;
        let after = snapshot(&[busy.pid()]);
        if after != before {
            return Err(format!("{before:#?}\nbecame\n{after:#?}"));
        }
    }
    let mut left = std::fs::read_dir(directory.path()).unwrap().flatten();
    match left.find(|entry| entry.file_name() != "lock") {
        None => Ok(Outcome::Holds("twice".into())),
        Some(journal) => Err(format!("{journal:?} is left")),
    }
}

/// A host is reserved anew right after all was taken back from a busy domain: what that held is not counted twice, nor
/// subtracted from what others hold now.
fn gives_back_what_it_held(bench: &Bench<'_>) -> Result<Outcome, String> {
    if bench.back_end.kind() == BackendKind::Dedicated {
        return Ok(Outcome::Declared("it has a CPU for one domain alone"));
    }
    let end = Monotonic.now() + Duration::from_secs(60);
    let asleep = || Program::start(Role::SpinFrom { instant: end }, end, &[]);
    let (first, second) = (asleep(), asleep());
    let busy = Program::start(bench.spinning(1), end, &[]);
    let (mut enforcer, _directory) = bench.enforcer();
    let smallest = bench.budget.min(bench.period / 10 * 2);
    let with = |domain: &str, busy: &Program, priority, (offset, budget)| {
        let mut request = bench.request(Target::Processes(vec![busy.pid()]));
        request.domain = domain.into();
        request.interface.priority = Priority(priority);
        let windows = [(offset, budget)];
        bench.resize(&mut request.interface, &windows, bench.period * 2);
        request
    };
    let apply = |enforcer: &mut Enforcer, requests: &[ReservationRequest]| {
        let applied = enforcer.apply(requests);
        applied.map(drop).map_err(|error| error.to_string())
    };
    for _ in 0..4 {
        let first = with("conformance-first", &first, 60, (Duration::ZERO, smallest));
        let busy = with(DOMAIN, &busy, 40, (bench.period / 2, bench.period));
        apply(&mut enforcer, &[first.clone(), busy])?;
        sleep_until(Monotonic.now() + bench.period * 3).unwrap();
        enforcer.revert_all().map_err(|error| error.to_string())?;
        apply(&mut enforcer, &[first])?;
        // What a kernel does at the end of the period in which a thread lost its reservation is done by then.
        sleep_until(Monotonic.now() + bench.period * 3).unwrap();
        let second = with(
            "conformance-second",
            &second,
            50,
            (bench.period * 3 / 2, smallest),
        );
        apply(&mut enforcer, &[second])?;
        enforcer.revert_all().map_err(|error| error.to_string())?;
    }
    Ok(Outcome::Holds("four times".into()))
}

fn a_killed_owner_is_recovered_from(bench: &Bench<'_>) -> Result<Outcome, String> {
    let busy = peculiar(bench);
    let before = snapshot(&[busy.pid()]);
    let directory = tempfile::tempdir().unwrap();
    let request = bench.request(Target::Processes(vec![busy.pid()]));
    let mut owner = Program::start_owner(&request, directory.path());
    let alive = recover(directory.path()).map_err(|error| error.to_string())?;
    if alive.alive.len() != 1 || !alive.reverted.is_empty() {
        return Err(format!("the owner lives, and yet: {alive:?}"));
    }
    owner.kill();
    let recovery = recover(directory.path()).map_err(|error| error.to_string())?;
    let after = snapshot(&[busy.pid()]);
    if recovery.reverted != [DOMAIN] || !recovery.failures.is_empty() {
        return Err(format!("{recovery:?}"));
    }
    match after == before {
        true => Ok(Outcome::Holds("everything is back".into())),
        false => Err(format!("{before:#?}\nbecame\n{after:#?}")),
    }
}
