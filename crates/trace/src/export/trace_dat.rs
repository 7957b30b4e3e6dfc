//! `trace.dat` of version 6 (trace-cmd.dat.v6(5)): the pages as the kernel wrote them, with the formats of their events.

use std::collections::BTreeMap;
use std::io::Write;

use super::error::ExportError;
use crate::kernel::{EventLayout, system_of};
use crate::recording::{
    ChunkKind, KernelRecording, PageStream, PositionedBytes, RecordedProcess, RecordingHeader,
};

/// The beginning of the file, with its version, byte order and the size of a long number.
const MAGIC: &[u8] = b"\x17\x08\x44tracing6\0\0\x08";
/// Bytes of a page of the file, where the recording has no longer one.
const PAGE_BYTES: usize = 4096;
/// Numbers of options.
const OPTION_BUFFER: u16 = 3;
const OPTION_CLOCK: u16 = 4;
const OPTION_UNAME: u16 = 5;
/// The name of the second buffer, with the system calls of chosen processes.
const CALL_BUFFER: &[u8] = b"calls\0";
/// Layout of an event's header, which has not changed since the format exists.
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                            \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
                            \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

/// Writes the recording for trace-cmd and KernelShark: the events of all threads, and a buffer named `calls` with the
/// system calls that were recorded. The recording is gone over twice, first for the sizes.
///
/// # Errors
/// The recording cannot be read, or `out` not be written.
pub fn write_trace_dat<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    mut out: impl Write,
) -> Result<(), ExportError> {
    let mut buffers = [ChunkKind::SchedulerPages, ChunkKind::CallPages].map(|kind| BufferPages {
        kind,
        pages: Vec::new(),
    });
    let mut page_bytes = PAGE_BYTES;
    let cpus = recording
        .header()
        .cpus
        .iter()
        .max()
        .map_or(0, |last| last + 1);
    for buffer in &mut buffers {
        for cpu in 0..cpus {
            let (count, longest) = size(recording, buffer.kind, cpu)?;
            page_bytes = page_bytes.max(longest.next_power_of_two());
            buffer.pages.push(count);
        }
    }
    let head = head(recording, cpus, page_bytes, &buffers)?;
    out.write_all(&head)?;
    let mut page_of_file = vec![0; page_bytes];
    for buffer in &buffers {
        for cpu in 0..cpus {
            let mut pages = PageStream::new(recording, buffer.kind, cpu);
            while let Some(page) = pages.next_page()? {
                page_of_file[..page.len()].copy_from_slice(page);
                page_of_file[page.len()..].fill(0);
                out.write_all(&page_of_file)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// The pages of each CPU in one buffer.
struct BufferPages {
    kind: ChunkKind,
    pages: Vec<u64>,
}

/// How many pages a CPU has, and the length of the longest.
fn size<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    kind: ChunkKind,
    cpu: u32,
) -> Result<(u64, usize), ExportError> {
    let mut pages = PageStream::new(recording, kind, cpu);
    let (mut count, mut longest) = (0, 0);
    while let Some(page) = pages.next_page()? {
        count += 1;
        longest = longest.max(page.len());
    }
    Ok((count, longest))
}

/// Everything before the pages, up to a whole page.
fn head<B: PositionedBytes>(
    recording: &KernelRecording<B>,
    cpus: u32,
    page_bytes: usize,
    buffers: &[BufferPages; 2],
) -> Result<Vec<u8>, ExportError> {
    let header = recording.header();
    let mut head = MAGIC.to_vec();
    head.extend((page_bytes as u32).to_le_bytes());
    let header_page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:{};\tsigned:0;\n",
        page_bytes - crate::kernel::PAGE_HEADER_BYTES
    );
    head.extend(b"header_page\0");
    sized(&mut head, header_page.as_bytes());
    head.extend(b"header_event\0");
    sized(&mut head, HEADER_EVENT.as_bytes());
    // No formats of ftrace's own events.
    head.extend(0_u32.to_le_bytes());
    formats(&mut head, header)?;
    // Neither addresses of functions nor formats of trace_printk.
    head.extend([0; 8]);
    let end = recording.end().map_or(&[][..], |end| &end.processes);
    let processes = header.processes.iter().chain(end);
    let threads = processes.flat_map(RecordedProcess::named_threads);
    let lines: Vec<String> = threads
        .map(|(thread, name)| format!("{thread} {name}\n"))
        .collect();
    sized(&mut head, lines.concat().as_bytes());
    head.extend(cpus.to_le_bytes());
    head.extend(b"options  \0");
    option(&mut head, OPTION_CLOCK, b"[mono]\n\0");
    if let Some(kernel) = header.host.get("kernel") {
        option(
            &mut head,
            OPTION_UNAME,
            format!("Linux {kernel}\0").as_bytes(),
        );
    }
    let table_bytes = b"flyrecord\0".len() + cpus as usize * 16;
    let option_bytes = 6 + 8 + CALL_BUFFER.len() + 2;
    let calls_at = head.len() + option_bytes + table_bytes;
    let place = [&(calls_at as u64).to_le_bytes()[..], CALL_BUFFER].concat();
    option(&mut head, OPTION_BUFFER, &place);
    head.extend(0_u16.to_le_bytes());
    let mut next = (calls_at + table_bytes).next_multiple_of(page_bytes);
    let start = next;
    for buffer in buffers {
        head.extend(b"flyrecord\0");
        for pages in &buffer.pages {
            let bytes = *pages as usize * page_bytes;
            head.extend((next as u64).to_le_bytes());
            head.extend((bytes as u64).to_le_bytes());
            next += bytes;
        }
    }
    head.resize(start, 0);
    Ok(head)
}

/// The formats of all events, by the systems of the kernel that they are of.
fn formats(head: &mut Vec<u8>, header: &RecordingHeader) -> Result<(), ExportError> {
    let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for format in &header.formats {
        let layout = EventLayout::parse(format)?;
        let system = system_of(&layout.name).unwrap_or("unknown");
        systems.entry(system).or_default().push(format);
    }
    head.extend((systems.len() as u32).to_le_bytes());
    for (system, formats) in systems {
        head.extend(system.as_bytes());
        head.push(0);
        head.extend((formats.len() as u32).to_le_bytes());
        for format in formats {
            sized(head, format.as_bytes());
        }
    }
    Ok(())
}

fn sized(head: &mut Vec<u8>, bytes: &[u8]) {
    head.extend((bytes.len() as u64).to_le_bytes());
    head.extend(bytes);
}

fn option(head: &mut Vec<u8>, number: u16, content: &[u8]) {
    head.extend(number.to_le_bytes());
    head.extend((content.len() as u32).to_le_bytes());
    head.extend(content);
}
