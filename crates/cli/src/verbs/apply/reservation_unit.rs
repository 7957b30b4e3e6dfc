//! The unit of systemd that holds the reservation of another unit for as long as that one runs.
//!
//! It is a unit of its own, enabled in `UNIT.wants/`, and no drop-in of the other: it holds the reservation as
//! `tailbound apply --hold` does, so that systemd makes the reservation again after a crash of the daemon, and
//! `systemctl` enables, shows and removes it by itself.

use std::path::Path;

use tailbound_linux::host_managers::DAEMON_UNIT;
use tailbound_linux::named_cgroup::full_unit_name;

use crate::arguments::{ApplyArguments, OptionPlace};
use crate::failure::Failure;

/// The text of the unit for `unit`, whose reservation is held by the program at a path, or by this one.
///
/// # Errors
/// The reservation or the path is wrong, or nothing can be enabled for such a unit.
pub(super) fn text(
    unit: &str,
    program: Option<&Path>,
    arguments: &ApplyArguments,
) -> Result<String, Failure> {
    // What would be refused at each start is refused now.
    arguments.reservation.interface(OptionPlace::CommandLine)?;
    let unit = full_unit_name(unit);
    if unit.ends_with(".scope") {
        return Err(Failure::with_help(
            format!("systemd does not start {unit}, so that it cannot start a reservation with it"),
            "apply --unit while the scope runs",
        ));
    }
    let own = std::env::current_exe().map_err(Failure::from_error)?;
    let program = program.unwrap_or(&own);
    let Some(program) = program.to_str().filter(|path| path.starts_with('/')) else {
        return Err(Failure::with_help(
            format!(
                "{} is no absolute path that a unit can have",
                program.display()
            ),
            "write the path of the installed program, such as /usr/bin/tailbound",
        ));
    };
    let words = words(program, &unit, arguments);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = words.join(" ");
    let own_name = own_name(&unit);
    Ok(format!(
        "# /etc/systemd/system/{own_name}, for systemctl enable --now {own_name}\n\
         [Unit]\n\
         Description=Reservation of {unit}\n\
         Documentation=man:tailbound-apply(1)\n\
         Wants={DAEMON_UNIT}\n\
         PartOf={DAEMON_UNIT}\n\
         BindsTo={unit}\n\
         After={unit} {DAEMON_UNIT}\n\
         StartLimitIntervalSec=120s\n\
         StartLimitBurst=60\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={command}\n\
         Restart=on-failure\n\
         RestartSec=1s\n\
         \n\
         [Install]\n\
         WantedBy={unit}\n"
    ))
}

/// The name of the unit that holds the reservation of `unit`.
fn own_name(unit: &str) -> String {
    let stem = unit.strip_suffix(".service").unwrap_or(unit);
    format!("tailbound-{}.service", super::domain_called(stem))
}

/// The command that holds the reservation.
fn words(program: &str, unit: &str, arguments: &ApplyArguments) -> Vec<String> {
    let reservation = &arguments.reservation;
    let mut words: Vec<String> = [program, "apply", "--hold", "--unit", unit]
        .map(Into::into)
        .into();
    let mut add = |option: &str, value: String| words.extend([format!("--{option}"), value]);
    if let Some(name) = &arguments.name {
        add("name", name.clone());
    }
    if let (Some(budget), Some(period)) = (reservation.budget, reservation.period) {
        add("budget", budget.to_string());
        add("period", period.to_string());
        add("budget-scope", reservation.budget_scope.to_string());
    }
    let cpus: Vec<String> = reservation.cpus.iter().map(u32::to_string).collect();
    add("cpus", cpus.join(","));
    add("priority", reservation.priority.to_string());
    add("backend", reservation.backend.to_string());
    words
}

/// A word of a command as a unit has it (systemd.service(5), "Command lines"): what stands for something else there is
/// doubled.
fn quoted(word: &str) -> String {
    let doubled = ['%', '$', '\\']
        .iter()
        .fold(word.to_owned(), |word, letter| {
            word.replace(*letter, &format!("{letter}{letter}"))
        });
    match word.contains([' ', '\t', '"', '\'', ';']) {
        true => format!("\"{}\"", doubled.replace('"', "\\\"")),
        false => doubled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_called_like_the_other() {
        assert_eq!(
            own_name("redis-server.service"),
            "tailbound-redis-server.service"
        );
        assert_eq!(own_name("batch.slice"), "tailbound-batch.slice.service");
        assert_eq!(own_name("a@b.service"), "tailbound-a-b.service");
    }

    #[test]
    fn words_stand_for_themselves_in_a_unit() {
        assert_eq!(quoted("a\\x2db@1.service"), "a\\\\x2db@1.service");
        assert_eq!(quoted("/opt/100%/$x"), "/opt/100%%/$$x");
        assert_eq!(quoted("/my \"own\"/t"), "\"/my \\\"own\\\"/t\"");
        assert_eq!(quoted("--cpus"), "--cpus");
    }
}
