//! Pinned real-time threads of our own.
