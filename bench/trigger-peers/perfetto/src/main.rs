//! Nanoseconds per event of Perfetto's SDK with two numbers, off and recording in the process, as `trigger_cost` has them
//! of triggers: the median over rounds of the time of a loop with the event less that of the loop without.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use perfetto_sdk::heap_buffer::HeapBuffer;
use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use perfetto_sdk::protos::config::trace_config::{
    TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource,
};
use perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
use perfetto_sdk::tracing_session::TracingSession;
use perfetto_sdk::track_event::{EventContext, TrackEvent, TrackEventDebugArg};
use perfetto_sdk::{track_event_categories, track_event_instant};

track_event_categories! {
    pub mod cost_categories {
        ( "cost", "Events whose time is measured", [] ),
    }
}

use cost_categories as perfetto_te_ns;

/// Events of a loop that is measured while nothing is recorded, and while something is.
const EVENTS_OFF: u64 = 1 << 16;
const EVENTS_ON: u64 = 1 << 12;
const ROUNDS: usize = 101;
/// KiB of the buffer, which overwrites its oldest events.
const BUFFER_KIB: u32 = 64 << 10;

#[inline(never)]
fn empty_loop(events: u64) {
    for number in 0..events {
        black_box(number);
    }
}

#[inline(never)]
fn event_loop(events: u64) {
    for number in 0..events {
        track_event_instant!("cost", "two", |context: &mut EventContext| {
            context.add_debug_arg("number", TrackEventDebugArg::Int64(number.cast_signed()));
            context.add_debug_arg("two", TrackEventDebugArg::Int64(1));
        });
        black_box(number);
    }
}

fn ns(act: fn(u64), events: u64) -> f64 {
    let before = Instant::now();
    act(events);
    before.elapsed().as_nanos() as f64 / events as f64
}

fn cost(events: u64) -> f64 {
    let mut differences: Vec<f64> = (0..ROUNDS)
        .map(|_| ns(event_loop, events) - ns(empty_loop, events))
        .collect();
    differences.sort_by(f64::total_cmp);
    differences[ROUNDS / 2]
}

/// The configuration of a session that records the events of this program.
fn configuration() -> Result<Vec<u8>, Box<dyn Error>> {
    let writer = PbMsgWriter::new();
    let heap = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).map_err(|_| "no message")?;
    {
        let mut trace = TraceConfig { msg: &mut message };
        trace.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
            buffer.set_size_kb(BUFFER_KIB);
        });
        trace.set_data_sources(|sources: &mut TraceConfigDataSource| {
            sources.set_config(|source: &mut DataSourceConfig| {
                source.set_name("track_event");
                source.set_track_event_config(|events: &mut TrackEventConfig| {
                    events.set_enabled_categories("cost");
                });
            });
        });
    }
    message.finalize();
    let mut bytes = vec![0; writer.stream_writer().get_written_size()];
    heap.copy_into(&mut bytes);
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = ProducerInitArgsBuilder::new().backends(Backends::IN_PROCESS);
    Producer::init(arguments.build());
    TrackEvent::init();
    perfetto_te_ns::register()?;
    println!("perfetto SDK, off\t{:.2}", cost(EVENTS_OFF));
    let mut session = TracingSession::in_process()?;
    session.setup(&configuration()?);
    session.start_blocking();
    println!("perfetto SDK, on\t{:.2}", cost(EVENTS_ON));
    session.stop_blocking();
    let recorded = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let sum = recorded.clone();
    session.read_trace_blocking(move |data, _| {
        sum.fetch_add(data.len(), std::sync::atomic::Ordering::Relaxed);
    });
    let bytes = recorded.load(std::sync::atomic::Ordering::Relaxed);
    assert!(bytes > EVENTS_ON as usize, "{bytes} bytes were recorded");
    Ok(())
}
