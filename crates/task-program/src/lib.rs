//! The programs that come with Tailbound for domains: `own-tasks`, and the routes of a description
//! ([`RouteService`]).
//!
//! `own-tasks` carries out the own tasks of a domain as the description has them.
//!
//! Each task has a thread. A task with a clock is released by its arrivals, drawn from the description's seed as the
//! simulation draws them; a released task by each message of its topic. A job reads the newest message of each of its topics, works for its
//! execution time (CPU time of its thread), and publishes. The task of a route passes messages on instead. What each job read and published goes to a log
//! ([`tailbound_job_log`]), so that the age of data at the end of a chain is measured.
//!
//! Tasks of one domain run in the order that the kernel gives threads of one priority: first come, first served, under a
//! reservation with fixed priorities.

mod epoch;
mod plan;
mod player;
mod route_plan;
mod route_service;
mod routes;
#[cfg(test)]
mod tests;
mod transports;

use std::io;

use tailbound_pubsub::TransportError;
use tailbound_pubsub::routes::{RouteError, RouterError};
use tailbound_simulator::workload::WorkloadError;

pub use epoch::epoch;
pub use plan::{PlannedTopic, ProgramPlan, ProgramTask};
pub use player::{PlayedTask, play};
pub use route_plan::{RouteChoice, RoutePlan};
pub use route_service::RouteService;
pub use tailbound_pubsub::routes::{PassageCounters, RouteStatus};

/// Why the program does not run.
#[derive(Debug, thiserror::Error)]
pub enum OwnTaskError {
    /// A domain that has nothing for it.
    #[error("domain `{domain}`: {reason}")]
    Domain {
        /// The domain.
        domain: String,
        /// The reason, with a remedy.
        reason: String,
    },
    /// A topic that was not opened.
    #[error("topic `{topic}`: {source}")]
    Topic {
        /// The topic.
        topic: String,
        /// The reason.
        source: TransportError,
    },
    /// A topic over a transport that this program does not have.
    #[error("topic `{topic}`: this program has no transport `{transport}`: {remedy}")]
    Transport {
        /// The topic.
        topic: String,
        /// The transport.
        transport: &'static str,
        /// What to build with, or to write.
        remedy: String,
    },
    /// Routes that are not there.
    #[error("{reason}")]
    NoRoute {
        /// The reason, with the routes that are there.
        reason: String,
    },
    /// Routes that cannot be in force together.
    #[error(transparent)]
    Table(#[from] RouteError),
    /// Routes that do not run.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// Jobs that cannot be drawn.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The kernel refused.
    #[error("cannot {attempt}: {source}")]
    Host {
        /// What was tried.
        attempt: &'static str,
        /// The reason.
        source: io::Error,
    },
}
