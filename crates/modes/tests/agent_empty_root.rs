//! The program `tailbound-agent` where there is nothing but itself and /proc, as in a container or a small
//! guest: it serves a real host.
//!
//! To build the agent of `tools/static-programs` takes a minute, as its dependencies are built for it alone.
//! So here the agent that is built anyhow has its shared libraries beside it; `make test-agent-static` has
//! the other one, in a root without any.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::{die_with_parent, effective_uid};
use tailbound_modes::links::AgentLinks;
use tailbound_modes::manager::{AgentEvent, Agents, Order};
use tailbound_time::{Clock, Duration};

use crate::stage::{Process, eventually};

/// A file that `tools/static-programs` has written.
const STATIC_AGENT: &str = "TAILBOUND_STATIC_AGENT";

#[test]
fn the_agent_serves_from_a_root_without_anything_else() {
    let agent = Path::new(env!("CARGO_BIN_EXE_tailbound-agent"));
    serves(agent, &libraries_of(agent));
}

#[test]
fn the_static_agent_serves_from_an_empty_root() {
    let Some(agent) = std::env::var_os(STATIC_AGENT).map(PathBuf::from) else {
        eprintln!("SKIP the static agent: needs one that is built; `make test-agent-static`");
        return;
    };
    assert!(libraries_of(&agent).is_empty(), "it is not static");
    serves(&agent, &[]);
}

/// The shared libraries that a program is loaded with.
fn libraries_of(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let listing = String::from_utf8(output.stdout).unwrap();
    let words = listing.split_whitespace();
    let paths = words.filter(|word| word.starts_with('/') && !word.ends_with(':'));
    paths.map(PathBuf::from).collect()
}

/// Starts the agent in a root of its own, which is gone from sight with its mount namespace.
fn start(root: &Path, task: &str) -> Child {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount -t proc proc \"$1/proc\" && exec chroot \"$@\"")
        .arg("sh")
        .arg(root)
        .args(["/agent", "--domain", "camera", "--connect", "unix:/modes"])
        .args(["--task", task]);
    die_with_parent(&mut command).spawn().unwrap()
}

fn serves(agent: &Path, libraries: &[PathBuf]) {
    if effective_uid() != 0 {
        eprintln!("SKIP {}: needs root, for chroot", agent.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir(root.join("proc")).unwrap();
    fs::copy(agent, root.join("agent")).unwrap();
    for library in libraries {
        let to = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(library, to).unwrap();
    }
    let listener = UnixListener::bind(root.join("modes")).unwrap();
    let (mut links, _commands) =
        AgentLinks::new(listener, Box::new(|_, _| Ok(())), Monotonic).unwrap();
    let work = Process::busy();
    let mut agent = start(root, &format!("work=pid:{}", work.pid()));
    let joined = news(&mut links);
    assert!(matches!(joined, AgentEvent::Joined { .. }), "{joined:?}");
    let tasks = || vec!["work".to_owned()];
    for (number, stop, start) in [(1, tasks(), vec![]), (2, vec![], tasks())] {
        let stops = !stop.is_empty();
        let mode = "rest".to_owned();
        let order = Order::Change {
            number,
            mode,
            stop,
            start,
        };
        assert!(links.send("camera", order));
        let event = news(&mut links);
        let is_done = matches!(&event, AgentEvent::Done { number: done, .. } if *done == number);
        assert!(is_done, "{event:?}");
        eventually("the task is as told", || work.is_stopped() == stops);
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
}

fn news(links: &mut AgentLinks<Monotonic>) -> AgentEvent {
    let until = Monotonic.now() + Duration::from_secs(60);
    links.wait(Some(until)).expect("the agent says nothing")
}
