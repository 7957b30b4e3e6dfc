//! The daemon's log, as a subscriber of `tracing`: entries with a level and fields for systemd's journal, lines of text
//! for every other standard error, which is a file, a pipe or a terminal.
//!
//! No entry is waited for. A log that nobody reads must hold up neither the daemon nor its watchdog, so such entries are
//! lost, and errors with them (`eprintln!` would panic; `tracing-journald` and `tracing_subscriber::fmt` would wait).

mod journal;

use std::env;
use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::os::fd::AsFd;

use tailbound_linux::control_socket::takes_short_write;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, warn};

use self::journal::SystemdJournal;

/// The longest line, in bytes: what a pipe takes at once or not at all.
const LINE_BYTES_MAX: usize = 4096;

/// The variable that sets the least urgent level that is logged.
const LEVEL_VARIABLE: &str = "TAILBOUND_LOG";

/// Logs the events of this process from here on.
pub fn begin() {
    let text = env::var(LEVEL_VARIABLE).ok();
    let level = text.as_deref().map(|text| text.parse::<LevelFilter>());
    let log = DaemonLog {
        level: level
            .clone()
            .and_then(Result::ok)
            .unwrap_or(LevelFilter::INFO),
        journal: SystemdJournal::of_standard_error(),
    };
    // A process has one log, and the first stays.
    let _ = tracing::subscriber::set_global_default(log);
    if let (Some(text), Some(Err(_))) = (text, level) {
        warn!(
            "{LEVEL_VARIABLE} is \"{text}\"; write error, warn, info, debug or off (info is taken)"
        );
    }
}

/// What happened, with the fields that it has.
#[derive(Debug, Default, PartialEq, Eq)]
struct LogEntry {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for LogEntry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            // Text cannot fail to be written to memory.
            "message" => _ = write!(self.message, "{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}

/// The log of this process.
struct DaemonLog {
    level: LevelFilter,
    journal: Option<SystemdJournal>,
}

impl Subscriber for DaemonLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut entry = LogEntry::default();
        event.record(&mut entry);
        let urgency = urgency(*event.metadata().level());
        match &self.journal {
            Some(journal) if journal.send(urgency, &entry) => {}
            Some(_) => write_line(&journal::lines(urgency, &entry.message)),
            None => {
                let process = std::process::id();
                write_line(&format!("tailboundd[{process}]: {}", entry.message));
            }
        }
    }

    // There are no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The urgency of a level, as syslog(3) numbers it.
fn urgency(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// Writes one line to standard error, unless that would wait.
fn write_line(line: &str) {
    let mut text = line.as_bytes().to_vec();
    text.truncate(LINE_BYTES_MAX - 1);
    text.push(b'\n');
    let mut stderr = io::stderr().lock();
    if takes_short_write(stderr.as_fd()) {
        let _ = stderr.write_all(&text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use super::*;

    /// A subscriber that keeps what `DaemonLog` makes of an event.
    struct RecordingSubscriber(DaemonLog, Arc<Mutex<Vec<(u8, LogEntry)>>>);

    impl Subscriber for RecordingSubscriber {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }
        fn event(&self, event: &Event<'_>) {
            let mut entry = LogEntry::default();
            event.record(&mut entry);
            let urgency = urgency(*event.metadata().level());
            self.1.lock().unwrap().push((urgency, entry));
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn entries_have_the_fields_that_are_set_and_a_level_bounds_them() {
        let level = LevelFilter::INFO;
        let log = DaemonLog {
            level,
            journal: None,
        };
        let kept = Arc::default();
        let subscriber = RecordingSubscriber(log, Arc::clone(&kept));
        let (unit, none) = (Some("redis.service"), None::<&str>);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(domain = "redis", unit, container = none, "reserved {}", 1);
            tracing::debug!("not logged");
            tracing::error!("lost");
        });
        let entries = kept.lock().unwrap();
        let fields = vec![
            ("domain", "redis".to_owned()),
            ("unit", "redis.service".to_owned()),
        ];
        let message = "reserved 1".to_owned();
        assert_eq!(entries[0], (6, LogEntry { message, fields }));
        assert_eq!((entries[1].0, entries.len()), (3, 2));
    }
}
