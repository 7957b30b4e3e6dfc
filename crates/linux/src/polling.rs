//! Readiness of file descriptors with nanosecond timeouts.
