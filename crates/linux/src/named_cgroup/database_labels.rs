//! Labels that engines keep in databases: podman and containerd are asked for theirs by their programs.
//!
//! A container keeps its labels for as long as it lives, so that each is asked about once by a process: who looks a label up
//! again and again, since its container is down, starts no program each time.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;

use super::Labels;
use super::engines::texts;
use super::oci_state::OciState;
use crate::spawn::answer;

/// How long a program may take: podman waits for others of its kind.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The annotation by which containerd names the sandbox of a container's pod, which has the pod's labels.
const SANDBOX_ID: &str = "io.kubernetes.cri.sandbox-id";

/// The annotation by which podman tells that a container is its own.
const MANAGER: &str = "io.container.manager";
const LIBPOD: &str = "libpod";

/// The words of a program with its arguments, and what it answers: JSON, or nothing.
pub(super) type AskProgram<'a> = &'a dyn Fn(&[&str]) -> Option<Json>;

/// `DatabaseLabels` are the labels that have been asked for, by the identifiers of the containers.
#[derive(Debug, Default)]
pub(super) struct DatabaseLabels {
    asked: BTreeMap<String, Labels>,
}

impl DatabaseLabels {
    /// Asks for the labels of those containers that run and have not been asked about, and forgets those that have gone.
    pub fn update(&mut self, states: &[OciState], ask: AskProgram<'_>) {
        let ids: BTreeSet<&String> = states.iter().map(|state| &state.id).collect();
        self.asked.retain(|id, _| ids.contains(id));
        let new = states.iter().filter(|state| state.runs());
        let new: Vec<&OciState> = new
            .filter(|one| !self.asked.contains_key(&one.id))
            .collect();
        let is_of_podman = |state: &&OciState| {
            let annotations = state.annotations();
            annotations.get(MANAGER).is_some_and(|name| name == LIBPOD)
        };
        if new.iter().copied().any(|state| is_of_podman(&state)) {
            let answer = ask(&["podman", "ps", "--no-trunc", "--format", "json"]);
            let containers = answer.as_ref().and_then(Json::as_array);
            for container in containers.into_iter().flatten() {
                let id = container["Id"].as_str().unwrap_or_default().to_owned();
                self.asked.insert(id, texts(&container["Labels"]));
            }
        }
        for state in new {
            let Some(namespace) = state.containerd_namespace() else {
                continue;
            };
            let question = ["containers", "info", &state.id];
            let words = [&["ctr", "--namespace", namespace], &question[..]].concat();
            if let Some(answer) = ask(&words) {
                self.asked
                    .insert(state.id.clone(), texts(&answer["Labels"]));
            }
        }
    }

    /// The labels of a container, and of the pod that it is in.
    pub fn of(&self, state: &OciState, annotations: &Labels) -> Labels {
        let sandbox = annotations.get(SANDBOX_ID);
        let of_pod = sandbox.and_then(|sandbox| self.asked.get(sandbox));
        let mut labels = of_pod.cloned().unwrap_or_default();
        labels.extend(self.asked.get(&state.id).cloned().unwrap_or_default());
        labels
    }
}

/// The labels that this process has asked for.
static ASKED: Mutex<DatabaseLabels> = Mutex::new(DatabaseLabels {
    asked: BTreeMap::new(),
});

/// Uses the labels that this process has asked for.
pub(super) fn with_asked<T>(use_labels: impl FnOnce(&mut DatabaseLabels) -> T) -> T {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    use_labels(&mut asked)
}

/// Runs a program of the host; nothing where it is not there, or does not answer in JSON.
pub(super) fn ask_program(words: &[&str]) -> Option<Json> {
    let (program, arguments) = words.split_first()?;
    let said = answer(
        Command::new(program).args(arguments),
        PATIENCE,
        ANSWER_BYTES_MAX,
    );
    serde_json::from_str(&said.ok()?).ok()
}
