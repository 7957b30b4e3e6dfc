//! iceoryx2, libzmq and Cyclone DDS as their own examples use them: to wait for a message, and to receive it.
#![allow(unused_imports)]

use std::time::Duration as Limit;

use super::link::{Inlet, Outlet, Place};

#[cfg(feature = "iceoryx2")]
pub use iceoryx::{shared_memory_inlet, shared_memory_outlet};

#[cfg(feature = "iceoryx2")]
mod iceoryx {
    use iceoryx2::config::Config;
    use iceoryx2::port::listener::Listener;
    use iceoryx2::port::notifier::Notifier;
    use iceoryx2::port::publisher::Publisher;
    use iceoryx2::port::subscriber::Subscriber;
    use iceoryx2::prelude::*;
    use iceoryx2::service::port_factory::{event, publish_subscribe};

    use super::{Inlet, Limit, Outlet, Place};

    type Service = ipc::Service;

    struct Opened {
        samples: publish_subscribe::PortFactory<Service, [u8], ()>,
        wakes: event::PortFactory<Service>,
        _node: Node<Service>,
    }

    fn open(topic: &str, place: Place) -> Opened {
        let mut config = Config::default();
        config.global.prefix = FileName::new(format!("tb_bare_{}_", place.run).as_bytes()).unwrap();
        let node = NodeBuilder::new()
            .config(&config)
            .create::<Service>()
            .unwrap();
        let name = ServiceName::new(topic).unwrap();
        let subscribers = place.subscribers as usize;
        let samples = node
            .service_builder(&name)
            .publish_subscribe::<[u8]>()
            .subscriber_max_buffer_size(1)
            .max_publishers(1)
            .max_subscribers(subscribers)
            .max_nodes(subscribers + 2)
            .open_or_create()
            .unwrap();
        let wakes = node
            .service_builder(&name)
            .event()
            .max_listeners(subscribers)
            .max_nodes(subscribers + 2)
            .open_or_create()
            .unwrap();
        Opened {
            samples,
            wakes,
            _node: node,
        }
    }

    pub fn shared_memory_outlet(topic: &str, place: Place) -> Box<dyn Outlet> {
        let opened = open(topic, place);
        let publisher = opened.samples.publisher_builder();
        let publisher = publisher
            .initial_max_slice_len(place.longest)
            .create()
            .unwrap();
        let notifier = opened.wakes.notifier_builder().create().unwrap();
        Box::new(SampleOutlet {
            publisher,
            notifier,
            _opened: opened,
        })
    }

    pub fn shared_memory_inlet(topic: &str, place: Place) -> Box<dyn Inlet> {
        let opened = open(topic, place);
        Box::new(SampleInlet {
            subscriber: opened.samples.subscriber_builder().create().unwrap(),
            listener: opened.wakes.listener_builder().create().unwrap(),
            _opened: opened,
        })
    }

    struct SampleOutlet {
        publisher: Publisher<Service, [u8], ()>,
        notifier: Notifier<Service>,
        _opened: Opened,
    }

    impl Outlet for SampleOutlet {
        fn send(&mut self, payload: &[u8]) {
            let sample = self.publisher.loan_slice_uninit(payload.len()).unwrap();
            sample.write_from_slice(payload).send().unwrap();
            self.notifier.notify().unwrap();
        }
    }

    struct SampleInlet {
        subscriber: Subscriber<Service, [u8], ()>,
        listener: Listener<Service>,
        _opened: Opened,
    }

    impl Inlet for SampleInlet {
        fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool {
            loop {
                if let Some(sample) = self.subscriber.receive().unwrap() {
                    visit(&sample);
                    return true;
                }
                let _ = match limit {
                    None => self.listener.blocking_wait(|_| {}).unwrap(),
                    Some(limit) => {
                        let mut woken = false;
                        let count = self.listener.timed_wait(|_| woken = true, limit).unwrap();
                        if !woken {
                            return false;
                        }
                        count
                    }
                };
            }
        }
    }
}

#[cfg(feature = "zeromq")]
pub use zero_mq::{zero_mq_inlet, zero_mq_outlet};

#[cfg(feature = "zeromq")]
mod zero_mq {
    use zmq::{Context, Message, PUB, SUB, Socket};

    use super::{Inlet, Limit, Outlet, Place};

    fn address(topic: &str, place: Place) -> String {
        format!("ipc://@tailbound-bare-{}-{topic}", place.run)
    }

    pub fn zero_mq_outlet(topic: &str, place: Place) -> Box<dyn Outlet> {
        let socket = Context::new().socket(PUB).unwrap();
        socket.set_linger(0).unwrap();
        socket.bind(&address(topic, place)).unwrap();
        Box::new(FrameOutlet(socket))
    }

    pub fn zero_mq_inlet(topic: &str, place: Place) -> Box<dyn Inlet> {
        let socket = Context::new().socket(SUB).unwrap();
        socket.set_subscribe(b"").unwrap();
        socket.set_reconnect_ivl(10).unwrap();
        socket.connect(&address(topic, place)).unwrap();
        Box::new(FrameInlet {
            socket,
            message: Message::new(),
            limit: None,
        })
    }

    struct FrameOutlet(Socket);

    impl Outlet for FrameOutlet {
        fn send(&mut self, payload: &[u8]) {
            self.0.send(payload, 0).unwrap();
        }
    }

    struct FrameInlet {
        socket: Socket,
        message: Message,
        limit: Option<Limit>,
    }

    impl Inlet for FrameInlet {
        fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool {
            if self.limit != limit {
                let limit_ms = limit.map_or(-1, |limit| limit.as_millis() as i32);
                self.socket.set_rcvtimeo(limit_ms).unwrap();
                self.limit = limit;
            }
            match self.socket.recv(&mut self.message, 0) {
                Ok(()) => {
                    visit(&self.message);
                    true
                }
                Err(_) => false,
            }
        }
    }
}

#[cfg(feature = "cyclone")]
pub use dds::{cyclone_inlet, cyclone_outlet};

#[cfg(feature = "cyclone")]
mod dds {
    use cyclonedds::qos::policy::{History, Reliability};
    use cyclonedds::state::{instance, sample, view};
    use cyclonedds::{
        Domain, Participant, QoS, ReadCondition, Reader, Topic, Topicable, WaitSet, Writer,
    };
    use serde::{Deserialize, Serialize};

    use super::{Inlet, Limit, Outlet, Place};

    /// Words, since the binding reads octets one by one, which takes eight times as long.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct Words {
        words: Vec<u64>,
    }

    impl Topicable for Words {
        type Key = ();

        fn from_key((): &()) -> Self {
            Self::default()
        }

        fn as_key(&self) {}
    }

    type Opened = Topic<'static, 'static, Words>;

    fn participant(place: Place) -> &'static Participant<'static> {
        // The interface is loopback, as for the own way, in a domain of its own.
        let configuration = "<CycloneDDS><Domain Id=\"any\"><General><Interfaces>\
             <NetworkInterface address=\"127.0.0.1\" multicast=\"true\"/>\
             </Interfaces><FragmentSize>65000 B</FragmentSize>\
             <MaxMessageSize>65500 B</MaxMessageSize></General></Domain></CycloneDDS>";
        let domain = place.domain() + 10;
        let domain = Domain::new_with_xml_config(domain, configuration);
        let participant = match domain {
            Ok(domain) => Participant::new(Box::leak(Box::new(domain))),
            // The program has opened the domain for its other topic.
            Err(_) => Participant::new(Box::leak(Box::new(Domain::default()))),
        };
        Box::leak(Box::new(participant.unwrap()))
    }

    fn qualities() -> QoS {
        QoS::new()
            .with_reliability(Reliability::BestEffort)
            .with_history(History::KeepLast { depth: 1 })
    }

    fn open(topic: &str, place: Place) -> (&'static Participant<'static>, &'static Opened) {
        use std::sync::OnceLock;
        static PARTICIPANT: OnceLock<&'static Participant<'static>> = OnceLock::new();
        let participant = *PARTICIPANT.get_or_init(|| participant(place));
        let topic = Topic::builder(participant, topic)
            .with_qos(&qualities())
            .build();
        (participant, Box::leak(Box::new(topic.unwrap())))
    }

    pub fn cyclone_outlet(topic: &str, place: Place) -> Box<dyn Outlet> {
        let (_, topic) = open(topic, place);
        let writer = Writer::builder(topic)
            .with_qos(&qualities())
            .build()
            .unwrap();
        Box::new(WordsOutlet {
            writer,
            message: Words::default(),
        })
    }

    pub fn cyclone_inlet(topic: &str, place: Place) -> Box<dyn Inlet> {
        let (participant, topic) = open(topic, place);
        let reader = Reader::builder(topic)
            .with_qos(&qualities())
            .build()
            .unwrap();
        let reader: &'static Reader<'_, '_, '_, Words> = Box::leak(Box::new(reader));
        let any = sample::Any | view::Any | instance::Any;
        let condition = Box::leak(Box::new(ReadCondition::new(reader, any).unwrap()));
        let mut set = WaitSet::new(participant).unwrap();
        set.attach(condition, Some(&())).unwrap();
        Box::new(WordsInlet {
            reader,
            set,
            bytes: Vec::new(),
        })
    }

    struct WordsOutlet {
        writer: Writer<'static, 'static, 'static, Words>,
        message: Words,
    }

    impl Outlet for WordsOutlet {
        fn send(&mut self, payload: &[u8]) {
            let words = payload.as_chunks::<8>().0.iter();
            self.message.words.clear();
            self.message
                .words
                .extend(words.map(|word| u64::from_le_bytes(*word)));
            self.writer.write(&self.message).unwrap();
        }
    }

    struct WordsInlet {
        reader: &'static Reader<'static, 'static, 'static, Words>,
        set: WaitSet<'static, 'static, 'static, ()>,
        bytes: Vec<u8>,
    }

    impl Inlet for WordsInlet {
        fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool {
            let limit = limit.map_or(cyclonedds::Duration::INFINITE, |limit| {
                cyclonedds::Duration::from_nanos(limit.as_nanos() as i64)
            });
            if self.set.wait(limit).is_err() {
                return false;
            }
            let samples = self.reader.take().unwrap();
            let message = samples
                .into_iter()
                .filter_map(|sample| sample.into_sample())
                .next_back();
            let Some(message) = message else {
                return false;
            };
            self.bytes.clear();
            let words = message.words.iter().flat_map(|word| word.to_le_bytes());
            self.bytes.extend(words);
            visit(&self.bytes);
            true
        }
    }
}
