//! What every request waited for.
//!
//! The requests come from the load generator, whose clock the kernel's events share. One pass over the events keeps the
//! state of the host and, of the threads that serve connections, what they did in the latest past. A request whose reply
//! has come is split by the log of its thread: before it was taken up, the thread worked for others, was
//! kept from running, or was idle while bytes were on their way; then it worked for the request, until the reply was with
//! the kernel; the rest is the way back. Memory holds 8 bytes for each request, and nothing that grows with the events.

mod bands;
mod calls;
mod cause;
mod conversation;
mod course;
mod domain_supply;
mod explanation;
mod host;
mod jobs;
mod pass;
mod service_log;
mod split;
mod stalls;
mod subject;
mod thread_log;

#[cfg(test)]
mod tests;

pub use bands::{DEFAULT_QUANTILES, PICTURED_QUANTILES};
pub use cause::LatencyCause;
pub(crate) use domain_supply::WithheldDomain;
pub use explanation::{CourseStretch, Explanation, LatencyPart, QuantileBand, SlowRequest};
pub use pass::{ExplainOptions, explain};
pub use service_log::{ServiceActivity, SimulatedService};
pub use stalls::{CpuStall, Stalls};
