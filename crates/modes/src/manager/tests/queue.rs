//! Reservations that take time to be in force.

use super::*;

/// For so long what was replaced is in force still.
const LATE: Duration = Duration::from_millis(7);

/// The back end cannot be asked for later instants, so the manager waits itself, and no longer than it must.
#[test]
fn who_grows_is_given_more_when_the_others_have_less() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.0.borrow_mut().in_force_after_ns = LATE.as_nanos();
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed);
    let asked = host.0.borrow().asked.clone();
    let domains: Vec<&str> = asked.iter().map(|(domain, _)| domain.as_str()).collect();
    assert_eq!(domains, ["a", "c"]);
    assert_eq!(asked[1].1.saturating_since(asked[0].1), LATE);
}

/// What a change has accepted need not be in force when the next one begins, nor when that is taken back.
#[test]
fn the_next_change_waits_for_what_the_last_one_has_accepted() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    // Nobody waits for the interfaces but who needs their room.
    let options = Options {
        start: TaskStart::Accepted,
        ..manager.table().options()
    };
    manager.set_options(options);
    host.0.borrow_mut().in_force_after_ns = LATE.as_nanos();
    manager.change_to(&COMMAND, "off").unwrap();
    manager.change_to(&COMMAND, "rest").unwrap();
    let asked = host.0.borrow().asked.clone();
    let of = |domain: &str| asked.iter().find(|(of, _)| of == domain).unwrap().1;
    assert_eq!(of("c").saturating_since(of("a")), LATE);
}
