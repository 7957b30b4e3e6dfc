//! Changes that never were.

use tailbound_modes::manager::Report;
use tailbound_modes::transition::{
    Cause, Ending, HeldMode, Settled, Step, StepKind, Timeline, TransitionOutcome,
};
use tailbound_time::{Duration, Instant};

fn at(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + us * 1_000)
}

fn step(us: u64, domain: &str, kind: StepKind) -> Step {
    Step {
        at: at(us),
        domain: domain.into(),
        kind,
    }
}

fn settled(interface: HeldMode, tasks: Option<HeldMode>) -> Settled {
    Settled { interface, tasks }
}

/// The agent of `arm` has not answered.
pub fn no_answer() -> Cause {
    Cause::NoAnswer {
        domain: "arm".into(),
        waited: Duration::from_millis(100),
    }
}

/// `arm` gives time back after its tasks were switched, and `camera` gets it.
pub fn completed() -> Report {
    let steps = vec![
        step(10, "arm", StepKind::Sent),
        step(12, "arm", StepKind::Boosted),
        step(
            110,
            "arm",
            StepKind::Acknowledged {
                received_at: at(40),
                switched_at: at(90),
            },
        ),
        step(111, "arm", StepKind::Unboosted),
        step(112, "arm", StepKind::InterfaceAsked),
        step(
            132,
            "arm",
            StepKind::InterfaceAccepted {
                in_force_at: at(5_000),
            },
        ),
        step(133, "arm", StepKind::Settled),
        step(134, "camera", StepKind::InterfaceAsked),
        step(
            164,
            "camera",
            StepKind::InterfaceAccepted {
                in_force_at: at(10_000),
            },
        ),
        step(165, "camera", StepKind::Settled),
    ];
    let new = settled(HeldMode::New, Some(HeldMode::New));
    Report {
        from: "run".into(),
        to: "calibrate".into(),
        outcome: TransitionOutcome {
            ending: Ending::Completed,
            domains: [("arm".into(), new.clone()), ("camera".into(), new)].into(),
        },
        timeline: Timeline {
            began_at: Some(at(0)),
            ended_at: Some(at(165)),
            steps,
        },
        rolled_back: None,
    }
}

/// The agent of `arm` does not answer; nothing had changed before.
pub fn given_up() -> Report {
    let timeline = |steps: Vec<Step>, end: u64| Timeline {
        began_at: Some(at(0)),
        ended_at: Some(at(end)),
        steps,
    };
    let steps = vec![
        step(10, "arm", StepKind::Sent),
        step(100_010, "arm", StepKind::TimedOut),
        step(100_011, "arm", StepKind::Settled),
    ];
    let back = Report {
        from: "calibrate".into(),
        to: "run".into(),
        outcome: TransitionOutcome {
            ending: Ending::Completed,
            domains: [("arm".into(), settled(HeldMode::New, Some(HeldMode::New)))].into(),
        },
        timeline: timeline(Vec::new(), 0),
        rolled_back: None,
    };
    Report {
        from: "run".into(),
        to: "calibrate".into(),
        outcome: TransitionOutcome {
            ending: Ending::GivenUp(no_answer()),
            domains: [("arm".into(), settled(HeldMode::Old, None))].into(),
        },
        timeline: timeline(steps, 100_011),
        rolled_back: Some(Box::new(back)),
    }
}
