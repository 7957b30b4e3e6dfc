//! The options of `tailbound-agent`, read from its help.
//!
//! The agent reads its arguments by itself, to stay small in guests; its help is the one text about them.

use clap::{Arg, ArgAction, Command};
use tailbound_modes::agent::arguments::HELP;

/// The columns of an option, and of a value that its help lists.
const OPTION_INDENT: usize = 2;
const VALUE_INDENT: usize = 6;

/// The agent as a command with options.
pub fn command() -> Command {
    let mut lines = HELP.lines();
    let about = lines.next().unwrap_or_default().trim_end_matches('.');
    let command = Command::new("tailbound-agent").version(env!("CARGO_PKG_VERSION"));
    command.about(about).args(options(lines))
}

/// The options that lines of help describe; clap adds `--help` and `--version` itself.
fn options(lines: impl Iterator<Item = &'static str>) -> Vec<Arg> {
    let mut options: Vec<(&'static str, String)> = Vec::new();
    for line in lines {
        let text = line.trim_start();
        let (head, rest) = text.split_once("  ").unwrap_or((text, ""));
        let rest = rest.trim_start();
        match (line.len() - text.len(), options.last_mut()) {
            (OPTION_INDENT, _) if head.starts_with("--") => options.push((head, rest.to_owned())),
            (VALUE_INDENT, Some((_, help))) => {
                let separator = if help.ends_with(':') { " " } else { ", " };
                help.push_str(&format!("{separator}{head} ({rest})"));
            }
            (indent, Some((_, help))) if indent > VALUE_INDENT => {
                // The help of a value goes on, within its parentheses.
                let end = if help.ends_with(')') { ")" } else { "" };
                help.truncate(help.len() - end.len());
                help.push_str(&format!(" {text}{end}"));
            }
            _ => {}
        }
    }
    options
        .into_iter()
        .filter_map(|(head, help)| option(head, help))
        .collect()
}

/// An option such as `--domain NAME`; none without a value, as those of clap.
fn option(head: &'static str, help: String) -> Option<Arg> {
    let (name, value) = head.strip_prefix("--")?.split_once(' ')?;
    let arg = Arg::new(name).long(name).help(help);
    let is_needed = matches!(name, "domain" | "connect");
    let action = match name {
        "task" => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let arg = arg.value_name(value).action(action);
    (!value.starts_with("--")).then(|| arg.required(is_needed))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_agent_takes_every_option_that_its_help_is_read_to_have() {
        use tailbound_modes::agent::arguments::{ArgumentError, parse};

        let command = command();
        let options: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
        assert_eq!(
            options.len(),
            HELP.matches("\n  --").count() - 1,
            "{options:?}"
        );
        for option in options {
            let parsed = parse([format!("--{option}")]);
            assert!(matches!(parsed, Err(ArgumentError::NoValue(_))), "{option}");
        }
    }

    #[test]
    fn values_and_second_lines_belong_to_their_option() {
        let command = command();
        let help = |name: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == name);
            arg.unwrap().get_help().unwrap().to_string()
        };
        assert_eq!(help("domain"), "the domain, as in the description");
        assert!(
            help("connect").starts_with("where the host mode manager is: unix:PATH (a Unix socket")
        );
        assert!(
            help("task")
                .contains("for the one that started then (field 22 of /proc/PID/stat)), cgroup:")
        );
    }
}
