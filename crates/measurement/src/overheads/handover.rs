//! What it costs that one thread wakes another and sleeps: a byte to and fro through pipes.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::thread;

use tailbound_linux::clock::MonotonicRaw;
use tailbound_time::{Clock, Duration};

use super::partner::{self, refused};
use super::series::Cost;
use super::turns::in_turns;
use crate::MeasurementError;

/// One way of a byte to and fro between two threads on the CPU of the calling one, beyond what writing
/// it and reading it costs one thread: a wake-up, a sleep, and the switch.
///
/// With a `priority` above zero the other thread has it.
pub(super) fn one_way(length: Duration, priority: u8) -> Result<Option<Cost>, MeasurementError> {
    let (own_end, own_begin) = pipe().map_err(refused("make a pipe"))?;
    let (there_end, there_begin) = pipe().map_err(refused("make a pipe"))?;
    let (back_end, back_begin) = pipe().map_err(refused("make a pipe"))?;
    thread::scope(|scope| {
        partner::start(scope, priority, || answer(there_end, back_begin))?;
        let mut by_itself = || pass(&own_begin, &own_end);
        let mut to_and_fro = || pass(&there_begin, &back_end);
        let outcome = in_turns(length, [&mut by_itself, &mut to_and_fro]);
        // It reads the end of the file, and ends.
        drop(there_begin);
        let [by_itself, to_and_fro] = outcome?;
        Ok(Cost::between(&to_and_fro.divided(2), &by_itself))
    })
}

/// Sends back whatever comes, until nothing more can come.
fn answer(mut from: PipeReader, mut to: PipeWriter) {
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() && to.write_all(&byte).is_ok() {}
}

fn pass(mut to: &PipeWriter, mut from: &PipeReader) -> Result<Duration, MeasurementError> {
    let mut byte = [1];
    let begin = MonotonicRaw.now();
    to.write_all(&byte).map_err(refused("write to a pipe"))?;
    from.read_exact(&mut byte)
        .map_err(refused("read from a pipe"))?;
    Ok(MonotonicRaw.now().saturating_since(begin))
}
