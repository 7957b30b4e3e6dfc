//! Memory that a thread uses again and again.

/// How much: more than the first-level data caches of today's CPUs, less than the second-level ones.
pub const WORKING_SET_BYTES: usize = 64 * 1024;
/// The distance between cache lines on the CPUs that Linux runs on, or a part of it.
const LINE_BYTES: usize = 64;

/// A working set of [`WORKING_SET_BYTES`].
pub(super) struct WorkingSet(Vec<u8>);

impl WorkingSet {
    pub(super) fn new() -> Self {
        Self(vec![1; WORKING_SET_BYTES])
    }

    /// Reads and writes every line.
    pub(super) fn use_all(&mut self) {
        for line in self.0.chunks_mut(LINE_BYTES) {
            line[0] = line[0].wrapping_add(1);
        }
        std::hint::black_box(&mut self.0);
    }
}
