//! A loop that uses all the CPU time it can get.

use std::sync::atomic::{AtomicBool, Ordering};

/// Uses the CPU until `stop` is true; returns how many rounds it made.
pub fn run(stop: &AtomicBool) -> u64 {
    let mut rounds = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for step in 0..10_000_u64 {
            rounds = std::hint::black_box(rounds.wrapping_add(step & 1));
        }
    }
    rounds
}
