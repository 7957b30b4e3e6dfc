//! How long modes are known: as long as the reservations that they change, and one table at a time.
//! Without a kernel: reservations are fakes.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tailbound_control::protocol::{ControlRequest, Response};
use tailbound_control::{Lease, RefusalKind, Selection};
use tailbound_daemon::leases::ConnectionId;
use tailbound_daemon::service::DaemonService;
use tailbound_enforcement::{MachineThreads, Recovery, ReservationRequest, Target};
use tailbound_modes::control::{
    ModesRefusal, ModesRequest, ModesResponse, ModesSummary, SUBSYSTEM,
};
use tailbound_modes::table::ModeTable;
use tailbound_modes::table_from_description::table_of;
use tailbound_subsystem::Place;

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
    service: Arc<DaemonService<FakeKernel>>,
    kernel: FakeKernel,
    folder: tempfile::TempDir,
}

impl Stage {
    fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kernel = FakeKernel::default();
        let place = Place {
            directory: folder.path().to_owned(),
            exit_when_idle: None,
        };
        let protection = Box::new(AlwaysProtected);
        let recovered = Recovery::default();
        let service = DaemonService::new(kernel.clone(), protection, recovered, place);
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
            ControlRequest::Apply {
                requests,
                lease,
                when_empty: Default::default(),
            },
        );
        assert!(matches!(applied, Response::Applied { .. }), "{applied:?}");
        stage.load(id).unwrap();
        (stage, id)
    }

    fn ask(&self, id: ConnectionId, request: ControlRequest) -> Response {
        self.service.answer(id, true, request)
    }

    fn ask_modes(
        &self,
        id: ConnectionId,
        request: ModesRequest,
    ) -> Result<ModesResponse, ModesRefusal> {
        let name = SUBSYSTEM.to_owned();
        let body = serde_json::to_value(request).unwrap();
        match self.ask(id, ControlRequest::Subsystem { name, body }) {
            Response::Subsystem { body } => Ok(serde_json::from_value(body).unwrap()),
            Response::Refused { refusal } => Err(refusal.reason_as().unwrap()),
            other => panic!("{other:?}"),
        }
    }

    fn load(&self, id: ConnectionId) -> Result<ModesResponse, ModesRefusal> {
        self.load_table(id, Box::new(table()))
    }

    fn load_table(
        &self,
        id: ConnectionId,
        table: Box<ModeTable>,
    ) -> Result<ModesResponse, ModesRefusal> {
        let description = None;
        self.ask_modes(id, ModesRequest::Load { table, description })
    }

    fn knows_modes(&self) -> bool {
        let id = self.service.leases().connect();
        let answer = self.ask_modes(id, ModesRequest::State {});
        self.service.disconnect(id);
        let Ok(ModesResponse::State { modes }) = answer else {
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
                    stage.load(id).unwrap();
                    stage.service.disconnect(id);
                });
            }
        });
        assert!(takes_connections(&stage.socket()));
        assert!(stage.knows_modes() && stage.has_journal());
    }
    stage.service.end_subsystems();
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
        ControlRequest::Apply {
            requests,
            lease,
            when_empty: Default::default(),
        },
    );
    let load = |domains: &[&str]| stage.load_table(id, table_of_domains(domains));
    let refusal = load(&["camera"]).expect_err("the modes of the arm are forgotten");
    assert!(
        matches!(refusal, ModesRefusal::OthersKnown { .. }),
        "{refusal:?}"
    );
    for said in [
        "reservations of arm",
        "has no \"arm\"",
        "tailbound revert DOMAIN",
        "one description",
    ] {
        assert!(refusal.to_string().contains(said), "{refusal}");
    }
    // The first one goes on.
    for mode in ["rest", "run"] {
        let mode = mode.to_owned();
        stage.ask_modes(id, ModesRequest::Set { mode }).unwrap();
    }
    // What has all of its domains is another version of it.
    load(&["arm", "camera"]).unwrap();
    // And without the first one, the second one may come.
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let selection = Selection::Domain("arm".into());
    stage.ask(id, ControlRequest::Revert { selection });
    let (requests, lease) = (vec![request("camera")], Lease::Persistent);
    stage.ask(
        id,
        ControlRequest::Apply {
            requests,
            lease,
            when_empty: Default::default(),
        },
    );
    stage.load_table(id, table_of_domains(&["camera"])).unwrap();
}

#[test]
fn a_reservation_of_modes_is_changed_by_nobody_else() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let change = |domain: &str| {
        let interface = request("arm").interface;
        let domain = domain.to_owned();
        stage.ask(id, ControlRequest::Change { domain, interface })
    };
    let Response::Refused { refusal } = change("arm") else {
        panic!("it was changed");
    };
    assert_eq!(refusal.kind, RefusalKind::Subsystem);
    assert!(refusal.message.contains("mode set"), "{refusal}");
    let (requests, lease) = (vec![request("other")], Lease::Persistent);
    stage.ask(
        id,
        ControlRequest::Apply {
            requests,
            lease,
            when_empty: Default::default(),
        },
    );
    let changed = change("other");
    assert!(matches!(changed, Response::Changed { .. }), "{changed:?}");
    stage.service.end_subsystems();
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
    let revert = ControlRequest::Revert { selection };
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
            ControlRequest::Apply {
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

#[test]
fn a_subsystem_says_what_of_it_is_open_to_everyone() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let asked_by_a_stranger = |name: &str, body: serde_json::Value| {
        let name = name.to_owned();
        let request = ControlRequest::Subsystem { name, body };
        stage.service.answer(id, false, request)
    };
    let state = serde_json::to_value(ModesRequest::State {}).unwrap();
    let answer = asked_by_a_stranger(SUBSYSTEM, state.clone());
    assert!(matches!(answer, Response::Subsystem { .. }), "{answer:?}");
    let mode = "rest".to_owned();
    let set = serde_json::to_value(ModesRequest::Set { mode }).unwrap();
    let unknown = serde_json::json!({ "request": "fly" });
    for (name, body) in [(SUBSYSTEM, set), (SUBSYSTEM, unknown), ("fleet", state)] {
        let Response::Refused { refusal } = asked_by_a_stranger(name, body) else {
            panic!("a stranger may ask this of {name}");
        };
        assert_eq!(refusal.kind, RefusalKind::NotPermitted);
    }
}

#[test]
fn what_no_subsystem_knows_is_refused_with_what_there_is() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let refused = |name: &str| {
        let body = serde_json::json!({ "request": "fly" });
        let name = name.to_owned();
        match stage.ask(id, ControlRequest::Subsystem { name, body }) {
            Response::Refused { refusal } => refusal,
            other => panic!("{other:?}"),
        }
    };
    let (stranger, nonsense) = (refused("fleet"), refused(SUBSYSTEM));
    assert_eq!(stranger.kind, RefusalKind::BadRequest);
    assert!(
        stranger.message.contains("but balance, modes"),
        "{stranger}"
    );
    assert_eq!(nonsense.kind, RefusalKind::BadRequest);
    assert!(nonsense.message.contains("to modes"), "{nonsense}");
}

#[test]
fn modes_stand_in_the_status_as_long_as_they_are_known() {
    let (stage, _) = Stage::with_modes(Lease::Persistent);
    let status = stage.service.status();
    let summary: ModesSummary =
        serde_json::from_value(status.subsystems[SUBSYSTEM].clone()).unwrap();
    assert_eq!(summary.mode, "run");
    assert_eq!(summary.modes, ["rest", "run"]);
    stage.service.end_subsystems();
    assert!(stage.service.status().subsystems.is_empty());
}

#[test]
fn a_refusal_of_modes_reaches_the_client_as_what_it_is() {
    let (stage, id) = Stage::with_modes(Lease::Persistent);
    let mode = "fly".to_owned();
    let refusal = stage.ask_modes(id, ModesRequest::Set { mode }).unwrap_err();
    let ModesRefusal::Unknown { mode, why } = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!(mode, "fly");
    assert!(why.ends_with("the description has: rest, run"), "{why}");
    stage.service.end_subsystems();
    let mode = "run".to_owned();
    let refusal = stage.ask_modes(id, ModesRequest::Set { mode });
    assert_eq!(refusal, Err(ModesRefusal::NoneKnown {}));
}
