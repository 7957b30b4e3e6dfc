//! Runs the commands of documents.
//!
//! A fenced block marked `console` is a conversation: lines that begin with `$ ` are commands
//! (`\` at the end of one continues it), the lines below a command are what it prints. Blocks of
//! one document run in order in one scratch folder, which holds a copy of `examples/`. A comment
//! right before a block tells the test more:
//!
//! - `<!-- run: exit=0|2 needs=root,redis append="--duration-scale 0.1" -->`: the exit statuses
//!   that the last command may have (0 if not given), what the host must have, and what is appended
//!   to each command to make it shorter;
//! - `<!-- run: skip="why" -->`: the block is not run, and the reason is printed;
//! - `<!-- file: NAME -->` before any block: its text becomes that file in the scratch folder.
//!
//! `$TAILBOUND` is the folder of the repository.
//!
//! Lines shown must be printed in that order; `[..]` stands for any text, and lines that are not
//! shown do not matter.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::Need;
use crate::markdown::Fence;
use crate::repository;

/// The longest that one command of a document may take.
const LONGEST: Duration = Duration::from_secs(180);

/// The directions of a comment for the block below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directions {
    /// The exit statuses that the last command may have.
    pub exit: Vec<i32>,
    /// The needs that the host must meet.
    pub needs: Vec<Need>,
    /// The text appended to each command.
    pub append: String,
    /// Why the block is not run.
    pub skip: Option<String>,
}

impl Default for Directions {
    fn default() -> Self {
        Self {
            exit: vec![0],
            needs: Vec::new(),
            append: String::new(),
            skip: None,
        }
    }
}

/// A command with its output by the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The command line, for the shell.
    pub command: String,
    /// Lines of its output, in order.
    pub printed: Vec<String>,
}

/// Reads the comment before a block.
///
/// # Errors
/// A text that is no direction.
pub fn directions(comment: Option<&str>) -> Result<Directions, String> {
    let mut directions = Directions::default();
    let Some(mut rest) = comment
        .and_then(|text| text.strip_prefix("run:"))
        .map(str::trim)
    else {
        return Ok(directions);
    };
    while !rest.is_empty() {
        let (key, after) = rest
            .split_once('=')
            .ok_or_else(|| format!("no value: {rest}"))?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or_else(|| format!("no closing quote: {rest}"))?,
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        match key {
            "exit" => directions.exit = statuses(value)?,
            "needs" => directions.needs = needs(value)?,
            "append" => directions.append = value.to_owned(),
            "skip" => directions.skip = Some(value.to_owned()),
            _ => return Err(format!("unknown direction: {key}")),
        }
        rest = after.trim_start();
    }
    Ok(directions)
}

fn statuses(value: &str) -> Result<Vec<i32>, String> {
    value
        .split('|')
        .map(|status| {
            status
                .parse()
                .map_err(|_| format!("no exit status: {status}"))
        })
        .collect()
}

fn needs(names: &str) -> Result<Vec<Need>, String> {
    names
        .split(',')
        .map(|name| Need::from_name(name).ok_or_else(|| format!("unknown need: {name}")))
        .collect()
}

/// The commands of a block.
///
/// # Errors
/// Output before the first command, or no command at all.
pub fn steps(block: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            while let Some(open) = command.strip_suffix('\\') {
                let next = lines
                    .next()
                    .ok_or("a command goes on after the block's end")?;
                command = format!("{open}{}", next.strip_prefix("> ").unwrap_or(next));
            }
            steps.push(Step {
                command,
                printed: Vec::new(),
            });
        } else if line != "..." && !line.trim().is_empty() {
            let step = steps
                .last_mut()
                .ok_or_else(|| format!("no command before: {line}"))?;
            step.printed.push(line.to_owned());
        }
    }
    if steps.is_empty() {
        return Err("a console block without a command".into());
    }
    Ok(steps)
}

/// The first line of `shown` that is not in `output` in its place.
pub fn first_missing<'a>(shown: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    shown
        .iter()
        .find(|pattern| !lines.any(|line| matches(pattern.trim(), line.trim())))
        .map(String::as_str)
}

fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("[..]");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Runs a block in `folder` with `programs` first on the PATH, and returns the first failure.
///
/// # Errors
/// The command, and the difference of its output from that in the document.
pub fn run(fence: &Fence, folder: &Path, programs: &Path) -> Result<(), String> {
    let directions = directions(fence.comment.as_deref())?;
    let steps = steps(&fence.text)?;
    let last = steps.len() - 1;
    for (index, step) in steps.iter().enumerate() {
        let command = format!("{} {}", step.command, directions.append);
        let (status, output) = shell(command.trim(), folder, programs)?;
        let wanted = if index == last {
            &directions.exit[..]
        } else {
            &[0]
        };
        if !status.is_some_and(|status| wanted.contains(&status)) {
            return Err(format!(
                "`{command}` ended with {status:?}, not {wanted:?}:\n{output}"
            ));
        }
        if let Some(line) = first_missing(&step.printed, &output) {
            return Err(format!(
                "`{command}` does not print\n  {line}\nbut\n{output}"
            ));
        }
    }
    Ok(())
}

/// The exit status and everything printed. The command leads a process group of its own, which
/// ends with it.
fn shell(line: &str, folder: &Path, programs: &Path) -> Result<(Option<i32>, String), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let log = folder.join(".output");
    let file = fs::File::create(&log).map_err(|error| error.to_string())?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = Command::new("timeout")
        .args([
            "--kill-after=10",
            &LONGEST.as_secs().to_string(),
            "bash",
            "-c",
            line,
        ])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("TAILBOUND", repository::root())
        // Shortened runs shall not correct the predictions of this host.
        .env("TAILBOUND_HISTORY", folder.join(".predictions.jsonl"))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|error| format!("`{line}` cannot be started: {error}"))?;
    let started = Instant::now();
    let status = child.wait().map_err(|error| error.to_string())?;
    let output = fs::read_to_string(&log).unwrap_or_default();
    if started.elapsed() >= LONGEST {
        return Err(format!("`{line}` took longer than {LONGEST:?}:\n{output}"));
    }
    Ok((status.code(), output))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(comment: &str, text: &str) -> Fence {
        Fence {
            line: 1,
            language: "console".into(),
            comment: Some(comment.into()),
            text: text.into(),
        }
    }

    fn outcome(comment: &str, text: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        run(&block(comment, text), folder.path(), Path::new("/nowhere"))
    }

    #[test]
    fn directions_are_read() {
        let text = r#"run: exit=2 needs=root,redis append="--a 1" skip="too long""#;
        let read = directions(Some(text)).unwrap();
        assert_eq!(read.exit, [2]);
        assert_eq!(read.needs, [Need::Root, Need::Redis]);
        assert_eq!(read.append, "--a 1");
        assert_eq!(read.skip.as_deref(), Some("too long"));
        assert_eq!(
            directions(Some("just a remark")).unwrap(),
            Directions::default()
        );
        for bad in [
            "run: exit=x",
            "run: needs=luck",
            "run: colour=1",
            "run: exit",
            "run: skip=\"a",
        ] {
            assert!(directions(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn blocks_become_steps() {
        let read = steps("$ a \\\n> b\nout\n...\n$ c\n").unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].command, "a b");
        assert_eq!(read[0].printed, ["out"]);
        assert!(steps("out\n$ a\n").is_err());
        assert!(steps("").is_err());
    }

    #[test]
    fn a_true_document_passes() {
        outcome(
            "run: exit=3",
            "$ echo one; echo two\none\n$ echo x 12 y; exit 3\nx [..] y\n",
        )
        .unwrap();
        outcome("run: exit=0|2", "$ exit 2\n").unwrap();
        outcome("run: append=\"; true\"", "$ false\n").unwrap();
    }

    #[test]
    fn a_false_document_fails() {
        assert!(outcome("", "$ false\n").is_err());
        assert!(outcome("run: exit=1", "$ true\n").is_err());
        assert!(outcome("", "$ echo a\nb\n").is_err());
        assert!(outcome("", "$ echo a; echo b\nb\na\n").is_err());
        assert!(outcome("", "$ echo x 12 z\nx [..] y\n").is_err());
        assert!(outcome("", "$ no-such-program-at-all\n").is_err());
    }
}
