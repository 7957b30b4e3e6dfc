//! The cost of one event of the kernel, measured on this host.

use std::io;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::own_thread;
use tailbound_linux::system_calls::number_of;
use tailbound_linux::tracefs::TraceInstance;
use tailbound_time::{Clock, Duration};

use crate::setup::CALL_EVENTS;

/// System calls of one measurement.
const CALLS: u32 = 200;
/// Measurements with and without events; the least of each counts, which interrupts touch least.
const ROUNDS: usize = 20;

/// Measures one event of the kernel by system calls of this thread, with and without events of their entry
/// and exit, in an instance that records nothing else.
///
/// # Errors
/// What the kernel says.
pub(crate) fn measure_event_cost(instance: &TraceInstance) -> io::Result<Option<Duration>> {
    let Some(number) = number_of("sched_yield") else {
        return Ok(None);
    };
    instance.write("set_event_pid", &own_thread().to_string())?;
    for event in CALL_EVENTS {
        instance.write(&format!("events/{event}/filter"), &format!("id=={number}"))?;
    }
    let switch = |on: &str| {
        let events = CALL_EVENTS.into_iter();
        let mut switched =
            events.map(|event| instance.write(&format!("events/{event}/enable"), on));
        switched.try_for_each(|outcome| outcome)
    };
    instance.write("tracing_on", "1")?;
    let (mut without, mut with) = (Duration::from_secs(1), Duration::from_secs(1));
    for _ in 0..ROUNDS {
        without = without.min(timed());
        switch("1")?;
        with = with.min(timed());
        switch("0")?;
    }
    instance.write("tracing_on", "0")?;
    instance.write("trace", "")?;
    for event in CALL_EVENTS {
        instance.write(&format!("events/{event}/filter"), "0")?;
    }
    instance.write("set_event_pid", "")?;
    // An entry and an exit each. A CPU that others keep busy may have let no round alone: then nothing is known.
    let events = u64::from(CALLS) * 2;
    let difference = with.checked_sub(without);
    Ok(difference
        .filter(|difference| !difference.is_zero())
        .map(|difference| difference.scaled_up(1, events)))
}

fn timed() -> Duration {
    let start = Monotonic.now();
    for _ in 0..CALLS {
        std::thread::yield_now();
    }
    Monotonic.now().saturating_since(start)
}
