//! The arguments of `tailbound-agent`.

use std::path::PathBuf;

use tailbound_time::{Duration, ParseDurationError};

use crate::agent::routes::Address;
use crate::tls::Files;
use crate::wire::{Name, NotAName};

/// What `--help` prints.
pub const HELP: &str = "\
Switches the tasks of one domain when the host mode manager says so.

Usage: tailbound-agent --domain NAME --connect ADDRESS [--task NAME=HOW]... [options]

  --domain NAME        the domain, as in the description
  --connect ADDRESS    where the host mode manager is:
      unix:PATH            a Unix socket of this host
      virtio:NAME          a virtio-serial port of this guest, by its name or device
      vsock:CID:PORT       a vsock port; the host of a guest has the CID 2
      tls:HOST:PORT        a TCP port, by TLS, with the three files that follow
  --certificate FILE   the agent's certificate, which names the domain (PEM)
  --key FILE           its private key (PEM)
  --authority FILE     the certificates of who vouches for the host (PEM)
  --task NAME=HOW      a task and how it is stopped and started, once per task:
      pid:PID[,PID]...     processes, by SIGSTOP and SIGCONT; PID@TICKS for the one that
                           started then (field 22 of /proc/PID/stat)
      cgroup:DIRECTORY     all processes of a cgroup v2, by its freezer
      unit:UNIT            a systemd unit, by systemctl
  --requests PIPE      a named pipe; each line written to it is a global mode to ask the host for
  --stop-within TIME   how long processes and cgroups may take to stop [default: 50ms]
  --unit-within TIME   how long systemctl may take [default: 10s]
  --host-uid UID       the user of the host mode manager, if neither root nor this one
  --fifo PRIORITY      run at this SCHED_FIFO priority, if that is permitted
  --help, --version
";

/// What `tailbound-agent` is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`HELP`].
    Help,
    /// Print the release.
    Version,
    /// Serve a domain.
    Serve(Box<AgentArguments>),
}

/// How to serve a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentArguments {
    /// The domain.
    pub domain: Name,
    /// Where the host mode manager is.
    pub host: Address,
    /// The files for TLS.
    pub files: Option<Files>,
    /// The tasks, each with the way to switch it.
    pub tasks: Vec<(Name, TaskSource)>,
    /// The named pipe that requests come from.
    pub requests: Option<PathBuf>,
    /// How long processes and cgroups may take to stop.
    pub stop_within: Duration,
    /// How long `systemctl` may take.
    pub unit_within: Duration,
    /// Who may listen at the socket, beside root; this process's user by default.
    pub host_uid: Option<u32>,
    /// The SCHED_FIFO priority to take.
    pub fifo: Option<u8>,
}

/// What a task consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSource {
    /// Processes.
    Processes(Vec<ProcessArgument>),
    /// A cgroup v2.
    Cgroup(PathBuf),
    /// A systemd unit.
    Unit(String),
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessArgument {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot, to tell it from others of that number.
    pub started: Option<u64>,
}

/// Why arguments cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// No such option.
    #[error("there is no option {0:?}; see tailbound-agent --help")]
    UnknownOption(String),
    /// An option without what it needs.
    #[error("{0} needs a value; see tailbound-agent --help")]
    NoValue(&'static str),
    /// An option that was given before.
    #[error("{0} is given twice; give it once")]
    Twice(&'static str),
    /// An option that is needed.
    #[error("{0} is missing; the agent cannot do without it")]
    Missing(&'static str),
    /// A name that is none.
    #[error("{option}: {source}")]
    Name {
        /// The option.
        option: &'static str,
        /// What is wrong.
        source: NotAName,
    },
    /// An address that is none.
    #[error(
        "--connect {0:?}: use unix:PATH, virtio:NAME, vsock:CID:PORT or tls:HOST:PORT, such as \
         unix:/run/tailbound/modes"
    )]
    Address(String),
    /// A task that is not NAME=HOW.
    #[error(
        "--task {0:?}: use NAME=pid:PID, NAME=cgroup:/ABSOLUTE/DIRECTORY or NAME=unit:UNIT, such as \
         control=pid:123"
    )]
    Task(String),
    /// A task that was named before.
    #[error("task \"{0}\" is given twice; give each task once")]
    TaskTwice(Name),
    /// A time that is none, or too short.
    #[error("{option}: {source}")]
    Time {
        /// The option.
        option: &'static str,
        /// What is wrong.
        source: ParseDurationError,
    },
    /// A number that is none, or out of its range.
    #[error("{option} {text:?}: use a whole number from {least} to {most}")]
    Number {
        /// The option.
        option: &'static str,
        /// What was given.
        text: String,
        /// The smallest that is right.
        least: u32,
        /// The greatest.
        most: u32,
    },
}

/// Reads the arguments, the program's own name left out.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, ArgumentError> {
    let mut given = Given::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (option, inline) = match argument.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        match option {
            "--help" | "-h" => return Ok(Command::Help),
            "--version" | "-V" => return Ok(Command::Version),
            _ => {}
        }
        let option = OPTIONS.into_iter().find(|candidate| *candidate == option);
        let Some(option) = option else {
            return Err(ArgumentError::UnknownOption(argument));
        };
        let value = inline.or_else(|| arguments.next());
        given.take(option, value.ok_or(ArgumentError::NoValue(option))?)?;
    }
    let arguments = given.finish()?;
    Ok(Command::Serve(Box::new(arguments)))
}

const OPTIONS: [&str; 11] = [
    "--domain",
    "--connect",
    "--certificate",
    "--key",
    "--authority",
    "--task",
    "--requests",
    "--stop-within",
    "--unit-within",
    "--host-uid",
    "--fifo",
];

/// What was given so far.
#[derive(Default)]
struct Given {
    domain: Option<Name>,
    host: Option<Address>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authority: Option<PathBuf>,
    tasks: Vec<(Name, TaskSource)>,
    requests: Option<PathBuf>,
    stop_within: Option<Duration>,
    unit_within: Option<Duration>,
    host_uid: Option<u32>,
    fifo: Option<u8>,
}

impl Given {
    fn take(&mut self, option: &'static str, value: String) -> Result<(), ArgumentError> {
        match option {
            "--domain" => once(option, &mut self.domain, name(option, value)?),
            "--connect" => once(option, &mut self.host, address(value)?),
            "--certificate" => once(option, &mut self.certificate, value.into()),
            "--key" => once(option, &mut self.key, value.into()),
            "--authority" => once(option, &mut self.authority, value.into()),
            "--task" => {
                let task = task(&value)?;
                if self.tasks.iter().any(|(name, _)| *name == task.0) {
                    return Err(ArgumentError::TaskTwice(task.0));
                }
                self.tasks.push(task);
                Ok(())
            }
            "--requests" => once(option, &mut self.requests, value.into()),
            "--stop-within" => once(option, &mut self.stop_within, time(option, &value)?),
            "--unit-within" => once(option, &mut self.unit_within, time(option, &value)?),
            "--host-uid" => once(
                option,
                &mut self.host_uid,
                number(option, value, 0, u32::MAX)?,
            ),
            _ => {
                let priority = number(option, value, 1, 99)?;
                once(option, &mut self.fifo, priority as u8)
            }
        }
    }

    fn finish(self) -> Result<AgentArguments, ArgumentError> {
        let files = self.files()?;
        Ok(AgentArguments {
            files,
            domain: self.domain.ok_or(ArgumentError::Missing("--domain"))?,
            host: self.host.ok_or(ArgumentError::Missing("--connect"))?,
            tasks: self.tasks,
            requests: self.requests,
            stop_within: self.stop_within.unwrap_or(Duration::from_millis(50)),
            unit_within: self.unit_within.unwrap_or(Duration::from_secs(10)),
            host_uid: self.host_uid,
            fifo: self.fifo,
        })
    }
}

impl Given {
    /// The files for TLS: all three, or none where there is no TLS.
    fn files(&self) -> Result<Option<Files>, ArgumentError> {
        let given = [&self.certificate, &self.key, &self.authority];
        let is_tls = matches!(self.host, Some(Address::Tls { .. }));
        if !is_tls && given.iter().all(|file| file.is_none()) {
            return Ok(None);
        }
        let needed = |file: &Option<PathBuf>, option| {
            let file = file.clone();
            file.ok_or(ArgumentError::Missing(option))
        };
        Ok(Some(Files {
            certificate: needed(&self.certificate, "--certificate")?,
            key: needed(&self.key, "--key")?,
            authority: needed(&self.authority, "--authority")?,
        }))
    }
}

fn once<T>(option: &'static str, place: &mut Option<T>, value: T) -> Result<(), ArgumentError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ArgumentError::Twice(option)),
    }
}

fn name(option: &'static str, text: String) -> Result<Name, ArgumentError> {
    Name::try_from(text).map_err(|source| ArgumentError::Name { option, source })
}

fn time(option: &'static str, text: &str) -> Result<Duration, ArgumentError> {
    text.parse()
        .map_err(|source| ArgumentError::Time { option, source })
}

fn number(option: &'static str, text: String, least: u32, most: u32) -> Result<u32, ArgumentError> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(ArgumentError::Number {
            option,
            text,
            least,
            most,
        }),
    }
}

fn address(text: String) -> Result<Address, ArgumentError> {
    Address::parse(&text).ok_or(ArgumentError::Address(text))
}

fn task(text: &str) -> Result<(Name, TaskSource), ArgumentError> {
    let wrong = || ArgumentError::Task(text.to_owned());
    let (task, how) = text.split_once('=').ok_or_else(wrong)?;
    let task = name("--task", task.to_owned())?;
    let (kind, value) = how.split_once(':').ok_or_else(wrong)?;
    let source = match kind {
        "pid" => TaskSource::Processes(processes(value).ok_or_else(wrong)?),
        "cgroup" if value.starts_with('/') => TaskSource::Cgroup(value.into()),
        "unit" if !value.is_empty() => TaskSource::Unit(value.to_owned()),
        _ => return Err(wrong()),
    };
    Ok((task, source))
}

fn processes(text: &str) -> Option<Vec<ProcessArgument>> {
    text.split(',')
        .map(|one| {
            let (pid, started) = match one.split_once('@') {
                Some((pid, ticks)) => (pid, Some(ticks.parse().ok()?)),
                None => (one, None),
            };
            let pid = pid.parse().ok().filter(|&pid| pid > 0)?;
            Some(ProcessArgument { pid, started })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn parsed(line: &str) -> Result<Command, ArgumentError> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn error(line: &str) -> String {
        parsed(line).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_the_help_shows() {
        let line = "--domain camera --connect unix:/run/t --task control=pid:12,13@99 \
                    --task log=cgroup:/a/b --task web=unit:web.service --fifo 97 --requests /p --stop-within=1ms";
        let Ok(Command::Serve(arguments)) = parsed(line) else {
            panic!("{:?}", parsed(line));
        };
        let process = |pid, started| ProcessArgument { pid, started };
        assert_eq!(arguments.domain.as_str(), "camera");
        assert_eq!(
            arguments.tasks[0].1,
            TaskSource::Processes(vec![process(12, None), process(13, Some(99))])
        );
        assert_eq!(arguments.tasks[1].1, TaskSource::Cgroup("/a/b".into()));
        assert_eq!(arguments.tasks[2].1, TaskSource::Unit("web.service".into()));
        assert_eq!(arguments.fifo, Some(97));
        assert_eq!(arguments.requests, Some("/p".into()));
        assert_eq!(arguments.stop_within, Duration::from_millis(1));
        assert_eq!(arguments.unit_within, Duration::from_secs(10));
        assert_eq!(parsed("--domain x --help"), Ok(Command::Help));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        assert!(error("").contains("--domain is missing"));
        assert!(error("--domain a").contains("--connect is missing"));
        assert!(error("--domain a --domain b").contains("twice"));
        assert!(error("--domain").contains("needs a value"));
        assert!(error("--domain A").contains("is not a name"));
        assert!(error("--connect tcp:x").contains("unix:PATH"));
        let files = error("--domain a --connect tls:x:1 --certificate /c --key /k");
        assert!(files.contains("--authority is missing"), "{files}");
        assert!(error("--task x").contains("NAME=pid:PID"));
        assert!(error("--task x=pid:0").contains("NAME=pid:PID"));
        assert!(error("--task x=cgroup:relative").contains("ABSOLUTE"));
        assert!(error("--task x=unit:a --task x=unit:b").contains("\"x\" is given twice"));
        assert!(error("--fifo 100").contains("from 1 to 99"));
        assert!(error("--stop-within 5").contains("--stop-within"));
        assert!(error("--verbose").contains("--verbose"));
    }

    proptest! {
        #[test]
        fn no_arguments_panic(
            arguments in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(OPTIONS.to_vec()).prop_map(str::to_owned),
                    "[a-z0-9=:@,/.]{0,20}",
                    "\\PC{0,10}",
                ],
                0..8,
            ),
        ) {
            let _parsed = parse(arguments);
        }
    }
}
