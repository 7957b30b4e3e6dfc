//! Topics: data spaces, publishers and subscribers. Python waits in slices, so that other threads run and Ctrl-C is heard.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{
    Breach, Contract, ExcessRule, Liveliness, Quality, Reliability, SubscriberEvent,
};
use tailbound_pubsub::{
    DataOrigin, DataSpace, InProcess, PublishError, SharedClock, Transport, TransportError, Udp,
    UdpRoute, WallClock, named_transport, transport_feature,
};
use tailbound_time::{Duration, Instant};

pyo3::create_exception!(
    tailbound,
    TopicError,
    pyo3::exceptions::PyException,
    "A topic was not opened, or a message not passed.\n\n`kind` names the reason in one word: \"lacks\", \"contract-fault\", \
     \"contract-broken\", \"too-long\", \"refused\", \"absent\", \"invalid\" or \"closed\"."
);

/// Kind, publisher, number, and the limit of the contract.
type EventParts = (&'static str, u64, u64, Option<&'static str>);
/// History, whether reliable, deadline, lifespan, lease.
type QualityRow = (u32, bool, Option<u64>, Option<u64>, Option<u64>);
/// Messages, bytes, interval, least distance, whether held back.
type ContractRow = (u32, Option<u64>, u64, u64, bool);
/// Name, type, longest message, publishers, subscribers, quality, contract.
type TopicRow = (
    String,
    String,
    usize,
    u32,
    u32,
    QualityRow,
    Option<ContractRow>,
);
/// Source, sequence, instance, source time, origin time, arrival, whether the instance is gone.
type HeaderRow = (u64, u64, u64, u64, u64, u64, bool);
/// Topic, address to listen at, addresses of peers.
type RouteRow = (String, Option<String>, Vec<String>);

fn raised(python: Python<'_>, kind: &str, text: impl ToString) -> PyErr {
    let error = TopicError::new_err(text.to_string());
    match error.value(python).setattr("kind", kind) {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn transport_failure(python: Python<'_>, error: &TransportError) -> PyErr {
    let kind = match error {
        TransportError::Lacks { .. } => "lacks",
        TransportError::Contract { .. } => "contract-fault",
        TransportError::Refused { .. } => "refused",
    };
    raised(python, kind, error)
}

fn publish_failure(python: Python<'_>, error: &PublishError) -> PyErr {
    match error {
        PublishError::Transport(error) => transport_failure(python, error),
        PublishError::Contract { .. } => raised(python, "contract-broken", error),
        PublishError::TooLong { .. } => raised(python, "too-long", error),
    }
}

fn topic_of(row: TopicRow) -> tailbound_pubsub::Topic {
    let (name, type_name, longest, publishers, subscribers, quality, contract) = row;
    let (history, is_reliable, deadline_ns, lifespan_ns, lease_ns) = quality;
    let time = |length_ns: Option<u64>| length_ns.map(Duration::from_nanos);
    tailbound_pubsub::Topic {
        publishers,
        subscribers,
        quality: Quality {
            history,
            reliability: match is_reliable {
                true => Reliability::Reliable,
                false => Reliability::BestEffort,
            },
            deadline: time(deadline_ns),
            lifespan: time(lifespan_ns),
            liveliness: time(lease_ns).map(|lease| Liveliness { lease }),
        },
        contract: contract.map(|(messages, bytes, interval_ns, distance_ns, holds_back)| {
            Contract {
                messages,
                bytes,
                interval: Duration::from_nanos(interval_ns),
                least_distance: Duration::from_nanos(distance_ns),
                violation: match holds_back {
                    true => ExcessRule::HoldBack,
                    false => ExcessRule::Drop,
                },
            }
        }),
        ..tailbound_pubsub::Topic::new(&name, &type_name, longest)
    }
}

/// Carries out a call on what is open, without the lock of Python.
fn with_open<T: Send, R: Send>(
    python: Python<'_>,
    open: &Mutex<Option<T>>,
    body: impl FnOnce(&mut T) -> R + Send,
) -> PyResult<R> {
    let outcome = python.detach(|| {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_mut().map(body)
    });
    outcome.ok_or_else(|| raised(python, "closed", "it is closed"))
}

fn close<T: Send>(python: Python<'_>, open: &Mutex<Option<T>>) {
    python.detach(|| drop(open.lock().unwrap_or_else(PoisonError::into_inner).take()));
}

/// A data space.
#[pyclass(frozen, module = "tailbound._native")]
pub struct TopicSpace(Mutex<Option<DataSpace>>);

#[pymethods]
impl TopicSpace {
    #[staticmethod]
    fn in_process() -> Self {
        Self::over(InProcess::default(), Arc::new(Monotonic))
    }

    #[staticmethod]
    fn udp_multicast(
        python: Python<'_>,
        interface: &str,
        port: u16,
        hops: u32,
        wall: bool,
    ) -> PyResult<Self> {
        let interface: Ipv4Addr = parsed(python, interface)?;
        let transport = Udp::multicast(interface, port).with_hops(hops);
        Ok(Self::over(transport, clock(wall)))
    }

    #[staticmethod]
    fn udp_unicast(python: Python<'_>, routes: Vec<RouteRow>, wall: bool) -> PyResult<Self> {
        let address = |text: &String| parsed::<SocketAddrV4>(python, text);
        let mut all = BTreeMap::new();
        for (topic, listen, peers) in routes {
            let listen = listen.as_ref().map(address).transpose()?;
            let peers = peers.iter().map(address).collect::<PyResult<_>>()?;
            all.insert(topic, UdpRoute { listen, peers });
        }
        Ok(Self::over(Udp::unicast(all), clock(wall)))
    }

    #[staticmethod]
    fn shared_memory(python: Python<'_>, name: &str) -> PyResult<Self> {
        #[cfg(feature = "iceoryx2")]
        {
            let transport = tailbound_pubsub::SharedMemory::join(name)
                .map_err(|error| transport_failure(python, &error))?;
            Ok(Self::over(transport, Arc::new(Monotonic)))
        }
        #[cfg(not(feature = "iceoryx2"))]
        Err(absent(python, name, "iceoryx2"))
    }

    #[staticmethod]
    fn zeromq_on_host(python: Python<'_>, name: &str, wall: bool) -> PyResult<Self> {
        let _clock = clock(wall);
        #[cfg(feature = "zeromq")]
        {
            let transport = tailbound_pubsub::ZeroMq::on_host(name)
                .map_err(|error| transport_failure(python, &error))?;
            Ok(Self::over(transport, _clock))
        }
        #[cfg(not(feature = "zeromq"))]
        Err(absent(python, name, "zeromq"))
    }

    #[staticmethod]
    fn named(python: Python<'_>, transport: &str, address: &str, wall: bool) -> PyResult<Self> {
        let Some(opened) = named_transport(transport, address) else {
            return Err(match transport_feature(transport) {
                Some(feature) => absent(python, address, feature),
                None => {
                    let text = format!(
                        "\"{transport}\" is no transport between programs; give udp, rtps, shared-memory, zeromq, cyclone-dds or zenoh"
                    );
                    raised(python, "invalid", text)
                }
            });
        };
        let opened = opened.map_err(|error| transport_failure(python, &error))?;
        let space = DataSpace::over(opened, clock(wall));
        Ok(Self(Mutex::new(Some(space))))
    }

    fn publisher(&self, python: Python<'_>, topic: TopicRow) -> PyResult<Publisher> {
        let topic = topic_of(topic);
        let publisher = with_open(python, &self.0, |space| space.publisher(&topic))?;
        let publisher = publisher.map_err(|error| transport_failure(python, &error))?;
        Ok(Publisher {
            source: publisher.source(),
            open: Mutex::new(Some(publisher)),
        })
    }

    fn subscriber(&self, python: Python<'_>, topic: TopicRow) -> PyResult<Subscriber> {
        let topic = topic_of(topic);
        let subscriber = with_open(python, &self.0, |space| space.subscriber(&topic))?;
        let subscriber = subscriber.map_err(|error| transport_failure(python, &error))?;
        Ok(Subscriber(Mutex::new(Some(subscriber))))
    }

    fn close(&self, python: Python<'_>) {
        close(python, &self.0);
    }
}

impl TopicSpace {
    fn over(transport: impl Transport + 'static, clock: SharedClock) -> Self {
        Self(Mutex::new(Some(DataSpace::over(
            Box::new(transport),
            clock,
        ))))
    }
}

fn clock(wall: bool) -> SharedClock {
    match wall {
        true => Arc::new(WallClock),
        false => Arc::new(Monotonic),
    }
}

fn parsed<T: std::str::FromStr>(python: Python<'_>, text: &str) -> PyResult<T> {
    text.parse().map_err(|_| {
        let remedy =
            "write an IPv4 address such as 127.0.0.1, with a port for a route, such as 127.0.0.1:7400";
        raised(python, "invalid", format!("\"{text}\" is no address; {remedy}"))
    })
}

fn absent(python: Python<'_>, name: &str, feature: &str) -> PyErr {
    let text = format!(
        "this package has no transport for data space `{name}`: build with the feature `{feature}`, as by pip install \
         ./python --config-settings=build-args=\"--features {feature}\""
    );
    raised(python, "absent", text)
}

/// A publisher.
#[pyclass(frozen, module = "tailbound._native")]
pub struct Publisher {
    #[pyo3(get)]
    source: u64,
    open: Mutex<Option<tailbound_pubsub::Publisher>>,
}

#[pymethods]
impl Publisher {
    fn publish(
        &self,
        python: Python<'_>,
        payload: &[u8],
        key: Option<&[u8]>,
        origin_ns: Option<u64>,
    ) -> PyResult<()> {
        let origin = origin_ns.map(|origin_ns| DataOrigin::at(Instant::from_nanos(origin_ns)));
        let outcome = with_open(python, &self.open, |publisher| match (key, origin) {
            (Some(key), origin) => publisher.publish_instance(key, origin, payload),
            (None, Some(origin)) => publisher.publish_from(origin, payload),
            (None, None) => publisher.publish(payload),
        })?;
        outcome.map_err(|error| publish_failure(python, &error))
    }

    fn dispose(&self, python: Python<'_>, key: &[u8]) -> PyResult<()> {
        with_open(python, &self.open, |publisher| publisher.dispose(key))?
            .map_err(|error| publish_failure(python, &error))
    }

    fn assert_liveliness(&self, python: Python<'_>) -> PyResult<()> {
        let assert = tailbound_pubsub::Publisher::assert_liveliness;
        with_open(python, &self.open, assert)?.map_err(|error| publish_failure(python, &error))
    }

    fn close(&self, python: Python<'_>) {
        close(python, &self.open);
    }
}

/// A subscriber.
#[pyclass(frozen, module = "tailbound._native")]
pub struct Subscriber(Mutex<Option<tailbound_pubsub::Subscriber>>);

#[pymethods]
impl Subscriber {
    fn take<'py>(&self, python: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, HeaderRow)>> {
        let outcome = with_open(python, &self.0, |subscriber| {
            let mut taken = None;
            let outcome = subscriber.take(|message| {
                let header = &message.header;
                let row = (
                    header.source,
                    header.sequence,
                    header.instance,
                    header.source_time.as_nanos(),
                    header.origin_time.as_nanos(),
                    message.arrival.as_nanos(),
                    message.disposes(),
                );
                taken = Some((message.payload.to_vec(), row));
            });
            outcome.map(|_| taken)
        })?;
        let taken = outcome.map_err(|error| transport_failure(python, &error))?;
        Ok(taken.map(|(payload, row)| (PyBytes::new(python, &payload), row)))
    }

    /// Waits at most this long, and hears signals after that.
    fn wait(&self, python: Python<'_>, limit_ns: u64) -> PyResult<bool> {
        let limit = Some(Duration::from_nanos(limit_ns));
        let outcome = with_open(python, &self.0, |subscriber| subscriber.wait(limit))?;
        python.check_signals()?;
        outcome.map_err(|error| transport_failure(python, &error))
    }

    /// The kind of the next event, its publisher, its number, and the limit of the contract.
    fn take_event(&self, python: Python<'_>) -> PyResult<Option<EventParts>> {
        let event = with_open(python, &self.0, tailbound_pubsub::Subscriber::take_event)?;
        Ok(event.map(|event| match event {
            SubscriberEvent::Appeared { source } => ("appeared", source, 1, None),
            SubscriberEvent::MessagesLost { source, messages } => {
                ("messages-lost", source, messages, None)
            }
            SubscriberEvent::ContractBroken {
                source,
                messages,
                breach,
            } => {
                let limit = match breach {
                    Breach::Messages => "messages",
                    Breach::Bytes => "bytes",
                    Breach::Distance => "distance",
                };
                ("contract-broken", source, messages, Some(limit))
            }
            SubscriberEvent::DeadlineMissed { source, times } => {
                ("deadline-missed", source, times, None)
            }
            SubscriberEvent::PublisherLost { source } => ("publisher-lost", source, 1, None),
            SubscriberEvent::PublisherEnded { source } => ("publisher-ended", source, 1, None),
        }))
    }

    fn counts(&self, python: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        let counts = with_open(python, &self.0, |subscriber| subscriber.counts())?;
        Ok(BTreeMap::from([
            ("delivered", counts.delivered),
            ("signs", counts.signs),
            ("lost", counts.lost),
            ("held_back", counts.held_back),
            ("dropped", counts.dropped),
            ("of_other_topics", counts.of_other_topics),
            ("too_long", counts.too_long),
            ("of_strangers", counts.of_strangers),
            ("repeated", counts.repeated),
            ("expired", counts.expired),
            ("garbage", counts.garbage),
        ]))
    }

    fn close(&self, python: Python<'_>) {
        close(python, &self.0);
    }
}
