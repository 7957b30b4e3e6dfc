//! `tailbound route`: routes of a description between data spaces on the loopback interface.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration as Pause;

use serde_json::Value;
use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{
    Liveliness, MessageHeader, MessageKind, Quality, SubscriberEvent, instance_number,
};
use tailbound_pubsub::{DataOrigin, DataSpace, Publisher, Subscriber, Topic, Udp};
use tailbound_time::{Duration, Instant};

/// Far longer than any machine takes, for a test that ends where something does not come.
const PATIENCE: Pause = Pause::from_secs(60);

const SITE: &str = r#"
schema_version = 1
name = "site"
[hosts.gate]
cpus = [0]
[domains.inside]
kind = "process"
command = ["inside"]
[domains.inside.tasks.sense]
arrivals = { kind = "periodic", period = "5ms" }
execution_time = { kind = "constant", value = "10us" }
[domains.routing]
kind = "process"
command = ["routing"]
[domains.routing.tasks.outward]
arrivals = { kind = "sporadic", min_gap = "1ms", max_gap = "1s" }
execution_time = { kind = "constant", value = "10us" }
[domains.outside]
kind = "process"
command = ["outside"]
[domains.outside.tasks.show]
arrivals = { kind = "periodic", period = "5ms" }
execution_time = { kind = "constant", value = "10us" }
[topics.speed]
publishers = ["inside/sense"]
released = ["routing/outward"]
size = 64
transport = "udp"
address = "127.0.0.1:INSIDE"
quality = { history = 128 }
[topics.speed-outside]
name = "speed"
type_name = "speed"
publishers = ["routing/outward"]
subscribers = ["outside/show"]
size = 64
transport = "udp"
address = "127.0.0.1:OUTSIDE"
quality = { history = 128 }
[routes.outward]
task = "routing/outward"
from = "speed"
to = "speed-outside"
"#;

/// Two data spaces, and the description of a route between them.
struct TwoSpaces {
    folder: tempfile::TempDir,
    ports: (u16, u16),
}

impl TwoSpaces {
    fn new(ports: (u16, u16)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let site = Self { folder, ports };
        site.write(SITE);
        site
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("site.toml")
    }

    /// Writes the description in one step, so that nobody reads half of it.
    fn write(&self, text: &str) {
        let text = text.replace("INSIDE", &self.ports.0.to_string());
        let text = text.replace("OUTSIDE", &self.ports.1.to_string());
        let next = self.folder.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.file()).unwrap();
    }

    fn router(&self) -> RunningRouter {
        RunningRouter::start(&self.file())
    }

    fn publisher(&self) -> Publisher {
        space(self.ports.0).publisher(&topic()).unwrap()
    }

    fn subscriber(&self) -> Subscriber {
        space(self.ports.1).subscriber(&topic()).unwrap()
    }
}

fn space(port: u16) -> DataSpace {
    let transport = Udp::multicast(Ipv4Addr::LOCALHOST, port);
    DataSpace::over(Box::new(transport), Arc::new(Monotonic))
}

fn topic() -> Topic {
    let quality = Quality {
        history: 128,
        liveliness: Some(Liveliness {
            lease: Duration::from_millis(500),
        }),
        ..Quality::default()
    };
    Topic {
        quality,
        ..Topic::new("speed", "speed", 64)
    }
}

/// The command, killed with the test, and the lines that it says.
struct RunningRouter {
    child: Child,
    said: Receiver<String>,
}

impl RunningRouter {
    /// A router that has its routes in force.
    fn start(file: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
        command.arg("route").arg(file).args(["--format", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (say, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = say.send(line);
            }
        });
        let router = Self { child, said };
        router.wait_for("routes in force: outward");
        router
    }

    fn wait_for(&self, words: &str) {
        let mut before = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return,
                Ok(line) => before.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{words}` did not come after {before:?}")
                }
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args([name, &pid]).status();
        assert!(kill.unwrap().success());
    }

    /// The numbers of the route after the command was ended.
    fn end(mut self) -> Value {
        self.signal("-TERM");
        let stdout = self.child.stdout.take().unwrap();
        let mut last = Value::Null;
        let documents = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
        for document in documents {
            last = document.unwrap();
        }
        assert!(self.child.wait().unwrap().success());
        last["routes"][0].clone()
    }
}

impl Drop for RunningRouter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next message.
fn next(subscriber: &mut Subscriber) -> MessageHeader {
    let begin = std::time::Instant::now();
    loop {
        let mut header = None;
        if subscriber
            .take(|message| header = Some(message.header))
            .unwrap()
        {
            return header.unwrap();
        }
        assert!(begin.elapsed() < PATIENCE, "no message came");
        subscriber.wait(Some(Duration::from_millis(100))).unwrap();
    }
}

/// Waits for an event about a publisher; messages meanwhile are let go.
fn wait_for_event(subscriber: &mut Subscriber, expected: SubscriberEvent) {
    let begin = std::time::Instant::now();
    loop {
        while subscriber.take(|_| ()).unwrap() {}
        while let Some(event) = subscriber.take_event() {
            if event == expected {
                return;
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{expected:?} did not come");
        subscriber.wait(Some(Duration::from_millis(100))).unwrap();
    }
}

#[test]
fn keys_ends_and_time_stamps_pass_and_garbage_does_not() {
    let site = TwoSpaces::new((7451, 7452));
    let router = site.router();
    let (mut publisher, mut subscriber) = (site.publisher(), site.subscriber());
    let group = Ipv4Addr::from_bits(
        u32::from_be_bytes([239, 192, 0, 0])
            + (tailbound_pubsub::messages::topic_number("speed", "") % (1 << 18)) as u32,
    );
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for length in [0, 1, 63, 64, 200, 20_000] {
        let garbage = vec![0xa5; length];
        stranger.send_to(&garbage, (group, 7451)).unwrap();
    }
    let origin = DataOrigin::at(Instant::from_nanos(5));
    let key = b"camera 7";
    publisher
        .publish_instance(key, Some(origin), b"3 m/s")
        .unwrap();
    publisher.dispose(key).unwrap();
    let (data, end) = (next(&mut subscriber), next(&mut subscriber));
    assert_eq!(
        (data.kind, end.kind),
        (MessageKind::Data, MessageKind::Dispose)
    );
    for (header, sequence) in [(data, 0), (end, 1)] {
        assert_eq!(header.source, publisher.source());
        assert_eq!(header.sequence, sequence);
        assert_eq!(header.instance, instance_number(key));
    }
    assert_eq!(data.origin_time, Instant::from_nanos(5));
    assert!(data.source_time <= end.source_time);
    let source = publisher.source();
    drop(publisher);
    wait_for_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
    router.signal("-USR1");
    let numbers = router.end();
    // A message, an end and a farewell.
    assert_eq!(numbers["passed"], 3, "{numbers}");
    assert!(numbers["garbage"].as_u64().unwrap() >= 5, "{numbers}");
    assert_eq!(numbers["failure"], Value::Null);
}

#[test]
fn a_reload_loses_no_message_and_a_wrong_file_changes_nothing() {
    let site = TwoSpaces::new((7453, 7454));
    let router = site.router();
    let (mut publisher, mut subscriber) = (site.publisher(), site.subscriber());
    let is_over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_over);
    let sender = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            publisher.publish(b"x").unwrap();
            std::thread::sleep(Pause::from_millis(5));
        }
        let sent = publisher.sequence();
        (publisher, sent)
    });
    let collected = std::thread::spawn(move || {
        let mut sequences = Vec::new();
        loop {
            let came = subscriber.take(|message| sequences.push(message.header.sequence));
            if !came.unwrap() {
                while let Some(event) = subscriber.take_event() {
                    if matches!(event, SubscriberEvent::PublisherEnded { .. }) {
                        return sequences;
                    }
                }
                subscriber.wait(Some(Duration::from_millis(100))).unwrap();
            }
        }
    });
    let contract = "to = \"speed-outside\"\ncontract = { messages = 1000, interval = \"1s\" }";
    let texts = [
        // Another contract keeps the queue, another history gets a new one, and then the route is a static link.
        SITE.replace("to = \"speed-outside\"", contract),
        SITE.replacen("history = 128", "history = 100", 1),
        "nonsense = 1\n".to_owned() + SITE,
        SITE.replace("size = 64", "size = 96"),
        SITE.replace("from = \"speed\"", "from = \"speedy\""),
        SITE.to_owned(),
    ];
    for (place, text) in texts.iter().enumerate() {
        std::thread::sleep(Pause::from_millis(100));
        site.write(text);
        router.signal("-HUP");
        match place {
            2 | 4 => router.wait_for("the routes of before are in force"),
            _ => router.wait_for("routes in force: outward"),
        }
    }
    std::thread::sleep(Pause::from_millis(100));
    is_over.store(true, Ordering::Relaxed);
    let (publisher, sent) = sender.join().unwrap();
    drop(publisher);
    let sequences = collected.join().unwrap();
    assert_eq!(sequences, (0..sent).collect::<Vec<u64>>());
    assert!(sent > 50);
    let numbers = router.end();
    assert_eq!(numbers["violations"], 0, "{numbers}");
}

#[test]
fn subscribers_hear_of_the_death_of_a_router_and_the_next_one_goes_on() {
    let site = TwoSpaces::new((7455, 7456));
    let router = site.router();
    let (mut publisher, mut subscriber) = (site.publisher(), site.subscriber());
    let source = publisher.source();
    let is_over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_over);
    let signs = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            publisher.assert_liveliness().unwrap();
            std::thread::sleep(Pause::from_millis(20));
        }
        publisher
    });
    wait_for_event(&mut subscriber, SubscriberEvent::Appeared { source });
    router.signal("-KILL");
    wait_for_event(&mut subscriber, SubscriberEvent::PublisherLost { source });
    drop(router);
    let router = site.router();
    wait_for_event(&mut subscriber, SubscriberEvent::Appeared { source });
    is_over.store(true, Ordering::Relaxed);
    let mut publisher = signs.join().unwrap();
    publisher.publish(b"x").unwrap();
    assert_eq!(next(&mut subscriber).source, source);
    router.end();
}

#[test]
fn routers_in_a_circle_do_not_multiply_messages() {
    // Each description is right for itself, and the other one leads back.
    let (there, back) = (TwoSpaces::new((7457, 7458)), TwoSpaces::new((7458, 7457)));
    let routers = [there.router(), back.router()];
    let (mut publisher, mut subscriber) = (there.publisher(), there.subscriber());
    for _ in 0..20 {
        publisher.publish(b"x").unwrap();
    }
    let sequences: Vec<u64> = (0..20).map(|_| next(&mut subscriber).sequence).collect();
    assert_eq!(sequences, (0..20).collect::<Vec<u64>>());
    drop(publisher);
    std::thread::sleep(Pause::from_millis(200));
    // 20 messages and a farewell pass once on each way.
    for router in routers {
        assert_eq!(router.end()["passed"], 21);
    }
}

fn refused(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailbound"));
    command.arg("route").arg(file).args(arguments);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
}

#[test]
fn what_cannot_be_routed_is_refused_with_a_remedy() {
    let site = TwoSpaces::new((7459, 7460));
    let said = |text: &str, arguments: &[&str]| {
        site.write(text);
        let output = refused(&site.file(), arguments);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let nobody = said(SITE, &["--domain", "inside"]);
    assert!(
        nobody.contains("no route is in domain `inside`"),
        "{nobody}"
    );
    assert!(
        nobody.contains("`outward` by routing/outward on host `gate`"),
        "{nobody}"
    );
    let interval = said(SITE, &["--report", "0s"]);
    assert!(interval.contains("such as 10s"), "{interval}");
    let memory = SITE.replacen("transport = \"udp\"\naddress = \"127.0.0.1:INSIDE\"", "", 1);
    let memory = said(&memory, &[]);
    if !cfg!(feature = "iceoryx2") {
        assert!(memory.contains("topic `speed`"), "{memory}");
        assert!(memory.contains("--features iceoryx2"), "{memory}");
    }
    let circle = format!(
        "{SITE}[routes.back]\ntask = \"outside/show\"\nfrom = \"speed-outside\"\nto = \"speed\"\n"
    );
    let circle = said(&circle, &[]);
    assert!(
        circle.contains("a message would come back to where it was"),
        "{circle}"
    );
}
