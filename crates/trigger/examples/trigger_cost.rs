//! Nanoseconds per trigger: off, on, and recording, beside the same loop without one and beside the crate `tracing`.
//!
//! Prints lines `NAME<TAB>NS`: the median over rounds of the time of a loop with the trigger less that of the loop
//! without in the same round. `a loop against itself` is the precision of that.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use tailbound_trigger::layout::RecordingLayout;
use tailbound_trigger::site::TriggerSite;
use tailbound_trigger::{RecordingReader, call, disable, enable, record_into, stop, trigger};

/// Iterations of a loop. A ring has room for as many events.
const EVENTS: u64 = 1 << 16;
const ROUNDS: usize = 301;

#[inline(never)]
fn empty_loop() {
    for number in 0..EVENTS {
        black_box(number);
    }
}

#[inline(never)]
fn trigger_loop() {
    for number in 0..EVENTS {
        trigger!("cost.two", number, 1);
        black_box(number);
    }
}

#[inline(never)]
fn tracing_loop() {
    for number in 0..EVENTS {
        tracing::trace!(number, two = 1);
        black_box(number);
    }
}

fn ns(act: fn()) -> f64 {
    let before = Instant::now();
    act();
    before.elapsed().as_nanos() as f64 / EVENTS as f64
}

/// The median of the difference of two loops, whose order alternates.
fn cost(act: fn(), mut between: impl FnMut()) -> f64 {
    let mut differences: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            let (with, without) = if round % 2 == 0 {
                (ns(act), ns(empty_loop))
            } else {
                let without = ns(empty_loop);
                (ns(act), without)
            };
            between();
            with - without
        })
        .collect();
    differences.sort_by(f64::total_cmp);
    differences[ROUNDS / 2]
}

fn recorded_cost(rings: u32) -> f64 {
    let layout = RecordingLayout {
        rings,
        slots: EVENTS as u32,
        ..RecordingLayout::default()
    };
    let file = layout.anonymous_file().unwrap();
    record_into(&file).unwrap();
    enable("cost.*").unwrap();
    let mut reader = RecordingReader::open(&file).unwrap();
    let mut events = 0_u64;
    let cost = cost(trigger_loop, || reader.drain(|_| events += 1));
    disable("cost.*").unwrap();
    stop();
    assert_eq!((events, reader.lost()), (EVENTS * ROUNDS as u64, 0));
    cost
}

extern "C" fn nothing(_: &TriggerSite, _: *const u64, _: u32) {}

/// A subscriber that takes every event and keeps none.
struct Ignorant;

impl tracing::Subscriber for Ignorant {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn main() {
    let row = |name: &str, ns: f64| println!("{name}\t{ns:.2}");
    row("a loop against itself", cost(empty_loop, || ()));
    row("trigger, off", cost(trigger_loop, || ()));
    row("crate tracing, off", cost(tracing_loop, || ()));
    call("cost.*", nothing).unwrap();
    row(
        "trigger, calls an empty function",
        cost(trigger_loop, || ()),
    );
    disable("cost.*").unwrap();
    row("trigger, records, one buffer per thread", recorded_cost(2));
    row(
        "trigger, records, one buffer for all threads",
        recorded_cost(1),
    );
    row("trigger, off again", cost(trigger_loop, || ()));
    tracing::subscriber::set_global_default(Ignorant).unwrap();
    row(
        "crate tracing, on, records nothing",
        cost(tracing_loop, || ()),
    );
}
