//! The border itself: panics, handles in use, numbers that stand for nothing.
#![allow(clippy::unwrap_used)]

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use proptest::prelude::*;
use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{DataSpace, InProcess};

use crate::handle;
use crate::layout::{ContractLayout, QualityLayout, TopicLayout};
use crate::status::{CallFailure, Status, call};
use crate::topic::topic;

/// The text of the last failure of this thread.
fn last_error() -> String {
    // SAFETY: the text lives until the next failure.
    let text = unsafe { CStr::from_ptr(crate::status::tailbound_last_error()) };
    text.to_str().unwrap().to_owned()
}

#[test]
fn a_panic_becomes_a_status_and_spoils_its_handle_alone() {
    let mut place = std::ptr::null_mut();
    // SAFETY: handles come from `store`, and are closed once.
    unsafe {
        assert_eq!(call(|| handle::store(&raw mut place, 1)), 0);
        let first = call(|| handle::with(place, |_: &mut i32| panic!("number {}", 7)));
        assert_eq!(first, Status::Internal as c_int);
        assert_eq!(last_error(), "error of the library: number 7");
        let second = call(|| handle::with(place, |value| Ok(*value)));
        assert_eq!(second, Status::Internal as c_int);
        assert!(
            last_error().contains("close the handle"),
            "{}",
            last_error()
        );
        assert_eq!(handle::close(place), 0);
    }
}

#[test]
fn a_handle_in_use_is_refused_and_stays_open() {
    let mut place = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        assert_eq!(call(|| handle::store(&raw mut place, 5)), 0);
        let outer = call(|| {
            handle::with(place, |_| {
                let inner = call(|| handle::with(place, |value| Ok(*value)));
                assert_eq!(inner, Status::Busy as c_int);
                assert_eq!(handle::close(place), Status::Busy as c_int);
                Ok(3)
            })
        });
        assert_eq!(outer, 3);
        assert_eq!(call(|| handle::with(place, |value| Ok(*value))), 5);
        assert_eq!(handle::close(place), 0);
        assert_eq!(
            handle::close(std::ptr::null_mut::<handle::Handle<i32>>()),
            0
        );
        assert_eq!(
            call(|| handle::store(std::ptr::null_mut(), 1)),
            Status::Invalid as c_int
        );
    }
}

#[test]
fn the_text_of_a_failure_belongs_to_its_thread_and_has_no_zero_within() {
    let fails = || call(|| Err(CallFailure::invalid("a\0b")));
    assert_eq!(fails(), Status::Invalid as c_int);
    assert_eq!(last_error(), "a b");
    let of_another = std::thread::spawn(last_error).join().unwrap();
    assert_eq!(of_another, "");
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..4, Just(1_000_000), Just(u64::MAX), any::<u64>()]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..5, Just(65_536), any::<u32>()]
}

fn topics() -> impl Strategy<Value = TopicLayout> {
    let size = size_of::<TopicLayout>();
    let sizes = prop_oneof![4 => Just(size), 1 => any::<usize>()];
    let longest = prop_oneof![0_usize..300, Just(16 << 20), any::<usize>()];
    let quality = (small(), small(), number(), number(), number());
    let contract = (small(), small(), number(), number(), number());
    (sizes, longest, small(), small(), quality, contract).prop_map(
        |(struct_size, longest, publishers, subscribers, quality, contract)| TopicLayout {
            struct_size,
            name: c"people".as_ptr(),
            type_name: c"bytes".as_ptr(),
            longest,
            publishers,
            subscribers,
            quality: QualityLayout {
                history: quality.0,
                reliability: quality.1,
                deadline_ns: quality.2,
                lifespan_ns: quality.3,
                lease_ns: quality.4,
            },
            contract: ContractLayout {
                messages: contract.0,
                violation: contract.1,
                bytes: contract.2,
                interval_ns: contract.3,
                least_distance_ns: contract.4,
            },
        },
    )
}

proptest! {
    /// Whatever numbers stand in a topic, they are refused with a reason, or messages pass; nothing panics or takes all memory.
    #[test]
    fn numbers_that_stand_for_nothing_are_refused(layout in topics()) {
        let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
        // SAFETY: the topic is one, with texts that live as long as the program.
        let topic = match unsafe { topic(&raw const layout) } {
            Ok(topic) => topic,
            Err(failure) => {
                prop_assert_eq!(failure.status, Status::Invalid);
                prop_assert!(!failure.text.is_empty());
                return Ok(());
            }
        };
        let (Ok(mut subscriber), Ok(mut publisher)) = (space.subscriber(&topic), space.publisher(&topic)) else {
            return Ok(());
        };
        let _ = publisher.publish(b"a");
        let _ = publisher.publish(b"b");
        let _ = subscriber.wait(Some(tailbound_time::Duration::ZERO));
        while subscriber.take(|_| {}).unwrap() {}
        while subscriber.take_event().is_some() {}
    }
}
