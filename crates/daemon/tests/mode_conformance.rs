//! Mode changes by the real daemon over every back end that the host has: the same modes, the same agent,
//! the same expectations.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use tailbound_control::Client;
use tailbound_control::frame::decode;
use tailbound_linux::process::process_started;
use tailbound_model::{BackendKind, BudgetScope, RequestsMeanwhile};
use tailbound_modes::control::ModesClient;
use tailbound_modes::transition::{Cause, Ending};
use tailbound_modes::wire::{AgentMessage, HostMessage, Name, decoder, encode};
use tailbound_time::Duration;

use crate::modes_stage::{self, Manner, ModesStage, Shares};
use crate::stage::eventually;

const fn mode(mode: &'static str, thousandths: [u64; 2], periods: u64, works: bool) -> Shares {
    Shares {
        mode,
        thousandths,
        periods,
        works,
    }
}

/// What is changed to, one after the other; the last one is refused by every back end.
const MODES: [Shares; 6] = [
    mode("run", [400, 200], 1, true),
    mode("rest", [150, 400], 1, false),
    mode("swapped", [200, 400], 1, true),
    mode("slow", [300, 200], 2, true),
    mode("shrunk", [200, 150], 2, true),
    mode("refused", [0, 200], 1, true),
];
/// Where budgets end at ticks they have to be long.
const PERIOD: Duration = Duration::from_millis(100);
/// How often a share is measured before it counts as wrong: the host may stall.
const ATTEMPTS: u32 = 3;

/// What a back end makes of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// The domain gets it, and no more.
    Guaranteed,
    /// The domain gets no more.
    Capped,
    /// Nothing: tasks change with the modes, and what each domain has is known.
    Nothing,
}

/// The second domain is always busy, so it has its share; on a loaded host perhaps somewhat less.
fn expect_share(stage: &ModesStage, mode: &Shares, promise: Promise) {
    if promise == Promise::Nothing {
        return;
    }
    let length = PERIOD * mode.periods * 3;
    let bandwidth = mode.thousandths[1] as f64 / 1_000.0;
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let share = stage.share(1, length);
        // A budget more may lie within three periods.
        let most = bandwidth * 4.0 / 3.0 * 1.15;
        let least = if promise == Promise::Guaranteed {
            bandwidth * 2.0 / 3.0 * 0.8
        } else {
            0.0
        };
        if (least..most).contains(&share) {
            return;
        }
        seen.push(share);
    }
    panic!("{}: shares {seen:?} of {bandwidth}", mode.mode);
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim().starts_with('T')
}

/// Refused by the back end: all is as before.
fn expect_refusal(stage: &ModesStage, client: &mut Client) {
    let report = stage.change(client, "refused");
    let refused = matches!(
        &report.outcome.ending,
        Ending::GivenUp(Cause::Refused { .. })
    );
    assert!(refused, "{report:?}");
    stage.expect_settings(client, "run");
    assert!(!is_stopped(stage.busy[0].id()));
}

fn changes_modes((backend, scope): (BackendKind, BudgetScope), promise: Promise) {
    let test = format!("mode changes over {backend:?}, {scope}");
    let queue = RequestsMeanwhile::Queue;
    let Some((stage, mut client)) = ModesStage::set(&test, (backend, scope), PERIOD, &MODES, queue)
    else {
        return;
    };
    let worker = stage.busy[0].id();
    for to in MODES[1..5].iter().chain(&MODES[..1]) {
        let report = stage.change(&mut client, to.mode);
        assert_eq!(
            report.outcome.ending,
            Ending::Completed,
            "{test}: {report:?}"
        );
        stage.expect_settings(&mut client, to.mode);
        eventually("tasks are as the mode says", || {
            is_stopped(worker) != to.works
        });
        expect_share(&stage, to, promise);
    }
    if promise != Promise::Nothing {
        expect_refusal(&stage, &mut client);
    }
    // An agent that hangs: the other domain goes on, and this one gets its fallback.
    stage.behave(Manner::Hangs);
    let report = stage.change(&mut client, "rest");
    let partly = matches!(&report.outcome.ending, Ending::Partly(causes) if causes.len() == 1);
    assert!(partly, "{test}: {report:?}");
    stage.expect_settings(&mut client, "rest");
    assert!(!is_stopped(worker), "nobody has stopped it");
    expect_share(&stage, &MODES[1], promise);
    stage.behave(Manner::Obeys);
    eventually("it is told again", || is_stopped(worker));
    let report = stage.change(&mut client, "run");
    assert_eq!(
        report.outcome.ending,
        Ending::Completed,
        "{test}: {report:?}"
    );
    eventually("it works again", || !is_stopped(worker));
    stage.expect_restored(client);
}

#[test]
fn modes_change_over_ds_freeze() {
    changes_modes(
        (BackendKind::DsFreeze, BudgetScope::EachCpu),
        Promise::Guaranteed,
    );
}

#[test]
fn modes_change_over_deadline() {
    changes_modes(
        (BackendKind::Deadline, BudgetScope::EachCpu),
        Promise::Guaranteed,
    );
}

#[test]
fn modes_change_over_rt_group() {
    changes_modes(
        (BackendKind::RtGroup, BudgetScope::EachCpu),
        Promise::Guaranteed,
    );
}

#[test]
fn modes_change_over_cfs_quota() {
    changes_modes(
        (BackendKind::CfsQuota, BudgetScope::EachCpu),
        Promise::Capped,
    );
}

#[test]
fn modes_change_over_budgets_of_several_cpus() {
    let all = BudgetScope::AllCpus;
    changes_modes((BackendKind::DsFreeze, all), Promise::Guaranteed);
    changes_modes((BackendKind::CfsQuota, all), Promise::Capped);
}

#[test]
fn modes_change_over_dedicated() {
    changes_modes(
        (BackendKind::Dedicated, BudgetScope::EachCpu),
        Promise::Nothing,
    );
}

#[test]
fn modes_change_over_none() {
    changes_modes((BackendKind::None, BudgetScope::EachCpu), Promise::Nothing);
}

/// A liar's task goes on, on what its domain has in the new mode: nobody else has less for it.
fn survives_a_lie(backend: BackendKind) {
    let test = format!("an agent that lies, over {backend:?}");
    let queue = RequestsMeanwhile::Queue;
    let Some((stage, mut client)) = ModesStage::set(
        &test,
        (backend, BudgetScope::EachCpu),
        PERIOD,
        &MODES,
        queue,
    ) else {
        return;
    };
    stage.behave(Manner::Lies);
    let report = stage.change(&mut client, "rest");
    assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
    assert!(!is_stopped(stage.busy[0].id()), "it has lied");
    expect_share(&stage, &MODES[1], Promise::Guaranteed);
    let seen: Vec<f64> = (0..ATTEMPTS).map(|_| stage.share(0, PERIOD * 5)).collect();
    let least = seen.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least < 0.15 * 6.0 / 5.0 * 1.15, "{seen:?}");
    stage.expect_restored(client);
}

#[test]
fn an_agent_that_lies_takes_nothing_from_others() {
    survives_a_lie(BackendKind::DsFreeze);
    survives_a_lie(BackendKind::Deadline);
}

/// An agent that dies between the message and its answer: the other domain goes on, and its own has the
/// fallback's reservation.
#[test]
fn an_agent_that_dies_over_a_message_holds_nobody_up() {
    survives_a_death(BackendKind::DsFreeze);
    survives_a_death(BackendKind::Deadline);
}

fn survives_a_death(backend: BackendKind) {
    let test = format!("an agent that dies, over {backend:?}");
    let queue = RequestsMeanwhile::Queue;
    let set = ModesStage::set(
        &test,
        (backend, BudgetScope::EachCpu),
        PERIOD,
        &MODES,
        queue,
    );
    let Some((mut stage, mut client)) = set else {
        return;
    };
    stage.end_agent();
    let own = stage.domain(0);
    let is_there = |client: &mut Client| {
        let agents = client.modes().unwrap().unwrap().agents;
        agents.contains(&own)
    };
    eventually("the other agent is gone", || !is_there(&mut client));
    let socket = client.modes().unwrap().unwrap().socket;
    let mut agent = UnixStream::connect(&socket).unwrap();
    let limit = std::time::Duration::from_secs(10);
    agent.set_read_timeout(Some(limit)).unwrap();
    let mut hello = modes_stage::hello(&stage.domain(0));
    if let AgentMessage::Hello { tasks, started, .. } = &mut hello {
        let work: Name = "work".parse().unwrap();
        (*tasks, *started) = (vec![work.clone()], vec![work]);
    }
    agent.write_all(&encode(&hello).unwrap()).unwrap();
    eventually("the agent is there", || is_there(&mut client));
    let dying = std::thread::spawn(move || {
        let mut decoder = decoder();
        let mut bytes = [0; 4_096];
        loop {
            while let Some(payload) = decoder.next_payload().unwrap() {
                let said: HostMessage = decode(&payload).unwrap();
                if matches!(&said, HostMessage::Change { mode, .. } if mode.as_str() == "rest") {
                    return true;
                }
            }
            match agent.read(&mut bytes) {
                Ok(0) | Err(_) => return false,
                Ok(count) => decoder.push(&bytes[..count]),
            }
        }
    });
    let report = stage.change(&mut client, "rest");
    assert!(dying.join().unwrap(), "it was told");
    let partly = matches!(&report.outcome.ending, Ending::Partly(causes) if causes.len() == 1);
    assert!(partly, "{report:?}");
    stage.expect_settings(&mut client, "rest");
    stage.expect_restored(client);
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Sends these bytes again and again, over a new connection whenever one ends; how many ended.
fn flood(
    bytes: Vec<u8>,
    socket: PathBuf,
    ending: Arc<AtomicBool>,
    ended: Arc<AtomicU64>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !ending.load(Ordering::SeqCst) {
            let Ok(mut stream) = UnixStream::connect(&socket) else {
                continue;
            };
            let limit = std::time::Duration::from_millis(500);
            stream.set_write_timeout(Some(limit)).unwrap();
            while stream.write_all(&bytes).is_ok() && !ending.load(Ordering::SeqCst) {}
            ended.fetch_add(1, Ordering::SeqCst);
        }
    })
}

/// Agents that send as much as they can: changes of others come to their ends, the daemon keeps its
/// size, and the floods are ended.
#[test]
fn a_flood_of_requests_and_garbage_holds_nobody_up() {
    let (ds_freeze, queue) = (BackendKind::DsFreeze, RequestsMeanwhile::Queue);
    let set = ModesStage::set(
        "a_flood",
        (ds_freeze, BudgetScope::EachCpu),
        PERIOD,
        &MODES,
        queue,
    );
    let Some((stage, mut client)) = set else {
        return;
    };
    let socket = client.modes().unwrap().unwrap().socket;
    let hello = modes_stage::hello(&stage.domain(1));
    let mut request = encode(&hello).unwrap();
    let asking = AgentMessage::Request {
        mode: "shrunk".parse().unwrap(),
    };
    request.extend(encode(&asking).unwrap().repeat(2_000));
    let garbage = vec![0xa5_u8; 1 << 16];
    let before_kib = resident_kib(client.daemon_pid());
    let ending = Arc::new(AtomicBool::new(false));
    let ended = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let floods = [(request, 0), (garbage, 1)].map(|(bytes, place)| {
        flood(
            bytes,
            socket.clone(),
            Arc::clone(&ending),
            Arc::clone(&ended[place]),
        )
    });
    let mut endings = Vec::new();
    for to in ["rest", "run", "swapped", "run"] {
        let mut other = Client::connect(stage.path()).unwrap();
        endings.push(stage.change(&mut other, to).outcome.ending);
    }
    eventually("the floods are ended, again and again", || {
        ended.iter().all(|ended| ended.load(Ordering::SeqCst) > 1)
    });
    let after_kib = resident_kib(client.daemon_pid());
    ending.store(true, Ordering::SeqCst);
    for flood in floods {
        flood.join().unwrap();
    }
    assert!(
        endings.iter().all(|it| *it == Ending::Completed),
        "{endings:?}"
    );
    assert!(
        after_kib < before_kib + 32 * 1_024,
        "{before_kib} KiB became {after_kib}"
    );
    assert_eq!(client.modes().unwrap().unwrap().state.mode, "run");
    assert!(process_started(client.daemon_pid()).is_ok());
    stage.expect_restored(client);
}
