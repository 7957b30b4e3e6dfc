//! What every parser and every socket promises of arbitrary bytes. `check` of each module is the body of
//! the fuzz target of the same name; a broken promise is a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod agent_links;
pub mod agent_session;
pub mod control_connection;
pub mod description;
pub mod distribution;
pub mod enforcement_journal;
pub mod event_layout;
pub mod frames;
pub mod frequency_model;
pub mod input_files;
pub mod kernel_files;
pub mod kernel_trace;
pub mod load_replies;
pub mod machine_monitor;
pub mod modes_journal;
pub mod notations;
pub mod nri;
pub mod recording;
pub mod report;
pub mod rt_app;
pub mod rtps;
pub mod sweep;
pub mod topic_messages;
pub mod watch_channel;

#[allow(dead_code)]
#[path = "../../crates/enforcement/tests/fake_host/fake_kernel/mod.rs"]
#[allow(dead_code)]
mod fake_kernel;
#[path = "../../crates/daemon/tests/fakes/mod.rs"]
mod fakes;
mod stream;

use tailbound_model::Problems;

/// `bytes` as text. Every reader of files has a check of its own that bytes are UTF-8; the readers of
/// texts come after that check.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Every problem has a place in `text` and says what would be right.
fn problems_have_places(text: &str, problems: &Problems) {
    let lines = text.split('\n').count();
    for problem in problems {
        assert!((1..=lines).contains(&problem.line), "{problem}");
        assert!(problem.column >= 1, "{problem}");
        assert!(text.get(problem.span.clone()).is_some(), "{problem}");
        assert!(!problem.message.is_empty() && !problem.remedy.is_empty());
    }
}

/// A folder in memory that one process uses for all its executions.
fn folder() -> &'static std::path::Path {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let make = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    FOLDER.get_or_init(|| make().expect("a folder")).path()
}
