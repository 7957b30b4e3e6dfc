//! The transport between threads of one process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use tailbound_messages::{HEADER_LENGTH, RawMessage};
use tailbound_time::Duration;

use crate::data_space::longest_message;
use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The most memory for messages that wait for one subscriber, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// Carries messages between the threads of one process, by copying them into memory that each subscriber has allocated. It
/// is for programs that keep all their modules in one process, and for tests. Clones are the same data space.
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    topics: Arc<Mutex<HashMap<String, Arc<Mutex<Subscribers>>>>>,
}

type Subscribers = Vec<Weak<LetterBox>>;

/// The messages that wait for one subscriber, and the memory for the next ones.
#[derive(Debug)]
struct LetterBox {
    queue: Mutex<LetterQueue>,
    arrival: Condvar,
}

#[derive(Debug)]
struct LetterQueue {
    waiting: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// The message that the subscriber sees, apart, so that a publisher can go on meanwhile.
    shown: Vec<u8>,
}

impl Transport for InProcess {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: "in-process",
            reliable: false,
            between_hosts: false,
            longest: 16 << 20,
            history: 65_536,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        Ok(Box::new(InProcessSender {
            subscribers: self.subscribers(topic),
        }))
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        let history = topic.quality.history as usize;
        let memory = longest_message(topic).saturating_mul(history);
        if memory > MOST_MEMORY {
            return Err(TransportError::Lacks {
                transport: "in-process",
                quality: format!("{memory} bytes for messages that wait"),
                remedy: format!(
                    "let history times size of topic `{}` be at most {MOST_MEMORY}",
                    topic.name
                ),
            });
        }
        let buffer = || Vec::with_capacity(longest_message(topic));
        let queue = LetterQueue {
            waiting: VecDeque::with_capacity(history),
            spare: (0..history).map(|_| buffer()).collect(),
            shown: buffer(),
        };
        let mailbox = Arc::new(LetterBox {
            queue: Mutex::new(queue),
            arrival: Condvar::new(),
        });
        let subscribers = self.subscribers(topic);
        let mut subscribers = lock(&subscribers);
        subscribers.retain(|mailbox| mailbox.strong_count() > 0);
        if subscribers.len() >= topic.subscribers as usize {
            return Err(TransportError::Refused {
                transport: "in-process",
                attempt: format!("make another subscriber of topic `{}`", topic.name),
                reason: format!("there is room for {}", topic.subscribers),
            });
        }
        subscribers.push(Arc::downgrade(&mailbox));
        Ok(Box::new(InProcessReceiver { mailbox }))
    }
}

impl InProcess {
    fn subscribers(&self, topic: &Topic) -> Arc<Mutex<Subscribers>> {
        Arc::clone(lock(&self.topics).entry(topic.name.clone()).or_default())
    }
}

struct InProcessSender {
    subscribers: Arc<Mutex<Subscribers>>,
}

impl Sender for InProcessSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        for mailbox in lock(&self.subscribers).iter().filter_map(Weak::upgrade) {
            let mut queue = lock(&mailbox.queue);
            let buffer = queue.spare.pop();
            let Some(mut buffer) = buffer.or_else(|| queue.waiting.pop_front()) else {
                continue;
            };
            buffer.clear();
            buffer.extend_from_slice(header);
            buffer.extend_from_slice(payload);
            queue.waiting.push_back(buffer);
            drop(queue);
            mailbox.arrival.notify_one();
        }
        Ok(())
    }
}

struct InProcessReceiver {
    mailbox: Arc<LetterBox>,
}

impl Receiver for InProcessReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        let mut queue = lock(&self.mailbox.queue);
        let Some(message) = queue.waiting.pop_front() else {
            return Ok(false);
        };
        let free = std::mem::replace(&mut queue.shown, message);
        queue.spare.push(free);
        let shown = std::mem::take(&mut queue.shown);
        drop(queue);
        visit(RawMessage::from(&*shown));
        lock(&self.mailbox.queue).shown = shown;
        Ok(true)
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        let queue = lock(&self.mailbox.queue);
        let empty = |queue: &mut LetterQueue| queue.waiting.is_empty();
        let arrival = &self.mailbox.arrival;
        let queue = match limit {
            None => arrival
                .wait_while(queue, empty)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let limit = std::time::Duration::from_nanos(limit.as_nanos());
                let outcome = arrival.wait_timeout_while(queue, limit, empty);
                outcome.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        Ok(!queue.waiting.is_empty())
    }
}

/// Locks, also after a panic of another thread: what the locks protect is whole at every instant.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
