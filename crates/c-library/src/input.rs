//! Arguments of functions for C: pointers, texts and bytes become references, or a refusal.

use std::ffi::{CStr, c_char};

use crate::status::CallFailure;

/// The value that a pointer leads to.
///
/// # Safety
/// `pointer` is null, or leads to a value that lives and does not change for as long as the reference is used.
pub(crate) unsafe fn reference<'a, T>(
    pointer: *const T,
    subject: &str,
) -> Result<&'a T, CallFailure> {
    if !pointer.is_aligned() {
        return Err(CallFailure::invalid(format!(
            "{subject} is no such pointer"
        )));
    }
    // SAFETY: as promised.
    unsafe { pointer.as_ref() }.ok_or_else(|| CallFailure::invalid(format!("{subject} is NULL")))
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `place` is null, or a value may be written there.
pub(crate) unsafe fn write<T>(place: *mut T, value: T, subject: &str) -> Result<(), CallFailure> {
    if place.is_null() || !place.is_aligned() {
        return Err(CallFailure::invalid(format!(
            "{subject} is no place for it"
        )));
    }
    // SAFETY: as promised.
    unsafe { place.write(value) };
    Ok(())
}

/// A text in UTF-8 that ends with a zero.
///
/// # Safety
/// `text` is null, or leads to bytes with a zero among them that live and do not change as long as the text is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, subject: &str) -> Result<&'a str, CallFailure> {
    if text.is_null() {
        return Err(CallFailure::invalid(format!("{subject} is NULL")));
    }
    // SAFETY: as promised.
    let bytes = unsafe { CStr::from_ptr(text) };
    let text = bytes.to_str();
    text.map_err(|_| CallFailure::invalid(format!("{subject} is no text in UTF-8: {bytes:?}")))
}

/// Bytes; none may come with NULL.
///
/// # Safety
/// `bytes` is null, or leads to `length` bytes that live and do not change as long as the slice is used.
pub(crate) unsafe fn bytes<'a>(
    bytes: *const u8,
    length: usize,
    subject: &str,
) -> Result<&'a [u8], CallFailure> {
    // SAFETY: as promised; bytes are aligned anywhere.
    unsafe { array(bytes, length, subject) }
}

/// An array; an empty one may be NULL.
///
/// # Safety
/// `first` is null, or leads to `count` values that live and do not change as long as the slice is used.
pub(crate) unsafe fn array<'a, T>(
    first: *const T,
    count: usize,
    subject: &str,
) -> Result<&'a [T], CallFailure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() {
        return Err(CallFailure::invalid(format!(
            "{subject} is NULL, of length {count}"
        )));
    }
    let most = isize::MAX.unsigned_abs() / size_of::<T>().max(1);
    if count > most {
        let text = format!("{subject} has the length {count}, which no memory has");
        return Err(CallFailure::invalid(text));
    }
    // SAFETY: as promised, and no longer than a slice may be.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// Room for bytes.
///
/// # Safety
/// `first` is null, or leads to `length` bytes that nothing else uses as long as the slice is used.
pub(crate) unsafe fn room<'a>(
    first: *mut u8,
    length: usize,
    subject: &str,
) -> Result<&'a mut [u8], CallFailure> {
    if length == 0 {
        return Ok(&mut []);
    }
    if first.is_null() || length > isize::MAX.unsigned_abs() {
        return Err(CallFailure::invalid(format!(
            "{subject} is NULL, or of the length {length}, which no memory has"
        )));
    }
    // SAFETY: as promised. The bytes may be uninitialised in C, where any value of them is one of u8.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, length) })
}
