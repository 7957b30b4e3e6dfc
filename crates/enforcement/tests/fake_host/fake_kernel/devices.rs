//! A network device "eth0" where a host has the directory `/device`: the files that are written for its interrupts, and
//! the thread that it has while `threaded` is 1.

use std::io;
use std::path::{Path, PathBuf};

use tailbound_linux::interrupts::InterruptParts;
use tailbound_linux::process::RunTimes;
use tailbound_model::Cpu;

use super::{CPU_ROOT, CPUS, CPUSET_ROOT, FakeState, FakeThread, SchedulingSetting, V2_ROOT};

const DIRECTORY: &str = "/device";
const THREAD: u32 = 900;

/// The parts of the device.
pub(super) fn parts(state: &FakeState, name: &str) -> io::Result<InterruptParts> {
    let files = state.cgroups.get(Path::new(DIRECTORY));
    let files = files
        .filter(|_| name == "eth0")
        .ok_or(io::ErrorKind::NotFound)?;
    let file = |name: &str| Path::new(DIRECTORY).join(name);
    let is_threaded = state.threads.contains_key(&THREAD);
    Ok(InterruptParts {
        affinities: vec![file("smp_affinity_list")],
        threaded: files.contains_key("threaded").then(|| file("threaded")),
        steering: vec![file("rps_cpus")],
        threads: is_threaded.then_some(THREAD).into_iter().collect(),
    })
}

/// The thread comes and goes with the value of `threaded`.
pub(super) fn follow(state: &mut FakeState, file: &Path, value: &str) {
    if file != Path::new(DIRECTORY).join("threaded") {
        return;
    }
    if value != "1" {
        state.threads.remove(&THREAD);
        return;
    }
    let root = |root: &str| (PathBuf::from(root), PathBuf::from(root));
    state.threads.entry(THREAD).or_insert(FakeThread {
        pid: THREAD,
        parent: 2,
        started: u64::from(THREAD) * 10,
        scheduling: SchedulingSetting::Other { nice: 0 },
        run_times: RunTimes::default(),
        affinity: (0..CPUS).map(Cpu).collect(),
        cgroups: [V2_ROOT, CPU_ROOT, CPUSET_ROOT].map(root).into(),
    });
}
