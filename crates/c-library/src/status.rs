//! Outcomes of calls: a number, and a text for people that the thread keeps.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tailbound_pubsub::{PublishError, TransportError};

/// Why a call failed, by the numbers of the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// An argument has no meaning: a null pointer, a text that is no UTF-8, a number that stands for nothing.
    Invalid = -1,
    /// The handle is in use by another call.
    Busy = -2,
    /// The transport lacks a quality of the topic.
    Lacks = -3,
    /// The contract of the topic has no meaning.
    ContractFault = -4,
    /// The message breaks the contract of its publisher.
    ContractBroken = -5,
    /// The message is longer than the topic admits, or than the room for a copy.
    TooLong = -6,
    /// The kernel or the middleware refused.
    Refused = -7,
    /// The library was built without this transport.
    Absent = -8,
    /// An error of the library itself. The handle is of no more use.
    Internal = -9,
    /// The program inherited no such port, or the descriptor is of no port.
    NoPort = -10,
    /// As many messages wait as the port holds.
    Full = -11,
    /// The writer wrote so often during the read that no message stayed in place.
    Overtaken = -12,
    /// The other side of the port wrote what cannot be.
    Garbled = -13,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::Busy,
        Self::Lacks,
        Self::ContractFault,
        Self::ContractBroken,
        Self::TooLong,
        Self::Refused,
        Self::Absent,
        Self::Internal,
        Self::NoPort,
        Self::Full,
        Self::Overtaken,
        Self::Garbled,
    ];

    /// The name in the header, without `TAILBOUND_`.
    pub fn name(self) -> &'static CStr {
        match self {
            Self::Invalid => c"INVALID",
            Self::Busy => c"BUSY",
            Self::Lacks => c"LACKS",
            Self::ContractFault => c"CONTRACT_FAULT",
            Self::ContractBroken => c"CONTRACT_BROKEN",
            Self::TooLong => c"TOO_LONG",
            Self::Refused => c"REFUSED",
            Self::Absent => c"ABSENT",
            Self::Internal => c"INTERNAL",
            Self::NoPort => c"NO_PORT",
            Self::Full => c"FULL",
            Self::Overtaken => c"OVERTAKEN",
            Self::Garbled => c"GARBLED",
        }
    }
}

/// A failure on its way to the caller.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl CallFailure {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Status::Invalid, text)
    }
}

impl From<TransportError> for CallFailure {
    fn from(error: TransportError) -> Self {
        let status = match &error {
            TransportError::Lacks { .. } => Status::Lacks,
            TransportError::Contract { .. } => Status::ContractFault,
            TransportError::Refused { .. } => Status::Refused,
        };
        Self::new(status, error.to_string())
    }
}

impl From<PublishError> for CallFailure {
    fn from(error: PublishError) -> Self {
        let status = match error {
            PublishError::Transport(error) => return error.into(),
            PublishError::Contract { .. } => Status::ContractBroken,
            PublishError::TooLong { .. } => Status::TooLong,
        };
        Self::new(status, error.to_string())
    }
}

thread_local! {
    /// The text of the last failure of this thread.
    static LAST_FAILURE: RefCell<CString> = RefCell::new(CString::default());
}

/// Carries out a call: its number, or that of its failure, whose text the thread keeps.
pub(crate) fn call(body: impl FnOnce() -> Result<c_int, CallFailure>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let failure = match outcome {
        Ok(Ok(number)) => return number,
        Ok(Err(failure)) => failure,
        Err(panic) => CallFailure::new(Status::Internal, words_of(panic.as_ref())),
    };
    let number = failure.status as c_int;
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no place for the text any more.
    let _ = LAST_FAILURE.try_with(|last| last.replace(text));
    number
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("error of the library: {}", text.unwrap_or("a panic"))
}

/// The text of the last failed call of this thread; valid until the next one fails.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn tailbound_last_error() -> *const c_char {
    LAST_FAILURE
        .try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// The name of a status; "OK" from 0 on.
#[unsafe(no_mangle)]
extern "C" fn tailbound_status_name(status: c_int) -> *const c_char {
    let named = Status::ALL.into_iter().find(|one| *one as c_int == status);
    match named {
        Some(named) => named.name().as_ptr(),
        None if status >= 0 => c"OK".as_ptr(),
        None => c"UNKNOWN".as_ptr(),
    }
}
