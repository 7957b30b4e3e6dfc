//! Locking memory.
