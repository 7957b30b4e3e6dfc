//! The tables of sites of the program and of every library that is loaded.
//!
//! Each of them with a trigger has a note (ELF, PT_NOTE) with the bounds of its table, relative to the note. So no
//! constructor registers anything, and a library that is loaded later is there at the next look.

use std::ffi::c_void;
use std::slice;

use crate::site::TriggerSite;

/// The owner and the type of the note.
const NOTE_OWNER: &[u8] = b"Tailbound\0";
const NOTE_TYPE: u32 = 1;

/// A copy of a trigger in the text: an entry of a table of sites. All offsets are from the field itself.
#[repr(C)]
#[derive(Debug)]
struct SiteEntry {
    /// The jump, or 0 where the trigger is a branch on its atomic.
    jump: i32,
    site: i32,
    /// The offset in the jump while the trigger is off.
    skip: u32,
}

/// A copy of a trigger.
#[derive(Clone, Copy, Debug)]
pub struct SiteCopy {
    /// The trigger.
    pub site: &'static TriggerSite,
    /// The jump to patch, if there is one.
    pub jump: Option<Jump>,
}

/// A jump of two bytes, the second one of which is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The address of the first byte.
    pub address: usize,
    /// The second byte while the trigger is off.
    pub skip: u8,
}

/// Every copy of every trigger of the process.
pub fn site_copies() -> Vec<SiteCopy> {
    let mut tables: Vec<(usize, usize)> = Vec::new();
    // SAFETY: the callback has the signature that dl_iterate_phdr calls, and `tables` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(collect_tables), (&raw mut tables).cast()) };
    tables.sort_unstable();
    tables.dedup();
    tables.into_iter().flat_map(copies_of).collect()
}

fn copies_of((start, end): (usize, usize)) -> impl Iterator<Item = SiteCopy> {
    let count = end.saturating_sub(start) / size_of::<SiteEntry>();
    // SAFETY: the linker made these bounds of the section that only entries are put into, and libraries with triggers
    // are not unloaded (as the documentation of `enable` asks).
    let entries: &'static [SiteEntry] = unsafe { slice::from_raw_parts(start as *const _, count) };
    entries.iter().filter(|entry| entry.site != 0).map(|entry| {
        let site = relative(&raw const entry.site, entry.site);
        SiteCopy {
            // SAFETY: the entry has the address of a static of this library or program.
            site: unsafe { &*(site as *const TriggerSite) },
            jump: (entry.jump != 0).then(|| Jump {
                address: relative(&raw const entry.jump, entry.jump),
                skip: entry.skip as u8,
            }),
        }
    })
}

fn relative(field: *const i32, offset: i32) -> usize {
    (field as usize).wrapping_add_signed(offset as isize)
}

extern "C" fn collect_tables(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    tables: *mut c_void,
) -> libc::c_int {
    // SAFETY: the loader passes an object that it holds for the time of the call, with its program headers;
    // `tables` is that of `site_copies`.
    let (object, tables) = unsafe { (&*object, &mut *tables.cast::<Vec<(usize, usize)>>()) };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: as above.
    let headers =
        unsafe { slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    for header in headers.iter().filter(|it| it.p_type == libc::PT_NOTE) {
        let start = object.dlpi_addr as usize + header.p_vaddr as usize;
        // SAFETY: segments of notes are loaded and stay as they are.
        let notes = unsafe { slice::from_raw_parts(start as *const u8, header.p_memsz as usize) };
        tables.extend(tables_of(notes));
    }
    0
}

/// The bounds of the tables that notes name.
fn tables_of(notes: &[u8]) -> Vec<(usize, usize)> {
    let mut tables = Vec::new();
    let mut rest = notes;
    while let Some((lengths, content)) = rest.split_at_checked(12) {
        let word = |at: usize| {
            u32::from_ne_bytes([
                lengths[at],
                lengths[at + 1],
                lengths[at + 2],
                lengths[at + 3],
            ])
        };
        let (owner_bytes, content_bytes) = (word(0) as usize, word(4) as usize);
        let padded = |bytes: usize| bytes.saturating_add(3) & !3;
        let Some((owner, content)) = content.split_at_checked(padded(owner_bytes)) else {
            break;
        };
        let is_ours = owner.starts_with(NOTE_OWNER) && owner_bytes == NOTE_OWNER.len();
        if is_ours && word(8) == NOTE_TYPE && content_bytes == 8 && content.len() >= 8 {
            let bound = |at: usize| {
                let offset = [
                    content[at],
                    content[at + 1],
                    content[at + 2],
                    content[at + 3],
                ];
                relative(content[at..].as_ptr().cast(), i32::from_ne_bytes(offset))
            };
            tables.push((bound(0), bound(4)));
        }
        let Some((_, next)) = content.split_at_checked(padded(content_bytes)) else {
            break;
        };
        rest = next;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(owner: &[u8], content: &[u8]) -> Vec<u8> {
        let lengths = [owner.len() as u32, content.len() as u32, NOTE_TYPE];
        let mut note: Vec<u8> = lengths.iter().flat_map(|it| it.to_ne_bytes()).collect();
        for part in [owner, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_note_among_others_is_read() {
        let mut notes = note(b"GNU\0", &[1; 20]);
        notes.extend(note(b"Elsewhere\0", &[1; 8]));
        let place = notes.len() + 12 + 12;
        notes.extend(note(NOTE_OWNER, &[16, 0, 0, 0, 36, 0, 0, 0]));
        let content = notes[place..].as_ptr() as usize;
        assert_eq!(tables_of(&notes), [(content + 16, content + 4 + 36)]);
    }

    proptest! {
        #[test]
        fn garbled_notes_are_passed_over(notes in proptest::collection::vec(any::<u8>(), 0..200)) {
            tables_of(&notes);
        }
    }
}
