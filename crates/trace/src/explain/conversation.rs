//! Which request a thread works on, by what it reads from connections and writes to them.

use std::collections::{HashMap, VecDeque};

use super::calls::CallMeaning;
use super::host::HostState;
use super::thread_log::NOBODY;
use crate::kernel::{KernelEvent, KernelEventKind};
use crate::recording::{RecordedLoad, SocketSnapshot};

/// A part of a request that one thread works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestWork {
    /// The thread that took the request up.
    pub(crate) reader: u32,
    /// The thread that answered it.
    pub(crate) writer: u32,
    /// When it was taken up.
    pub(crate) begin: u64,
    /// When the second of two threads took over.
    pub(crate) handed_over: u64,
    /// When its reply was with the kernel.
    pub(crate) end: u64,
    /// When its connection was last read from before that.
    last_read: u64,
    /// Whether one write answered other requests of its connection, too: nothing tells the work for them apart.
    pub(crate) together: bool,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    number: u64,
    sent: u64,
    replied: u64,
    work: Option<RequestWork>,
}

/// A connection between the generator and a service.
#[derive(Clone, Debug, Default)]
struct ServedConnection {
    open: VecDeque<OpenRequest>,
    /// When the request that is worked on, or will be next, was taken up; `None` if all that was read is answered.
    work_start: Option<u64>,
    reader: u32,
    last_read: u64,
    writing: Option<WriteUnderWay>,
}

/// A system call by which a thread writes to a connection.
#[derive(Clone, Copy, Debug)]
struct WriteUnderWay {
    thread: u32,
    /// Whether the client has had what it wrote before the call was over.
    arrived: bool,
}

/// The work for a request that ends, once it is shared with the next one of its connection, where the same write answered
/// both: their replies were read at once, and no other write came in between.
fn share_write(ended: &OpenRequest, next: Option<&mut OpenRequest>) -> Option<RequestWork> {
    let work = ended.work?;
    let same_write = |next: &&mut OpenRequest| {
        next.work.is_none() && next.replied == ended.replied && next.sent <= work.last_read
    };
    let Some(next) = next.filter(same_write) else {
        return Some(work);
    };
    let begin = match next.sent <= work.begin {
        true => work.begin,
        false => work.last_read,
    };
    next.work = Some(RequestWork {
        begin,
        handed_over: work.handed_over.max(begin),
        together: true,
        ..work
    });
    Some(RequestWork {
        together: true,
        ..work
    })
}

/// The connections of all loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversations {
    connections: Vec<ServedConnection>,
    /// By load, task and client.
    by_client: HashMap<(usize, u32, u32), u32>,
    /// By process and descriptor, from an instant on.
    by_descriptor: HashMap<(u32, u32), u32>,
    /// Which thread answered on a connection last.
    served_by: HashMap<u32, u32>,
}

impl Conversations {
    /// The connections whose two ends are in the recording.
    pub(crate) fn new(loads: &[RecordedLoad], snapshots: &[SocketSnapshot]) -> Self {
        let mut conversations = Self::default();
        let mut by_end = HashMap::new();
        for (load_number, load) in loads.iter().enumerate() {
            for connection in &load.connections {
                let key = (load_number, connection.task, connection.client);
                let next = conversations.connections.len() as u32;
                // A client whose connection was closed opens another, and clients may share one: it stays one
                // conversation.
                let shared = by_end.get(connection.end.as_str()).copied();
                let number = *conversations
                    .by_client
                    .entry(key)
                    .or_insert(shared.unwrap_or(next));
                if number == next {
                    conversations.connections.push(ServedConnection::default());
                }
                by_end.insert(connection.end.as_str(), number);
            }
        }
        for socket in snapshots.iter().flat_map(|snapshot| &snapshot.sockets) {
            if let Some(number) = by_end.get(socket.peer.as_str()) {
                let key = (socket.pid, socket.descriptor);
                conversations.by_descriptor.insert(key, *number);
            }
        }
        conversations
    }

    /// The processes that serve connections.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.by_descriptor.keys().map(|(process, _)| *process)
    }

    /// The connection of a client.
    pub(crate) fn of_client(&self, load: usize, task: u32, client: u32) -> Option<u32> {
        let number = *self.by_client.get(&(load, task, client))?;
        // A connection whose other end is not known tells nothing.
        self.by_descriptor
            .values()
            .any(|served| *served == number)
            .then_some(number)
    }

    /// A request is under way on a connection.
    pub(crate) fn open(&mut self, connection: u32, number: u64, sent: u64, replied: u64) {
        let open = &mut self.connections[connection as usize].open;
        let place = open.partition_point(|request| request.replied <= replied);
        open.insert(
            place,
            OpenRequest {
                number,
                sent,
                replied,
                work: None,
            },
        );
    }

    /// A request has ended; who worked on it, and the thread that serves the connection.
    pub(crate) fn close(
        &mut self,
        connection: u32,
        number: u64,
        host: &HostState<'_>,
    ) -> (Option<RequestWork>, Option<u32>) {
        self.arrive(connection, number, host);
        let open = &mut self.connections[connection as usize].open;
        let place = open.iter().position(|request| request.number == number);
        let ended = place.and_then(|place| open.remove(place));
        let served_by = self.served_by.get(&connection).copied();
        let Some(ended) = ended else {
            return (None, served_by);
        };
        let next = place.and_then(|place| open.get_mut(place));
        (share_write(&ended, next), served_by)
    }

    /// Takes in an event of a thread that may serve connections; whom it works for changes in `host`. Called after
    /// the host has taken it in, with the call that the thread was in before.
    pub(crate) fn take(
        &mut self,
        event: &KernelEvent,
        before: Option<(u64, u32)>,
        host: &mut HostState<'_>,
    ) {
        let at = event.at.as_nanos();
        let thread = event.thread;
        let Some(process) = host.thread(thread).map(|state| state.process) else {
            return;
        };
        let connection = |descriptor: u32| self.by_descriptor.get(&(process, descriptor)).copied();
        match &event.kind {
            KernelEventKind::CallEntry { number, first, .. } => match host.calls.meaning(*number) {
                CallMeaning::Writes => {
                    let descriptor = u32::try_from(*first).unwrap_or(u32::MAX);
                    if let Some(connection) = connection(descriptor) {
                        host.set_owner(thread, connection);
                        let arrived = false;
                        self.connections[connection as usize].writing =
                            Some(WriteUnderWay { thread, arrived });
                    }
                }
                CallMeaning::AwaitsWork => host.set_owner(thread, NOBODY),
                _ => {}
            },
            KernelEventKind::NewThread {
                thread: child,
                same_process: false,
                ..
            } => self.inherit(process, *child),
            KernelEventKind::CallExit { number, result } => {
                let descriptor = before.filter(|(call, _)| call == number);
                let Some(connection) =
                    descriptor.and_then(|(_, descriptor)| connection(descriptor))
                else {
                    return;
                };
                let meaning = host.calls.meaning(*number);
                let has_arrived =
                    meaning == CallMeaning::Writes && self.end_write(connection, thread);
                match meaning {
                    CallMeaning::Reads if *result > 0 => self.read(connection, thread, at, host),
                    CallMeaning::Writes if *result > 0 && !has_arrived => {
                        self.wrote(connection, thread, at, host);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// A process that another has made has its descriptors.
    fn inherit(&mut self, parent: u32, child: u32) {
        let own = self.by_descriptor.iter();
        let own = own.filter(|((process, _), _)| *process == parent);
        let inherited = own.map(|((_, descriptor), number)| ((child, *descriptor), *number));
        let inherited: Vec<_> = inherited.collect();
        self.by_descriptor.extend(inherited);
    }

    /// A request has ended. Its reply may be with the client before the system call that wrote it is over, where something
    /// more urgent keeps the writer from its CPU: the reply was with the kernel by then.
    fn arrive(&mut self, connection: u32, number: u64, host: &HostState<'_>) {
        let served = &mut self.connections[connection as usize];
        let Some(writing) = served.writing.as_mut().filter(|writing| !writing.arrived) else {
            return;
        };
        let mut open = served.open.iter();
        let request = open.find(|one| one.number == number);
        if let Some(request) = request.filter(|one| one.work.is_none()) {
            writing.arrived = true;
            let (thread, replied) = (writing.thread, request.replied);
            self.wrote(connection, thread, replied, host);
        }
    }

    /// A thread's write to a connection is over; whether the client had it before.
    fn end_write(&mut self, connection: u32, thread: u32) -> bool {
        let writing = &mut self.connections[connection as usize].writing;
        let ended = writing.take_if(|writing| writing.thread == thread);
        ended.is_some_and(|ended| ended.arrived)
    }

    fn read(&mut self, number: u32, thread: u32, at: u64, host: &mut HostState<'_>) {
        let connection = &mut self.connections[number as usize];
        connection.last_read = at;
        connection.work_start.get_or_insert(at);
        connection.reader = thread;
        host.set_owner(thread, number);
    }

    fn wrote(&mut self, number: u32, thread: u32, at: u64, host: &HostState<'_>) {
        self.served_by.insert(number, thread);
        let connection = &mut self.connections[number as usize];
        let (read, begin) = (connection.last_read, connection.work_start);
        let mut asked = connection
            .open
            .iter_mut()
            .filter(|one| one.sent <= read && one.replied >= at);
        let Some(begin) = begin else {
            // More of the reply before.
            if let Some(work) = asked.next().and_then(|one| one.work.as_mut()) {
                work.end = at;
            }
            return;
        };
        let mut unanswered = asked.filter(|one| one.work.is_none());
        if let Some(request) = unanswered.next() {
            let woken = host.thread(thread).map_or(0, |state| state.woken);
            request.work = Some(RequestWork {
                reader: connection.reader,
                writer: thread,
                begin,
                handed_over: if connection.reader == thread {
                    begin
                } else {
                    woken.clamp(begin, at)
                },
                end: at,
                last_read: read,
                together: false,
            });
        }
        connection.work_start = unanswered.next().map(|_| at);
    }
}
