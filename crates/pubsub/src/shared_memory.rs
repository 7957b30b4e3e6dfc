//! The transport over shared memory, by iceoryx2: a topic is a service with a publisher's memory for each sender.
//!
//! A message is copied once into the memory of its publisher, and each subscriber reads it there. A subscriber that waits
//! has a socket, on which publishers wake it; where no subscriber ever waits, publishers make no system call.

use iceoryx2::config::Config;
use iceoryx2::node::{Node, NodeBuilder};
use iceoryx2::port::listener::{Listener, ListenerWaitError};
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher as SamplePublisher;
use iceoryx2::port::subscriber::Subscriber as SampleSubscriber;
use iceoryx2::prelude::{
    BackpressureStrategy, FileName, SemanticString, ServiceName, SignalHandlingMode,
};
use iceoryx2::service::attribute::AttributeVerifier;
use iceoryx2::service::ipc_threadsafe::Service;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use tailbound_messages::{HEADER_LENGTH, RawMessage};
use tailbound_time::Duration;

use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The name of the transport in descriptions and errors.
const NAME: &str = "shared-memory";

/// The most memory for the messages of one publisher, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// The samples of a topic are its payloads; the header of a message is that of its sample, so that one copy writes a payload.
type Samples = publish_subscribe::PortFactory<Service, [u8], MessageHead>;
/// In halves, since iceoryx2 asks for a default value, which longer arrays do not have.
type MessageHead = [[u8; HEADER_LENGTH / 2]; 2];
type Wakes = event::PortFactory<Service>;

/// Carries messages through shared memory between the processes of one host.
///
/// Files in /dev/shm and below /tmp/iceoryx2 belong to a program as long as it lives. Those of a program that was killed go
/// when the next one of the same data space starts or ends. Of each data space, a file of 16 bytes stays in /dev/shm.
///
/// iceoryx2 lets every user of the host open the memory: a partition that others shall not reach needs a mount namespace with
/// a /dev/shm and a /tmp of its own.
#[derive(Debug)]
pub struct SharedMemory {
    node: Node<Service>,
}

impl SharedMemory {
    /// Joins the data space of this name on this host. The name has letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// If the name has other characters, or the kernel gives no shared memory.
    pub fn join(space: &str) -> Result<Self, TransportError> {
        let attempt = || format!("join data space `{space}`");
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
        if space.is_empty() || space.len() > 32 || !space.chars().all(is_plain) {
            let reason = "a name has 1 to 32 letters, digits, `-` and `_`";
            return Err(refused(attempt(), reason));
        }
        let mut config = Config::default();
        let prefix = FileName::new(format!("tb_{space}_").as_bytes());
        config.global.prefix = prefix.map_err(|error| refused(attempt(), format!("{error:?}")))?;
        let node = NodeBuilder::new()
            .config(&config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<Service>();
        let node = node.map_err(|error| refused(attempt(), error))?;
        Ok(Self { node })
    }

    fn name(topic: &Topic) -> Result<ServiceName, TransportError> {
        ServiceName::new(&topic.name)
            .map_err(|error| refused(format!("name topic `{}`", topic.name), format!("{error:?}")))
    }

    /// The service of a topic. It has the name of the type as an attribute, so that a program with another type is refused.
    fn samples(&self, topic: &Topic) -> Result<Samples, TransportError> {
        let attempt = || format!("open topic `{}` of type `{}`", topic.name, topic.type_name);
        let types = || {
            let key = "type".try_into().ok()?;
            let value = topic.type_name.as_str().try_into().ok()?;
            AttributeVerifier::new().require(&key, &value).ok()
        };
        let types =
            types().ok_or_else(|| refused(attempt(), "the name of the type is too long"))?;
        self.node
            .service_builder(&Self::name(topic)?)
            .publish_subscribe::<[u8]>()
            .user_header::<MessageHead>()
            .enable_safe_overflow(true)
            .history_size(0)
            .subscriber_max_buffer_size(topic.quality.history as usize)
            .subscriber_max_borrowed_samples(1)
            .max_publishers(topic.publishers as usize)
            .max_subscribers(topic.subscribers as usize)
            .max_nodes(most_nodes(topic))
            .open_or_create_with_attributes(&types)
            .map_err(|error| refused(attempt(), error))
    }

    fn wakes(&self, topic: &Topic) -> Result<Wakes, TransportError> {
        self.node
            .service_builder(&Self::name(topic)?)
            .event()
            .max_notifiers(topic.publishers as usize)
            .max_listeners(topic.subscribers as usize)
            .max_nodes(most_nodes(topic))
            .event_id_max_value(1)
            .open_or_create()
            .map_err(|error| refused(format!("open the events of topic `{}`", topic.name), error))
    }
}

/// The number of programs that may take part in a topic: each may have a publisher or a subscriber, or only look.
fn most_nodes(topic: &Topic) -> usize {
    (topic.publishers as usize)
        .saturating_add(topic.subscribers as usize)
        .saturating_add(2)
}

impl Transport for SharedMemory {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: NAME,
            reliable: false,
            between_hosts: false,
            longest: 16 << 20,
            history: 4_096,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        let each = (topic.quality.history as usize).saturating_add(1);
        let messages = each
            .saturating_mul(topic.subscribers as usize)
            .saturating_add(1);
        let memory = messages.saturating_mul(topic.longest.saturating_add(HEADER_LENGTH));
        if memory > MOST_MEMORY {
            return Err(TransportError::Lacks {
                transport: NAME,
                quality: format!("{memory} bytes for the messages of a publisher"),
                remedy: format!(
                    "let subscribers times history times size be at most {MOST_MEMORY} of topic `{}`",
                    topic.name
                ),
            });
        }
        let attempt = || format!("publish topic `{}`", topic.name);
        let samples = self.samples(topic)?;
        let publisher = samples
            .publisher_builder()
            .initial_max_slice_len(topic.longest.max(1))
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::DiscardData)
            .create()
            .map_err(|error| refused(attempt(), error))?;
        let wakes = self.wakes(topic)?;
        let notifier = wakes.notifier_builder().create();
        Ok(Box::new(SampleSender {
            publisher,
            notifier: notifier.map_err(|error| refused(attempt(), error))?,
            _samples: samples,
            _wakes: wakes,
        }))
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        let samples = self.samples(topic)?;
        let subscriber = samples
            .subscriber_builder()
            .buffer_size(topic.quality.history as usize)
            .create()
            .map_err(|error| refused(format!("subscribe topic `{}`", topic.name), error))?;
        Ok(Box::new(SampleReceiver {
            subscriber,
            listener: None,
            wakes: self.wakes(topic)?,
            _samples: samples,
        }))
    }
}

struct SampleSender {
    publisher: SamplePublisher<Service, [u8], MessageHead>,
    notifier: Notifier<Service>,
    _samples: Samples,
    _wakes: Wakes,
}

impl Sender for SampleSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        let failed = |error| refused("lend memory for a message".to_owned(), error);
        let sample = self.publisher.loan_slice_uninit(payload.len());
        let mut sample = sample.map_err(failed)?;
        sample
            .user_header_mut()
            .as_flattened_mut()
            .copy_from_slice(header);
        let sample = sample.write_from_slice(payload);
        sample
            .send()
            .map_err(|error| refused("send a message".to_owned(), error))?;
        // A subscriber that has not read its earlier wakes needs no further one.
        let _ = self.notifier.notify();
        Ok(())
    }
}

struct SampleReceiver {
    subscriber: SampleSubscriber<Service, [u8], MessageHead>,
    /// Made by the first wait, so that publishers need not wake who only polls.
    listener: Option<Listener<Service>>,
    wakes: Wakes,
    _samples: Samples,
}

impl SampleReceiver {
    fn has_sample(&self) -> Result<bool, TransportError> {
        self.subscriber.has_samples().map_err(failed)
    }
}

impl Receiver for SampleReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        match self.subscriber.receive().map_err(failed)? {
            Some(sample) => {
                visit(RawMessage {
                    header: sample.user_header().as_flattened(),
                    payload: &sample,
                });
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if self.listener.is_none() {
            let listener = self.wakes.listener_builder().create().map_err(failed)?;
            self.listener = Some(listener);
        }
        let limit = limit.map(|limit| std::time::Duration::from_nanos(limit.as_nanos()));
        let mut begin = None;
        // The listener was there before this look: who publishes after it wakes the wait.
        while !self.has_sample()? {
            let Some(listener) = &self.listener else {
                return Ok(false);
            };
            let waited = match limit {
                None => listener.blocking_wait(|_| {}),
                Some(limit) => {
                    let begin = begin.get_or_insert_with(std::time::Instant::now);
                    let left = limit.saturating_sub(begin.elapsed());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    listener.timed_wait(|_| {}, left)
                }
            };
            match waited {
                // The wait of a program that was stopped, or whose partition was frozen, ends so when it goes on.
                Ok(_) | Err(ListenerWaitError::InterruptSignal) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(true)
    }
}

fn failed(error: impl std::fmt::Debug) -> TransportError {
    refused("receive a message".to_owned(), format!("{error:?}"))
}

fn refused(attempt: String, reason: impl ToString) -> TransportError {
    TransportError::Refused {
        transport: NAME,
        attempt,
        reason: reason.to_string(),
    }
}
