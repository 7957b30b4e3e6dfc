#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// A plugin that notes what it is asked, and rejects what its words name.
#[derive(Default)]
struct Recorder {
    noted: Vec<String>,
    rejects: Option<String>,
}

impl Recorder {
    fn note(&mut self, event: &str, pod: &PodSandbox, container: &RuntimeContainer) {
        let (namespace, pod) = (&pod.namespace, &pod.name);
        let name = &container.name;
        self.noted.push(format!("{event} {namespace}/{pod}/{name}"));
    }
}

impl Plugin for Recorder {
    fn synchronize(&mut self, containers: &[(PodSandbox, RuntimeContainer)]) {
        self.noted.push(format!("synchronize {}", containers.len()));
        for (pod, container) in containers {
            let state = if container.runs() { "runs" } else { "is there" };
            self.note(state, pod, container);
        }
    }

    fn start(&mut self, pod: &PodSandbox, container: &RuntimeContainer) -> Result<(), Rejection> {
        self.note("start", pod, container);
        match &self.rejects {
            Some(why) => Err(Rejection(why.clone())),
            None => Ok(()),
        }
    }

    fn stop(&mut self, pod: &PodSandbox, container: &RuntimeContainer) {
        self.note("stop", pod, container);
    }
}

/// An argument of a call.
trait Encoded {
    fn bytes(&self) -> Vec<u8>;
}

impl<M: Message> Encoded for M {
    fn bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// The bytes of a call of the runtime.
fn call(stream: u32, service: &str, method: &str, argument: Vec<u8>) -> Vec<u8> {
    let request = CallRequest {
        service: service.to_owned(),
        method: method.to_owned(),
        payload: argument,
    };
    let payload = encode_request(stream, &request);
    frame(OF_RUNTIME, payload)
}

fn frame(connection: u32, payload: Vec<u8>) -> Vec<u8> {
    let frame = TrunkFrame {
        connection,
        payload,
    };
    frame.encode()
}

/// The answers in what a plugin has sent: the stream, the code and the bytes of each.
fn answers(sent: &[u8]) -> Vec<(u32, i32, Vec<u8>)> {
    let mut trunk = TrunkDecoder::default();
    let mut calls = CallDecoder::default();
    trunk.extend(sent);
    while let Some(frame) = trunk.next_frame().unwrap() {
        assert_eq!(frame.connection, OF_RUNTIME);
        calls.extend(&frame.payload);
    }
    let mut answers = Vec::new();
    while let Some(message) = calls.next_message().unwrap() {
        let CallMessage::Response { stream, response } = message else {
            panic!("{message:?}");
        };
        let response = response.unwrap();
        let code = response.status.map_or(OK, |status| status.code);
        answers.push((stream, code, response.payload));
    }
    answers
}

fn event(name: &str) -> ContainerEvent {
    let pod = PodSandbox {
        id: "sandbox".into(),
        name: "cache".into(),
        namespace: "default".into(),
        ..PodSandbox::default()
    };
    let container = RuntimeContainer {
        pod_sandbox_id: "sandbox".into(),
        name: name.into(),
        ..RuntimeContainer::default()
    };
    ContainerEvent {
        pod: Some(pod),
        container: Some(container),
    }
}

fn synchronization(names: &[&str], more: bool) -> Synchronization {
    let events = names.iter().map(|name| event(name));
    let (pods, containers): (Vec<_>, Vec<_>) = events
        .map(|event| (event.pod.unwrap(), event.container.unwrap()))
        .unzip();
    Synchronization {
        pods,
        containers,
        more,
    }
}

#[test]
fn a_runtime_takes_the_plugin_or_says_why_not() {
    let (mut session, registration) = PluginSession::begin("tailbound", "50");
    assert_eq!(registration[..4], [0, 0, 0, 2]);
    assert!(!session.is_registered());
    let mut plugin = Recorder::default();
    let taken = frame(OF_PLUGIN, encode_response(1, &CallResponse::default()));
    assert!(session.receive(&taken, &mut plugin).unwrap().is_empty());
    assert!(session.is_registered());

    let response = CallResponse {
        status: Some(status(7, "plugins from outside are disabled")),
        payload: Vec::new(),
    };
    let refusal = frame(OF_PLUGIN, encode_response(1, &response));
    let refusal = session.receive(&refusal, &mut plugin).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the runtime refuses the plugin: plugins from outside are disabled"
    );
}

/// The bytes of calls of the plugin's methods, one after another.
fn calls() -> Vec<u8> {
    let change = event("redis");
    let change = StateChange {
        event: START_CONTAINER,
        pod: change.pod,
        container: change.container,
    };
    let nothing = ContainerEvent::default();
    let plugin = |stream, method, argument: &dyn Encoded| {
        call(stream, SERVICE_OF_PLUGIN, method, argument.bytes())
    };
    let calls = [
        plugin(1, "Configure", &Configuration::default()),
        plugin(3, "Synchronize", &synchronization(&["a", "b"], true)),
        plugin(5, "Synchronize", &synchronization(&["c"], false)),
        plugin(7, "StartContainer", &event("redis")),
        plugin(9, "StateChange", &change),
        plugin(11, "RunPodSandbox", &nothing),
        call(13, SERVICE_OF_RUNTIME, "StopContainer", nothing.bytes()),
        plugin(15, "StopContainer", &event("redis")),
        plugin(17, "Shutdown", &nothing),
    ];
    calls.concat()
}

#[test]
fn each_call_has_its_answer_whatever_pieces_it_comes_in() {
    let bytes = calls();
    let expected = [
        "synchronize 3",
        "is there default/cache/a",
        "is there default/cache/b",
        "is there default/cache/c",
        "start default/cache/redis",
        "start default/cache/redis",
        "stop default/cache/redis",
    ];
    for piece in [1, 7, bytes.len()] {
        let mut session = PluginSession::default();
        let mut plugin = Recorder::default();
        let mut sent = Vec::new();
        for piece in bytes.chunks(piece) {
            sent.extend(session.receive(piece, &mut plugin).unwrap());
        }
        assert_eq!(plugin.noted, expected);
        let answers = answers(&sent);
        let codes: Vec<i32> = answers.iter().map(|(_, code, _)| *code).collect();
        let none = UNIMPLEMENTED;
        assert_eq!(codes, [OK, OK, OK, OK, OK, none, none, OK, OK]);
        let streams: Vec<u32> = answers.iter().map(|(stream, ..)| *stream).collect();
        assert_eq!(streams, [1, 3, 5, 7, 9, 11, 13, 15, 17]);
        assert_eq!(answers[1].2, Synchronized { more: true }.encode_to_vec());
    }
}

/// What containerd 2.4.2 sends from the registration on, with a pod that runs and one that is made and removed meanwhile.
const OF_CONTAINERD: &[u8] = include_bytes!("containerd-2.4.2.bin");

#[test]
fn containerd_is_understood() {
    for piece in [1000, OF_CONTAINERD.len()] {
        let mut session = PluginSession::default();
        let mut plugin = Recorder::default();
        let mut sent = Vec::new();
        for piece in OF_CONTAINERD.chunks(piece) {
            sent.extend(session.receive(piece, &mut plugin).unwrap());
        }
        assert!(session.is_registered());
        let expected = [
            "synchronize 1",
            "runs default/cache/redis",
            "start default/web/redis",
            "stop default/web/redis",
            "stop default/web/redis",
        ];
        assert_eq!(plugin.noted, expected);
        assert!(answers(&sent).iter().all(|(_, code, _)| *code == OK));
    }
}

#[test]
fn a_rejection_fits_into_the_buffers_of_a_runtime() {
    let mut session = PluginSession::default();
    let mut plugin = Recorder {
        rejects: Some("ä".repeat(4000)),
        ..Recorder::default()
    };
    let start = call(
        1,
        SERVICE_OF_PLUGIN,
        "StartContainer",
        event("redis").bytes(),
    );
    let sent = session.receive(&start, &mut plugin).unwrap();
    assert!(sent.len() < 4096, "{}", sent.len());
    assert_eq!(answers(&sent)[0].1, FAILED_PRECONDITION);
}

#[test]
fn what_is_no_message_ends_the_session_or_the_call() {
    let mut session = PluginSession::default();
    let mut plugin = Recorder::default();
    let mut garbled = encode_request(1, &CallRequest::default());
    garbled.truncate(10);
    garbled[3] = 2;
    garbled.extend([0xff, 0xff]);
    let sent = session.receive(&frame(OF_RUNTIME, garbled), &mut plugin);
    assert_eq!(answers(&sent.unwrap())[0].1, INVALID_ARGUMENT);
    let endless = frame(OF_RUNTIME, vec![0xff; 10]);
    let refusal = session.receive(&endless, &mut plugin).unwrap_err();
    assert!(matches!(refusal, RuntimeProtocolError::LongMessage { .. }));
    let refusal = PluginSession::default().receive(&[0xff; 8], &mut plugin);
    assert!(matches!(
        refusal,
        Err(RuntimeProtocolError::LongFrame { .. })
    ));
}

proptest! {
    #[test]
    fn no_bytes_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        place in 0usize..400,
        other in any::<u8>(),
    ) {
        let mut plugin = Recorder::default();
        let _refused = PluginSession::default().receive(&bytes, &mut plugin);
        let mut good = call(1, SERVICE_OF_PLUGIN, "StartContainer", event("redis").bytes());
        good.extend(call(3, SERVICE_OF_PLUGIN, "Synchronize", synchronization(&["a"], false).bytes()));
        if let Some(byte) = good.get_mut(place) {
            *byte = other;
        }
        let _refused = PluginSession::default().receive(&good, &mut plugin);
    }
}
