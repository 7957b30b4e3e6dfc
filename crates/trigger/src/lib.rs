//! Triggers: named places in a program that record an event, or call a function, where they are switched on,
//! and cost one instruction where they are off.
//!
//! ```
//! fn serve(request: u64, bytes: u64) {
//!     tailbound_trigger::trigger!("serve.begin", request, bytes);
//!     // ...
//! }
//! # serve(1, 2);
//! assert_eq!(tailbound_trigger::enable("serve.*")?, 1);
//! # Ok::<(), tailbound_trigger::TriggerError>(())
//! ```
//!
//! On x86-64 a trigger is a jump over a jump. To switch a trigger on or off, the crate stores one byte, the offset of
//! the first jump (Brandenburg and Anderson, Feather-Trace, OSPERT 2007, section 2.1): a store of one byte is atomic,
//! so that threads on other CPUs meet the old instruction or the new one. Elsewhere, and with the feature `atomic`, a
//! trigger is a branch on an atomic of its own. The macro and the functions are the same. Which of the two a trigger is,
//! is decided when the program is built: a program whose text cannot be patched when it runs leaves its jumps off, and
//! [`enable`] refuses with the reason. [`PATCH_VARIABLE`] has it refuse where text could be patched.
//!
//! Events go to a [recording](layout): a file of memory that outlives the program, so that a crash leaves all
//! events but those that were being written. Other processes switch triggers of a program that calls [`listen`].
//!
//! The crate has no dependency but `libc`, since it is linked into programs of others. `libraries/c/tailbound_trigger.h`
//! is the same for C and C++; each finds the triggers of the other in a program that has both.
#![allow(unsafe_code)]

pub mod ring_buffer;

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
mod control_socket;
#[cfg(not(loom))]
mod event_sink;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
mod mapped_file;
#[cfg(not(loom))]
mod pattern;
#[cfg(not(loom))]
mod recording_reader;
#[cfg(not(loom))]
pub mod site;
#[cfg(not(loom))]
mod site_table;
#[cfg(not(loom))]
mod switch;
#[cfg(not(loom))]
mod text_patch;

#[cfg(test)]
mod interleavings;

#[cfg(not(loom))]
pub use control_socket::{listen, socket_name};
#[cfg(not(loom))]
pub use recording_reader::{RecordingReader, Salvage, TriggerEvent};
#[cfg(not(loom))]
pub use switch::{TriggerError, TriggerState, call, disable, enable, record_into, stop, triggers};
#[cfg(not(loom))]
pub use text_patch::PATCH_VARIABLE;

/// A trigger: `trigger!("name", a, b)` with up to eight arguments, each an integer that `as u64` converts.
///
/// The arguments are evaluated only where the trigger is on. A name has up to 56 characters. Triggers of one name
/// are switched together, all copies that the compiler makes of one included.
#[cfg(not(loom))]
#[macro_export]
macro_rules! trigger {
    ($name:literal $(, $argument:expr)* $(,)?) => {{
        const _: () = assert!($name.len() <= $crate::layout::NAME_BYTES, "names have at most 56 bytes");
        const _: () = assert!(
            <[&str]>::len(&[$(stringify!($argument)),*]) <= $crate::layout::ARGUMENTS,
            "a trigger has at most eight arguments"
        );
        static SITE: $crate::site::TriggerSite =
            $crate::site::TriggerSite::new(concat!($name, "\0"));
        $crate::__trigger_branch!(SITE, { SITE.fire(&[$($argument as u64),*]) });
    }};
}

/// The branch of [`trigger!`] that is patched, and the entry in the table of sites.
#[cfg(all(target_arch = "x86_64", not(feature = "atomic"), not(loom)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __trigger_branch {
    ($site:ident, $on:block) => {
        // SAFETY: the text jumps over a jump, touches neither memory, stack nor flags, and goes to the block or on;
        // the sections receive constants. A patch changes nothing but which of the two is taken.
        #[allow(unsafe_code)]
        unsafe {
            ::core::arch::asm!(
                "2: jmp 3f",
                "jmp {on}",
                "3:",
                $crate::__trigger_entry!("2b - .", "3b - 2b - 2"),
                site = sym $site,
                on = label $on,
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

/// The branch of [`trigger!`] on an atomic, and the entry in the table of sites.
#[cfg(all(any(not(target_arch = "x86_64"), feature = "atomic"), not(loom)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __trigger_branch {
    ($site:ident, $on:block) => {
        // SAFETY: no instruction; the sections receive constants.
        #[allow(unsafe_code)]
        unsafe {
            ::core::arch::asm!(
                $crate::__trigger_entry!("0", "0"),
                site = sym $site,
                options(nomem, nostack, preserves_flags)
            )
        }
        if $site.is_enabled() $on
    };
}

/// The entry of a copy in the table of sites, with `{site}` as the trigger, and the note by which the table of a program
/// or library is located: the bounds of the section, from the note. Flag `?` puts the entry into the group of the
/// function, and `R` keeps linkers from dropping it.
#[cfg(not(loom))]
#[doc(hidden)]
#[macro_export]
macro_rules! __trigger_entry {
    ($jump:literal, $skip:literal) => {
        concat!(
            ".pushsection tailbound_triggers,\"aw?R\",@progbits
            .balign 4
            .long ",
            $jump,
            "
            .long {site} - .
            .long ",
            $skip,
            "
            .popsection
            .ifndef tailbound_trigger_note
            .set tailbound_trigger_note, 1
            .pushsection .note.tailbound,\"aR\",@note
            .balign 4
            .long 10, 8, 1
            .asciz \"Tailbound\"
            .balign 4
            .hidden __start_tailbound_triggers
            .hidden __stop_tailbound_triggers
            .long __start_tailbound_triggers - .
            .long __stop_tailbound_triggers - .
            .popsection
            .endif"
        )
    };
}
