//! The programs that try to get away: this program again, in a role.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::process::{die_with_parent, own_thread};
use tailbound_linux::scheduling::{SchedulingSetting, set_affinity, set_scheduling};
use tailbound_time::{Clock, Duration, Instant};

const ROLE: &str = "TAILBOUND_ESCAPE_ROLE";

/// What a program does once it may go.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Spins on a CPU; it waits for nothing.
    Spin { cpu: u32 },
    /// Spins, and asks for a CPU again and again.
    Leave { cpu: u32 },
    /// Spins, and takes a priority once.
    Raise { priority: u8 },
    /// Starts a child that sleeps before it may go, and another one then; it sleeps.
    Fork,
}

/// A program in a role; killed when dropped.
pub struct Program(Child);

impl Program {
    /// Starts it, as another user if one is named; it ends by itself at `end`.
    pub fn start(role: Role, end: Instant, user: Option<u32>) -> Self {
        let (name, number) = match role {
            Role::Spin { cpu } => ("spin", cpu),
            Role::Leave { cpu } => ("leave", cpu),
            Role::Raise { priority } => ("raise", u32::from(priority)),
            Role::Fork => ("fork", 0),
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--ignored",
                "--exact",
                "escape::program::role",
                "--nocapture",
            ])
            .env(ROLE, format!("{name} {number} {}", end.as_nanos()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = die_with_parent(&mut command).spawn().unwrap();
        if matches!(role, Role::Spin { .. }) {
            child.stdin.take().unwrap().write_all(b"g").unwrap();
        }
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Lets it go.
    pub fn go(&self) {
        let mut stdin = self.0.stdin.as_ref().unwrap();
        stdin.write_all(b"g").unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Not a test: the program that the tests start again in a role, which the environment names.
#[test]
#[ignore = "the load of the other tests"]
fn role() {
    let Ok(text) = std::env::var(ROLE) else {
        return;
    };
    let words: Vec<&str> = text.split(' ').collect();
    let (name, number): (&str, u32) = (words[0], words[1].parse().unwrap());
    let end = Instant::from_nanos(words[2].parse().unwrap());
    let mut children = Vec::new();
    if name == "fork" {
        children.push(sleeper());
    }
    let mut go = [0];
    if std::io::stdin().read_exact(&mut go).is_err() {
        std::process::exit(1);
    }
    match name {
        "fork" => {
            children.push(sleeper());
            let _slept = sleep_until(end);
        }
        "raise" => {
            let setting = SchedulingSetting::Fifo {
                priority: number as u8,
                reset_on_fork: false,
            };
            set_scheduling(own_thread(), setting).unwrap();
            while Monotonic.now() < end {}
        }
        _ => spin(number, name == "leave", end),
    }
    std::process::exit(0);
}

/// Asks for `cpu`, once or again and again; a cpuset may refuse.
fn spin(cpu: u32, again: bool, end: Instant) {
    let cpus = [cpu].into();
    let _refused = set_affinity(own_thread(), &cpus);
    let mut asked = Monotonic.now();
    while Monotonic.now() < end {
        if again && Monotonic.now().saturating_since(asked) > Duration::from_micros(500) {
            asked = Monotonic.now();
            let _refused = set_affinity(own_thread(), &cpus);
        }
    }
}

/// A child that outlives its parent, though not for long.
fn sleeper() -> Child {
    Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}
