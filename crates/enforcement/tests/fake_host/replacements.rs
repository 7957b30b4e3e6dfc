//! Changes that are accepted and do not hold yet: nobody gets what they give back before they do.

use std::collections::BTreeMap;
use std::path::Path;

use super::fake_kernel::{FakeKernel, FakeManagers};
use proptest::prelude::*;
use tailbound_enforcement::admission::limits_of;
use tailbound_enforcement::{
    Enforcer, KernelState, KernelView, ReservationChange, ReservationRequest, Target,
};
use tailbound_model::BackendKind;
use tailbound_time::{Duration, Fraction, Instant};

use super::stage::*;

const PERIOD_MS: u64 = 100;
const NAMES: [&str; 3] = ["one", "two", "three"];

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn reservation(place: usize, budget_ms: u64) -> ReservationRequest {
    let target = Target::Processes(vec![PROCESSES[place].0]);
    let interface = interface(budget_ms, PERIOD_MS, 80, &[1]);
    request(NAMES[place], target, interface, BackendKind::DsFreeze)
}

/// A host whose next replenishments lie at 200 ms.
struct Stage {
    kernel: FakeKernel,
    managers: FakeManagers,
    enforcer: Enforcer,
    /// Goes last: an enforcer that ends locks it once more.
    directory: tempfile::TempDir,
}

fn stage(budgets_ms: &[u64]) -> Stage {
    let (kernel, directory) = (host(), state_directory());
    let managers = FakeManagers::default();
    managers.replenish_at(at(200));
    let mut enforcer = enforcer_with(&kernel, managers.clone(), directory.path());
    let wanted = budgets_ms.iter().enumerate();
    let wanted: Vec<_> = wanted.map(|(place, ms)| reservation(place, *ms)).collect();
    enforcer.apply(&wanted).unwrap();
    Stage {
        kernel,
        managers,
        enforcer,
        directory,
    }
}

impl Stage {
    fn change(&mut self, place: usize, budget_ms: u64) -> Result<Instant, String> {
        self.change_from(place, budget_ms, 0)
    }

    fn change_from(&mut self, place: usize, budget_ms: u64, from: u64) -> Result<Instant, String> {
        let interface = interface(budget_ms, PERIOD_MS, 80, &[1]);
        let changed = self.enforcer.change_from(ReservationChange {
            domain: NAMES[place],
            interface: &interface,
            not_before: at(from),
        });
        let changed = changed.map_err(|error| error.to_string())?;
        Ok(changed.in_force_at.expect("it has a manager"))
    }

    fn other(&self) -> Enforcer {
        let directory: &Path = self.directory.path();
        enforcer_with(&self.kernel, self.managers.clone(), directory)
    }
}

#[test]
fn who_takes_what_another_gives_back_waits_until_it_is_given_back() {
    let mut stage = stage(&[50, 30]);
    assert_eq!(stage.change(0, 10), Ok(at(200)));
    // Its own next replenishment would be sooner.
    stage.managers.replenish_at(at(150));
    assert_eq!(stage.change(1, 70), Ok(at(200)));
    // What was free before is to be had at once.
    assert_eq!(stage.change(1, 35), Ok(at(150)));
}

#[test]
fn new_reservations_wait_for_what_is_given_back_whoever_holds_it() {
    let mut stage = stage(&[50, 30]);
    stage.change(0, 10).unwrap();
    let mut other = stage.other();
    other.apply(&[reservation(2, 5)]).unwrap();
    assert_eq!(
        stage.kernel.now(),
        Instant::ORIGIN,
        "there was room for that"
    );
    other.revert_all().unwrap();
    other.apply(&[reservation(2, 40)]).unwrap();
    assert_eq!(stage.kernel.now(), at(200));
}

#[test]
fn a_period_that_changes_lets_nobody_in_before_it_has() {
    let mut stage = stage(&[50, 10]);
    let shorter = interface(10, 50, 80, &[1]);
    let changed = stage.enforcer.change_from(ReservationChange {
        domain: "one",
        interface: &shorter,
        not_before: Instant::ORIGIN,
    });
    assert_eq!(changed.unwrap().in_force_at, Some(at(200)));
    stage.managers.replenish_at(at(150));
    assert_eq!(stage.change(1, 20), Ok(at(200)));
}

#[test]
fn a_refused_growth_leaves_all_as_it_was() {
    let mut stage = stage(&[50, 30]);
    assert_eq!(stage.change(0, 20), Ok(at(200)));
    stage.managers.refuse(true);
    stage.change(0, 40).unwrap_err();
    stage.managers.refuse(false);
    stage.managers.replenish_at(at(150));
    // Its 50 ms count until they end, its 20 ms after that; nothing of the 40 ms does.
    assert_eq!(stage.change(1, 60), Ok(at(200)));
    assert_eq!(
        stage.enforcer.status().domains[0].interface.budget,
        Duration::from_millis(20)
    );
}

#[test]
fn a_growth_that_may_have_been_taken_up_counts_until_the_next_change() {
    let mut stage = stage(&[10, 30]);
    stage.managers.lose_answers(true);
    stage.change(0, 50).unwrap_err();
    stage.managers.lose_answers(false);
    stage.change(1, 60).unwrap_err();
    assert_eq!(stage.change(0, 10), Ok(at(200)));
    stage.managers.replenish_at(at(150));
    assert_eq!(stage.change(1, 60), Ok(at(200)));
}

#[test]
fn a_change_without_a_manager_counts_for_the_old_period() {
    let (mut kernel, directory) = (host(), state_directory());
    let mut enforcer = enforcer(&kernel, directory.path());
    let group = |place: usize, budget| ReservationRequest {
        backend: BackendKind::CfsQuota,
        ..reservation(place, budget)
    };
    enforcer.apply(&[group(0, 50), group(1, 30)]).unwrap();
    let small = interface(10, PERIOD_MS, 80, &[1]);
    assert_eq!(
        enforcer
            .change_from(ReservationChange {
                domain: "one",
                interface: &small,
                not_before: Instant::ORIGIN
            })
            .unwrap()
            .in_force_at,
        None
    );
    kernel.wait_until(at(30));
    let large = interface(80, PERIOD_MS, 80, &[1]);
    enforcer
        .change_from(ReservationChange {
            domain: "two",
            interface: &large,
            not_before: Instant::ORIGIN,
        })
        .unwrap();
    assert_eq!(kernel.now(), at(100));
}

#[test]
fn a_quota_changes_by_one_write_without_a_look_at_the_members() {
    let (kernel, directory) = (host(), state_directory());
    let before = kernel.snapshot();
    let mut enforcer = enforcer(&kernel, directory.path());
    let capped = ReservationRequest {
        backend: BackendKind::CfsQuota,
        ..reservation(0, 50)
    };
    enforcer.apply(&[capped]).unwrap();
    let applied = kernel.snapshot();
    // No member can be looked at.
    let pid = PROCESSES[0].0;
    kernel.alter(|state| state.threads.retain(|_, thread| thread.pid != pid));
    let writes = kernel.writes();
    for budget_ms in [20, 60, 50] {
        let plan = enforcer.change("one", &interface(budget_ms, PERIOD_MS, 80, &[1]));
        assert_eq!(
            plan.unwrap().request.interface.budget,
            Duration::from_millis(budget_ms)
        );
    }
    assert_eq!(kernel.writes(), writes + 3);
    // The same budget is the same host, and one that is refused leaves the old one.
    kernel.alter(|state| *state = applied.clone());
    kernel.refuse_at(Some(0));
    let refused = enforcer.change("one", &interface(20, PERIOD_MS, 80, &[1]));
    assert!(refused.is_err());
    assert_eq!(kernel.snapshot(), applied);
    kernel.refuse_at(None);
    enforcer.revert("one").unwrap();
    assert_eq!(kernel.snapshot(), before);
}

/// The budgets of a domain from each instant on.
type Course = BTreeMap<u64, u64>;

fn in_force(course: &Course, ms: u64) -> u64 {
    let (_, budget) = course.range(..=ms).next_back().unwrap();
    *budget
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn budgets_in_force_never_exceed_the_bound(
        steps in prop::collection::vec(
            (0_usize..3, 1_u64..80, 0_u64..350, 0_u64..120, any::<bool>()), 1..25,
        ),
    ) {
        let mut stage = stage(&[20, 20, 20]);
        let mut courses: [Course; 3] = std::array::from_fn(|_| [(0, 20)].into());
        let most = limits_of(stage.enforcer.host()).bound(BackendKind::DsFreeze);
        for (place, budget, wait, passes, in_a_row) in steps {
            let now = stage.kernel.now().as_nanos() / 1_000_000;
            let next = now / PERIOD_MS * PERIOD_MS + PERIOD_MS;
            stage.managers.replenish_at(at(next));
            if in_a_row {
                stage.enforcer.begin_changes().unwrap();
            } else {
                stage.enforcer.end_changes().unwrap();
            }
            let from = (now + wait) / PERIOD_MS * PERIOD_MS;
            if let Ok(since) = stage.change_from(place, budget, from) {
                // Admission may ask for an instant that is not on the grid.
                let since = (since.as_nanos() / 1_000_000).div_ceil(PERIOD_MS) * PERIOD_MS;
                courses[place].split_off(&since);
                courses[place].insert(since, budget);
            }
            stage.kernel.wait_until(at(now + passes));
        }
        let instants: Vec<u64> = courses.iter().flat_map(Course::keys).copied().collect();
        for ms in instants {
            let sum: u64 = courses.iter().map(|course| in_force(course, ms)).sum();
            prop_assert!(Fraction::new(sum, PERIOD_MS) <= most, "{sum} at {ms}: {courses:?}");
        }
    }
}
