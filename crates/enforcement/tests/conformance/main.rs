//! What every back end does on the real kernel, or declares not to.
//!
//! The checks share the CPUs, so they run one after the other; that, and that this program is its
//! own busy process, is why it has no test harness. Shares are compared with generous margins,
//! and a timing that a stall of the host spoilt is taken again, up to three times:
//! `examples/backend_accuracy.rs` is the strict measurement.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod checks;
mod program;
mod runner;
mod snapshot;
mod spinner;

use tailbound_enforcement::backends::ALL;
use tailbound_linux::HostCapabilities;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if program::play_role(&arguments) {
        return;
    }
    let host = HostCapabilities::probe();
    let mut cases = Vec::new();
    for back_end in ALL {
        for (name, check) in checks::ALL {
            let host = &host;
            cases.push(runner::Case {
                name: format!("{}::{name}", back_end.kind()),
                run: Box::new(move || checks::run(back_end, host, check)),
            });
        }
    }
    if !runner::run(&arguments, &cases) {
        std::process::exit(101);
    }
}
