//! The threads of a router.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as ChannelEnd, Sender as ChannelStart};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_messages::{
    HEADER_LENGTH, HopFault, MessageHeader, MessageKind, RawMessage, Regulator, take_hop,
};
use tailbound_time::{Duration, Instant};

use super::passage::{MOST_HOPS, Passage, PassageCounters, PassageRefusal, PassageVerdict};
use super::route_table::{RouteForm, RouteTable, TopicRoute};
use crate::{Receiver, Sender, SharedClock, Transport, TransportError};

/// The longest time for which a route does not see that it is to end.
const ATTENTION: Duration = Duration::from_millis(50);

/// What sees every message that a router has passed on.
pub trait PassageObserver: Send + Sync {
    /// The message was sent on; it was taken from the queue of the route at `taken`, on the router's clock.
    fn passed(&self, route: &str, header: &MessageHeader, taken: Instant);
}

/// A router: the routes of a table, each on a thread of its own, between data spaces.
pub struct Router {
    spaces: BTreeMap<String, Box<dyn Transport>>,
    clock: SharedClock,
    observer: Option<Arc<dyn PassageObserver>>,
    routes: BTreeMap<String, RunningRoute>,
}

/// A route with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// The name of the route.
    pub name: String,
    /// The messages that it passed and refused.
    pub counters: PassageCounters,
    /// Why its thread ended, if it did.
    pub failure: Option<String>,
}

/// Why a router does not run as its table says. The routes that ran before run on.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// A data space that the router does not have.
    #[error("route `{route}` names data space `{space}`; there are {spaces}")]
    Space {
        /// The route.
        route: String,
        /// The data space.
        space: String,
        /// The data spaces that there are.
        spaces: String,
    },
    /// A topic that a transport did not open.
    #[error("route `{route}`: {source}")]
    Transport {
        /// The route.
        route: String,
        /// The reason.
        source: TransportError,
    },
    /// A thread that did not start.
    #[error("route `{route}` has no thread: {source}")]
    Thread {
        /// The route.
        route: String,
        /// The reason.
        source: io::Error,
    },
    /// A priority that the thread did not get.
    #[error("route `{route}` cannot have priority {priority}: {reason}")]
    Priority {
        /// The route.
        route: String,
        /// The priority.
        priority: u8,
        /// The reason.
        reason: String,
    },
}

/// What a route remembers. A route that takes the place of another shares what still holds.
#[derive(Clone)]
struct RouteMemory {
    passage: Arc<Mutex<Passage>>,
    regulator: Option<Arc<Mutex<Regulator>>>,
}

/// Both sides of a route, opened.
struct OpenEnds {
    receiver: Box<dyn Receiver>,
    sender: Box<dyn Sender>,
}

/// A route that is about to start: it opens sides of its own, or takes over those of the route in whose place it comes.
struct NextRoute {
    running: RunningRoute,
    ends: Option<OpenEnds>,
}

/// The thread of a route, and what it remembers.
struct RouteRun {
    route: TopicRoute,
    memory: RouteMemory,
    tally: Arc<PassageTally>,
    clock: SharedClock,
    observer: Option<Arc<dyn PassageObserver>>,
}

struct RunningRoute {
    route: TopicRoute,
    memory: RouteMemory,
    tally: Arc<PassageTally>,
    thread: RouteThread,
}

/// The thread of a route, which ends when this is dropped; what waits in the queue of the route is passed on before.
struct RouteThread {
    /// The thread passes nothing on before it gets the sides of the route.
    begin: Option<ChannelStart<OpenEnds>>,
    end: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    handle: Option<JoinHandle<Option<OpenEnds>>>,
}

impl RouteThread {
    /// Ends the thread, and yields the sides of the route, if it had begun.
    fn end(&mut self) -> Option<OpenEnds> {
        self.end.store(true, Ordering::Release);
        // A thread that has not begun ends without a begin.
        drop(self.begin.take());
        // A panic of the thread has been printed.
        self.handle.take()?.join().unwrap_or_default()
    }
}

impl Drop for RouteThread {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// [`PassageCounters`] that the thread of a route writes and others read.
#[derive(Debug, Default)]
struct PassageTally {
    passed: AtomicU64,
    repeated: AtomicU64,
    hops: AtomicU64,
    garbage: AtomicU64,
    violations: AtomicU64,
    failures: AtomicU64,
    lost: AtomicU64,
}

impl PassageTally {
    fn counters(&self) -> PassageCounters {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        PassageCounters {
            passed: read(&self.passed),
            repeated: read(&self.repeated),
            hops: read(&self.hops),
            garbage: read(&self.garbage),
            violations: read(&self.violations),
            failures: read(&self.failures),
            lost: read(&self.lost),
        }
    }
}

fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::Relaxed);
}

impl Router {
    /// A router between these data spaces, which passes nothing on yet. The clock counts the intervals of contracts.
    pub fn between(spaces: BTreeMap<String, Box<dyn Transport>>, clock: SharedClock) -> Self {
        Self {
            spaces,
            clock,
            observer: None,
            routes: BTreeMap::new(),
        }
    }

    /// Adds a data space, unless there is one of this name.
    ///
    /// # Errors
    /// Those of `transport`, which makes the transport of a new one.
    pub fn add_space<E>(
        &mut self,
        name: &str,
        transport: impl FnOnce() -> Result<Box<dyn Transport>, E>,
    ) -> Result<(), E> {
        if !self.spaces.contains_key(name) {
            self.spaces.insert(name.to_owned(), transport()?);
        }
        Ok(())
    }

    /// Has every message that is passed on shown to `observer`, on the thread of its route.
    pub fn observe(&mut self, observer: Arc<dyn PassageObserver>) {
        self.observer = Some(observer);
    }

    /// Puts a table of routes into force. A route that stays as it was goes on undisturbed. One whose contract or priority
    /// changed keeps its queue. Of one whose topics changed, the new queue is open before the old one is emptied and closed, for
    /// which the topics need room for one more subscriber and publisher. So no message is lost; and the new route remembers
    /// what the old one passed, so none is passed twice (but on a static link with other topics). Routes that are gone pass on
    /// what waits for them, and end; their last numbers are returned. A route whose thread has failed begins anew.
    ///
    /// # Errors
    /// If a route cannot be opened or started. Then the routes of before are in force, all of them.
    pub fn replace(&mut self, table: &RouteTable) -> Result<Vec<RouteStatus>, RouterError> {
        let mut next = Vec::new();
        for route in table.iter() {
            let stays = self.routes.get(&route.name);
            if stays.is_none_or(|running| running.route != *route || running.has_failed()) {
                next.push(self.next_route(route)?);
            }
        }
        let is_gone = |name: &String, _: &mut RunningRoute| table.get(name).is_none();
        let gone = self.routes.extract_if(.., is_gone);
        let gone = gone.map(|(_, route)| route.ended()).collect();
        for NextRoute { running, ends } in next {
            // The old thread empties its queue before the new one takes anything: a later message that overtook one of
            // them would make the passage refuse it.
            let before = self.routes.remove(&running.route.name);
            let taken_over = before.and_then(|mut before| before.thread.end());
            if let (Some(begin), Some(ends)) = (&running.thread.begin, ends.or(taken_over)) {
                // A thread that has ended says so in its status.
                let _ = begin.send(ends);
            }
            self.routes.insert(running.route.name.clone(), running);
        }
        Ok(gone)
    }

    /// Ends all routes, which pass on what waits for them; their last numbers, in the order of their names.
    pub fn end(self) -> Vec<RouteStatus> {
        let ended = self.routes.into_values().map(RunningRoute::ended);
        ended.collect()
    }

    /// The routes with their numbers, in the order of their names.
    pub fn status(&self) -> Vec<RouteStatus> {
        self.routes.values().map(RunningRoute::status).collect()
    }

    /// A thread for the route, ready to begin.
    fn next_route(&self, route: &TopicRoute) -> Result<NextRoute, RouterError> {
        let before = self.routes.get(&route.name);
        // The sides of a route that has failed may be the reason of its failure.
        let keeps_ends =
            before.is_some_and(|before| before.route.has_ends_of(route) && !before.has_failed());
        let ends = (!keeps_ends).then(|| self.open(route)).transpose()?;
        let before = before.filter(|before| before.route.has_topics_of(route));
        let regulator = match before {
            Some(before) if before.route.contract == route.contract => {
                before.memory.regulator.clone()
            }
            _ => regulator(route).map_err(|source| route.refused(source))?,
        };
        let passage = before.map(|before| Arc::clone(&before.memory.passage));
        let passage = passage.unwrap_or_else(|| Arc::new(Mutex::new(route.passage())));
        let memory = RouteMemory { passage, regulator };
        let tally = before
            .map(|before| Arc::clone(&before.tally))
            .unwrap_or_default();
        let run = RouteRun {
            route: route.clone(),
            memory,
            tally,
            clock: Arc::clone(&self.clock),
            observer: self.observer.clone(),
        };
        let running = run.start()?;
        Ok(NextRoute { running, ends })
    }

    fn open(&self, route: &TopicRoute) -> Result<OpenEnds, RouterError> {
        let refused = |source| route.refused(source);
        let sender = self.transport(route, &route.to.space)?;
        let sender = sender.sender(&route.to.topic).map_err(refused)?;
        let receiver = self.transport(route, &route.from.space)?;
        let receiver = receiver.receiver(&route.from.topic).map_err(refused)?;
        Ok(OpenEnds { receiver, sender })
    }

    fn transport(&self, route: &TopicRoute, space: &str) -> Result<&dyn Transport, RouterError> {
        let transport = self.spaces.get(space).map(|transport| &**transport);
        transport.ok_or_else(|| RouterError::Space {
            route: route.name.clone(),
            space: space.to_owned(),
            spaces: self
                .spaces
                .keys()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

/// The regulator of the contract of a route.
fn regulator(route: &TopicRoute) -> Result<Option<Arc<Mutex<Regulator>>>, TransportError> {
    let longest = route.from.topic.longest;
    let contract = route.contract.as_ref();
    let regulator = contract.map(|contract| Regulator::new(contract, longest));
    let regulator = regulator.transpose();
    let shared = |regulator: Option<Regulator>| regulator.map(|one| Arc::new(Mutex::new(one)));
    regulator
        .map(shared)
        .map_err(|fault| TransportError::Contract {
            topic: route.from.topic.name.clone(),
            fault,
        })
}

impl RunningRoute {
    fn status(&self) -> RouteStatus {
        RouteStatus {
            name: self.route.name.clone(),
            counters: self.tally.counters(),
            failure: locked(&self.thread.failure).clone(),
        }
    }

    fn has_failed(&self) -> bool {
        locked(&self.thread.failure).is_some()
    }

    /// The numbers of the route after its end.
    fn ended(mut self) -> RouteStatus {
        drop(self.thread.end());
        self.status()
    }

    fn is_ready(&self, ready: &ChannelEnd<Result<(), String>>) -> Result<(), RouterError> {
        let answer = ready
            .recv()
            .unwrap_or_else(|_| Err("its thread ended".to_owned()));
        answer.map_err(|reason| RouterError::Priority {
            route: self.route.name.clone(),
            priority: self.route.priority.unwrap_or_default(),
            reason,
        })
    }
}

impl TopicRoute {
    fn passage(&self) -> Passage {
        let sources = usize::try_from(self.from.topic.publishers).unwrap_or(usize::MAX);
        Passage::new(
            self.from.topic.number(),
            self.to.topic.number(),
            sources.min(65_536),
        )
    }

    fn refused(&self, source: TransportError) -> RouterError {
        RouterError::Transport {
            route: self.name.clone(),
            source,
        }
    }

    /// Whether it has the same sides, which one can take over from the other.
    fn has_ends_of(&self, other: &Self) -> bool {
        (&self.from, &self.to) == (&other.from, &other.to)
    }

    /// Whether it joins topics of the same names, so that the messages that one passed are those of the other.
    fn has_topics_of(&self, other: &Self) -> bool {
        let ends = |route: &Self| {
            [&route.from, &route.to].map(|end| (end.space.clone(), end.topic.number()))
        };
        ends(self) == ends(other)
    }
}

impl RouteRun {
    /// Starts the thread, which waits for its begin.
    fn start(self) -> Result<RunningRoute, RouterError> {
        let route = self.route.clone();
        let (memory, tally) = (self.memory.clone(), Arc::clone(&self.tally));
        let (begin, begins) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let mut thread = RouteThread {
            begin: Some(begin),
            end: Arc::default(),
            failure: Arc::default(),
            handle: None,
        };
        let (end, failure) = (Arc::clone(&thread.end), Arc::clone(&thread.failure));
        let builder = thread::Builder::new().name(format!("route {}", route.name));
        let handle = builder.spawn(move || {
            let mut ends = None;
            let ended = self.live(&ready, &begins, &end, &mut ends);
            *locked(&failure) = ended.err();
            ends
        });
        let refused = |source| RouterError::Thread {
            route: route.name.clone(),
            source,
        };
        thread.handle = Some(handle.map_err(refused)?);
        let running = RunningRoute {
            route,
            memory,
            tally,
            thread,
        };
        running.is_ready(&is_ready)?;
        Ok(running)
    }

    /// Gets the thread ready, waits for the begin, and runs; without a begin, it ends.
    fn live(
        mut self,
        ready: &ChannelStart<Result<(), String>>,
        begins: &ChannelEnd<OpenEnds>,
        end: &AtomicBool,
        ends: &mut Option<OpenEnds>,
    ) -> Result<(), String> {
        let priority = self.route.priority.map_or(Ok(()), make_current_thread_fifo);
        let priority = priority.map_err(|error| error.to_string());
        // Nobody reads this where the router has given up already.
        let _ = ready.send(priority.clone());
        priority?;
        match begins.recv() {
            Ok(begun) => self.run(ends.insert(begun), end),
            Err(_) => Ok(()),
        }
    }

    /// Passes messages on until `end` is set and none waits.
    fn run(&mut self, ends: &mut OpenEnds, end: &AtomicBool) -> Result<(), String> {
        let mut losses = LossCount::of(&*ends.receiver);
        loop {
            // Read before the queue: what came before the end was called for is passed on.
            let is_end = end.load(Ordering::Acquire);
            while self.pass_one(ends).map_err(|error| error.to_string())? {}
            let now = self.clock.now();
            if is_end || losses.is_due(now) {
                let lost = losses.since_last(&*ends.receiver, now);
                self.tally.lost.fetch_add(lost, Ordering::Relaxed);
            }
            if is_end {
                return Ok(());
            }
            ends.receiver
                .wait(Some(ATTENTION))
                .map_err(|error| error.to_string())?;
        }
    }

    /// Passes on the message that waits the longest; without one, `false`.
    fn pass_one(&mut self, ends: &mut OpenEnds) -> Result<bool, TransportError> {
        let Self {
            route,
            memory,
            tally,
            clock,
            observer,
        } = self;
        let OpenEnds { receiver, sender } = ends;
        receiver.take(&mut |message| {
            let now = clock.now();
            let headed = match route.form {
                RouteForm::Headed => judged(message, now, memory, tally),
                RouteForm::Opaque => unread(message, now, memory, tally),
            };
            let Some((header, payload)) = headed else {
                return;
            };
            match sender.send(&header, payload) {
                Ok(()) => count(&tally.passed),
                Err(_) => return count(&tally.failures),
            }
            if let (Some(observer), Ok((header, _))) = (&*observer, message.decode()) {
                observer.passed(&route.name, &header, now);
            }
        })
    }
}

/// The drops that the kernel counts at a receiver. They are asked for now and then, since each question is a system call.
struct LossCount {
    counted: u64,
    next: Instant,
}

impl LossCount {
    fn of(receiver: &dyn Receiver) -> Self {
        Self {
            counted: receiver.dropped().unwrap_or_default(),
            next: Instant::from_nanos(0),
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    fn since_last(&mut self, receiver: &dyn Receiver, now: Instant) -> u64 {
        let counted = receiver.dropped().unwrap_or_default();
        self.next = now.saturating_add(ATTENTION);
        let before = std::mem::replace(&mut self.counted, counted);
        counted.saturating_sub(before)
    }
}

type HeadedMessage<'m> = ([u8; HEADER_LENGTH], &'m [u8]);

/// The message as it goes on, if it does.
fn judged<'m>(
    message: RawMessage<'m>,
    now: Instant,
    memory: &RouteMemory,
    tally: &PassageTally,
) -> Option<HeadedMessage<'m>> {
    let Ok((header, payload)) = message.decode() else {
        count(&tally.garbage);
        return None;
    };
    match locked(&memory.passage).judge(&header) {
        PassageVerdict::Pass(header) if memory.admits(&header, now) => {
            return Some((header.encode(), payload));
        }
        PassageVerdict::Pass(_) => count(&tally.violations),
        PassageVerdict::Refuse(PassageRefusal::Repeated) => count(&tally.repeated),
        PassageVerdict::Refuse(PassageRefusal::Hops) => count(&tally.hops),
        PassageVerdict::Refuse(PassageRefusal::Topic) => count(&tally.garbage),
    }
    None
}

/// The message as it came but for the routers that it may still pass, if the contract admits it.
fn unread<'m>(
    message: RawMessage<'m>,
    now: Instant,
    memory: &RouteMemory,
    tally: &PassageTally,
) -> Option<HeadedMessage<'m>> {
    let Ok(header) = <[u8; HEADER_LENGTH]>::try_from(message.header) else {
        count(&tally.garbage);
        return None;
    };
    let (mut header, payload) = (header, message.payload);
    if let Err(fault) = take_hop(&mut header, MOST_HOPS) {
        count(match fault {
            HopFault::Foreign => &tally.garbage,
            HopFault::Spent => &tally.hops,
        });
        return None;
    }
    if !memory.admits_bytes(payload.len(), now) {
        count(&tally.violations);
        return None;
    }
    Some((header, payload))
}

impl RouteMemory {
    /// Whether the contract admits the message. Signs of life and farewells are no traffic that it counts.
    fn admits(&self, header: &MessageHeader, now: Instant) -> bool {
        let is_traffic = matches!(header.kind, MessageKind::Data | MessageKind::Dispose);
        let length = usize::try_from(header.payload_length).unwrap_or(usize::MAX);
        !is_traffic || self.admits_bytes(length, now)
    }

    fn admits_bytes(&self, length: usize, now: Instant) -> bool {
        let regulator = self.regulator.as_ref();
        regulator.is_none_or(|regulator| locked(regulator).admit(now, length).is_ok())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
