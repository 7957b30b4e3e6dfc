//! Service levels from C: a controller that requests are told to, and a thread that answers for the report.

mod answer;
mod controller;
mod listener;

use std::collections::hash_map::RandomState;
use std::ffi::{c_char, c_int};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailbound_linux::clock::Monotonic;
use tailbound_time::Clock;

use self::controller::{LevelSettings, ServiceLevel};
use self::listener::ReportListener;
use crate::handle::{self, Handle};
use crate::input;
use crate::status::{CallFailure, Status, call};

/// The longest deadline, 292 years, as in the other libraries.
const LONGEST_NS: u64 = i64::MAX as u64;

/// A service level, as C has a pointer to it.
pub(crate) struct LevelOfProgram {
    level: Arc<Mutex<ServiceLevel>>,
    listener: Option<ReportListener>,
    /// The state of the draws.
    random: u64,
}

type LevelHandle = Handle<LevelOfProgram>;

fn lock(level: &Mutex<ServiceLevel>) -> MutexGuard<'_, ServiceLevel> {
    level.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ns() -> i128 {
    i128::from(Monotonic.now().as_nanos())
}

impl LevelOfProgram {
    /// A number from 0 to below 1 (xorshift64*).
    fn draw(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let drawn = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D);
        (drawn >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn time(length_ns: u64, subject: &str) -> Result<i128, CallFailure> {
    match length_ns <= LONGEST_NS {
        true => Ok(i128::from(length_ns)),
        false => Err(CallFailure::invalid(format!(
            "{subject} of {length_ns} ns is longer than 292 years"
        ))),
    }
}

/// Makes a service level that keeps the slowest request at a deadline.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_create(
    deadline_ns: u64,
    place: *mut *mut LevelHandle,
) -> c_int {
    call(|| {
        if time(deadline_ns, "a deadline")? == 0 {
            return Err(CallFailure::invalid(
                "the deadline is zero; give a time above",
            ));
        }
        let settings = LevelSettings::published(deadline_ns);
        let level = LevelOfProgram {
            level: Arc::new(Mutex::new(ServiceLevel::new(settings, now_ns()))),
            listener: None,
            // The keys of a hasher are drawn by the kernel; the state may not be zero.
            random: RandomState::new().build_hasher().finish() | 1,
        };
        // SAFETY: the header demands NULL or a place for a pointer.
        unsafe { handle::store(place, level) }
    })
}

/// Begins a request that has waited already.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_begin(
    level: *const LevelHandle,
    waited_ns: u64,
    request: *mut u64,
) -> c_int {
    // SAFETY: the header demands NULL or a handle, and NULL or a place for a number.
    call(|| unsafe {
        let waited_ns = time(waited_ns, "a wait")?;
        handle::with_shared(level, |level| {
            // Before it begins: a request whose number nobody has does not end.
            input::write(request, 0, "the place for the number of the request")?;
            let number = lock(&level.level).begin(now_ns(), waited_ns);
            request.write(number);
            Ok(0)
        })
    })
}

/// Ends a request.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_end(level: *const LevelHandle, request: u64) -> c_int {
    // SAFETY: the header demands NULL or a handle.
    call(|| unsafe {
        handle::with_shared(level, |level| {
            lock(&level.level).end(request, now_ns());
            Ok(0)
        })
    })
}

/// Takes the latency of a request that has ended now.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_observe(
    level: *const LevelHandle,
    latency_ns: u64,
) -> c_int {
    // SAFETY: as above.
    call(|| unsafe {
        let latency_ns = time(latency_ns, "a latency")?;
        handle::with_shared(level, |level| {
            lock(&level.level).observe(latency_ns, now_ns());
            Ok(0)
        })
    })
}

/// Draws whether a request gets its optional content.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_serves_optional(level: *const LevelHandle) -> c_int {
    // SAFETY: as above.
    call(|| unsafe {
        handle::with_shared(level, |level| {
            let probability = lock(&level.level).level(now_ns());
            Ok(c_int::from(level.draw() < probability))
        })
    })
}

/// The probability that a request gets its optional content.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_value(
    level: *const LevelHandle,
    value: *mut f64,
) -> c_int {
    // SAFETY: the header demands NULL or a handle, and NULL or a place for a number.
    call(|| unsafe {
        handle::with_shared(level, |level| {
            let probability = lock(&level.level).level(now_ns());
            input::write(value, probability, "the place for the level")?;
            Ok(0)
        })
    })
}

/// Writes the report as JSON, without a zero at its end; returns its length.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_report(
    level: *const LevelHandle,
    room: *mut c_char,
    room_length: usize,
) -> c_int {
    // SAFETY: the header demands NULL or a handle, and NULL or so much room.
    call(|| unsafe {
        let room = input::room(room.cast(), room_length, "the room for the report")?;
        handle::with_shared(level, |level| {
            let text = answer::json(&lock(&level.level).report(now_ns()));
            let Some(part) = room.get_mut(..text.len()) else {
                let text = format!(
                    "the report has {} bytes, the room {room_length}",
                    text.len()
                );
                return Err(CallFailure::new(Status::TooLong, text));
            };
            part.copy_from_slice(text.as_bytes());
            Ok(text.len() as c_int)
        })
    })
}

/// Answers requests for the report at an address, in a thread of its own; returns the port, 0 of a Unix socket.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_listen(
    level: *const LevelHandle,
    address: *const c_char,
) -> c_int {
    // SAFETY: the header demands NULL or a handle, and NULL or a text.
    call(|| unsafe {
        let address = input::text(address, "the address")?;
        handle::with_shared(level, |level| {
            if level.listener.is_some() {
                return Err(CallFailure::invalid(
                    "the report is asked for elsewhere already",
                ));
            }
            let of_thread = Arc::clone(&level.level);
            let answer =
                move |head: &str| answer::answer(head, || lock(&of_thread).report(now_ns()));
            let listener = ReportListener::start(address, answer).map_err(|error| {
                let status = match error.kind() {
                    std::io::ErrorKind::InvalidInput => Status::Invalid,
                    _ => Status::Refused,
                };
                CallFailure::new(status, format!("cannot listen at {address}: {error}"))
            })?;
            let port = c_int::from(listener.port);
            level.listener = Some(listener);
            Ok(port)
        })
    })
}

/// Ends a service level, and the thread that answers for it.
#[unsafe(no_mangle)]
unsafe extern "C" fn tailbound_service_level_close(level: *mut LevelHandle) -> c_int {
    // SAFETY: the header demands NULL or a handle, which is not used again.
    unsafe { handle::close(level) }
}
