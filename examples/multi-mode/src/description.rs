//! The same case as a description, set up in different ways.

use std::fmt::Write as _;
use std::path::PathBuf;

use tailbound_time::Duration;

use crate::case::{Case, Domain, PERIOD, task_name};

/// The modes' names.
pub const MODES: [&str; 2] = ["mode0", "mode1"];

/// How reservations are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// One reservation for each domain, from the initial mode; the tasks are those of each mode.
    InitialMode,
    /// One reservation for each domain, from the mode in which it needs most.
    WorstCase,
    /// A reservation for each domain and mode.
    Modes,
}

/// What a domain is on this host.
#[derive(Clone, Debug)]
pub enum Place {
    /// Processes.
    Pids(Vec<u32>),
    /// A virtual machine, by its monitor's socket and the agent's port.
    Machine {
        /// QEMU's monitor.
        qmp: PathBuf,
        /// The agent's.
        port: PathBuf,
    },
}

/// Where the case runs.
#[derive(Clone, Debug)]
pub struct Host {
    /// For the domains.
    pub cpu: u32,
    /// For everything else.
    pub housekeeping: u32,
    /// Each domain, in the order of the case.
    pub places: Vec<Place>,
}

/// The description of a case, as TOML.
pub fn text(case: &Case, host: &Host, set_up: SetUp, policy: &str) -> String {
    let mut out = format!(
        "schema_version = 1\nname = \"multi-mode\"\ninitial_mode = \"{}\"\n\n[hosts.here]\n\
         cpus = [{}, {}]\nhousekeeping = [{}]\n\n[mode_changes]\npolicy = \"{policy}\"\n\
         timeout = \"5s\"\nboost = \"1ms\"\n",
        MODES[0],
        host.cpu.min(host.housekeeping),
        host.cpu.max(host.housekeeping),
        host.housekeeping,
    );
    for (domain, place) in case.domains.iter().zip(&host.places) {
        describe(&mut out, domain, place, host, set_up);
    }
    for (number, mode) in MODES.iter().enumerate() {
        let locals: Vec<String> = case
            .domains
            .iter()
            .map(|domain| format!("{} = \"{}\"", domain.name, MODES[number]))
            .collect();
        put(
            &mut out,
            format_args!("\n[modes.{mode}]\ndomains = {{ {} }}\n", locals.join(", ")),
        );
    }
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = out.write_fmt(text);
}

fn describe(out: &mut String, domain: &Domain, place: &Place, host: &Host, set_up: SetUp) {
    let name = domain.name;
    let reservation = |budget: Duration| {
        format!(
            "reservation = {{ budget = \"{budget}\", period = \"{PERIOD}\", cpus = [{}], priority = {} }}",
            host.cpu, domain.priority
        )
    };
    let initial = reservation(budget(domain, 0, set_up));
    put(out, format_args!("\n[domains.{name}]\n"));
    match place {
        Place::Pids(pids) => put(
            out,
            format_args!(
                "kind = \"process\"\npids = {pids:?}\n{initial}\nagent = {{ place = \"outside\" }}\n"
            ),
        ),
        Place::Machine { qmp, port } => put(
            out,
            format_args!(
                "kind = \"qemu-vm\"\nmachine = {{ qmp = {qmp:?}, emulator_cpus = [{}] }}\n{initial}\n\
                 agent = {{ place = \"inside\", link = {{ kind = \"virtio-serial\", path = {port:?} }} }}\n",
                host.housekeeping
            ),
        ),
    }
    for (task_name, task) in domain.tasks() {
        put(
            out,
            format_args!(
                "\n[domains.{name}.tasks.{task_name}]\narrivals = {{ kind = \"periodic\", period = \"{}\" }}\n\
                 execution_time = {{ kind = \"constant\", value = \"{}\" }}\n",
                task.period, task.execution
            ),
        );
    }
    for (mode, mode_name) in MODES.iter().enumerate() {
        let count = domain.modes[mode].tasks.len();
        let tasks: Vec<String> = (0..count)
            .map(|task| format!("{:?}", task_name(mode, task)))
            .collect();
        put(
            out,
            format_args!(
                "\n[domains.{name}.modes.{mode_name}]\n{}\ntasks = [{}]\n",
                reservation(budget(domain, mode, set_up)),
                tasks.join(", ")
            ),
        );
    }
}

fn budget(domain: &Domain, mode: usize, set_up: SetUp) -> Duration {
    match set_up {
        SetUp::InitialMode => domain.modes[0].budget,
        SetUp::WorstCase => domain.worst(),
        SetUp::Modes => domain.modes[mode].budget,
    }
}
