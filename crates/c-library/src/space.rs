//! Data spaces from C.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{
    DataSpace, InProcess, SharedClock, Transport, Udp, UdpRoute, WallClock, named_transport,
    transport_feature,
};

use crate::handle::{self, Handle};
use crate::input;
use crate::layout::{UdpRouteLayout, ZeroMqRouteLayout};
use crate::status::{CallFailure, call};

pub(crate) type Space = Handle<DataSpace>;

/// Opens a data space between the threads of this process.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_in_process(place: *mut *mut Space) -> c_int {
    let space = || over(InProcess::default(), Arc::new(Monotonic));
    // SAFETY: the header demands NULL or a place for a pointer.
    call(|| unsafe { handle::store(place, space()) })
}

/// Opens a data space over multicast datagrams.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_udp_multicast(
    interface: *const c_char,
    port: u16,
    hops: u32,
    clock: c_int,
    place: *mut *mut Space,
) -> c_int {
    call(|| {
        let clock = clock_of(clock)?;
        // SAFETY: the header demands NULL or a text that ends with a zero.
        let interface: Ipv4Addr = unsafe { address(interface, "the interface") }?;
        if port == 0 || hops == 0 || hops > 255 {
            let text = format!(
                "port {port} and {hops} hops: write a port from 1 to 65535, and 1 to 255 hops"
            );
            return Err(CallFailure::invalid(text));
        }
        let transport = Udp::multicast(interface, port).with_hops(hops);
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, over(transport, clock)) }
    })
}

/// Opens a data space over datagrams to addresses.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_udp_unicast(
    routes: *const UdpRouteLayout,
    count: usize,
    clock: c_int,
    place: *mut *mut Space,
) -> c_int {
    call(|| {
        let clock = clock_of(clock)?;
        // SAFETY: the header demands `count` routes.
        let layouts = unsafe { input::array(routes, count, "the list of routes") }?;
        let mut routes = BTreeMap::new();
        for layout in layouts {
            // SAFETY: the header demands NULL or a text, and `peer_count` texts.
            let (topic, listen, peers) = unsafe {
                let topic = input::text(layout.topic, "the topic of a route")?;
                let listen = match layout.listen.is_null() {
                    true => None,
                    false => Some(address(layout.listen, "the address to listen at")?),
                };
                let peers = addresses(layout.peers, layout.peer_count, "the address of a peer")?;
                (topic.to_owned(), listen, peers)
            };
            routes.insert(topic, UdpRoute { listen, peers });
        }
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, over(Udp::unicast(routes), clock)) }
    })
}

/// Opens a data space over shared memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_shared_memory(
    name: *const c_char,
    place: *mut *mut Space,
) -> c_int {
    call(|| {
        // SAFETY: the header demands NULL or a text that ends with a zero.
        let name = unsafe { input::text(name, "the name of the data space") }?;
        let space = shared_memory(name)?;
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, space) }
    })
}

/// Opens a data space over ZeroMQ on this host.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_zeromq_on_host(
    name: *const c_char,
    clock: c_int,
    place: *mut *mut Space,
) -> c_int {
    call(|| {
        let clock = clock_of(clock)?;
        // SAFETY: the header demands NULL or a text that ends with a zero.
        let name = unsafe { input::text(name, "the name of the data space") }?;
        let space = zero_mq_on_host(name, clock)?;
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, space) }
    })
}

/// Opens a data space over ZeroMQ by TCP.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_zeromq_tcp(
    routes: *const ZeroMqRouteLayout,
    count: usize,
    clock: c_int,
    place: *mut *mut Space,
) -> c_int {
    call(|| {
        let clock = clock_of(clock)?;
        // SAFETY: the header demands `count` routes.
        let layouts = unsafe { input::array(routes, count, "the list of routes") }?;
        // SAFETY: the header demands texts, and as many as the counts say.
        let space = unsafe { zero_mq_over_tcp(layouts, clock) }?;
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, space) }
    })
}

/// Opens a data space by the name of its transport and its address, as descriptions have both.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_open_named(
    transport: *const c_char,
    address: *const c_char,
    clock: c_int,
    place: *mut *mut Space,
) -> c_int {
    call(|| {
        let clock = clock_of(clock)?;
        // SAFETY: the header demands NULL or texts that end with a zero.
        let (transport, address) = unsafe {
            (
                input::text(transport, "the name of the transport")?,
                input::text(address, "the address of the data space")?,
            )
        };
        let opened = named_transport(transport, address).ok_or_else(|| unnamed(transport))??;
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, DataSpace::over(opened, clock)) }
    })
}

/// Closes a data space.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_space_close(space: *mut Space) -> c_int {
    // SAFETY: the header demands NULL or an open space.
    unsafe { handle::close(space) }
}

fn over(transport: impl Transport + 'static, clock: SharedClock) -> DataSpace {
    DataSpace::over(Box::new(transport), clock)
}

fn clock_of(number: c_int) -> Result<SharedClock, CallFailure> {
    match number {
        0 => Ok(Arc::new(Monotonic)),
        1 => Ok(Arc::new(WallClock)),
        other => Err(CallFailure::invalid(format!(
            "clock {other}: write TAILBOUND_CLOCK_MONOTONIC or TAILBOUND_CLOCK_WALL"
        ))),
    }
}

/// An address in a text.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn address<T: FromStr>(text: *const c_char, subject: &str) -> Result<T, CallFailure> {
    // SAFETY: as promised.
    let text = unsafe { input::text(text, subject) }?;
    text.parse().map_err(|_| {
        CallFailure::invalid(format!(
            "{subject} is \"{text}\"; write an IPv4 address such as 127.0.0.1, with a port where one is needed, such as \
             127.0.0.1:7400"
        ))
    })
}

/// Addresses in texts.
///
/// # Safety
/// `first` is null or leads to `count` texts, each null or with a zero at its end.
unsafe fn addresses<T: FromStr>(
    first: *const *const c_char,
    count: usize,
    subject: &str,
) -> Result<Vec<T>, CallFailure> {
    // SAFETY: as promised.
    let texts = unsafe { input::array(first, count, subject) }?;
    // SAFETY: as promised.
    let address = |text: &*const c_char| unsafe { address(*text, subject) };
    texts.iter().map(address).collect()
}

#[cfg(feature = "iceoryx2")]
fn shared_memory(name: &str) -> Result<DataSpace, CallFailure> {
    let transport = tailbound_pubsub::SharedMemory::join(name)?;
    Ok(over(transport, Arc::new(Monotonic)))
}

#[cfg(not(feature = "iceoryx2"))]
fn shared_memory(_name: &str) -> Result<DataSpace, CallFailure> {
    Err(absent("shared memory", "iceoryx2"))
}

#[cfg(feature = "zeromq")]
fn zero_mq_on_host(name: &str, clock: SharedClock) -> Result<DataSpace, CallFailure> {
    Ok(over(tailbound_pubsub::ZeroMq::on_host(name)?, clock))
}

#[cfg(not(feature = "zeromq"))]
fn zero_mq_on_host(_name: &str, _clock: SharedClock) -> Result<DataSpace, CallFailure> {
    Err(absent("ZeroMQ", "zeromq"))
}

/// # Safety
/// The texts of the routes are null or end with a zero, and are as many as the counts say.
#[cfg(feature = "zeromq")]
unsafe fn zero_mq_over_tcp(
    layouts: &[ZeroMqRouteLayout],
    clock: SharedClock,
) -> Result<DataSpace, CallFailure> {
    use tailbound_pubsub::{ZeroMq, ZeroMqRoute};
    let mut routes = BTreeMap::new();
    for layout in layouts {
        // SAFETY: as promised.
        let (topic, listen, publishers) = unsafe {
            (
                input::text(layout.topic, "the topic of a route")?,
                addresses(
                    layout.listen,
                    layout.listen_count,
                    "an address to listen at",
                )?,
                addresses(
                    layout.publishers,
                    layout.publisher_count,
                    "the address of a publisher",
                )?,
            )
        };
        routes.insert(topic.to_owned(), ZeroMqRoute { listen, publishers });
    }
    Ok(over(ZeroMq::over_tcp(routes), clock))
}

/// # Safety
/// None is needed.
#[cfg(not(feature = "zeromq"))]
unsafe fn zero_mq_over_tcp(
    _layouts: &[ZeroMqRouteLayout],
    _clock: SharedClock,
) -> Result<DataSpace, CallFailure> {
    Err(absent("ZeroMQ", "zeromq"))
}

/// The refusal of a name of which this library has no transport.
fn unnamed(transport: &str) -> CallFailure {
    match transport_feature(transport) {
        Some(feature) => absent(transport, feature),
        None => CallFailure::invalid(format!(
            "\"{transport}\" is no transport between programs; write udp, rtps, shared-memory, zeromq, cyclone-dds or zenoh"
        )),
    }
}

fn absent(transport: &str, feature: &str) -> CallFailure {
    let text = format!(
        "this library has no topics over {transport}: build crate tailbound-c-library with --features {feature}"
    );
    CallFailure::new(crate::Status::Absent, text)
}
