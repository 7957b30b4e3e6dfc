//! Formats of events as tracefs describes them, and events in them.

use tailbound_trace::kernel::{EventDecoder, EventLayout};

/// Whatever a format says, events of any bytes are decoded or skipped. The format ends at the first zero; what is behind
/// is an event.
pub fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0);
    let (format, event) = bytes.split_at(end.unwrap_or(bytes.len()));
    let Some(format) = crate::text(format) else {
        return;
    };
    match EventLayout::parse(format) {
        Ok(layout) => {
            let decoder = EventDecoder::new([&layout]);
            let id = layout.id.to_le_bytes();
            let mut event = event.to_vec();
            for (place, byte) in event.iter_mut().zip(id) {
                *place = byte;
            }
            let decoded = decoder.decode(&event);
            assert_eq!(decoded, decoder.decode(&event));
            assert!(decoded.is_none() || event.len() >= 8);
        }
        Err(refusal) => {
            let lines = format.lines().count().max(1);
            assert!((1..=lines).contains(&refusal.line), "{refusal}");
            assert!(!refusal.what.is_empty());
        }
    }
}
