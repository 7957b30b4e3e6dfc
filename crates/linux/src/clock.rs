//! The kernel's clocks, and sleeping on them.
