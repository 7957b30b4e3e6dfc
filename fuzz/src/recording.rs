//! Recordings of the kernel's events.

use tailbound_trace::RecordingSummary;
use tailbound_trace::explain::{ExplainOptions, explain};
use tailbound_trace::export::{ProgramEvents, write_csv, write_ctf, write_perfetto, write_trace_dat};
use tailbound_trace::recording::{ChunkKind, ChunkWriter, KernelRecording};
use tailbound_trace::synthetic::SyntheticRecording;

/// The kinds of chunks after the header.
const KINDS: [ChunkKind; 7] = [
    ChunkKind::SchedulerPages,
    ChunkKind::CallPages,
    ChunkKind::SamplerDelays,
    ChunkKind::Sockets,
    ChunkKind::Load,
    ChunkKind::Requests,
    ChunkKind::End,
];

/// There is an answer or an error that says something, and the parts of latencies add up. Of an odd first byte the rest
/// is the file; else it is chunks behind a sound header: a kind, a CPU, a length of two bytes, and the content, to which
/// checksums are made.
pub fn check(bytes: &[u8]) {
    match bytes.split_first() {
        None => {}
        Some((mode, file)) if mode % 2 == 1 => ask(file),
        Some((_, chunks)) => ask(&with_sums(chunks)),
    }
}

fn with_sums(mut chunks: &[u8]) -> Vec<u8> {
    let mut out = ChunkWriter::new(Vec::new()).unwrap();
    let mut header = SyntheticRecording::new(2).header;
    header.calls = [
        (0, "read".to_owned()),
        (1, "write".to_owned()),
        (232, "epoll_wait".to_owned()),
    ]
    .into();
    out.write_json(ChunkKind::Header, &header).unwrap();
    while let Some((&[kind, cpu, low, high], rest)) = chunks.split_first_chunk::<4>() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        out.write(kind, u16::from(cpu % 2), content).unwrap();
        chunks = rest;
    }
    out.into_inner()
}

fn ask(file: &[u8]) {
    let recording = match KernelRecording::open(file) {
        Ok(recording) => recording,
        Err(refusal) => return assert!(!refusal.to_string().is_empty()),
    };
    if let Err(refusal) = RecordingSummary::of(&recording) {
        assert!(!refusal.to_string().is_empty());
    }
    match explain(&recording, &ExplainOptions::default()) {
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
        Ok(explanations) => {
            for band in explanations
                .iter()
                .flat_map(|explanation| &explanation.bands)
            {
                let parts = band.parts.iter().map(|part| part.total.as_nanos());
                assert_eq!(parts.sum::<u64>(), band.total.as_nanos());
            }
        }
    }
    for written in [
        write_csv(&recording, &ProgramEvents::default(), std::io::sink()),
        write_ctf(&recording, &ProgramEvents::default(), |_| Ok(std::io::sink())),
        write_trace_dat(&recording, std::io::sink()),
        write_perfetto(&recording, &ProgramEvents::default(), Vec::new(), std::io::sink()).map(drop),
    ] {
        if let Err(refusal) = written {
            assert!(!refusal.to_string().is_empty());
        }
    }
}
