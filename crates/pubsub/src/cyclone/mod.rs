//! The transport over DDS, by Cyclone DDS 11: a topic is a DDS topic of [opaque bytes](octets), on one network interface.
//!
//! Messages wait in the cache of their reader, which keeps the newest as the history says.

mod arrivals;
mod octets;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant as Moment;

use cyclonedds::entity::Entity;
use cyclonedds::qos::policy::{History, Reliability};
use cyclonedds::{Domain, Participant, QoS, Reader, ReaderListener, Topic as DdsTopic, Writer};
use self_cell::self_cell;
use tailbound_messages::{HEADER_LENGTH, RawMessage, Reliability as AgreedReliability};
use tailbound_time::Duration;

use self::arrivals::{ArrivalWatch, note_arrival};
use self::octets::Octets;
use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The name of the transport in descriptions and errors.
const NAME: &str = "cyclone";

/// The highest number of a domain: beyond it the port numbers of DDS end.
const HIGHEST_DOMAIN: u32 = 230;

/// The longest payload, in bytes. The binding of Cyclone DDS sends wrong lengths where a message is cut into several (its
/// `to_ser_ref` gives all the rest of the message for each part), so that a message is one datagram here.
const LONGEST_PAYLOAD: usize = 64_000;

/// The longest message of DDS that is not cut, and the longest datagram, in bytes. Both have room for the headers of DDS.
const UNCUT: usize = 65_000;
const LONGEST_DATAGRAM: usize = 65_500;

/// The domains that this program takes part in, until the program ends, with their interfaces.
static MEMBERSHIPS: Mutex<BTreeMap<u32, (Ipv4Addr, &'static Participant<'static>)>> =
    Mutex::new(BTreeMap::new());

type OctetTopic = DdsTopic<'static, 'static, Octets>;
type OctetReader<'topic> = Reader<'static, 'static, 'topic, Octets>;
type OctetWriter<'topic> = Writer<'static, 'static, 'topic, Octets>;

self_cell!(
    struct ReaderOfTopic {
        owner: OctetTopic,
        #[covariant]
        dependent: OctetReader,
    }
);

self_cell!(
    struct WriterOfTopic {
        owner: OctetTopic,
        #[covariant]
        dependent: OctetWriter,
    }
);

/// Carries messages by DDS, between the programs of one host or between hosts.
///
/// Nothing is authenticated or encrypted: whoever reaches the interface and knows the number of the domain can publish and
/// subscribe. A program that joined a domain takes part in it until the program ends.
#[derive(Clone, Copy, Debug)]
pub struct CycloneDds {
    participant: &'static Participant<'static>,
}

impl CycloneDds {
    /// Joins the domain with this number, from 0 to 230, over the interface with this address, and over no other.
    ///
    /// # Errors
    /// If the number is too high, if the interface does not exist, or if this program takes part in the domain over another
    /// interface.
    pub fn join(domain: u32, interface: Ipv4Addr) -> Result<Self, TransportError> {
        let attempt = || format!("join domain {domain} over {interface}");
        if domain > HIGHEST_DOMAIN {
            let reason = format!("the highest number of a domain is {HIGHEST_DOMAIN}");
            return Err(refused(attempt(), reason));
        }
        let mut memberships = MEMBERSHIPS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(joined, participant)) = memberships.get(&domain) {
            if joined != interface {
                let reason = format!("this program has joined it over {joined}");
                return Err(refused(attempt(), reason));
            }
            return Ok(Self { participant });
        }
        let configuration = configuration(interface);
        let opened = Domain::new_with_xml_config(domain, &configuration);
        let opened = opened.map_err(|error| {
            let reason = format!("{error}; is there an interface with this address?");
            refused(attempt(), reason)
        })?;
        // Cyclone DDS opens a domain once in a program. So the domain stays until the program ends, as its participant does.
        let opened: &'static Domain = Box::leak(Box::new(opened));
        let participant = Participant::new(opened).map_err(|error| refused(attempt(), error))?;
        let participant: &'static Participant<'static> = Box::leak(Box::new(participant));
        memberships.insert(domain, (interface, participant));
        Ok(Self { participant })
    }

    fn topic(&self, topic: &Topic) -> Result<OctetTopic, TransportError> {
        let attempt = || format!("open topic `{}`", topic.name);
        let opened = DdsTopic::builder(self.participant, &topic.name)
            .with_qos(&qualities(topic))
            .build();
        opened.map_err(|error| {
            let reason = format!("{error}; DDS takes letters, digits, `_`, `-` and `/` in names");
            refused(attempt(), reason)
        })
    }
}

/// The configuration of a domain over one interface, without messages in several datagrams. Loopback does not say that it can multicast, and can.
fn configuration(interface: Ipv4Addr) -> String {
    let multicast = match interface.is_loopback() {
        true => "true",
        false => "default",
    };
    format!(
        "<CycloneDDS><Domain Id=\"any\"><General><Interfaces>\
         <NetworkInterface address=\"{interface}\" multicast=\"{multicast}\"/>\
         </Interfaces><FragmentSize>{UNCUT} B</FragmentSize>\
         <MaxMessageSize>{LONGEST_DATAGRAM} B</MaxMessageSize></General></Domain></CycloneDDS>"
    )
}

/// The qualities of DDS for those of a topic. Deadline, lifespan and liveliness are judged by the subscriber, as over every
/// transport.
fn qualities(topic: &Topic) -> QoS {
    let reliability = match topic.quality.reliability {
        AgreedReliability::BestEffort => Reliability::BestEffort,
        // A publisher never waits for a subscriber: without room, its message is refused.
        AgreedReliability::Reliable => Reliability::Reliable {
            max_blocking_time: cyclonedds::Duration::from_nanos(0),
        },
    };
    let depth = i32::try_from(topic.quality.history).unwrap_or(i32::MAX);
    QoS::new()
        .with_reliability(reliability)
        .with_history(History::KeepLast { depth })
}

impl Transport for CycloneDds {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: NAME,
            reliable: true,
            between_hosts: true,
            longest: LONGEST_PAYLOAD,
            history: 4_096,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        let attempt = || format!("publish topic `{}`", topic.name);
        let qualities = qualities(topic);
        let writer = WriterOfTopic::try_new(self.topic(topic)?, |opened| {
            Writer::builder(opened).with_qos(&qualities).build()
        });
        Ok(Box::new(OctetSender {
            writer: writer.map_err(|error| refused(attempt(), error))?,
            message: Octets::default(),
        }))
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        let attempt = || format!("subscribe topic `{}`", topic.name);
        let qualities = qualities(topic);
        let listener = ReaderListener::new().with_data_available(note_arrival);
        let reader = ReaderOfTopic::try_new(self.topic(topic)?, |opened| {
            Reader::builder(opened)
                .with_qos(&qualities)
                .with_listener(&listener)
                .build()
        });
        let reader = reader.map_err(|error| refused(attempt(), error))?;
        let history = topic.quality.history as usize;
        Ok(Box::new(OctetReceiver {
            watch: ArrivalWatch::of(reader.borrow_dependent().id()),
            reader,
            waiting: VecDeque::with_capacity(history + 1),
            history,
            fresh: false,
        }))
    }
}

struct OctetSender {
    writer: WriterOfTopic,
    message: Octets,
}

impl Sender for OctetSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        self.message.fill(header, payload);
        let written = self.writer.borrow_dependent().write(&self.message);
        written.map_err(|error| refused("send a message".to_owned(), error))
    }
}

struct OctetReceiver {
    watch: ArrivalWatch,
    reader: ReaderOfTopic,
    waiting: VecDeque<Octets>,
    history: usize,
    /// Whether what waits was taken from the reader just now, for the call of `take` that follows `wait`.
    fresh: bool,
}

impl OctetReceiver {
    /// Takes what the reader has; the oldest messages give their places if there is no room.
    fn drain(&mut self) -> Result<(), TransportError> {
        let samples = self.reader.borrow_dependent().take();
        let samples = samples.map_err(|error| refused("receive a message".to_owned(), error))?;
        for message in samples
            .into_iter()
            .filter_map(|sample| sample.into_sample())
        {
            if self.waiting.len() == self.history {
                self.waiting.pop_front();
            }
            self.waiting.push_back(message);
        }
        Ok(())
    }
}

impl Receiver for OctetReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        if !std::mem::take(&mut self.fresh) {
            self.drain()?;
        }
        match self.waiting.pop_front() {
            Some(message) => {
                visit(message.bytes().into());
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if !self.waiting.is_empty() {
            return Ok(true);
        }
        let limit = limit.map(|limit| std::time::Duration::from_nanos(limit.as_nanos()));
        let end = limit.and_then(|limit| Moment::now().checked_add(limit));
        loop {
            self.drain()?;
            self.fresh = !self.waiting.is_empty();
            if self.fresh || !self.watch.wait(end) {
                return Ok(self.fresh);
            }
        }
    }
}

fn refused(attempt: String, reason: impl ToString) -> TransportError {
    TransportError::Refused {
        transport: NAME,
        attempt,
        reason: reason.to_string(),
    }
}
