//! Scheduling policies and affinity of threads.
