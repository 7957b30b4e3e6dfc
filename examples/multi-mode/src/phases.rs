//! A set-up through changes of its mode and back, with the jobs of each phase.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tailbound_time::Duration;

use crate::case::Case;
use crate::commands::{StepError, Tailbound, tried};
use crate::counts::Jobs;
use crate::description::{MODES, SetUp, text};
use crate::system::{Stop, System, sleep};
use crate::witness::Witness;

/// From the request on, jobs are counted as those of the change for so long after its end. Tasks tell of
/// their jobs four times a second, and the longest period is a quarter of one.
const CHANGE_LASTS: Duration = Duration::from_millis(1000);

/// A phase counts as disturbed by this much: the shortest period that a task can have.
const DISTURBED: Duration = Duration::from_millis(25);

/// A time in which nothing else happens, or a change.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// The mode that holds, or to which is changed.
    pub mode: &'static str,
    /// Of a change.
    pub change: Option<Change>,
    /// For how long something else had the CPU, beyond what reservations explain.
    pub disturbed_ns: u64,
    /// Whether that was too long to count this phase.
    pub disturbed: bool,
    /// Of each domain, in the order of the case.
    pub jobs: Vec<Jobs>,
}

/// What `tailbound mode set` says.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Whether all of the new mode holds.
    pub completed: bool,
    /// Of its own, in the command's words.
    pub latency_ns: u64,
    /// From the request to the instant from which the last reservation is in force.
    pub in_force_after_ns: u64,
}

/// The phases of a set-up.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Whose reservations these are.
    pub set_up: &'static str,
    /// The policy of changes.
    pub policy: &'static str,
    /// In the order of time.
    pub phases: Vec<Phase>,
}

impl Run {
    /// Jobs of all undisturbed phases that `wanted` takes, of all domains. What waited at the end of a
    /// disturbance is done in the phase after it, which does not count either.
    pub fn jobs(&self, wanted: impl Fn(&Phase) -> bool) -> Jobs {
        let before = std::iter::once(false).chain(self.phases.iter().map(|phase| phase.disturbed));
        let phases = self.phases.iter().zip(before);
        let phases = phases.filter(|(phase, before)| !phase.disturbed && !before);
        let phases = phases.map(|(phase, _)| phase).filter(|phase| wanted(phase));
        let jobs = phases.flat_map(|phase| &phase.jobs);
        jobs.fold(Jobs::default(), |all, one| all.and(*one))
    }

    /// Jobs of all phases, disturbed or not: what the witness saw may have been ours.
    pub fn all_jobs(&self) -> Jobs {
        let jobs = self.phases.iter().flat_map(|phase| &phase.jobs);
        jobs.fold(Jobs::default(), |all, one| all.and(*one))
    }

    /// Changes, with what they took.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.phases.iter().filter_map(|phase| phase.change.as_ref())
    }
}

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Of each phase between changes.
    pub phase: Duration,
    /// Changes to the second mode and back.
    pub rounds: u32,
}

/// Where a set-up is executed.
pub struct Stage<'a> {
    /// The case.
    pub case: &'a Case,
    /// The programs.
    pub tailbound: &'a Tailbound,
    /// Of disturbances.
    pub witness: &'a Witness,
    /// For files of ours.
    pub folder: &'a Path,
    /// Ctrl-C.
    pub stop: &'a Stop,
}

impl Stage<'_> {
    /// Writes the description of a set-up.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn describe(
        &self,
        system: &System<'_>,
        set_up: SetUp,
        policy: &str,
    ) -> Result<String, StepError> {
        let path = self.folder.join("multi-mode.toml");
        let text = text(self.case, &system.host(), set_up, policy);
        tried(fs::write(&path, text), || path.display().to_string())?;
        Ok(path.display().to_string())
    }

    /// Applies a set-up, changes its mode to and fro, and takes it back.
    ///
    /// # Errors
    /// Whatever fails; the caller reverts.
    pub fn run(
        &self,
        system: &mut System<'_>,
        plan: Plan,
        set_up: (SetUp, &'static str),
        policy: &'static str,
    ) -> Result<Run, StepError> {
        let path = self.describe(system, set_up.0, policy)?;
        self.tailbound.run(&["-q", "apply", &path])?;
        system.connect()?;
        // Until backlogs of the time without reservations are gone.
        sleep(CHANGE_LASTS, self.stop)?;
        self.phase(system, MODES[0], None)?;
        let mut phases = vec![self.steady(system, plan, MODES[0])?];
        for mode in [MODES[1], MODES[0]].repeat(plan.rounds as usize) {
            phases.push(self.change(system, mode)?);
            phases.push(self.steady(system, plan, mode)?);
        }
        self.tailbound.run(&["-q", "revert"])?;
        system.disconnect();
        Ok(Run {
            set_up: set_up.1,
            policy,
            phases,
        })
    }

    fn steady(
        &self,
        system: &mut System<'_>,
        plan: Plan,
        mode: &'static str,
    ) -> Result<Phase, StepError> {
        sleep(plan.phase, self.stop)?;
        self.phase(system, mode, None)
    }

    fn change(&self, system: &mut System<'_>, mode: &'static str) -> Result<Phase, StepError> {
        let file = self.folder.join("change.json");
        let file = file.display().to_string();
        let set = ["-q", "mode", "set", mode, "--export-json", &file];
        self.tailbound.run(&set)?;
        let answer = tried(fs::read(&file), || file.clone())?;
        let answer: Result<Value, _> = serde_json::from_slice(&answer);
        let answer = tried(answer.map_err(Into::into), || file.clone())?;
        let change = Change {
            completed: answer["ending"] == "completed",
            latency_ns: answer["latency_ns"].as_u64().unwrap_or_default(),
            in_force_after_ns: answer["in_force_after_ns"].as_u64().unwrap_or_default(),
        };
        sleep(CHANGE_LASTS, self.stop)?;
        self.phase(system, mode, Some(change))
    }

    /// What happened since the last call.
    fn phase(
        &self,
        system: &mut System<'_>,
        mode: &'static str,
        change: Option<Change>,
    ) -> Result<Phase, StepError> {
        let disturbed_ns = self.witness.disturbed_ns();
        Ok(Phase {
            mode,
            change,
            disturbed_ns,
            disturbed: disturbed_ns >= DISTURBED.as_nanos(),
            jobs: system.window()?,
        })
    }
}
