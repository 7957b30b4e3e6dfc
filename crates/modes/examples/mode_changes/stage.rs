//! A host with domains, their agents, and the manager of their modes.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_enforcement::{Enforcer, ReservationRequest, Target};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_model::{
    AgentPlace, BackendKind, BackendOptions, BudgetScope, ChangePolicy, Cpu, Priority,
    RequestsMeanwhile, ResourceInterface, TaskStart,
};
use tailbound_modes::enforcer_adapter::{EnforcerAdapter, limits};
use tailbound_modes::links::{AgentLinks, Commands, LOOK_FOR};
use tailbound_modes::manager::{Asker, HostModeManager, Report};
use tailbound_modes::table::{AgentEntry, ModeTable, Settings};
use tailbound_modes::transition::{DomainMode, Options};
use tailbound_time::{Clock, Duration};

use crate::domain::{TASKS, start_agent, start_task};
use crate::journal::BenchJournal;

/// Where the manager runs, and where the domains do.
pub const MANAGER_CPU: u32 = 0;
pub const DOMAIN_CPU: u32 = 1;

const PERIOD: Duration = Duration::from_millis(10);
/// No domain has less.
const LEAST_BUDGET: Duration = Duration::from_micros(200);

/// Where agents run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Inside,
    Outside,
}

type Manager = HostModeManager<EnforcerAdapter<Monotonic>, AgentLinks<Monotonic>, Monotonic>;

pub struct Stage {
    domains: Vec<Domain>,
    place: Place,
    random: ChaCha8Rng,
    manager: Option<Manager>,
    /// Kept open, as a daemon does.
    commands: Option<Commands>,
    folder: tempfile::TempDir,
    children: Vec<Child>,
    /// Whether the journal is kept.
    journal: Arc<AtomicBool>,
}

struct Domain {
    name: String,
    budgets: [Duration; 2],
}

/// Shares of the total for so many domains: gaps between uniform points.
fn budgets(domains: usize, total_permille: u64, random: &mut ChaCha8Rng) -> Vec<Duration> {
    let total = PERIOD.as_nanos() * total_permille / 1_000;
    let spare = total - LEAST_BUDGET.as_nanos() * domains as u64;
    let mut points: Vec<u64> = (1..domains).map(|_| random.next_u64() % spare).collect();
    points.extend([0, spare]);
    points.sort_unstable();
    points
        .windows(2)
        .map(|pair| Duration::from_nanos(pair[1] - pair[0]) + LEAST_BUDGET)
        .collect()
}

/// So many domains have to have more than this together, in thousandths of the CPU.
pub fn least_total_permille(domains: usize) -> u64 {
    LEAST_BUDGET.as_nanos() * domains as u64 * 1_000 / PERIOD.as_nanos()
}

impl Stage {
    /// What is kept of it while it stands lies in `folder`.
    pub fn set(
        (domains, total_permille): (usize, u64),
        place: Place,
        seed: u64,
        folder: &Path,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed + domains as u64 * 1_000);
        let modes = [(); 2].map(|()| budgets(domains, total_permille, &mut random));
        let domain = |index: usize| Domain {
            name: format!("d{index}"),
            budgets: [modes[0][index], modes[1][index]],
        };
        Self {
            domains: (0..domains).map(domain).collect(),
            place,
            random,
            manager: None,
            commands: None,
            folder: tempfile::Builder::new()
                .prefix("stage")
                .tempdir_in(folder)
                .expect("a folder that can be written"),
            children: Vec::new(),
            journal: Arc::default(),
        }
    }

    fn table(&self) -> ModeTable {
        let modes = [0, 1].map(|mode| {
            let locals = self.domains.iter().enumerate().map(|(index, domain)| {
                let local = DomainMode {
                    name: TASKS[mode].into(),
                    interface: interface(domain.budgets[mode], index),
                    tasks: [TASKS[mode].to_owned()].into(),
                };
                (domain.name.clone(), local)
            });
            (TASKS[mode].to_owned(), locals.collect())
        });
        let agents = self.domains.iter().map(|domain| {
            let agent = AgentEntry {
                place: match self.place {
                    Place::Inside => AgentPlace::Inside,
                    Place::Outside => AgentPlace::Outside,
                },
                may_request: Default::default(),
                fallback: None,
            };
            (domain.name.clone(), agent)
        });
        let settings = Settings {
            options: Options {
                policy: ChangePolicy::Greedy,
                start: TaskStart::Accepted,
                timeout: Duration::from_secs(1),
            },
            requests: RequestsMeanwhile::Queue,
            longest_boost: Duration::from_millis(2),
            least_gap: Duration::ZERO,
        };
        ModeTable::new(TASKS[0].into(), modes.into(), agents.collect(), settings).expect("a table")
    }

    /// Starts domains and agents, reserves, and waits for the agents.
    pub fn begin(&mut self) {
        let socket = self.folder.path().join("modes.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let authority = Box::new(|_: &_, _: &str| Ok(()));
        let (mut links, commands) = AgentLinks::new(listener, authority, Monotonic).expect("links");
        links.look_for(LOOK_FOR);
        let mut requests = Vec::new();
        for (index, domain) in self.domains.iter().enumerate() {
            let tasks = [start_task(), start_task()];
            let mut pids: Vec<u32> = tasks.iter().map(Child::id).collect();
            tailbound_linux::process::send_signal(pids[1], STOP).expect("a task");
            let agent = start_agent(&domain.name, &socket, &pids, DOMAIN_CPU);
            if self.place == Place::Inside {
                pids.push(agent.id());
            }
            self.children.extend(tasks);
            self.children.push(agent);
            requests.push(ReservationRequest {
                domain: domain.name.clone(),
                target: Target::Processes(pids),
                interface: interface(domain.budgets[0], index),
                backend: BackendKind::DsFreeze,
                options: BackendOptions::default(),
                interference: Default::default(),
            });
        }
        // The agents have their priority by then.
        sleep(Duration::from_millis(300));
        let host = HostCapabilities::probe();
        let folder = self.folder.path().join("state");
        let mut enforcer = Enforcer::with_host(host.clone(), folder).expect("an enforcer");
        enforcer.apply(&requests).expect("reservations");
        let standing = enforcer.status();
        let limits = limits([Cpu(DOMAIN_CPU)], &standing, |_| true, &host);
        let reservations =
            EnforcerAdapter::new(Arc::new(Mutex::new(enforcer)), &standing, Monotonic);
        let mut manager =
            HostModeManager::new(self.table(), limits, reservations, links, Monotonic);
        let journal = BenchJournal::new(self.folder.path(), Arc::clone(&self.journal));
        manager = manager.with_journal(Box::new(journal));
        for _ in 0..100 {
            manager.serve_one(Some(Monotonic.now() + Duration::from_millis(50)));
            if manager.agents().present().len() == self.domains.len() {
                break;
            }
        }
        assert_eq!(
            manager.agents().present().len(),
            self.domains.len(),
            "agents are missing"
        );
        self.manager = Some(manager);
        self.commands = Some(commands);
    }

    /// Switches to the other mode, with the journal or without it.
    pub fn switch(&mut self, options: Options, with_journal: bool) -> Report {
        self.journal.store(with_journal, Ordering::Relaxed);
        let pause = Duration::from_micros(20_000 + self.random.next_u64() % 20_000);
        let manager = self.manager.as_mut().expect("begun");
        manager.serve_one(Some(Monotonic.now() + pause));
        manager.set_options(options);
        let other = match manager.state().mode == TASKS[0] {
            true => TASKS[1],
            false => TASKS[0],
        };
        let report = manager
            .change_to(&Asker::Command(0), other)
            .expect("a mode");
        assert!(report.is_there(), "{report:?}");
        report
    }

    pub fn end(&mut self) {
        // Reservations first, so that nobody is killed while frozen.
        self.manager = None;
        for child in &mut self.children {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
        self.children.clear();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
    }
}

/// SIGSTOP.
const STOP: i32 = 19;

fn interface(budget: Duration, index: usize) -> ResourceInterface {
    ResourceInterface {
        budget,
        period: PERIOD,
        priority: Priority(80 - index as u8),
        cpus: [Cpu(DOMAIN_CPU)].into(),
        budget_scope: BudgetScope::EachCpu,
        windows: Vec::new(),
        slack: Vec::new(),
    }
}

fn sleep(length: Duration) {
    sleep_until(Monotonic.now() + length).expect("a timer");
}
