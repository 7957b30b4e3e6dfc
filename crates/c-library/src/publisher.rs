//! Publishers from C.

use std::ffi::c_int;

use tailbound_pubsub::{DataOrigin, Publisher};
use tailbound_time::Instant;

use crate::handle::{self, Handle};
use crate::input;
use crate::layout::TopicLayout;
use crate::space::Space;
use crate::status::{CallFailure, call};
use crate::topic::topic;

type PublisherHandle = Handle<Publisher>;

/// Makes a publisher of a topic.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_publisher_open(
    space: *const Space,
    described: *const TopicLayout,
    place: *mut *mut PublisherHandle,
) -> c_int {
    call(|| {
        // SAFETY: the header demands NULL or a topic.
        let topic = unsafe { topic(described) }?;
        // SAFETY: the header demands NULL or an open space, and NULL or a place for a pointer.
        unsafe {
            handle::with_shared(space, |space| {
                handle::store(place, space.publisher(&topic)?)
            })
        }
    })
}

/// Publishes a message that begins a chain.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_publish(
    publisher: *const PublisherHandle,
    payload: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the header demands NULL or an open publisher, and `length` bytes.
    call(|| unsafe {
        let payload = input::bytes(payload, length, "the payload")?;
        publish(publisher, |publisher| Ok(publisher.publish(payload)?))
    })
}

/// Publishes a message that was made of others.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_publish_from(
    publisher: *const PublisherHandle,
    origin_time_ns: u64,
    payload: *const u8,
    length: usize,
) -> c_int {
    let origin = DataOrigin::at(Instant::from_nanos(origin_time_ns));
    // SAFETY: the header demands NULL or an open publisher, and `length` bytes.
    call(|| unsafe {
        let payload = input::bytes(payload, length, "the payload")?;
        publish(publisher, |publisher| {
            Ok(publisher.publish_from(origin, payload)?)
        })
    })
}

/// Publishes the new value of an instance; without an origin time the message begins a chain.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_publish_instance(
    publisher: *const PublisherHandle,
    key: *const u8,
    key_length: usize,
    origin_time_ns: *const u64,
    payload: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the header demands NULL or an open publisher, NULL or a number, and bytes of these lengths.
    call(|| unsafe {
        let key = input::bytes(key, key_length, "the key")?;
        let payload = input::bytes(payload, length, "the payload")?;
        let origin = match origin_time_ns.is_null() {
            true => None,
            false => {
                let time_ns = *input::reference(origin_time_ns, "the origin time")?;
                Some(DataOrigin::at(Instant::from_nanos(time_ns)))
            }
        };
        publish(publisher, |publisher| {
            Ok(publisher.publish_instance(key, origin, payload)?)
        })
    })
}

/// Says that an instance is gone.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_dispose(
    publisher: *const PublisherHandle,
    key: *const u8,
    key_length: usize,
) -> c_int {
    // SAFETY: the header demands NULL or an open publisher, and `key_length` bytes.
    call(|| unsafe {
        let key = input::bytes(key, key_length, "the key")?;
        publish(publisher, |publisher| Ok(publisher.dispose(key)?))
    })
}

/// Says that the publisher lives.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_assert_liveliness(publisher: *const PublisherHandle) -> c_int {
    // SAFETY: the header demands NULL or an open publisher.
    call(|| unsafe { publish(publisher, |publisher| Ok(publisher.assert_liveliness()?)) })
}

/// The number of the publisher in its messages; 0 of NULL, or while another call uses it.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_publisher_source(publisher: *const PublisherHandle) -> u64 {
    let mut source = 0;
    let read = |publisher: &mut Publisher| {
        source = publisher.source();
        Ok(0)
    };
    // SAFETY: the header demands NULL or an open publisher.
    call(|| unsafe { handle::with(publisher, read) });
    source
}

/// Ends a publisher, which says farewell.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_publisher_close(publisher: *mut PublisherHandle) -> c_int {
    // SAFETY: the header demands NULL or an open publisher.
    unsafe { handle::close(publisher) }
}

/// # Safety
/// As of [`handle::with`].
unsafe fn publish(
    publisher: *const PublisherHandle,
    body: impl FnOnce(&mut Publisher) -> Result<(), CallFailure>,
) -> Result<c_int, CallFailure> {
    // SAFETY: as promised.
    unsafe { handle::with(publisher, |publisher| body(publisher).map(|()| 0)) }
}
