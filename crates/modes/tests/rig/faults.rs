//! A link that delays, loses, doubles and reorders what goes over it, cuts it in pieces, and breaks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_modes::agent::link::{ConnectError, Connector};
use tailbound_modes::agent::port::PortLink;

/// How often a piece of what is said meets a fault, and how often the link breaks instead.
const FAULT_IN: u32 = 4;
const BREAK_IN: u32 = 12;

/// Whether there are faults now, and whether the link is to end.
#[derive(Clone, Default)]
pub struct Weather {
    pub stormy: Arc<AtomicBool>,
    pub over: Arc<AtomicBool>,
}

impl Weather {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One direction: what was held back is said after what comes next.
#[derive(Default)]
struct Direction {
    held: Vec<u8>,
}

/// The link breaks.
struct Broken;

impl Direction {
    /// Passes on what has come; whether something had.
    fn pass(
        &mut self,
        from: &mut dyn Stream,
        to: Option<&mut dyn Stream>,
        draws: &mut ChaCha8Rng,
        stormy: bool,
    ) -> Result<bool, Broken> {
        let mut bytes = [0; 4096];
        let count = match from.read(&mut bytes) {
            Ok(0) => return Err(Broken),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(_) => return Err(Broken),
        };
        // Nobody listens: as a serial port, it is lost.
        let Some(to) = to else { return Ok(true) };
        let said = &bytes[..count];
        let mut say = |bytes: &[u8]| to.write_all(bytes).map_err(|_| Broken);
        let held = std::mem::take(&mut self.held);
        if !stormy || !draws.next_u32().is_multiple_of(FAULT_IN) {
            say(said)?;
            say(&held)?;
            return Ok(true);
        }
        if draws.next_u32().is_multiple_of(BREAK_IN / FAULT_IN) {
            say(&said[..draws.random_range(0..=count)])?;
            return Err(Broken);
        }
        let cut = draws.random_range(0..=count);
        match draws.random_range(0..5) {
            0 => say(&said[..cut])?,
            1 => say(&[said, said].concat())?,
            2 => self.held = said.to_vec(),
            3 => say(&[&said[cut..], &said[..cut]].concat())?,
            _ => {
                say(&said[..cut])?;
                std::thread::sleep(Duration::from_millis(draws.random_range(1..40)));
                say(&said[cut..])?;
            }
        }
        say(&held)?;
        Ok(true)
    }
}

fn pause() {
    std::thread::sleep(Duration::from_micros(500));
}

/// Passes on between two ends until one of them breaks.
fn pass_on(mut ends: [Box<dyn Stream>; 2], weather: &Weather, draws: &mut ChaCha8Rng) {
    let mut directions = [Direction::default(), Direction::default()];
    while !weather.is_over() {
        let stormy = weather.stormy.load(Ordering::SeqCst);
        let [one, other] = &mut ends;
        let there = directions[0].pass(one, Some(other), draws, stormy);
        let back = directions[1].pass(other, Some(one), draws, stormy);
        match (there, back) {
            (Ok(false), Ok(false)) => pause(),
            (Ok(_), Ok(_)) => {}
            _ => return,
        }
    }
}

/// A relay in front of a TCP port.
pub struct Relay {
    pub address: SocketAddr,
    weather: Weather,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn before(target: SocketAddr, weather: &Weather, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (thread_weather, mut draws) = (weather.clone(), ChaCha8Rng::seed_from_u64(seed));
        let thread = std::thread::spawn(move || {
            while !thread_weather.is_over() {
                let Ok((near, _)) = listener.accept() else {
                    pause();
                    continue;
                };
                let far = TcpStream::connect(target).unwrap();
                for socket in [&near, &far] {
                    socket.set_nonblocking(true).unwrap();
                    socket.set_nodelay(true).unwrap();
                }
                pass_on([Box::new(near), Box::new(far)], &thread_weather, &mut draws);
            }
        });
        Self {
            address,
            weather: weather.clone(),
            thread: Some(thread),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.weather.over.store(true, Ordering::SeqCst);
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// What an emulator has between the host's socket and the guest's port: neither end hears when the other
/// one goes, and what is said to nobody is lost.
pub struct SerialLine {
    pub host: PathBuf,
    pub guest: PathBuf,
    weather: Weather,
    thread: Option<JoinHandle<()>>,
}

impl SerialLine {
    pub fn below(folder: &Path, weather: &Weather, seed: u64) -> Self {
        let (host, guest) = (folder.join("port"), folder.join("guest"));
        let listeners = [&host, &guest].map(|path| {
            let listener = UnixListener::bind(path).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        });
        let (thread_weather, mut draws) = (weather.clone(), ChaCha8Rng::seed_from_u64(seed));
        let thread = std::thread::spawn(move || {
            let mut ends: [Option<UnixStream>; 2] = [None, None];
            let mut directions = [Direction::default(), Direction::default()];
            while !thread_weather.is_over() {
                for (end, listener) in ends.iter_mut().zip(&listeners) {
                    // One at a time, as a device is opened once.
                    if end.is_none()
                        && let Ok((stream, _)) = listener.accept()
                    {
                        stream.set_nonblocking(true).unwrap();
                        *end = Some(stream);
                    }
                }
                let stormy = thread_weather.stormy.load(Ordering::SeqCst);
                let mut idle = true;
                for (from, direction) in directions.iter_mut().enumerate() {
                    let (left, right) = ends.split_at_mut(1);
                    let (near, far) = match from {
                        0 => (&mut left[0], &mut right[0]),
                        _ => (&mut right[0], &mut left[0]),
                    };
                    let Some(stream) = near.as_mut() else {
                        continue;
                    };
                    let to = far.as_mut().map(|far| far as &mut dyn Stream);
                    match direction.pass(stream, to, &mut draws, stormy) {
                        Ok(passed) => idle &= !passed,
                        Err(Broken) => *near = None,
                    }
                }
                if idle {
                    pause();
                }
            }
        });
        Self {
            host,
            guest,
            weather: weather.clone(),
            thread: Some(thread),
        }
    }
}

impl Drop for SerialLine {
    fn drop(&mut self) {
        self.weather.over.store(true, Ordering::SeqCst);
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// Opens the guest's end of a serial line.
pub struct PortOf(pub PathBuf);

impl Connector for PortOf {
    type Link = PortLink<UnixStream>;

    fn connect(&mut self) -> Result<Self::Link, ConnectError> {
        let opened = UnixStream::connect(&self.0).and_then(|stream| {
            stream.set_nonblocking(true)?;
            PortLink::new(stream)
        });
        opened.map_err(|source| ConnectError::Unreachable {
            address: self.0.display().to_string(),
            source,
        })
    }
}
