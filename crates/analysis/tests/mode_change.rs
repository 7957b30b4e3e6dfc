//! Protocols of mode changes against schedules of the simulator.

use rand_chacha::ChaCha8Rng;
use tailbound_analysis::interfaces::DedicatedCpu;
use tailbound_analysis::schedulability::mode_change::idle_time::idle_time;
use tailbound_analysis::schedulability::mode_change::minimum_single_offset::{
    with_periodicity, without_periodicity,
};
use tailbound_analysis::schedulability::mode_change::{
    ModeChangeProtocol, NewModeStart, NoTransition, ProtocolGuarantee, SafeTransition, Supplies,
    transition_protocols,
};
use tailbound_simulator::hierarchy::{Rule, ServerKind};

use crate::mode_change_cases::{
    Change, Ground, ModeJob, Modes, Scenario, Schedule, first_idle_instant, generator, misses,
    mode_task, ns, schedule,
};

/// An offset beyond all horizons.
const NEVER: u64 = 1_000_000;

/// A request handled by a protocol: all jobs, and when the new mode started.
struct Handled {
    schedule: Schedule,
    start: u64,
}

/// Carries a transition out in a scenario, as its protocol says.
fn handle(
    scenario: &Scenario<'_>,
    ground: &Ground,
    transition: &SafeTransition,
    random: Option<&mut ChaCha8Rng>,
) -> Handled {
    let (modes, request) = (scenario.modes, scenario.request);
    let change = match transition.start {
        NewModeStart::AtFirstIdleInstant => {
            let old = schedule(modes, ground, &scenario.without_change(), 0);
            Change::at(first_idle_instant(&old, request))
        }
        NewModeStart::NewTasksAfter(offset) => Change::after(request, offset.as_nanos()),
        NewModeStart::AllTasksAfter(offset) => Change::of_all_after(request, offset.as_nanos()),
    };
    let jobs = scenario.with_change(change, random);
    Handled {
        schedule: schedule(modes, ground, &jobs, 0),
        start: change.start,
    }
}

/// Asserts what a transition promises of a schedule.
fn check(scenario: &Scenario<'_>, transition: &SafeTransition, handled: &Handled) {
    let (modes, request) = (scenario.modes, scenario.request);
    assert!(!misses(modes, &handled.schedule));
    assert!(handled.start - request <= transition.latency_bound.as_nanos());
    let idle = first_idle_instant(&handled.schedule, request);
    // Where no task is completed the new mode may start before.
    let separated = idle <= handled.start;
    let any_completed = modes.old.iter().any(|old| !modes.is_unchanged(old));
    assert!(separated || !any_completed);
    for (job, end) in &handled.schedule {
        let mode = if job.only_new { &modes.new } else { &modes.old };
        let name = &mode[job.task].name;
        let promised = transition.tasks.iter().find(|task| task.name == *name);
        let promised = promised.unwrap();
        let response = match (separated, job.release < idle) {
            (true, true) => promised.old_response.unwrap(),
            (true, false) => promised.new_response.unwrap(),
            (false, _) => promised.response_bound(),
        };
        assert!(end - job.release <= response.as_nanos(), "{job:?} {end}");
        if job.release <= request && !job.only_new {
            assert!(end - request.min(*end) <= transition.old_done_bound.as_nanos());
        }
    }
}

fn protocols(modes: &Modes, ground: &Ground) -> Option<Vec<(ModeChangeProtocol, SafeTransition)>> {
    let supply = ground.supply();
    let changes = transition_protocols(&modes.old, &modes.new, Supplies::Same(&*supply)).unwrap();
    let changes = changes.into_iter().map(|one| {
        let ProtocolGuarantee {
            protocol,
            transition,
            ..
        } = one;
        transition.ok().map(|transition| (protocol, transition))
    });
    changes.collect()
}

/// Runs random pairs of modes that are schedulable by themselves; how many missed a deadline where
/// new tasks started at once.
fn run_pairs(count: usize, seed: u64, ground: impl Fn(&mut ChaCha8Rng) -> Ground) -> usize {
    let mut random = generator(seed);
    let (mut run, mut missed_at_once) = (0, 0);
    while run < count {
        let ground = ground(&mut random);
        let modes = Modes::any(&mut random, ground.permille());
        let Some(protocols) = protocols(&modes, &ground) else {
            continue;
        };
        run += 1;
        let scenario = Scenario::any(&modes, &mut random);
        for (protocol, transition) in protocols {
            let handled = handle(&scenario, &ground, &transition, Some(&mut random));
            let outcome = std::panic::catch_unwind(|| check(&scenario, &transition, &handled));
            assert!(
                outcome.is_ok(),
                "{protocol:?} on {ground:?}\n{transition:?}\n{scenario:?}"
            );
        }
        let at_once = scenario.with_change(Change::after(scenario.request, 0), None);
        missed_at_once += usize::from(misses(&modes, &schedule(&modes, &ground, &at_once, 0)));
    }
    missed_at_once
}

#[test]
fn no_deadline_is_missed_on_a_cpu() {
    let missed_at_once = run_pairs(20_000, 1, |_| Ground::Cpu);
    // The check can fail: without a protocol it does.
    assert!(missed_at_once > 1_000, "{missed_at_once}");
}

#[test]
fn no_deadline_is_missed_on_a_reservation() {
    let missed_at_once = run_pairs(10_000, 2, Ground::any_reservation);
    assert!(missed_at_once > 500, "{missed_at_once}");
}

/// The longest time from a request in the busy period that begins at `origin` to the first idle
/// instant, completed tasks stopping at the request, with the request at which that is; requests come
/// at the origin, and right after each release of a completed task.
fn longest_wait(modes: &Modes, ground: &Ground, origin: u64) -> (u64, u64) {
    let old = Scenario::synchronous(modes, origin, origin).without_change();
    let busy_end = first_idle_instant(&schedule(modes, ground, &old, origin), origin);
    let completed = |job: &&ModeJob| !modes.is_unchanged(&modes.old[job.task]);
    let releases = old.iter().filter(completed).map(|job| job.release);
    let requests = releases.filter(|at| *at < busy_end).chain([origin]);
    let waits = requests.map(|request| {
        let scenario = Scenario::synchronous(modes, origin, request);
        let far = Change::after(request, NEVER);
        let jobs = schedule(modes, ground, &scenario.with_change(far, None), origin);
        (first_idle_instant(&jobs, request) - request, request)
    });
    // The first request of several with the same wait.
    let longest = waits.max_by_key(|(wait, request)| (*wait, u64::MAX - request));
    longest.unwrap()
}

/// All bounds of time are reached by requests in the busy period that begins with a common release at
/// `origin`, by when the budget has been used up. Whether the longest wait with periodicity comes
/// from a later request; `None` where the modes are not schedulable.
fn bounds_are_reached(modes: &Modes, ground: &Ground, origin: u64) -> Option<bool> {
    let supply = ground.supply();
    let pair = modes.pair(&*supply);
    let idle = idle_time(&pair).unwrap().transition.ok()?;
    let scenario = Scenario::synchronous(modes, origin, origin);
    let waited = |jobs: &[ModeJob]| {
        let scheduled = schedule(modes, ground, jobs, origin);
        ns(first_idle_instant(&scheduled, origin) - origin)
    };
    let goes_on = waited(&scenario.without_change());
    assert_eq!(idle.latency_bound, goes_on, "{modes:?} {ground:?}");

    let all_stop = scenario.with_change(Change::of_all_after(origin, NEVER), None);
    let without = without_periodicity(&pair).unwrap().transition.unwrap();
    assert_eq!(
        without.latency_bound,
        waited(&all_stop),
        "{modes:?} {ground:?}"
    );

    let with = with_periodicity(&pair).unwrap().transition.unwrap();
    if modes.old.iter().all(|old| modes.is_unchanged(old)) {
        assert!(with.latency_bound.is_zero());
        return Some(false);
    }
    let (waited, request) = longest_wait(modes, ground, origin);
    assert_eq!(with.latency_bound, ns(waited), "{modes:?} {ground:?}");
    Some(request > origin)
}

#[test]
fn bounds_are_reached_on_a_cpu() {
    let mut random = generator(3);
    let mut run = 0;
    while run < 5_000 {
        let modes = Modes::any(&mut random, 1_000);
        run += usize::from(bounds_are_reached(&modes, &Ground::Cpu, 0).is_some());
    }
}

#[test]
fn bounds_are_reached_on_a_deferrable_reservation() {
    let mut random = generator(4);
    let mut run = 0;
    while run < 5_000 {
        let mut ground = Ground::any_reservation(&mut random);
        let Ground::Reserved {
            rule,
            budget_ns,
            phase,
            ..
        } = &mut ground
        else {
            continue;
        };
        (*rule, *phase) = (Rule::Server(ServerKind::Deferrable), 0);
        // What came before has used a whole budget as soon as it could.
        let origin = *budget_ns;
        let modes = Modes::any(&mut random, ground.permille());
        run += usize::from(bounds_are_reached(&modes, &ground, origin).is_some());
    }
}

#[test]
fn a_request_after_the_common_release_may_be_the_worst() {
    let (mut run, mut later) = (0, 0);
    for (period_ns, unchanged_period_ns) in (6..=10).flat_map(|a| (9..=15).map(move |b| (a, b))) {
        for (first, second, third) in (2..=5)
            .flat_map(|a| (3..=8).map(move |b| (a, b)))
            .flat_map(|(a, b)| (1..=5).map(move |c| (a, b, c)))
        {
            let unchanged = (second, unchanged_period_ns, unchanged_period_ns);
            let modes = Modes {
                old: vec![
                    mode_task("O", 1, (first, period_ns, period_ns)),
                    mode_task("U", 2, unchanged),
                    mode_task("X", 3, (third, 30, 30)),
                ],
                new: vec![mode_task("U", 2, unchanged)],
            };
            let reached = bounds_are_reached(&modes, &Ground::Cpu, 0);
            run += usize::from(reached.is_some());
            later += usize::from(reached == Some(true));
        }
    }

    assert!(run > 1_000 && later > 20, "{later} of {run}");
}

/// A mode by itself, on a reservation that it had not used before.
fn alone_from(
    start: u64,
    scenario: &Scenario<'_>,
    ground: &Ground,
    random: &mut ChaCha8Rng,
) -> Schedule {
    let jobs = scenario.with_change(
        Change {
            completed_end: 0,
            unchanged_end: 0,
            start,
        },
        Some(random),
    );
    let shifted: Vec<ModeJob> = jobs
        .into_iter()
        .map(|job| ModeJob {
            release: job.release - start,
            ..job
        })
        .collect();
    schedule(scenario.modes, ground, &shifted, 0)
}

#[test]
fn the_reservation_may_change_at_an_idle_instant() {
    let mut random = generator(5);
    let (mut run, mut refused) = (0, 0);
    while run < 5_000 {
        let grounds = [0, 1].map(|_| Ground::any_reservation(&mut random));
        let permille = grounds.iter().map(Ground::permille).min().unwrap();
        let modes = Modes::any(&mut random, permille);
        let (old, new) = (grounds[0].supply(), grounds[1].supply());
        let supplies = Supplies::Changing {
            old: &*old,
            new: &*new,
        };
        let changes = transition_protocols(&modes.old, &modes.new, supplies).unwrap();
        if !changes[0].schedulable() {
            continue;
        }
        run += 1;
        let stays = modes.old.iter().any(|old| modes.is_unchanged(old));
        refused += usize::from(stays);
        let scenario = Scenario::any(&modes, &mut random);
        for one in changes {
            let ProtocolGuarantee {
                protocol,
                transition,
                ..
            } = one;
            let goes_on = [
                ModeChangeProtocol::MaximumPeriodOffset,
                ModeChangeProtocol::MinimumSingleOffsetWithPeriodicity,
            ];
            if goes_on.contains(&protocol) && stays {
                assert_eq!(transition, Err(NoTransition::ReservationChanges));
                continue;
            }
            let transition = transition.unwrap();
            let before = handle(&scenario, &grounds[0], &transition, None);
            let mut early = before.schedule;
            early.retain(|(job, _)| job.release < before.start);
            assert!(!misses(&modes, &early), "{protocol:?} {scenario:?}");
            assert!(early.iter().all(|(_, end)| *end <= before.start));
            let late = alone_from(before.start, &scenario, &grounds[1], &mut random);
            assert!(!misses(&modes, &late), "{protocol:?} {scenario:?}");
        }
    }
    assert!(refused > 100);
}

/// The example of the documentation: completed O and X, unchanged U, and a new task on top.
fn later_request() -> Modes {
    let unchanged = mode_task("U", 2, (7, 15, 15));
    Modes {
        old: vec![
            mode_task("O", 1, (4, 10, 10)),
            unchanged.clone(),
            mode_task("X", 3, (4, 30, 30)),
        ],
        new: vec![mode_task("N", 0, (6, 20, 20)), unchanged],
    }
}

#[test]
fn a_later_request_may_wait_longer_than_one_at_a_common_release() {
    let modes = later_request();
    let change = with_periodicity(&modes.pair(&DedicatedCpu)).unwrap();
    let transition = change.transition.unwrap();
    assert_eq!(transition.start, NewModeStart::NewTasksAfter(ns(16)));
    assert_eq!(longest_wait(&modes, &Ground::Cpu, 0), (16, 10));
    let all = protocols(&modes, &Ground::Cpu).unwrap();
    let bounds: Vec<_> = all.iter().map(|one| one.1.latency_bound).collect();
    assert_eq!(bounds, [30, 30, 15, 16].map(ns));
    let scenario = Scenario::synchronous(&modes, 0, 10);
    let after = |offset| {
        let jobs = scenario.with_change(Change::after(10, offset), None);
        schedule(&modes, &Ground::Cpu, &jobs, 0)
    };
    // What a request at the common release waits for is not enough.
    let at_common_release = Scenario::synchronous(&modes, 0, 0);
    let far = Change::after(0, NEVER);
    let scheduled = schedule(
        &modes,
        &Ground::Cpu,
        &at_common_release.with_change(far, None),
        0,
    );
    assert_eq!(first_idle_instant(&scheduled, 0), 15);
    assert!(misses(&modes, &after(15)));
    assert!(!misses(&modes, &after(16)));
}

#[test]
fn starting_at_once_misses_a_deadline() {
    let modes = Modes {
        old: vec![mode_task("a", 1, (2, 4, 4))],
        new: vec![mode_task("b", 0, (3, 6, 6))],
    };
    let scenario = Scenario::synchronous(&modes, 0, 0);
    let at_once = scenario.with_change(Change::after(0, 0), None);
    assert!(misses(&modes, &schedule(&modes, &Ground::Cpu, &at_once, 0)));
    for (_, transition) in protocols(&modes, &Ground::Cpu).unwrap() {
        let handled = handle(&scenario, &Ground::Cpu, &transition, None);
        check(&scenario, &transition, &handled);
    }
}
