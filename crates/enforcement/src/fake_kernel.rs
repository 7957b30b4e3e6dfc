//! A kernel in memory, for tests.
