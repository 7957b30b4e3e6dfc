//! Agents by vsock: both ends on one machine, by the kernel's loopback.
//!
//! Where the kernel has none, this program runs once more in a guest whose kernel has, under emulation. It
//! skips aloud where there is neither.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tailbound_linux::control_socket::wait_readable;
use tailbound_linux::process::die_with_parent;
use tailbound_linux::vsock::{LOCAL_CID, VsockListener, VsockStream, has_loopback};
use tailbound_model::{AgentLink, AgentListeners};
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::routes::{Address, Route};
use tailbound_modes::links::Ways;

use crate::rig::{Host, Running};

/// Of the ports that no program is given unasked.
const PORT: u32 = 7171;
/// So many connections say nothing.
const SILENT: usize = 40;

fn host(arm: u32, eye: AgentLink) -> Host {
    let links = [
        ("arm".to_owned(), AgentLink::Vsock { cid: arm }),
        ("eye".to_owned(), eye),
    ];
    let ways = Ways {
        links: links.into(),
        listeners: AgentListeners {
            tls: None,
            vsock_port: Some(PORT),
        },
        ..Ways::default()
    };
    Host::new(tempfile::tempdir().unwrap(), ways)
}

fn agent(domain: &str) -> Running {
    let address = Address::parse(&format!("vsock:{LOCAL_CID}:{PORT}")).unwrap();
    Running::start(domain, Route::to(address, None, None).unwrap())
}

fn expect_told(host: &mut Host, words: &str) {
    let mut reasons = String::new();
    host.serve_until(words, |host| {
        reasons.push_str(&host.manager.agents().take_reasons().join("\n"));
        reasons.contains(words)
    });
}

/// One test at a time: they use the same port, and connections of any domain come to whoever listens.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it is to be done here; else it was done in a guest, or was skipped.
fn is_here(test: &str) -> bool {
    if has_loopback() {
        return true;
    }
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/guest");
    let missing = Command::new(&tool).arg("missing").output().unwrap();
    if !missing.status.success() {
        let missing = String::from_utf8_lossy(&missing.stdout);
        let missing = missing.split_whitespace().collect::<Vec<_>>().join(", ");
        eprintln!(
            "SKIP {test}: needs vsock_loopback in this kernel, or to run in a guest: {missing}"
        );
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let own = std::env::current_exe().unwrap();
    let mut pack = Command::new(&tool);
    pack.arg("pack").arg(&image);
    pack.args(["--module", "vsock_loopback"]);
    pack.arg("--file")
        .arg(format!("{}=/bin/links", own.display()));
    pack.arg("--task").arg(format!(
        "links=/bin/links --exact vsock_links::{test} --nocapture"
    ));
    let packed = pack.output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let mut boot = Command::new(&tool);
    boot.arg("boot")
        .arg(&image)
        .args(["--memory", "384", "--cpus", "2"]);
    let ended = die_with_parent(boot.stdin(Stdio::null())).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        said.contains("test result: ok. 1 passed") && !said.contains("SKIP"),
        "in the guest: {said}{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    false
}

#[test]
fn a_connection_can_be_written_to_as_soon_as_it_is_made() {
    let _alone = alone();
    if !is_here("a_connection_can_be_written_to_as_soon_as_it_is_made") {
        return;
    }
    let host = VsockListener::bind(PORT).unwrap();
    for number in 0..200_u8 {
        let mut agent = VsockStream::connect(LOCAL_CID, PORT).unwrap();
        agent.write_all(&[number]).unwrap();
        let (mut from, cid) = host.accept().unwrap();
        wait_readable(&[from.as_fd()], None).unwrap();
        let mut read = [0];
        from.read_exact(&mut read).unwrap();
        assert_eq!((read, cid), ([number], LOCAL_CID));
    }
}

#[test]
fn an_agent_comes_by_vsock_from_its_own_guest_alone() {
    let _alone = alone();
    if !is_here("an_agent_comes_by_vsock_from_its_own_guest_alone") {
        return;
    }
    let arm = agent("arm");
    // There is no host yet; then there is one that expects another guest.
    let mut other = host(42, AgentLink::Unix {});
    expect_told(&mut other, "no domain is the guest 1");
    assert!(!other.is_present("arm"));
    drop(other);
    // Then one that it changes modes with, and another one after that.
    for _ in 0..2 {
        let mut host = host(LOCAL_CID, AgentLink::Unix {});
        let eye = Running::start("eye", UnixConnector::new(host.socket.clone()));
        host.expect_recovery("rest", &[&arm, &eye]);
        host.expect_recovery("run", &[&arm, &eye]);
        // Neither is a process of the host the guest's agent, nor the guest that of a process.
        let local = Running::start("arm", UnixConnector::new(host.socket.clone()));
        expect_told(&mut host, "the description says otherwise");
        drop(local);
        drop(eye);
        let foreign = agent("eye");
        expect_told(&mut host, "the guest 1 is not the agent of \"eye\"");
        assert!(!host.is_present("eye") && host.is_present("arm"));
        drop(foreign);
    }
}

#[test]
fn a_guest_that_floods_leaves_room_for_others() {
    let _alone = alone();
    if !is_here("a_guest_that_floods_leaves_room_for_others") {
        return;
    }
    let mut host = host(LOCAL_CID, AgentLink::Unix {});
    // Less than the host has room for, of all together.
    let silent: Vec<_> = (0..SILENT)
        .filter_map(|_| VsockStream::connect(LOCAL_CID, PORT).ok())
        .collect();
    expect_told(&mut host, "too many connections, of the guest 1");
    let eye = Running::start("eye", UnixConnector::new(host.socket.clone()));
    host.serve_until("others come in", |host| host.is_present("eye"));
    drop(silent);
    let arm = agent("arm");
    host.expect_recovery("rest", &[&arm, &eye]);
}
