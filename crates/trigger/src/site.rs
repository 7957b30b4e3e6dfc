//! The part of a trigger that all its copies share.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A function that a trigger calls: the trigger, its arguments, and their number.
pub type Callback = extern "C" fn(site: &TriggerSite, arguments: *const u64, count: u32);

/// A trigger, as it lies in the memory of the program. C has the same structure.
#[repr(C)]
#[derive(Debug)]
pub struct TriggerSite {
    name: *const c_char,
    callback: AtomicPtr<()>,
    enabled: AtomicU32,
    /// The place of the name in the tables of names, from 1; 0 before the trigger is first switched on.
    number: AtomicU32,
}

// SAFETY: the name is constant, and the rest are atomics.
unsafe impl Sync for TriggerSite {}

impl TriggerSite {
    /// A trigger that is off. `name` ends with a zero.
    ///
    /// # Panics
    /// At compile time, if `name` does not end with a zero.
    pub const fn new(name: &'static str) -> Self {
        assert!(!name.is_empty() && name.as_bytes()[name.len() - 1] == 0);
        Self {
            name: name.as_ptr().cast(),
            callback: AtomicPtr::new(ptr::null_mut()),
            enabled: AtomicU32::new(0),
            number: AtomicU32::new(0),
        }
    }

    /// The name of the trigger.
    pub fn name(&self) -> &str {
        // SAFETY: the name is a constant of the program, and ends with a zero.
        let name = unsafe { CStr::from_ptr(self.name) };
        name.to_str().unwrap_or("(a name that is not UTF-8)")
    }

    /// The place of the trigger's name in the table of names of a recording, from 1.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Whether the trigger is on.
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) != 0
    }

    /// Calls the callback of the trigger.
    #[cold]
    #[inline(never)]
    pub fn fire(&self, arguments: &[u64]) {
        let callback = self.callback.load(Ordering::Acquire);
        if callback.is_null() {
            return;
        }
        // SAFETY: only `prepare` stores here, and stores a callback; so does the control code in C.
        let callback: Callback = unsafe { std::mem::transmute::<*mut (), Callback>(callback) };
        callback(self, arguments.as_ptr(), arguments.len() as u32);
    }

    /// Sets what the trigger does where it is on. A thread that is in the trigger may still call the callback before.
    pub(crate) fn prepare(&self, number: u32, callback: Callback) {
        self.number.store(number, Ordering::Relaxed);
        self.callback.store(callback as *mut (), Ordering::Release);
    }

    pub(crate) fn set_enabled(&self, is_enabled: bool) {
        self.enabled.store(u32::from(is_enabled), Ordering::Relaxed);
    }
}
