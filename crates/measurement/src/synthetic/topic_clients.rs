//! The clients of the synthetic service that publish requests on a topic.

use std::io;

use tailbound_pubsub::{PublishError, Publisher, Subscriber, TransportError};
use tailbound_time::Duration;

use super::ready_queue::{ReadyQueue, SyntheticJob};
use super::request_source::{MessageClients, RequestSource, answer_to, take_up};
use crate::endpoint::TopicEndpoint;
use crate::protocol::frame::{FRAME_BYTES, WorkRequest};
use crate::topic_link::{TopicMessage, WorkTopics};

/// Whoever publishes requests in one data space.
pub(super) struct TopicClients {
    requests: Subscriber,
    replies: Publisher,
    clients: MessageClients<u64>,
    message: Vec<u8>,
}

impl TopicClients {
    /// Joins the data space, for messages of at most `size` bytes.
    pub(super) fn join(endpoint: &TopicEndpoint, size: usize) -> io::Result<Self> {
        let topics = WorkTopics::join(endpoint, size)?;
        let (requests, replies) = topics.of_service().map_err(io::Error::other)?;
        Ok(Self {
            requests,
            replies,
            clients: MessageClients::new(),
            message: vec![0; size],
        })
    }

    fn publish(
        &mut self,
        frame: [u8; FRAME_BYTES],
        connection: u64,
        length: usize,
    ) -> Result<(), PublishError> {
        TopicMessage { frame, connection }.write_to(&mut self.message);
        self.replies.publish(&self.message[..length])
    }

    /// Takes up what waits; the answers that requests get at once.
    fn take_all(
        &mut self,
        jobs: &mut ReadyQueue,
    ) -> Result<Vec<([u8; FRAME_BYTES], u64, usize)>, TransportError> {
        let Self {
            requests, clients, ..
        } = self;
        let mut refusals = Vec::new();
        while requests.take(|message| {
            // Whoever publishes something else gets no answer.
            let read = TopicMessage::of(message.payload);
            let Some((Ok(request), sender)) = read
                .ok()
                .map(|message| (WorkRequest::from_bytes(&message.frame), message.connection))
            else {
                return;
            };
            let length = message.payload.len();
            let number = clients.number(sender, length, jobs);
            let refusal = take_up(request, number, jobs);
            refusals.extend(refusal.map(|frame| (frame, sender, length)));
        })? {}
        while requests.take_event().is_some() {}
        Ok(refusals)
    }
}

impl RequestSource for TopicClients {
    fn receive(&mut self, timeout: Duration, jobs: &mut ReadyQueue) -> io::Result<()> {
        if !timeout.is_zero() {
            self.requests
                .wait(Some(timeout))
                .map_err(io::Error::other)?;
        }
        for (frame, connection, length) in self.take_all(jobs).map_err(io::Error::other)? {
            self.publish(frame, connection, length)
                .map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn answer(&mut self, job: &SyntheticJob) -> io::Result<()> {
        let Some(client) = self.clients.client(job.client) else {
            return Ok(());
        };
        let (connection, length) = (client.address, client.length);
        self.publish(answer_to(job), connection, length)
            .map_err(io::Error::other)
    }
}
