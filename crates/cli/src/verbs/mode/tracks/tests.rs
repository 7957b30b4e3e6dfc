#![allow(clippy::unwrap_used)]

use tailbound_modes::transition::StepKind;
use tailbound_simulator::traces::write_timeline;

use super::super::change_answer::example::{completed, given_up};
use super::*;

/// The reader of traces that shares nothing with what writes them.
#[path = "../../../../../simulator/tests/traces/wire.rs"]
mod wire;

/// What Perfetto would show of a change.
fn shown(report: &Report) -> String {
    let bytes = write_timeline(&of(report), Vec::new()).unwrap();
    let shown = wire::Shown::of(&wire::packets(&bytes).unwrap()).unwrap();
    assert_eq!(shown.disorder(), Vec::<String>::new());
    shown.text()
}

#[test]
fn a_trace_shows_each_part_on_a_track_of_its_domain() {
    let wanted = "\
arm/boost: boost 1000012000-1000111000
arm/reservation: change 1000112000-1000132000 accepted, not yet in force 1000132000-1005000000
arm/tasks: send 1000010000-1000040000 signal 1000040000-1000090000 receive 1000090000-1000110000
camera/reservation: change 1000134000-1000164000 accepted, not yet in force 1000164000-1010000000
mode change: run -> calibrate 1000000000-1000165000
arm: [(\"settled\", 1000133000)]
camera: [(\"settled\", 1000165000)]
mode change: [(\"all in force\", 1010000000)]
";
    assert_eq!(shown(&completed()), wanted);
}

#[test]
fn a_trace_shows_what_failed_and_what_took_it_back() {
    let wanted = "\
arm/tasks: answer 1000010000-1100010000
mode change: run -> calibrate 1000000000-1100011000 taken back, calibrate -> run \
1100011000-1100020000
arm: [(\"timed out\", 1100010000), (\"settled\", 1100011000)]
";
    let mut report = given_up();
    let back = report.rolled_back.as_mut().unwrap();
    back.timeline.began_at = Some(Instant::from_nanos(1_100_011_000));
    back.timeline.ended_at = Some(Instant::from_nanos(1_100_020_000));
    assert_eq!(shown(&report), wanted);
}

#[test]
fn the_clock_of_another_host_puts_nothing_out_of_the_change() {
    let mut report = completed();
    for (received, switched) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0)] {
        for step in &mut report.timeline.steps {
            if let StepKind::Acknowledged {
                received_at,
                switched_at,
            } = &mut step.kind
            {
                *received_at = Instant::from_nanos(received);
                *switched_at = Instant::from_nanos(switched);
            }
        }
        let (first, last) = (1_000_000_000, 1_010_000_000);
        for track in of(&report).iter().flat_map(|track| &track.below) {
            for slice in &track.slices {
                let within = first <= slice.from_ns
                    && slice.from_ns <= slice.until_ns
                    && slice.until_ns <= last;
                assert!(within, "{slice:?}");
            }
        }
        shown(&report);
    }
}
