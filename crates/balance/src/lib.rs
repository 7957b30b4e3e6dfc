//! Division of CPU time among applications that can serve less.
//!
//! An application with a service level reports a matching value: near zero its capacity matches its level, above zero the
//! capacity is abundant, below zero too little. [`CapacityRule`] turns these values into capacities, after Klein and others,
//! "Resource Management for Service Level Aware Cloud Applications" (REACTION 2013), equation 3, with corrections that
//! its page describes.
//!
//! - [`BalanceTable`] is the table `[balance]` of a description, [`BalancePlan`] the table with the reservations that it refers to;
//! - [`report`] reads an application's report from bytes, [`MatchingValue`] is the outcome;
//! - [`CapacityRule`] divides; [`division`] makes sums exact;
//! - [`simulation`] plays the rule against modelled applications.
//!
//! Nothing here has a clock, a socket or a file.

pub mod division;
mod level_controller;
mod matching_value;
mod plan;
mod queue_model;
pub mod report;
mod rule;
pub mod simulation;
mod source;
mod table;
mod table_check;

pub use level_controller::LevelController;
pub use matching_value::{FULL_NEED_LEVEL, HoldReason, MatchingValue};
pub use plan::{BalancePlan, BalancedDomain, PlannedApplication};
pub use report::LevelReport;
pub use rule::{CapacityRule, CapacityTerms, RESERVE, RuleError};
pub use source::{SourceAddress, SourceAddressError};
pub use table::{BalanceTable, BalancedApplication, LoadPhase, PhaseReport, SimulatedApplication};
