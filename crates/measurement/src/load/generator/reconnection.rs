//! Connections that break, and those that take no new requests.

use tailbound_linux::clock::Monotonic;
use tailbound_linux::polling::{Interest, Readiness};
use tailbound_model::Protocol;
use tailbound_time::{Clock, Instant};

use super::{Generator, LoadClient, RequestStage};
use crate::connection::{Connection, ReadEnd};

/// Connections of HTTP/2 that take no new requests (GOAWAY), and still answer old ones.
#[derive(Debug, Default)]
pub(super) struct RetiredConnections {
    /// The places of those that are gone are used again.
    places: Vec<Option<RetiredConnection>>,
}

#[derive(Debug)]
struct RetiredConnection {
    connection: Connection,
    /// The client that it was of.
    client: usize,
}

impl Generator<'_> {
    /// A connection broke: the end, but for HTTP, whose servers may close whenever they like.
    pub(super) fn lose(&mut self, place: usize, why: &str, now: Instant) -> Result<(), String> {
        if self.plan.service.protocol != Protocol::Http {
            return Err(why.into());
        }
        let client = &mut self.clients[place];
        client.closed = true;
        let lost = std::mem::take(&mut client.connection.awaiting);
        let _closing_will_do = self.poller.remove(&client.connection);
        self.give_up(lost, why, now);
        Ok(())
    }

    /// These requests will have no reply.
    fn give_up(&mut self, lost: impl IntoIterator<Item = usize>, why: &str, now: Instant) {
        for index in lost {
            self.trails[index].stage = RequestStage::Lost;
            self.trails[index].ended = now;
            self.in_flight -= 1;
            self.tell_user(index);
            self.note_failure(why.to_string());
        }
    }

    /// Connects a client anew whose connection broke.
    pub(super) fn reopen(&mut self, place: usize) -> Result<(), String> {
        self.replace(place).map(drop)
    }

    /// Connects a client anew whose connection takes no new requests; the old one goes on until its requests are answered.
    pub(super) fn retire(&mut self, place: usize) -> Result<(), String> {
        let mut old = self.replace(place)?;
        let again = old.take_unprocessed();
        if !old.awaiting.is_empty() {
            self.keep_retired(place, old)?;
        }
        self.send_again(again)
    }

    /// Goes on to read a connection that takes no new requests.
    fn keep_retired(&mut self, place: usize, old: Connection) -> Result<(), String> {
        let free = self.retired.places.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.retired.places.push(None);
            self.retired.places.len() - 1
        });
        self.watch_retired(slot, &old)?;
        self.retired.places[slot] = Some(RetiredConnection {
            connection: old,
            client: place,
        });
        Ok(())
    }

    fn watch_retired(&self, slot: usize, connection: &Connection) -> Result<(), String> {
        let interest = match connection.wants_to_write() {
            true => Interest::ReadWrite,
            false => Interest::Read,
        };
        let token = (self.clients.len() + slot) as u64;
        self.poller
            .change(connection, token, interest)
            .map_err(|error| format!("cannot watch a connection: {error}"))
    }

    /// A new connection for a client; returns the old one. Handshakes are left to the first reads and writes, so that other
    /// clients need not wait for them.
    fn replace(&mut self, place: usize) -> Result<Connection, String> {
        let connection = Connection::begin(&self.plan.endpoint, self.plan.service.protocol)
            .map_err(|error| error.to_string())?;
        self.poller
            .add(&connection, place as u64, Interest::Read)
            .map_err(|error| format!("cannot watch a connection: {error}"))?;
        let client: &mut LoadClient = &mut self.clients[place];
        self.connections.extend(client.ends());
        let counts = &mut self.connection_counts;
        counts.replacements += 1;
        let streams = client.connection.streams_at_once();
        counts.streams_at_once = streams.max(counts.streams_at_once);
        client.closed = false;
        client.watched_for_room = false;
        Ok(std::mem::replace(&mut client.connection, connection))
    }

    /// Reads what has come on a connection that takes no new requests.
    pub(super) fn read_retired(&mut self, event: Readiness) -> Result<(), String> {
        let slot = event.token as usize - self.clients.len();
        let Some(mut retired) = self.retired.places.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        let (place, connection) = (retired.client, &mut retired.connection);
        let mut replies = Vec::new();
        let end = connection.read(&mut self.buffer, &mut replies);
        let now = Monotonic.now();
        for reply in replies {
            let index = connection.take_answered(&reply);
            self.take_reply(place, index, reply, now)?;
        }
        let again = connection.take_unprocessed();
        match end {
            ReadEnd::Broken(why) => {
                let lost = std::mem::take(&mut connection.awaiting);
                let _closing_will_do = self.poller.remove(&*connection);
                self.give_up(lost, &why, now);
            }
            ReadEnd::Drained if connection.awaiting.is_empty() => {
                let _closing_will_do = self.poller.remove(&*connection);
            }
            ReadEnd::Drained => {
                self.watch_retired(slot, &retired.connection)?;
                self.retired.places[slot] = Some(retired);
            }
        }
        self.send_again(again)?;
        self.send_held()
    }

    /// Sends requests on a new connection that the service has not begun on the old one. Their latencies go on from the
    /// intended send times.
    pub(super) fn send_again(&mut self, requests: Vec<usize>) -> Result<(), String> {
        for index in requests {
            self.in_flight -= 1;
            self.send(index)?;
        }
        Ok(())
    }
}
