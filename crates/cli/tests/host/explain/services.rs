//! Services of several processes, in containers, and under the kernel's own budgets, explained against a real kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration as Pause, Instant as Stopwatch};

use tailbound_linux::capabilities::Feature;
use tailbound_linux::process::send_signal;
use tailbound_linux::{HostCapabilities, cgroup};
use tailbound_trace::explain::{Explanation, LatencyCause};

use super::RIGHT;
use super::scene::{Client, RecordedScene, Requests, SERVER, place, share, start};
use crate::bench::Bench;
use crate::container::Container;

#[track_caller]
fn assert_named(explanation: &Explanation, cause: LatencyCause, of: &str) {
    let share = share(explanation, cause);
    assert!(
        share >= RIGHT,
        "{of}: {share} of the added latency is {cause:?}: {:?}",
        explanation.slowest
    );
}

/// The group of a process whose quota the kernel counts in cgroup v1.
fn quota_group(pid: u32) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let group = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers
            .split(',')
            .any(|one| one == "cpu")
            .then_some(path)
    })?;
    let hierarchies = cgroup::hierarchies().ok()?;
    let of_cpu = hierarchies.iter().find(|one| {
        let mut controllers = one.controllers.iter();
        controllers.any(|controller| controller == "cpu")
    })?;
    Some(of_cpu.root.join(group.trim_start_matches('/')))
}

/// The nanoseconds in which the kernel has kept threads of a group from the CPU, by its own count.
fn throttled_ns(group: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(group.join("cpu.stat")).ok()?;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("throttled_time "))?;
    count.parse().ok()
}

/// A request of 100 ms under 30 ms in 100: the explanation, and how long the kernel says that it kept them.
fn used_up(bench: &Bench, backend: &str) -> (Explanation, Option<u64>) {
    let socket = bench.path().join(format!("{backend}.sock"));
    let mut words = vec!["run", "--backend", backend, "-b", "30ms", "-p", "100ms"];
    words.extend(["--cpus", "0", "--", "python3", SERVER]);
    let mut server = start(bench.tailbound(&words).arg(&socket));
    let mut clients = [Client::connect(0, &socket)];
    clients[0].send("pid 0");
    let pid: u32 = clients[0].reply().parse().unwrap();
    let group = quota_group(pid).filter(|_| backend == "cfs-quota");
    if let Some(group) = &group {
        // A busy host would keep it from using its quota up.
        std::fs::write(group.join("cpu.shares"), "200000").unwrap();
    }
    let by_kernel = || group.as_deref().and_then(throttled_ns);
    let scene = RecordedScene::begin(bench);
    let mut requests = Requests::default();
    let before = by_kernel();
    sleep(Pause::from_millis(150));
    requests.ask(0, &mut clients[0], "work 100", || {});
    let after = by_kernel();
    let explanation = scene.explain(&["work"], &clients, &requests).remove(0);
    drop(clients);
    send_signal(server.id(), 15).unwrap();
    server.wait().unwrap();
    bench.assert_clean("run-");
    let kept = before.zip(after).map(|(before, after)| after - before);
    (explanation, kept)
}

/// Real-time threads wait for nothing else here. An ordinary thread under a quota takes turns with all others of the host,
/// and the kernel says itself how long the quota kept it.
#[test]
fn used_up_budgets_of_the_kernel_are_named() {
    let test = "used_up_budgets_of_the_kernel_are_named";
    let Some(bench) = place(test, &["python3"]) else {
        return;
    };
    let host = HostCapabilities::probe();
    let backends = [
        ("rt-group", Feature::RtRuntimeV1),
        ("deadline", Feature::SchedDeadline),
        ("cfs-quota", Feature::QuotaV1),
    ];
    for (backend, feature) in backends {
        if !host.has(feature) {
            eprintln!("SKIP {test} of {backend}: needs {feature}");
            continue;
        }
        let (explanation, by_kernel) = used_up(&bench, backend);
        if backend != "cfs-quota" {
            assert_named(&explanation, LatencyCause::BudgetUsedUp, backend);
            continue;
        }
        let bands = explanation.bands.iter();
        let named: u64 = bands
            .map(|band| band.of_cause(LatencyCause::BudgetUsedUp).as_nanos())
            .sum();
        let by_kernel = by_kernel.unwrap();
        let ratio = named as f64 / by_kernel as f64;
        assert!(
            (RIGHT..=1.0 / RIGHT).contains(&ratio),
            "{named} ns of {by_kernel} ns by the kernel: {:?}",
            explanation.slowest
        );
    }
}

/// A request that uses a budget of 60 ms in 200 ms up, and one that waits for another. The wait for budget is longer than
/// the execution, which timer interrupts and the sampler of the scene stretch by some percent on a slow host.
fn ask_in_each_cause(requests: &mut Requests, client: &mut Client, other: &mut Client) {
    sleep(Pause::from_millis(250));
    requests.ask(0, client, "work 100", || {});
    sleep(Pause::from_millis(250));
    other.send("work 40");
    sleep(Pause::from_millis(5));
    requests.ask(1, client, "work 1", || {});
    other.reply();
}

/// Each connection has a process of its own, made while the recording goes on.
#[test]
fn processes_of_single_connections_queue_behind_each_other() {
    let Some(bench) = place("processes_of_single_connections", &["python3"]) else {
        return;
    };
    let socket = bench.path().join("fork.sock");
    let words = [
        "run", "-b", "60ms", "-p", "200ms", "--cpus", "0", "--", "python3", SERVER,
    ];
    let mut command = bench.tailbound(&words);
    let mut server = start(command.arg(&socket).arg("--fork"));
    drop(Client::connect(9, &socket));
    let scene = RecordedScene::begin(&bench);
    let mut clients = [Client::connect(0, &socket), Client::connect(1, &socket)];
    for client in &mut clients {
        client.send("work 1");
        client.reply();
    }
    let mut requests = Requests::default();
    for _ in 0..2 {
        let [client, other] = &mut clients;
        ask_in_each_cause(&mut requests, client, other);
    }
    let explanations = scene.explain(&["budget", "queueing"], &clients, &requests);
    drop(clients);
    send_signal(server.id(), 15).unwrap();
    server.wait().unwrap();
    assert_named(&explanations[0], LatencyCause::BudgetUsedUp, "budget");
    assert_named(&explanations[1], LatencyCause::Queued, "queueing");
    bench.assert_clean("run-");
}

/// An nginx that compares each path with an expression that takes twice as long with each letter more, in one go. Every
/// answer comes in chunks.
fn prepare_nginx(bench: &Bench) {
    let folder = bench.path().display();
    std::fs::create_dir(bench.path().join("www")).unwrap();
    let configuration = format!(
        "user root; worker_processes 2; daemon off; pid {folder}/pid;
         events {{ worker_connections 64; }}
         http {{
             access_log off;
             server {{
                 listen unix:{folder}/nginx.sock; root {folder}/www;
                 sub_filter_types *; sub_filter abca zzzz;
                 location / {{ }}
                 location ~ \"^/(a+)+[bc]$\" {{ }}
             }}
         }}"
    );
    bench.write("conf", &configuration);
}

fn page_of(path: &str) -> String {
    format!("GET /{path} HTTP/1.1\r\nHost: here\r\n\r\n")
}

/// A page that nginx works on for some tens of milliseconds.
fn slow_page(client: &mut Client) -> String {
    (12..24)
        .map(|letters| page_of(&"a".repeat(letters)))
        .find(|page| {
            let begun = Stopwatch::now();
            client.send(page);
            client.page();
            begun.elapsed() >= Pause::from_millis(20)
        })
        .unwrap()
}

#[test]
fn requests_queue_in_workers_of_nginx() {
    let Some(bench) = place("requests_queue_in_workers_of_nginx", &["nginx"]) else {
        return;
    };
    prepare_nginx(&bench);
    let folder = bench.path().to_str().unwrap();
    let configuration = format!("{folder}/conf");
    let mut words = vec![
        "run", "-b", "150ms", "-p", "200ms", "--cpus", "0", "--", "nginx",
    ];
    words.extend(["-p", folder, "-c", &configuration, "-e", "stderr"]);
    let mut server = start(&mut bench.tailbound(&words));
    let socket = bench.path().join("nginx.sock");
    let mut clients = [Client::connect(0, &socket), Client::connect(1, &socket)];
    let page = page_of("none");
    for client in &mut clients {
        client.send(&page);
        client.page();
    }
    let slow = slow_page(&mut clients[1]);
    let scene = RecordedScene::begin(&bench);
    let mut requests = Requests::default();
    for _ in 0..2 {
        let [client, other] = &mut clients;
        sleep(Pause::from_millis(200));
        other.send(&slow);
        sleep(Pause::from_millis(5));
        requests.exchange(0, client, &page, Client::page);
        other.page();
    }
    let explanations = scene.explain(&["queueing"], &clients, &requests);
    drop(clients);
    send_signal(server.id(), 15).unwrap();
    server.wait().unwrap();
    assert_named(&explanations[0], LatencyCause::Queued, "queueing");
    bench.assert_clean("run-");
}

/// Has a container run the service, with the host's Python.
fn serve_in(container: &Container, socket: &Path) {
    let path = container.bundle.join("config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut configuration: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut python = Command::new("python3");
    let about = "import sys; print(sys.executable, sys.base_prefix, sep='\\n')";
    let about = python.args(["-c", about]).output().unwrap().stdout;
    let about = String::from_utf8(about).unwrap();
    let (program, prefix) = about.trim().split_once('\n').unwrap();
    let parent = |file: &Path| file.parent().unwrap().to_str().unwrap().to_string();
    let shown = [
        "/usr".to_string(),
        "/lib".to_string(),
        "/lib64".to_string(),
        prefix.to_string(),
        parent(Path::new(SERVER)),
        parent(socket),
    ];
    let shown = shown.iter().filter(|path| Path::new(path).exists());
    let mounts = configuration["mounts"].as_array_mut().unwrap();
    mounts.extend(shown.map(|path| {
        serde_json::json!({ "destination": path, "source": path, "type": "bind", "options": ["rbind"] })
    }));
    configuration["process"]["args"] =
        serde_json::json!([program, SERVER, socket.to_str().unwrap(), "--stay"]);
    std::fs::write(path, configuration.to_string()).unwrap();
}

#[test]
fn a_service_in_a_container_is_explained() {
    let test = "a_service_in_a_container_is_explained";
    let Some(bench) = place(test, &["python3"]) else {
        return;
    };
    let Some(container) = Container::findable("runc", test) else {
        return;
    };
    let socket = bench.path().join("container.sock");
    serve_in(&container, &socket);
    container.start();
    let name = container.name.as_str();
    let apply = [
        "apply",
        "--container",
        name,
        "-b",
        "60ms",
        "-p",
        "200ms",
        "--cpus",
        "0",
    ];
    bench.run(&apply).expect(0, &[name]);
    let mut clients = [Client::connect(0, &socket), Client::connect(1, &socket)];
    let scene = RecordedScene::begin(&bench);
    let mut requests = Requests::default();
    for _ in 0..2 {
        let [client, other] = &mut clients;
        ask_in_each_cause(&mut requests, client, other);
    }
    let explanations = scene.explain(&["budget", "queueing"], &clients, &requests);
    drop(clients);
    bench.run(&["revert", name]).expect(0, &[name]);
    container.delete();
    assert_named(&explanations[0], LatencyCause::BudgetUsedUp, "budget");
    assert_named(&explanations[1], LatencyCause::Queued, "queueing");
    bench.assert_clean(name);
}
