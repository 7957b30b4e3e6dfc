//! One line of a trace.

/// What a line says of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A thread may run from now on.
    WakeUp(Thread<'a>),
    /// A CPU goes from one thread to another.
    Switch {
        from: Thread<'a>,
        /// Whether the one that stops could go on: it was preempted, and sleeps otherwise.
        runnable: bool,
        to: Thread<'a>,
    },
    /// The recorder lost events here.
    Lost,
}

/// A thread as a line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread<'a> {
    /// The kernel's number of the thread.
    pub pid: u32,
    /// Its name.
    pub comm: &'a str,
}

/// The events that say when threads may run and do run.
const SWITCH: &str = "sched_switch";
const WAKE_UPS: [&str; 3] = ["sched_waking", "sched_wakeup", "sched_wakeup_new"];

/// A line with its time in nanoseconds (0 for [`Event::Lost`]); `None` for a line about something
/// else.
///
/// # Errors
/// What is wrong with a line that names one of our events.
pub(super) fn event(line: &str) -> Option<Result<(u64, Event<'_>), String>> {
    let trimmed = line.trim();
    if trimmed.starts_with('#') {
        return None;
    }
    if trimmed.starts_with("CPU:") && trimmed.contains("[LOST ") {
        return Some(Ok((0, Event::Lost)));
    }
    let (at, name, body) = WAKE_UPS
        .iter()
        .chain([&SWITCH])
        .find_map(|name| named(line, name))?;
    let event = match name {
        SWITCH => switch(body),
        _ => woken(body).map(Event::WakeUp),
    };
    Some(event.map(|event| (at, event)).ok_or_else(|| {
        let shown: String = body.chars().take(80).collect();
        format!("{shown:?} is not what {name} says")
    }))
}

/// The time, and what the event `name` says, if the line is one: the name stands behind the time and
/// its colon, and perf writes the group before it.
fn named<'a>(line: &'a str, name: &'static str) -> Option<(u64, &'static str, &'a str)> {
    line.match_indices(name).find_map(|(at, _)| {
        let body = line[at + name.len()..].strip_prefix(':')?;
        let head = line[..at].strip_suffix("sched:").unwrap_or(&line[..at]);
        let time = head.trim_end().strip_suffix(':')?;
        let time = time.rsplit(char::is_whitespace).next()?;
        Some((nanoseconds(time)?, name, body.trim()))
    })
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

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120`, or
/// `a:1 [120] S ==> b:2 [120]`.
fn switch(body: &str) -> Option<Event<'_>> {
    let (left, right) = body.split_once(" ==> ")?;
    let (from, state) = match keyed(left, "prev_") {
        Some(from) => (from, left.rsplit_once("prev_state=")?.1),
        None => (short(left)?, left.rsplit_once(' ')?.1),
    };
    let to = keyed(right, "next_").or_else(|| short(right))?;
    Some(Event::Switch {
        from,
        runnable: state.trim().starts_with('R'),
        to,
    })
}

/// `comm=a pid=1 prio=120 target_cpu=000`, or `a:1 [120] CPU:000`.
fn woken(body: &str) -> Option<Thread<'_>> {
    keyed(body, "").or_else(|| short(body))
}

/// The thread of keys with that prefix. A name may have blanks in it.
fn keyed<'a>(text: &'a str, prefix: &str) -> Option<Thread<'a>> {
    let rest = text.trim().strip_prefix(prefix)?.strip_prefix("comm=")?;
    let (comm, rest) = rest.rsplit_once(&format!(" {prefix}pid="))?;
    let pid = rest.split(char::is_whitespace).next()?.parse().ok()?;
    Some(Thread { pid, comm })
}

/// The thread of `name:pid [priority]`.
fn short(text: &str) -> Option<Thread<'_>> {
    let (thread, _) = text.trim().rsplit_once(" [")?;
    let (comm, pid) = thread.rsplit_once(':')?;
    Some(Thread {
        pid: pid.parse().ok()?,
        comm,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn switched(from: Thread<'static>, runnable: bool, to: Thread<'static>) -> Event<'static> {
        Event::Switch { from, runnable, to }
    }

    const IDLE: Thread<'_> = Thread {
        pid: 0,
        comm: "swapper/1",
    };
    const WEB: Thread<'_> = Thread {
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
            let found = event(line).unwrap().unwrap();
            assert_eq!(found, (12_345_678_000, switched(WEB, true, IDLE)), "{line}");
        }
        let asleep = trace_cmd.replace(" R+ ", " S ");
        let found = event(&asleep).unwrap().unwrap().1;
        assert!(matches!(
            found,
            Event::Switch {
                runnable: false,
                ..
            }
        ));
    }

    #[test]
    fn wake_ups_are_read_in_every_form() {
        for line in [
            "<idle>-0 [001] dNh4. 7.000001: sched_wakeup: comm=web io: x pid=123 prio=120 target_cpu=001",
            "<idle>-0 [001] dNh4. 7.000001: sched_waking: comm=web io: x pid=123 prio=120 success=1 target_cpu=001",
            "<idle>-0 [001]  7.000001: sched_wakeup_new: web io: x:123 [120] success=1 CPU:001",
            "swapper 0 [001]  7.000001: sched:sched_wakeup: web io: x:123 [120] CPU:001",
        ] {
            let found = event(line).unwrap().unwrap();
            assert_eq!(found, (7_000_001_000, Event::WakeUp(WEB)), "{line}");
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
        assert_eq!(event("CPU:1 [LOST 12 EVENTS]"), Some(Ok((0, Event::Lost))));
        for line in [
            "x-1 [000] 1.000000: sched_switch: prev_comm=x prev_pid=1",
            "x-1 [000] 1.000000: sched_wakeup: comm=x pid=-5 prio=1",
        ] {
            assert!(event(line).unwrap().is_err(), "{line}");
        }
    }
}
