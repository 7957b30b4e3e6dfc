//! Reservations of real containers of runc and crun: what their managers do to them works as without one.
//!
//! Needs what the ds-freeze back end needs, one of the runtimes, busybox and root; skips aloud where something is
//! missing. The runtimes see pure cgroup v2 in a mount namespace of their own.

use tailbound_control::{Client, Lease, Presence, Selection};
use tailbound_enforcement::{
    CgroupName, KernelView, LinuxKernel, NamedCgroup, ReservationRequest, Target,
};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::send_signal;
use tailbound_time::Duration;

use crate::container::Container;
use crate::stage::{Stage, eventually, request_for};

const SIGKILL: i32 = 9;
/// How often somebody else's command enters a container. The chance that none of so many meets it while it stands
/// still is nil: 70 of 100 failed where the runtime's own freezer was used.
const EXECS: usize = 20;

/// Waits until the reservation holds for so many processes that the runtime has started, and `status` says so.
#[track_caller]
fn holds(
    stage: &Stage,
    client: &mut Client,
    container: &Container,
    domain: &str,
    processes: usize,
) {
    eventually("the reservation holds", || {
        let reserved = container.processes(true);
        let hold = |&pid: &u32| {
            stage
                .state_while_it_lives(pid)
                .is_some_and(|state| state.is_real_time())
        };
        let status = client.status().unwrap().reservations;
        let presence = status
            .into_iter()
            .find(|one| one.enforced.domain == domain)
            .map(|one| one.presence);
        reserved.len() == processes
            && reserved.iter().all(hold)
            && presence == Some(Presence::InForce)
    });
}

fn lives_with_its_runtime(engine: &'static str, test: &str) {
    let Some(mut stage) = Stage::set(test) else {
        return;
    };
    let Some(container) = Container::of(engine, test) else {
        return;
    };
    container.start();
    let mut request = request_for(stage.busy.id());
    let name = container.group.file_name().unwrap().to_str().unwrap();
    request.target = Target::Cgroup(name.into());
    let domain = request.domain.clone();
    let mut client = stage.client();
    client
        .apply(std::slice::from_ref(&request), Lease::Persistent)
        .unwrap();
    stage.watchdog(&mut client);
    holds(&stage, &mut client, &container, &domain, 1);

    for _ in 0..EXECS {
        container.succeeds(&["exec", "box", "true"]);
        let text = container.succeeds(&["state", "box"]);
        assert!(text.contains("running"), "{text}");
    }
    // A process that enters later is taken in, and gets its turns beside the busy one.
    container.succeeds(&["exec", "--detach", "box", "sh", "-c", "while :; do :; done"]);
    holds(&stage, &mut client, &container, &domain, 2);
    let used = |pid: &u32| cpu_time_of_process(*pid).unwrap();
    let members = container.processes(true);
    let before: Vec<Duration> = members.iter().map(used).collect();
    eventually("both run", || {
        let mut all = members.iter().zip(&before);
        all.all(|(pid, before)| used(pid) > *before)
    });
    container.succeeds(&["exec", "box", "true"]);

    container.succeeds(&["pause", "box"]);
    let before = container.used();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(
        container.used(),
        before,
        "who is paused by its runtime stays so"
    );
    let text = container.succeeds(&["state", "box"]);
    assert!(text.contains("paused"), "{text}");
    container.succeeds(&["resume", "box"]);
    eventually("it goes on", || container.used() > before);

    container.delete();
    container.start();
    holds(&stage, &mut client, &container, &domain, 1);

    is_given_back(&mut stage, client, &container, request);
}

/// All of a reserved container is as before after a revert, and after a SIGKILL of the daemon; it ends then.
fn is_given_back(
    stage: &mut Stage,
    mut client: Client,
    container: &Container,
    request: ReservationRequest,
) {
    let domain = request.domain.clone();
    let members = container.processes(true);
    let is_as_before = |stage: &Stage, members: &[u32]| {
        let ordinary = |&pid: &u32| !stage.state_of(pid).is_real_time();
        let there = container.processes(false) == members && members.iter().all(ordinary);
        there && !container.group.join("tailbound").exists()
    };
    client.revert(Selection::All).unwrap();
    assert!(is_as_before(stage, &members));
    client.apply(&[request], Lease::Persistent).unwrap();
    stage.watchdog(&mut client);
    holds(stage, &mut client, container, &domain, 1);
    container.succeeds(&["exec", "--detach", "box", "sh", "-c", "while :; do :; done"]);
    holds(stage, &mut client, container, &domain, 2);
    let members = container.processes(true);
    send_signal(client.daemon_pid(), SIGKILL).unwrap();
    eventually("the watchdog takes all of it back", || {
        is_as_before(stage, &members)
    });
    let before = container.used();
    eventually("the container runs", || container.used() > before);
    container.delete();
}

#[test]
fn a_container_of_runc_lives_with_its_runtime() {
    lives_with_its_runtime("runc", "a_container_of_runc_lives_with_its_runtime");
}

#[test]
fn a_container_of_crun_lives_with_its_runtime() {
    lives_with_its_runtime("crun", "a_container_of_crun_lives_with_its_runtime");
}

/// A container that is reserved by its name is found again in another group, as an engine makes one for each start.
fn is_found_by_its_name(engine: &'static str, test: &str) {
    let Some(mut stage) = Stage::set(test) else {
        return;
    };
    let Some(mut container) = Container::findable(engine, test) else {
        return;
    };
    let name = CgroupName::Container(container.name.clone());
    let kernel = LinuxKernel::new().unwrap();
    let refusal = kernel.named_cgroup(&name).unwrap_err();
    assert!(refusal.to_string().contains(&container.name), "{refusal}");
    container.start();
    let named = NamedCgroup::of(name.clone(), &kernel).unwrap();
    assert_eq!(kernel.named_cgroup(&name).unwrap(), container.group);
    let mut request = request_for(stage.busy.id());
    request.target = Target::NamedCgroup(named);
    let domain = request.domain.clone();
    let mut client = stage.client();
    client.apply(&[request], Lease::Persistent).unwrap();
    stage.watchdog(&mut client);
    holds(&stage, &mut client, &container, &domain, 1);
    // Its first process is in a group of ours by now, and the name still that of the runtime's group.
    assert_eq!(kernel.named_cgroup(&name).unwrap(), container.group);

    container.delete();
    container.leave_group();
    container.start();
    holds(&stage, &mut client, &container, &domain, 1);
    client.revert(Selection::All).unwrap();
    let members = container.processes(false);
    assert_eq!(members.len(), 1);
    assert!(!stage.state_of(members[0]).is_real_time());
    container.delete();
}

#[test]
fn a_container_of_runc_is_found_by_its_name() {
    is_found_by_its_name("runc", "a_container_of_runc_is_found_by_its_name");
}

#[test]
fn a_container_of_crun_is_found_by_its_name() {
    is_found_by_its_name("crun", "a_container_of_crun_is_found_by_its_name");
}
