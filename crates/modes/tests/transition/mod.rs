//! Transitions without a manager: scripts with all that comes of them, and what holds at every instant of
//! random ones.

mod properties;
mod scenarios;
mod words;
mod world;
