//! Theory against oracles that share nothing with it, against simulations and against published values.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod admission;
mod backlog_equivalence;
mod continuous_queue;
mod deadlines;
mod golden;
mod golden_settings;
mod golden_simulation;
mod interfaces;
mod interfaces_multiprocessor;
mod least_budget;
mod mode_change;
mod mode_change_cases;
mod reference;
mod response_time;
mod schedulability;
mod simulated_response_times;
mod slotted_constant_bandwidth;
mod slotted_load;
mod slotted_polling;
mod slotted_thesis;
mod synthetic_service;
mod transitions;
mod varying_periodic;
mod virtualization_agnostic;
mod without_preemption;
