#![allow(clippy::unwrap_used)]

use super::*;
use crate::ExperimentStep;

const TEXT: &str = r#"
    schema_version = 1
    name = "store"

    [hosts.here]
    cpus = [0]

    [domains.store]
    kind = "process"
    builtin = "synthetic-service"
    reservation = { budget = "4ms", period = "10ms", cpus = [0] }

    [services.store]
    domain = "store"
    protocol = "synthetic"
    endpoint = "unix:store.sock"
    tasks.get = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "constant", value = "1ms" } }

    [[experiment.variants]]
    name = "a"
    repetitions = 2

    [[experiment.variants]]
    name = "b"
    repetitions = 1

    [[experiment.variants]]
    name = "c"
    repetitions = 3
"#;

/// A system in which nothing runs, and which fails when it is told to.
#[derive(Default)]
struct FakeRig {
    /// The variants that were measured, in their order.
    measured: Vec<String>,
    /// The daemon refuses this variant.
    refused: Option<&'static str>,
    /// The measurement of this variant fails.
    failing: Option<&'static str>,
    /// A program is dead after so many measurements.
    dead_after: Option<usize>,
    /// The user wants to end after so many measurements.
    stopped_after: Option<usize>,
}

impl Measurable for FakeRig {
    fn repeat(
        &mut self,
        variant: &Variant,
        _: &Deployment,
        _: &mut dyn Observer,
        RepetitionSlot {
            done: (from, until),
            ..
        }: RepetitionSlot,
    ) -> Result<Repetition, ExperimentError> {
        assert!(from < until && until <= 1.0 + 1e-9);
        let name = variant.name.as_str();
        self.measured.push(name.into());
        if self.refused == Some(name) {
            let refusal = tailbound_control::Refusal {
                message: "no room".into(),
                kind: tailbound_control::RefusalKind::Admission,
                reason: None,
            };
            return Err(ClientError::Refused(refusal).into());
        }
        if self.failing == Some(name) {
            return Err(ExperimentError::Stopped);
        }
        Ok(Repetition::default())
    }

    fn check_alive(&mut self) -> Result<(), ExperimentError> {
        match self.dead_after == Some(self.measured.len()) {
            false => Ok(()),
            true => Err(ExperimentError::Ended {
                domain: "store".into(),
                program: "store-server".into(),
                how: "signal 9".into(),
                log: "store.log".into(),
            }),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped_after
            .is_some_and(|count| self.measured.len() >= count)
    }
}

/// What was remarked.
#[derive(Default)]
struct Remarks(Vec<String>);

impl Observer for Remarks {
    fn step(&mut self, _: &ExperimentStep) {}

    fn remark(&mut self, text: &str) {
        self.0.push(text.into());
    }
}

/// Measures all with this rig: the order, why it ended early, and what was remarked.
fn campaign(mut rig: FakeRig) -> (String, Option<String>, Vec<String>) {
    let loaded = tailbound_analysis::FORMAT
        .load_text(TEXT.into(), "store.toml")
        .unwrap();
    let inputs = InputFiles::default();
    let variants = &loaded.description.experiment.variants;
    let deployments = variants.iter().map(|variant| {
        let deployment = Deployment::of_run(&loaded.description, variant).unwrap();
        (variant.name.clone(), deployment)
    });
    let deployments = deployments.collect();
    let out = tempfile::tempdir().unwrap();
    let mut findings = Findings::new(&loaded, &inputs, 1, out.path());
    let mut remarks = Remarks::default();
    measure_all(&mut rig, &deployments, &mut findings, &mut remarks);
    (rig.measured.join(" "), findings.interrupted, remarks.0)
}

#[test]
fn repetitions_are_interleaved() {
    let (order, interrupted, remarks) = campaign(FakeRig::default());
    assert_eq!(order, "a b c a c c");
    assert_eq!((interrupted, remarks), (None, Vec::new()));
}

#[test]
fn a_variant_that_the_daemon_refuses_is_left_out_from_then_on() {
    let (order, interrupted, remarks) = campaign(FakeRig {
        refused: Some("c"),
        ..FakeRig::default()
    });
    assert_eq!((order.as_str(), interrupted), ("a b c a", None));
    assert_eq!(remarks.len(), 1, "{remarks:?}");
    assert!(remarks[0].contains("c is not measured"), "{remarks:?}");
}

#[test]
fn nothing_is_measured_without_what_the_description_is_about() {
    let (order, interrupted, _) = campaign(FakeRig {
        refused: Some("a"),
        ..FakeRig::default()
    });
    assert_eq!(order, "a");
    assert!(interrupted.unwrap().starts_with("variant a: "));
}

#[test]
fn a_failure_and_a_dead_program_end_the_campaign() {
    let (order, interrupted, _) = campaign(FakeRig {
        failing: Some("b"),
        ..FakeRig::default()
    });
    assert_eq!(order, "a b");
    assert!(interrupted.unwrap().starts_with("variant b: "));
    let (order, interrupted, _) = campaign(FakeRig {
        dead_after: Some(3),
        ..FakeRig::default()
    });
    assert_eq!(order, "a b c");
    assert!(interrupted.unwrap().contains("store-server"));
}

#[test]
fn the_user_ends_it_between_two_measurements() {
    let (order, interrupted, _) = campaign(FakeRig {
        stopped_after: Some(2),
        ..FakeRig::default()
    });
    assert_eq!(order, "a b");
    assert_eq!(interrupted.as_deref(), Some(STOPPED_BY_USER));
}
