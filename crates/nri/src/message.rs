//! Messages of NRI v1alpha1, with the fields that are read here; protocol buffers skip the others.

use std::collections::BTreeMap;

use prost::Message;

/// The events that a plugin subscribes to, by their numbers.
pub(crate) const START_CONTAINER: i32 = 6;
pub(crate) const STOP_CONTAINER: i32 = 10;
pub(crate) const REMOVE_CONTAINER: i32 = 11;

/// The state of a container that runs.
const RUNNING: i32 = 3;

/// A pod, as the runtime knows it.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandbox {
    /// The identifier of its sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The namespace of Kubernetes that it is in.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// Its annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
}

/// A container of a pod, as the runtime knows it.
#[derive(Clone, PartialEq, Message)]
pub struct RuntimeContainer {
    /// Its identifier.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The identifier of the sandbox of its pod.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// Its name in the pod.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Its state.
    #[prost(int32, tag = "4")]
    pub state: i32,
    /// Its annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// What it has on Linux.
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
    /// Its first process, as the runtime's host numbers it; 0 where the runtime does not say so.
    #[prost(uint32, tag = "12")]
    pub pid: u32,
}

impl RuntimeContainer {
    /// Whether the container runs, by its state at a synchronisation.
    pub fn runs(&self) -> bool {
        self.state == RUNNING
    }
}

/// What a container has on Linux.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainer {
    /// Its cgroup: a path, or `SLICE:PREFIX:IDENTIFIER` where systemd makes cgroups.
    #[prost(string, tag = "5")]
    pub cgroups_path: String,
}

/// The argument of `RegisterPlugin`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PluginRegistration {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    /// Two digits: the place among the plugins of a runtime.
    #[prost(string, tag = "2")]
    pub plugin_idx: String,
}

/// The argument of `Configure`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Configuration {
    /// The text of the plugin's file among the runtime's.
    #[prost(string, tag = "1")]
    pub config: String,
}

/// The result of `Configure`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Subscription {
    /// A bit for each event: the lowest is that of event 1.
    #[prost(int32, tag = "2")]
    pub events: i32,
}

/// The argument of `Synchronize`: what there is as the plugin begins.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Synchronization {
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<PodSandbox>,
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<RuntimeContainer>,
    /// Whether another part follows.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

/// The result of `Synchronize`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Synchronized {
    /// Whether the plugin takes another part.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// The argument of `StartContainer`, `StopContainer` and `RemoveContainer`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerEvent {
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "2")]
    pub container: Option<RuntimeContainer>,
}

/// The argument of `StateChange`, by which older runtimes tell of events that have got methods of their own since.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StateChange {
    #[prost(int32, tag = "1")]
    pub event: i32,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<PodSandbox>,
    #[prost(message, optional, tag = "3")]
    pub container: Option<RuntimeContainer>,
}
