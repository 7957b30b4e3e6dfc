//! Topics from C.

use std::ffi::{c_char, c_int};

use tailbound_pubsub::Topic;
use tailbound_pubsub::messages::{Contract, ExcessRule, Liveliness, Quality, Reliability};
use tailbound_time::Duration;

use crate::input;
use crate::layout::{ContractLayout, QualityLayout, TopicLayout};
use crate::status::{CallFailure, call};

/// Fills a topic with the defaults: for one publisher and one subscriber, without a contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_topic_init(
    topic: *mut TopicLayout,
    name: *const c_char,
    type_name: *const c_char,
    longest: usize,
) -> c_int {
    let filled = TopicLayout {
        struct_size: size_of::<TopicLayout>(),
        name,
        type_name,
        longest,
        publishers: 1,
        subscribers: 1,
        quality: QualityLayout::default(),
        contract: ContractLayout::default(),
    };
    // SAFETY: the header demands NULL or a place for a topic.
    call(|| unsafe { input::write(topic, filled, "the topic") }.map(|()| 0))
}

/// The topic that a structure describes.
///
/// # Safety
/// `topic` is null or leads to a topic whose texts end with a zero.
pub(crate) unsafe fn topic(topic: *const TopicLayout) -> Result<Topic, CallFailure> {
    // SAFETY: as promised.
    let layout = unsafe { input::reference(topic, "the topic") }?;
    if layout.struct_size != size_of::<TopicLayout>() {
        return Err(CallFailure::invalid(format!(
            "the topic has a struct_size of {} in place of {}: fill it by tailbound_topic_init, and compile with the \
             header of this library",
            layout.struct_size,
            size_of::<TopicLayout>()
        )));
    }
    // SAFETY: as promised.
    let (name, type_name) = unsafe {
        let name = input::text(layout.name, "the name of the topic")?;
        (name, input::text(layout.type_name, "the name of the type")?)
    };
    if name.is_empty() {
        return Err(CallFailure::invalid("the topic has an empty name"));
    }
    if layout.longest == 0 || layout.publishers == 0 || layout.subscribers == 0 {
        let text = format!(
            "topic `{name}` has room for messages of {} bytes, {} publishers and {} subscribers: write at least 1 of each",
            layout.longest, layout.publishers, layout.subscribers
        );
        return Err(CallFailure::invalid(text));
    }
    Ok(Topic {
        publishers: layout.publishers,
        subscribers: layout.subscribers,
        quality: quality(&layout.quality)?,
        contract: contract(&layout.contract)?,
        ..Topic::new(name, type_name, layout.longest)
    })
}

fn some_time(length_ns: u64) -> Option<Duration> {
    (length_ns > 0).then(|| Duration::from_nanos(length_ns))
}

fn quality(layout: &QualityLayout) -> Result<Quality, CallFailure> {
    let reliability = match layout.reliability {
        0 => Reliability::BestEffort,
        1 => Reliability::Reliable,
        other => return Err(unknown("reliability", other)),
    };
    let lease = some_time(layout.lease_ns);
    Ok(Quality {
        history: layout.history.max(1),
        reliability,
        deadline: some_time(layout.deadline_ns),
        lifespan: some_time(layout.lifespan_ns),
        liveliness: lease.map(|lease| Liveliness { lease }),
    })
}

fn contract(layout: &ContractLayout) -> Result<Option<Contract>, CallFailure> {
    if *layout == ContractLayout::default() {
        return Ok(None);
    }
    let violation = match layout.violation {
        0 => ExcessRule::Drop,
        1 => ExcessRule::HoldBack,
        other => return Err(unknown("violation", other)),
    };
    Ok(Some(Contract {
        messages: layout.messages,
        bytes: (layout.bytes > 0).then_some(layout.bytes),
        interval: Duration::from_nanos(layout.interval_ns),
        least_distance: Duration::from_nanos(layout.least_distance_ns),
        violation,
    }))
}

fn unknown(field: &str, number: u32) -> CallFailure {
    CallFailure::invalid(format!("{field} is {number}; write 0 or 1"))
}
