//! A plugin's side of one connection to a runtime.

use prost::Message;

use crate::RuntimeProtocolError;
use crate::call::{
    CallDecoder, CallMessage, CallRequest, CallResponse, CallStatus, FAILED_PRECONDITION,
    INVALID_ARGUMENT, OK, UNIMPLEMENTED, encode_request, encode_response,
};
use crate::message::{
    Configuration, ContainerEvent, PluginRegistration, PodSandbox, REMOVE_CONTAINER,
    RuntimeContainer, START_CONTAINER, STOP_CONTAINER, StateChange, Subscription, Synchronization,
    Synchronized,
};
use crate::trunk::{TrunkDecoder, TrunkFrame};

/// The connection on which the runtime calls the plugin.
const OF_RUNTIME: u32 = 1;
/// The connection on which the plugin calls the runtime.
const OF_PLUGIN: u32 = 2;
const SERVICE_OF_RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
const SERVICE_OF_PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";
/// The stream of the registration: those of a caller are odd.
const REGISTRATION_STREAM: u32 = 1;
/// The most bytes of an error that a runtime is told. Its buffers hold 4,096 bytes, and a frame has to fit into one.
const ERROR_BYTES_MAX: usize = 2048;

/// Why a container is not to start, in words for whoever started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection(pub String);

/// `Plugin` is what a plugin does about the containers of a runtime.
pub trait Plugin {
    /// The containers that there are as the plugin begins, each with its pod.
    fn synchronize(&mut self, containers: &[(PodSandbox, RuntimeContainer)]);

    /// A container has been created, with its cgroup and namespaces, and its program is about to begin.
    ///
    /// # Errors
    /// The container is not to start.
    fn start(&mut self, pod: &PodSandbox, container: &RuntimeContainer) -> Result<(), Rejection>;

    /// A container has ended.
    fn stop(&mut self, pod: &PodSandbox, container: &RuntimeContainer);
}

/// `PluginSession` is a plugin's side of one connection, without the connection.
#[derive(Debug, Default)]
pub struct PluginSession {
    trunk: TrunkDecoder,
    calls: CallDecoder,
    answers: CallDecoder,
    /// The parts of a synchronisation that have come.
    parts: Synchronization,
    is_registered: bool,
}

impl PluginSession {
    /// A session, and the bytes that register the plugin. `index`, of two digits, is its place among the runtime's plugins.
    pub fn begin(name: &str, index: &str) -> (Self, Vec<u8>) {
        let registration = PluginRegistration {
            plugin_name: name.to_owned(),
            plugin_idx: index.to_owned(),
        };
        let request = CallRequest {
            service: SERVICE_OF_RUNTIME.to_owned(),
            method: "RegisterPlugin".to_owned(),
            payload: registration.encode_to_vec(),
        };
        let payload = encode_request(REGISTRATION_STREAM, &request);
        let connection = OF_PLUGIN;
        let frame = TrunkFrame {
            connection,
            payload,
        };
        (Self::default(), frame.encode())
    }

    /// Whether the runtime has taken the plugin.
    pub fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Takes received bytes in, has the plugin do what they ask for, and returns the bytes to send.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        plugin: &mut dyn Plugin,
    ) -> Result<Vec<u8>, RuntimeProtocolError> {
        self.trunk.extend(bytes);
        let mut sent = Vec::new();
        while let Some(frame) = self.trunk.next_frame()? {
            match frame.connection {
                OF_RUNTIME => {
                    self.calls.extend(&frame.payload);
                    self.answer_calls(plugin, &mut sent)?;
                }
                OF_PLUGIN => {
                    self.answers.extend(&frame.payload);
                    self.read_answers()?;
                }
                // Connections that a later version may open.
                _ => {}
            }
        }
        Ok(sent)
    }

    fn answer_calls(
        &mut self,
        plugin: &mut dyn Plugin,
        sent: &mut Vec<u8>,
    ) -> Result<(), RuntimeProtocolError> {
        while let Some(message) = self.calls.next_message()? {
            let CallMessage::Request { stream, request } = message else {
                continue;
            };
            let result = request
                .map_err(|error| status(INVALID_ARGUMENT, error))
                .and_then(|request| self.carry_out(&request, plugin));
            let response = match result {
                Ok(payload) => CallResponse {
                    status: None,
                    payload,
                },
                Err(status) => CallResponse {
                    status: Some(status),
                    payload: Vec::new(),
                },
            };
            let connection = OF_RUNTIME;
            let payload = encode_response(stream, &response);
            let frame = TrunkFrame {
                connection,
                payload,
            };
            sent.extend(frame.encode());
        }
        Ok(())
    }

    fn read_answers(&mut self) -> Result<(), RuntimeProtocolError> {
        while let Some(message) = self.answers.next_message()? {
            let CallMessage::Response {
                stream: REGISTRATION_STREAM,
                response,
            } = message
            else {
                continue;
            };
            let response = response.map_err(RuntimeProtocolError::BadAnswer)?;
            if let Some(status) = response.status.filter(|status| status.code != OK) {
                return Err(RuntimeProtocolError::Refused(status.message));
            }
            self.is_registered = true;
        }
        Ok(())
    }

    /// Carries one call out, and returns its result.
    fn carry_out(
        &mut self,
        request: &CallRequest,
        plugin: &mut dyn Plugin,
    ) -> Result<Vec<u8>, CallStatus> {
        if request.service != SERVICE_OF_PLUGIN {
            let message = format!("there is no service {} here", request.service);
            return Err(status(UNIMPLEMENTED, message));
        }
        let payload = request.payload.as_slice();
        match request.method.as_str() {
            "Configure" => configure(&decoded(payload)?),
            "Synchronize" => Ok(self.synchronize(decoded(payload)?, plugin)),
            "Shutdown" => Ok(Vec::new()),
            "StartContainer" => handle(START_CONTAINER, decoded(payload)?, plugin),
            "StopContainer" => handle(STOP_CONTAINER, decoded(payload)?, plugin),
            "RemoveContainer" => handle(REMOVE_CONTAINER, decoded(payload)?, plugin),
            "StateChange" => {
                let change: StateChange = decoded(payload)?;
                let event = ContainerEvent {
                    pod: change.pod,
                    container: change.container,
                };
                handle(change.event, event, plugin)
            }
            other => Err(status(UNIMPLEMENTED, format!("there is no {other} here"))),
        }
    }

    fn synchronize(&mut self, part: Synchronization, plugin: &mut dyn Plugin) -> Vec<u8> {
        let more = part.more;
        self.parts.pods.extend(part.pods);
        self.parts.containers.extend(part.containers);
        if !more {
            let all = std::mem::take(&mut self.parts);
            let pod = |container: &RuntimeContainer| {
                let mut pods = all.pods.iter();
                let pod = pods.find(|pod| pod.id == container.pod_sandbox_id);
                pod.cloned().unwrap_or_default()
            };
            let containers = all.containers.iter();
            let containers: Vec<(PodSandbox, RuntimeContainer)> = containers
                .map(|container| (pod(container), container.clone()))
                .collect();
            plugin.synchronize(&containers);
        }
        Synchronized { more }.encode_to_vec()
    }
}

/// Subscribes to the events of [`handle`]. The plugin has no file among the runtime's.
fn configure(configuration: &Configuration) -> Result<Vec<u8>, CallStatus> {
    if !configuration.config.trim().is_empty() {
        let message = "this plugin is configured by its command line alone; remove its file from the folder that \
                       plugin_config_path of the runtime names";
        return Err(status(INVALID_ARGUMENT, message));
    }
    let events = [START_CONTAINER, STOP_CONTAINER, REMOVE_CONTAINER];
    let events = events
        .iter()
        .fold(0, |bits, event| bits | (1 << (event - 1)));
    Ok(Subscription { events }.encode_to_vec())
}

fn handle(
    event: i32,
    about: ContainerEvent,
    plugin: &mut dyn Plugin,
) -> Result<Vec<u8>, CallStatus> {
    let pod = about.pod.unwrap_or_default();
    let Some(container) = about.container else {
        return Ok(Vec::new());
    };
    match event {
        START_CONTAINER => {
            let started = plugin.start(&pod, &container);
            started.map_err(|Rejection(why)| status(FAILED_PRECONDITION, why))?;
        }
        STOP_CONTAINER | REMOVE_CONTAINER => plugin.stop(&pod, &container),
        _ => {}
    }
    Ok(Vec::new())
}

fn decoded<M: Message + Default>(payload: &[u8]) -> Result<M, CallStatus> {
    M::decode(payload).map_err(|error| status(INVALID_ARGUMENT, error.to_string()))
}

fn status(code: i32, message: impl Into<String>) -> CallStatus {
    let mut message = message.into();
    let end = message.floor_char_boundary(ERROR_BYTES_MAX);
    message.truncate(end);
    CallStatus { code, message }
}

#[cfg(test)]
mod tests;
