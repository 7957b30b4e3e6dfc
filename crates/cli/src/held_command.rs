//! A command that is started, but held before its first instruction until its reservation stands.
//!
//! The process is ours at first (`tailbound internal hold`): it connects to a socket of the parent,
//! waits there for the word, and then becomes the command. So all that the command ever does, its
//! first children included, is under the reservation; and where the reservation is refused, nothing
//! of it has run. The process, its group, its standard streams and its death with the parent stay
//! what they were. The socket closes when the command takes over, or carries back why it could not.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration as Pause, Instant};

use tailbound_linux::control_socket::peer_credentials;
use tailbound_linux::{HostCapabilities, process, scheduling, spawn};

use crate::failure::Failure;
use crate::transient_scope::TransientScope;

/// The word that lets the command go.
const GO: &[u8] = b"go";

/// How long our own program may take to come to the socket.
const HELD_WITHIN: Pause = Pause::from_secs(10);

/// How often it is looked for meanwhile.
const LOOK_EVERY: Pause = Pause::from_millis(1);

/// The number of the signal that asks to end (signal(7)).
const SIGTERM: i32 = 15;

/// Tells the sockets of one process apart.
static HELD_SO_FAR: AtomicU32 = AtomicU32::new(0);

/// A started command, held or going. Dropping it kills it.
#[derive(Debug)]
pub struct HeldCommand {
    program: String,
    stream: UnixStream,
    ender: Ender,
}

impl HeldCommand {
    /// Starts `words` on `cpus` (empty: on those of the caller), held, in a scope of its own if one is given.
    ///
    /// On a terminal the command stays in our process group, so that it can read from it and gets
    /// Ctrl-C itself; elsewhere it leads a group of its own, which is ended as a whole.
    ///
    /// # Errors
    /// The program or the CPU is not there, or neither kernel nor systemd starts anything.
    pub fn start(
        words: &[String],
        cpus: &BTreeSet<u32>,
        scope: Option<&TransientScope>,
    ) -> Result<Self, Failure> {
        let program = words.first().cloned().unwrap_or_default();
        find_program(&program)?;
        for &cpu in cpus {
            check_cpu(cpu)?;
        }
        let failed = |error: io::Error| Failure::error(format!("cannot start {program}: {error}"));
        let name = socket_name();
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        let listener = UnixListener::bind_addr(&address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = match scope {
            Some(scope) => scope.command(own),
            None => Command::new(own),
        };
        command.args(["internal", "hold", "--socket", &name, "--"]);
        command.args(words);
        let leads = !io::stdin().is_terminal();
        if leads {
            command.process_group(0);
        }
        process::die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        let bound = match cpus.is_empty() {
            true => Ok(()),
            false => scheduling::set_affinity(child.id(), cpus),
        };
        let held = bound.and_then(|()| accept(&listener, &mut child));
        let pid = child.id();
        let ender = Ender {
            pid,
            leads,
            child: Arc::new(Mutex::new(child)),
        };
        match held {
            Ok(stream) => Ok(Self {
                program,
                stream,
                ender,
            }),
            Err(error) => {
                ender.kill();
                Err(failed(error))
            }
        }
    }

    /// Starts a process that only stands in for what a plan is about, and never goes.
    ///
    /// # Errors
    /// As [`HeldCommand::start`].
    pub fn stand_in(cpus: &BTreeSet<u32>) -> Result<Self, Failure> {
        let own = std::env::current_exe().map_err(Failure::from_error)?;
        Self::start(&[own.display().to_string()], cpus, None)
    }

    /// The process that becomes the command.
    pub fn pid(&self) -> u32 {
        self.ender.pid
    }

    /// A handle to end it from another thread.
    pub fn ender(&self) -> Ender {
        self.ender.clone()
    }

    /// Lets the command go.
    ///
    /// # Errors
    /// It was killed meanwhile.
    pub fn release(&mut self) -> Result<(), Failure> {
        self.stream.write_all(GO).map_err(|error| {
            Failure::error(format!("{} ended before it began: {error}", self.program))
        })
    }

    /// Whether Ctrl-C on the terminal reaches the command without us.
    pub fn hears_terminal(&self) -> bool {
        !self.ender.leads
    }

    /// How the command ended, if it has.
    ///
    /// # Errors
    /// It could not begin, and why; or the kernel does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let Some(status) = self.ender.status().map_err(Failure::from_error)? else {
            return Ok(None);
        };
        let mut message = String::new();
        // The other end is closed by now: by the command's beginning, or by the process's end.
        let read = self.stream.read_to_string(&mut message);
        if read.is_ok() && !message.is_empty() {
            return Err(Failure::with_help(
                format!("cannot run {}: {message}", self.program),
                "it must be a program or a script that begins with #! and its interpreter",
            ));
        }
        Ok(Some(status))
    }
}

impl Drop for HeldCommand {
    fn drop(&mut self) {
        self.ender.kill();
    }
}

/// Ends a command, with its process group where it leads one.
#[derive(Clone, Debug)]
pub struct Ender {
    pid: u32,
    leads: bool,
    child: Arc<Mutex<Child>>,
}

impl Ender {
    /// Asks the command to end.
    pub fn terminate(&self) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // An error means that it has gone, which is what we want; so below.
        let _gone = if self.leads {
            spawn::terminate_group(&child)
        } else {
            process::send_signal(self.pid, SIGTERM)
        };
    }

    /// Ends the command if it still runs, and waits for that.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        let _gone = if self.leads {
            spawn::kill_group(&child)
        } else {
            child.kill()
        };
        let _reaped = child.wait();
    }

    fn status(&self) -> io::Result<Option<ExitStatus>> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait()
    }
}

/// Waits for the word of the parent on `socket`, and becomes `words`; returns only if it cannot.
///
/// # Errors
/// The parent went, or the kernel does not run the program, which the parent is told.
pub fn hold(socket: &str, words: &[String]) -> Result<std::convert::Infallible, Failure> {
    let failed = |error: io::Error| Failure::error(format!("cannot be held: {error}"));
    let address = SocketAddr::from_abstract_name(socket).map_err(failed)?;
    let mut stream = UnixStream::connect_addr(&address).map_err(failed)?;
    let mut word = [0; GO.len()];
    stream.read_exact(&mut word).map_err(failed)?;
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Failure::error("there is no command to run"))?;
    let error = Command::new(program).args(arguments).exec();
    if stream.write_all(error.to_string().as_bytes()).is_ok() {
        // The parent tells the user.
        std::process::exit(1);
    }
    Err(Failure::error(format!("cannot run {program}: {error}")))
}

/// A name for a socket that no other process of this host listens on.
fn socket_name() -> String {
    let count = HELD_SO_FAR.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    format!("tailbound-hold-{}-{count}-{now}", std::process::id())
}

/// The connection of `child` to `listener`; others are turned away.
fn accept(listener: &UnixListener, child: &mut Child) -> io::Result<UnixStream> {
    let deadline = Instant::now() + HELD_WITHIN;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if peer_credentials(&stream)?.pid == child.id() {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("its holder ended ({status})")));
        }
        if Instant::now() > deadline {
            let text = format!("its holder did not come within {HELD_WITHIN:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The file that the kernel would run for `program`: itself if it has a slash, else the first of
/// its name in PATH.
fn find_program(program: &str) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        folders.map(|folder| folder.join(program)).collect()
    };
    if let Some(file) = candidates.iter().find(|file| runs(file)) {
        return Ok(file.clone());
    }
    match candidates.iter().find(|file| file.exists()) {
        Some(file) if file.is_dir() => Err(Failure::with_help(
            format!("cannot run {program}: {} is a folder", file.display()),
            "name the program in it",
        )),
        Some(file) => Err(Failure::with_help(
            format!("cannot run {program}: {} is not executable", file.display()),
            format!("chmod +x {}", file.display()),
        )),
        None if program.contains('/') => Err(Failure::with_help(
            format!("cannot run {program}: there is no such file"),
            "check its path",
        )),
        None => Err(Failure::with_help(
            format!("cannot run {program}: it is in no folder of PATH"),
            "install it, or give its path",
        )),
    }
}

fn runs(file: &Path) -> bool {
    let metadata = std::fs::metadata(file);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn check_cpu(cpu: u32) -> Result<(), Failure> {
    let online = HostCapabilities::probe().online_cpus;
    if online.contains(&cpu) {
        return Ok(());
    }
    let list = scheduling::format_cpu_list(online);
    Err(Failure::with_help(
        format!("CPU {cpu} is not online on this host"),
        format!("online are {list}"),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message(result: Result<PathBuf, Failure>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn programs_are_found_as_the_kernel_finds_them() {
        assert!(find_program("sh").unwrap().ends_with("sh"));
        assert!(message(find_program("no-such-program-here")).contains("no folder of PATH"));
        assert!(message(find_program("/no/such/file")).contains("no such file"));
        assert!(message(find_program("/proc/self/status")).contains("not executable"));
        assert!(message(find_program("/usr")).contains("is a folder"));
    }

    #[test]
    fn a_missing_cpu_is_named_before_anything_starts() {
        assert!(
            check_cpu(1_000_000)
                .unwrap_err()
                .to_string()
                .contains("CPU 1000000")
        );
    }
}
