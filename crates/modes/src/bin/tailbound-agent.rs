//! `tailbound-agent`: switches the tasks of one domain when the host mode manager says so.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::control_socket::takes_short_write;
use tailbound_linux::{memory, polling, process, thread};
use tailbound_modes::agent::arguments::{self, AgentArguments, Command};
use tailbound_modes::agent::routes::Route;
use tailbound_modes::agent::{Agent, Event, assembly, requests};
use tailbound_modes::wire::AgentMessage;

/// What the shell's own commands end with where they are used wrongly.
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    match arguments::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => print(arguments::HELP),
        Ok(Command::Version) => print(concat!("tailbound-agent ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Serve(arguments)) => match serve(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                note(error);
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            note(error);
            ExitCode::from(WRONG_USE)
        }
    }
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(arguments: &AgentArguments) -> Result<(), Box<dyn Error>> {
    let signals = catch_signals()?;
    let tasks = assembly::tasks(arguments)?;
    let host = arguments.host.clone();
    let patience = host.patience();
    let route = Route::to(host, arguments.files.as_ref(), arguments.host_uid)?;
    let boot = process::boot_id()?;
    let domain = arguments.domain.clone();
    let mut agent = Agent::new(domain, &boot, route, tasks, Monotonic, patience)?;
    agent.end_on(signals)?;
    if let Some(pipe) = &arguments.requests {
        requests::pass_on_from(pipe, agent.handle(), note)
            .map_err(|error| format!("--requests {}: {error}", pipe.display()))?;
    }
    become_prompt(arguments.fifo);
    agent.run(&mut AgentLog::default().observer())?;
    Ok(())
}

/// A socket that becomes readable with SIGTERM, SIGINT and SIGHUP.
fn catch_signals() -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours.into())
}

/// Stays in memory, wakes up on time, and comes first as far as it may.
fn become_prompt(fifo: Option<u8>) {
    if let Err(error) = memory::lock_touched_pages() {
        note(format_args!(
            "memory is not locked ({error}): the first switch after a pause may wait for the disk"
        ));
    }
    memory::touch_stack();
    if let Err(error) = polling::wake_current_thread_on_time() {
        note(format_args!("timer slack stays: {error}"));
    }
    if let Some(Err(error)) = fifo.map(thread::make_current_thread_fifo) {
        note(format_args!("goes on at ordinary priority: {error}"));
    }
}

/// Notes what happens, once where it would happen again and again.
#[derive(Default)]
struct AgentLog {
    last_failure: String,
}

impl AgentLog {
    fn observer(mut self) -> impl FnMut(Event) {
        move |event| self.take(event)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::NotConnected(error) => self.failure(error.to_string()),
            Event::Lost(error) => self.failure(error.to_string()),
            Event::Begun => {
                self.last_failure.clear();
                note("connected");
            }
            Event::Answered(AgentMessage::Failed { change, reason, .. }) => {
                note(format_args!("change {change} failed: {reason}"));
            }
            Event::Refused { mode, reason } => {
                note(format_args!("the host refuses mode \"{mode}\": {reason}"));
            }
            _ => {}
        }
    }

    fn failure(&mut self, text: String) {
        if text != self.last_failure {
            note(format_args!("{text}; tries again"));
            self.last_failure = text;
        }
    }
}

/// Writes one line to standard error, unless that would wait: a log that nobody reads must not hold
/// up a mode change.
fn note(line: impl Display) {
    let text = format!("tailbound-agent[{}]: {line}\n", std::process::id());
    let mut stderr = io::stderr().lock();
    if takes_short_write(stderr.as_fd()) {
        let _lost = stderr.write_all(text.as_bytes());
    }
}
