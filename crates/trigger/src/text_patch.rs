//! One byte of the program's text, changed while other threads run it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::site_table::Jump;

/// The variable of the environment that forbids to change the text of the program (`off`), for programs whose operator
/// wants their text to stay as it was built. Triggers that are branches on atomics are switched all the same.
pub const PATCH_VARIABLE: &str = "TAILBOUND_TRIGGER_PATCH";
/// The first byte of a jump with an offset of one byte.
const SHORT_JUMP: u8 = 0xeb;
const MEMBARRIER_SYNC_CORE: libc::c_int = 1 << 5;
const MEMBARRIER_REGISTER_SYNC_CORE: libc::c_int = 1 << 6;

/// Lets a jump go to the next instruction (`true`), or over it.
///
/// # Errors
/// `InvalidData` where the text at the address is not the jump that the table of sites claims; otherwise what the
/// kernel says to both ways of writing text: mprotect, and /proc/self/mem. `PermissionDenied` or `InvalidInput` where
/// [`PATCH_VARIABLE`] says so.
pub fn patch(jump: Jump, is_enabled: bool) -> io::Result<()> {
    // SAFETY: both bytes are text of this process, which is mapped for as long as it runs.
    let [opcode, offset] = unsafe { *(jump.address as *const [u8; 2]) };
    if opcode != SHORT_JUMP || (offset != 0 && offset != jump.skip) {
        let text = format!(
            "{opcode:02x} {offset:02x} at {:x} is no trigger",
            jump.address
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let value = if is_enabled { 0 } else { jump.skip };
    if value == offset {
        return Ok(());
    }
    check_permission()?;
    write_by_protection(jump.address + 1, value)
        .or_else(|error| write_by_file(jump.address + 1, value).map_err(|_| error))
}

/// Refuses where the environment of the program forbids patches, or says neither `on` nor `off`.
fn check_permission() -> io::Result<()> {
    let Some(value) = std::env::var_os(PATCH_VARIABLE) else {
        return Ok(());
    };
    let (kind, what) = match value.to_str() {
        Some("on") => return Ok(()),
        Some("off") => (io::ErrorKind::PermissionDenied, "forbids it"),
        _ => (io::ErrorKind::InvalidInput, "is neither on nor off"),
    };
    let text = format!("{PATCH_VARIABLE}={} {what}", value.display());
    Err(io::Error::new(kind, text))
}

/// Makes the page writable for the time of the store. The page stays executable: other threads may run in it.
fn write_by_protection(address: usize, value: u8) -> io::Result<()> {
    // SAFETY: sysconf takes a number.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let page = (address & !(page_bytes - 1)) as *mut libc::c_void;
    let text = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: the page is text of this process; to be writable harms nothing that does not write to it.
    if unsafe { libc::mprotect(page, page_bytes, text | libc::PROT_WRITE) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the byte is mapped and writable, and no reference to it exists; processors read it as text.
    unsafe { AtomicU8::from_ptr(address as *mut u8) }.store(value, Ordering::SeqCst);
    // SAFETY: as above. Text that stays writable is no failure of the patch.
    unsafe { libc::mprotect(page, page_bytes, text) };
    Ok(())
}

/// Writes past the protection, where it may not be changed (SELinux, MemoryDenyWriteExecute of systemd).
fn write_by_file(address: usize, value: u8) -> io::Result<()> {
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&[value], address as u64)
}

/// Returns when no thread of the process runs the text that was there before the patches.
///
/// Kernels without this barrier lack a guarantee only: a processor soon fetches the changed text on its own.
pub fn synchronize_threads() {
    static REGISTRATION: OnceLock<bool> = OnceLock::new();
    let barrier = |command: libc::c_int| {
        // SAFETY: membarrier takes numbers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    if *REGISTRATION.get_or_init(|| barrier(MEMBARRIER_REGISTER_SYNC_CORE)) {
        barrier(MEMBARRIER_SYNC_CORE);
    }
}
