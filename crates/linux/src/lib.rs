//! Every system call, cgroup, tracefs and perf access of Tailbound.
//!
//! The only crate with `unsafe` code, and the only one that knows paths under /sys and /proc.
#![allow(unsafe_code)]

pub mod capabilities;
pub mod cgroup;
pub mod clock;
pub mod control_socket;
pub mod datagrams;
pub mod echo_socket;
pub mod file_room;
pub mod host_facts;
pub mod host_managers;
pub mod interrupts;
pub mod isolation;
pub mod kernel_tables;
pub mod kernel_thread_trial;
pub mod memory;
pub mod memory_group;
pub mod named_cgroup;
pub mod namespaces;
pub mod network_interface;
pub mod own_directory;
pub mod packet_counters;
pub mod packet_tables;
pub mod perf;
pub mod polling;
pub mod process;
pub mod scheduling;
pub mod signal_queue;
pub mod sockets;
pub mod spawn;
mod system_call;
pub mod system_calls;
pub mod task_group;
pub mod task_process;
pub mod thread;
pub mod timer;
pub mod tracefs;
pub mod trigger_control;
pub mod vsock;
pub mod xen;

pub use capabilities::HostCapabilities;
