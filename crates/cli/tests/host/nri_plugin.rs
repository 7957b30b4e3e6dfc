//! `tailbound nri-plugin` under a runtime of the test, which asks as containerd does, for containers of runc.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::Bench;
use crate::container::Container;
use crate::oci_hooks::{FITTING, domains};

/// Status codes of gRPC.
const OK: u64 = 0;
const FAILED_PRECONDITION: u64 = 9;

/// A runtime's side of the connection to the plugin.
struct Runtime {
    stream: UnixStream,
    plugin: Child,
    calls: u32,
}

impl Runtime {
    /// Starts a plugin, which connects to a socket.
    fn start(bench: &Bench) -> Self {
        let socket = bench.path().join("nri.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let words = ["nri-plugin", "--priority-limit=60", "--socket"];
        let words = [&words[..], &[socket.to_str().unwrap()]].concat();
        let plugin = bench.start(&words);
        let (stream, _) = listener.accept().unwrap();
        Self::of(bench, plugin, stream)
    }

    /// Starts a plugin with a connection, as a runtime does for the plugins of its folder.
    fn launch(bench: &Bench) -> Self {
        let (stream, of_plugin) = UnixStream::pair().unwrap();
        let mut command = bench.tailbound(&["nri-plugin", "--priority-limit=60"]);
        command.env("NRI_PLUGIN_SOCKET", "0");
        command.stdin(OwnedFd::from(of_plugin));
        let said = File::create(bench.path().join("said")).unwrap();
        let plugin = command.stdout(Stdio::null()).stderr(said).spawn();
        Self::of(bench, plugin.unwrap(), stream)
    }

    /// Takes the registration of a plugin.
    fn of(bench: &Bench, plugin: Child, stream: UnixStream) -> Self {
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        let mut runtime = Self {
            stream,
            plugin,
            calls: 0,
        };
        let (connection, registration) = runtime.read();
        assert_eq!(connection, 2);
        let text = String::from_utf8_lossy(&registration).into_owned();
        let service = "nri.pkg.api.v1alpha1.Runtime";
        for word in [service, "RegisterPlugin", "tailbound", "50"] {
            assert!(text.contains(word), "{text}");
        }
        runtime.send(2, 1, 2, &[]);
        bench.until_said("has taken the plugin 50-tailbound");
        runtime
    }

    /// Calls a method of the plugin; returns the code of its answer, and what that says.
    fn call(&mut self, method: &str, argument: &[u8]) -> (u64, String) {
        let (code, body) = self.answer(method, argument);
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    /// Calls a method of the plugin; returns the code and the bytes of its answer.
    fn answer(&mut self, method: &str, argument: &[u8]) -> (u64, Vec<u8>) {
        let stream = 2 * self.calls + 1;
        self.calls += 1;
        let service = field(1, b"nri.pkg.api.v1alpha1.Plugin");
        let request = [service, field(2, method.as_bytes()), field(3, argument)];
        self.send(1, stream, 1, &request.concat());
        let (connection, answer) = self.read();
        assert_eq!(connection, 1);
        assert_eq!(answer[4..8], stream.to_be_bytes());
        // A status is the first field, and its code the first in there.
        let code = match answer.get(10..) {
            Some([0x0a, _, 0x08, code, ..]) => u64::from(*code),
            Some([0x0a, _, _, 0x08, code, ..]) => u64::from(*code),
            _ => OK,
        };
        (code, answer[10..].to_vec())
    }

    fn send(&mut self, connection: u32, stream: u32, kind: u8, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap();
        let mut message = Vec::new();
        message.extend(length.to_be_bytes());
        message.extend(stream.to_be_bytes());
        message.extend([kind, 0]);
        message.extend(body);
        let length = u32::try_from(message.len()).unwrap();
        self.stream.write_all(&connection.to_be_bytes()).unwrap();
        self.stream.write_all(&length.to_be_bytes()).unwrap();
        self.stream.write_all(&message).unwrap();
    }

    fn read(&mut self) -> (u32, Vec<u8>) {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).unwrap();
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let mut payload = vec![0; number(&header[4..]) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        (number(&header[..4]), payload)
    }

    /// Ends the plugin, as a package that is exchanged does.
    fn kill_plugin(mut self) {
        self.plugin.kill().unwrap();
        self.plugin.wait().unwrap();
    }

    /// Ends the connection, as a runtime does that ends; the plugin ends then.
    fn close(mut self) -> Option<i32> {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
        self.plugin.wait().unwrap().code()
    }
}

/// A field of protocol buffers that holds bytes.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        encoded.push(length as u8 | 0x80);
        length >>= 7;
    }
    encoded.push(length as u8);
    encoded.extend(bytes);
    encoded
}

/// A pod that has these annotations.
fn pod(annotations: &[(&str, &str)]) -> Vec<u8> {
    let names = [
        field(1, b"sandbox"),
        field(2, b"cache"),
        field(4, b"default"),
    ];
    let annotations = annotations.iter().flat_map(|(key, value)| {
        let entry = [field(1, key.as_bytes()), field(2, value.as_bytes())];
        field(6, &entry.concat())
    });
    names.concat().into_iter().chain(annotations).collect()
}

/// The container of the pod, whose identifier is that of a container of runc.
fn container(id: &str, runs: bool) -> Vec<u8> {
    let names = [
        field(1, id.as_bytes()),
        field(2, b"sandbox"),
        field(3, b"redis"),
    ];
    let state = [4 << 3, if runs { 3 } else { 1 }];
    names.concat().into_iter().chain(state).collect()
}

/// The argument of a call about a container.
fn about(pod: &[u8], container: &[u8]) -> Vec<u8> {
    [field(1, pod), field(2, container)].concat()
}

/// Whether so many processes of the container have the reservation.
fn holds(container: &Container, processes: usize) -> bool {
    let members = container.processes(true);
    let fifo = |&pid: &u32| matches!(scheduling_of(pid), Ok(SchedulingSetting::Fifo { .. }));
    members.len() == processes && members.iter().all(fifo)
}

#[test]
fn a_pod_is_reserved_for_by_its_annotations() {
    let test = "a_pod_is_reserved_for_by_its_annotations";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(box_of_runc) = Container::findable("runc", test) else {
        return;
    };
    let mut runtime = Runtime::start(&bench);
    // The events 6, 10 and 11, one bit each, as the second field.
    let subscription = (OK, vec![18, 3, 16, 160, 12]);
    assert_eq!(runtime.answer("Configure", &[]), subscription);
    let (code, said) = runtime.call("Configure", &field(1, b"priority_limit = 90"));
    assert!(code > OK && said.contains("command line"), "{said}");

    // A container that runs already.
    box_of_runc.start();
    let name = box_of_runc.name.as_str();
    let running = container(name, true);
    let everything = about(&pod(&FITTING), &running);
    assert_eq!(runtime.call("Synchronize", &everything).0, OK);
    assert!(holds(&box_of_runc, 1), "{}", bench.said());
    assert_eq!(domains(&bench), ["default-cache-redis"]);
    // Another plugin finds it as it is.
    runtime.kill_plugin();
    assert!(holds(&box_of_runc, 1));
    let mut runtime = Runtime::launch(&bench);
    assert_eq!(runtime.call("Synchronize", &everything).0, OK);
    assert!(!bench.said().contains("error"), "{}", bench.said());
    box_of_runc.delete();
    let stopped = about(&pod(&FITTING), &container(name, false));
    assert_eq!(runtime.call("StopContainer", &stopped).0, OK);
    assert_eq!(domains(&bench), [""; 0]);

    // One that is about to start, and one that is not allowed to.
    box_of_runc.start();
    let scoped = [
        ("tailbound.budget/container.redis", "3ms"),
        ("tailbound.budget/container.proxy", "1000ms"),
        ("tailbound.period", "10ms"),
        ("tailbound.cpus", "1"),
        ("tailbound.priority", "50"),
    ];
    let created = about(&pod(&scoped), &container(name, false));
    assert_eq!(runtime.call("StartContainer", &created).0, OK);
    assert!(holds(&box_of_runc, 1), "{}", bench.said());
    assert_eq!(runtime.call("StopContainer", &created).0, OK);
    assert_eq!(domains(&bench), [""; 0]);
    let urgent = [&FITTING[..3], &[("tailbound.priority", "61")]].concat();
    let refused = about(&pod(&urgent), &container(name, false));
    let (code, said) = runtime.call("StartContainer", &refused);
    assert_eq!(code, FAILED_PRECONDITION, "{said}");
    assert!(said.contains("containers may have 60 at most"), "{said}");
    let optional = [&urgent[..], &[("tailbound.required", "false")]].concat();
    let optional = about(&pod(&optional), &container(name, false));
    assert_eq!(runtime.call("StartContainer", &optional).0, OK);
    assert!(!holds(&box_of_runc, 1));
    box_of_runc.delete();
    let (code, said) = runtime.call("StartContainer", &created);
    assert_eq!(code, FAILED_PRECONDITION, "{said}");
    assert!(said.contains("hostPID"), "{said}");
    assert_eq!(runtime.close(), Some(1));
    bench.assert_clean(name);
}
