//! One line of a trace.

/// The kinds of events that say what runs on CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedEventKind<'a> {
    /// A thread may run from now on.
    WakeUp(TracedThread<'a>),
    /// A CPU goes from one thread to another.
    Switch {
        /// The thread that stops.
        from: TracedThread<'a>,
        /// Whether the one that stops could go on: it was preempted, and sleeps otherwise.
        runnable: bool,
        /// The thread that begins.
        to: TracedThread<'a>,
    },
    /// A CPU begins work in interrupt context.
    Begin(TracedInterrupt<'a>),
    /// A CPU ends it.
    End(TracedInterrupt<'a>),
    /// Something outside of the kernel, such as a hypervisor, had the CPU from the event's time on.
    Stall {
        /// How long, in nanoseconds.
        length_ns: u64,
    },
    /// The recorder lost events here.
    Lost,
    /// The recorder lost events, and does not say when.
    LostSometime,
}

/// Work in interrupt context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedInterrupt<'a> {
    /// Whether it is a softirq.
    pub is_soft: bool,
    /// The number of the line or of the softirq, where the recording has one.
    pub number: Option<u32>,
    /// The name: of a numbered one as the kernel has it, where the recording says it, else all of it.
    pub name: Option<&'a str>,
}

impl<'a> TracedInterrupt<'a> {
    /// An interrupt of that name.
    pub fn hard(name: &'a str) -> Self {
        Self {
            is_soft: false,
            number: None,
            name: Some(name),
        }
    }

    /// A softirq of that name.
    pub fn soft(name: &'a str) -> Self {
        Self {
            is_soft: true,
            ..Self::hard(name)
        }
    }
}

/// A thread as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedThread<'a> {
    /// The kernel's number of the thread.
    pub pid: u32,
    /// Its name.
    pub comm: &'a str,
}

/// An event of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedEvent<'a> {
    /// The time in nanoseconds; 0 where the event has none.
    pub at_ns: u64,
    /// The CPU of the event, where the recording says it.
    pub cpu: Option<u32>,
    /// The kind of the event.
    pub kind: TracedEventKind<'a>,
}

/// The events that say when threads may run and do run.
const SWITCH: &str = "sched_switch";
const WAKE_UPS: [&str; 3] = ["sched_waking", "sched_wakeup", "sched_wakeup_new"];

/// The events that say when interrupts and softirqs run.
const INTERRUPTS: [&str; 4] = [
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
];

/// What a line says; `None` for a line about something else.
///
/// # Errors
/// What is wrong with a line that names one of our events.
pub(super) fn event(line: &str) -> Option<Result<TracedEvent<'_>, String>> {
    let trimmed = line.trim();
    if trimmed.starts_with('#') {
        return None;
    }
    if let Some(kind) = loss(trimmed) {
        return Some(Ok(TracedEvent {
            at_ns: 0,
            cpu: None,
            kind,
        }));
    }
    let (head, name, body) = WAKE_UPS
        .iter()
        .chain([&SWITCH])
        .chain(&INTERRUPTS)
        .find_map(|name| named(line, name))?;
    let kind = match name {
        SWITCH => switch(body),
        "irq_handler_entry" => handler(body).map(TracedEventKind::Begin),
        "irq_handler_exit" => handler(body).map(TracedEventKind::End),
        "softirq_entry" => softirq(body).map(TracedEventKind::Begin),
        "softirq_exit" => softirq(body).map(TracedEventKind::End),
        _ => woken(body).map(TracedEventKind::WakeUp),
    };
    let Head { at_ns, cpu } = head;
    let line = kind.map(|kind| TracedEvent { at_ns, cpu, kind });
    Some(line.ok_or_else(|| {
        let shown: String = body.chars().take(80).collect();
        format!("{shown:?} is not what {name} says")
    }))
}

/// What perf's records of losses begin with. A thread's name is at most 15 bytes long, so it is none.
const LOST_RECORD: &str = "PERF_RECORD_LOST";

/// What a line says of lost events: `CPU:0 [LOST 9 EVENTS]` of ftrace, `CPU:0 [9 EVENTS DROPPED]` of
/// `trace-cmd report`, both without a number where the recorder does not know it;
/// `web 7 [000] 5.5: PERF_RECORD_LOST lost 9` of `perf script --show-lost-events`, or
/// `PERF_RECORD_LOST_SAMPLES`, which counts since some time.
fn loss(line: &str) -> Option<TracedEventKind<'_>> {
    if let Some((head, rest)) = line.split_once(LOST_RECORD) {
        let is_record = head.is_empty() || head.trim_end().ends_with(':');
        return match rest.split([' ', ':']).next() {
            Some("") if is_record => Some(TracedEventKind::Lost),
            Some("_SAMPLES") if is_record => Some(TracedEventKind::LostSometime),
            _ => None,
        };
    }
    // Before it, trace-cmd writes the file's name where it reports several.
    let (_, rest) = line.rsplit_once("CPU:")?;
    let (cpu, rest) = rest.split_once(" [")?;
    let _is_a_cpu: u32 = cpu.parse().ok()?;
    let words: Vec<&str> = rest.strip_suffix(']')?.split(' ').collect();
    let is_count = |word: &str| word.parse::<u64>().is_ok();
    match words.as_slice() {
        ["LOST", "EVENTS"] | ["EVENTS", "DROPPED"] => Some(TracedEventKind::Lost),
        ["LOST", count, "EVENTS"] | [count, "EVENTS", "DROPPED"] if is_count(count) => {
            Some(TracedEventKind::Lost)
        }
        _ => None,
    }
}

/// What stands before the name of an event.
struct Head {
    at_ns: u64,
    cpu: Option<u32>,
}

/// When and where, and what the event `name` says, if the line is one: the name stands behind the
/// time and its colon, and perf writes the group before it.
fn named<'a>(line: &'a str, name: &'static str) -> Option<(Head, &'static str, &'a str)> {
    line.match_indices(name).find_map(|(at, _)| {
        let body = line[at + name.len()..].strip_prefix(':')?;
        let head = &line[..at];
        let head = head.strip_suffix("sched:").or(head.strip_suffix("irq:"));
        let head = head.unwrap_or(&line[..at]);
        let head = head.trim_end().strip_suffix(':')?;
        let (thread, time) = match head.rsplit_once(char::is_whitespace) {
            Some(parts) => parts,
            None => ("", head),
        };
        let head = Head {
            at_ns: nanoseconds(time)?,
            cpu: bracketed(thread),
        };
        Some((head, name, body.trim()))
    })
}

/// The number in the last brackets. A thread's name may have some too, but stands before the CPU.
fn bracketed(text: &str) -> Option<u32> {
    let (_, rest) = text.rsplit_once('[')?;
    rest.split_once(']')?.0.parse().ok()
}

/// Seconds with a fraction, exactly.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let fraction = fraction.parse::<u64>().ok()? * scale;
    let seconds = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(fraction)
}

/// The bits of a raw `prev_state` that say how a thread sleeps; above them is the one that says that it
/// was preempted (include/linux/sched.h and include/trace/events/sched.h, 4.14 to 6.18).
const SLEEPING_BITS: u32 = 0xff;

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`;
/// `a:1 [120] S ==> b:2 [120]`; or as the first with a number for the state and no arrow, where the
/// recorder was told to print events raw.
fn switch(body: &str) -> Option<TracedEventKind<'_>> {
    let (left, right) = match body.split_once(" ==> ") {
        Some(sides) => sides,
        None => {
            let at = body.find(" next_comm=")?;
            (&body[..at], &body[at..])
        }
    };
    let (from, state) = match keyed(left, "prev_") {
        Some(from) => (from, left.rsplit_once("prev_state=")?.1),
        None => (short(left)?, left.rsplit_once(' ')?.1),
    };
    let to = keyed(right, "next_").or_else(|| short(right))?;
    Some(TracedEventKind::Switch {
        from,
        runnable: runnable(state.trim())?,
        to,
    })
}

/// Whether a thread that stopped in this state could have gone on.
fn runnable(state: &str) -> Option<bool> {
    if state.starts_with(|first: char| first.is_ascii_digit()) {
        let digits = state.strip_prefix("0x");
        let number = digits.map_or_else(|| state.parse(), |hex| u32::from_str_radix(hex, 16));
        return Some(number.ok()? & SLEEPING_BITS == 0);
    }
    Some(state.starts_with('R'))
}

/// `comm=a pid=1 prio=120 target_cpu=000`, or `a:1 [120] CPU:000`.
fn woken(body: &str) -> Option<TracedThread<'_>> {
    keyed(body, "").or_else(|| short(body))
}

/// `irq=24 name=virtio0-input.0`, or `irq=24 ret=handled` at the end; a name may have blanks in it.
fn handler(body: &str) -> Option<TracedInterrupt<'_>> {
    let rest = body.strip_prefix("irq=")?;
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(TracedInterrupt {
        is_soft: false,
        number: Some(number.parse().ok()?),
        name: rest.trim().strip_prefix("name="),
    })
}

/// `vec=3 [action=NET_RX]`.
fn softirq(body: &str) -> Option<TracedInterrupt<'_>> {
    let rest = body.strip_prefix("vec=")?;
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = rest.trim().strip_prefix("[action=");
    Some(TracedInterrupt {
        is_soft: true,
        number: Some(number.parse().ok()?),
        name: name.and_then(|name| name.strip_suffix(']')),
    })
}

/// The thread of keys with that prefix. A name may have blanks in it.
fn keyed<'a>(text: &'a str, prefix: &str) -> Option<TracedThread<'a>> {
    let rest = text.trim().strip_prefix(prefix)?.strip_prefix("comm=")?;
    let (comm, rest) = rest.rsplit_once(&format!(" {prefix}pid="))?;
    let pid = rest.split(char::is_whitespace).next()?.parse().ok()?;
    Some(TracedThread { pid, comm })
}

/// The thread of `name:pid [priority]`.
fn short(text: &str) -> Option<TracedThread<'_>> {
    let (thread, _) = text.trim().rsplit_once(" [")?;
    let (comm, pid) = thread.rsplit_once(':')?;
    Some(TracedThread {
        pid: pid.parse().ok()?,
        comm,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn switched(
        from: TracedThread<'static>,
        runnable: bool,
        to: TracedThread<'static>,
    ) -> TracedEventKind<'static> {
        TracedEventKind::Switch { from, runnable, to }
    }

    const IDLE: TracedThread<'_> = TracedThread {
        pid: 0,
        comm: "swapper/1",
    };
    const WEB: TracedThread<'_> = TracedThread {
        pid: 123,
        comm: "web io: x",
    };

    #[test]
    fn switches_are_read_in_every_form() {
        let ftrace = "  web io: x-123     [001] d..2.  12.345678: sched_switch: \
                      prev_comm=web io: x prev_pid=123 prev_prio=120 prev_state=R+ ==> \
                      next_comm=swapper/1 next_pid=0 next_prio=120";
        let trace_cmd = "          web io: x-123   [001]    12.345678000: sched_switch:         \
                         web io: x:123 [120] R+ ==> swapper/1:0 [120]";
        let perf = "web io: x   123 [001]    12.345678: sched:sched_switch: \
                    prev_comm=web io: x prev_pid=123 prev_prio=120 prev_state=R+ ==> \
                    next_comm=swapper/1 next_pid=0 next_prio=120";
        for line in [ftrace, trace_cmd, perf] {
            let line_read = event(line).unwrap().unwrap();
            let expected = TracedEvent {
                at_ns: 12_345_678_000,
                cpu: Some(1),
                kind: switched(WEB, true, IDLE),
            };
            assert_eq!(line_read, expected, "{line}");
        }
        let asleep = trace_cmd.replace(" R+ ", " S ");
        let switch = event(&asleep).unwrap().unwrap().kind;
        assert_eq!(switch, switched(WEB, false, IDLE));
    }

    #[test]
    fn raw_switches_have_numbers_for_states() {
        for (state, could_go_on) in [("0", true), ("256", true), ("1", false), ("0x2", false)] {
            let line = format!(
                "web io: x-123   [001]    12.345678: sched_switch:          prev_comm=web io: x \
                 prev_pid=123 prev_prio=120 prev_state={state} next_comm=swapper/1 next_pid=0 \
                 next_prio=120"
            );
            let switch = event(&line).unwrap().unwrap().kind;
            assert_eq!(switch, switched(WEB, could_go_on, IDLE), "{state}");
        }
    }

    #[test]
    fn wake_ups_are_read_in_every_form() {
        for line in [
            "<idle>-0 [001] dNh4. 7.000001: sched_wakeup: comm=web io: x pid=123 prio=120 target_cpu=001",
            "<idle>-0 [001] dNh4. 7.000001: sched_waking: comm=web io: x pid=123 prio=120 success=1 target_cpu=001",
            "<idle>-0 [001]  7.000001: sched_wakeup_new: web io: x:123 [120] success=1 CPU:001",
            "swapper 0 [001]  7.000001: sched:sched_wakeup: web io: x:123 [120] CPU:001",
        ] {
            let line_read = event(line).unwrap().unwrap();
            let expected = TracedEvent {
                at_ns: 7_000_001_000,
                cpu: Some(1),
                kind: TracedEventKind::WakeUp(WEB),
            };
            assert_eq!(line_read, expected, "{line}");
        }
    }

    #[test]
    fn other_lines_are_passed_over_and_broken_ones_told() {
        for line in [
            "",
            "cpus=2",
            "# entries-in-buffer: sched_switch: 5",
            "x-1 [000] 1.000000: sched_stat_runtime: comm=x pid=1 runtime=5 [ns]",
            "x-1 [000] 1.000000: print: sched_switch: hello",
        ] {
            assert!(event(line).is_none(), "{line}");
        }
        for line in [
            "x-1 [000] 1.000000: sched_switch: prev_comm=x prev_pid=1",
            "x-1 [000] 1.000000: sched_wakeup: comm=x pid=-5 prio=1",
        ] {
            assert!(event(line).unwrap().is_err(), "{line}");
        }
    }

    #[test]
    fn interrupts_are_read_in_every_form() {
        let entry = |text: &str| match event(text).unwrap().unwrap().kind {
            TracedEventKind::Begin(one) => {
                format!("{} {:?} {:?}", one.is_soft, one.number, one.name)
            }
            TracedEventKind::End(one) => {
                format!("end {} {:?} {:?}", one.is_soft, one.number, one.name)
            }
            other => panic!("{other:?}"),
        };
        let ftrace = "<idle>-0 [001] dNh4. 7.000001: irq_handler_entry: irq=24 name=virtio0 in: 0";
        assert_eq!(entry(ftrace), "false Some(24) Some(\"virtio0 in: 0\")");
        let perf = "swapper 0 [001]  7.000001: irq:irq_handler_exit: irq=24 ret=handled";
        assert_eq!(entry(perf), "end false Some(24) None");
        let soft = "x-1 [001] 7.000001: softirq_entry: vec=3 [action=NET_RX]";
        assert_eq!(entry(soft), "true Some(3) Some(\"NET_RX\")");
        let raw = "x-1 [001] 7.000001: softirq_exit: vec=3";
        assert_eq!(entry(raw), "end true Some(3) None");
        assert!(
            event("x-1 [001] 7.000001: softirq_entry: vec=x")
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn losses_are_seen_in_every_form() {
        for line in [
            "CPU:1 [LOST 12 EVENTS]",
            "CPU:1 [LOST EVENTS]",
            "CPU:0 [120 EVENTS DROPPED]",
            "CPU:0 [EVENTS DROPPED]",
            "   trace.dat: CPU:12 [EVENTS DROPPED]",
            "sched-pipe 19890 [000]  5465.455058: PERF_RECORD_LOST lost 2",
            "PERF_RECORD_LOST lost 2",
        ] {
            let loss = event(line).unwrap().unwrap();
            assert_eq!(loss.kind, TracedEventKind::Lost, "{line}");
        }
        let counted = "a 7 [000]  0.000000: PERF_RECORD_LOST_SAMPLES lost 9";
        let loss = event(counted).unwrap().unwrap();
        assert_eq!(loss.kind, TracedEventKind::LostSometime);
        for line in [
            "CPU:0 [120 EVENTS KEPT]",
            "CPU:x [EVENTS DROPPED]",
            "CPU:0 [many EVENTS DROPPED]",
            "x-1 [000] 1.000000: print: PERF_RECORD_LOSTLING",
            "x-1 [000] 1.000000: print: no PERF_RECORD_LOST",
        ] {
            assert!(event(line).is_none(), "{line}");
        }
        // A thread may be called so, and is none.
        let named = "CPU:0 [LOST 1-7 [000] 1.000000: sched_wakeup: CPU:0 [LOST 1:7 [120] CPU:000";
        let woken = event(named).unwrap().unwrap().kind;
        assert!(matches!(woken, TracedEventKind::WakeUp(_)), "{woken:?}");
    }
}
