//! The rules, one in each file.

pub(crate) mod burstable;
pub(crate) mod constant_bandwidth;
pub(crate) mod deferrable;
pub(crate) mod periodic;
pub(crate) mod polling;
pub(crate) mod posix_sporadic;
pub(crate) mod shared_budget;
pub(crate) mod soft_constant_bandwidth;
pub(crate) mod sporadic;
pub(crate) mod windows;
