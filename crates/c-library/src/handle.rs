//! Handles: what C holds a pointer to.

use std::ffi::c_int;
use std::sync::{Mutex, TryLockError};

use crate::status::{CallFailure, Status, call};

/// A value behind a pointer of C. One call at a time uses the value; the next one is refused.
#[derive(Debug)]
pub(crate) struct Handle<T> {
    value: Mutex<T>,
}

/// Puts a value behind a new pointer, which is stored at `place`.
///
/// # Safety
/// `place` is null, or a pointer may be written there.
pub(crate) unsafe fn store<T>(place: *mut *mut Handle<T>, value: T) -> Result<c_int, CallFailure> {
    if place.is_null() {
        return Err(CallFailure::invalid(
            "there is no place for the handle: NULL",
        ));
    }
    let value = Mutex::new(value);
    // SAFETY: the caller promises that a pointer may be written there.
    unsafe { place.write(Box::into_raw(Box::new(Handle { value }))) };
    Ok(0)
}

/// Carries out a call on the value of a handle.
///
/// # Safety
/// `handle` is null, or came from [`store`] and was not closed.
pub(crate) unsafe fn with<T>(
    handle: *const Handle<T>,
    body: impl FnOnce(&mut T) -> Result<c_int, CallFailure>,
) -> Result<c_int, CallFailure> {
    // SAFETY: as promised; a handle lives until it is closed.
    let handle = unsafe { handle.as_ref() };
    let handle = handle.ok_or_else(no_handle)?;
    match handle.value.try_lock() {
        Ok(mut value) => body(&mut value),
        Err(TryLockError::WouldBlock) => Err(busy()),
        Err(TryLockError::Poisoned(_)) => Err(failed_before()),
    }
}

/// Carries out a call on a value that calls of several threads may use, each after the other. The call has no callback.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn with_shared<T>(
    handle: *const Handle<T>,
    body: impl FnOnce(&mut T) -> Result<c_int, CallFailure>,
) -> Result<c_int, CallFailure> {
    // SAFETY: as promised; a handle lives until it is closed.
    let handle = unsafe { handle.as_ref() };
    let handle = handle.ok_or_else(no_handle)?;
    match handle.value.lock() {
        Ok(mut value) => body(&mut value),
        Err(_) => Err(failed_before()),
    }
}

/// Takes the value out of a handle, which is gone then; a handle in use stays.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn take<T>(handle: *mut Handle<T>) -> Result<T, CallFailure> {
    // SAFETY: as promised.
    let in_use = unsafe { handle.as_ref() }
        .ok_or_else(no_handle)?
        .value
        .try_lock()
        .is_err_and(|error| matches!(error, TryLockError::WouldBlock));
    if in_use {
        return Err(busy());
    }
    // SAFETY: the pointer came from `Box::into_raw`, and nobody uses the value.
    let handle = unsafe { Box::from_raw(handle) };
    let value = handle.value.into_inner();
    Ok(value.unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Ends a handle; NULL is none.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn close<T>(handle: *mut Handle<T>) -> c_int {
    call(|| {
        if handle.is_null() {
            return Ok(0);
        }
        // SAFETY: as promised.
        unsafe { take(handle) }.map(|_ended| 0)
    })
}

fn busy() -> CallFailure {
    CallFailure::new(
        Status::Busy,
        "the handle is in use by another call, of another thread or around this callback",
    )
}

fn no_handle() -> CallFailure {
    CallFailure::invalid("there is no handle: NULL")
}

fn failed_before() -> CallFailure {
    CallFailure::new(
        Status::Internal,
        "an earlier call with this handle failed within the library; close the handle",
    )
}
