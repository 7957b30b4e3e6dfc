//! Whether the kernel's events can be recorded here.

use crate::tracefs::TraceFs;

/// Events without which a recording says less, with what it does not say then. Without `sched_switch` there is none.
const RECORDED_EVENTS: [(&str, &str); 6] = [
    ("sched/sched_waking", "who wakes whom"),
    ("irq/softirq_entry", "softirqs"),
    ("irq/irq_handler_entry", "interrupts of devices"),
    ("irq_vectors/local_timer_entry", "interrupts of timers"),
    ("cgroup/cgroup_freeze", "when the freezer holds a domain"),
    (
        "raw_syscalls/sys_enter",
        "system calls, so that requests are not explained",
    ),
];

/// Whether the kernel's events can be recorded, and what such a recording lacks.
pub(super) fn kernel_events() -> Result<String, String> {
    let tracefs = TraceFs::open().map_err(|error| format!("tracefs: {error}"))?;
    let has = |event: &str| tracefs.read(&format!("events/{event}/id"));
    has("sched/sched_switch").map_err(|error| format!("events sched/sched_switch: {error}"))?;
    let lacking = RECORDED_EVENTS
        .iter()
        .filter(|(event, _)| has(event).is_err());
    let lacking: Vec<&str> = lacking.map(|(_, consequence)| *consequence).collect();
    Ok(match lacking.is_empty() {
        true => "tracefs with all events that are recorded".into(),
        false => format!("recordings lack {}", lacking.join(", ")),
    })
}
