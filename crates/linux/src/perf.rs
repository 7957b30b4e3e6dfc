//! Perf software events: counting and overflow of CPU time.
