//! Programs of many processes and threads, as users have them, under one budget of two CPUs.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tailbound_enforcement::LedgerSummary;
use tailbound_linux::HostCapabilities;
use tailbound_linux::capabilities::Feature;
use tailbound_linux::cgroup;

use crate::bench::Bench;

/// The longest time that a program may take; a busy host is slow.
const DONE_WITHIN: Duration = Duration::from_secs(120);

/// 12 ms every 10 ms, on two CPUs together.
const RESERVED: [&str; 10] = [
    "run",
    "--budget=12ms",
    "--period=10ms",
    "--cpus=0,1",
    "--budget-scope=all-cpus",
    "--",
    "sh",
    "-eu",
    "script",
    "none",
];

/// Commands after the work of each program: the test looks at the ledger before the domain ends.
const WAIT_FOR_THE_TEST: &str =
    "\ncp /proc/self/cgroup group; touch done; until [ -e looked ]; do sleep 0.02; done\n";

/// Whether these commands are there; if not, that is said loudly.
fn are_here(test: &str, commands: &[&str]) -> bool {
    let is_here = |command: &&&str| {
        let answer = Command::new("sh")
            .args(["-c", "command -v \"$0\" >&2", command])
            .output();
        answer.is_ok_and(|answer| answer.status.success())
    };
    let absent: Vec<&str> = commands
        .iter()
        .filter(|one| !is_here(one))
        .copied()
        .collect();
    if !absent.is_empty() {
        eprintln!("SKIP {test}: needs {}", absent.join(", "));
    }
    absent.is_empty()
}

/// Runs a script under the budget: the ledger when its work is done.
fn ledger_of(bench: &Bench, work: &str, end: &str) -> LedgerSummary {
    bench.write("script", &format!("{work}{WAIT_FOR_THE_TEST}{end}"));
    let mut run = bench.start(&RESERVED);
    let give_up = Instant::now() + DONE_WITHIN;
    while !bench.path().join("done").exists() {
        assert!(
            is_running(&mut run) && Instant::now() < give_up,
            "{}",
            bench.said()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let of_group = used_by_group(bench);
    let ledger = booked(bench, of_group);
    bench.write("looked", "");
    assert!(run.wait().unwrap().success(), "{}", bench.said());
    ledger
}

/// The ledger once it has so much use, less what its readings may be behind by: a manager that the host holds up books
/// late.
fn booked(bench: &Bench, of_group: Duration) -> LedgerSummary {
    let give_up = Instant::now() + DONE_WITHIN;
    loop {
        let ledgers = bench.client().unwrap().ledger().unwrap();
        let ledger = ledgers.into_values().next().unwrap();
        if of_group.as_secs_f64() <= ledger.consumed.as_secs_f64() * 1.03 + 0.05 {
            return ledger;
        }
        assert!(Instant::now() < give_up, "{of_group:?} used: {ledger:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The CPU time of the program's group in cgroup v2, which it wrote down.
fn used_by_group(bench: &Bench) -> Duration {
    let groups = std::fs::read_to_string(bench.path().join("group")).unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let mut hierarchies = cgroup::hierarchies().unwrap().into_iter();
    let root = hierarchies
        .find(|hierarchy| hierarchy.unified)
        .unwrap()
        .root;
    let stat = std::fs::read_to_string(root.join(group.unwrap()).join("cpu.stat")).unwrap();
    let used = stat
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    Duration::from_micros(used.unwrap().parse().unwrap())
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

/// All processes and threads together used no more than the budgets, but for what the host's stalls let them use and
/// what later budgets owe.
#[track_caller]
fn keeps_to_the_budget(ledger: &LedgerSummary) {
    let beyond = ledger.forgiven + ledger.largest_overrun;
    let used = ledger.consumed.saturating_sub(beyond).as_secs_f64();
    assert!(used <= ledger.reserved.as_secs_f64() * 1.02, "{ledger:?}");
    assert!(ledger.periods > 0 && ledger.failures == 0, "{ledger:?}");
}

fn place(test: &str, commands: &[&str]) -> Option<Bench> {
    let bench = Bench::enforcing(test)?;
    if !HostCapabilities::probe().has(Feature::PerfCgroupEvents) {
        eprintln!("SKIP {test}: needs {}", Feature::PerfCgroupEvents);
        return None;
    }
    are_here(test, commands).then_some(bench)
}

#[test]
fn postgresql_forks_under_one_budget() {
    let commands = ["initdb", "postgres", "pg_isready", "pgbench", "setpriv"];
    let Some(bench) = place("programs::postgresql", &commands) else {
        return;
    };
    let work = r#"
        chmod 755 .
        mkdir db socket
        chown nobody db socket
        as_nobody() { exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
        (as_nobody initdb -D db -A trust -U bench --no-sync) >&2
        as_nobody postgres -D db -k "$PWD/socket" -c listen_addresses= -c fsync=off >&2 &
        server=$!
        at="-h $PWD/socket -U bench"
        until pg_isready -q $at -d postgres; do sleep 0.05; done
        pgbench -q $at -i postgres >&2
        pgbench $at -n -c 4 -j 2 -t 100 postgres >&2
    "#;
    let ledger = ledger_of(&bench, work, "kill -INT $server; wait $server");
    keeps_to_the_budget(&ledger);
    bench.assert_clean("none");
}

#[test]
fn workers_of_nginx_share_one_budget() {
    let Some(bench) = place("programs::nginx", &["nginx", "curl"]) else {
        return;
    };
    let work = r#"
        cat > conf <<END
        user root;
        worker_processes 2;
        daemon off;
        pid $PWD/pid;
        events { worker_connections 64; }
        http {
            access_log off;
            server { listen unix:$PWD/socket; return 200 "ok\n"; }
        }
END
        nginx -p "$PWD" -c "$PWD/conf" -e stderr &
        server=$!
        ask() { curl -sf --unix-socket socket "$@"; }
        until ask http://here/ >&2; do sleep 0.02; done
        ask -Z --parallel-max 8 "http://here/[1-1000]" > answers
        test "$(grep -c ok answers)" = 1000
    "#;
    let ledger = ledger_of(&bench, work, "kill -QUIT $server; wait $server");
    keeps_to_the_budget(&ledger);
    bench.assert_clean("none");
}

#[test]
fn threads_of_redis_share_one_budget() {
    let commands = ["redis-server", "redis-cli", "redis-benchmark"];
    let Some(bench) = place("programs::redis", &commands) else {
        return;
    };
    let work = r#"
        redis-server --port 0 --unixsocket "$PWD/socket" --save "" \
            --io-threads 2 --io-threads-do-reads yes > log &
        server=$!
        until redis-cli -s socket ping > log.ping 2>&1; do sleep 0.02; done
        # Threads of Redis wait for each other without sleeping, so that no more than CPUs may have real-time priority.
        nice -n 1 redis-benchmark -s socket -q -t get,set -n 10000 -c 16 > answers
    "#;
    let ledger = ledger_of(&bench, work, "kill $server; wait $server");
    keeps_to_the_budget(&ledger);
    bench.assert_clean("none");
}

/// Eight threads, each with some tens of milliseconds of work.
const BUSY: &str = r"
    class Busy extends Thread {
        long sum;
        public void run() { for (int i = 0; i < 100_000_000; i++) sum ^= sum * 31 + i; }
        public static void main(String[] none) throws Exception {
            Busy[] all = new Busy[8];
            for (int i = 0; i < 8; i++) (all[i] = new Busy()).start();
            for (Busy one : all) { one.join(); if (one.sum == 1) System.out.println(); }
        }
    }
";

/// A budget that is longer than its period is used up only where both CPUs spend it.
#[test]
fn eight_threads_of_a_virtual_machine_of_java_use_up_one_budget_on_two_cpus() {
    let Some(bench) = place("programs::java", &["java", "javac"]) else {
        return;
    };
    bench.write("Busy.java", BUSY);
    let mut compiler = Command::new("javac");
    let compiled = compiler.arg("Busy.java").current_dir(bench.path()).status();
    assert!(compiled.unwrap().success());
    let work = "java -Xmx64m -XX:+UseParallelGC Busy";
    let ledger = ledger_of(&bench, work, "");
    keeps_to_the_budget(&ledger);
    assert!(ledger.depletions > 0, "{:?}", ledger);
    bench.assert_clean("none");
}
