//! Schedules worked out by hand, by simulations from tick to tick, and by theorems.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod any_plan;
mod aperiodic;
mod by_event;
mod fifo_server;
mod flat;
mod guests;
mod hierarchy;
mod host;
mod host_examples;
mod host_properties;
mod host_scenarios;
mod locks;
mod one_queue;
mod plans;
mod processors;
mod reservation_servers;
mod shared_budget;
mod stalls;
mod theorems;
mod traces;
mod unequal_speeds;
mod users;
