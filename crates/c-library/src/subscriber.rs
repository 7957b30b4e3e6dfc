//! Subscribers from C: polling, waiting, and a thread that calls back.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread::ThreadId;

use tailbound_pubsub::messages::{Breach, ReceptionCounts, SubscriberEvent};
use tailbound_pubsub::{IncomingMessage, Subscriber, SubscriberThread};
use tailbound_time::Duration;

use crate::handle::{self, Handle};
use crate::input;
use crate::layout::{CountsLayout, MessageLayout, SubscriberEventLayout, TopicLayout};
use crate::space::Space;
use crate::status::{CallFailure, Status, call};
use crate::topic::topic;

/// A subscriber with the longest payload of its topic.
pub(crate) struct BoundedSubscriber {
    subscriber: Subscriber,
    longest: usize,
}

type SubscriberHandle = Handle<BoundedSubscriber>;

/// A thread that calls back, and its number once it has called.
pub(crate) struct CallbackThread {
    thread: SubscriberThread,
    number: Arc<OnceLock<ThreadId>>,
}

type ThreadHandle = Handle<CallbackThread>;

type MessageFunction = unsafe extern "C" fn(context: *mut c_void, message: *const MessageLayout);
type EventFunction =
    unsafe extern "C" fn(context: *mut c_void, event: *const SubscriberEventLayout);

/// Makes a subscriber of a topic.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_subscriber_open(
    space: *const Space,
    described: *const TopicLayout,
    place: *mut *mut SubscriberHandle,
) -> c_int {
    call(|| {
        // SAFETY: the header demands NULL or a topic.
        let topic = unsafe { topic(described) }?;
        let open = |space: &mut tailbound_pubsub::DataSpace| {
            let bounded = BoundedSubscriber {
                subscriber: space.subscriber(&topic)?,
                longest: topic.longest,
            };
            // SAFETY: the header demands NULL or a place for a pointer.
            unsafe { handle::store(place, bounded) }
        };
        // SAFETY: the header demands NULL or an open space.
        unsafe { handle::with_shared(space, open) }
    })
}

/// Shows the next message to a function, if one waits: 1, or 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_take(
    subscriber: *const SubscriberHandle,
    visit: Option<MessageFunction>,
    context: *mut c_void,
) -> c_int {
    call(|| {
        let visit =
            visit.ok_or_else(|| CallFailure::invalid("the function for messages is NULL"))?;
        let take = |bounded: &mut BoundedSubscriber| {
            let taken = bounded.subscriber.take(|message| {
                // SAFETY: the header demands a function for this context.
                unsafe { visit(context, &layout_of(message)) };
            })?;
            Ok(c_int::from(taken))
        };
        // SAFETY: the header demands NULL or an open subscriber.
        unsafe { handle::with(subscriber, take) }
    })
}

/// Copies the next message, if one waits: 1, or 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_take_copy(
    subscriber: *const SubscriberHandle,
    room: *mut u8,
    room_length: usize,
    message: *mut MessageLayout,
) -> c_int {
    call(|| {
        if room.is_null() || message.is_null() {
            let text = "the room for the payload, or the place of the message, is NULL";
            return Err(CallFailure::invalid(text));
        }
        let take = |bounded: &mut BoundedSubscriber| {
            if room_length < bounded.longest {
                let text = format!(
                    "there is room for {room_length} bytes, and a message of the topic may have {}",
                    bounded.longest
                );
                return Err(CallFailure::new(Status::TooLong, text));
            }
            let taken = bounded.subscriber.take(|incoming| {
                let mut copy = layout_of(incoming);
                // SAFETY: a payload is no longer than its topic admits, and the header demands so much room.
                unsafe { room.copy_from(copy.payload, copy.length) };
                copy.payload = room;
                // SAFETY: the header demands a place for a message.
                unsafe { message.write(copy) };
            })?;
            Ok(c_int::from(taken))
        };
        // SAFETY: the header demands NULL or an open subscriber.
        unsafe { handle::with(subscriber, take) }
    })
}

/// Waits for a message or an event: 1, or 0 after the limit; without end if the limit is negative.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_wait(subscriber: *const SubscriberHandle, limit_ns: i64) -> c_int {
    let limit = u64::try_from(limit_ns).ok().map(Duration::from_nanos);
    let wait = |bounded: &mut BoundedSubscriber| Ok(c_int::from(bounded.subscriber.wait(limit)?));
    // SAFETY: the header demands NULL or an open subscriber.
    call(|| unsafe { handle::with(subscriber, wait) })
}

/// Takes the next event, if there is one: 1, or 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_take_event(
    subscriber: *const SubscriberHandle,
    place: *mut SubscriberEventLayout,
) -> c_int {
    call(|| {
        if place.is_null() {
            return Err(CallFailure::invalid("the place of the event is NULL"));
        }
        let take = |bounded: &mut BoundedSubscriber| {
            let Some(event) = bounded.subscriber.take_event() else {
                return Ok(0);
            };
            // SAFETY: the header demands a place for an event.
            unsafe { input::write(place, event_layout(&event), "the event") }.map(|()| 1)
        };
        // SAFETY: the header demands NULL or an open subscriber.
        unsafe { handle::with(subscriber, take) }
    })
}

/// Copies the counts of messages so far.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_subscriber_counts(
    subscriber: *const SubscriberHandle,
    place: *mut CountsLayout,
) -> c_int {
    let read = |bounded: &mut BoundedSubscriber| {
        let counts = counts_layout(bounded.subscriber.counts());
        // SAFETY: the header demands NULL or a place for counts.
        unsafe { input::write(place, counts, "the counts") }.map(|()| 0)
    };
    // SAFETY: the header demands NULL or an open subscriber.
    call(|| unsafe { handle::with(subscriber, read) })
}

/// Starts a thread that calls back; the subscriber belongs to the thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_subscriber_start(
    subscriber: *mut SubscriberHandle,
    on_message: Option<MessageFunction>,
    on_event: Option<EventFunction>,
    context: *mut c_void,
    place: *mut *mut ThreadHandle,
) -> c_int {
    call(|| {
        let on_message =
            on_message.ok_or_else(|| CallFailure::invalid("the function for messages is NULL"))?;
        if place.is_null() {
            return Err(CallFailure::invalid(
                "there is no place for the thread: NULL",
            ));
        }
        let number = Arc::new(OnceLock::new());
        let callbacks = Callbacks {
            on_message,
            on_event,
            context,
            number: Arc::clone(&number),
        };
        let callbacks = Arc::new(callbacks);
        let for_events = Arc::clone(&callbacks);
        // SAFETY: the header demands NULL or an open subscriber, which the caller gives away.
        let bounded = unsafe { handle::take(subscriber) }?;
        let thread = bounded.subscriber.on_message(
            move |message| callbacks.message(message),
            move |event| for_events.event(event),
        );
        let thread = thread.map_err(|error| {
            CallFailure::new(
                Status::Refused,
                format!("the kernel gives no thread: {error}"),
            )
        })?;
        // SAFETY: the place is there, and the header demands that a pointer may be written to it.
        unsafe { handle::store(place, CallbackThread { thread, number }) }
    })
}

/// Ends a thread that calls back, after the callback that runs.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_subscriber_stop(thread: *mut ThreadHandle) -> c_int {
    call(|| {
        if thread.is_null() {
            return Ok(0);
        }
        let check = |thread: &mut CallbackThread| match thread.number.get()
            == Some(&std::thread::current().id())
        {
            true => Err(CallFailure::new(
                Status::Busy,
                "a callback cannot end its own thread",
            )),
            false => Ok(0),
        };
        // SAFETY: the header demands NULL or a thread that was not stopped.
        let ended = unsafe {
            handle::with(thread, check)?;
            handle::take(thread)
        }?;
        Ok(ended.thread.end().map(|()| 0)?)
    })
}

/// Ends a subscriber.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_subscriber_close(subscriber: *mut SubscriberHandle) -> c_int {
    // SAFETY: the header demands NULL or an open subscriber.
    unsafe { handle::close(subscriber) }
}

/// The functions of a thread, with the context that is passed to them.
struct Callbacks {
    on_message: MessageFunction,
    on_event: Option<EventFunction>,
    context: *mut c_void,
    number: Arc<OnceLock<ThreadId>>,
}

// SAFETY: the header demands functions and a context that another thread may use.
unsafe impl Send for Callbacks {}
// SAFETY: as above; one thread alone calls.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn message(&self, message: &IncomingMessage<'_>) {
        self.number.get_or_init(|| std::thread::current().id());
        // SAFETY: the header demands a function for this context.
        unsafe { (self.on_message)(self.context, &layout_of(message)) };
    }

    fn event(&self, event: &SubscriberEvent) {
        self.number.get_or_init(|| std::thread::current().id());
        if let Some(on_event) = self.on_event {
            // SAFETY: as above.
            unsafe { on_event(self.context, &event_layout(event)) };
        }
    }
}

fn layout_of(message: &IncomingMessage<'_>) -> MessageLayout {
    MessageLayout {
        payload: message.payload.as_ptr(),
        length: message.payload.len(),
        source: message.header.source,
        sequence: message.header.sequence,
        instance: message.header.instance,
        source_time_ns: message.header.source_time.as_nanos(),
        origin_time_ns: message.header.origin_time.as_nanos(),
        arrival_time_ns: message.arrival.as_nanos(),
        disposes: u32::from(message.disposes()),
    }
}

fn event_layout(event: &SubscriberEvent) -> SubscriberEventLayout {
    let (kind, source, count, breach) = match *event {
        SubscriberEvent::Appeared { source } => (1, source, 1, 0),
        SubscriberEvent::MessagesLost { source, messages } => (2, source, messages, 0),
        SubscriberEvent::ContractBroken {
            source,
            messages,
            breach,
        } => (3, source, messages, breach_number(breach)),
        SubscriberEvent::DeadlineMissed { source, times } => (4, source, times, 0),
        SubscriberEvent::PublisherLost { source } => (5, source, 1, 0),
        SubscriberEvent::PublisherEnded { source } => (6, source, 1, 0),
    };
    SubscriberEventLayout {
        kind,
        breach,
        source,
        count,
    }
}

fn breach_number(breach: Breach) -> u32 {
    match breach {
        Breach::Messages => 1,
        Breach::Bytes => 2,
        Breach::Distance => 3,
    }
}

fn counts_layout(counts: ReceptionCounts) -> CountsLayout {
    let ReceptionCounts {
        delivered,
        signs,
        lost,
        held_back,
        dropped,
        of_other_topics,
        too_long,
        of_strangers,
        repeated,
        expired,
        garbage,
    } = counts;
    CountsLayout {
        delivered,
        signs,
        lost,
        held_back,
        dropped,
        of_other_topics,
        too_long,
        of_strangers,
        repeated,
        expired,
        garbage,
    }
}
