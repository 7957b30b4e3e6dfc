//! Processes: listing threads, children that die with us, signals.
