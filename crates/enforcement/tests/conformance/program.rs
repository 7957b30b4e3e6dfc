//! The processes that the checks look at: this program again, in a role.

use std::process::{Child, Command, Stdio};

use tailbound_enforcement::{Enforcer, ReservationRequest};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::{Monotonic, process_cpu_time, sleep_until, thread_cpu_time};
use tailbound_linux::spawn::spawn_on;
use tailbound_time::{Clock, Duration, Instant};

use super::spinner::{self, Burst};

const ROLE: &str = "--role";

/// What a process does.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Spins on this many threads, the main one included, and tells the main one's bursts.
    Spin {
        /// The threads.
        threads: u32,
        /// A longer stretch without running ends a burst.
        gap: Duration,
    },
    /// Spins on a second thread while the main one waits.
    SpinBeside,
    /// Spins from an instant on.
    SpinFrom {
        /// When.
        instant: Instant,
    },
    /// Starts a process that spins, at an instant.
    SpawnAt {
        /// When.
        instant: Instant,
    },
    /// Works for so much CPU time in each period, and tells how many periods it was done in.
    Work {
        /// CPU time per period.
        work: Duration,
        /// The period.
        period: Duration,
    },
}

/// A process in a role; killed when dropped.
pub struct Program(Child);

impl Program {
    /// Starts it, on `cpus`; it ends by itself at `end`.
    pub fn start(role: Role, end: Instant, cpus: &[u32]) -> Self {
        let (name, first, second) = match role {
            Role::Spin { threads, gap } => ("spin", u64::from(threads), gap.as_nanos()),
            Role::SpinBeside => ("spin-beside", 0, 0),
            Role::SpinFrom { instant } => ("spin-from", instant.as_nanos(), 0),
            Role::SpawnAt { instant } => ("spawn-at", instant.as_nanos(), 0),
            Role::Work { work, period } => ("work", work.as_nanos(), period.as_nanos()),
        };
        let numbers = [end.as_nanos(), first, second].map(|number| number.to_string());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([ROLE, name]).args(numbers);
        command.stdout(Stdio::piped());
        let cpus = cpus.iter().copied().collect();
        let program = Self(spawn_on(&mut command, &cpus).unwrap());
        program.wait_for_threads(match role {
            Role::Spin { threads, .. } => threads as usize,
            Role::SpinBeside => 2,
            _ => 1,
        });
        program
    }

    /// Starts an enforcer that applies `request` and waits to be killed; it has applied it when
    /// this returns.
    pub fn start_owner(request: &ReservationRequest, directory: &std::path::Path) -> Self {
        use std::io::BufRead;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([ROLE, "own", &serde_json::to_string(request).unwrap()]);
        command.arg(directory).stdout(Stdio::piped());
        let mut child = spawn_on(&mut command, &Default::default()).unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        std::io::BufReader::new(stdout)
            .read_line(&mut line)
            .unwrap();
        let program = Self(child);
        assert_eq!(line, "applied\n", "the owner did not apply its request");
        program
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it ends, and returns what it told.
    pub fn output(&mut self) -> String {
        let text = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        self.0.wait().unwrap();
        text
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }

    fn wait_for_threads(&self, count: usize) {
        let give_up = Monotonic.now() + Duration::from_secs(10);
        let listed = || tailbound_linux::process::threads_of(self.pid()).unwrap_or_default();
        let executed = || {
            let own = std::fs::read_link("/proc/self/exe").ok();
            std::fs::read_link(format!("/proc/{}/exe", self.pid())).ok() == own
        };
        while (listed().len() < count || !executed()) && Monotonic.now() < give_up {
            sleep_until(Monotonic.now() + Duration::from_millis(1)).unwrap();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Plays the role that the arguments ask for; whether they do.
pub fn play_role(arguments: &[String]) -> bool {
    let [role, name, rest @ ..] = arguments else {
        return false;
    };
    if role != ROLE {
        return false;
    }
    if name == "own" {
        own(&rest[0], &rest[1]);
        return true;
    }
    let numbers: Vec<u64> = rest.iter().map(|text| text.parse().unwrap()).collect();
    let end = Instant::from_nanos(numbers[0]);
    match name.as_str() {
        "spin" => spin(end, numbers[1], Duration::from_nanos(numbers[2])),
        "spin-beside" => {
            let beside = std::thread::spawn(move || spinner::spin(end, Duration::MAX));
            beside.join().unwrap();
        }
        "spin-from" => {
            sleep_until(Instant::from_nanos(numbers[1])).unwrap();
            spinner::spin(end, Duration::MAX);
        }
        "spawn-at" => {
            sleep_until(Instant::from_nanos(numbers[1])).unwrap();
            let spin = Role::Spin {
                threads: 1,
                gap: Duration::from_secs(1),
            };
            Program::start(spin, end, &[]).output();
        }
        "work" => work(
            end,
            Duration::from_nanos(numbers[1]),
            Duration::from_nanos(numbers[2]),
        ),
        other => panic!("no role {other}"),
    }
    true
}

fn spin(end: Instant, threads: u64, gap: Duration) {
    let others: Vec<_> = (1..threads)
        .map(|_| std::thread::spawn(move || spinner::spin(end, Duration::MAX)))
        .collect();
    let bursts: Vec<Burst> = spinner::spin(end, gap);
    print!("{}", spinner::to_text(&bursts));
    for other in others {
        other.join().unwrap();
    }
}

fn work(end: Instant, work: Duration, period: Duration) {
    let (mut due, mut done, mut all) = (Monotonic.now() + period, 0_u64, 0_u64);
    while due + period < end {
        sleep_until(due).unwrap();
        let before = thread_cpu_time();
        while thread_cpu_time().saturating_sub(before) < work {}
        done += u64::from(Monotonic.now() <= due + period);
        all += 1;
        due = due + period;
        // Work that came too late takes the place of the next.
        while due < Monotonic.now() {
            due = due + period;
            all += 1;
        }
    }
    println!("{done} {all}");
    assert!(process_cpu_time() >= work);
}

fn own(request: &str, directory: &str) {
    let request: ReservationRequest = serde_json::from_str(request).unwrap();
    let host = HostCapabilities::probe();
    let mut enforcer = Enforcer::with_host(host, directory.into()).unwrap();
    match enforcer.apply(&[request]) {
        Ok(_) => println!("applied"),
        Err(error) => println!("{error}"),
    }
    // Far longer than any check; the parent's death ends us as well.
    std::thread::sleep(std::time::Duration::from_secs(60));
}
