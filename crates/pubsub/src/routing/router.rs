//! The threads of a router.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver as ChannelEnd, Sender as ChannelStart};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_messages::{HEADER_LENGTH, MessageHeader};
use tailbound_time::Duration;

use super::passage::{Passage, PassageCounters, Refusal, Verdict};
use super::route_table::{Route, RouteForm, RouteTable};
use crate::{Receiver, Sender, Transport, TransportError};

/// The longest time for which a route does not see that it is to end.
const ATTENTION: Duration = Duration::from_millis(50);

/// A router: the routes of a table, each on a thread of its own, between data spaces.
pub struct Router {
    spaces: BTreeMap<String, Box<dyn Transport>>,
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

/// Both sides of a route, opened, and what it remembers.
struct OpenRoute {
    route: Route,
    receiver: Box<dyn Receiver>,
    sender: Box<dyn Sender>,
    passage: Arc<Mutex<Passage>>,
    tally: Arc<Tally>,
}

struct RunningRoute {
    route: Route,
    passage: Arc<Mutex<Passage>>,
    tally: Arc<Tally>,
    thread: RouteThread,
}

/// The thread of a route, which ends when this is dropped; what waits in the queue of the route is passed on before.
struct RouteThread {
    /// The thread passes nothing on before it gets this.
    begin: Option<ChannelStart<()>>,
    end: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for RouteThread {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        // A thread that has not begun ends without a begin.
        drop(self.begin.take());
        if let Some(handle) = self.handle.take() {
            // A panic of the thread has been printed.
            let _ = handle.join();
        }
    }
}

/// [`PassageCounters`] that the thread of a route writes and others read.
#[derive(Debug, Default)]
struct Tally {
    passed: AtomicU64,
    repeated: AtomicU64,
    hops: AtomicU64,
    garbage: AtomicU64,
    violations: AtomicU64,
    failures: AtomicU64,
}

impl Tally {
    fn counters(&self) -> PassageCounters {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        PassageCounters {
            passed: read(&self.passed),
            repeated: read(&self.repeated),
            hops: read(&self.hops),
            garbage: read(&self.garbage),
            violations: read(&self.violations),
            failures: read(&self.failures),
        }
    }
}

fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::Relaxed);
}

impl Router {
    /// A router between these data spaces, which passes nothing on yet.
    pub fn between(spaces: BTreeMap<String, Box<dyn Transport>>) -> Self {
        Self {
            spaces,
            routes: BTreeMap::new(),
        }
    }

    /// Puts a table of routes into force. A route that stays as it was goes on undisturbed. Of one that changed, the new
    /// queue is open before the old one is emptied and closed, so no message is lost between them; and the new route
    /// remembers what the old one passed, so none is passed twice (but on a static link). Routes that are gone pass on what
    /// waits for them, and end.
    ///
    /// # Errors
    /// If a route cannot be opened or started. Then the routes of before are in force, all of them.
    pub fn replace(&mut self, table: &RouteTable) -> Result<(), RouterError> {
        let mut opened = Vec::new();
        for route in table.iter() {
            let stays = self.routes.get(&route.name);
            if stays.is_none_or(|running| running.route != *route) {
                opened.push(self.open(route)?);
            }
        }
        let mut started = Vec::new();
        for open in opened {
            started.push(open.start()?);
        }
        self.routes.retain(|name, _| table.get(name).is_some());
        for running in started {
            // The old thread empties its queue before the new one takes anything: a later message that overtook one of
            // them would make the passage refuse it.
            drop(self.routes.remove(&running.route.name));
            if let Some(begin) = &running.thread.begin {
                // A thread that has ended says so in its status.
                let _ = begin.send(());
            }
            self.routes.insert(running.route.name.clone(), running);
        }
        Ok(())
    }

    /// The routes with their numbers, in the order of their names.
    pub fn status(&self) -> Vec<RouteStatus> {
        let statuses = self.routes.iter().map(|(name, running)| RouteStatus {
            name: name.clone(),
            counters: running.tally.counters(),
            failure: locked(&running.thread.failure).clone(),
        });
        statuses.collect()
    }

    fn open(&self, route: &Route) -> Result<OpenRoute, RouterError> {
        let refused = |source| RouterError::Transport {
            route: route.name.clone(),
            source,
        };
        let sender = self
            .transport(route, &route.to.space)?
            .sender(&route.to.topic);
        let sender = sender.map_err(refused)?;
        let receiver = self
            .transport(route, &route.from.space)?
            .receiver(&route.from.topic);
        let receiver = receiver.map_err(refused)?;
        let (passage, tally) = match self.routes.get(&route.name) {
            Some(before) if before.route.has_ends_of(route) => {
                (Arc::clone(&before.passage), Arc::clone(&before.tally))
            }
            _ => (Arc::new(Mutex::new(route.passage())), Arc::default()),
        };
        Ok(OpenRoute {
            route: route.clone(),
            receiver,
            sender,
            passage,
            tally,
        })
    }

    fn transport(&self, route: &Route, space: &str) -> Result<&dyn Transport, RouterError> {
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

impl RunningRoute {
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

impl Route {
    fn passage(&self) -> Passage {
        let sources = usize::try_from(self.from.topic.publishers).unwrap_or(usize::MAX);
        Passage::new(
            self.from.topic.number(),
            self.to.topic.number(),
            sources.min(65_536),
        )
    }

    /// Whether it joins the same topics, so that what one remembers holds for the other.
    fn has_ends_of(&self, other: &Self) -> bool {
        let ends = |route: &Self| {
            [&route.from, &route.to].map(|end| {
                (
                    end.space.clone(),
                    end.topic.name.clone(),
                    end.topic.type_name.clone(),
                )
            })
        };
        ends(self) == ends(other) && self.form == other.form
    }
}

impl OpenRoute {
    /// Starts the thread, which waits for its begin.
    fn start(self) -> Result<RunningRoute, RouterError> {
        let route = self.route.clone();
        let (passage, tally) = (Arc::clone(&self.passage), Arc::clone(&self.tally));
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
            let ended = self.live(&ready, &begins, &end);
            *locked(&failure) = ended.err();
        });
        let refused = |source| RouterError::Thread {
            route: route.name.clone(),
            source,
        };
        thread.handle = Some(handle.map_err(refused)?);
        let running = RunningRoute {
            route,
            passage,
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
        begins: &ChannelEnd<()>,
        end: &AtomicBool,
    ) -> Result<(), String> {
        let priority = self.route.priority.map_or(Ok(()), make_current_thread_fifo);
        let priority = priority.map_err(|error| error.to_string());
        // Nobody reads this where the router has given up already.
        let _ = ready.send(priority.clone());
        priority?;
        match begins.recv() {
            Ok(()) => self.run(end),
            Err(_) => Ok(()),
        }
    }

    /// Passes messages on until `end` is set and none waits.
    fn run(&mut self, end: &AtomicBool) -> Result<(), String> {
        loop {
            // Read before the queue: what came before the end was called for is passed on.
            let is_end = end.load(Ordering::Acquire);
            while self.pass_one().map_err(|error| error.to_string())? {}
            if is_end {
                return Ok(());
            }
            self.receiver
                .wait(Some(ATTENTION))
                .map_err(|error| error.to_string())?;
        }
    }

    /// Passes on the message that waits the longest; without one, `false`.
    fn pass_one(&mut self) -> Result<bool, TransportError> {
        let Self {
            route,
            receiver,
            sender,
            passage,
            tally,
        } = self;
        receiver.take(&mut |message| match route.form {
            RouteForm::Headed => pass_headed(message, passage, sender.as_mut(), tally),
            RouteForm::Opaque => pass_opaque(message, sender.as_mut(), tally),
        })
    }
}

fn pass_headed(message: &[u8], passage: &Mutex<Passage>, sender: &mut dyn Sender, tally: &Tally) {
    let Ok((header, payload)) = MessageHeader::decode(message) else {
        return count(&tally.garbage);
    };
    let verdict = locked(passage).judge(&header);
    match verdict {
        Verdict::Pass(header) => send(&header.encode(), payload, sender, tally),
        Verdict::Refuse(Refusal::Repeated) => count(&tally.repeated),
        Verdict::Refuse(Refusal::Hops) => count(&tally.hops),
        Verdict::Refuse(Refusal::Topic) => count(&tally.garbage),
    }
}

fn pass_opaque(message: &[u8], sender: &mut dyn Sender, tally: &Tally) {
    match message.split_first_chunk::<HEADER_LENGTH>() {
        Some((header, payload)) => send(header, payload, sender, tally),
        None => count(&tally.garbage),
    }
}

fn send(header: &[u8; HEADER_LENGTH], payload: &[u8], sender: &mut dyn Sender, tally: &Tally) {
    match sender.send(header, payload) {
        Ok(()) => count(&tally.passed),
        Err(_) => count(&tally.failures),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
