//! Where the requests of the synthetic service come from.

use std::collections::BTreeMap;
use std::io;

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration};

use super::ready_queue::{ReadyQueue, SyntheticJob};
use crate::protocol::frame::{EXECUTION_LIMIT, FRAME_BYTES, WorkReply, WorkRequest};

/// Clients of the synthetic service, over whatever carries their requests.
pub(super) trait RequestSource {
    /// Waits up to `timeout` for something to happen and takes it in.
    fn receive(&mut self, timeout: Duration, jobs: &mut ReadyQueue) -> io::Result<()>;

    /// Answers a job that is done. A client that cannot take the answer is none any more.
    fn answer(&mut self, job: &SyntheticJob) -> io::Result<()>;
}

/// Takes a request up as a job; the answer that it gets at once, if it asks for too much.
pub(super) fn take_up(
    request: WorkRequest,
    client: u64,
    jobs: &mut ReadyQueue,
) -> Option<[u8; FRAME_BYTES]> {
    if request.execution > EXECUTION_LIMIT {
        let refusal = WorkReply {
            id: request.id,
            worked: Duration::ZERO,
            too_long: true,
        };
        return Some(refusal.to_bytes());
    }
    let came = Monotonic.now();
    jobs.push(
        client,
        request.id,
        request.execution,
        request.priority,
        came,
    );
    None
}

/// The answer to a job that is done.
pub(super) fn answer_to(job: &SyntheticJob) -> [u8; FRAME_BYTES] {
    let reply = WorkReply {
        id: job.id,
        worked: job.worked,
        too_long: false,
    };
    reply.to_bytes()
}

/// The most clients that are remembered; the one that came first is forgotten.
const CLIENTS: usize = 1_024;

/// Clients that send messages, and never say that they leave: their addresses, by the number that their jobs have.
#[derive(Debug)]
pub(super) struct MessageClients<Address> {
    numbers: BTreeMap<Address, u64>,
    clients: BTreeMap<u64, MessageClient<Address>>,
    last: u64,
}

/// A client that sends messages.
#[derive(Debug)]
pub(super) struct MessageClient<Address> {
    /// Where its answers go.
    pub(super) address: Address,
    /// The length of its last message: its answers are as long.
    pub(super) length: usize,
}

impl<Address: Ord + Copy> MessageClients<Address> {
    pub(super) fn new() -> Self {
        Self {
            numbers: BTreeMap::new(),
            clients: BTreeMap::new(),
            last: 0,
        }
    }

    /// The number of the client with this address, which sent a message of this length.
    pub(super) fn number(&mut self, address: Address, length: usize, jobs: &mut ReadyQueue) -> u64 {
        if let Some(number) = self.numbers.get(&address) {
            let number = *number;
            self.clients
                .insert(number, MessageClient { address, length });
            return number;
        }
        if self.clients.len() == CLIENTS
            && let Some((number, oldest)) = self.clients.pop_first()
        {
            self.numbers.remove(&oldest.address);
            jobs.forget(number);
        }
        self.last += 1;
        self.numbers.insert(address, self.last);
        self.clients
            .insert(self.last, MessageClient { address, length });
        self.last
    }

    /// The client of a job, unless it was forgotten meanwhile.
    pub(super) fn client(&self, number: u64) -> Option<&MessageClient<Address>> {
        self.clients.get(&number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::Scheduling;

    use super::*;

    #[test]
    fn of_too_many_clients_the_first_is_forgotten_with_its_jobs() {
        let mut jobs = ReadyQueue::new(Scheduling::Fifo);
        let mut clients = MessageClients::new();
        let first = clients.number(0_usize, 64, &mut jobs);
        let request = WorkRequest {
            id: 7,
            execution: Duration::from_millis(1),
            priority: 0,
        };
        assert_eq!(take_up(request, first, &mut jobs), None);
        for address in 1..CLIENTS {
            clients.number(address, 64, &mut jobs);
        }
        assert_eq!(clients.number(0, 512, &mut jobs), first);
        assert_eq!(clients.client(first).unwrap().length, 512);
        clients.number(CLIENTS, 64, &mut jobs);
        assert!(clients.client(first).is_none());
        assert!(jobs.pop().is_none());
        assert_ne!(clients.number(0, 64, &mut jobs), first);
    }
}
