//! The file by which podman and CRI-O run the hook (OCI hooks configuration 1.0.0).

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::arguments::{ANNOTATION_PREFIX, OciHookArguments};
use crate::failure::Failure;

/// The time for which the runtime waits for the hook, in seconds: a daemon that starts is waited for 20 s.
const TIMEOUT_S: u32 = 30;

/// The text of the file, for the program at a path or for this one, with the limits that the arguments set.
pub(super) fn text(
    program: Option<&Path>,
    arguments: &OciHookArguments,
) -> Result<String, Failure> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => std::env::current_exe().map_err(Failure::from_error)?,
    };
    let Some(path) = program.to_str().filter(|path| path.starts_with('/')) else {
        return Err(Failure::with_help(
            format!(
                "{} is no absolute path that JSON can have",
                program.display()
            ),
            "write the path of the installed program, such as /usr/bin/tailbound",
        ));
    };
    let mut words = vec!["tailbound".to_owned(), super::VERB.to_owned()];
    words.extend(arguments.limits.words());
    let annotation = format!("^{}", ANNOTATION_PREFIX.replace('.', "[.]"));
    let file: Json = json!({
        "version": "1.0.0",
        "hook": { "path": path, "args": words, "timeout": TIMEOUT_S },
        "when": { "annotations": { annotation: ".*" } },
        "stages": ["poststart", "poststop"],
    });
    let text = serde_json::to_string_pretty(&file).map_err(Failure::from_error)?;
    Ok(text + "\n")
}
