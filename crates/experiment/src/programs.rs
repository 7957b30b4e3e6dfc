//! The programs of a domain: started, watched, ended.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration as Pause;

use tailbound_enforcement::{Target, binding};
use tailbound_linux::isolation::IsolatedProcesses;
use tailbound_linux::network_interface::{NetworkNamespace, NetworkPlace};
use tailbound_linux::spawn;
use tailbound_model::{Builtin, Description, Domain, Members, Scheduling};

use crate::ExperimentError;
use crate::chain_runs::job_folder;
use crate::isolation::DomainIsolation;
use crate::port_set::PortSet;

/// How long a program may take to end after SIGTERM before it is killed.
const PATIENCE_STEPS: u32 = 40;
const PATIENCE_STEP: Pause = Pause::from_millis(25);

/// Where programs find their files and leave their output.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The file of the description.
    pub file: PathBuf,
    /// The folder of the description: the working directory of every program.
    pub base: PathBuf,
    /// The folder of the results: the programs' output goes to `logs/` in it.
    pub out: PathBuf,
    /// Our own executable, for the built-in programs.
    pub executable: PathBuf,
}

/// The running programs of one domain; dropping it ends those that it started.
#[derive(Debug)]
pub struct Programs {
    domain: String,
    children: Vec<Started>,
    isolation: Option<DomainIsolation>,
    /// What runs without us: processes or a cgroup that the description names.
    attached: Option<Target>,
}

/// Where programs run.
struct ProgramPlace<'a> {
    cpus: BTreeSet<u32>,
    /// The name of the network namespace, if it is not ours.
    network: Option<&'a str>,
}

#[derive(Debug)]
struct Started {
    child: Child,
    /// Its processes, where the child is the supervisor of an isolated program.
    isolated: Option<IsolatedProcesses>,
    program: String,
    log: PathBuf,
}

impl Programs {
    /// Starts what `domain` describes, on its CPUs, under the kernel's default scheduling and with its ports, or
    /// attaches to what it names.
    ///
    /// # Errors
    /// A program that is not there or may not be run; those started before it are ended.
    pub fn start(
        description: &Description,
        name: &str,
        domain: &Domain,
        (surroundings, ports): (&Surroundings, &PortSet),
    ) -> Result<Self, ExperimentError> {
        let mut programs = Self {
            domain: name.into(),
            children: Vec::new(),
            isolation: None,
            attached: None,
        };
        let Members::Started { instances } = domain.members(name) else {
            programs.attached = binding::target(description, name, None)?;
            return Ok(programs);
        };
        let place = ProgramPlace {
            cpus: domain.allowed_cpus().iter().map(|cpu| cpu.0).collect(),
            network: domain.network_namespace.as_deref(),
        };
        let words = command_line(description, name, domain, surroundings)?;
        programs.isolation = DomainIsolation::prepare(name, domain, surroundings)?;
        for instance in 0..instances {
            programs.start_one(&words, &place, instance, (surroundings, ports))?;
        }
        Ok(programs)
    }

    fn start_one(
        &mut self,
        words: &[String],
        place: &ProgramPlace<'_>,
        instance: u32,
        (surroundings, ports): (&Surroundings, &PortSet),
    ) -> Result<(), ExperimentError> {
        let logs = surroundings.out.join("logs");
        let log = logs.join(format!("{}-{instance}.log", self.domain));
        let writing = |cause: std::io::Error| ExperimentError::Write {
            file: log.display().to_string(),
            cause: cause.to_string(),
        };
        std::fs::create_dir_all(&logs).map_err(writing)?;
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(writing)?;
        let errors = output.try_clone().map_err(writing)?;
        let program = words.first().cloned().unwrap_or_default();
        let isolated = self.isolation.as_ref();
        let words = isolated.map_or_else(|| words.to_vec(), |one| one.command_line(words));
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(&surroundings.base)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        if let Some(network) = place.network {
            self.network(network)?.enclose(&mut command);
        }
        ports.give(&self.domain, &mut command);
        let child = spawn::spawn_on(&mut command, &place.cpus).map_err(|cause| {
            let remedy = match cause.kind() {
                std::io::ErrorKind::NotFound => format!("install {program}, or give its full path"),
                std::io::ErrorKind::InvalidInput => {
                    "name CPUs that exist and that this process may use".into()
                }
                _ => "check its permissions and the description".into(),
            };
            let domain = self.domain.clone();
            ExperimentError::Start {
                domain,
                program: program.clone(),
                cause,
                remedy,
            }
        })?;
        self.children.push(Started {
            child,
            isolated: None,
            program,
            log,
        });
        self.await_isolated()
    }

    /// Waits until the program that was started last is in its namespaces, if it is isolated.
    fn await_isolated(&mut self) -> Result<(), ExperimentError> {
        let (Some(isolation), Some(latest)) = (&self.isolation, self.children.last_mut()) else {
            return Ok(());
        };
        let processes = isolation.await_program(&mut latest.child);
        latest.isolated = processes.map_err(|cause| ExperimentError::Start {
            domain: self.domain.clone(),
            program: latest.program.clone(),
            cause,
            remedy: "see tailbound doctor".into(),
        })?;
        match latest.isolated {
            Some(_) => Ok(()),
            None => self.check_alive(),
        }
    }

    /// The network namespace that the programs are to run in.
    fn network(&self, name: &str) -> Result<NetworkNamespace, ExperimentError> {
        NetworkPlace::Named(name.to_owned())
            .open()
            .map_err(|cause| ExperimentError::Domain {
                domain: self.domain.clone(),
                what: format!("its network namespace \"{name}\" cannot be opened: {cause}"),
                remedy: format!("make it by `ip netns add {name}`"),
            })
    }

    /// The processes that were started, without the supervisors of isolated ones; none where the domain runs without us.
    pub fn started(&self) -> Vec<u32> {
        let first = |one: &Started| one.isolated.map_or(one.child.id(), |own| own.first);
        self.children.iter().map(first).collect()
    }

    /// The first process, if we know it.
    pub fn first_process(&self) -> Option<u32> {
        match (&self.attached, self.children.first()) {
            (Some(Target::Processes(pids)), _) => pids.first().copied(),
            (None, Some(one)) => Some(one.isolated.map_or(one.child.id(), |own| own.program)),
            _ => None,
        }
    }

    /// Makes sure that everything we started still runs.
    ///
    /// # Errors
    /// Which program ended, how, and where its output is.
    pub fn check_alive(&mut self) -> Result<(), ExperimentError> {
        for one in &mut self.children {
            if let Ok(Some(status)) = one.child.try_wait() {
                return Err(ExperimentError::Ended {
                    domain: self.domain.clone(),
                    program: one.program.clone(),
                    how: status.to_string(),
                    log: one.log.display().to_string(),
                });
            }
        }
        Ok(())
    }

    /// The programs that have ended since this was asked last, each with its end in words; what is left of their process
    /// groups is killed.
    pub fn take_endings(&mut self) -> Vec<String> {
        let mut endings = Vec::new();
        self.children.retain_mut(|one| {
            let Ok(Some(status)) = one.child.try_wait() else {
                return true;
            };
            let _gone = spawn::kill_group(&one.child);
            endings.push(format!("{} ended ({status})", one.program));
            false
        });
        endings
    }

    /// Kills what we started, at once.
    pub fn kill(&mut self) {
        for mut one in self.children.drain(..) {
            let _gone = spawn::kill_group(&one.child);
            let _reaped = one.child.wait();
        }
        // Before the next ones have a group of the same name.
        if let Some(isolation) = self.isolation.take() {
            isolation.end();
        }
    }

    /// Ends what we started: SIGTERM, and SIGKILL to what stays.
    pub fn stop(&mut self) {
        for one in &self.children {
            // An error means that it has gone, which is what we want.
            let _gone = spawn::terminate_group(&one.child);
        }
        for one in &mut self.children {
            let mut steps = PATIENCE_STEPS;
            while steps > 0 && matches!(one.child.try_wait(), Ok(None)) {
                std::thread::sleep(PATIENCE_STEP);
                steps -= 1;
            }
            let _gone = spawn::kill_group(&one.child);
            let _reaped = one.child.wait();
        }
        self.children.clear();
        if let Some(isolation) = self.isolation.take() {
            isolation.end();
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The words of a domain's command, or of its built-in program.
fn command_line(
    description: &Description,
    name: &str,
    domain: &Domain,
    surroundings: &Surroundings,
) -> Result<Vec<String>, ExperimentError> {
    let own = surroundings.executable.display().to_string();
    let words = match domain.builtin {
        None if domain.command.is_empty() => {
            return Err(ExperimentError::Domain {
                domain: name.into(),
                what: "it has no program".into(),
                remedy: "give `command`, `builtin` or `pids`".into(),
            });
        }
        None => domain.command.clone(),
        Some(Builtin::CpuHog) => vec![own, "internal".into(), "cpu-hog".into()],
        Some(Builtin::OwnTasks) => {
            let jobs = job_folder(&absolute(&surroundings.out));
            let words = ["internal", "own-tasks", "--domain", name, "--jobs"];
            let words = std::iter::once(own).chain(words.map(String::from));
            let files = [jobs, absolute(&surroundings.file)];
            words
                .chain(files.map(|file| file.display().to_string()))
                .collect()
        }
        Some(Builtin::SyntheticService) => {
            let service = description
                .services
                .values()
                .find(|service| service.domain == name);
            let Some(service) = service else {
                return Err(ExperimentError::Domain {
                    domain: name.into(),
                    what: "its synthetic service is described nowhere".into(),
                    remedy: format!("add a service with `domain = \"{name}\"`"),
                });
            };
            let order = match service.scheduling {
                Scheduling::Fifo => "fifo",
                Scheduling::RateMonotonic => "rate-monotonic",
                Scheduling::DeadlineMonotonic => "deadline-monotonic",
                Scheduling::EarliestDeadlineFirst => "earliest-deadline-first",
                Scheduling::FixedPriority => "fixed-priority",
                Scheduling::RoundRobin => "round-robin",
            };
            let words = [
                "internal",
                "synthetic-service",
                "--endpoint",
                &service.endpoint,
            ];
            let words = words.into_iter().chain(["--scheduling", order]);
            let size = service.message_size.map(|size| size.to_string());
            let size = size
                .into_iter()
                .flat_map(|size| ["--message-size".into(), size]);
            std::iter::once(own)
                .chain(words.map(String::from))
                .chain(size)
                .collect()
        }
    };
    Ok(words)
}

/// Makes a path absolute without touching the file system's links.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
