//! `ds-freeze`: a deferrable server for whole process groups, on stock kernels.
//!
//! One thread per CPU ([`CpuManager`], SCHED_FIFO 98, pinned there) serves all domains of that
//! CPU. Each domain is a cgroup v2 whose threads have fixed priorities below the manager's. At
//! every point of a domain's fixed grid the manager gives it a full budget; when the budget is
//! used up it stops the whole cgroup through `cgroup.freeze` until the next point. A performance
//! event that counts the cgroup's CPU time on that CPU wakes the manager at the moment of
//! depletion, so it wakes about twice a period; without the event it polls.
//!
//! The policy is the deferrable server of the thesis (section 4.1), and lives in [`server`] as a
//! state machine without a kernel. What a manager sees is kept in a [`ledger`] that can be read
//! at any time without holding the manager up; a [`heartbeat`] in shared memory tells a watchdog
//! in another process that the manager is alive. The measurements behind these choices are in
//! docs/decisions/0001-ds-freeze.md.

mod allowance;
mod budget_seqlock;
pub mod error;
pub mod heartbeat;
pub mod ledger;
pub mod manager;
mod pace;

mod domain;
mod histogram;
mod mailbox;
mod service_loop;

pub use domain::{LONGEST_BOOST, SMALLEST_BUDGET, ServedDomain};
pub use error::ManagerError;
pub use heartbeat::{Heartbeat, HeartbeatRow, Liveness, ManagerPulse, WatchdogView};
pub use histogram::DurationCounts;
pub use ledger::{KEPT_PERIODS, LateEdges, LedgerSnapshot, STALL, WindowTotals};
pub use manager::{CpuManager, Detection, ManagerOptions, ManagerSummary};
pub use tailbound_analysis::admission::RealTimeLimit;
pub use tailbound_reservation::metered_server::{ChangeAt, ClosedPeriod, StopLead};
