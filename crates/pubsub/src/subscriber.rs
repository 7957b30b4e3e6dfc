//! The subscriber of a topic: polling, waiting, and a thread that calls back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tailbound_messages::{
    Judgement, MessageHeader, MessageKind, Reception, ReceptionCounts, ReceptionTerms,
    SubscriberEvent,
};
use tailbound_time::{Duration, Instant};

use crate::{DataOrigin, Receiver, SharedClock, Topic, TransportError};

/// The time after which a thread that waits for messages looks whether it shall end.
const ATTENTION: Duration = Duration::from_millis(100);

/// A message as a subscriber gets it.
#[derive(Clone, Copy, Debug)]
pub struct IncomingMessage<'a> {
    /// The header: publisher, sequence, instance, time stamps.
    pub header: MessageHeader,
    /// The bytes that were published; none if the message disposes of an instance.
    pub payload: &'a [u8],
    /// The time at which the message was taken.
    pub arrival: Instant,
}

impl IncomingMessage<'_> {
    /// The origin of the data, for messages that are made of it ([`Publisher::publish_from`](crate::Publisher::publish_from)).
    pub fn origin(&self) -> DataOrigin {
        DataOrigin::at(self.header.origin_time)
    }

    /// The age of the data: the time since the oldest measurement that went into it.
    pub fn data_age(&self) -> Duration {
        self.arrival.saturating_since(self.header.origin_time)
    }

    /// The age of the message: the time since it was published.
    pub fn age(&self) -> Duration {
        self.arrival.saturating_since(self.header.source_time)
    }

    /// Whether the message says that its instance is gone.
    pub fn disposes(&self) -> bool {
        self.header.kind == MessageKind::Dispose
    }
}

/// Receives messages of a topic.
pub struct Subscriber {
    receiver: Box<dyn Receiver>,
    clock: SharedClock,
    reception: Reception,
    name: String,
    refusals_at_once: u32,
    /// The number of events of which waits gave notice.
    announced: u64,
}

impl Subscriber {
    pub(crate) fn new(
        topic: &Topic,
        receiver: Box<dyn Receiver>,
        clock: SharedClock,
    ) -> Result<Self, TransportError> {
        let terms = ReceptionTerms {
            topic: topic.number(),
            longest: topic.longest,
            publishers: topic.publishers,
            quality: topic.quality,
            contract: topic.contract,
        };
        let name = topic.name.clone();
        let reception =
            Reception::new(terms, clock.now()).map_err(|fault| TransportError::Contract {
                topic: topic.name.clone(),
                fault,
            })?;
        let waiting = topic.quality.history.saturating_mul(topic.publishers);
        let refusals_at_once = waiting.saturating_add(16);
        Ok(Self {
            receiver,
            clock,
            reception,
            name,
            refusals_at_once,
            announced: 0,
        })
    }

    /// Shows the next message to `visit`, if one waits; whether one did. Never waits itself.
    ///
    /// Messages that are refused are skipped, but not without end: under a flood of them the call returns `false` after as
    /// many as can wait at once, and the next call goes on.
    ///
    /// # Errors
    /// If the transport failed; the subscriber stays usable.
    pub fn take(
        &mut self,
        mut visit: impl FnMut(&IncomingMessage<'_>),
    ) -> Result<bool, TransportError> {
        let arrival = self.clock.now();
        let reception = &mut self.reception;
        if let Some((header, payload)) = reception.release(arrival) {
            visit(&IncomingMessage {
                header,
                payload,
                arrival,
            });
            return Ok(true);
        }
        for _ in 0..self.refusals_at_once {
            let mut delivered = false;
            let waited = self.receiver.take(&mut |message| {
                let Ok((header, payload)) = message.decode() else {
                    reception.refuse_garbage();
                    return;
                };
                if reception.receive(arrival, &header, payload) == Judgement::Deliver {
                    visit(&IncomingMessage {
                        header,
                        payload,
                        arrival,
                    });
                    delivered = true;
                }
            })?;
            if delivered {
                return Ok(true);
            }
            if !waited {
                reception.note_idle(arrival);
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Waits until there is a message to take or a new event to hear of, at most this long; without a limit, for ever. Whether
    /// there is one. It may be a message that [`Subscriber::take`] refuses. An event ends one wait, heard of or not.
    ///
    /// # Errors
    /// If the transport failed.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if self.announces() {
            return Ok(true);
        }
        if !self.reception.has_dues() {
            return self.receiver.wait(limit);
        }
        let begin = self.clock.now();
        let due = self.reception.next_due(begin);
        let Some(due) = due.map(|due| due.saturating_since(begin)) else {
            return self.receiver.wait(limit);
        };
        let due_comes_first = limit.is_none_or(|limit| due <= limit);
        let length = limit.map_or(due, |limit| limit.min(due));
        if self.receiver.wait(Some(length))? {
            return Ok(true);
        }
        self.reception.note_idle(self.clock.now());
        Ok(due_comes_first || self.announces())
    }

    /// Whether there is an event of which no wait gave notice.
    fn announces(&mut self) -> bool {
        let events = self.reception.events();
        let is_new = std::mem::replace(&mut self.announced, events) != events;
        is_new && self.reception.has_event()
    }

    /// The next event that was not heard of yet. Events come about in [`Subscriber::take`] and [`Subscriber::wait`].
    pub fn take_event(&mut self) -> Option<SubscriberEvent> {
        self.reception.take_event()
    }

    /// Messages so far, by what happened to them.
    pub fn counts(&self) -> ReceptionCounts {
        self.reception.counts()
    }

    /// The messages or datagrams that the kernel or the middleware dropped for want of room, where it counts them.
    pub fn dropped_by_transport(&self) -> Option<u64> {
        self.receiver.dropped()
    }

    /// Starts a thread that waits for messages and events, and calls back with each. It ends with the guard.
    ///
    /// # Errors
    /// If the kernel gives no thread.
    pub fn on_message(
        self,
        mut on_message: impl FnMut(&IncomingMessage<'_>) + Send + 'static,
        mut on_event: impl FnMut(&SubscriberEvent) + Send + 'static,
    ) -> std::io::Result<SubscriberThread> {
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let mut subscriber = self;
        let name = format!(
            "tb-{}",
            subscriber.name.chars().take(12).collect::<String>()
        );
        let body = move || {
            while !asked.load(Ordering::Relaxed) {
                subscriber.wait(Some(ATTENTION))?;
                while subscriber.take(&mut on_message)? && !asked.load(Ordering::Relaxed) {}
                while let Some(event) = subscriber.take_event() {
                    on_event(&event);
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(SubscriberThread {
            ends,
            thread: Some(thread),
        })
    }
}

impl std::fmt::Debug for Subscriber {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Subscriber")
            .field("topic", &self.name)
            .field("counts", &self.reception.counts())
            .finish_non_exhaustive()
    }
}

/// A thread that calls back with each message. Dropping it ends the thread, within a tenth of a second and after the
/// callback that runs.
#[derive(Debug)]
pub struct SubscriberThread {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), TransportError>>>,
}

impl SubscriberThread {
    /// Ends the thread, and says why it had ended before, if it had.
    ///
    /// # Errors
    /// The failure of the transport that ended the thread.
    pub fn end(mut self) -> Result<(), TransportError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), TransportError> {
        self.ends.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) if !std::thread::panicking() => std::panic::resume_unwind(panic),
            _ => Ok(()),
        }
    }
}

impl Drop for SubscriberThread {
    fn drop(&mut self) {
        // Whoever wants to hear of a failure calls `end`.
        let _ = self.join();
    }
}
