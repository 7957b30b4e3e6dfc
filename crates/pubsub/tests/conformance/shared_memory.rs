//! The transport over shared memory: the suite, and what is left of programs that end.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Liveliness, SubscriberEvent};
use tailbound_pubsub::{DataSpace, SharedMemory, Topic, Transport};
use tailbound_time::Duration;

use super::stage::{expect_event, topic, until};
use super::{TransportMaker, check};

struct SharedMemoryMaker(String);

impl TransportMaker for SharedMemoryMaker {
    fn make(&self) -> Box<dyn Transport> {
        Box::new(SharedMemory::join(&self.0).unwrap())
    }

    fn delivers_at_once(&self) -> bool {
        true
    }

    fn topics(&self) -> usize {
        100
    }
}

/// A data space that no other run of the tests has.
fn space_name(purpose: &str) -> String {
    format!("{purpose}-{}", std::process::id())
}

/// The files of a data space, in memory and in its directory.
fn files_of(space: &str) -> Vec<PathBuf> {
    let prefix = format!("tb_{space}_");
    let directories = [
        "/dev/shm",
        "/tmp/iceoryx2",
        "/tmp/iceoryx2/services",
        "/tmp/iceoryx2/nodes",
    ];
    let entries = directories
        .iter()
        .filter_map(|path| std::fs::read_dir(path).ok());
    let paths = entries.flatten().map(|entry| entry.unwrap().path());
    let mut files = paths
        .filter(|path| path.to_string_lossy().contains(&prefix))
        .collect::<Vec<_>>();
    let count_file = count_file(space);
    files.retain(|path| *path != count_file);
    files
}

/// The file of 16 bytes that stays of a data space: iceoryx2 counts in it, and never removes it.
pub fn count_file(space: &str) -> PathBuf {
    let prefix = format!("tb_{space}_");
    let entries = std::fs::read_dir("/dev/shm").unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let is_count = |path: &PathBuf| {
        let path = path.to_string_lossy();
        path.contains(&prefix) && path.ends_with(".global_mgmt")
    };
    paths.find(is_count).unwrap()
}

#[test]
fn shared_memory_conforms_and_leaves_nothing() {
    let space = space_name("suite");
    check(&SharedMemoryMaker(space.clone()));
    assert_eq!(files_of(&space), [] as [PathBuf; 0]);
    std::fs::remove_file(count_file(&space)).unwrap();
}

/// The program that [`a_killed_publisher_is_lost_and_its_memory_goes`] kills; without the name of a space it does nothing.
#[test]
fn publishing_program() {
    let Ok(space) = std::env::var("TAILBOUND_TEST_SPACE") else {
        return;
    };
    let space = DataSpace::over(
        Box::new(SharedMemory::join(&space).unwrap()),
        Arc::new(Monotonic),
    );
    let mut publisher = space.publisher(&leased_topic()).unwrap();
    loop {
        publisher.publish(b"here").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn leased_topic() -> Topic {
    let mut topic = topic("leased");
    let lease = Duration::from_millis(200);
    topic.quality.liveliness = Some(Liveliness { lease });
    topic
}

fn start_publisher(space: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conformance::shared_memory::publishing_program"])
        .env("TAILBOUND_TEST_SPACE", space)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_publisher_is_lost_and_its_memory_goes() {
    let name = space_name("killed");
    let space = DataSpace::over(
        Box::new(SharedMemory::join(&name).unwrap()),
        Arc::new(Monotonic),
    );
    let mut subscriber = space.subscriber(&leased_topic()).unwrap();
    let mut sources = Vec::new();
    for _ in 0..2 {
        // The second one finds room for one publisher, though the first one could not say farewell.
        let mut program = start_publisher(&name);
        let mut source = 0;
        until("a message of the other program arrives", || {
            subscriber.wait(Some(Duration::from_millis(10))).unwrap();
            subscriber
                .take(|message| source = message.header.source)
                .unwrap()
                && !sources.contains(&source)
        });
        program.kill().unwrap();
        program.wait().unwrap();
        expect_event(&mut subscriber, SubscriberEvent::PublisherLost { source });
        sources.push(source);
    }
    drop(subscriber);
    drop(space);
    // Whoever starts next cleans up, if the end of this space did not.
    drop(SharedMemory::join(&name).unwrap());
    assert_eq!(files_of(&name), [] as [PathBuf; 0]);
    std::fs::remove_file(count_file(&name)).unwrap();
}

#[test]
fn a_space_with_another_name_is_refused() {
    for name in ["", "a/b", "ü", &"x".repeat(33)] {
        let error = SharedMemory::join(name).unwrap_err().to_string();
        assert!(error.contains("1 to 32 letters"), "{error}");
    }
}
