//! How long modes are known: as long as the reservations that they change, and one table at a time.
//! Without a kernel: reservations are fakes.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tailbound_daemon::leases::ConnectionId;
use tailbound_daemon::protocol::{Request, Response};
use tailbound_daemon::service::{ModesKeeping, Service};
use tailbound_daemon::{Lease, RefusalKind, Selection};
use tailbound_enforcement::{MachineThreads, Recovery, ReservationRequest, Target};
use tailbound_modes::described::table_of;
use tailbound_modes::table::ModeTable;

use crate::fakes::{AlwaysProtected, FakeKernel, Trouble, request};

fn table() -> ModeTable {
    let text = r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.cell.cpus = [1]
        [domains.arm]
        kind = "process"
        pids = [4711]
        reservation = { budget = "4ms", period = "10ms", cpus = [1], priority = 50 }
        [modes.run]
        [modes.rest]
        reservations = { arm = { budget = "1ms", period = "10ms", cpus = [1], priority = 50 } }
    "#;
    let description = tailbound_model::parse(text, "cell.toml").unwrap();
    table_of(&description).unwrap()
}

/// A daemon's service in a folder of its own.
struct Stage {
    service: Arc<Service<FakeKernel>>,
    kernel: FakeKernel,
    folder: tempfile::TempDir,
}

impl Stage {
    fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kernel = FakeKernel::default();
        let keeping = ModesKeeping {
            socket: folder.path().join("modes.sock"),
            directory: folder.path().to_owned(),
            exit_when_idle: None,
        };
        let protection = Box::new(AlwaysProtected);
        let recovered = Recovery::default();
        let service = Service::new(kernel.clone(), protection, recovered, keeping);
        Self {
            service: Arc::new(service),
            kernel,
            folder,
        }
    }

    /// The domain is reserved, and the modes are known.
    fn with_modes(lease: Lease) -> (Self, ConnectionId) {
        let stage = Self::set();
        let id = stage.service.leases().connect();
        let requests = vec![request("arm")];
        let applied = stage.ask(
            id,
            Request::Apply {
                requests,
                lease,
                when_empty: Default::default(),
            },
        );
        assert!(matches!(applied, Response::Applied { .. }), "{applied:?}");
        let loaded = stage.load(id);
        assert!(matches!(loaded, Response::ModesLoaded { .. }), "{loaded:?}");
        (stage, id)
    }

    fn ask(&self, id: ConnectionId, request: Request) -> Response {
        self.service.answer(id, true, request).0
    }

    fn load(&self, id: ConnectionId) -> Response {
        let (table, description) = (Box::new(table()), None);
        self.ask(id, Request::LoadModes { table, description })
    }

    fn knows_modes(&self) -> bool {
        let id = self.service.leases().connect();
        let answer = self.ask(id, Request::Modes {});
        self.service.disconnect(id);
        let Response::Modes { modes } = answer else {
            panic!("{answer:?}");
        };
        modes.is_some()
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("modes.sock")
    }

    fn has_journal(&self) -> bool {
        self.folder.path().join("modes.state").exists()
    }
}

fn takes_connections(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

#[test]
fn modes_that_are_loaded_at_once_do_not_take_each_others_socket() {
    let (stage, _) = Stage::with_modes(Lease::Persistent);
    for _ in 0..20 {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let id = stage.service.leases().connect();
                    let loaded = stage.load(id);
                    assert!(matches!(loaded, Response::ModesLoaded { .. }));
                    stage.service.disconnect(id);
                });
            }
        });
        assert!(takes_connections(&stage.socket()));
        assert!(stage.knows_modes() && stage.has_journal());
    }
    stage.service.forget_modes();
    assert!(!stage.socket().exists() && !stage.has_journal());
}

/// The modes of some of these domains.
fn table_of_domains(domains: &[&str]) -> Box<ModeTable> {
    let domains = domains.iter().enumerate().map(|(place, domain)| {
        format!(
            r#"
            [domains.{domain}]
            kind = "process"
            pids = [{}]
            reservation = {{ budget = "4ms", period = "10ms", cpus = [1], priority = 50 }}
            "#,
            4711 + place,
        )
    });
    let text = format!(
        r#"
        schema_version = 1
        name = "cell"
        initial_mode = "on"
        hosts.cell.cpus = [1]
        [modes.on]
        {}"#,
        domains.collect::<String>()
    );
    let description = tailbound_model::parse(&text, "cell.toml").unwrap();
    Box::new(table_of(&description).unwrap())
}

#[test]
fn modes_of_a_second_description_do_not_take_the_place_of_those_of_the_first() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let (requests, lease) = (vec![request("camera")], Lease::Persistent);
    stage.ask(
        id,
        Request::Apply {
            requests,
            lease,
            when_empty: Default::default(),
        },
    );
    let load = |domains: &[&str]| {
        let table = table_of_domains(domains);
        let description = None;
        stage.ask(id, Request::LoadModes { table, description })
    };
    let Response::Refused { refusal } = load(&["camera"]) else {
        panic!("the modes of the arm are forgotten");
    };
    assert_eq!(refusal.kind, RefusalKind::Mode);
    for said in [
        "reservations of arm",
        "has no \"arm\"",
        "tailbound revert DOMAIN",
        "one description",
    ] {
        assert!(refusal.message.contains(said), "{refusal}");
    }
    // The first one goes on.
    let mode = "rest".to_owned();
    let set = stage.ask(id, Request::SetMode { mode });
    assert!(matches!(set, Response::ModeSet { .. }), "{set:?}");
    let mode = "run".to_owned();
    stage.ask(id, Request::SetMode { mode });
    // What has all of its domains is another version of it.
    let loaded = load(&["arm", "camera"]);
    assert!(matches!(loaded, Response::ModesLoaded { .. }), "{loaded:?}");
    // And without the first one, the second one may come.
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let selection = Selection::Domain("arm".into());
    stage.ask(id, Request::Revert { selection });
    let (requests, lease) = (vec![request("camera")], Lease::Persistent);
    stage.ask(
        id,
        Request::Apply {
            requests,
            lease,
            when_empty: Default::default(),
        },
    );
    let (table, description) = (table_of_domains(&["camera"]), None);
    let loaded = stage.ask(id, Request::LoadModes { table, description });
    assert!(matches!(loaded, Response::ModesLoaded { .. }), "{loaded:?}");
}

#[test]
fn a_reservation_of_modes_is_changed_by_nobody_else() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let change = |domain: &str| {
        let interface = request("arm").interface;
        let domain = domain.to_owned();
        stage.ask(id, Request::Change { domain, interface })
    };
    let Response::Refused { refusal } = change("arm") else {
        panic!("it was changed");
    };
    assert_eq!(refusal.kind, RefusalKind::Mode);
    assert!(refusal.message.contains("mode set"), "{refusal}");
    let (requests, lease) = (vec![request("other")], Lease::Persistent);
    stage.ask(
        id,
        Request::Apply {
            requests,
            lease,
            when_empty: Default::default(),
        },
    );
    let changed = change("other");
    assert!(matches!(changed, Response::Changed { .. }), "{changed:?}");
    stage.service.forget_modes();
    let changed = change("arm");
    assert!(matches!(changed, Response::Changed { .. }), "{changed:?}");
}

#[test]
fn modes_end_with_the_connection_that_has_their_reservation() {
    let (stage, id) = Stage::with_modes(Lease::Connection);
    assert!(stage.knows_modes());
    stage.service.disconnect(id);
    assert!(stage.kernel.active().is_empty());
    assert!(!stage.knows_modes() && !stage.socket().exists());
}

#[test]
fn modes_end_with_their_owner_even_if_not_all_can_be_taken_back() {
    let (stage, id) = Stage::with_modes(Lease::Connection);
    stage.kernel.set_trouble(Trouble {
        revert_fails: true,
        ..Trouble::default()
    });
    stage.service.disconnect(id);
    assert!(!stage.knows_modes());
    stage.kernel.set_trouble(Trouble::default());
    stage.service.retry_abandoned();
    assert!(stage.kernel.active().is_empty());
}

#[test]
fn modes_end_when_nobody_guards_them() {
    let (stage, _) = Stage::with_modes(Lease::Persistent);
    assert!(stage.has_journal());
    stage.service.give_up().unwrap();
    assert!(!stage.knows_modes() && !stage.has_journal());
}

#[test]
fn modes_whose_reservation_cannot_be_taken_back_are_made_again_after_a_death() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    stage.kernel.set_trouble(Trouble {
        revert_fails: true,
        ..Trouble::default()
    });
    let selection = Selection::All;
    let revert = Request::Revert { selection };
    let refused = stage.ask(id, revert.clone());
    assert!(matches!(refused, Response::Refused { .. }));
    assert!(stage.knows_modes() && stage.has_journal());
    stage.kernel.set_trouble(Trouble::default());
    let reverted = stage.ask(id, revert);
    assert!(matches!(reverted, Response::Reverted { .. }));
    assert!(!stage.knows_modes() && !stage.has_journal());
}

#[test]
fn the_watchdog_is_no_thread_of_an_emulator() {
    let stage = Stage::set();
    let id = stage.service.leases().connect();
    let watchdog = stage.service.status().watchdog.pid.unwrap();
    for (vcpus, emulator) in [(vec![watchdog], vec![]), (vec![4711], vec![watchdog])] {
        let machine = MachineThreads {
            vcpus,
            emulator,
            emulator_cpus: [tailbound_model::Cpu(0)].into(),
        };
        let requests = vec![ReservationRequest {
            target: Target::Machine(machine),
            ..request("guest")
        }];
        let lease = Lease::Persistent;
        let answer = stage.ask(
            id,
            Request::Apply {
                requests,
                lease,
                when_empty: Default::default(),
            },
        );
        let Response::Refused { refusal } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(refusal.kind, RefusalKind::Target);
        assert!(refusal.message.contains("watchdog"), "{refusal}");
    }
}
