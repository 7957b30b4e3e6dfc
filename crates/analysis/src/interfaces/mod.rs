//! Resource interfaces.
