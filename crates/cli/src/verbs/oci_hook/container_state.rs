//! The state of a container that an OCI runtime gives its hooks.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;

use crate::failure::Failure;

/// The longest state that is read, in bytes: annotations of Kubernetes have at most 256 kB.
const LONGEST_STATE: u64 = 4 << 20;

/// `ContainerState` is what the hook needs of the state (OCI runtime specification 1.0.2, "State"). Runtimes add keys
/// of their own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ContainerState {
    /// The identifier of the container in its runtime.
    pub id: String,
    /// `creating`, `created`, `running` or `stopped`, or a word of the runtime's own.
    status: String,
    /// The first process, as the host numbers it. Runtimes write 0, or nothing, once it has ended.
    #[serde(default)]
    pid: i64,
    /// The annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

impl ContainerState {
    /// Reads a state to its end.
    ///
    /// # Errors
    /// The input cannot be read, or is no state of a container.
    pub fn read(input: impl Read) -> Result<Self, Failure> {
        let mut text = String::new();
        let read = input.take(LONGEST_STATE).read_to_string(&mut text);
        let parsed = match read {
            Ok(_) => serde_json::from_str(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        parsed.map_err(|error| {
            Failure::with_help(
                format!("standard input has no state of a container: {error}"),
                "OCI runtimes run this command as a hook; see tailbound oci-hook --help",
            )
        })
    }

    /// Whether the container has ended, as at the stage `poststop`.
    pub fn has_ended(&self) -> bool {
        self.status == "stopped"
    }

    /// The first process of the container; `None` once it has ended.
    pub fn process(&self) -> Option<u32> {
        u32::try_from(self.pid).ok().filter(|pid| *pid > 0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// The states that runc 1.1.5 and crun 1.8.1 give at `poststart` and `poststop`, shortened.
    const RUNC_STARTED: &str = r#"{"ociVersion":"1.0.2-dev","id":"box","status":"created","pid":42,
        "bundle":"/b","annotations":{"tailbound.budget":"4ms"}}"#;
    const CRUN_STOPPED: &str = r#"{"ociVersion":"1.0","id":"box","pid":0,"root":"/b/rootfs","bundle":"/b",
        "status":"stopped","annotations":{"tailbound.budget":"4ms"}}"#;

    #[test]
    fn the_states_of_runtimes_are_read() {
        let started = ContainerState::read(RUNC_STARTED.as_bytes()).unwrap();
        assert_eq!((started.process(), started.has_ended()), (Some(42), false));
        assert_eq!(started.annotations["tailbound.budget"], "4ms");
        let stopped = ContainerState::read(CRUN_STOPPED.as_bytes()).unwrap();
        assert_eq!((stopped.process(), stopped.has_ended()), (None, true));
        let plain = r#"{"id":"box","status":"running","pid":1}"#;
        let plain = ContainerState::read(plain.as_bytes()).unwrap();
        assert!(plain.annotations.is_empty());
    }

    #[test]
    fn an_error_says_what_a_state_lacks() {
        let error = ContainerState::read(r#"{"status":"running"}"#.as_bytes()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("missing field `id`"), "{text}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[{}\":,a-z0-9\\[\\]]{0,80}") {
            let _refused = ContainerState::read(bytes.as_slice());
            let _refused = ContainerState::read(text.as_bytes());
        }
    }
}
